/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rule by which the tasks of a CPU take turns: what a scheduler on these runqueues defines.
 * Callers hold the CPU's lock, but for the functions at the end.
 */
#ifndef __LIB_LINUX26_RULE_H
#define __LIB_LINUX26_RULE_H

#include "rq.h"

/* The running task @i is charged for the time up to now. */
static void rq_charge(struct runqueue *rq, u32 i, u64 now_ns);

/* Task @i, in no queue, joins that of @cpu. @in_interrupt: it was not a task that woke it up. */
static void activate(u32 cpu, u32 i, bool in_interrupt, u64 now_ns);
/* Task @i, just queued, may be better than the one that runs: should that CPU choose again? */
static bool preempts(struct runqueue *rq, u32 i);

/* schedule(): the task that is to run, 0 if there is none. It has the CPU now. */
static u32 pick_next(u32 cpu, u64 now_ns);
/* Task @i has got the CPU without having been picked. */
static void begin_turn(u32 cpu, u32 i, u64 now_ns);
/* A tick hits the running task @i. */
static void tick_task(u32 cpu, u32 i, u64 now_ns);
/* sched_yield: the running task @i gives way. */
static void yield_turn(u32 cpu, u32 i);

/* sched_fork: task @i is a copy of task @parent, which runs on @cpu: should that CPU choose again?
 */
static bool share_slice(u32 cpu, u32 i, u32 parent, u64 now_ns);
/* sched_exit: task @i is gone, and its parent may get what it leaves. */
static void inherit(u32 parent, u32 i);

/* Balancing: the best priority on a CPU; @curr is that of the task that runs there. */
static u32 rq_best_prio(const struct runqueue *rq, u32 curr);
/* Balancing: task @i, which waited in the active array of another CPU, or its expired one, joins
 * @rq. True if it is to preempt what runs there. */

static bool rq_pull(struct runqueue *rq, u32 i, bool expired, u64 now_ns);

/* These are called without the lock. Slot @i is given to a new task: all of its state becomes zero.
 */
static void reset_task(u32 i);
/* Task @i, new, has been queued. */
static void end_fork(u32 i);
/* A task begins to run; it stops although it is runnable, or leaves the class. */
static void begin_run(u32 i);
static void end_run(struct task_struct *p);
/* Task p has gone to sleep. */
static void fall_asleep(struct task_struct *p, u32 i);
/* @cpu has nothing to run, even after balancing. */
static void begin_idle(u32 cpu, u64 now_ns);
/* Emits a task's probes. */
static void probe_task(struct task_struct *p, u32 i);

#endif
