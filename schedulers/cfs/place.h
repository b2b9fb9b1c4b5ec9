/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a task runs: near its last CPU or near its waker if it wakes up, on the idlest CPU of the
 * idlest group if it is new.
 */
#pragma once

#include "load.h"

/* Why a task needs a CPU. sched_ext does not ask at exec. */
enum place_why { PLACE_WAKE, PLACE_FORK, PLACE_EXEC };

/* Wakers -------------------------------------------------------------------------------- */

/* The waker notes whom it wakes. Tasks that wake many different ones have many flips. */
static __noinline void record_wakee(u32 waker, u32 wakee, u64 tick)
{
	struct cfs_entity *e = entity(waker);

	if ((s64)(tick - e->flips_tick) > tick_hz) {
		e->flips >>= 1;
		e->flips_tick = tick;
	}
	if (e->last_wakee != wakee) {
		e->last_wakee = wakee;
		e->flips++;
	}
}

/* Is this one task waking many, each of which wakes several? They do not fit one cache. */
static __noinline bool wake_wide(u32 waker_flips, u32 wakee_flips, u32 size)
{
	u32 high = waker_flips, low = wakee_flips;

	if (high < low) {
		high = wakee_flips;
		low = waker_flips;
	}
	return low >= size && high >= low * size;
}

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
		/* Partners: cfs_cgroup_move() and follow_session() of the waker. */
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

/* An idle CPU near @target --------------------------------------------------------------- */

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
	struct cfs_cpu *cs = cpu_state(here);

	if (llc_size(here) == 1)
		return false;
	return !sis_avg_cpu || READ_ONCE(cs->avg_idle_ns) / 512 >= READ_ONCE(cs->scan_cost_ns);
}

static __always_inline void search_took(u32 here, u64 ns)
{
	struct cfs_cpu *cs = cpu_state(here);

	WRITE_ONCE(cs->scan_cost_ns, cs->scan_cost_ns + divide(ns - cs->scan_cost_ns, 8));
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

/* A CPU goes idle: if its siblings are too, its cache has an idle core. */
static __noinline void note_idle_core(u32 cpu)
{
	struct cfs_cpu *of_cache = cpu_state(ring_first(LEVEL_MC, cpu));
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

/* The idlest CPU of the idlest group ------------------------------------------------------ */

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
	struct cfs_domain *d = domain(cpu, level);
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

/* The CPU of a group that wakes fastest, or has gone idle last, or has the least load. */
__noinline int idlest_cpu(struct task_struct *p __arg_trusted, u32 index, u32 here)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	const struct cpu_group *g = cpu_group(index);
	u64 least = ~0ULL, latest_ns = 0;
	u32 fastest = UNKNOWN_LATENCY, n;
	s32 busy = here, found = -1;

	if (g->nr == 1)
		found = member(g, 0);
	bpf_for (n, 0, g->nr) {
		u32 cpu = member(g, n), latency;
		u64 since_ns, load;

		if (g->nr == 1)
			break;
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (cpu_is_idle(cpu, idle)) {
			latency = cpu_state(cpu)->exit_latency_us;
			since_ns = READ_ONCE(cpu_state(cpu)->idle_since_ns);
			if (latency < fastest ||
			    ((latency == UNKNOWN_LATENCY || latency == fastest) &&
			     since_ns > latest_ns)) {
				if (latency < fastest)
					fastest = latency;
				latest_ns = since_ns;
				found = cpu;
			}
		} else if (found < 0) {
			load = cpu_load(cpu);
			if (load < least || (load == least && cpu == here)) {
				least = load;
				busy = cpu;
			}
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	return found < 0 ? busy : found;
}

/* The highest level of @cpu that places tasks and has fewer than @size CPUs; its number plus 1. */
__noinline int placing_level(u32 cpu, u32 size)
{
	u32 found = 0, level;

	bpf_for (level, 0, MAX_LEVELS) {
		if (level >= nr_domains(cpu) || domain(cpu, level)->nr_cpus >= size)
			break;
		if (domain(cpu, level)->places)
			found = level + 1;
	}
	return found;
}

/* For a new task: from the widest level down, the idlest CPU of the idlest group. */
__noinline int place_new(struct task_struct *p __arg_trusted, u32 cpu, u32 prev)
{
	u32 level = placing_level(cpu, ~0U), found = prev, step;

	bpf_for (step, 0, 2 * MAX_LEVELS) {
		s32 index;

		if (!level)
			break;
		index = domain(cpu, level - 1)->places ? idlest_group(p, cpu, level - 1) : -1;
		if (index >= 0)
			found = idlest_cpu(p, index, cpu);
		if (index < 0 || found == cpu) {
			level--;
			continue;
		}
		/* On with the levels of that CPU which are smaller. */
		level = placing_level(found, domain(cpu, level - 1)->nr_cpus);
		cpu = found;
	}
	return found;
}

/* Wakeups --------------------------------------------------------------------------------- */

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

/* Is the wakee to be pulled to the waker's CPU? Only within a level that holds both. */
__noinline int pulled_to_waker(u32 i, u32 waker, u32 prev, u32 here, bool sync)
{
	u32 pct = 0, level;

	bpf_for (level, 0, MAX_LEVELS) {
		struct cfs_domain *d = domain(here, level);

		if (level >= nr_domains(here) || pct)
			break;
		if (d->places && domain_has(here, d, prev))
			pct = domain_pct(d);
	}
	return pct && here != prev && wake_affine(i, waker, prev, here, sync, pct);
}

static __noinline s32 place_wakee_near(struct task_struct *p, u32 i, u32 waker, u32 prev, bool sync)
{
	u32 here = bpf_get_smp_processor_id(), target = prev;
	s32 found;

	if (affine_wakeups && bpf_cpumask_test_cpu(here, p->cpus_ptr) &&
	    !(wide_wakeups && wake_wide(entity(waker)->flips, entity(i)->flips, llc_size(here))) &&
	    pulled_to_waker(i, waker, prev, here, sync))
		target = here;
	found = idle_sibling(p, target, prev);
	if (!overload_on_wakeup_bug && !is_idle(found)) {
		s32 other = longest_idle(p);

		if (other >= 0)
			found = other;
	}
	return found;
}
