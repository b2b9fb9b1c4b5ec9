/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who runs next.
 */
#pragma once

#include "queue.h"

/* Each finds a task, gives one another place, drops a stale bit or swaps the arrays. */
#define PICK_TRIES 1024

/* The task runs next: what that means for the others of this rotation. */
static void picked(struct sd_cpu *c, const struct task_struct *p, struct sd_task *t)
{
	u32 own = static_level(p), level = t->level;

	WRITE_ONCE(c->curr_level, level);
	if (t->array == ARRAY_IDLE)
		return;
	t->rotation = c->rotation;
	if (own < c->best[c->active & 1])
		c->best[c->active & 1] = own;
	if (level > c->reached[own])
		c->reached[own] = level;
	if (mode == MODE_RSDL)
		c->level = level;
}

/* The running task is the best one after all: no switch. */
static void run_on(struct sd_cpu *c, struct task_struct *p, struct sd_task *t)
{
	picked(c, p, t);
	charge(c, t, scx_bpf_now(), false);
	p->scx.slice = SLICE_UNTIL_TICK;
}

/* The running task gets its next place, at the tail. */
static void advance_running(struct sd_cpu *c, s32 cpu, struct task_struct *p, struct sd_task *t)
{
	next_place(c, cpu, p, t);
	p->scx.dsq_vtime = tail_key(c);
	WRITE_ONCE(c->curr_level, t->level);
}

/* Does the running task come before all that wait in the active array, of which the best is on
 * @level? */
static bool comes_first(s32 cpu, const struct task_struct *p, const struct sd_task *t, u32 level)
{
	if (t->level != level)
		return t->level < level;
	return p->scx.dsq_vtime < head_key(queue_id(cpu, t->array, level));
}

/* The head of a level gets its next place if it has no slice left: it was preempted between the end
 * of its quota and the next tick. True if so. */
static __noinline bool advance_head(struct sd_cpu *c, s32 cpu, u32 array, u32 level)
{
	struct task_struct *p;
	bool advanced = false;

	bpf_for_each (scx_dsq, p, queue_id(cpu, array, level), 0) {
		struct sd_task *t = task_ctx(p);

		if (!t || t->slice_us > 0)
			break;
		next_place(c, cpu, p, t);
		advanced = true;
		/* RSDL: it has got its first quota of this rotation. */
		if (mode == MODE_RSDL && t->array == array && t->level == level)
			break;
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, tail_key(c));
		scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, queue_id_of(cpu, t), 0);
		level_filled(c, t->array, t->level);
		note_spent(c, t->array, t->slice_us);
		break;
	}
	return advanced;
}

/* SCHED_IDLE tasks, when there are no others. Their turns do not count: all others begin again. */
static bool pick_idle(struct sd_cpu *c, s32 cpu, struct task_struct *prev, struct sd_task *t)
{
	u64 queue = idle_queue_id(cpu);

	if (prev && t && t->array == ARRAY_IDLE && prev->scx.dsq_vtime < head_key(queue)) {
		rotation_begins(c);
		run_on(c, prev, t);
		return true;
	}
	if (!scx_bpf_dsq_move_to_local(queue, 0))
		return false;
	rotation_begins(c);
	return true;
}

/*
 * Chooses among @prev, which still has the CPU, and those that wait; @t is NULL if it does not want
 * to go on. False: there is none.
 */
static __noinline bool pick(struct sd_cpu *c, s32 cpu, struct task_struct *prev, struct sd_task *t)
{
	u32 i;

	bpf_for (i, 0, PICK_TRIES) {
		u32 array = c->active & 1, level = first_level(c, array);

		if (prev && t && t->array == array && comes_first(cpu, prev, t, level)) {
			if (t->slice_us > 0) {
				run_on(c, prev, t);
				return true;
			}
			advance_running(c, cpu, prev, t);
			continue;
		}
		if (level == LEVEL_NONE) {
			bool late = rotation_is_late(c);

			if (!READ_ONCE(c->queued[array ^ 1]) && !(t && t->array == (array ^ 1)))
				break;
			swap_arrays(c);
			if (late && scx_bpf_dsq_move_to_local(idle_queue_id(cpu), 0))
				return true;
			continue;
		}
		if (READ_ONCE(c->spent[array]) && advance_head(c, cpu, array, level))
			continue;
		if (scx_bpf_dsq_move_to_local(queue_id(cpu, array, level), 0))
			return true;
		level_emptied(cpu, c, array, level);
	}
	return pick_idle(c, cpu, prev, t);
}

/* RSDL: the quota of the level that is served is used up. All that are still there go to the end of
 * the next level, maybe one of the next rotation. */
static __noinline void rotate_minor(struct sd_cpu *c, s32 cpu, struct task_struct *prev,
				    struct sd_task *t)
{
	u32 array = c->active & 1, level = c->level, to = array, next, i;
	struct task_struct *p;
	u64 queue = queue_id(cpu, array, level);
	bool pushes = t && t->array == array && t->level == level;

	if (!pushes && scx_bpf_dsq_nr_queued(queue) <= 0)
		return;
	bpf_for (i, 0, NR_LEVELS) {
		next = first_slot(READ_ONCE(c->queued[array]) & levels_from(level + 1));
		if (next == LEVEL_NONE || scx_bpf_dsq_nr_queued(queue_id(cpu, array, next)) > 0)
			break;
		level_emptied(cpu, c, array, next);
	}
	if (next == LEVEL_NONE) {
		swap_arrays(c);
		to = c->active & 1;
		next = first_level(c, to);
	}
	if (pushes && prev) {
		if (next == LEVEL_NONE) {
			place(c, cpu, prev, t);
		} else {
			t->array = to;
			t->level = next;
		}
		prev->scx.dsq_vtime = tail_key(c);
	}
	bpf_for_each (scx_dsq, p, queue, 0) {
		struct sd_task *other = task_ctx(p);

		if (!other)
			continue;
		if (next == LEVEL_NONE) {
			place(c, cpu, p, other);
		} else {
			other->array = to;
			other->level = next;
		}
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, tail_key(c));
		scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, queue_id_of(cpu, other), 0);
		level_filled(c, other->array, other->level);
	}
	c->level_quota_us[level & 31] = 0;
	c->level = next == LEVEL_NONE ? 0 : next;
}
