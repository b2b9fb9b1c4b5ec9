/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The load of a CPU in Linux 4.9: that of its runnable tasks, now and in averages over ticks.
 */
#pragma once

#include "../load.h"

/* Load of the tasks that are runnable on @cpu now. */
static __always_inline u64 cpu_load(u32 cpu)
{
	return READ_ONCE(queue(queue_of(0, cpu))->pelt.runnable_avg);
}

/* Factors, in 1/128, by which average n falls in 1, 2, 4, ... ticks without load. */
static const u8 history_decay[HISTORY_SLOTS][8] = {
	{0},
	{64, 32, 8},
	{96, 72, 40, 12, 1},
	{112, 98, 75, 43, 15, 1},
	{120, 112, 98, 76, 45, 16, 2},
};

/* Average @n, 1..4, after @ticks ticks without load. */
static __noinline u64 history_missed(u64 load, u64 ticks, u32 n)
{
	u32 i = n & (HISTORY_SLOTS - 1), k;

	/* Nothing is left of it after 8, 32, 64, 128 ticks. */
	if (ticks >= (i == 1 ? 8 : 8U << i))
		return 0;
	if (i == 1)
		return load >> ticks;
	bpf_for (k, 0, 7) {
		u32 bit = k;

		barrier_var(bit);
		if (ticks & 1ULL << bit)
			load = load * history_decay[i][bit & 7] >> 7;
	}
	return load;
}

/*
 * A tick: average n goes 1/2^n of the way to the present load, rounded up when it rises. @ticks
 * have come since the last one that was counted; between them the load was that of the last.
 */
static __noinline void history_update(struct fair_cpu *cs, u64 load, u64 ticks)
{
	u64 before = READ_ONCE(cs->history[0]);
	u32 k;

	WRITE_ONCE(cs->history[0], load);
	bpf_for (k, 1, NR_HISTORY) {
		u64 old, new = load, *average;
		u32 n = k;

		/* Or its mask is left out, and the verifier knows no bounds. */
		barrier_var(n);
		average = &cs->history[n & (HISTORY_SLOTS - 1)];
		old = history_missed(READ_ONCE(*average), ticks - 1, n) + before -
		      history_missed(before, ticks - 1, n);
		if (new > old)
			new += (1 << n) - 1;
		/* Partners: source_load() and target_load() on other CPUs. */
		WRITE_ONCE(*average, (old * ((1 << n) - 1) + new) >> n);
	}
}

/* @cpu's average @index - 1. */
static __always_inline u64 history_of(u32 cpu, u32 index)
{
	/* Not computed before a loop: the verifier would forget its bounds. */
	barrier_var(index);
	return READ_ONCE(cpu_state(cpu)->history[(index - 1) & (HISTORY_SLOTS - 1)]);
}

/* @cpu's load as one to take tasks from, @index as load_index() has it: rather too low. */
static __always_inline u64 source_load(u32 cpu, u32 index)
{
	u64 now = cpu_load(cpu), then;

	if (!index)
		return now;
	then = history_of(cpu, index);
	return then < now ? then : now;
}

/* The same as one that is given tasks: rather too high. */
static __always_inline u64 target_load(u32 cpu, u32 index)
{
	u64 now = cpu_load(cpu), then;

	if (!index)
		return now;
	then = history_of(cpu, index);
	return then > now ? then : now;
}

/* Counts the ticks of @cpu up to now in the averages of its load. */
static __noinline void count_load(u32 cpu, u64 tick)
{
	struct fair_cpu *cs = cpu_state(cpu);
	u64 ticks = tick - READ_ONCE(cs->history_tick);

	if (!ticks)
		return;
	/* Its own ticks, and the CPU that balances while it idles. */
	WRITE_ONCE(cs->history_tick, tick);
	history_update(cs, cpu_load(cpu), ticks);
}

static __always_inline void init_version(void)
{
}

static __always_inline void load_leaves(u32 i, u64 now_ns)
{
}

/* @cpu has nothing to run. No tick comes until it is busy again: this is what the ticks meanwhile
 * would have found. */
static __always_inline void load_at_rest(u32 cpu, struct fair_cpu *cs)
{
	WRITE_ONCE(cs->history[0], cpu_load(cpu));
}

/*
 * By how much the load of @cpu's root queue changes if @load joins queue @q of a group, which in
 * all gets @group_load more: each group above only gets another share of what it has.
 */
static __noinline s64 effective_load(u32 q, s64 load, s64 group_load)
{
	u32 level;

	bpf_for (level, 0, MAX_DEPTH) {
		struct fair_queue *cfs_rq = queue(q);
		struct task_group_state *g = group(cfs_rq->group);
		s64 here = READ_ONCE(cfs_rq->pelt.load_avg), total;

		if (!cfs_rq->group)
			break;
		total = group_load + (s64)READ_ONCE(g->load_avg) -
			(s64)READ_ONCE(cfs_rq->announced_avg) + here;
		here += load;
		load = READ_ONCE(g->shares);
		if (total > 0 && here < total)
			load = divide(here * load, total);
		/* A negative one stays. */
		if (load >= 0 && load < MIN_SHARES)
			load = MIN_SHARES;
		load -= READ_ONCE(entity(owner_of(q))->pelt.load_avg);
		group_load = 0;
		q = entity(owner_of(q))->queue;
	}
	return load;
}
