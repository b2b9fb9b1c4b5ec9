/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who makes way for a task that has been queued. Nothing is decided for the task: the CPU that is
 * woken or preempted takes the earliest one of all.
 */
#pragma once

#include "idle.h"

/* Whether task @i, queued, is to preempt the running task of CPU @cpu, whose deadline it sees as
 * @deadline. */
static __always_inline bool preempts(u32 i, u32 cpu, u64 deadline)
{
	struct bfs_task *t = task(i);
	u32 prio = READ_ONCE(cpu_state(cpu)->prio);

	if (t->prio != prio)
		return t->prio < prio;
	if (preempts_by_raw_deadline())
		return earlier(t->deadline, READ_ONCE(cpu_state(cpu)->deadline));
	if (equals_preempt && t->policy != NORMAL)
		return true;
	return t->policy == NORMAL && earlier(t->deadline, deadline);
}

/*
 * The CPU whose task makes way for task @i, -1: none. The candidate is the CPU with the worst
 * priority, among equals the latest deadline, less the distance from CPU @ref, where task @i ran
 * last; then @ref itself. Visits all CPUs.
 */
static __noinline s32 find_victim(u32 i, u32 ref)
{
	u32 worst = 0, cpu;
	u64 latest = 0;
	s32 victim = -1;

	if (preempts_by_raw_deadline() && task(i)->policy == IDLE)
		return -1;
	bpf_for (cpu, 0, nr_cpus) {
		u32 prio = READ_ONCE(cpu_state(cpu)->prio);
		u64 deadline;

		/* One that is waking up will look for itself. */
		if (prio == PRIO_NONE || !(allowed_word(i, cpu >> 6) & bit_of(cpu)))
			continue;
		deadline = READ_ONCE(cpu_state(cpu)->deadline);
		if (!sticks() && (!remembers_last_task() || cpu_state(cpu)->last_task != i))
			deadline -= distance(i, ref, cpu);
		if (victim >= 0) {
			if (prio < worst)
				continue;
			if (prio == worst && earlier(deadline, latest))
				continue;
			if (prio == worst && deadline == latest &&
			    (cpu != ref || preempts_by_raw_deadline()))
				continue;
		}
		victim = cpu;
		worst = prio;
		latest = deadline;
	}
	return victim >= 0 && preempts(i, victim, latest) ? victim : -1;
}

/* An idle CPU for task @i, claimed, or if there is none and @test, a victim. @ref is where it ran
 * last, even if it may not do so any more. Lock held. */
static __noinline s32 find_cpu(u32 i, u32 ref, bool test, bool *preempt)
{
	s32 cpu = claim_best_idle(i, task(i)->cpu);

	*preempt = false;
	if (cpu >= 0)
		return cpu;
	if (!test || !wakeup_preemption)
		return -1;
	*preempt = true;
	return find_victim(i, ref);
}
