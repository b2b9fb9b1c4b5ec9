/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The one queue: lists of isochronous, of normal and of idle tasks, in the order in which they
 * came. A running task is in none. All of it under the lock.
 */
#pragma once

#include "deadline.h"

struct bfs_list {
	u32 first, last;
};

struct bfs_queue {
	/* By priority, from PRIO_ISO on. */
	struct bfs_list lists[NR_QUEUES];
	/* How often a CPU has found nothing here. */
	u32 nr_idle;
	/* Tasks that are queued, and how many the last search has looked at: for probes. */
	u32 nr_queued, nr_looked_at;
};

static struct bfs_queue grq;

/* Waiting tasks that starve_limit_ms has let run: each is a deviation. presets.toml names it. */
u64 nr_rescued;

static __always_inline struct bfs_list *list_of(u32 prio)
{
	return &grq.lists[(prio - PRIO_ISO) & (NR_QUEUES - 1)];
}

static __noinline void append(u32 i)
{
	struct bfs_task *t = task(i);
	struct bfs_list *list = list_of(t->prio);
	u32 last = list->last;

	t->next = 0;
	t->prev = last;
	if (last)
		task(last)->next = i;
	else
		list->first = i;
	list->last = i;
	/* Partner: running(). */
	WRITE_ONCE(t->queued, true);
	grq.nr_queued++;
}

static __noinline void unlink(u32 i)
{
	struct bfs_task *t = task(i);
	struct bfs_list *list = list_of(t->prio);
	u32 next = t->next, prev = t->prev;

	if (prev)
		task(prev)->next = next;
	else
		list->first = next;
	if (next)
		task(next)->prev = prev;
	else
		list->last = prev;
	WRITE_ONCE(t->queued, false);
	grq.nr_queued--;
}

/* The deadline of task @i as CPU @cpu sees it. */
static __always_inline u64 deadline_from(u32 i, u32 cpu)
{
	struct bfs_task *t = task(i);

	if (sticks())
		return t->sticky ? t->deadline << sticky_locality(t->cpu, cpu) : t->deadline;
	if (remembers_last_task() && cpu_state(cpu)->last_task == i)
		return t->deadline;
	return t->deadline + distance(i, t->cpu, cpu);
}

/*
 * The task of one list with the earliest deadline as CPU @cpu sees it, of equals the first; until
 * 0.316 the first one whose deadline has passed. The running task @prev, if this is its list,
 * counts as the last. 0: no task may run here.
 *
 * This is the O(n) of BFS. There are not more than MAX_TASKS tasks, so none is left out.
 */
static __noinline u32 earliest_of_list(u32 cpu, u32 prev, u32 prio, u64 now)
{
	u32 i = list_of(prio)->first, best = 0, n;
	u64 best_deadline = 0;

	bpf_for (n, 0, MAX_TASKS) {
		u64 deadline;

		if (!i)
			break;
		grq.nr_looked_at++;
		/* Else the core is changing it. */
		if (custody_holds(&task(i)->custody) && may_run(i, cpu)) {
			deadline = deadline_from(i, cpu);
			if (!best || earlier(deadline, best_deadline)) {
				best = i;
				best_deadline = deadline;
			}
			if (expired_are_fifo() && earlier(deadline, now))
				return i;
		}
		i = task(i)->next;
	}
	if (prev && task(prev)->prio == prio &&
	    (!best || earlier(deadline_from(prev, cpu), best_deadline)))
		best = prev;
	return best;
}

/* The guard: a task that has waited for too long. Lists are in the order of arrival: mostly the
 * first task of each decides. */
static __noinline u32 starving(u32 cpu, u64 now_ns)
{
	u64 limit_ns = starve_limit_ms * NSEC_PER_MSEC;
	u32 prio, n;

	bpf_for (prio, PRIO_ISO, PRIO_NONE) {
		u32 i = list_of(prio)->first;

		bpf_for (n, 0, MAX_TASKS) {
			if (!i || (s64)(now_ns - task(i)->queued_ns) < (s64)limit_ns)
				break;
			if (custody_holds(&task(i)->custody) && may_run(i, cpu))
				return i;
			i = task(i)->next;
		}
	}
	return 0;
}

/* The task that CPU @cpu should run: @prev, which runs there and may go on, or a queued one. */
static __noinline u32 earliest_deadline_task(u32 cpu, u32 prev, u64 now_ns)
{
	u64 now = deadline_now(now_ns);
	u32 prio, i = 0;

	grq.nr_looked_at = 0;
	if (starve_limit_ms) {
		i = starving(cpu, now_ns);
		if (i) {
			nr_rescued++;
			return i;
		}
	}
	bpf_for (prio, PRIO_ISO, PRIO_NONE) {
		i = earliest_of_list(cpu, prev, prio, now);
		if (i)
			break;
	}
	return i;
}
