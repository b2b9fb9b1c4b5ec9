/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a new task begins: in the group of CPUs with the most idle ones; if none idles, with the
 * least load.
 */
#pragma once

#include "../idle.h"
#include "stats.h"

/* Groups compared for a new task. A CPU's own. */
struct placing {
	struct group_stats local, idlest, stats;
	s32 index; /* of the idlest of the other groups, -1: there is none */
} __attribute__((aligned(64)));

static struct placing placings[MAX_CPUS];

static __always_inline struct placing *this_placing(void)
{
	return &placings[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
}

/* Is group @s a better place than @than? */
static __always_inline bool is_idler(const struct group_stats *s, const struct group_stats *than)
{
	if (s->type != than->type)
		return s->type < than->type;
	if (s->type == GROUP_OVERLOADED || s->type == GROUP_FULLY_BUSY)
		return s->avg < than->avg;
	if (s->type != GROUP_HAS_SPARE)
		return false;
	if (s->nr_idle != than->nr_idle)
		return s->nr_idle > than->nr_idle;
	return s->util < than->util;
}

/* Whether a new task stays in its CPU's own group rather than go to the idlest of the others, which
 * is of the same type. */
static __noinline bool stays(const struct placing *x, u32 cpu, u32 level)
{
	const struct group_stats *local = &x->local, *idlest = &x->idlest;
	const struct cpu_domain *d = domain(cpu, level);
	u32 pct = domain_pct(d), allowance;
	u64 tolerated;

	if (local->type == GROUP_HAS_SPARE) {
		if (local->nr_idle >= idlest->nr_idle)
			return true;
		if (d->kind != LEVEL_NUMA)
			return false;
		allowance = min_of(numa_allowance(cpu, level), local->nr_allowed);
		return numa_tolerates(idlest->nr_idle - local->nr_idle, local->nr_running + 1,
				      allowance);
	}
	if (local->type != GROUP_OVERLOADED && local->type != GROUP_FULLY_BUSY)
		return true;
	tolerated = (u64)NICE_0_WEIGHT * (pct - 100) / 100;
	if (d->kind == LEVEL_NUMA && idlest->avg + tolerated >= local->avg)
		return true;
	return idlest->avg >= local->avg + tolerated || 100 * local->avg <= pct * idlest->avg;
}

/* Counts the CPUs of a group for task p. */
static __always_inline void count_for_new(struct task_struct *p, u32 index, u32 pct)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	const struct cpu_group *g = cpu_group(index);
	struct group_stats *s = &this_placing()->stats;
	u32 n;

	__builtin_memset(s, 0, sizeof(*s));
	bpf_for (n, 0, g->nr) {
		u32 cpu = member(g, n);

		count_room(s, cpu);
		count_cpu(s, cpu, idle);
		s->nr_allowed += bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
	}
	scx_bpf_put_idle_cpumask(idle);
	s->type = classify(g, s, false, pct);
	if (s->type == GROUP_OVERLOADED || s->type == GROUP_FULLY_BUSY)
		s->avg = load_per_capacity(s);
}

/* Compares a group of @cpu's domain with those before. Not static: see join_session(). */
__noinline int consider_group(struct task_struct *p __arg_trusted, u32 cpu, u32 index, u32 pct)
{
	struct placing *x = this_placing();

	count_for_new(p, index, pct);
	if (!x->stats.nr_allowed)
		return 0;
	if (group_has(cpu_group(index), cpu)) {
		x->local = x->stats;
	} else if (x->index < 0 || is_idler(&x->stats, &x->idlest)) {
		x->idlest = x->stats;
		x->index = index;
	}
	return 0;
}

__noinline int idlest_group(struct task_struct *p __arg_trusted, u32 cpu, u32 level)
{
	struct cpu_domain *d = domain(cpu, level);
	struct placing *x = this_placing();
	u32 pct = domain_pct(d), n;

	x->index = -1;
	x->local.nr_allowed = 0;
	bpf_for (n, 0, d->nr)
		consider_group(p, cpu, group_index(d, n), pct);
	if (x->index < 0 || !x->local.nr_allowed)
		return x->index;
	if (x->local.type != x->idlest.type)
		return x->local.type < x->idlest.type ? -1 : x->index;
	return stays(x, cpu, level) ? -1 : x->index;
}
