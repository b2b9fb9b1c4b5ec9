/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a task runs: near its last CPU or near its waker if it wakes up, on the idlest CPU of the
 * idlest group if it is new.
 */
#ifndef __LIB_FAIR_PLACE_H
#define __LIB_FAIR_PLACE_H

#include "idle.h"
#include "version.h"

/* Wakers -------------------------------------------------------------------------------- */

/* The waker notes whom it wakes. Tasks that wake many different ones have many flips. */
static __noinline void record_wakee(u32 waker, u32 wakee, u64 tick)
{
	struct fair_entity *e = entity(waker);

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

/* The idlest CPU of the idlest group ------------------------------------------------------ */

/* The CPU of a group that has gone idle last, or has the least load. */
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
			if (load < least || (HERE_IF_EQUAL && load == least && cpu == here)) {
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

/* Is the wakee to be pulled to the waker's CPU? Only within a level that holds both. */
__noinline int pulled_to_waker(u32 i, u32 waker, u32 prev, u32 here, bool sync)
{
	u32 pct = 0, level;

	bpf_for (level, 0, MAX_LEVELS) {
		struct cpu_domain *d = domain(here, level);

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

#endif
