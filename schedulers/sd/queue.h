/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A CPU's queues: two arrays of 40 levels, each level a dispatch queue, and one for SCHED_IDLE
 * tasks. A task that runs keeps its place in them: its key, p->scx.dsq_vtime, which grows from the
 * head of a level to its tail. So it returns to the head if it has been preempted, and wherever
 * else it belongs if it has got another place meanwhile.
 */
#pragma once

#include "staircase.h"

/* The tick ends quotas (see sd_tick()): the kernel's own countdown must never come first. */
#define SLICE_UNTIL_TICK (1ULL << 60)

/* Key of the head of an empty level: behind any other. */
#define KEY_NONE	 (~0ULL >> 1)

static u64 queue_id(s32 cpu, u32 array, u32 level)
{
	return (u64)cpu << 8 | (array & 1) << 6 | level;
}

static u64 idle_queue_id(s32 cpu)
{
	return queue_id(cpu, 0, LEVEL_IDLE);
}

static u64 queue_id_of(s32 cpu, const struct sd_task *t)
{
	return t->array == ARRAY_IDLE ? idle_queue_id(cpu) : queue_id(cpu, t->array, t->level);
}

/* The first level of an array that may hold a task; LEVEL_NONE: there is none. */
static u32 first_level(const struct sd_cpu *c, u32 array)
{
	return first_slot(READ_ONCE(c->queued[array & 1]));
}

/* A task has been queued there. After that, not before it: partner: level_emptied(). */
static void level_filled(struct sd_cpu *c, u32 array, u32 level)
{
	u64 bit = 1ULL << (level & 63);

	if (array < ARRAY_IDLE && !(READ_ONCE(c->queued[array & 1]) & bit))
		__sync_fetch_and_or(&c->queued[array & 1], bit);
}

/* A task without a slice is among them: who is chosen must be looked at. */
static void note_spent(struct sd_cpu *c, u32 array, s32 slice_us)
{
	if (slice_us <= 0 && array < ARRAY_IDLE)
		WRITE_ONCE(c->spent[array & 1], true);
}

/* No task was found there, nor did a CPU queue one meanwhile that found the bit set. */
static void level_emptied(s32 cpu, struct sd_cpu *c, u32 array, u32 level)
{
	__sync_fetch_and_and(&c->queued[array & 1], ~(1ULL << level));
	if (scx_bpf_dsq_nr_queued(queue_id(cpu, array, level)) > 0)
		__sync_fetch_and_or(&c->queued[array & 1], 1ULL << level);
}

/* The tail of any level. */
static u64 tail_key(struct sd_cpu *c)
{
	return ++c->seq;
}

static u64 head_key(u64 queue)
{
	struct task_struct *p;
	u64 key = KEY_NONE;

	bpf_for_each (scx_dsq, p, queue, 0) {
		key = p->scx.dsq_vtime;
		break;
	}
	return key;
}

/* Load ----------------------------------------------------------------------------------- */

/* Where a task is counted: CPU << 32 | weight; -1: nowhere. */
static void book_add(s64 book, s32 sign)
{
	struct sd_cpu *c = cpu_ctx(book >> 32);

	if (book < 0)
		return;
	__sync_fetch_and_add(&c->nr_running, sign);
	__sync_fetch_and_add(&c->load, sign * (s64)(u32)book);
}

/* Counts a task there. CPUs that do so at once take out what the other has put in. */
static s64 book_set(struct sd_task *t, s64 book)
{
	s64 old = READ_ONCE(t->book);

	if (old == book)
		return old;
	old = __sync_lock_test_and_set(&t->book, book);
	book_add(old, -1);
	book_add(book, 1);
	return old;
}

static void count_on(struct sd_task *t, const struct task_struct *p, s32 cpu)
{
	book_set(t, (s64)cpu << 32 | weight_of(static_level(p)));
}

/* Rotations ------------------------------------------------------------------------------ */

/* All begin again, each with all of its slots. */
static void rotation_begins(struct sd_cpu *c)
{
	WRITE_ONCE(c->rotation, c->rotation + 1);
	__builtin_memset(c->reached, 0, sizeof(c->reached));
	c->best[0] = BEST_NONE;
	c->best[1] = BEST_NONE;
	if (mode == MODE_RSDL)
		rsdl_restart(c);
	if (rotation_limit_ms)
		c->rotation_ns = scx_bpf_now();
}

/* The active array is empty: the expired one takes its place. */
static void swap_arrays(struct sd_cpu *c)
{
	c->spent[c->active & 1] = false;
	WRITE_ONCE(c->active, c->active ^ 1);
	rotation_begins(c);
}

/* Time --------------------------------------------------------------------------------- */

/*
 * A task ran since it was charged last. Whole microseconds; and as the original does not trust its
 * clock, no more than a tick between two of them, or two at a tick.
 */
static s32 charge_us(s64 ran_ns, bool at_tick)
{
	s64 tick_ns = NSEC_PER_SEC / tick_hz;

	if (at_tick) {
		if (ran_ns < 0 || ran_ns > 2 * tick_ns)
			ran_ns = tick_ns;
	} else if (ran_ns <= 0 || ran_ns > tick_ns) {
		ran_ns = 1000;
	}
	return (u32)ran_ns / 1000;
}

static void charge(struct sd_cpu *c, struct sd_task *t, u64 now_ns, bool at_tick)
{
	s32 ran_us = charge_us(now_ns - t->charged_ns, at_tick);

	t->charged_ns = now_ns;
	/* Partners: fork_split(), give_back(). */
	__sync_fetch_and_sub(&t->slice_us, ran_us);
	if (mode == MODE_RSDL)
		rsdl_charge(c, ran_us);
}

/* The task has used up its quota and gets its next place; for longer than the quota it has run at
 * the expense of the next one. */
static void next_place(struct sd_cpu *c, s32 cpu, struct task_struct *p, struct sd_task *t)
{
	s32 overrun_us = t->slice_us;

	place(c, cpu, p, t);
	t->slice_us += overrun_us;
}
