/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What 4BSD knows about a CPU, and which CPUs are idle.
 */
#pragma once

#include "tiltyard/ticks.h"
#include "task.h"

/*
 * One CPU. ticks, switch_tick, turn_over, yields and marked belong to its own callbacks. Others
 * look at curr and other_pri, and set resched and preempt_remote when they interrupt it: hints for
 * its next switch, of which one may be lost or be meant for the task before.
 */
struct bsd4_cpu {
	struct tick_grid ticks;
	/* hz tick of the last switch, even from a task to itself. */
	u64 switch_tick;
	/* The task that runs, 0: none of ours; then the priority of what runs. */
	u32 curr;
	u32 other_pri;
	/* Why the running task is to leave: a better one waits (NEEDRESCHED); it is preempted, from
	 * another CPU; its turn is over (SLICEEND); it yields. */
	bool resched;
	bool preempt;
	bool preempt_remote;
	bool turn_over;
	bool yields;
	/* It is in the mask of idle CPUs. */
	bool marked;
	bool online;
	/* first_with_fuzz(): tasks looked at; how many are before the one found; whether there
	 * would have been room for another one. */
	u32 nr_seen;
	u32 nth;
	bool fuzz_open;
	/* Tasks that became runnable here, less those that ceased to be. */
	s64 nr_runnable;
};

static struct bsd4_cpu cpus[MAX_CPUS];

/* CPUs that run nothing. */
static u64 idle_mask[MAX_CPUS / 64];

static struct bsd4_cpu *cpu_ctx(s32 cpu)
{
	return &cpus[cpu & (MAX_CPUS - 1)];
}

/* Priority of what runs on a CPU. */
static __always_inline u32 running_pri(struct bsd4_cpu *c)
{
	u32 curr = READ_ONCE(c->curr);

	return curr ? READ_ONCE(task_at(curr)->pri) : READ_ONCE(c->other_pri);
}

static __always_inline u64 *idle_word(s32 cpu)
{
	return &idle_mask[(cpu & (MAX_CPUS - 1)) / 64];
}

static __always_inline bool cpu_idles(s32 cpu)
{
	return READ_ONCE(*idle_word(cpu)) >> (cpu & 63) & 1;
}

/* The CPU runs nothing, or something again. Each is a full barrier. */
static __always_inline void mark_idle(s32 cpu, bool idle)
{
	u64 bit = 1ULL << (cpu & 63);

	cpu_ctx(cpu)->marked = idle;
	if (idle)
		__sync_fetch_and_or(idle_word(cpu), bit);
	else
		__sync_fetch_and_and(idle_word(cpu), ~bit);
}

/* No task of ours runs any more: a better class, or nothing, or the next one is being chosen, and
 * may be worse than one that comes just now. */
static __always_inline void cpu_leaves(struct bsd4_cpu *c, u32 other_pri)
{
	WRITE_ONCE(c->other_pri, other_pri);
	WRITE_ONCE(c->curr, 0);
}

/* After a switch nothing that was asked of the task before is left. */
static __always_inline void switched(struct bsd4_cpu *c, u64 now_ns)
{
	c->switch_tick = now_ns / par.hz_ns;
	WRITE_ONCE(c->resched, false);
	WRITE_ONCE(c->preempt, false);
	WRITE_ONCE(c->preempt_remote, false);
	c->turn_over = false;
	c->yields = false;
}
