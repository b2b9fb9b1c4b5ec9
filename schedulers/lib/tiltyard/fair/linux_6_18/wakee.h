/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a task wakes up: near its waker's CPU or near its last one, on an idle CPU of the cache if
 * one is found. The busier the cache, the fewer CPUs are looked at.
 *
 * Not modelled: that a kernel thread bound to one CPU may stack its wakee there.
 */
#pragma once

#include "../idle.h"
#include "load.h"

/* Of a cache, kept by its first CPU: CPUs that a wakeup does not look at (SIS_UTIL). */
static u32 not_scanned[MAX_CPUS];

/*
 * @util: mean utilisation of the CPUs of @cpu's cache, of 1024. A wakeup looks at the fraction
 * 1 - (util * pct / 100)^2 of them: 10 of 16 if they are half used and @pct is 117.
 */
static __noinline void limit_scan(u32 cpu, u64 util, u32 pct)
{
	u32 first = ring_first(LEVEL_MC, cpu), size = llc_size(cpu);
	u64 used = util * util * pct * pct / (10000 * CAPACITY);
	u32 skip;

	if (used > CAPACITY)
		used = CAPACITY;
	skip = size - (CAPACITY - used) * size / CAPACITY;
	barrier_var(first);
	/* Partner: idle_cpu_of_cache(). */
	WRITE_ONCE(not_scanned[first & (MAX_CPUS - 1)], skip);
}

/* The load of task @i as its CPU's root queue sees it. No lock is held, so h_load cannot be used.
 */
static __noinline u64 load_in_root(u32 i)
{
	u64 load = READ_ONCE(entity(i)->pelt.load_avg);
	u32 q = READ_ONCE(entity(i)->queue), level;

	bpf_for (level, 0, MAX_DEPTH) {
		u32 owner = owner_of(q);

		if (!owner)
			break;
		load = load * READ_ONCE(entity(owner)->pelt.load_avg) /
		       (READ_ONCE(queue(q)->pelt.load_avg) + 1);
		q = entity(owner)->queue;
	}
	return load;
}

static __always_inline bool less_loaded(u32 wakee, u32 waker, u32 prev, u32 here, bool sync,
					u32 pct)
{
	u64 here_load = cpu_load(here), prev_load = cpu_load(prev), load = load_in_root(wakee);

	if (sync) {
		u64 leaving = load_in_root(waker);

		if (leaving > here_load)
			return true;
		here_load -= leaving;
	}
	here_load = (here_load + load) * 100 * room_of(prev);
	prev_load = less(prev_load, load) * (100 + (pct - 100) / 2) * room_of(here);
	return here_load < prev_load + sync;
}

static __always_inline bool wake_affine(u32 wakee, u32 waker, u32 prev, u32 here, bool sync,
					u32 pct)
{
	/* The waker is an interrupt on an idle CPU. */
	if (is_idle(here) && share_cache(here, prev))
		return !is_idle(prev);
	if (sync && nr_running(here) == 1)
		return true;
	if (is_idle(prev))
		return false;
	return less_loaded(wakee, waker, prev, here, sync, pct);
}

/* A wholly idle core of @target's cache, else an idle CPU of it; p may use it. */
__noinline int idle_core_of_cache(struct task_struct *p __arg_trusted, u32 target)
{
	u32 cpu = target, n;
	s32 beside = -1;

	bpf_for (n, 0, llc_size(target)) {
		cpu = ring_next(LEVEL_MC, cpu);
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (core_is_idle(cpu))
			return cpu;
		if (beside < 0)
			beside = idle_cpu_from(p, ring_first(LEVEL_SMT, cpu), LEVEL_SMT);
	}
	WRITE_ONCE(cpu_state(ring_first(LEVEL_MC, target))->has_idle_cores, false);
	return beside;
}

/* How many CPUs of @target's cache a wakeup looks at. */
static __always_inline u32 scanned(u32 target)
{
	u32 first = ring_first(LEVEL_MC, target);

	barrier_var(first);
	return llc_size(target) - READ_ONCE(not_scanned[first & (MAX_CPUS - 1)]);
}

/* The first idle CPU of those of @target's cache that are looked at and that p may use. */
__noinline int idle_cpu_of_cache(struct task_struct *p __arg_trusted, u32 target)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	u32 cpu = target, left = scanned(target), n;
	s32 found = -1;

	bpf_for (n, 0, llc_size(target)) {
		cpu = ring_next(LEVEL_MC, cpu);
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (!left--)
			break;
		if (cpu_is_idle(cpu, idle)) {
			found = cpu;
			break;
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	return found;
}

static __always_inline void born_on(u32 i, u32 cpu)
{
	WRITE_ONCE(past_of(i)->recent_cpu, cpu);
}

/* Where p was before, if that is idle and near @target. */
static __always_inline s32 idle_recent(struct task_struct *p, u32 target, u32 prev)
{
	struct task_past *past = past_of(slot_of(p));
	u32 recent = READ_ONCE(past->recent_cpu);

	WRITE_ONCE(past->recent_cpu, prev);
	if (recent == prev || recent == target || !share_cache(recent, target) ||
	    !bpf_cpumask_test_cpu(recent, p->cpus_ptr) || !is_idle(recent))
		return -1;
	return recent;
}

__noinline int idle_sibling(struct task_struct *p __arg_trusted, u32 target, u32 prev)
{
	bool idle_cores = false;
	s32 found;

	if (is_idle(target))
		return target;
	if (prev != target && share_cache(prev, target) && is_idle(prev))
		return prev;
	found = idle_recent(p, target, prev);
	if (found >= 0 || llc_size(target) == 1)
		return found < 0 ? target : found;
	if (smt_present) {
		idle_cores = READ_ONCE(cpu_state(ring_first(LEVEL_MC, target))->has_idle_cores);
		if (!idle_cores && share_cache(prev, target))
			found = idle_cpu_from(p, ring_first(LEVEL_SMT, prev), LEVEL_SMT);
		if (found >= 0)
			return found;
	}
	/* If hardly any CPU is idle, no search pays, not even for a core. */
	if (scanned(target))
		found = idle_cores ? idle_core_of_cache(p, target) : idle_cpu_of_cache(p, target);
	return found < 0 ? target : found;
}
