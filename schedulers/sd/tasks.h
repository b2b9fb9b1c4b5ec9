/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What SD does to a task when it runs, sleeps or changes. begin_idle() and change() take the lock
 * of a CPU themselves.
 */
#pragma once

#include "turns.h"
#include "tiltyard/linux26/tasks.h"

static __always_inline void reset_task(u32 i)
{
	__builtin_memset(task(i), 0, sizeof(*task(i)));
}

/* Task @i, new, has been queued: its creator owes nothing for that. */
static __always_inline void end_fork(u32 i)
{
	rq_task(i)->forker = 0;
}

/* Its run begins, unless it has only been changed. */
static __always_inline void begin_run(u32 i)
{
	if (!task(i)->on_cpu)
		task(i)->charged_ns = scx_bpf_now();
	task(i)->on_cpu = true;
}

static __always_inline void end_run(struct task_struct *p)
{
	task(slot_of(p))->on_cpu = false;
}

static __always_inline void fall_asleep(struct task_struct *p, u32 i)
{
	struct sd_task *t = task(i);

	t->on_cpu = false;
	t->unsuitable = t->policy == POLICY_IDLE && (p->__state & TASK_UNINTERRUPTIBLE);
}

/* Whoever comes next starts with all of its slots. */
static __noinline void begin_idle(u32 cpu, u64 now_ns)
{
	struct queue_lock *lk = rq_lock(cpu);

	if (!lk)
		return;
	bpf_spin_lock(&lk->lock);
	if (!cpu_rq(cpu)->nr_running)
		new_rotation(cpu_state(cpu), now_ns);
	bpf_spin_unlock(&lk->lock);
}

static __noinline void probe_task(struct task_struct *p, u32 i)
{
	/* Shown, and decide nothing: a CPU that pulls the task may be changing them. */
	TILT_PROBE_TASK(level, p, data_race(task(i)->rq.prio) - MAX_RT_PRIO);
	TILT_PROBE_TASK(quota_left_us, p, data_race(task(i)->slice_us));
}

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
