/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The load of a CPU in Linux 6.18: the average of all its tasks, sleeping ones included; the
 * average number of runnable tasks; and the utilisation, which is at least what the runnable tasks
 * are expected to need. A task that moves or ends takes its part of the averages with it. Every CPU
 * has a capacity of 1024, with or without siblings.
 */
#pragma once

#include "../load.h"

/* Tasks of @cpu that sleep without having left their queues: of the rule. */
static u32 nr_delayed(u32 cpu);

static __always_inline u64 cpu_load(u32 cpu)
{
	return READ_ONCE(queue(queue_of(0, cpu))->pelt.load_avg);
}

#define EXPECTED_MARGIN (CAPACITY / 100)

static __always_inline struct task_past *past_of(u32 i)
{
	return &entity(i)->turn.past;
}

static __always_inline u32 expected_of(u32 i)
{
	return READ_ONCE(past_of(i)->expected);
}

/* Task @i becomes runnable on @cpu, or no longer is. Lock held. */
static __always_inline void expect(u32 i, u32 cpu, bool comes)
{
	u32 *sum = &queue(queue_of(0, cpu))->turns.past.expected;

	/* Partner: util_of() on other CPUs. */
	WRITE_ONCE(*sum, comes ? *sum + expected_of(i) : less(*sum, expected_of(i)));
}

/* The number of runnable tasks of @cpu is about to change. Lock held. */
static __always_inline void note_runnable(u32 cpu, u64 now_ns)
{
	update_queue_load(queue_of(0, cpu), now_ns);
}

/*
 * A task's average of having been runnable. At birth it equals the task's utilisation, whereas the
 * load average, from which it is derived here, begins at the full 1024 (pelt_newborn()). Both decay
 * alike, so it is the load average less what is left of that initial gap.
 */
static __noinline u64 task_runnable(u32 i, u64 now_ns)
{
	struct fair_entity *e = entity(i);
	u64 part = e->pelt.load_avg * CAPACITY / (table_units(e->load.weight) ?: 1);
	struct task_past *past = past_of(i);

	return less(part, pelt_decay(past->newborn_gap, less(now_ns, past->born_ns) >> 20));
}

static __always_inline void change_sum(u64 *sum, u64 amount, bool more)
{
	WRITE_ONCE(*sum, more ? *sum + amount : less(*sum, amount));
}

/* Entity @i's average of load is @load_avg from now on; its queue's follows. Lock held. */
static __always_inline void set_load(u32 i, u64 load_avg)
{
	struct fair_entity *e = entity(i);
	struct pelt *a = &e->pelt, *of_queue = &queue(e->queue)->pelt;
	u64 load_sum = load_avg * PELT_MAX;

	if (e->attached) {
		WRITE_ONCE(of_queue->load_avg, less(of_queue->load_avg + load_avg, a->load_avg));
		of_queue->load_sum = less(of_queue->load_sum + load_sum, a->load_sum);
		announce_load(e->queue);
	}
	WRITE_ONCE(a->load_avg, load_avg);
	a->load_sum = load_sum;
}

/* A new weight counts for all of the past. */
static __always_inline void rescale_load(u32 i, u64 before, u64 after)
{
	set_load(i, entity(i)->pelt.load_avg * table_units(after) / (table_units(before) ?: 1));
}

/*
 * Carries the load of task @i to the groups above it. If it comes (@here), a group's load rises, to
 * its weight at most; if it leaves, the group's load falls to what the load of the entities that
 * stay accounts for. The task still counts in its queue then, as do tasks that have been moved.
 */
static __always_inline void carry_to_groups(u32 i, bool here)
{
	struct pelt *a = &entity(i)->pelt;
	u64 part = a->load_avg * CAPACITY / (table_units(entity(i)->load.weight) ?: 1);
	u32 q = entity(i)->queue, level;
	u64 gone = a->load_avg + queue(q)->moved_load;

	bpf_for (level, 0, MAX_DEPTH) {
		u32 owner = owner_of(q);
		struct fair_entity *e = entity(owner);
		u64 most = table_units(e->load.weight), load = e->pelt.load_avg;
		u64 weight = table_units(queue(q)->weight);

		if (!owner)
			break;
		if (here)
			load = min_of(load + most * part / CAPACITY, most);
		else if (weight)
			load = min_of(load, most * less(queue(q)->pelt.load_avg, gone) / weight);
		set_load(owner, load);
		gone = 0;
		q = e->queue;
	}
}

/* Carries the load of task @i to its CPU and its groups. The averages of its own queue are changed
 * by attach_load() and detach_load(). */
static __noinline void carry_load(u32 i, u64 now_ns, bool here)
{
	struct fair_entity *e = entity(i);
	u32 root = queue_of(0, e->cpu);
	struct pelt *of_cpu = &queue(root)->pelt;
	u64 waited = task_runnable(i, now_ns);

	update_queue_load(root, now_ns);
	change_sum(&of_cpu->runnable_avg, waited, here);
	change_sum(&of_cpu->runnable_sum, waited * PELT_MAX, here);
	if (e->queue == root)
		return;
	change_sum(&of_cpu->util_sum, e->pelt.util_sum, here);
	WRITE_ONCE(of_cpu->util_avg, of_cpu->util_sum / PELT_MAX);
	carry_to_groups(i, here);
}

/* Task @i has just been attached to the averages of its CPU; is about to be detached. Lock held. */
static __always_inline void load_comes(u32 i, bool newborn, u64 now_ns)
{
	if (newborn) {
		past_of(i)->newborn_gap = less(CAPACITY, entity(i)->pelt.util_avg);
		past_of(i)->born_ns = now_ns;
	}
	carry_load(i, now_ns, true);
}

static __always_inline void load_leaves(u32 i, u64 now_ns)
{
	if (entity(i)->attached)
		carry_load(i, now_ns, false);
}

/*
 * Task @i has gone to sleep: its present utilisation becomes what it is expected to need
 * (util_est), but if it needed more before, the estimate falls by only a quarter of the difference.
 * A task that had to wait keeps its estimate, because it could not show what it needs.
 */
static __noinline void estimate(u32 i, u64 now_ns)
{
	struct fair_entity *e = entity(i);
	u32 util = e->pelt.util_avg, was = expected_of(i), now = was;

	if (util >= was)
		now = util;
	else if (was - util >= EXPECTED_MARGIN &&
		 util + EXPECTED_MARGIN >= task_runnable(i, now_ns))
		now = (4 * was - (was - util)) / 4;
	WRITE_ONCE(past_of(i)->expected, now);
}

/* In CAPACITY of a task that is always runnable. */
static __always_inline u64 runnable_of(u32 cpu)
{
	return READ_ONCE(queue(queue_of(0, cpu))->pelt.runnable_avg);
}

static __always_inline u32 util_of(u32 cpu)
{
	struct fair_queue *root = queue(queue_of(0, cpu));
	u32 util = READ_ONCE(root->pelt.util_avg), sum = READ_ONCE(root->turns.past.expected);

	util = util > sum ? util : sum;
	return util < CAPACITY ? util : CAPACITY;
}

/* What other classes leave of @cpu. */
static __always_inline u32 room_of(u32 cpu)
{
	return capacity_of(cpu) * CAPACITY / full_capacity(cpu);
}

/* Tasks of all classes in the queues of @cpu. */
static __always_inline u32 nr_queued(u32 cpu)
{
	return nr_running(cpu) + nr_delayed(cpu);
}

/* 6.18 keeps no averages over ticks. */
static __always_inline void count_load(u32 cpu, u64 tick)
{
}

static __always_inline void load_at_rest(u32 cpu, struct fair_cpu *cs)
{
}
