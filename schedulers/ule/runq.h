/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A CPU's run queues, as two dispatch queues ordered by a key:
 *
 *   RT  FIFOs, the lowest number first: kernel and interactive tasks;
 *   TS  the calendar of batch tasks, behind it FreeBSD's idle class.
 *
 * key = class << 60 | position << 28 | place within the FIFO
 *
 * A tail insert takes the middle place: equal keys are first in, first out. A head insert takes
 * a place in front of it that falls with each use.
 *
 * ULE's calendar is a ring of slots with an insert base idx and a removal base ridx. Here slots
 * have absolute numbers: queued ones lie in [ridx, ridx + nr_slots), so their order is that of
 * the ring, and which slot is the first to hold a task is the position of the queue's head. So
 * there is nothing to keep in step when the kernel takes a task off the queue by itself.
 *
 * A task's key is p->scx.dsq_vtime: the kernel changes it together with the queue, under its locks.
 * Who looks through the queue of another CPU reads it while the task may be leaving, and may decide
 * by a key of a moment ago; a move of a task that has left fails.
 */
#pragma once

#include "interact.h"

#define KEY_CLASS_SHIFT 60
#define KEY_POS_SHIFT	28
#define KEY_POS_MASK	((1ULL << (KEY_CLASS_SHIFT - KEY_POS_SHIFT)) - 1)
#define KEY_TAIL	(1ULL << (KEY_POS_SHIFT - 1))
#define KEY_NONE	(~0ULL >> 1)

enum key_class { CLASS_RT = 0, CLASS_TS = 1, CLASS_IDLE = 2 };
enum runq { RUNQ_RT = 0, RUNQ_TS = 1, RUNQ_STARVED = 2, NR_RUNQS = 3 };

/* No slot: later than any. */
#define SLOT_NONE	 (~0ULL)

/* The tick ends slices (see ule_tick()): the kernel's own countdown must never come first. */
#define SLICE_UNTIL_TICK (1ULL << 60)

static u64 runq_id(s32 cpu, enum runq q)
{
	return (u64)cpu << 2 | q;
}

/* Load ---------------------------------------------------------------------------------- */

/* Who must not leave its CPU. A mask of one CPU is no reason: FreeBSD counts such a task as one
 * that could be moved, and finds out when it tries. But its kernel threads of one CPU are bound to
 * it. */
static bool is_pinned(const struct task_struct *p)
{
	return is_migration_disabled(p) || (is_kthread(p) && p->nr_cpus_allowed == 1);
}

/* Where a task is counted: CPU << 1, with bit 0 if it is pinned there. -1: nowhere. */
static void book_add(s32 book, s32 nr)
{
	struct ule_cpu *c = cpu_ctx(book >> 1);

	if (book < 0)
		return;
	__sync_fetch_and_add(&c->load, nr);
	if (book & 1)
		__sync_fetch_and_add(&c->pinned, nr);
	TILT_PROBE_CPU(load, book >> 1, READ_ONCE(c->load));
}

/*
 * Books a task. Returns its book before.
 *
 * The CPU that takes a task from a queue and the one where the task starts or ends may do so at
 * once. Each swap takes out what the one before it has put in, so a task never counts twice.
 */
static s32 book_set(struct ule_task *t, s32 book)
{
	s32 old = READ_ONCE(t->book);

	if (old == book)
		return old;
	old = __sync_lock_test_and_set(&t->book, book);
	book_add(old, -1);
	book_add(book, 1);
	return old;
}

/* The CPU that counts a task which does not sleep. */
static struct ule_cpu *booked_at(struct ule_task *t)
{
	return cpu_ctx(READ_ONCE(t->book) >> 1);
}

/* Counts a task in the load of @cpu. */
static void load_set(struct task_struct *p, struct ule_task *t, s32 cpu)
{
	book_set(t, cpu << 1 | is_pinned(p));
}

/* Takes book_set(t, @book), which returned @old, back, unless the task was booked elsewhere since.
 */
static void book_unset(struct ule_task *t, s32 book, s32 old)
{
	if (__sync_val_compare_and_swap(&t->book, book, old) != book)
		return;
	book_add(book, -1);
	book_add(old, 1);
}

/* Slice in ticks on a CPU with @load tasks: shared out, down to a minimum. */
static u32 slice_of(u32 load)
{
	u32 others = slice_by_load ? load : load - 1;
	u32 slice;

	if (load <= 1 || others <= 1)
		return par.slice;
	/* FreeBSD's SCHED_SLICE_MIN_DIVISOR. */
	if (!slice_by_load && others >= 6)
		return par.slice_min;
	slice = par.slice / others;
	return slice > par.slice_min ? slice : par.slice_min;
}

/* Calendar ------------------------------------------------------------------------------ */

/* The slot that a task of batch priority @pri is appended to. */
static u64 calendar_slot(u32 pri, u64 idx, u64 ridx)
{
	u32 off = par.nr_slots * (pri - par.pri_min_batch) / par.nr_batch;

	/* A whole turn ahead is the slot that is being emptied: one before it. */
	if (idx != ridx && off == par.nr_slots - 1)
		off--;
	return idx + off;
}

/* The removal base follows once its slot is empty. @first: first slot that holds a task. */
static void calendar_fold(u64 idx, u64 *ridx, u64 first)
{
	if (idx != *ridx && first > *ridx)
		WRITE_ONCE(*ridx, idx);
}

/* A tick on this CPU: WRITE_ONCE for runq_key() on others. The insert base moves on unless it
 * already waits for the removal base. */
static void calendar_tick(u64 *idx, u64 *ridx, u64 first)
{
	calendar_fold(*idx, ridx, first);
	if (*idx != *ridx)
		return;
	WRITE_ONCE(*idx, *idx + 1);
	calendar_fold(*idx, ridx, first);
}

/* Queues -------------------------------------------------------------------------------- */

/* Key of the head of a queue, KEY_NONE if it is empty. */
static u64 runq_head(s32 cpu, enum runq q)
{
	struct task_struct *p;
	u64 key = KEY_NONE;

	bpf_for_each (scx_dsq, p, runq_id(cpu, q), 0) {
		key = p->scx.dsq_vtime;
		break;
	}
	return key;
}

/* Priority of the head of a queue, PRI_IDLE if it is empty. */
static u32 runq_head_pri(s32 cpu, enum runq q)
{
	struct task_struct *p;
	u32 pri = PRI_IDLE;

	bpf_for_each (scx_dsq, p, runq_id(cpu, q), 0) {
		struct ule_task *t = task_ctx(p);

		if (t)
			pri = READ_ONCE(t->pri);
		break;
	}
	return pri;
}

static u64 key_slot(u64 key)
{
	if (key >> KEY_CLASS_SHIFT != CLASS_TS)
		return SLOT_NONE;
	return key >> KEY_POS_SHIFT & KEY_POS_MASK;
}

/* First slot of the calendar that holds a task. In the port the running task keeps its slot. */
static u64 runq_first_slot(s32 cpu, struct ule_cpu *c)
{
	u64 slot = key_slot(runq_head(cpu, RUNQ_TS));

	return slot < c->run_slot ? slot : c->run_slot;
}

/* Where in @cpu's queues a task of priority @pri belongs: at the tail, or, for that CPU itself, at
 * the @head. Others may see idx and ridx of two moments, a slot apart: the task waits a tick more
 * or less. */
static u64 runq_key(s32 cpu, struct ule_cpu *c, u32 pri, bool head)
{
	u64 class, pos, place = KEY_TAIL;

	if (head)
		place -= 1 + (c->head_inserts++ & (KEY_TAIL / 2 - 1));
	if (pri < par.pri_min_batch) {
		class = CLASS_RT;
		pos = pri / par.pri_per_fifo;
	} else if (pri >= par.pri_min_batch + par.nr_batch) {
		class = CLASS_IDLE;
		pos = pri / par.pri_per_fifo;
	} else {
		class = CLASS_TS;
		if (head) {
			calendar_fold(c->idx, &c->ridx, runq_first_slot(cpu, c));
			pos = c->ridx;
		} else {
			pos = calendar_slot(pri, READ_ONCE(c->idx), READ_ONCE(c->ridx));
		}
	}
	return class << KEY_CLASS_SHIFT | (pos & KEY_POS_MASK) << KEY_POS_SHIFT | place;
}

static enum runq key_runq(u64 key)
{
	return key >> KEY_CLASS_SHIFT == CLASS_RT ? RUNQ_RT : RUNQ_TS;
}

/* Where a task is queued: which queue, and which of its FIFOs. Whenever that changes, and at first.
 */
static void probe_place(struct task_struct *p, struct ule_task *t, u64 key)
{
	u64 queue = key >> KEY_CLASS_SHIFT, fifo = key >> KEY_POS_SHIFT & KEY_POS_MASK;

	if (queue + 1 != t->probed_queue)
		TILT_PROBE_TASK(queue, p, queue);
	if (fifo + 1 != t->probed_fifo)
		TILT_PROBE_TASK(fifo, p, fifo);
	t->probed_queue = queue + 1;
	t->probed_fifo = fifo + 1;
}

/* Best priority on a CPU after a task left it. */
static void lowpri_update(s32 cpu, struct ule_cpu *c)
{
	u32 pri = policy_running_pri(c), head;

	if (nr_cpus == 1)
		return;
	head = runq_head_pri(cpu, RUNQ_RT);
	if (head == PRI_IDLE)
		head = runq_head_pri(cpu, RUNQ_TS);
	WRITE_ONCE(c->lowpri, head < pri ? head : pri);
}

/* The same after one was added. */
static void lowpri_lower(struct ule_cpu *c, u32 pri)
{
	if (pri < READ_ONCE(c->lowpri))
		WRITE_ONCE(c->lowpri, pri);
}
