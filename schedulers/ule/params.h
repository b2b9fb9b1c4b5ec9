/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ULE's tunables and what follows from them.
 *
 * Tunables are read once, by params_init(); everything else reads `par`. Where a default is
 * 0 and says "by mode", the figure differs between the port and FreeBSD and stands in
 * port.h and freebsd.h.
 */
#pragma once

#include "tiltyard/freebsd.h"
#include "tiltyard/topology.h"

enum ule_mode {
	MODE_PORT = 0,	  /* the Linux port of ATC'18 */
	MODE_FREEBSD = 1, /* FreeBSD 11.1 itself */
};

/* Which ULE: enum ule_mode. */
const volatile u32 mode = MODE_PORT;
/* Rate of the clock that sleep and CPU shares are measured with. Port: CONFIG_HZ. */
const volatile u32 hz = 250;
/* FreeBSD only: rate of the statistics clock that charges run time and ends slices. */
const volatile u32 stathz = 127;

/* A task is interactive if its score is under this (kern.sched.interact). */
const volatile u32 interact_thresh = 30;
/* How much run and sleep history is kept, and what a new process inherits. */
const volatile u32 history_ms = 5000;
const volatile u32 fork_history_ms = 500;
/* A new task's history is cut to fork_history_ms (1) or copied in full (0). */
const volatile bool fork_scale = true;
/* Creating a task costs its creator this much run time, in ticks. */
const volatile u32 fork_charge_ticks = 1;
/* A new task's first sleep counts as sleep; 0 ignores it (threads at a start barrier). */
const volatile bool first_sleep = true;
/* Sleep history of tasks that exist when the scheduler is loaded. */
const volatile u32 load_sleep_ms = 5000;
/* Spread interactive scores over the levels that exist for them, as the paper's text has it,
 * instead of by an integer factor, which is 12 / 30 = 0 in the port's code. */
const volatile bool interact_linear = false;

/* Slice with no or one waiting task, and the shortest slice, in ticks; 0: by mode. */
const volatile u32 slice_ticks = 0;
const volatile u32 slice_min_ticks = 0;
/* Divide the slice by the load (the paper's text) instead of load - 1 (both sources). */
const volatile bool slice_by_load = false;

/* FreeBSD only: priority that sleeping lifts a task to; 0: none (kern.sched.static_boost). */
const volatile u32 static_boost = 152;
/* FreeBSD only: a priority up to this preempts at once (kern.sched.preempt_thresh). */
const volatile u32 preempt_thresh = 80;

/* Place woken tasks on their previous CPU instead of searching (Section 6.3). */
const volatile bool prevcpu = false;
/* Idle CPUs steal, and from how many tasks on. The port's threshold is always 2. */
const volatile bool steal_idle = true;
const volatile u32 steal_thresh = 2;
/* The periodic balancer; balance_bug: it returns before it arms itself (bug 223914). */
const volatile bool balance = true;
const volatile bool balance_bug = false;
/* Mean time between two balancer runs in ticks; 0: by mode. */
const volatile u32 balance_interval_ticks = 0;
/* Smallest difference of two loads that the balancer evens out. */
const volatile u32 balance_diff_min = 1;
/* FreeBSD of 2011: a pass moves tasks of one pair of CPUs, half of their difference. */
const volatile bool balance_one_pair = false;
/* Port only: the priority that each CPU's best task is taken to have before there was any. 0, as
 * zeroed memory has it, stays for ever: no CPU ever runs something worse than a woken task. */
const volatile u32 lowpri_boot = 0;
/* A task is cache affine for this many hz ticks times the cache level; 0: by mode. */
const volatile u32 affinity_ticks = 0;
/* Ties between equally loaded CPUs are broken by a draw from [0, search_noise). */
const volatile u32 search_noise = 32;

/* Run a task that has waited this long before all others; 0: let it starve, as ULE does. */
const volatile u32 starve_limit_ms = 0;

/* Number of CPU ids; 0: ask the kernel. */
const volatile u32 nr_cpu_ids = 0;

/* Nice values that the batch range leaves room for on each side. */
#define PRI_NRESV 40

struct ule_params {
	/* Which of the two policies: see policy.h. */
	bool port;
	/* Period of the hz clock and of the clock that charges run time. */
	u64 hz_ns;
	u64 tick_ns;
	/* Times below are in hz ticks << 10, ULE's fixed point. */
	u32 tickincr;
	u32 slp_run_max;
	u32 slp_run_fork;
	u32 load_sleep;
	/* CPU share window in hz ticks: nominal and largest. */
	u32 pct_targ;
	u32 pct_max;
	u32 slice;
	u32 slice_min;
	u32 balance_interval;
	u32 affinity;
	/* Priorities: interactive and batch ranges; the part of the latter that CPU use spans. */
	u32 pri_min_interact;
	u32 nr_interact;
	u32 pri_min_batch;
	u32 nr_batch;
	u32 pri_min_used;
	u32 nr_used;
	/* FIFOs of a queue, slots of the calendar; priorities that share a FIFO. */
	u32 nr_slots;
	u32 pri_per_fifo;
	/* Priority that sleeping lifts a task to; 0: none. */
	u32 static_boost;
	/* A task that is queued again, or moved, starts a new slice. */
	bool queue_restarts;
	/* A search takes all CPUs of its group as equals, and does not descend. */
	bool flat_search;
	/* An idle CPU asks one CPU of each group, and not all. */
	bool steal_once;
	/* Levels of the machine's groups and how they are built: see topo_init(). */
	u32 topo_levels;
	u32 topo_how;
	/* The balancer does not search when no CPU is left. FreeBSD's set of CPUs is larger than
	 * the machine, and never empty. */
	bool stops_when_empty;
	/* Who takes a task leaves the head of the calendar, next to run, if there is another. */
	bool spares_head;
};

static struct ule_params par;

#define SCHED_TICK_SHIFT 10
