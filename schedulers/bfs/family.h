/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A new task gets half of its parent's slice, and what it leaves of that goes back when it ends.
 */
#pragma once

#include "run.h"

/* sched_fork(): task @i is created by @parent, on CPU @cpu. True if the parent is to make way. */
static __noinline bool split_slice(u32 i, u32 parent, u32 cpu, u64 now_ns)
{
	struct bfs_task *t = task(i), *pt = task(parent);
	struct bfs_cpu *c = cpu_state(cpu);
	/* Else it has just been preempted. */
	bool runs = c->curr == parent;
	s64 slice = runs ? READ_ONCE(c->slice) : pt->slice, rest;

	t->deadline = pt->deadline;
	t->last_ran_ns = pt->last_ran_ns;
	t->first_slice = pt->first_slice;
	t->slice = slice;
	if (slice >= fork_min() && slice > 0) {
		rest = slice / 2;
		t->slice = rest;
		t->first_slice = true;
	} else if (fork_min()) {
		rest = 0;
		refill(t, now_ns);
	} else {
		return false;
	}
	if (runs)
		WRITE_ONCE(c->slice, rest);
	else
		pt->slice = rest;
	return !rest && fork_min();
}

__noinline int fork_task(u32 i, u32 parent, u32 cpu, u64 now_ns)
{
	struct bfs_lock *lk = the_lock();
	bool makes_way;

	if (!lk)
		return 0;
	/* This also keeps the tick away, which charges the parent. */
	bpf_spin_lock(&lk->lock);
	makes_way = split_slice(i, parent, cpu, now_ns);
	bpf_spin_unlock(&lk->lock);
	return makes_way;
}

static __always_inline s64 sum_of_slices(s64 slice, s64 gift)
{
	/* As unsigned numbers, so a debt is forgiven. */
	return min_of(slice + gift, par.slice);
}

/* sched_exit(): what is left of the first slice of task @i goes to @parent. */
static __noinline void give_back(u32 i, u32 parent)
{
	struct bfs_task *t = task(i), *pt = task(parent);
	struct bfs_cpu *c = cpu_state(READ_ONCE(pt->cpu));

	if (!t->first_slice)
		return;
	/* The parent's CPU charges it without the lock; partner: charge(). */
	if (c->curr == parent)
		WRITE_ONCE(c->slice, sum_of_slices(READ_ONCE(c->slice), t->slice));
	else
		pt->slice = sum_of_slices(pt->slice, t->slice);
	t->first_slice = false;
}

__noinline int end_task(u32 i, u32 parent)
{
	struct bfs_lock *lk = the_lock();

	if (!lk)
		return -ENOENT;
	bpf_spin_lock(&lk->lock);
	give_back(i, parent);
	bpf_spin_unlock(&lk->lock);
	return 0;
}
