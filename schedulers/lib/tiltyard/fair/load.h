/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CPUs and loads as balancing sees them: tasks and capacity of CPUs, loads of tasks in groups. What
 * the load of a CPU is differs by version (version.h).
 *
 * Other CPUs are looked at without their locks, here and in all that uses this, as in Linux: each
 * at another moment. Partners are the updates under the lock, in the rule's headers and in
 * pelt_advance().
 */
#ifndef __LIB_FAIR_LOAD_H
#define __LIB_FAIR_LOAD_H

#include "../domains.h"
#include "group.h"
#include "tunables.h"
#include "turns.h"

#define UNKNOWN_LATENCY (~0U)

/* The kernel's clock of ticks. */
static __always_inline u64 tick_of(u64 now_ns)
{
	return now_ns / (NSEC_PER_SEC / tick_hz);
}

/* Runnable tasks of all classes. */
static __always_inline u32 nr_running(u32 cpu)
{
	return READ_ONCE(cpu_state(cpu)->nr_tasks) + READ_ONCE(cpu_state(cpu)->nr_other);
}

static __always_inline bool cpu_is_idle(u32 cpu, const struct cpumask *idle)
{
	return !nr_running(cpu) && bpf_cpumask_test_cpu(cpu, idle);
}

/* The same of one CPU, by a function of its own: see join_session(). */
__noinline int is_idle(u32 cpu)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool yes = cpu_is_idle(cpu, idle);

	scx_bpf_put_idle_cpumask(idle);
	return yes;
}

/* How much more load than the own one a group must have to be taken from, in percent. */
static __always_inline u32 domain_pct(const struct cpu_domain *d)
{
	return imbalance_pct[d->kind & 3];
}

/* Capacity ------------------------------------------------------------------------------ */

/* Other classes count half a second, halved after each. */
#define OTHER_PERIOD_NS 500000000ULL

/* What they leave of a CPU, in 1/1024. */
static __noinline u32 capacity_left(u64 other_avg, u64 since_ns)
{
	u64 used = other_avg / (OTHER_PERIOD_NS + since_ns);

	return used < CAPACITY ? CAPACITY - used : 1;
}

/* Halves what other classes have used for each period that has passed. Lock of the CPU held. */
static __noinline void age_other(struct fair_cpu *cs, u64 now_ns)
{
	u64 since_ns = less(now_ns, cs->other_stamp_ns);
	u64 periods = since_ns ? (since_ns - 1) / OTHER_PERIOD_NS : 0;

	cs->other_stamp_ns += periods * OTHER_PERIOD_NS;
	cs->other_avg = periods < 64 ? cs->other_avg >> periods : 0;
}

static __noinline void update_capacity(u32 cpu, u64 now_ns)
{
	struct fair_cpu *cs = cpu_state(cpu);
	u64 since_ns = less(now_ns, cs->other_stamp_ns), capacity;
	capacity = (u64)full_capacity(cpu) * capacity_left(cs->other_avg, since_ns) / CAPACITY;
	/* Partners: balancing on other CPUs. */
	WRITE_ONCE(cs->capacity, capacity ?: 1);
}

/* A task of another class takes @cpu from the one that has the turn. */
static __always_inline void begin_other(u32 cpu, u64 now_ns)
{
	cpu_state(cpu)->other_since_ns = now_ns;
	/* Partner: nr_running() on other CPUs. */
	WRITE_ONCE(cpu_state(cpu)->nr_other, 1);
}

static __noinline void end_other(u32 cpu, u64 now_ns)
{
	struct fair_cpu *cs = cpu_state(cpu);
	struct fair_lock *lk = cpu_lock(cpu);

	if (!cs->nr_other || !lk)
		return;
	WRITE_ONCE(cs->nr_other, 0);
	/* Partner: refresh_load() by a CPU that balances for this one. */
	bpf_spin_lock(&lk->lock);
	age_other(cs, now_ns);
	cs->other_avg += less(now_ns, cs->other_since_ns) * CAPACITY;
	update_capacity(cpu, now_ns);
	bpf_spin_unlock(&lk->lock);
}

static __noinline void init_cpus(u64 now_ns)
{
	u32 cpu;

	bpf_for (cpu, 0, nr_cpus) {
		struct fair_cpu *cs = cpu_state(cpu);

		cs->capacity = full_capacity(cpu);
		cs->other_stamp_ns = now_ns;
		cs->avg_idle_ns = 2 * migration_cost_ns;
		cs->max_idle_cost_ns = migration_cost_ns;
		cs->exit_latency_us = UNKNOWN_LATENCY;
	}
}

static __always_inline u32 capacity_of(u32 cpu)
{
	return READ_ONCE(cpu_state(cpu)->capacity);
}

/* Whether other classes leave noticeably less than all of @cpu. */
static __always_inline bool capacity_reduced(u32 cpu, u32 pct)
{
	return capacity_of(cpu) * pct < full_capacity(cpu) * 100;
}

static __always_inline u32 cpu_util(u32 cpu)
{
	u32 util = READ_ONCE(queue(queue_of(0, cpu))->pelt.util_avg), most = full_capacity(cpu);

	return util < most ? util : most;
}

/* Loads of tasks in groups -------------------------------------------------------------- */

/* What the load of queue @q counts in the root queue. Computed once a tick, from the root down. */
static __noinline void update_h_load(u32 q, u64 tick)
{
	u32 path[MAX_DEPTH], depth = 0, level, at = q;
	u64 load;

	bpf_for (level, 0, MAX_DEPTH) {
		path[level & (MAX_DEPTH - 1)] = at;
		depth = level;
		if (!queue(at)->group || queue(at)->h_load_tick == tick + 1)
			break;
		at = entity(owner_of(at))->queue;
	}
	if (queue(at)->h_load_tick != tick + 1) {
		queue(at)->h_load = queue(at)->pelt.load_avg;
		queue(at)->h_load_tick = tick + 1;
	}
	load = queue(at)->h_load;
	bpf_for (level, 0, MAX_DEPTH) {
		u32 child = path[(depth - 1 - level) & (MAX_DEPTH - 1)];

		if (level >= depth)
			break;
		load = load * entity(owner_of(child))->pelt.load_avg /
		       (queue(at)->pelt.load_avg + 1);
		queue(child)->h_load = load;
		queue(child)->h_load_tick = tick + 1;
		at = child;
	}
}

/* The load of task @i as its CPU's root queue sees it. */
static __noinline u64 task_h_load(u32 i, u64 tick)
{
	u32 q = entity(i)->queue;

	update_h_load(q, tick);
	return entity(i)->pelt.load_avg * queue(q)->h_load / (queue(q)->pelt.load_avg + 1);
}

#endif
