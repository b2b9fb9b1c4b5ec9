/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Search of a least or most loaded CPU in a group of the machine: the whole, a node, a last-level
 * cache, a core. FreeBSD descends the tree of groups; the port takes all CPUs as equals.
 */
#pragma once

#include "tiltyard/descent.h"
#include "runq.h"

/* Load of one task in a search, and what the preferred CPU is spared: a quarter task. */
#define SEARCH_TASK   256
#define SEARCH_PREFER 64

/* Which CPUs are in question, beyond those of the group. */
enum search_mask {
	SEARCH_ALLOWED, /* the task may run there */
	SEARCH_UNTRIED, /* not tried yet by the CPU that steals */
	SEARCH_DONORS,	/* balancer: not yet a donor or receiver in this pass */
	SEARCH_TAKERS,	/* balancer: not yet refused by this donor */
};

struct search {
	/* The group: cpu's at level. */
	s32 cpu;
	u32 level;
	enum search_mask mask;
	/* Most loaded with at least `limit` tasks; or least loaded with at most `limit`, where a
	 * task of min_pri would run at once (-1: any), less SEARCH_PREFER on CPU `prefer`. */
	bool highest;
	s32 limit;
	s32 min_pri;
	s32 prefer;
};

/* One for each CPU and one for the balancer, whose timer an interrupt on its CPU may interrupt. */
static struct descent searches[MAX_CPUS + 1];

/* FreeBSD's generator for ties. */
static u32 lcg_next(u32 *state)
{
	*state = *state * 69069 + 5;
	return *state >> 16;
}

/* Searches see each CPU at another moment: what they read has its partners in book_set() and in the
 * CPU's own callbacks (ule.bpf.c), and may be wrong by the time it is used. */

/* Tasks that could be moved off a CPU: queued ones that are not pinned. */
static s32 transferable(struct ule_cpu *c)
{
	return READ_ONCE(c->load) - READ_ONCE(c->pinned) - READ_ONCE(c->runs_free);
}

/* Whether a task may run on a CPU; most may run on all, and need no look at their mask. */
static bool allowed(const struct task_struct *p, s32 cpu)
{
	return p->nr_cpus_allowed >= nr_cpus || bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/* Whether CPU @cpu is one of those in question. */
static bool in_mask(struct search *q, struct task_struct *p, s32 cpu, struct ule_cpu *c)
{
	switch (q->mask) {
	case SEARCH_ALLOWED:
		return p && allowed(p, cpu);
	case SEARCH_UNTRIED:
		return !(cpu_ctx(q->cpu)->tried[(cpu & (MAX_CPUS - 1)) / 64] & 1ULL << (cpu & 63));
	case SEARCH_DONORS:
		return c->donor;
	case SEARCH_TAKERS:
		return c->taker;
	}
	return true;
}

static __noinline bool search_eligible(struct search *q, struct task_struct *p, s32 cpu,
				       struct ule_cpu *c)
{
	if (!in_mask(q, p, cpu, c))
		return false;
	if (q->highest)
		return (s32)READ_ONCE(c->load) >= q->limit && policy_may_ask(c);
	return (s32)READ_ONCE(c->lowpri) > q->min_pri && (s32)READ_ONCE(c->load) <= q->limit;
}

/* The CPU that @q asks for, for task @p or NULL; -1 if there is none. */
static __noinline s32 search(struct search *q, struct task_struct *p)
{
	bool balancing = q->mask == SEARCH_DONORS || q->mask == SEARCH_TAKERS;
	u32 self = bpf_get_smp_processor_id() & (MAX_CPUS - 1);
	struct descent *d = &searches[balancing ? MAX_CPUS : self];
	u32 level = q->level & (NR_TOPO - 1), leaf = par.flat_search ? level : TOPO_CORE;
	const struct topo_span *span = &topo_of(&topo, q->cpu)->span[level];
	struct ule_cpu *here = cpu_ctx(self);
	u32 i;

	descent_begin(d, level, leaf, q->highest);
	bpf_for (i, span->first, span->end) {
		s32 noise = search_noise ? lcg_next(&here->lcg) % search_noise : 0;
		s32 cpu = topo_at(&topo, i);
		struct ule_cpu *c = cpu_ctx(cpu);
		s32 load = READ_ONCE(c->load) * SEARCH_TASK;

		/* Of several idle CPUs the preferred one is below the others. */
		if (!q->highest && cpu == q->prefer)
			load -= SEARCH_PREFER;
		descent_offer(d, load, search_eligible(q, p, cpu, c) ? cpu : -1, load - noise);
		descent_close(d, &topo, cpu);
	}
	return descent_best(d);
}
