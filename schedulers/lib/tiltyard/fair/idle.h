/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Idle CPUs: one near another CPU, one anywhere, and whether whole cores are idle.
 */
#ifndef __LIB_FAIR_IDLE_H
#define __LIB_FAIR_IDLE_H

#include "load.h"

/* Whether all CPUs that share a core with @cpu are idle, itself included. Not static, nor is most
 * of what follows: see join_session(). */
__noinline int core_is_idle(u32 cpu)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	u32 sibling = cpu, n, nr = 0;

	bpf_for (n, 0, ring_size(LEVEL_SMT, cpu)) {
		nr += cpu_is_idle(sibling, idle);
		sibling = ring_next(LEVEL_SMT, sibling);
	}
	scx_bpf_put_idle_cpumask(idle);
	return nr == ring_size(LEVEL_SMT, cpu);
}

/* The first idle CPU that @p may use, of the core or cache (@kind) from @cpu on. */
__noinline int idle_cpu_from(struct task_struct *p __arg_trusted, u32 cpu, u32 kind)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	u32 ring = kind == LEVEL_SMT ? LEVEL_SMT : LEVEL_MC, n;
	s32 found = -1;

	bpf_for (n, 0, ring_size(ring, cpu)) {
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && cpu_is_idle(cpu, idle)) {
			found = cpu;
			break;
		}
		cpu = ring_next(ring, cpu);
	}
	scx_bpf_put_idle_cpumask(idle);
	return found;
}

/* Of all idle CPUs that @p may use the one that has idled longest; -1: none. */
__noinline int longest_idle(struct task_struct *p __arg_trusted)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	u64 first_ns = ~0ULL;
	s32 found = -1;
	u32 cpu;

	bpf_for (cpu, 0, nr_cpus) {
		u64 since_ns = READ_ONCE(cpu_state(cpu)->idle_since_ns);

		if (since_ns >= first_ns || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ||
		    !cpu_is_idle(cpu, idle))
			continue;
		first_ns = since_ns;
		found = cpu;
	}
	scx_bpf_put_idle_cpumask(idle);
	return found;
}

/* A CPU goes idle: if its siblings are too, its cache has an idle core. */
static __noinline void note_idle_core(u32 cpu)
{
	struct fair_cpu *of_cache = cpu_state(ring_first(LEVEL_MC, cpu));
	u32 next = ring_next(LEVEL_SMT, cpu), n;

	if (!smt_present || READ_ONCE(of_cache->has_idle_cores))
		return;
	bpf_for (n, 1, ring_size(LEVEL_SMT, cpu)) {
		if (!is_idle(next))
			return;
		next = ring_next(LEVEL_SMT, next);
	}
	WRITE_ONCE(of_cache->has_idle_cores, true);
}

#endif
