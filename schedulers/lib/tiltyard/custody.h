/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks that a scheduler keeps to itself from enqueue() to dispatch(), and their hand-over.
 *
 * Between the two a task is in the scheduler's custody: it is in no queue of the core, and only the
 * scheduler can bring it back. Custody begins in enqueue() and ends when the task is handed over or
 * when the core takes it away: in dequeue() (its affinity or another property changes), and, on
 * paths that leave out the former, in quiescent() and running(). These change the mark under the
 * lock of the queues that hold the task. hand_over() does not: a task that the core takes away at
 * that moment is sorted out by the core, which makes sure of a task once more when it is inserted.
 *
 * Where a task may run can change only while it is in nobody's custody. So who asks the kernel
 * without that lock, and then takes it, compares `round`: if that is still the same, the answer is.
 */
#ifndef __LIB_CUSTODY_H
#define __LIB_CUSTODY_H

struct custody {
	s32 pid;
	u32 round; /* of this place in the table: how often custody has begun, of whatever task */
	bool held;
};

/* A task gets this place, whose round goes on. Partners: all who read these of a task that they do
 * not hold. */
static __always_inline void custody_init(struct custody *c, s32 pid)
{
	WRITE_ONCE(c->pid, pid);
	WRITE_ONCE(c->held, false);
}

/* A task's pid changes if a thread that does not lead its process calls execve(). */
static __always_inline void custody_begin(struct custody *c, s32 pid)
{
	WRITE_ONCE(c->pid, pid);
	WRITE_ONCE(c->round, c->round + 1);
	WRITE_ONCE(c->held, true);
}

static __always_inline void custody_end(struct custody *c)
{
	WRITE_ONCE(c->held, false);
}

static __always_inline bool custody_holds(const struct custody *c)
{
	return READ_ONCE(c->held);
}

/* Inserts the task into DSQ @dsq. False: it was not in custody, or is gone, and its queues should
 * forget it. */
static __always_inline bool hand_over(struct custody *c, u64 dsq, u64 slice_ns)
{
	struct task_struct *p = NULL;

	if (custody_holds(c))
		p = bpf_task_from_pid(READ_ONCE(c->pid));
	if (!p)
		return false;
	custody_end(c);
	scx_bpf_dsq_insert(p, dsq, slice_ns, 0);
	bpf_task_release(p);
	return true;
}

#endif
