/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a new task begins: in the group of CPUs with the least load.
 */
#pragma once

#include "../load.h"

/* Load per capacity of a group to which @p may go; -1: it may not. */
__noinline s64 group_load(struct task_struct *p __arg_trusted, u32 index, bool own)
{
	const struct cpu_group *g = cpu_group(index);
	u64 load = 0, capacity = 0;
	bool may = false;
	u32 n;

	bpf_for (n, 0, g->nr) {
		u32 cpu = member(g, n);

		load += own ? source_load(cpu, 0) : target_load(cpu, 0);
		capacity += capacity_of(cpu);
		may = may || bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
	}
	return may ? (s64)(load * CAPACITY / (capacity ?: 1)) : -1;
}

/* Which group of @cpu's domain at @level to go to; -1: its own one. */
__noinline int idlest_group(struct task_struct *p __arg_trusted, u32 cpu, u32 level)
{
	struct cpu_domain *d = domain(cpu, level);
	u32 tolerance = 100 + (domain_pct(d) - 100) / 2, n;
	u64 own = 0, least = ~0ULL;
	s32 idlest = -1;

	bpf_for (n, 0, d->nr) {
		u32 index = group_index(d, n);
		bool here = group_has(cpu_group(index), cpu);
		s64 load = group_load(p, index, here);

		if (load < 0)
			continue;
		if (here) {
			own = load;
		} else if ((u64)load < least) {
			least = load;
			idlest = index;
		}
	}
	if (100 * own < tolerance * least)
		return -1;
	return idlest;
}
