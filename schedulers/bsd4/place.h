/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a task goes back to that has lost its CPU, or has been changed while it waited.
 */
#pragma once

#include "add.h"

/* Whether a running task that loses its CPU goes to the head of its FIFO. */
static __always_inline bool keeps_turn(struct bsd4_cpu *c)
{
	bool remote = READ_ONCE(c->preempt_remote), preempted = remote || READ_ONCE(c->preempt);

	switch (head_rule) {
	case HEAD_2012:
		return preempted;
	case HEAD_9_3:
		return !c->turn_over;
	case HEAD_11_0:
		return !c->turn_over &&
		       (remote || !(preempted || c->yields || READ_ONCE(c->resched)));
	default:
		return !c->turn_over && preempted;
	}
}

static __always_inline void set_place(struct task_struct *p, struct bsd4_task *t, s32 cpu,
				      bool head, u64 now_ns)
{
	WRITE_ONCE(t->queue, add_queue(p, t, cpu, QUEUE_NONE));
	p->scx.dsq_vtime = queue_key(READ_ONCE(t->pri), head, now_ns);
}

/* Finds the place of a running task that goes back to a queue. */
static __always_inline void place(s32 cpu, struct bsd4_cpu *c, struct task_struct *p,
				  struct bsd4_task *t)
{
	bool head = keeps_turn(c);

	/* Who comes back from the head with this flag has its next turn behind the others. */
	WRITE_ONCE(t->resched, head && head_rule == HEAD_2012 && READ_ONCE(c->resched));
	set_place(p, t, cpu, head, scx_bpf_now());
	t->placed = true;
}

/* A task that waits has been changed by the kernel: it keeps its place in the queue @queue unless
 * that is not its FIFO any more, or it may not wait there. */
static __always_inline bool keeps_place(struct task_struct *p, struct bsd4_task *t, u64 queue)
{
	if (queue == QUEUE_NONE)
		return false;
	if (is_migration_disabled(p))
		return true;
	if (key_fifo(p->scx.dsq_vtime) != READ_ONCE(t->pri) / PRI_PER_FIFO)
		return false;
	return queue == QUEUE_GLOBAL ? !is_restricted(p) : allowed(p, queue);
}

/* A task that was preempted and asked to make way before comes back with its flag: it leaves the
 * CPU again as soon as it can. */
static __always_inline void still_flagged(s32 cpu, struct bsd4_cpu *c, struct bsd4_task *t)
{
	if (!READ_ONCE(t->resched))
		return;
	WRITE_ONCE(t->resched, false);
	WRITE_ONCE(c->resched, true);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}
