/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Everything a run may set. The defaults are the profile `paper`: the figures that "The
 * Battle of the Schedulers" (USENIX ATC'18) gives for CFS. presets.toml has the others.
 */
#pragma once

#include "types.h"

/* Every task runs once in this time while there are at most nr_latency of them. */
const volatile u64 sched_latency_ns = 48000000;
/* Each task's part of the period when there are more. */
const volatile u64 min_granularity_ns = 6000000;
/* Lead in vruntime that a wakee needs to preempt. */
const volatile u64 wakeup_granularity_ns = 1000000;
const volatile u32 nr_latency = 8;

/*
 * Factor on the three times above by the number of online CPUs, eight at most:
 * 0 none, 1 1 + floor(log2(CPUs)), 2 CPUs.
 */
const volatile u32 scaling = 0;

/* How far behind min_vruntime a wakee may start: 0 not at all, 1 half of the latency, 2 all of it.
 */
const volatile u32 sleeper_credit = 1;
/*
 * A new task starts one slice behind min_vruntime, or at its parent's vruntime if that is later;
 * else at min_vruntime.
 */
const volatile bool start_debit = true;
/* A new task swaps places with its parent if that lets it run first. */
const volatile bool child_runs_first = false;
const volatile bool wakeup_preemption = true;
/* A preempted task is favoured when it had nr_latency runnable tasks or more in its queue. */
const volatile bool last_buddy = true;
/*
 * Linux 4.9 forgets to advance min_vruntime when a task goes to sleep; the next update of the
 * running one catches up. False is what 6.5 does.
 */
const volatile bool late_min_vruntime = false;

/* Features of kernels after 4.9, on in 6.1: ALT_PERIOD and BASE_SLICE of sched_slice(). */
const volatile bool alt_period = false;
const volatile bool base_slice = false;

/* Fairness between cgroups first, between tasks second. */
const volatile bool groups_on = true;
/* A session is a group while its tasks are in the root cgroup. */
const volatile bool autogroup = true;

/*
 * Balancing. Tolerated imbalance in percent, by kind of domain: SMT, MC, DIE, NUMA.
 */
const volatile u32 imbalance_pct[4] = {110, 117, 125, 125};
/* Looks for tasks: at ticks, and when a CPU runs dry. */
const volatile bool periodic_balance = true;
const volatile bool newidle_balance = true;
/* Time between balancing passes of an idle CPU: 0 as many ms as the domain has CPUs. */
const volatile u32 min_interval_ms = 0;
/* A busy CPU balances so many times less often. */
const volatile u32 busy_factor = 32;
/* Most tasks that one pass looks at. */
const volatile u32 nr_migrate = 32;
/* A task that ran so shortly ago has a warm cache; a CPU that idles for less does not look. */
const volatile u64 migration_cost_ns = 500000;
/* A kernel with CONFIG_PREEMPT moves one task at a time to a CPU that runs dry. */
const volatile bool newidle_one = false;
/* Running tasks are pushed to a CPU that has failed to get one. */
const volatile bool active_balance = true;
/* A wakee may be pulled to its waker's CPU; wakers of many are recognised. */
const volatile bool affine_wakeups = true;
const volatile bool wide_wakeups = true;
/* Idle CPUs are not looked for where that takes longer than CPUs are idle (the feature's name). */
const volatile bool sis_avg_cpu = true;

/* CONFIG_HZ. */
const volatile u32 tick_hz = 250;

/* Machines whose packages hold several nodes have no level of nodes: they have those by distance.
 */
const volatile bool numa_in_package = false;

/*
 * The bugs of "The Linux Scheduler: a Decade of Wasted Cores" (EuroSys 2016). 4.9 has the first
 * three; the last came with a CPU that was taken off line and on again. The ATC'18 paper compares
 * versions without "obvious bugs that were not intended as features" (its section 7). The first and
 * the third are what its section 2.1 describes.
 */
/* Groups are compared by their average load, not by that of their least loaded CPU. */
const volatile bool group_imbalance_bug = true;
/* Groups of all CPUs are built from the point of view of the first. */
const volatile bool group_construction_bug = false;
/* A wakee stays within its cache, although another one has idle CPUs. */
const volatile bool overload_on_wakeup_bug = true;
/* No levels above the node. */
const volatile bool missing_domains = false;

/* The three times after scaling. */
static u64 latency_ns, granularity_ns, wakeup_gran_ns;

static u32 scale_factor(u32 online)
{
	u32 n = online < 8 ? online : 8;

	if (scaling == 1)
		return bit_length(n);
	if (scaling == 2)
		return n;
	return 1;
}

static void scale_tunables(u32 online)
{
	u32 factor = scale_factor(online);

	latency_ns = sched_latency_ns * factor;
	granularity_ns = min_granularity_ns * factor;
	wakeup_gran_ns = wakeup_granularity_ns * factor;
}
