/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What O(1) does to a task when it is created, sleeps or changes. end_fork() and change() take the
 * lock of a CPU themselves.
 */
#pragma once

#include "turns.h"
#include "tiltyard/linux26/tasks.h"

/* States of a task that sleeps for a disk, say; idle kernel threads are counted as such today. */
#define STATE_UNINTERRUPTIBLE 2
#define STATE_NOLOAD	      0x400

static __always_inline void reset_task(u32 i)
{
	__builtin_memset(task(i), 0, sizeof(*task(i)));
}

static __always_inline void fall_asleep(struct task_struct *p, u32 i)
{
	u32 state = p->__state & (STATE_UNINTERRUPTIBLE | STATE_NOLOAD);

	task(i)->asleep = true;
	task(i)->uninterruptible = state == STATE_UNINTERRUPTIBLE;
}

/* Only turns are charged. */
static __always_inline void begin_run(u32 i)
{
}

static __always_inline void end_run(struct task_struct *p)
{
}

static __always_inline void begin_idle(u32 cpu, u64 now_ns)
{
	cpu_state(cpu)->expired_timestamp = 0;
}

/* Probes are shown and decide nothing: the lock has been dropped. */
static __noinline void probe_task(struct task_struct *p, u32 i)
{
	TILT_PROBE_TASK(sleep_avg_ms, p, data_race(task(i)->sleep_avg_ns) / NSEC_PER_MSEC);
	TILT_PROBE_TASK(prio, p, data_race(rq_task(i)->prio));
}

/* A task has created task @i, which has been queued. */
static __noinline void end_fork(u32 i)
{
	u32 parent = rq_task(i)->forker, cpu = READ_ONCE(rq_task(parent)->cpu);
	struct queue_lock *lk = rq_lock(cpu);

	if (!parent || !lk)
		return;
	bpf_spin_lock(&lk->lock);
	fork_penalty(parent);
	bpf_spin_unlock(&lk->lock);
	rq_task(i)->forker = 0;
}

static __always_inline bool serves_cpu(struct task_struct *p)
{
	return kthreads_first && (p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1;
}

static __always_inline bool is_batch(struct task_struct *p)
{
	return p->policy == POLICY_BATCH || p->policy == POLICY_IDLE;
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
