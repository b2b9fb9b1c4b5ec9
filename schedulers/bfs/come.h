/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks come to the queue, and somebody may have to look at it.
 */
#pragma once

#include "preempt.h"
#include "run.h"

/* How a task comes: bits for come_to_queue(). */
#define COME_WOKEN  1  /* or new */
#define COME_SYNC   2  /* its waker is about to sleep */
#define COME_BACK   4  /* it ran, and may not go on there */
#define COME_BETTER 8  /* it waited, and has been changed */
#define COME_CHILD  16 /* new, with memory of its own, its parent on this CPU */

#define GO_PREEMPT  (1U << 16)

/*
 * Puts task @i into the queue, of which it may already have a place. Returns the CPU that is to
 * look for a task, plus GO_PREEMPT if that is not idle; -1: none.
 */
__noinline int come_to_queue(u32 i, s32 pid, u32 prio, u32 how, u32 this_cpu)
{
	struct bfs_lock *lk = the_lock();
	struct bfs_task *t = task(i);
	u32 ref = t->left >= 0 ? t->left : t->cpu;
	bool preempt = false;
	s32 cpu = -1;

	if (!lk)
		return -1;
	bpf_spin_lock(&lk->lock);
	/* A CPU that went idle while the task was in nobody's sight has missed it. */
	if (!how && t->seen_idle != grq.nr_idle)
		how = COME_BACK;
	if (t->queued && (t->to_tail || t->prio != prio))
		unlink(i);
	t->prio = prio;
	if (!t->queued)
		append(i);
	t->to_tail = false;
	t->left = -1;
	custody_begin(&t->custody, pid);
	/* The idle CPU that it has claimed is about to look, unless it has already. */
	if (t->has_claimed && READ_ONCE(cpu_state(t->claimed)->prio) == PRIO_NONE) {
		t->has_claimed = false;
		bpf_spin_unlock(&lk->lock);
		return -1;
	}
	t->has_claimed = false;
	if (how & COME_CHILD) {
		cpu = find_cpu(i, ref, false, &preempt);
		preempt = cpu < 0;
		cpu = preempt ? (s32)this_cpu : cpu;
	} else if (how) {
		if (how != COME_BACK)
			t->sticky = false;
		cpu = find_cpu(i, ref, !(how & (COME_SYNC | COME_BACK)), &preempt);
	}
	bpf_spin_unlock(&lk->lock);
	return cpu >= 0 && preempt ? cpu | GO_PREEMPT : cpu;
}

/* How a new task comes. */
static __noinline u32 come_newborn(struct task_struct *p)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	u32 j = parent ? slot_of(parent) : 0;

	if (j && parent->mm != p->mm && READ_ONCE(cpu_state(bpf_get_smp_processor_id())->curr) == j)
		return COME_WOKEN | COME_CHILD;
	return COME_WOKEN;
}
