/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Loads of CPUs: what is runnable now, and averages of what was at the last ticks. CPUs are looked
 * at without their locks, each at another moment, as in Linux.
 */
#ifndef __LIB_LINUX26_LOAD_H
#define __LIB_LINUX26_LOAD_H

#include "rq.h"

/* Load of one task of nice 0. */
#define SCHED_LOAD_SCALE 128
/* A realtime task's: more than that of any other. */
#define REALTIME_LOAD	 (8 * SCHED_LOAD_SCALE)
/* Ticks after which nothing is left of any load. */
#define MAX_MISSED_TICKS 64

/* Of the scheduler: number of CPU ids, and its clock of ticks. */
static u32 nr_cpus;
static __always_inline u64 tick_of(u64 now_ns);

static u32 nr_online;

/* Average @n, 0..2, after a tick: it goes 1/2^n of the way, rounded up when it rises. */
static __always_inline u32 average_after(u32 old, u32 load, u32 n)
{
	u32 most = (1U << n) - 1;

	return (old * most + load + (load > old ? most : 0)) >> n;
}

/* The same after @ticks of them. */
static __noinline u32 average_later(u32 old, u32 load, u32 n, u64 ticks)
{
	u32 k;

	bpf_for (k, 0, MAX_MISSED_TICKS) {
		if (k >= ticks)
			break;
		old = average_after(old, load, n);
	}
	return old;
}

/* Counts the ticks of @rq up to @tick. Linux ticks on idle CPUs, too; here those are made up for,
 * before the load changes. Lock held. */
static __noinline void update_cpu_load(struct runqueue *rq, u64 tick)
{
	u64 ticks = tick - rq->load_tick;
	u32 n;

	if (!ticks)
		return;
	WRITE_ONCE(rq->load_tick, tick);
	bpf_for (n, 0, 3) {
		u32 *average, k = n;

		barrier_var(k);
		if (k > 2)
			break;
		average = &rq->cpu_load[k];
		WRITE_ONCE(*average, average_later(*average, rq->raw_weighted_load, k, ticks));
	}
}

/* Average @index - 1 of @rq, as of now. */
static __always_inline u32 average_of(const struct runqueue *rq, u32 index, u64 tick)
{
	u32 n = index - 1, average;
	u64 missed;

	barrier_var(n);
	average = READ_ONCE(rq->cpu_load[n < 2 ? n : 2]);
	/* Of an idle CPU the ticks since it went idle have not been counted. */
	if (READ_ONCE(rq->nr_running) || !average)
		return average;
	missed = tick - READ_ONCE(rq->load_tick);
	return (s64)missed > 0 ? average_later(average, 0, n, missed) : average;
}

static __always_inline u32 other_load(const struct runqueue *rq)
{
	return READ_ONCE(rq->nr_other) * REALTIME_LOAD;
}

/* What is runnable on @cpu now. */
static __always_inline u32 cpu_load(u32 cpu)
{
	return READ_ONCE(cpu_rq(cpu)->raw_weighted_load) + other_load(cpu_rq(cpu));
}

static __always_inline u32 nr_running(u32 cpu)
{
	return READ_ONCE(cpu_rq(cpu)->nr_running) + READ_ONCE(cpu_rq(cpu)->nr_other);
}

/* A low guess of a CPU's load, for one that tasks may be taken from. @index 0: its load now. */
static __always_inline u32 source_load(u32 cpu, u32 index, u64 tick)
{
	const struct runqueue *rq = cpu_rq(cpu);
	u32 now = READ_ONCE(rq->raw_weighted_load), average;

	if (!index || !now)
		return now + other_load(rq);
	average = average_of(rq, index, tick);
	return (average < now ? average : now) + other_load(rq);
}

/* A high guess, for one that may get some. */
static __always_inline u32 target_load(u32 cpu, u32 index, u64 tick)
{
	const struct runqueue *rq = cpu_rq(cpu);
	u32 now = READ_ONCE(rq->raw_weighted_load), average;

	if (!index)
		return now + other_load(rq);
	average = average_of(rq, index, tick);
	return (average > now ? average : now) + other_load(rq);
}

static __always_inline u32 load_per_task(u32 cpu)
{
	u32 nr = nr_running(cpu);

	return nr ? cpu_load(cpu) / nr : SCHED_LOAD_SCALE;
}

#endif
