/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Search of a least or most loaded CPU in a group of the machine: the whole, a node, a last-level
 * cache, a core.
 *
 * FreeBSD descends a tree: at each level the child with the least (most) load that contains an
 * eligible CPU. Here each group is a range of the topology's order; one pass over the range closes
 * the groups inside as they end, and hands each one's best CPU and load to its parent.
 */
#ifndef __ULE_SEARCH_H
#define __ULE_SEARCH_H

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
	/* The group: @cpu's at @level. */
	s32 cpu;
	u32 level;
	enum search_mask mask;
	/* Most loaded with at least `limit` tasks; or least loaded with at most `limit`, where a
	 * task better than min_pri would run next, less SEARCH_PREFER on CPU `prefer`. */
	bool highest;
	u32 limit;
	u32 min_pri;
	s32 prefer;
};

/* Best CPU of a group so far. */
struct search_best {
	u32 load_sum;
	s32 cpu;
	/* Load of the child it came from, and its own load less a random tie breaker. */
	u32 load;
	u32 key;
};

/* A search under way: the group that is open at each level. In memory and not on the stack,
 * because the verifier would follow each value it can take. One for each CPU and one for the
 * balancer, whose timer an interrupt on its CPU may interrupt. */
struct search_state {
	struct search_best best[NR_TOPO];
};

static struct search_state searches[MAX_CPUS + 1];

/* FreeBSD's generator for ties. */
static u32 lcg_next(u32 *state)
{
	*state = *state * 69069 + 5;
	return *state >> 16;
}

/* Searches see each CPU at another moment: what they read has its partners in load_set() and in the
 * CPU's own callbacks (ule.bpf.c), and may be wrong by the time it is used. */

/* Tasks that could be moved off a CPU: queued ones. */
static u32 transferable(struct ule_cpu *c)
{
	return READ_ONCE(c->load) - (READ_ONCE(c->running) ? 1 : 0);
}

/* Whether a task may run on a CPU; most may run on all, and need no look at their mask. */
static bool allowed(const struct task_struct *p, s32 cpu)
{
	return p->nr_cpus_allowed >= nr_cpus || bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

static __noinline bool search_eligible(struct search *q, struct task_struct *p, s32 cpu,
				       struct ule_cpu *c)
{
	struct ule_cpu *self;

	switch (q->mask) {
	case SEARCH_ALLOWED:
		if (!p || !allowed(p, cpu))
			return false;
		break;
	case SEARCH_UNTRIED:
		self = cpu_ctx(q->cpu);
		if (self->tried[(cpu & (MAX_CPUS - 1)) / 64] & 1ULL << (cpu & 63))
			return false;
		break;
	case SEARCH_DONORS:
		if (!c->donor)
			return false;
		break;
	case SEARCH_TAKERS:
		if (!c->taker)
			return false;
		break;
	}
	if (q->highest)
		return READ_ONCE(c->load) >= q->limit && policy_may_ask(c);
	return READ_ONCE(c->lowpri) > q->min_pri && READ_ONCE(c->load) <= q->limit;
}

/* A child with @load whose best eligible CPU is @cpu (-1: none), ties by @key. */
static void search_offer(struct search_best *best, bool highest, u32 load, s32 cpu, u32 key)
{
	s32 diff = load - best->load;

	best->load_sum += load;
	if (cpu < 0)
		return;
	if (!diff)
		diff = key - best->key;
	if (best->cpu < 0 || (highest ? diff > 0 : diff < 0)) {
		best->cpu = cpu;
		best->load = load;
		best->key = key;
	}
}

static void search_open(struct search_best *best)
{
	best->load_sum = 0;
	best->cpu = -1;
	best->load = 0;
	best->key = 0;
}

/* A group ends: it is a child of the level above. */
static __noinline void search_close(struct search_best *best, struct search_best *parent,
				    bool highest)
{
	search_offer(parent, highest, best->load_sum, best->cpu, best->key);
	search_open(best);
}

/* Closes the groups below @level that end with CPU @cpu, of rank @next - 1: the smallest first. */
static void search_step(struct search_best *best, bool highest, u32 level, s32 cpu, u32 next)
{
	const struct topo_span *span = topo_of(&topo, cpu)->span;

	if (level < TOPO_CORE && span[TOPO_CORE].end == next)
		search_close(&best[TOPO_CORE], &best[TOPO_LLC], highest);
	if (level < TOPO_LLC && span[TOPO_LLC].end == next)
		search_close(&best[TOPO_LLC], &best[TOPO_NODE], highest);
	if (level < TOPO_NODE && span[TOPO_NODE].end == next)
		search_close(&best[TOPO_NODE], &best[TOPO_ALL], highest);
}

static u32 search_load(struct search *q, s32 cpu, struct ule_cpu *c)
{
	u32 load = READ_ONCE(c->load) * SEARCH_TASK;

	if (!q->highest && cpu == q->prefer && load >= SEARCH_PREFER)
		load -= SEARCH_PREFER;
	return load;
}

/* The CPU that @q asks for, for task @p or NULL; -1 if there is none. */
static __noinline s32 search(struct search *q, struct task_struct *p)
{
	bool balancing = q->mask == SEARCH_DONORS || q->mask == SEARCH_TAKERS;
	u32 self = bpf_get_smp_processor_id() & (MAX_CPUS - 1);
	struct search_state *s = &searches[balancing ? MAX_CPUS : self];
	u32 level = q->level & (NR_TOPO - 1), leaf = par.flat_search ? level : TOPO_CORE;
	const struct topo_span *span = &topo_of(&topo, q->cpu)->span[level];
	struct ule_cpu *here = cpu_ctx(self);
	u32 i;

	bpf_for (i, 0, NR_TOPO)
		search_open(&s->best[i & (NR_TOPO - 1)]);
	bpf_for (i, span->first, span->end) {
		s32 cpu = topo_at(&topo, i);
		struct ule_cpu *c = cpu_ctx(cpu);
		u32 load = search_load(q, cpu, c);
		u32 noise = search_noise ? lcg_next(&here->lcg) % search_noise : 0;

		search_offer(&s->best[leaf], q->highest, load,
			     search_eligible(q, p, cpu, c) ? cpu : -1, load - noise);
		if (!par.flat_search)
			search_step(s->best, q->highest, level, cpu, i + 1);
	}
	return s->best[level].cpu;
}

/* Least loaded CPU of @cpu's group at @level where a task better than @min_pri runs next. */
static s32 search_lowest(s32 cpu, u32 level, struct task_struct *p, u32 min_pri, s32 prefer)
{
	struct search q = {
		.cpu = cpu,
		.level = level,
		.mask = SEARCH_ALLOWED,
		.limit = 0x7fffffff,
		.min_pri = min_pri,
		.prefer = prefer,
	};

	return search(&q, p);
}

/* Whether all CPUs that share a core with @cpu are idle. */
static bool core_idle(s32 cpu)
{
	const struct topo_span *core = &topo_of(&topo, cpu)->span[TOPO_CORE];
	u32 i;

	bpf_for (i, core->first, core->end) {
		if (READ_ONCE(cpu_ctx(topo_at(&topo, i))->lowpri) < PRI_MIN_IDLE)
			return false;
	}
	return true;
}

/* Clocks of two CPUs may differ by a tick. */
static u64 hz_since(u64 then, u64 now)
{
	return now > then ? now - then : 0;
}

#endif
