/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What callbacks do to a task and its CPU's queue under the lock of that CPU, which these functions
 * take themselves unless they say otherwise. Most are not static: see depart().
 */
#pragma once

#include "turns.h"

/* Coming ------------------------------------------------------------------------------------ */

/* Task @i, in no queue, joins that of @cpu. Lock held; settle() came before. */
static __noinline void join(u32 cpu, u32 i, u64 now_ns)
{
	struct runqueue *rq = cpu_rq(cpu);

	task(i)->rq.moving = false;
	task(i)->rq.pushed = false;
	/* Partners: balancing on a CPU that has seen the task on its old one, depart(). */
	WRITE_ONCE(rq_task(i)->cpu, cpu);
	/* No tick came while it idled. */
	if (!rq->nr_running)
		update_cpu_load(rq, tick_of(now_ns));
	activate(cpu, i);
}

/* Task @i, settled on @cpu, has got the CPU without having been chosen. */
__noinline int take_turn(u32 i, u32 cpu, u64 now_ns)
{
	struct queue_lock *lk = rq_lock(cpu);
	struct runqueue *rq = cpu_rq(cpu);

	if (!lk)
		return -ENOENT;
	bpf_spin_lock(&lk->lock);
	put_curr(rq, now_ns);
	if (!is_queued(i))
		join(cpu, i, now_ns);
	note_pick(cpu_state(cpu), i);
	WRITE_ONCE(rq->curr, i);
	WRITE_ONCE(rq->need_resched, false);
	custody_end(&rq_task(i)->custody);
	bpf_spin_unlock(&lk->lock);
	return 0;
}

/* Created and gone -------------------------------------------------------------------------- */

/* The task that creates @i gives half of its quota. */
__noinline int fork_task(u32 i, u32 parent)
{
	/* It runs here: only a change of its own could move it. */
	u32 cpu = READ_ONCE(rq_task(parent)->cpu);
	struct queue_lock *lk = rq_lock(cpu);

	if (!lk)
		return 0;
	bpf_spin_lock(&lk->lock);
	if (is_queued(parent)) {
		share_slice(i, parent);
		task(i)->forker = parent;
	}
	bpf_spin_unlock(&lk->lock);
	return 0;
}

/* Task @i has exited: its parent, if that is one of ours, may get what is left of its quota. */
static __noinline void bequeath(struct task_struct *p, u32 i)
{
	struct task_struct *parent = bpf_task_from_pid(p->real_parent->pid);
	u32 heir = parent ? slot_of(parent) : 0, cpu;
	struct queue_lock *lk;

	if (parent)
		bpf_task_release(parent);
	if (!heir || heir == i)
		return;
	/* It may be moved at this moment: then what its new CPU does to it is lost, or this. */
	cpu = READ_ONCE(rq_task(heir)->cpu);
	lk = rq_lock(cpu);
	if (!lk)
		return;
	bpf_spin_lock(&lk->lock);
	inherit(heir, i);
	bpf_spin_unlock(&lk->lock);
}

/* Changed ----------------------------------------------------------------------------------- */

/* Task @i gets another nice value or policy. */
__noinline int change(u32 i, u32 static_level, u32 policy)
{
	u32 try;

	bpf_for (try, 0, LOCK_TRIES) {
		/* Partner: detach_task(). */
		u32 cpu = READ_ONCE(rq_task(i)->cpu);
		struct queue_lock *lk = rq_lock(cpu);
		bool ours;

		if (!lk)
			break;
		bpf_spin_lock(&lk->lock);
		ours = READ_ONCE(rq_task(i)->cpu) == cpu;
		if (ours)
			renice(cpu, i, static_level, policy);
		bpf_spin_unlock(&lk->lock);
		if (ours)
			return 0;
	}
	give_up(i);
	return -EAGAIN;
}

/* Task p may run on the CPUs of @allowed. */
static __noinline void set_affinity(struct task_struct *p, u32 i, const struct cpumask *allowed)
{
	u32 cpu = READ_ONCE(rq_task(i)->cpu);
	struct queue_lock *lk = rq_lock(cpu);
	struct affinity new, old;

	affinity_read(&new, allowed, nr_cpus);
	if (!lk)
		return;
	bpf_spin_lock(&lk->lock);
	old = rq_task(i)->affinity;
	rq_task(i)->affinity = new;
	bpf_spin_unlock(&lk->lock);
	affinity_drop(&old);
}
