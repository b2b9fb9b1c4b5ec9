/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a task wakes up: at its waker's CPU or its last one, on an idle one of the cache if there
 * is any.
 */
#pragma once

#include "../idle.h"

/* Idle CPUs are not looked for where that takes longer than CPUs are idle (the feature's name). */
const volatile bool sis_avg_cpu = true;

/*
 * Is the waker's CPU, with the wakee's load on top, no busier than the wakee's last CPU? A sync
 * waker is about to sleep: its load does not count. @waker 0: an interrupt of an idle CPU.
 */
static __always_inline bool wake_affine(u32 wakee, u32 waker, u32 prev, u32 here, bool sync,
					u32 pct)
{
	u64 load = entity(wakee)->pelt.load_avg;
	s64 here_load = cpu_load(here), prev_load = cpu_load(prev);
	s64 here_eff = 100 * (s64)capacity_of(prev);
	s64 prev_eff = (100 + (pct - 100) / 2) * (s64)capacity_of(here);
	u32 g = entity(wakee)->group;

	if (sync) {
		s64 leaving = READ_ONCE(entity(waker)->pelt.load_avg);
		/* Partners: fair_cgroup_move() and follow_session() of the waker. */
		u32 of = READ_ONCE(entity(waker)->group);

		here_load += effective_load(queue_of(of, here), -leaving, -leaving);
		prev_load += effective_load(queue_of(of, prev), 0, -leaving);
	}
	if (here_load > 0) {
		here_eff *= here_load + effective_load(queue_of(g, here), load, load);
		prev_eff *= prev_load + effective_load(queue_of(g, prev), 0, load);
	}
	return here_eff <= prev_eff;
}

/* A core of the cache that is wholly idle: its first CPU, from @target on, that @p may use. */
__noinline int idle_core(struct task_struct *p __arg_trusted, u32 target)
{
	u32 n, cpu = target, first = ring_first(LEVEL_MC, target);

	if (!smt_present || !READ_ONCE(cpu_state(first)->has_idle_cores))
		return -1;
	bpf_for (n, 0, llc_size(target)) {
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && core_is_idle(cpu))
			return cpu;
		cpu = ring_next(LEVEL_MC, cpu);
	}
	WRITE_ONCE(cpu_state(first)->has_idle_cores, false);
	return -1;
}

/*
 * Whether idle times on @here are long enough for a search of its cache. Only searches renew the
 * average of what one costs: after a single long one, a CPU may never search again.
 */
static __always_inline bool search_pays(u32 here)
{
	struct fair_cpu *cs = cpu_state(here);

	if (llc_size(here) == 1)
		return false;
	return !sis_avg_cpu || READ_ONCE(cs->avg_idle_ns) / 512 >= READ_ONCE(cs->scan_cost_ns);
}

static __always_inline void search_took(u32 here, u64 ns)
{
	struct fair_cpu *cs = cpu_state(here);

	WRITE_ONCE(cs->scan_cost_ns, cs->scan_cost_ns + divide(ns - cs->scan_cost_ns, 8));
}

/* An idle CPU that shares the cache with @target, else @target. */
__noinline int idle_sibling(struct task_struct *p __arg_trusted, u32 target, u32 prev)
{
	u32 here = bpf_get_smp_processor_id();
	s32 found;

	if (is_idle(target))
		return target;
	if (prev != target && share_cache(prev, target) && is_idle(prev))
		return prev;
	if (llc_size(target) == 1)
		return target;
	found = idle_core(p, target);
	if (found < 0 && search_pays(here)) {
		u64 begin_ns = bpf_ktime_get_ns();

		found = idle_cpu_from(p, target, LEVEL_MC);
		search_took(here, bpf_ktime_get_ns() - begin_ns);
	}
	if (found < 0 && smt_present)
		found = idle_cpu_from(p, ring_first(LEVEL_SMT, target), LEVEL_SMT);
	return found < 0 ? target : found;
}

static __always_inline void born_on(u32 i, u32 cpu)
{
}
