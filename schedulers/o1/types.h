/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What O(1) knows of a task and of a CPU.
 */
#pragma once

#include "tiltyard/linux26/rq.h"
#include "tunables.h"

/* How a task slept, by which its wait for the CPU counts as sleep, too: not at all; not, nor does
 * the sleep lift it far; in part; in full. */
enum sleep_type {
	SLEEP_NORMAL,
	SLEEP_NONINTERACTIVE,
	SLEEP_INTERACTIVE,
	SLEEP_INTERRUPTED,
};

struct o1_task {
	struct rq_task rq;
	/* How much more it has slept than run lately: 0 to max_sleep_avg. */
	u64 sleep_avg_ns;
	/* When it last came to the CPU, left it or woke up. */
	u64 timestamp_ns;
	/* Left of its slice, in ticks. */
	u32 time_slice;
	/* 120 + nice. */
	u32 static_prio;
	enum sleep_type sleep_type;
	/* It shares this slice with its parent, to whom the rest returns if it exits. */
	bool first_time_slice;
	bool batch;
	/* It has an address space. */
	bool user;
	/* A kernel thread of one CPU, and such come first. */
	bool serves_cpu;
	/* It sleeps; it does so for a disk, say, and cannot be interrupted. */
	bool asleep;
	bool uninterruptible;
};

struct o1_cpu {
	struct runqueue rq;
	/* Tick at which a slice was first over since the arrays swapped; 0: none was. */
	u64 expired_timestamp;
};

static struct o1_task tasks[MAX_TASKS];
static struct o1_cpu cpus[MAX_CPUS];

static __always_inline struct o1_task *task(u32 i)
{
	return &tasks[i & (MAX_TASKS - 1)];
}

/* Looked up in each turn of a loop: see cpu_rq(). */
static __always_inline struct o1_cpu *cpu_state(u32 cpu)
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
