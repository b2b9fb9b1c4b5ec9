/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a task runs: on its last CPU or on its waker's if it wakes up; on the idlest CPU of the
 * idlest node if it is new.
 */
#ifndef __LIB_LINUX26_PLACE_H
#define __LIB_LINUX26_PLACE_H

#include "domains.h"

/* A wakee may go to its waker's CPU, or an idle sibling of the CPU it goes to. */
const volatile bool wake_placement = true;

#define NOWHERE MAX_CPUS

/* New tasks ----------------------------------------------------------------------------- */

/* What a group weighs for a new task that comes from @cpu: its own one is guessed low. */
static __noinline u64 group_load(u32 kind, u32 group, bool own, u32 index, u64 tick)
{
	u32 cpu = group, n;
	u64 load = 0;

	bpf_for (n, 0, group_size(kind, group)) {
		load += own ? source_load(cpu, index, tick) : target_load(cpu, index, tick);
		cpu = group_next_cpu(kind, cpu);
	}
	return load * SCHED_LOAD_SCALE / group_power(kind, group);
}

/* Whether @p may run on a CPU of the group. */
static __noinline bool group_allowed(struct task_struct *p, u32 kind, u32 group)
{
	u32 cpu = group, n;

	bpf_for (n, 0, group_size(kind, group)) {
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return true;
		cpu = group_next_cpu(kind, cpu);
	}
	return false;
}

/* The group of @cpu's domain that has clearly less load than its own; NOWHERE: none. Not static,
 * nor are the others that take @p: see depart(). */
__noinline int idlest_group(struct task_struct *p __arg_trusted, u32 cpu, u32 level, u64 tick)
{
	const struct domain *d = domain(cpu, level);
	const struct domain_params *params = params_of(d);
	u32 kind = d->kind, own = group_of_cpu(kind, cpu), group = own, found = NOWHERE, n;
	u64 least = ~0ULL, own_load = 0;

	bpf_for (n, 0, nr_groups(kind, cpu)) {
		u64 load;

		if (group_allowed(p, kind, group)) {
			load = group_load(kind, group, group == own, params->forkexec_idx, tick);
			if (group == own) {
				own_load = load;
			} else if (load < least) {
				least = load;
				found = group;
			}
		}
		group = next_group(kind, cpu, group);
	}
	if (found == NOWHERE || 100 * own_load < (100 + (params->imbalance_pct - 100) / 2) * least)
		return NOWHERE;
	return found;
}

/* The CPU of the group with the least load; NOWHERE: @p may run on none. */
__noinline int idlest_cpu(struct task_struct *p __arg_trusted, u32 kind, u32 group)
{
	u32 at = group, found = NOWHERE, least = ~0U, n;

	bpf_for (n, 0, group_size(kind, group)) {
		u32 load = cpu_load(at);

		if (bpf_cpumask_test_cpu(at, p->cpus_ptr) && load < least) {
			least = load;
			found = at;
		}
		at = group_next_cpu(kind, at);
	}
	return found;
}

/* The level of @cpu's domain of this kind; MAX_LEVELS: it has none. */
static __noinline u32 level_of_kind(u32 cpu, u32 kind)
{
	u32 level;

	bpf_for (level, 0, MAX_LEVELS) {
		if (level >= nr_domains(cpu))
			break;
		if (domain(cpu, level)->kind == kind)
			return level;
	}
	return MAX_LEVELS;
}

/* sched_balance_self: where task @p, which is new or begins a program on @cpu, runs. @what: DO_FORK
 * or DO_EXEC; sched_ext does not ask at the latter. From the largest domain down, each time that of
 * the CPU found so far. */
static __noinline u32 place_new(struct task_struct *p, u32 cpu, u32 what, u64 tick)
{
	u32 step;

	bpf_for (step, 0, NR_KINDS) {
		u32 kind = NR_KINDS - 1 - step, level = level_of_kind(cpu, kind), group, to;

		if (level == MAX_LEVELS || !(domain_params[kind & (MAX_LEVELS - 1)].flags & what))
			continue;
		group = idlest_group(p, cpu, level, tick);
		if (group == NOWHERE)
			continue;
		to = idlest_cpu(p, kind, group);
		if (to != NOWHERE)
			cpu = to;
	}
	return cpu;
}

/* Wakees -------------------------------------------------------------------------------- */

/* The lowest level of @cpu that holds @other, too; MAX_LEVELS: none. */
static __noinline u32 level_with(u32 cpu, u32 other)
{
	u32 level;

	bpf_for (level, 0, MAX_LEVELS) {
		if (level >= nr_domains(cpu))
			break;
		if (domain_has(cpu, domain(cpu, level), other))
			return level;
	}
	return MAX_LEVELS;
}

/* Is task @i, woken on CPU @here, to run there and not on its last CPU? A sync waker is about to
 * sleep: its load does not count. */
static __noinline bool pulled_to_waker(u32 i, u32 prev, u32 here, bool sync, u64 tick)
{
	u32 level = level_with(here, prev), curr = READ_ONCE(cpu_rq(here)->curr);
	const struct domain_params *params = params_of(domain(here, level));
	u32 index = params->wake_idx, pct = 100 + (params->imbalance_pct - 100) / 2;
	u64 load, here_load, left;

	if (level == MAX_LEVELS)
		return false;
	load = source_load(prev, index, tick);
	here_load = target_load(here, index, tick);
	left = here_load;
	/* It wraps, as in Linux, if the load has just fallen. */
	if (sync && curr)
		left -= READ_ONCE(rq_task(curr)->load_weight);
	if (params->flags & DO_WAKE_AFFINE &&
	    ((left <= load && left + target_load(prev, index, tick) <= load_per_task(here)) ||
	     100 * (left + READ_ONCE(rq_task(i)->load_weight)) <= pct * load))
		return true;
	return params->flags & DO_WAKE_BALANCE && pct * here_load <= 100 * load;
}

/* An idle CPU of @cpu's core, if @cpu has a task and only one; else @cpu. Of idle CPUs the kernel
 * knows: theirs are not ours only. */
__noinline int idle_sibling(struct task_struct *p __arg_trusted, u32 cpu)
{
	const struct cpumask *idle;
	u32 at = ring_of(KIND_SMT)->first[cpu & (MAX_CPUS - 1)], found = cpu, n;

	if (!nr_domains(cpu) || !(params_of(domain(cpu, 0))->flags & DO_WAKE_IDLE) ||
	    nr_running(cpu) > 1)
		return cpu;
	idle = scx_bpf_get_idle_cpumask();
	bpf_for (n, 0, ring_of(KIND_SMT)->size[cpu & (MAX_CPUS - 1)]) {
		if (bpf_cpumask_test_cpu(cpu, idle))
			break;
		if (bpf_cpumask_test_cpu(at, idle) && bpf_cpumask_test_cpu(at, p->cpus_ptr)) {
			found = at;
			break;
		}
		at = ring_of(KIND_SMT)->next[at & (MAX_CPUS - 1)];
	}
	scx_bpf_put_idle_cpumask(idle);
	return found;
}

/* try_to_wake_up: where task @i, @p, runs, whose last CPU is @prev and which is woken here. */
static __noinline u32 place_wakee(struct task_struct *p, u32 i, u32 prev, bool sync, u64 tick)
{
	u32 here = bpf_get_smp_processor_id();

	if (!wake_placement)
		return prev;
	if (prev != here && bpf_cpumask_test_cpu(here, p->cpus_ptr) &&
	    pulled_to_waker(i, prev, here, sync, tick))
		prev = here;
	return idle_sibling(p, prev);
}

#endif
