/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who runs: what happens to a CPU's queue at a tick, when a task wakes up, is created, yields,
 * exits or gets another nice value, and when the CPU chooses. Callers hold the CPU's lock. The
 * running task stays in its list.
 */
#pragma once

#include "staircase.h"
#include "tiltyard/linux26/rule.h"

/* Levels that may be picked from: of either array, without SCHED_IDLE tasks. */
#define STAIRCASE  ((1ULL << NR_LEVELS) - 1)
/* Each choice but the last gives a task another place or swaps the arrays. */
#define PICK_TRIES 1024

/* Queues task @i, which is in no list. */
static __always_inline void enlist(u32 cpu, u32 i)
{
	place(cpu, i);
	enqueue_tail(cpu_rq(cpu), i, task(i)->array);
}

static __always_inline void relist(u32 cpu, u32 i)
{
	dequeue(cpu_rq(cpu), i);
	enlist(cpu, i);
}

/* Task @i has used its quota up, and gets its next place; if it ran for longer, at the expense of
 * its next quota. */
static __noinline void step_down(u32 cpu, u32 i)
{
	s32 overrun_us = task(i)->slice_us;

	task(i)->first_slice = false;
	relist(cpu, i);
	task(i)->slice_us += overrun_us;
}

/* Time ----------------------------------------------------------------------------------- */

/*
 * A task ran since it was charged last: whole microseconds. As the original does not trust its
 * clock, no more than a tick between two of them, and two at a tick.
 */
static __always_inline s32 charge_us(s64 ran_ns, bool at_tick)
{
	s64 tick_ns = NSEC_PER_SEC / tick_hz;

	if (at_tick) {
		if (ran_ns < 0 || ran_ns > 2 * tick_ns)
			ran_ns = tick_ns;
	} else if (ran_ns <= 0 || ran_ns > tick_ns) {
		ran_ns = 1000;
	}
	return (u32)ran_ns / 1000;
}

static __always_inline void charge(struct sd_cpu *c, u32 i, u64 now_ns, bool at_tick)
{
	struct sd_task *t = task(i);
	s32 ran_us = charge_us(now_ns - t->charged_ns, at_tick);

	t->charged_ns = now_ns;
	t->rq.last_ran_ns = now_ns;
	c->rq.clock_ns = now_ns;
	t->slice_us -= ran_us;
	if (mode == MODE_RSDL)
		rsdl_charge(c, ran_us);
}

static __always_inline void rq_charge(struct runqueue *rq, u32 i, u64 now_ns)
{
	charge(cpu_of(rq), i, now_ns, false);
}

/* Rotations ------------------------------------------------------------------------------- */

/* All start again, with all of their slots. */
static __noinline void new_rotation(struct sd_cpu *c, u64 now_ns)
{
	WRITE_ONCE(c->rotation, c->rotation + 1);
	__builtin_memset(c->reached, 0, sizeof(c->reached));
	c->best[0] = BEST_NONE;
	c->best[1] = BEST_NONE;
	c->rotation_ns = now_ns;
	if (mode == MODE_RSDL)
		rsdl_restart(c);
}

static __always_inline void swap_arrays(struct sd_cpu *c, u64 now_ns)
{
	/* Partner: change_home() on other CPUs. */
	WRITE_ONCE(c->rq.active, expired_of(&c->rq));
	new_rotation(c, now_ns);
}

/* RSDL: the quota of the level that is served is used up. All tasks there go to the end of the next
 * level that has tasks, be it in the next rotation. Looks at each, where the original joined two
 * lists. */
static __noinline void rotate_minor(u32 cpu, u64 now_ns)
{
	struct sd_cpu *c = cpu_state(cpu);
	u32 from = c->rq.active & 1, served = nth(c->served), to, n;
	u64 bitmap = rq_array(&c->rq, from)->bitmap & STAIRCASE;
	u32 nr = rq_array(&c->rq, from)->nr_active;

	c->level_quota_us[served] = 0;
	if (!(bitmap & 1ULL << served))
		return;
	to = first_slot(bitmap & levels_from(served + 1));
	if (to == LEVEL_NONE) {
		swap_arrays(c, now_ns);
		to = first_slot(rq_array(&c->rq, c->rq.active)->bitmap & STAIRCASE);
	}
	bpf_for (n, 0, nr) {
		struct prio_array *a = rq_array(&c->rq, from);
		u32 i = a->head[served];

		if (!(a->bitmap & 1ULL << served))
			break;
		if (to == LEVEL_NONE) {
			relist(cpu, i);
			continue;
		}
		dequeue(&c->rq, i);
		set_level(task(i), to);
		task(i)->array = c->rq.active;
		enqueue_tail(&c->rq, i, c->rq.active);
	}
	c->served = to == LEVEL_NONE ? 0 : to;
}

/* Choosing -------------------------------------------------------------------------------- */

/* Task @i is the next to run: what that means for the others of this rotation. SCHED_IDLE tasks
 * mean nothing. */
static __always_inline void note_pick(struct sd_cpu *c, u32 i)
{
	struct sd_task *t = task(i);
	u32 own = nth(t->static_level), level = level_of(t->rq.prio);
	u32 *best = &c->best[c->rq.active & 1];

	if (level == LEVEL_IDLE)
		return;
	t->rotation = c->rotation;
	if (own < *best)
		*best = own;
	if (level > c->reached[own])
		c->reached[own] = level;
	c->served = level;
}

/* The task at the head of the best level, 0 if there is none. Without a slice it was preempted
 * between the end of its quota and the tick, and gets its next place first. */
static __noinline u32 best_task(u32 cpu, u64 now_ns)
{
	struct sd_cpu *c = cpu_state(cpu);
	bool idle_first = false;
	u32 n;

	bpf_for (n, 0, PICK_TRIES) {
		struct prio_array *a = rq_array(&c->rq, c->rq.active);
		struct prio_array *idle = rq_array(&c->rq, ARRAY_IDLE);
		u64 bitmap = a->bitmap & STAIRCASE;
		u32 i;

		if (bitmap && !idle_first) {
			i = a->head[__builtin_ctzll(bitmap) & (RQ_LEVELS - 1)];
			if (task(i)->slice_us > 0) {
				note_pick(c, i);
				return i;
			}
			step_down(cpu, i);
			continue;
		}
		if (!idle_first && rq_array(&c->rq, expired_of(&c->rq))->bitmap & STAIRCASE) {
			swap_arrays(c, now_ns);
			idle_first = rotation_limit_ms && idle->bitmap & 1ULL << LEVEL_IDLE;
			if (idle_first)
				__sync_fetch_and_add(&nr_hurried, 1);
			continue;
		}
		if (!(idle->bitmap & 1ULL << LEVEL_IDLE))
			break;
		/* Their turns do not count: all others start again. */
		new_rotation(c, now_ns);
		return idle->head[LEVEL_IDLE];
	}
	return 0;
}

/* schedule(): the task that is to run, 0 if there is none. It has the CPU now. */
static __noinline u32 pick_next(u32 cpu, u64 now_ns)
{
	struct sd_cpu *c = cpu_state(cpu);
	u32 prev = c->rq.curr, next;

	WRITE_ONCE(c->rq.need_resched, false);
	if (mode == MODE_RSDL && rsdl_exhausted(c))
		rotate_minor(cpu, now_ns);
	next = best_task(cpu, now_ns);
	if (prev)
		charge(c, prev, now_ns, false);
	c->rq.clock_ns = now_ns;
	/* Partners: curr_prio() and balancing on other CPUs. */
	WRITE_ONCE(c->rq.curr, next);
	return next;
}

/* It has got the CPU without having been picked. */
static __always_inline void begin_turn(u32 cpu, u32 i, u64 now_ns)
{
	note_pick(cpu_state(cpu), i);
}

/* A tick hits the running task @i. */
static __noinline void tick_task(u32 cpu, u32 i, u64 now_ns)
{
	struct sd_cpu *c = cpu_state(cpu);

	charge(c, i, now_ns, true);
	if (task(i)->slice_us <= 0) {
		step_down(cpu, i);
		WRITE_ONCE(c->rq.need_resched, true);
	}
	if (mode == MODE_RSDL && rsdl_exhausted(c))
		WRITE_ONCE(c->rq.need_resched, true);
}

/* Coming ---------------------------------------------------------------------------------- */

/* Task @i, which slept or comes from another CPU, is queued. */
static __always_inline void activate(u32 cpu, u32 i, bool in_interrupt, u64 now_ns)
{
	enlist(cpu, i);
	inc_nr_running(cpu_rq(cpu), i);
}

/* Whether task @i, just queued, is to preempt what runs. Expired, it waits; but an idle CPU runs
 * whatever there is, and if the task has not woken up there, nobody else calls that CPU. */
static __always_inline bool active_preempts(struct runqueue *rq, u32 i)
{
	if (!rq->curr && !READ_ONCE(rq->nr_other)) {
		WRITE_ONCE(rq->need_resched, true);
		return true;
	}
	return wakeup_preemption && rq_task(i)->array == rq->active && preempts_curr(rq, i);
}

/* Whether task @i, just queued, makes its CPU choose again. */
static __always_inline bool preempts(struct runqueue *rq, u32 i)
{
	struct rq_task *t = rq_task(i);
	bool sync = t->sync;

	t->sync = false;
	/* After a new process, its creator's CPU does; a new thread waits in any case. */
	if (t->forker && rq->curr == t->forker) {
		if (!t->thread)
			WRITE_ONCE(rq->need_resched, true);
		return rq->need_resched;
	}
	/* The waker is about to leave the CPU to it. */
	if (sync)
		return rq->need_resched;
	return active_preempts(rq, i);
}

/* sched_fork: task @i is a copy of task @parent, which runs; each has half of what is left. An odd
 * microsecond is lost. */
static __noinline bool share_slice(u32 cpu, u32 i, u32 parent, u64 now_ns)
{
	struct sd_task *t = task(i), *p = task(parent);

	t->granted = p->granted;
	t->rotation = p->rotation;
	t->home = p->home;
	t->array = p->array;
	WRITE_ONCE(t->rq.prio, p->rq.prio);
	t->first_slice = p->first_slice;
	if (p->slice_us <= 0)
		return false;
	t->slice_us = p->slice_us / 2 ?: 1;
	t->first_slice = true;
	p->slice_us /= 2;
	return false;
}

/* Going, changing --------------------------------------------------------------------------- */

/* sched_exit: task @i is gone. What is left of its first quota returns to its parent, on whose CPU
 * it was. */
static __noinline void inherit(u32 parent, u32 i)
{
	struct sd_task *p = task(parent), *t = task(i);
	s32 most_us = quotas_us[nth(p->static_level)];

	if (!t->first_slice || t->rq.cpu != p->rq.cpu)
		return;
	p->slice_us += t->slice_us;
	if (p->slice_us > most_us)
		p->slice_us = most_us;
}

/* sched_yield: until the next rotation, unless it is alone. */
static __noinline void yield_turn(u32 cpu, u32 i)
{
	struct sd_cpu *c = cpu_state(cpu);
	struct sd_task *t = task(i);

	dequeue(&c->rq, i);
	if (t->policy == POLICY_IDLE)
		place(cpu, i);
	else if (c->rq.nr_running > 1)
		expire(c, t);
	enqueue_tail(&c->rq, i, t->array);
}

/* set_user_nice: takes effect with the task's next quota. */
static __noinline void renice(u32 cpu, u32 i, u32 static_level, enum fair_policy policy)
{
	struct sd_task *t = task(i);

	if (t->static_level == static_level && t->policy == policy)
		return;
	t->static_level = static_level;
	t->policy = policy;
	set_load_weight(cpu_rq(cpu), i, weight_of(nth(static_level), policy == POLICY_IDLE));
	if (is_queued(i))
		relist(cpu, i);
}

/* Balancing ------------------------------------------------------------------------------------ */

static __always_inline u32 first_prio(const struct prio_array *a)
{
	return MAX_RT_PRIO + first_slot(READ_ONCE(a->bitmap));
}

/* By the priorities of all that is queued, expired or not. */
static __always_inline u32 rq_best_prio(const struct runqueue *rq, u32 curr)
{
	u32 one = first_prio(&rq->arrays[0]), other = first_prio(&rq->arrays[1]);
	u32 best = one < other ? one : other;

	return curr < best ? curr : best;
}

/* A task that is moved is placed as if it woke up: where depends on its rotation. */
static __always_inline bool rq_pull(struct runqueue *rq, u32 i, bool expired, u64 now_ns)
{
	activate(rq_task(i)->cpu, i, false, now_ns);
	return active_preempts(rq, i);
}
