/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Everything a run may set, and what the versions of BFS do differently. The defaults are 0.311 of
 * October 2009, but for its slips: see below.
 */
#pragma once

#include "tiltyard/arith.h"
#include "tiltyard/kernel.h"

/* Which BFS: 311 is 0.311. See the questions at the end of this file. */
const volatile u32 version = 311;

/* Length of a slice in ms, and the unit of all deadlines. */
const volatile u32 rr_interval = 6;
/* Longer slices on more CPUs, as BFS sets itself up on machines with several. */
const volatile bool rr_scaling = true;
/* Share of all CPUs that isochronous tasks may have, in percent. */
const volatile u32 iso_cpu = 70;
/* sched_ext passes no SCHED_ISO: tasks whose name begins with "iso-" are isochronous. */
const volatile bool iso_by_name = true;

/* Woken tasks preempt; false: they go to an idle CPU or wait. */
const volatile bool wakeup_preemption = true;
/* The deadline of a task seems later to CPUs far from the one where it ran last; or it sticks. */
const volatile bool cache_distance = true;
/* Of the idle CPUs a woken task gets the best one; false: the first one from its last CPU on. */
const volatile bool rank_idle = true;
/* The nearest nodes that count as near: Linux 2.6.31 puts so many into its domain of nodes. */
const volatile u32 near_nodes = 16;

/*
 * Slips of 0.311, which its comments or later versions correct.
 *
 * The CPU's copies of slice, deadline and priority stay as they are when the same task is chosen
 * again: others compare with the old deadline, and the task is refilled at every tick.
 */
const volatile bool stale_copy = false;
/* A woken task that is not SCHED_NORMAL makes a CPU that runs an equal one choose again. */
const volatile bool equals_preempt = false;
/* Distances are numbers of ms, which are added to deadlines in jiffies (from 0.350 on, ns). */
const volatile bool distance_ms = false;
/* A sample without any time is charged half a jiffy: protection against clocks that stand still. */
const volatile bool charge_still_clock = false;

/* The guard: a task that has waited this long goes first. 0: none. */
const volatile u64 starve_limit_ms = 0;

/* CONFIG_HZ. */
const volatile u32 tick_hz = 1000;
/* Number of CPUs and of NUMA nodes. */
const volatile u32 nr_cpu_ids = 0;
const volatile u32 nr_nodes = 1;

/* Versions ------------------------------------------------------------------------------ */

/* sched_yield() gives up the slice, and with it the deadline. */
static __always_inline bool yield_refills(void)
{
	return version < 316;
}

/* Of tasks whose deadline has passed the first in the queue runs, not the most overdue. */
static __always_inline bool expired_are_fifo(void)
{
	return version <= 316;
}

/* Deadlines in ns, slices in units of 1024 ns, ratios of 128; before: jiffies, us, 100. */
static __always_inline bool has_niffies(void)
{
	return version >= 350;
}

/* With less than this left a slice is over, in its units. */
static __always_inline s64 slice_min(void)
{
	return version >= 350 ? 100 : 1;
}

/* A slice that ends before the next tick ends at this one if that is nearer. */
static __always_inline bool dithers(void)
{
	return version >= 350;
}

/* SCHED_BATCH gets a new slice and a new deadline whenever it leaves the CPU. */
static __always_inline bool batch_refills(void)
{
	return version >= 350;
}

/* Shortest slice that a fork cuts in two: shorter ones are given up. 0: every one is cut. */
static __always_inline s64 fork_min(void)
{
	return version >= 350 ? 200 : 0;
}

/* What is left of a child's first slice goes back to its parent. */
static __always_inline bool exit_returns(void)
{
	return version < 350;
}

/* A woken task has to be earlier than the other's deadline itself, whatever the distance;
 * SCHED_IDLE does not preempt. */
static __always_inline bool preempts_by_raw_deadline(void)
{
	return version >= 350;
}

/* The task that ran on a CPU before the present one is near to it, wherever it ran since. */
static __always_inline bool remembers_last_task(void)
{
	return version >= 350 && version < 464;
}

/* Instead of distances: a task that had to leave its CPU sticks to it, one task to each CPU. */
static __always_inline bool sticks(void)
{
	return version >= 464 && cache_distance;
}

/* Other neighbours count when an idle CPU is chosen. */
static __always_inline bool ranks_as_sticky(void)
{
	return version >= 464;
}

/* A preempted task makes an idle CPU look. */
static __always_inline bool requeue_wakes_idle(void)
{
	return version >= 350;
}

/* rr_interval on so many CPUs. */
static __always_inline u32 scaled_rr(u32 cpus)
{
	if (!rr_scaling)
		return rr_interval;
	if (version >= 330)
		return cpus > 1 ? rr_interval * (4 * cpus + 4) / (cpus + 6) : rr_interval;
	return rr_interval * bit_length(cpus);
}
