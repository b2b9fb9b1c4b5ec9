/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A task's CPU, its group and its birth. The functions here take the locks themselves.
 */
#ifndef __LIB_FAIR_TASKS_H
#define __LIB_FAIR_TASKS_H

#include "rule.h"
#include "tunables.h"
#include "turns.h"
#include "version.h"

/* Task @i leaves its queues, @how; with LEAVE_CPU its CPU or group as well. Lock held. */
static __always_inline void leave(u32 i, u64 now_ns, u32 how)
{
	struct fair_entity *e = entity(i);

	/* It has woken up meanwhile. */
	if (delays_tasks() && how & LEAVE_DELAYED && !is_delayed(i))
		return;
	if (how & LEAVE_UNHELD && custody_holds(&e->custody))
		return;
	if (!(how & LEAVE_CPU))
		custody_end(&e->custody);
	if (how & LEAVE_HANDS)
		return;
	if (e->on_rq)
		dequeue_task(i, now_ns, how);
	else if (how & LEAVE_CPU)
		forget_queue(i);
	e->moving = false;
	e->pushed = false;
	if (how & (LEAVE_CPU | LEAVE_FOREVER)) {
		load_leaves(i, now_ns);
		detach_load(i, now_ns);
	}
}

/* A balancing CPU may take a waiting task at any moment, and then another lock guards it. */
#define LOCK_TRIES 8

/* It has been taken that often, or its CPU is none. Left where it is, the queues would be wrong. */
static __noinline void give_up(u32 i)
{
	scx_bpf_error("fair: task %d has been on %d CPUs while one of them was locked",
		      READ_ONCE(entity(i)->custody.pid), LOCK_TRIES);
}

/* Takes task @i, running or not, out of its queues, @how. Not static: see join_session(). */
__noinline int depart(u32 i, u64 now_ns, u32 how)
{
	struct fair_entity *e = entity(i);
	u32 try;

	bpf_for (try, 0, LOCK_TRIES) {
		/* Partner: detach_task(). */
		u32 cpu = READ_ONCE(e->cpu);
		struct fair_lock *lk = cpu_lock(cpu);
		bool ours;

		if (!lk)
			break;
		bpf_spin_lock(&lk->lock);
		ours = READ_ONCE(e->cpu) == cpu;
		if (ours)
			leave(i, now_ns, how);
		bpf_spin_unlock(&lk->lock);
		if (ours)
			return 0;
	}
	give_up(i);
	return -EAGAIN;
}

/*
 * Task @i, which @cpu has chosen, is delayed or could not be handed over: it leaves, @how. If
 * another CPU has it by now, and may be running it, it stays there.
 */
__noinline int unchoose(u32 i, u32 cpu, u64 now_ns, u32 how)
{
	struct fair_lock *lk = cpu_lock(cpu);

	if (!lk)
		return -ENOENT;
	bpf_spin_lock(&lk->lock);
	if (READ_ONCE(entity(i)->cpu) == cpu)
		leave(i, now_ns, how);
	bpf_spin_unlock(&lk->lock);
	return 0;
}

/* A delayed entity stays queued even if its group has lost its last task. It leaves here: the next
 * group with the same index must not find it in a queue. */
static __always_inline void group_leave(u32 g)
{
	u32 cpu;

	if (!delays_tasks())
		return;
	bpf_for (cpu, 0, nr_cpus) {
		u32 i = owner_of(queue_of(g, cpu));

		if (is_delayed(i))
			depart(i, scx_bpf_now(), LEAVE_DELAYED);
	}
}

/* Sees to it that task p is counted in the group of its session, if that is what it is in. */
static __noinline void follow_session(struct task_struct *p, u32 i, u64 now_ns)
{
	struct fair_entity *e = entity(i);
	u64 id = 0;
	s32 nice = 0;
	u32 g;

	if (groups_on && autogroup && !e->cgroup)
		id = session_of(p, &nice);
	if (id == e->session)
		return;
	g = id ? join_session(id, nice) : e->cgroup;
	if (id && !g) {
		scx_bpf_error(
			"fair: no room for another session (%d groups on %d CPUs); set autogroup=0",
			max_groups(), nr_cpus);
		return;
	}
	depart(i, now_ns, LEAVE_CPU);
	leave_session(e->group, e->session);
	e->session = id;
	WRITE_ONCE(e->group, g);
	e->queue = queue_of(g, e->cpu);
}

/* Before task p joins the queues of `cpu`: off its old CPU, into the group that is now its. */
static __always_inline void settle(struct task_struct *p, u32 i, u32 cpu, u64 now_ns)
{
	take_request(p, i);
	follow_session(p, i, now_ns);
	if (entity(i)->cpu == cpu)
		return;
	depart(i, now_ns, LEAVE_CPU);
	/* Its cache is left behind. */
	WRITE_ONCE(entity(i)->exec_start_ns, 0);
}

/* Queues task i on `cpu` unless it is. Lock held; settle() came before. */
static __noinline void join(u32 i, u32 cpu, u64 now_ns, bool wakeup)
{
	struct fair_entity *e = entity(i);

	if (e->on_rq) {
		rejoin_task(i, now_ns);
		return;
	}
	e->moving = false;
	e->pushed = false;
	/* Partners: detach_one() on a CPU that has seen the task on its old one, depart(). */
	WRITE_ONCE(e->cpu, cpu);
	e->queue = queue_of(e->group, cpu);
	place_unplaced(i);
	enqueue_task(i, now_ns, wakeup);
}

#endif
