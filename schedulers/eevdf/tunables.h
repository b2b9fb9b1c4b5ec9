/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a run may set of EEVDF's rule: base_slice_ns, and the switches in Linux's
 * /sys/kernel/debug/sched/features under their names there. The defaults are those of Linux 6.18.
 */
#pragma once

#include "tiltyard/fair/tunables.h"
#include "turn.h"

/* What a task requests that has not asked for another slice, before scaling. */
const volatile u64 base_slice_ns = 700000;
/* Factor on it by the number of online CPUs, eight at most: see cpu_factor(). */
const volatile u32 scaling = 1;

/* A task that joins keeps its lag. Off: it joins with none. */
const volatile bool place_lag = true;
/* When the weight of a group that has the turn changes, its lag is enlarged like that of one that
 * joins, although V counts it already; README.md describes the effect. Linux did so until 2026.
 * Off: its lag is not enlarged. */
const volatile bool place_current = true;
/* A new task begins in the middle of a request. */
const volatile bool place_deadline_initial = true;
/* A task that changes its CPU or its weight keeps how far away its deadline was. */
const volatile bool place_rel_deadline = true;
/* Who has the turn keeps it until its request has been served, or the shortest one would be. Off:
 * for one base slice. */
const volatile bool run_to_parity = true;
/* A wakee with a shorter slice need not wait for that. */
const volatile bool preempt_short = true;
/* Who was favoured, by yield_to() or as a sleeper's group, goes first if eligible. */
const volatile bool pick_buddy = true;
/* A wakee is favoured. */
const volatile bool next_buddy = false;
/* A task that goes to sleep with a negative lag stays in the queue until it owes nothing; and it
 * leaves then with no lag, not with a positive one. */
const volatile bool delay_dequeue = true;
const volatile bool delay_zero = true;
const volatile bool wakeup_preemption = true;

/* What a task requests by default, after scaling. */
static u64 request_ns;
