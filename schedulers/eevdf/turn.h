/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What EEVDF keeps beside what the fair class does.
 */
#pragma once

#include "tiltyard/fair/linux_6_18/past.h"

/* Of an entity. */
struct entity_turn {
	/* By when its request should have been served, in vruntime. While it is in no queue and
	 * `relative`: how much later than its vruntime. */
	u64 deadline;
	/*
	 * In no queue: its lag, what it is owed. With the turn: the vruntime up to which nobody
	 * takes it away. One place for both, as in Linux 6.18: a lag that is stored in mid-turn
	 * ends the protection.
	 */
	union {
		s64 lag;
		u64 protected_until;
	};
	u64 slice_ns;	    /* how much it requests each time */
	u64 least_slice_ns; /* of those at and below it in the tree */
	bool custom;	    /* asked for by the task, or by those of the group */
	bool delayed;	    /* it sleeps, and stays queued until it owes nothing */
	bool forked;	    /* it has joined as a new task */
	struct task_past past;
};

/* Of a queue. */
struct queue_turns {
	/* Of those that wait: sum of weight * (vruntime - min_vruntime), and of the weights. */
	s64 sum;
	u64 weight;
	/* One that is among them, but not in the tree while its place changes. */
	u32 aside;
	/* By when the last that was moved to the front is to be served: see move_to_front(). */
	u64 front;
	/* Root queues: a charge has found that a turn is over; tasks that are delayed. */
	bool over;
	u32 nr_delayed;
	struct cpu_past past;
};

#include "tiltyard/fair/types.h"

/* A node of the tree also knows the least slice at and below it. */
static __always_inline bool tree_keeps_more(void)
{
	return true;
}

static __always_inline void tree_keep(u32 i, u32 a, u32 b)
{
	struct entity_turn *turn = &entity(i)->turn;
	u64 least = turn->slice_ns;

	if (a)
		least = min_of(least, entity(a)->turn.least_slice_ns);
	if (b)
		least = min_of(least, entity(b)->turn.least_slice_ns);
	turn->least_slice_ns = least;
}
