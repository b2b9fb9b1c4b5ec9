/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who runs: what happens to a CPU's queue at a tick, when a task wakes up, is created, yields,
 * exits or gets another nice value, and when the CPU chooses. Callers hold the CPU's lock, except
 * where a function says otherwise.
 */
#pragma once

#include "interact.h"
#include "tiltyard/linux26/load.h"
#include "tiltyard/linux26/rule.h"

/* Moves task @i, queued, to the tail of @array's list of priority @prio. */
static __always_inline void requeue(struct runqueue *rq, u32 i, u32 array, u32 prio)
{
	dequeue(rq, i);
	WRITE_ONCE(rq_task(i)->prio, prio);
	enqueue_tail(rq, i, array);
}

/* The running task @i is charged for the time since it came to the CPU. */
static __always_inline void rq_charge(struct runqueue *rq, u32 i, u64 now_ns)
{
	struct o1_task *t = task(i);
	u64 cost_ns = run_cost_ns(t, now_ns);

	t->sleep_avg_ns = t->sleep_avg_ns > cost_ns ? t->sleep_avg_ns - cost_ns : 0;
	t->timestamp_ns = now_ns;
	t->rq.last_ran_ns = now_ns;
	rq->clock_ns = now_ns;
}

/* Ticks ------------------------------------------------------------------------------------- */

/* Whether interactive tasks have to expire, too: others have waited for long, or a better one has
 * expired. */
static __always_inline bool expired_starving(const struct o1_cpu *c, const struct o1_task *curr,
					     u64 tick)
{
	u64 waited = tick - c->expired_timestamp;

	if (expired_outranks && curr->static_prio > c->rq.best_expired_prio)
		return true;
	if (!c->expired_timestamp)
		return false;
	if (par.starvation_limit && waited > par.starvation_limit * c->rq.nr_running)
		return true;
	if (!par.starvation_cap || waited <= par.starvation_cap)
		return false;
	__sync_fetch_and_add(&nr_capped, 1);
	return true;
}

/* The slice of the running task @i is over: the only moment at which its priority follows its sleep
 * average without a sleep. */
static __always_inline void slice_over(struct o1_cpu *c, u32 i, u64 tick)
{
	struct o1_task *t = task(i);
	u32 array = c->rq.active;

	dequeue(&c->rq, i);
	WRITE_ONCE(t->rq.prio, effective_prio(t));
	t->time_slice = task_timeslice(t);
	t->first_time_slice = false;
	if (!c->expired_timestamp)
		c->expired_timestamp = tick;
	if (!t->serves_cpu && (!is_interactive(t) || expired_starving(c, t, tick))) {
		array = expired_of(&c->rq);
		if (t->static_prio < c->rq.best_expired_prio)
			WRITE_ONCE(c->rq.best_expired_prio, t->static_prio);
	}
	enqueue_tail(&c->rq, i, array);
	WRITE_ONCE(c->rq.need_resched, true);
}

/* Long slices are cut: an interactive task then lets its equals run, and keeps the rest. */
static __always_inline bool is_cut(const struct o1_task *t)
{
	u32 granularity = granularity_of(t, nr_online);

	return granularity && is_interactive(t) &&
	       (task_timeslice(t) - t->time_slice) % granularity == 0 &&
	       t->time_slice >= granularity;
}

/* task_running_tick: a tick hits the running task @i. */
static __noinline void task_running_tick(struct o1_cpu *c, u32 i, u64 tick)
{
	struct o1_task *t = task(i);

	/* It has expired and is still there. */
	if (t->rq.array != c->rq.active) {
		WRITE_ONCE(c->rq.need_resched, true);
		return;
	}
	if (!--t->time_slice) {
		slice_over(c, i, tick);
	} else if (is_cut(t)) {
		requeue(&c->rq, i, c->rq.active, t->rq.prio);
		WRITE_ONCE(c->rq.need_resched, true);
	}
}

static __always_inline void tick_task(u32 cpu, u32 i, u64 now_ns)
{
	struct o1_cpu *c = cpu_state(cpu);

	c->rq.clock_ns = now_ns;
	task_running_tick(c, i, tick_of(now_ns));
}

/* Choosing ---------------------------------------------------------------------------------- */

/* The wait of task @i, the next to run, counts as sleep if it has just slept. Its priority may
 * change, but it is the next to run. */
static __always_inline void credit_wait(struct o1_cpu *c, u32 i, u64 now_ns)
{
	struct o1_task *t = task(i);
	s64 wait_ns = now_ns - t->timestamp_ns;
	u32 prio;

	if (wait_ns < 0)
		wait_ns = 0;
	if (t->sleep_type == SLEEP_INTERACTIVE)
		wait_ns = (u64)wait_ns * par.wait_weight / 128;
	prio = recalc_task_prio(t, wait_ns);
	if (prio != t->rq.prio)
		requeue(&c->rq, i, t->rq.array, prio);
}

static __always_inline void swap_arrays(struct o1_cpu *c)
{
	c->rq.active = expired_of(&c->rq);
	c->expired_timestamp = 0;
	WRITE_ONCE(c->rq.best_expired_prio, MAX_PRIO);
}

/* schedule(): the task that is to run, 0 if there is none. It has the CPU now. */
static __noinline u32 pick_next(u32 cpu, u64 now_ns)
{
	struct o1_cpu *c = cpu_state(cpu);
	struct runqueue *rq = &c->rq;
	u32 prev = rq->curr, next;
	struct o1_task *t;

	WRITE_ONCE(rq->need_resched, false);
	if (!rq->nr_running)
		return 0;
	if (!rq_array(rq, rq->active)->nr_active)
		swap_arrays(c);
	next = first_of(rq_array(rq, rq->active));
	t = task(next);
	if (t->sleep_type >= SLEEP_INTERACTIVE)
		credit_wait(c, next, now_ns);
	t->sleep_type = SLEEP_NORMAL;
	if (prev)
		rq_charge(rq, prev, now_ns);
	t->timestamp_ns = now_ns;
	t->rq.last_ran_ns = now_ns;
	rq->clock_ns = now_ns;
	/* Partners: curr_prio() and balancing on other CPUs. */
	WRITE_ONCE(rq->curr, next);
	return next;
}

/* It has got the CPU without having been picked. */
static __always_inline void begin_turn(u32 cpu, u32 i, u64 now_ns)
{
	task(i)->timestamp_ns = now_ns;
	task(i)->sleep_type = SLEEP_NORMAL;
}

/* Coming ------------------------------------------------------------------------------------ */

/* __activate_task: into the active array, but tasks that only compute wait for the next round. */
static __always_inline void put_into_array(struct o1_cpu *c, u32 i)
{
	enqueue_tail(&c->rq, i, task(i)->batch ? expired_of(&c->rq) : c->rq.active);
	inc_nr_running(&c->rq, i);
}

/* Task @i wakes up. @in_interrupt: not by a task. */
static __noinline void wake_up(struct o1_cpu *c, u32 i, bool in_interrupt, u64 now_ns)
{
	struct o1_task *t = task(i);
	s64 sleep_ns = now_ns - t->timestamp_ns;

	if (t->uninterruptible)
		t->sleep_type = SLEEP_NONINTERACTIVE;
	WRITE_ONCE(t->rq.prio, recalc_task_prio(t, sleep_ns > 0 ? sleep_ns : 0));
	if (t->sleep_type == SLEEP_NORMAL)
		t->sleep_type = in_interrupt ? SLEEP_INTERRUPTED : SLEEP_INTERACTIVE;
	t->timestamp_ns = now_ns;
	put_into_array(c, i);
}

/* wake_up_new_task: task @i is queued for the first time, by the task that created it, which runs
 * on @here. */
static __noinline void wake_up_new(struct o1_cpu *c, u32 i, bool here)
{
	struct o1_task *t = task(i);
	u32 forker = t->rq.forker;

	t->sleep_avg_ns = after_fork_ns(t, child_penalty);
	WRITE_ONCE(t->rq.prio, effective_prio(t));
	if (!here || t->rq.thread || !child_runs_first) {
		put_into_array(c, i);
		return;
	}
	/* Before its parent, which would copy what both share if it wrote first. */
	enqueue_before(&c->rq, i, forker);
	inc_nr_running(&c->rq, i);
	WRITE_ONCE(c->rq.need_resched, true);
}

static __always_inline void activate(u32 cpu, u32 i, bool in_interrupt, u64 now_ns)
{
	struct o1_cpu *c = cpu_state(cpu);
	struct o1_task *t = task(i);

	if (t->asleep)
		wake_up(c, i, in_interrupt, now_ns);
	else if (t->rq.forker)
		wake_up_new(c, i, c->rq.curr == t->rq.forker);
	else
		put_into_array(c, i);
	t->asleep = false;
}

/* A task that has come preempts what runs if it is better; but a waker that is about to leave the
 * CPU to it may go on until it does, and a new thread waits for its turn. */
static __always_inline bool preempts(struct runqueue *rq, u32 i)
{
	struct rq_task *t = rq_task(i);
	bool waits = t->sync || (t->forker && rq->curr == t->forker);

	if (!wakeup_preemption && rq->curr)
		waits = true;
	t->sync = false;
	if (waits)
		return rq->need_resched;
	return preempts_curr(rq, i);
}

/* The parent of a new task keeps whole bonuses only. */
static __always_inline void fork_penalty(u32 parent)
{
	task(parent)->sleep_avg_ns = after_fork_ns(task(parent), parent_penalty);
}

/* sched_fork: task @i is a copy of task @parent; they share its slice. */
static __noinline bool share_slice(u32 cpu, u32 i, u32 parent, u64 now_ns)
{
	struct o1_task *t = task(i), *p = task(parent);
	struct o1_cpu *c = cpu_state(cpu);

	t->sleep_avg_ns = p->sleep_avg_ns;
	t->sleep_type = p->sleep_type;
	t->rq.last_ran_ns = p->rq.last_ran_ns;
	WRITE_ONCE(t->rq.prio, p->rq.prio);
	t->time_slice = (p->time_slice + 1) / 2;
	t->first_time_slice = true;
	t->timestamp_ns = now_ns;
	p->time_slice /= 2;
	if (p->time_slice)
		return c->rq.need_resched;
	/* The last tick is the child's. A child that begins on another CPU costs the parent its
	 * CPU, not its slice: the kernel looks for the parent in the wrong queue. */
	p->time_slice = 1;
	if (rq_task(i)->cpu == rq_task(parent)->cpu)
		task_running_tick(c, parent, tick_of(now_ns));
	else
		WRITE_ONCE(c->rq.need_resched, true);
	return c->rq.need_resched;
}

/* Going, changing ---------------------------------------------------------------------------- */

/* sched_exit: task @i is gone. What is left of its first slice returns to its parent, on whose CPU
 * it was; and the parent of a task that computes is taken for one that does. */
static __noinline void inherit(u32 parent, u32 i)
{
	struct o1_task *p = task(parent), *t = task(i);

	if (t->first_time_slice && t->rq.cpu == p->rq.cpu) {
		p->time_slice += t->time_slice;
		if (p->time_slice > task_timeslice(t))
			p->time_slice = task_timeslice(t);
	}
	if (t->sleep_avg_ns < p->sleep_avg_ns)
		p->sleep_avg_ns = p->sleep_avg_ns / (exit_weight + 1) * exit_weight +
				  t->sleep_avg_ns / (exit_weight + 1);
}

/* sched_yield: until the arrays swap. */
static __always_inline void yield_turn(u32 cpu, u32 i)
{
	struct runqueue *rq = cpu_rq(cpu);

	requeue(rq, i, expired_of(rq), rq_task(i)->prio);
}

/* set_user_nice: in the same array, at the tail of what is now its priority. */
static __noinline void renice(struct o1_cpu *c, u32 i, u32 static_prio)
{
	struct o1_task *t = task(i);
	u32 old = t->rq.prio, prio;

	t->static_prio = static_prio;
	set_load_weight(&c->rq, i, weight_of(static_prio));
	prio = effective_prio(t);
	if (!is_queued(i)) {
		WRITE_ONCE(t->rq.prio, prio);
		return;
	}
	requeue(&c->rq, i, t->rq.array, prio);
	if (prio < old || (prio > old && c->rq.curr == i))
		WRITE_ONCE(c->rq.need_resched, true);
}

/* Balancing --------------------------------------------------------------------------------- */

/* By the priority of what runs, and by the nice value of what has expired. */
static __always_inline u32 rq_best_prio(const struct runqueue *rq, u32 curr)
{
	u32 expired = READ_ONCE(rq->best_expired_prio);

	return curr < expired ? curr : expired;
}

/* A task that is moved keeps its priority, and comes to the array of the same kind. */
static __always_inline bool rq_pull(struct runqueue *rq, u32 i, bool expired, u64 now_ns)
{
	enqueue_tail(rq, i, expired ? expired_of(rq) : rq->active);
	inc_nr_running(rq, i);
	return preempts_curr(rq, i);
}
