/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What SD knows about a task and about a CPU, and its unit of priority.
 *
 * Priorities 100 to 139 of the original are levels 0 to 39 here, the best first. A static priority
 * is the level that nice stands for, nice + 20.
 */
#pragma once

#include "tiltyard/kernel.h"
#include "tiltyard/machine.h"
#include "tiltyard/maps.h"
#include "tunables.h"

/* p->__state of a task that no signal wakes up. */
#ifndef TASK_UNINTERRUPTIBLE
#define TASK_UNINTERRUPTIBLE 2
#endif

#define NR_LEVELS  40
/* Behind all others: where SCHED_IDLE tasks wait. */
#define LEVEL_IDLE 40
/* No level: nothing runs, or no slot is left. */
#define LEVEL_NONE 41
/* No static priority: the worst, as in the original. */
#define BEST_NONE  (NR_LEVELS - 1)

/* Where a task is queued: in one of the two arrays, which take turns at being the active one; or
 * among the SCHED_IDLE tasks; or nowhere yet. */
enum { ARRAY_IDLE = 2, ARRAY_NONE = 3 };

/*
 * One task. Its callbacks come one after the other, under the lock of its runqueue or p->pi_lock,
 * so what only they access needs no mark. Others access
 *
 *   slice_us     fork_split() of its child and give_back() of a child that exits: atomically
 *   book         whoever moves it: swapped atomically
 *   the place    whoever moves it, from another CPU, after the move: see take()
 */
struct sd_task {
	/* The slots of which it had a quota in this rotation. */
	u64 granted;
	/* The rotation of its CPU in which that was. */
	u64 rotation;
	/* What is left of its quota; below 0 if it ran for longer. */
	s32 slice_us;
	/* Its place: CPU, array and level. -1: it had none so far. */
	s32 cpu;
	u8 array;
	u8 level;
	/* It has not used up what its parent gave it. */
	bool first_slice;
	/* A SCHED_IDLE task that is woken from an uninterruptible sleep: others may wait for it. */
	bool unsuitable;
	/* This wakeup is a synchronous one. It has never been queued. It is on a CPU. */
	bool sync_wakeup;
	bool newborn;
	bool on_cpu;
	bool slice_returned;
	/* Where it is counted as running or waiting: see book_set(). -1: it sleeps. */
	s64 book;
	/* Time up to which its run is charged. */
	u64 charged_ns;
};

/*
 * One CPU. All but the counters changes under its rq lock only. Other CPUs look without it, as in
 * the original, at rotation and active, which are written with WRITE_ONCE and read there with
 * READ_ONCE; and at the counters, which they also change: atomically.
 */
struct sd_cpu {
	/* Levels of the two arrays that may hold tasks: a set bit may be stale, a clear one is not.
	 */
	u64 queued[2];
	/* Number of array swaps and of times that it went idle. */
	u64 rotation;
	/* Place of the next task at the end of a level. */
	u64 seq;
	/* By static priority: the worst level that its tasks have come to in this rotation. */
	u8 reached[NR_LEVELS];
	/* Best static priority seen in each array. */
	u8 best[2];
	/* The array may hold a task without a slice. */
	bool spent[2];
	u8 active;
	/* Level of the running task, LEVEL_NONE if there is none of ours. */
	u8 curr_level;
	/* RSDL: the level that is served, and quotas. */
	u8 level;
	s32 level_quota_us[NR_LEVELS];
	/* When this rotation began. */
	u64 rotation_ns;
	/* Tasks running and waiting here, and the sum of their weights. */
	u32 nr_running;
	u64 load;
};

DEFINE_TASK_STORAGE(tasks, struct sd_task)

static struct sd_cpu cpus[MAX_CPUS];
static u32 nr_cpus;

static struct sd_task *task_ctx(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, 0, 0);
}

static struct sd_cpu *cpu_ctx(s32 cpu)
{
	return &cpus[cpu & (MAX_CPUS - 1)];
}

/* The level of nice -20 to 19. */
static u32 static_level(const struct task_struct *p)
{
	u32 level = p->static_prio - 100;

	return level < NR_LEVELS ? level : NR_LEVELS - 1;
}
