/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The runqueues of Linux 2.6: each CPU has two arrays, of a list for each priority and a bitmap of
 * those that are not empty. Tasks of the active array run, the head of the best list first; tasks
 * whose turn is over wait in the expired one. When the active array is empty, the two swap roles.
 * Nothing here depends on the number of tasks.
 *
 *	active	  118: A		A runs: it stays at the head of its list meanwhile
 *		  125: B C
 *	expired	  125: D		runs when A, B and C have gone or expired
 *
 * A scheduler has a struct runqueue for each CPU and a struct rq_task in its own struct of each
 * task, in plain arrays; it names tasks by their index (tiltyard/slots.h), 0 for none. Functions
 * here want the lock of the CPU to be held. Other CPUs look without it, by READ_ONCE.
 */
#ifndef __LIB_LINUX26_RQ_H
#define __LIB_LINUX26_RQ_H

#include "../custody.h"
#include "../kernel.h"
#include "../machine.h"
#include "../maps.h"
#include "../slots.h"
#include "affinity.h"

/* Priorities: below 100 are realtime ones, which sched_ext does not hand out. A CPU that runs
 * nothing has priority 140. There is room for more than that in an array. */
#define MAX_RT_PRIO 100
#define MAX_PRIO    140
#define RQ_LEVELS   64

/* No array. */
#define UNQUEUED    2

struct prio_array {
	/* Bit n: the list of priority MAX_RT_PRIO + n is not empty. */
	u64 bitmap;
	u32 nr_active;
	u32 head[RQ_LEVELS];
};

struct rq_task {
	/* A ring: before the head comes the tail. */
	u32 next, prev;
	u32 prio;
	/* Its part in the load of its CPU. */
	u32 load_weight;
	u32 cpu;
	/* Which of the CPU's two arrays it is in, or UNQUEUED. */
	u32 array;
	struct custody custody;
	/* When it last came off a CPU. */
	u64 last_ran_ns;
	/* Taken off one CPU, not yet queued on the other; so while it ran: it follows in enqueue().
	 */
	bool moving, pushed;
	/* Woken by a waker that is about to leave its CPU to it. */
	bool sync;
	/* A task that has not been queued yet: whether it shares memory with its creator, and who
	 * that is, 0 if nobody. */
	bool thread;
	u32 forker;
	struct affinity affinity;
};

struct runqueue {
	struct prio_array arrays[2];
	/* Which one is active. */
	u32 active;
	u32 nr_running;
	u32 raw_weighted_load;
	/* The task that runs or is about to; 0 if none. */
	u32 curr;
	/* A preemption has been asked for and not happened yet. */
	bool need_resched;
	/* Best static priority in the expired array; MAX_PRIO: none has expired. */
	u32 best_expired_prio;
	/* A task of a higher class has driven ours off the CPU. */
	u32 nr_other;
	/* The clock at the last tick or switch. */
	u64 clock_ns;

	/* Averages of the load over 1, 2, 4 ticks; the last tick that they contain. */
	u32 cpu_load[3];
	u64 load_tick;
	/* Balancing: when next; on behalf of all idle CPUs; a task is to be pushed to CPU less 1.
	 */
	u64 next_balance;
	u32 idle_kick;
	u32 push_to;
	/* Nothing was found to run, and nothing has run since. */
	bool dry;
};

/* Of the scheduler: task i, CPU cpu. Looked up in each turn of a loop: the verifier forgets the
 * bounds of what was computed before it. */
static __always_inline struct rq_task *rq_task(u32 i);
static __always_inline struct runqueue *cpu_rq(u32 cpu);

struct queue_lock {
	struct bpf_spin_lock lock;
};

/* The kernel's own runqueue lock would do for all callbacks about a CPU, but a CPU that balances
 * takes from others. */
DEFINE_ARRAY_MAP(rq_locks, MAX_CPUS, struct queue_lock)

static __always_inline struct queue_lock *rq_lock(u32 cpu)
{
	return bpf_map_lookup_elem(&rq_locks, &cpu);
}

static __always_inline struct prio_array *rq_array(struct runqueue *rq, u32 array)
{
	return &rq->arrays[array & 1];
}

static __always_inline u32 expired_of(const struct runqueue *rq)
{
	return rq->active ^ 1;
}

static __always_inline u32 level_of(u32 prio)
{
	return (prio - MAX_RT_PRIO) & (RQ_LEVELS - 1);
}

/* Lists --------------------------------------------------------------------------------- */

/* Puts task @i before task @at, which is in a list. */
static __always_inline void link_before(u32 at, u32 i)
{
	u32 prev = rq_task(at)->prev;

	rq_task(i)->next = at;
	rq_task(i)->prev = prev;
	rq_task(prev)->next = i;
	rq_task(at)->prev = i;
}

/* To the tail of its priority's list. */
static __always_inline void enqueue_tail(struct runqueue *rq, u32 i, u32 array)
{
	struct prio_array *a = rq_array(rq, array);
	u32 level = level_of(rq_task(i)->prio);
	u32 head = a->head[level];

	if (a->bitmap & 1ULL << level) {
		link_before(head, i);
	} else {
		rq_task(i)->next = i;
		rq_task(i)->prev = i;
		a->head[level] = i;
		/* Partner: rq_best_prio() on other CPUs. */
		WRITE_ONCE(a->bitmap, a->bitmap | 1ULL << level);
	}
	a->nr_active++;
	rq_task(i)->array = array;
}

/* Before task @at, in its array and with its priority. */
static __always_inline void enqueue_before(struct runqueue *rq, u32 i, u32 at)
{
	u32 array = rq_task(at)->array, level = level_of(rq_task(at)->prio);
	struct prio_array *a = rq_array(rq, array);

	WRITE_ONCE(rq_task(i)->prio, rq_task(at)->prio);
	link_before(at, i);
	if (a->head[level] == at)
		a->head[level] = i;
	a->nr_active++;
	rq_task(i)->array = array;
}

static __always_inline void dequeue(struct runqueue *rq, u32 i)
{
	struct prio_array *a = rq_array(rq, rq_task(i)->array);
	u32 level = level_of(rq_task(i)->prio), next = rq_task(i)->next, prev = rq_task(i)->prev;

	if (next == i) {
		WRITE_ONCE(a->bitmap, a->bitmap & ~(1ULL << level));
	} else {
		rq_task(prev)->next = next;
		rq_task(next)->prev = prev;
		if (a->head[level] == i)
			a->head[level] = next;
	}
	a->nr_active--;
	rq_task(i)->array = UNQUEUED;
}

static __always_inline bool is_queued(u32 i)
{
	return rq_task(i)->array != UNQUEUED;
}

/* The first task of the best list. The array is not empty. */
static __always_inline u32 first_of(const struct prio_array *a)
{
	return a->head[__builtin_ctzll(a->bitmap) & (RQ_LEVELS - 1)];
}

/* Load ---------------------------------------------------------------------------------- */

static __always_inline void inc_nr_running(struct runqueue *rq, u32 i)
{
	/* Partners: load.h on other CPUs. */
	WRITE_ONCE(rq->nr_running, rq->nr_running + 1);
	WRITE_ONCE(rq->raw_weighted_load, rq->raw_weighted_load + rq_task(i)->load_weight);
}

static __always_inline void dec_nr_running(struct runqueue *rq, u32 i)
{
	WRITE_ONCE(rq->nr_running, rq->nr_running - 1);
	WRITE_ONCE(rq->raw_weighted_load, rq->raw_weighted_load - rq_task(i)->load_weight);
}

static __always_inline void set_load_weight(struct runqueue *rq, u32 i, u32 weight)
{
	if (is_queued(i))
		WRITE_ONCE(rq->raw_weighted_load,
			   rq->raw_weighted_load - rq_task(i)->load_weight + weight);
	/* Partner: a waker on another CPU, which looks at its own task. */
	WRITE_ONCE(rq_task(i)->load_weight, weight);
}

/* A task of a higher class takes the CPU from ours; it has gone. Others of them are not seen. */
static __always_inline void set_other(struct runqueue *rq, bool there)
{
	/* Partners: load.h and curr_prio() on other CPUs. */
	if (rq->nr_other != there)
		WRITE_ONCE(rq->nr_other, there);
}

/* Priority of what runs on a CPU. */
static __always_inline u32 curr_prio(const struct runqueue *rq)
{
	u32 curr = READ_ONCE(rq->curr);

	if (READ_ONCE(rq->nr_other))
		return 0;
	return curr ? READ_ONCE(rq_task(curr)->prio) : MAX_PRIO;
}

/* Whether task @i, queued, is to preempt what runs. */
static __always_inline bool preempts_curr(struct runqueue *rq, u32 i)
{
	if (rq_task(i)->prio >= curr_prio(rq))
		return false;
	WRITE_ONCE(rq->need_resched, true);
	return true;
}

#endif
