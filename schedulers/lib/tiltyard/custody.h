/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks that a scheduler keeps to itself from enqueue() to dispatch(), and their hand-over.
 *
 * Between the two a task is in the scheduler's custody: it is in no queue of the core, and only the
 * scheduler can bring it back. Custody begins in enqueue() and ends when the task is handed over or
 * when the core takes it away: in dequeue() (its affinity or another property changes), and, on
 * paths that leave out the former, in quiescent() and running(). These change the mark under the
 * lock of the queues that hold the task.
 *
 * dispatch() chooses a task under that lock and hands it over without it. In between, the core may
 * take the task away, restrict it to other CPUs and enqueue it again; a late insert would then be
 * accepted for the new custody. So a choice is a mark of its own, which names the CPU. hand_over()
 * ends custody only if the mark is still there after the insert: then the core had not touched the
 * task before the insert, and if it does so later, it drops the insert.
 *
 * Where a task may run can change only while it is in nobody's custody. So a caller that asks the
 * kernel before it takes that lock compares `round`: if that is unchanged, the answer still holds.
 */
#ifndef __LIB_CUSTODY_H
#define __LIB_CUSTODY_H

struct custody {
	s32 pid;
	u32 round; /* of this place in the table: how often custody has begun, of whatever task */
	u32 held;  /* NOT_HELD, HELD, or CHOSEN plus a CPU */
};

#define NOT_HELD  0
#define HELD	  1
#define CHOSEN	  2

#define MAX_SPINS (1 << 23) /* the most that bpf_for allows */

/* A task gets this place, whose round goes on. Partners: all who read these of a task that they do
 * not hold. */
static __always_inline void custody_init(struct custody *c, s32 pid)
{
	WRITE_ONCE(c->pid, pid);
	WRITE_ONCE(c->held, NOT_HELD);
}

/* A task's pid changes if a thread that does not lead its process calls execve(). */
static __always_inline void custody_begin(struct custody *c, s32 pid)
{
	WRITE_ONCE(c->pid, pid);
	WRITE_ONCE(c->round, c->round + 1);
	WRITE_ONCE(c->held, HELD);
}

static __always_inline void custody_end(struct custody *c)
{
	WRITE_ONCE(c->held, NOT_HELD);
}

/* Does the core put p back without enqueue(), unless the scheduler's flags ask for such tasks? Then
 * p runs on where it was, even if others wait, and without dispatch(). */
static __always_inline bool skips_custody(struct task_struct *p)
{
	return (p->flags & PF_EXITING) || is_migration_disabled(p);
}

static __always_inline bool custody_holds(const struct custody *c)
{
	return READ_ONCE(c->held) != NOT_HELD;
}

/* @cpu is going to hand the task over, if it still is in custody. Lock of its queues held. */
static __always_inline void custody_choose(struct custody *c, u32 cpu)
{
	if (custody_holds(c))
		WRITE_ONCE(c->held, CHOSEN + cpu);
}

/* `on_cpu` is an int or a u8, depending on the kernel; this reads whichever it is. */
static __always_inline bool is_on_cpu(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD(task, on_cpu);
}

/*
 * A task that has just been put back is still current on the CPU where it ran until that CPU has
 * switched. BPF programs run with migration of the current task disabled, so it may not move yet,
 * and inserting it into another CPU's local DSQ is an error. Until it has switched, that CPU takes
 * no lock that the core holds around dispatch() here, so it does not wait for us: no deadlock.
 */
static __always_inline void wait_for_switch(struct task_struct *p, const struct custody *c,
					    u32 ours)
{
	u32 spin;

	bpf_for (spin, 0, MAX_SPINS) {
		if (!is_on_cpu(p) || READ_ONCE(c->held) != ours)
			break;
	}
}

/* In dispatch(): inserts the task that @cpu has chosen into @cpu's local DSQ. False: the core has
 * taken it away, and its queues should forget it unless it is in custody again. */
static __always_inline bool hand_over(struct custody *c, u32 cpu, u64 slice_ns)
{
	u32 ours = CHOSEN + cpu;
	struct task_struct *p = NULL;

	if (READ_ONCE(c->held) == ours)
		p = bpf_task_from_pid(READ_ONCE(c->pid));
	if (p) {
		if (is_on_cpu(p))
			wait_for_switch(p, c, ours);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
		bpf_task_release(p);
	}
	if (__sync_val_compare_and_swap(&c->held, ours, NOT_HELD) == ours)
		return p;
	if (p)
		scx_bpf_dispatch_cancel();
	return false;
}

#endif
