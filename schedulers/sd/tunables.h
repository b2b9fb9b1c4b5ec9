/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * SD's tunables. README.md explains each.
 */
#pragma once

enum sd_mode {
	MODE_SD = 0,   /* staircase deadline, as in 2.6.22-ck1 */
	MODE_RSDL = 1, /* its predecessor of March 2007, reconstructed: see rsdl.h */
};

/* Which of the two: enum sd_mode. */
const volatile u32 mode = MODE_SD;

/* Quota of nice 0 in ms; 0: 6, times 1 + log2 of the CPUs. */
const volatile u32 rr_interval = 0;
/* Quota of nice values above 0 against that of nice 0: 1 full, 2 half; 0: by mode. */
const volatile u32 quota_pos_nice = 0;
/* A task that slept may use better slots than those that its nice value has come down to. SD only.
 */
const volatile bool interactive = true;
/* The first slot that an expired task gets is not marked as used, so that it comes twice in each
 * rotation but the first. SD only. */
const volatile bool sd_first_slot_twice = true;
/* Tasks on a level whose quota is used up are pushed to the next one. RSDL only. */
const volatile bool minor_rotation = true;

/* The guard: in a rotation that has lasted for this long tasks get no more quotas but wait for the
 * next one, and at the beginning of each rotation a SCHED_IDLE task has a turn. 0: off. */
const volatile u32 rotation_limit_ms = 0;
/* Woken and moved tasks may preempt. */
const volatile bool wakeup_preemption = true;

/* CONFIG_HZ. */
const volatile u32 tick_hz = 250;
