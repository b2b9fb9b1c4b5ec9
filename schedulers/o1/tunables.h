/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a run may set; in Linux 2.6 all of it is compiled in. And what follows from it, in ticks.
 */
#pragma once

#include "tiltyard/kernel.h"

/* A slice at nice 0, and the shortest one. */
const volatile u32 def_timeslice_ms = 100;
const volatile u32 min_timeslice_ms = 5;
/* The bonus of a task that sleeps most: it spans so many of the 40 priorities, one at least. */
const volatile u32 max_bonus = 10;
/* Bonus beyond the middle that a task of nice 0 needs to be interactive. */
const volatile u32 interactive_delta = 2;
/* What a wait in the queue counts as sleep, in percent, if a task has been woken by another. */
const volatile u32 on_runqueue_weight = 30;
/* What is left of the bonus after a fork, in percent: of the child's, of the parent's. */
const volatile u32 child_penalty = 95;
const volatile u32 parent_penalty = 100;
/* The sleep average of a task whose child exits: so many parts its own, one part the child's. */
const volatile u32 exit_weight = 3;
/* Interactive tasks of the same priority take turns after so long, doubled for each bonus that they
 * lack, and times the number of CPUs. 0: they do not. */
const volatile u32 granularity_ms = 10;
/* Interactive tasks expire, too, when a task has been expired for so long, times the number of
 * runnable tasks. 0: never. */
const volatile u32 starvation_limit_ms = 1000;
/* At most for so long, however many tasks are runnable; 0: no limit, as in Linux. */
const volatile u32 starvation_cap_ms = 0;
/* Kernel threads of one CPU come before all others. Off, as in Linux: interactive tasks that fill
 * the CPU keep them out. */
const volatile bool kthreads_first = false;
/* A task that expires lets none of worse nice return to the active array. */
const volatile bool expired_outranks = true;
/* A new process runs before its parent. */
const volatile bool child_runs_first = true;

/* Sleep makes a priority better, and a task interactive. */
const volatile bool sleep_bonus = true;
/* How sleep counts: as in Linux 2.6.11, not 2.6.22. */
const volatile bool estimator_2611 = false;
/* A task that wakes up preempts one of worse priority. */
const volatile bool wakeup_preemption = true;

/* CONFIG_HZ. */
const volatile u32 tick_hz = 250;

/* Not static: clang would split it into variables, of which a kernel accepts no description. */
struct o1_params {
	u64 tick_ns;
	/* In ticks. */
	u32 def_timeslice;
	u32 min_timeslice;
	u32 granularity;
	u64 max_sleep_avg;
	u64 starvation_limit;
	u64 starvation_cap;
	u64 max_sleep_avg_ns;
	/* What a wait in the queue counts, in 1/128. */
	u32 wait_weight;
};

struct o1_params par;

/* Slices of interactive tasks that starvation_cap_ms has ended: each is a deviation from O(1).
 * presets.toml names it. */
u64 nr_capped;

static __always_inline u32 ticks_of_ms(u32 ms)
{
	return (u64)ms * tick_hz / 1000;
}

/* The kernel's clock of ticks. */
static __always_inline u64 tick_of(u64 now_ns)
{
	return now_ns / par.tick_ns;
}

/* Fills `par`. -EINVAL: tunables that make no sense. */
static int params_init(void)
{
	if (!tick_hz || tick_hz > 10000 || !ticks_of_ms(def_timeslice_ms) ||
	    def_timeslice_ms > 10000 || min_timeslice_ms > def_timeslice_ms) {
		scx_bpf_error(
			"o1: tick_hz=%u, def_timeslice_ms=%u, min_timeslice_ms=%u; use slices of a "
			"tick to 10 s, the shortest not above the default",
			tick_hz, def_timeslice_ms, min_timeslice_ms);
		return -EINVAL;
	}
	if (!max_bonus || max_bonus > 40) {
		scx_bpf_error("o1: max_bonus=%u; use 1..40, or sleep_bonus=0 for no bonus",
			      max_bonus);
		return -EINVAL;
	}
	par.tick_ns = NSEC_PER_SEC / tick_hz;
	par.def_timeslice = ticks_of_ms(def_timeslice_ms);
	par.min_timeslice = ticks_of_ms(min_timeslice_ms) ?: 1;
	par.granularity = granularity_ms ? ticks_of_ms(granularity_ms) ?: 1 : 0;
	par.max_sleep_avg = (u64)par.def_timeslice * max_bonus;
	par.max_sleep_avg_ns = par.max_sleep_avg * par.tick_ns;
	par.starvation_limit = ticks_of_ms(starvation_limit_ms);
	par.starvation_cap = ticks_of_ms(starvation_cap_ms);
	par.wait_weight = on_runqueue_weight * 128 / 100;
	return 0;
}
