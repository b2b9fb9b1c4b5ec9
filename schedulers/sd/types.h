/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What SD knows about a task and about a CPU, and its unit of priority.
 *
 * Priorities 100 to 139 are levels 0 to 39 here, the best first. A static priority is the level
 * that nice stands for, nice + 20.
 */
#pragma once

#include "tiltyard/linux26/rq.h"
#include "tunables.h"

/* p->__state of a task that no signal wakes up. */
#ifndef TASK_UNINTERRUPTIBLE
#define TASK_UNINTERRUPTIBLE 2
#endif

#define NR_LEVELS  40
/* Behind all others: where SCHED_IDLE tasks wait, in an array of their own, which is in fact the
 * first of the two. */
#define LEVEL_IDLE 40
#define ARRAY_IDLE 0
/* No slot is left. */
#define LEVEL_NONE 41
/* No static priority: the worst, as in the original. */
#define BEST_NONE  (NR_LEVELS - 1)

struct sd_task {
	struct rq_task rq;
	/* The slots of which it had a quota in this rotation, and that rotation, of the CPU that it
	 * has its place on: which of its arrays. It keeps the place while it sleeps. */
	u64 granted;
	u64 rotation;
	u32 home;
	u32 array;
	/* What is left of its quota; below 0 if it ran for longer. */
	s32 slice_us;
	/* Time up to which its run is charged. */
	u64 charged_ns;
	u32 static_level;
	enum fair_policy policy;
	/* It has not used up what its parent gave it. */
	bool first_slice;
	/* A SCHED_IDLE task that was in an uninterruptible sleep: others may wait for what it
	 * holds. */
	bool unsuitable;
	/* It runs: a change of its properties is no end of that. */
	bool on_cpu;
};

struct sd_cpu {
	/* Must be the first: see cpu_of(). */
	struct runqueue rq;
	/* Number of array swaps and of times that the CPU went idle. */
	u64 rotation;
	/* By static priority: the worst level that its tasks have come to in this rotation. */
	u8 reached[NR_LEVELS];
	/* Best static priority seen in each array. */
	u32 best[2];
	/* When this rotation began. */
	u64 rotation_ns;
	/* RSDL: the level that is served, and quotas of levels. */
	u32 served;
	s32 level_quota_us[NR_LEVELS];
};

static struct sd_task tasks[MAX_TASKS];
static struct sd_cpu cpus[MAX_CPUS];

/* Linux counts time in ticks. */
static __always_inline u64 tick_of(u64 now_ns)
{
	return now_ns / (NSEC_PER_SEC / tick_hz);
}

static __always_inline struct sd_task *task(u32 i)
{
	return &tasks[i & (MAX_TASKS - 1)];
}

/* Looked up in each turn of a loop: see cpu_rq(). */
static __always_inline struct sd_cpu *cpu_state(u32 cpu)
{
	barrier_var(cpu);
	return &cpus[cpu & (MAX_CPUS - 1)];
}

static __always_inline struct rq_task *rq_task(u32 i)
{
	return &task(i)->rq;
}

static __always_inline struct runqueue *cpu_rq(u32 cpu)
{
	return &cpu_state(cpu)->rq;
}

static __always_inline struct sd_cpu *cpu_of(struct runqueue *rq)
{
	return (struct sd_cpu *)rq;
}

/* A level as an index. */
static __always_inline u32 nth(u32 level)
{
	return level < NR_LEVELS ? level : NR_LEVELS - 1;
}

/* The level of nice -20 to 19. */
static __always_inline u32 static_level_of(const struct task_struct *p)
{
	return nth(task_nice(p) + 20);
}
