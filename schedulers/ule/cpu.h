/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What ULE knows about a CPU.
 */
#pragma once

#include "tiltyard/ticks.h"
#include "params.h"

/*
 * One CPU. Calendar, ticks and current task change under its rq lock only. Other CPUs look without
 * a lock, as in FreeBSD: at idx, ridx, running, runs_free and curr_pri, which are written with
 * WRITE_ONCE and read there with READ_ONCE; and at load, pinned and lowpri, which they also change.
 * load and pinned are atomic. lowpri and owe_preempt are hints for the next choice: if take() and
 * this CPU write them at once, one of the two is lost, and the CPU's next choice makes up for it.
 */
struct ule_cpu {
	/* Calendar: absolute insert and removal slots; where the running batch task stays. */
	u64 idx;
	u64 ridx;
	u64 run_slot;
	struct tick_grid ticks;
	u64 rescue_ns;
	/* Tasks running and queued here; one of them runs; its priority. */
	u32 load;
	u32 running;
	u32 curr_pri;
	/* Of the load: tasks pinned to this CPU; whether the running one is none of them. */
	u32 pinned;
	u32 runs_free;
	/* Best priority of running and queued tasks. */
	u32 lowpri;
	/* The running task was preempted: it goes back to the head of its FIFO. */
	u32 owe_preempt;
	u32 head_inserts;
	/* Random numbers for ties. */
	u32 lcg;
	/* Balancer: may still give away; is still asked to take. Stealing: already tried. */
	bool donor;
	bool taker;
	u64 tried[MAX_CPUS / 64];
};

static struct ule_cpu cpus[MAX_CPUS];
static s32 nr_cpus;
/* In the order of searches: groups from the last to the first, in the port from the first. */
static struct topology topo;

static struct ule_cpu *cpu_ctx(s32 cpu)
{
	return &cpus[cpu & (MAX_CPUS - 1)];
}
