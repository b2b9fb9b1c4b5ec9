/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A task's CPU, its group and its birth. The functions here take the locks themselves.
 */
#ifndef __CFS_TASKS_H
#define __CFS_TASKS_H

#include "types.h"
#include "queue.h"

/* Takes task i, running or not, out of its CPU and its group. Not static: see join_session(). */
__noinline int depart(u32 i, u64 now_ns)
{
	struct cfs_entity *e = entity(i);
	struct cfs_lock *lk = cpu_lock(e->cpu);

	if (!lk)
		return -ENOENT;
	bpf_spin_lock(&lk->lock);
	if (e->on_rq) {
		dequeue_task(i, now_ns, 0);
	} else if (!e->relative) {
		e->vruntime -= queue(e->queue)->min_vruntime;
		e->relative = true;
	}
	detach_load(i, now_ns);
	bpf_spin_unlock(&lk->lock);
	return 0;
}

/* Sees to it that task p is counted in the group of its session, if that is what it is in. */
static __noinline void follow_session(struct task_struct *p, u32 i, u64 now_ns)
{
	struct cfs_entity *e = entity(i);
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
			"cfs: no room for another session (%d groups on %d CPUs); set autogroup=0",
			max_groups(), nr_cpus);
		return;
	}
	depart(i, now_ns);
	leave_session(e->group, e->session);
	e->session = id;
	e->group = g;
	e->queue = queue_of(g, e->cpu);
}

/* Before task p joins the queues of `cpu`: off its old CPU, into the group that is now its. */
static __always_inline void settle(struct task_struct *p, u32 i, u32 cpu, u64 now_ns)
{
	follow_session(p, i, now_ns);
	if (entity(i)->cpu != cpu)
		depart(i, now_ns);
}

/* Queues task i on `cpu` unless it is. Lock held; settle() came before. */
static __noinline void join(u32 i, u32 cpu, u64 now_ns, bool wakeup)
{
	struct cfs_entity *e = entity(i);

	if (e->on_rq)
		return;
	/* Partner: take_away() on a CPU that has seen the task on its old one. */
	WRITE_ONCE(e->cpu, cpu);
	e->queue = queue_of(e->group, cpu);
	if (e->newborn && !e->placed) {
		e->vruntime = queue(e->queue)->min_vruntime;
		place_newborn(e->queue, i);
		e->vruntime -= queue(e->queue)->min_vruntime;
	}
	enqueue_task(i, now_ns, wakeup);
}

/*
 * A new task takes its place in the parent's queue; the vruntime is kept as a distance, to be
 * counted from wherever the task will be queued. True if the parent should be preempted.
 */
static __noinline bool fork_task(u32 i, u32 parent, u64 now_ns)
{
	struct cfs_entity *e = entity(i);
	u32 cpu = entity(parent)->cpu, q = queue_of(e->group, cpu), curr;
	struct cfs_lock *lk = cpu_lock(cpu);
	bool swap = false;

	if (!lk)
		return false;
	bpf_spin_lock(&lk->lock);
	update_curr(q, now_ns);
	curr = queue(q)->curr;
	e->cpu = cpu;
	e->queue = q;
	e->vruntime = queue(q)->min_vruntime;
	if (start_debit && curr)
		e->vruntime = entity(curr)->vruntime;
	place_newborn(q, i);
	if (child_runs_first && curr && is_task(curr) &&
	    earlier(entity(curr)->vruntime, e->vruntime)) {
		u64 v = entity(curr)->vruntime;

		entity(curr)->vruntime = e->vruntime;
		e->vruntime = v;
		swap = true;
	}
	e->vruntime -= queue(q)->min_vruntime;
	e->placed = true;
	bpf_spin_unlock(&lk->lock);
	return swap;
}

#endif
