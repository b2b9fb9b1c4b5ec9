/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A task's CPU: how it joins a queue and leaves it, whoever takes it away; its creation, its end
 * and its affinity. The functions here take the locks themselves unless they say otherwise.
 */
#ifndef __LIB_LINUX26_TASKS_H
#define __LIB_LINUX26_TASKS_H

#include "load.h"
#include "rule.h"

/* The running task, if any, loses the CPU and stays queued. Lock held. */
static __always_inline void put_curr(struct runqueue *rq, u64 now_ns)
{
	u32 i = rq->curr;

	if (!i)
		return;
	rq_charge(rq, i, now_ns);
	WRITE_ONCE(rq->curr, 0);
}

/* Leaving ----------------------------------------------------------------------------------- */

/* How a task leaves. */
#define LEAVE_QUEUE  0
#define LEAVE_HANDS  1 /* it leaves custody, but keeps its place in the queue */
#define LEAVE_UNHELD 2 /* the core took it away; nothing is done if it is in custody again */

/* Task @i leaves its queue, @how; nobody holds it afterwards. Lock held. */
static __always_inline void leave(struct runqueue *rq, u32 i, u64 now_ns, u32 how)
{
	struct rq_task *t = rq_task(i);

	if (how == LEAVE_UNHELD && custody_holds(&t->custody))
		return;
	custody_end(&t->custody);
	if (how == LEAVE_HANDS)
		return;
	if (rq->curr == i)
		put_curr(rq, now_ns);
	if (is_queued(i)) {
		dequeue(rq, i);
		dec_nr_running(rq, i);
	}
	t->moving = false;
	t->pushed = false;
}

/* A balancing CPU may take a waiting task at any moment, and then another lock guards it. */
#define LOCK_TRIES 8

/* It has been taken that often, or its CPU is none. Left where it is, the queues would be wrong. */
static __noinline void give_up(u32 i)
{
	scx_bpf_error("linux26: task %d has been on %d CPUs while one of them was locked",
		      READ_ONCE(rq_task(i)->custody.pid), LOCK_TRIES);
}

/*
 * Takes task @i, running or not, out of its queue, @how.
 *
 * Not static, nor are others that take a lock and need only numbers: the verifier looks at such a
 * function by itself, once, and not along every path to it. It wants them to return int.
 */
__noinline int depart(u32 i, u64 now_ns, u32 how)
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
			leave(cpu_rq(cpu), i, now_ns, how);
		bpf_spin_unlock(&lk->lock);
		if (ours)
			return 0;
	}
	give_up(i);
	return -EAGAIN;
}

/*
 * Task @i, which @cpu has chosen, could not be handed over: it leaves. If another CPU has it by
 * now, and may be running it, it stays there.
 */
__noinline int unchoose(u32 i, u32 cpu, u64 now_ns)
{
	struct queue_lock *lk = rq_lock(cpu);

	if (!lk)
		return -ENOENT;
	bpf_spin_lock(&lk->lock);
	if (READ_ONCE(rq_task(i)->cpu) == cpu)
		leave(cpu_rq(cpu), i, now_ns, LEAVE_UNHELD);
	bpf_spin_unlock(&lk->lock);
	return 0;
}

/* Before task @i joins the queue of @cpu: off its old CPU. */
static __always_inline void settle(u32 i, u32 cpu, u64 now_ns)
{
	if (READ_ONCE(rq_task(i)->cpu) != cpu)
		depart(i, now_ns, LEAVE_QUEUE);
}

/* Joining ----------------------------------------------------------------------------------- */

/* Task @i, in no queue, joins that of @cpu. Lock held; settle() came before. */
static __noinline void join(u32 cpu, u32 i, bool in_interrupt, u64 now_ns)
{
	struct runqueue *rq = cpu_rq(cpu);
	struct rq_task *t = rq_task(i);

	t->moving = false;
	t->pushed = false;
	/* Partners: detach_tasks() on a CPU that has seen the task on its old one, depart(). */
	WRITE_ONCE(t->cpu, cpu);
	/* No tick came while it idled. */
	if (!rq->nr_running)
		update_cpu_load(rq, tick_of(now_ns));
	activate(cpu, i, in_interrupt, now_ns);
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
	begin_turn(cpu, i, now_ns);
	WRITE_ONCE(rq->curr, i);
	WRITE_ONCE(rq->need_resched, false);
	custody_end(&rq_task(i)->custody);
	bpf_spin_unlock(&lk->lock);
	return 0;
}

/* Created and gone -------------------------------------------------------------------------- */

/* The task that creates @i gives half of what it has. True: its CPU is to choose again. */
__noinline int fork_task(u32 i, u32 parent, u64 now_ns)
{
	/* It runs here: only a change of its own could move it. */
	u32 cpu = READ_ONCE(rq_task(parent)->cpu);
	struct queue_lock *lk = rq_lock(cpu);
	bool resched = false;

	/* If a rule does not use it, compilers leave it uninitialised, and the verifier refuses. */
	barrier_var(now_ns);
	if (!lk)
		return false;
	bpf_spin_lock(&lk->lock);
	if (is_queued(parent)) {
		resched = share_slice(cpu, i, parent, now_ns);
		rq_task(i)->forker = parent;
	}
	bpf_spin_unlock(&lk->lock);
	return resched;
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
	/* It may be moved at this moment: then its new CPU's change or this one is lost. */
	cpu = READ_ONCE(rq_task(heir)->cpu);
	lk = rq_lock(cpu);
	if (!lk)
		return;
	bpf_spin_lock(&lk->lock);
	inherit(heir, i);
	bpf_spin_unlock(&lk->lock);
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

#endif
