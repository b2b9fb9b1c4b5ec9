/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Turns: who has the CPU in each queue from the root down, and the list of a CPU's tasks. Callers
 * hold the CPU's lock.
 */
#ifndef __LIB_FAIR_TURNS_H
#define __LIB_FAIR_TURNS_H

#include "group.h"
#include "rule.h"

struct fair_lock {
	struct bpf_spin_lock lock;
};

/*
 * One lock a CPU for its queues and everything in them. The kernel's own runqueue lock would
 * do for all callbacks about that CPU, but a CPU that runs dry also takes from others.
 */
DEFINE_ARRAY_MAP(cpu_locks, MAX_CPUS, struct fair_lock)

static __always_inline struct fair_lock *cpu_lock(u32 cpu)
{
	return bpf_map_lookup_elem(&cpu_locks, &cpu);
}

/* The tasks of a CPU, in the order in which balancing looks at them. Task i joins at the
 * head. */
static __maybe_unused __noinline void list_task(struct fair_cpu *cs, u32 i)
{
	entity(i)->list_prev = 0;
	entity(i)->list_next = cs->first_task;
	if (cs->first_task)
		entity(cs->first_task)->list_prev = i;
	else
		cs->last_task = i;
	cs->first_task = i;
}

static __noinline void unlist_task(struct fair_cpu *cs, u32 i)
{
	u32 next = entity(i)->list_next, prev = entity(i)->list_prev;

	if (prev)
		entity(prev)->list_next = next;
	else
		cs->first_task = next;
	if (next)
		entity(next)->list_prev = prev;
	else
		cs->last_task = prev;
}

/* Task i joins at the end. */
static __maybe_unused __noinline void append_task(struct fair_cpu *cs, u32 i)
{
	u32 last = cs->last_task;

	entity(i)->list_prev = last;
	entity(i)->list_next = 0;
	if (last)
		entity(last)->list_next = i;
	else
		cs->first_task = i;
	cs->last_task = i;
}

/* To the end of the list: it has been looked at. */
static __noinline void list_task_last(struct fair_cpu *cs, u32 i)
{
	if (cs->last_task == i)
		return;
	unlist_task(cs, i);
	entity(i)->list_next = 0;
	entity(i)->list_prev = cs->last_task;
	entity(cs->last_task)->list_next = i;
	cs->last_task = i;
}

/* Takes what runs in queue q and below out of the turn: back to the tree if still runnable. */
static __noinline void put_current(u32 q, u64 now_ns)
{
	u32 level;

	bpf_for (level, 0, MAX_DEPTH) {
		struct fair_queue *cfs_rq = queue(q);
		u32 i = cfs_rq->curr;

		if (!i)
			break;
		update_curr(q, now_ns);
		/* Or it would be taken for one that has just run: is_hot(). */
		if (entity(i)->exec_start_ns == PAUSED)
			entity(i)->exec_start_ns = now_ns;
		update_load(i, now_ns);
		start_waiting(q, i);
		cfs_rq->curr = 0;
		if (is_task(i))
			break;
		q = owned_queue(i);
	}
}

/*
 * Gives task i the turn on its CPU, from the level upwards where the present turn differs;
 * groups that have the turn in both cases keep it. No time passes until resume_current().
 */
static __noinline void switch_to(u32 i, u64 now_ns)
{
	struct fair_cpu *cs = cpu_state(entity(i)->cpu);
	u32 level;

	WRITE_ONCE(cs->curr, i);
	bpf_for (level, 0, MAX_DEPTH) {
		u32 q = entity(i)->queue;

		if (!i)
			break;
		update_curr(q, now_ns);
		if (queue(q)->curr != i) {
			put_current(q, now_ns);
			set_current(q, i, now_ns);
		}
		entity(i)->exec_start_ns = PAUSED;
		i = owner_of(q);
	}
}

/* The task whose turn is paused or about to begin is on the CPU from now on. */
static __noinline void resume_current(u32 i, u64 now_ns)
{
	u32 level;

	bpf_for (level, 0, MAX_DEPTH) {
		if (!i)
			break;
		/* Without the lock, see running(); partner: update_curr(). */
		WRITE_ONCE(entity(i)->exec_start_ns, now_ns);
		i = parent_of(i);
	}
}

/* A task of another class takes the CPU: charge up to now, then let no time pass. */
static __noinline void pause_current(u32 i, u64 now_ns)
{
	u32 level;

	bpf_for (level, 0, MAX_DEPTH) {
		if (!i)
			break;
		update_curr(entity(i)->queue, now_ns);
		entity(i)->exec_start_ns = PAUSED;
		i = parent_of(i);
	}
}

/* Moves *i and *j up to where both are in the same queue. */
static __noinline bool meet(u32 *i, u32 *j)
{
	u32 step;

	bpf_for (step, 0, 2 * MAX_DEPTH) {
		u32 a = entity(*i)->queue, b = entity(*j)->queue;

		if (a == b)
			return true;
		if (group(queue(a)->group)->depth >= group(queue(b)->group)->depth)
			*i = owner_of(a);
		if (group(queue(b)->group)->depth >= group(queue(a)->group)->depth)
			*j = owner_of(b);
		if (!*i || !*j)
			break;
	}
	return false;
}

#endif
