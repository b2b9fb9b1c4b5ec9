/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Everything a run may set. The defaults are the profile `paper`: the figures that "The
 * Battle of the Schedulers" (USENIX ATC'18) gives for CFS. presets.toml has the others.
 */
#pragma once

#include "tiltyard/fair/tunables.h"
#include "turn.h"

/* Every task runs once in this time while there are at most nr_latency of them. */
const volatile u64 sched_latency_ns = 48000000;
/* Each task's part of the period when there are more. */
const volatile u64 min_granularity_ns = 6000000;
/* Lead in vruntime that a wakee needs to preempt. */
const volatile u64 wakeup_granularity_ns = 1000000;
const volatile u32 nr_latency = 8;

/* Factor on the three times above by the number of online CPUs: see cpu_factor(). */
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

/* The three times after scaling. */
static u64 latency_ns, granularity_ns, wakeup_gran_ns;

static __always_inline void check_tunables(void)
{
	if (!sched_latency_ns || sched_latency_ns > NSEC_PER_SEC || !min_granularity_ns ||
	    min_granularity_ns > NSEC_PER_SEC || wakeup_granularity_ns > NSEC_PER_SEC)
		scx_bpf_error("cfs: sched_latency_ns=%llu min_granularity_ns=%llu "
			      "wakeup_granularity_ns=%llu; use 1..1000000000, the last one also 0",
			      sched_latency_ns, min_granularity_ns, wakeup_granularity_ns);
	if (!nr_latency || scaling > 2 || sleeper_credit > 2)
		scx_bpf_error("cfs: nr_latency=%u scaling=%u sleeper_credit=%u; use 1 or more, "
			      "0..2, 0..2",
			      nr_latency, scaling, sleeper_credit);
}

static void scale_tunables(u32 online)
{
	u32 factor = cpu_factor(&scaling, online);

	latency_ns = sched_latency_ns * factor;
	granularity_ns = min_granularity_ns * factor;
	wakeup_gran_ns = wakeup_granularity_ns * factor;
}
