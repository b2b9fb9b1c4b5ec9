/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks get a CPU and leave it.
 */
#pragma once

#include "idle.h"
#include "iso.h"
#include "queue.h"

/* The core's slice: far beyond any of BFS, whose slices end in tick(), but not "infinite", which
 * may stop the tick. */
#define TURN_NS		      (1000 * NSEC_PER_SEC)

/* p->__state of tasks that count as load while they sleep; these sleeps do not. */
#define STATE_UNINTERRUPTIBLE 0x2
#define STATE_NOLOAD	      0x400

/* "iso-" */
static __always_inline bool is_called_iso(const struct task_struct *p)
{
	return p->comm[0] == 'i' && p->comm[1] == 's' && p->comm[2] == 'o' && p->comm[3] == '-';
}

static __always_inline u8 policy_of(const struct task_struct *p)
{
	if (p->policy == POLICY_IDLE)
		return IDLE;
	if (iso_by_name && is_called_iso(p))
		return ISO;
	return p->policy == POLICY_BATCH ? BATCH : NORMAL;
}

/* The queue of a task that is about to wait. An idle task that holds up others is a normal one. */
static __always_inline u8 prio_of(const struct task_struct *p, const struct bfs_task *t)
{
	if (t->policy == ISO)
		return iso_throttled() ? PRIO_NORMAL : PRIO_ISO;
	if (t->policy == IDLE && !(p->flags & PF_EXITING) && !t->slept_load)
		return PRIO_IDLE;
	return PRIO_NORMAL;
}

/* Task @i gets CPU @cpu. Lock held. */
static __noinline void take(u32 i, u32 cpu, u64 now_ns)
{
	struct bfs_task *t = task(i);
	struct bfs_cpu *c = cpu_state(cpu);

	if (t->queued)
		unlink(i);
	WRITE_ONCE(t->cpu, cpu);
	t->sticky = false;
	/* Partner: find_victim() on other CPUs. */
	WRITE_ONCE(c->curr, i);
	WRITE_ONCE(c->prio, t->prio);
	WRITE_ONCE(c->deadline, t->deadline);
	WRITE_ONCE(c->slice, t->slice);
	WRITE_ONCE(c->last_ran_ns, t->last_ran_ns);
	c->policy = t->policy;
	c->dither = dithers() && (now_ns - c->tick_ns) % par.jiffy_ns < par.jiffy_ns / 2;
	if (c->ran != i) {
		c->last_task = c->ran;
		c->ran = i;
	}
	if (is_idle(cpu))
		claim_idle(cpu);
}

/* Task @i, which runs on CPU @cpu, leaves it, or at least is compared with others. Lock held, or
 * the task is in no queue. */
static __noinline void put(u32 i, u32 cpu, u64 now_ns)
{
	struct bfs_task *t = task(i);
	struct bfs_cpu *c = cpu_state(cpu);

	charge(c, now_ns);
	t->slice = c->slice;
	t->deadline = c->deadline;
	t->last_ran_ns = now_ns;
	check_deadline(t, now_ns);
}

/* Task @i had to leave CPU @cpu and sticks to it. The one that did so before is free to go, and an
 * idle CPU may have it. Lock held. */
static __noinline void stick(u32 i, u32 cpu)
{
	struct bfs_cpu *c = cpu_state(cpu);
	u32 old = c->sticky;

	c->sticky = i;
	task(i)->sticky = true;
	if (old && old != i && task(old)->sticky && task(old)->cpu == cpu) {
		s32 to = claim_best_idle(old, cpu);

		task(old)->sticky = false;
		if (to >= 0)
			c->wake = to + 1;
	}
}

/* CPU @cpu has nothing to run. Lock held. */
static __always_inline void go_idle(u32 cpu)
{
	struct bfs_cpu *c = cpu_state(cpu);

	WRITE_ONCE(c->curr, 0);
	WRITE_ONCE(c->prio, PRIO_NONE);
	c->last_task = c->ran;
	grq.nr_idle++;
	set_idle(cpu);
}

/*
 * schedule(): the task that CPU @cpu runs next, which it has from here on. @prev, if not 0, runs
 * there and may go on. 0: it goes idle. Not static, so that the verifier looks at it by itself.
 */
__noinline int choose(u32 cpu, u32 prev, u64 now_ns)
{
	struct bfs_lock *lk = the_lock();
	struct bfs_cpu *c = cpu_state(cpu);
	u32 next;

	if (!lk)
		return 0;
	bpf_spin_lock(&lk->lock);
	if (prev && c->curr == prev)
		put(prev, cpu, now_ns);
	next = earliest_deadline_task(cpu, prev, now_ns);
	if (prev)
		task(prev)->seen_idle = grq.nr_idle;
	if (sticks() && prev && next != prev)
		stick(prev, cpu);
	if (!next)
		go_idle(cpu);
	else if (next != prev || c->curr != prev || !stale_copy)
		take(next, cpu, now_ns);
	if (next && next != prev)
		custody_choose(&task(next)->custody, cpu);
	bpf_spin_unlock(&lk->lock);
	return next;
}

/* Task @i runs on CPU @cpu without having been chosen, or is in the queue once more. */
__noinline int come(u32 i, u32 cpu, u32 prio, u64 now_ns)
{
	struct bfs_lock *lk = the_lock();

	if (!lk)
		return -ENOENT;
	bpf_spin_lock(&lk->lock);
	custody_end(&task(i)->custody);
	if (task(i)->queued)
		unlink(i);
	task(i)->prio = prio;
	if (cpu_state(cpu)->curr != i)
		take(i, cpu, now_ns);
	bpf_spin_unlock(&lk->lock);
	return 0;
}

/* Task @i leaves CPU @cpu without a choice: it sleeps, or another class takes the CPU. */
__noinline int leave(u32 i, u32 cpu, u64 now_ns, bool to_other)
{
	struct bfs_lock *lk = the_lock();
	struct bfs_cpu *c = cpu_state(cpu);

	if (!lk)
		return -ENOENT;
	bpf_spin_lock(&lk->lock);
	if (c->curr == i) {
		put(i, cpu, now_ns);
		WRITE_ONCE(c->curr, 0);
		if (to_other)
			WRITE_ONCE(c->prio, PRIO_OTHER);
		/* BFS would have put the other task on an idle CPU: have one looked for. */
		task(i)->seen_idle = grq.nr_idle - 1;
	}
	bpf_spin_unlock(&lk->lock);
	return 0;
}

/* Task @i is no longer in the queue. */
__noinline int forget(u32 i)
{
	struct bfs_lock *lk = the_lock();

	if (!lk)
		return -ENOENT;
	bpf_spin_lock(&lk->lock);
	custody_end(&task(i)->custody);
	if (task(i)->queued)
		unlink(i);
	task(i)->seen_idle = grq.nr_idle;
	bpf_spin_unlock(&lk->lock);
	return 0;
}

/* For the task that no longer sticks to CPU @cpu: see stick(). */
static __always_inline void wake_for_old(u32 cpu)
{
	u32 wake = cpu_state(cpu)->wake;

	if (!wake)
		return;
	cpu_state(cpu)->wake = 0;
	scx_bpf_kick_cpu(wake - 1, SCX_KICK_IDLE);
}
