/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What callbacks do to a task and its CPU's queue under the lock of that CPU, which these functions
 * take themselves unless they say otherwise. Most are not static: see depart().
 */
#pragma once

#include "turns.h"

/* Coming ------------------------------------------------------------------------------------ */

/* Task @i, in no queue, joins that of @cpu. Lock held; settle() came before. */
static __noinline void join(u32 cpu, u32 i, bool in_interrupt, u64 now_ns)
{
	struct o1_cpu *c = cpu_state(cpu);
	struct o1_task *t = task(i);

	t->rq.moving = false;
	t->rq.pushed = false;
	/* Partners: detach_tasks() on a CPU that has seen the task on its old one, depart(). */
	WRITE_ONCE(t->rq.cpu, cpu);
	/* No tick came while it idled. */
	if (!c->rq.nr_running)
		update_cpu_load(&c->rq, tick_of(now_ns));
	if (t->asleep)
		wake_up(c, i, in_interrupt, now_ns);
	else if (t->forker)
		wake_up_new(c, i, c->rq.curr == t->forker);
	else
		activate(c, i);
	t->asleep = false;
}

/* A task that has come preempts what runs if it is better; but a waker that is about to leave the
 * CPU to it may go on until it does, and a new thread waits for its turn. Lock held. */
static __always_inline bool preempts(struct runqueue *rq, u32 i)
{
	struct o1_task *t = task(i);
	bool waits = t->sync || (t->forker && rq->curr == t->forker);

	if (!wakeup_preemption && rq->curr)
		waits = true;
	t->sync = false;
	if (waits)
		return rq->need_resched;
	return preempts_curr(rq, i);
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
		join(cpu, i, false, now_ns);
	WRITE_ONCE(rq->curr, i);
	WRITE_ONCE(rq->need_resched, false);
	task(i)->timestamp_ns = now_ns;
	task(i)->sleep_type = SLEEP_NORMAL;
	custody_end(&rq_task(i)->custody);
	bpf_spin_unlock(&lk->lock);
	return 0;
}

/* Created and gone -------------------------------------------------------------------------- */

/* The task that creates @i gives half of its slice. True: its CPU is to choose again. */
__noinline int fork_task(u32 i, u32 parent, u64 now_ns)
{
	/* It runs here: only a change of its own could move it. */
	u32 cpu = READ_ONCE(rq_task(parent)->cpu);
	struct queue_lock *lk = rq_lock(cpu);
	bool resched = false;

	if (!lk)
		return false;
	bpf_spin_lock(&lk->lock);
	if (is_queued(parent)) {
		share_slice(cpu_state(cpu), i, parent, now_ns);
		task(i)->forker = parent;
		resched = cpu_rq(cpu)->need_resched;
	}
	bpf_spin_unlock(&lk->lock);
	return resched;
}

/* A task has created task @i, which has been queued. */
__noinline int end_fork(u32 i)
{
	u32 parent = task(i)->forker, cpu = READ_ONCE(rq_task(parent)->cpu);
	struct queue_lock *lk = rq_lock(cpu);

	if (!parent || !lk)
		return 0;
	bpf_spin_lock(&lk->lock);
	fork_penalty(parent);
	bpf_spin_unlock(&lk->lock);
	task(i)->forker = 0;
	return 0;
}

/* Task @i has exited: what it leaves is its parent's, if that is one of ours. */
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

static __always_inline bool serves_cpu(struct task_struct *p)
{
	return kthreads_first && (p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1;
}

/* What of task p the nice value and the policy decide. Linux 2.6.22 has no SCHED_IDLE. */
static __always_inline u32 static_prio_of(struct task_struct *p)
{
	return p->policy == POLICY_IDLE ? MAX_PRIO - 1 : (u32)p->static_prio;
}

/* Task @i gets another nice value, or batch policy. True: its CPU is to choose again. */
__noinline int change(u32 i, u32 static_prio, bool batch)
{
	u32 try;

	bpf_for (try, 0, LOCK_TRIES) {
		/* Partner: detach_task(). */
		u32 cpu = READ_ONCE(rq_task(i)->cpu);
		struct queue_lock *lk = rq_lock(cpu);
		struct runqueue *rq = cpu_rq(cpu);
		bool ours, resched;

		if (!lk)
			break;
		bpf_spin_lock(&lk->lock);
		ours = READ_ONCE(rq_task(i)->cpu) == cpu;
		if (ours) {
			task(i)->batch = batch;
			if (static_prio != task(i)->static_prio)
				renice(cpu_state(cpu), i, static_prio);
		}
		resched = rq->need_resched;
		bpf_spin_unlock(&lk->lock);
		if (ours)
			return resched;
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
