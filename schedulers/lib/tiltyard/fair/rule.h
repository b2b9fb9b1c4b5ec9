/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rule by which the entities of a queue take turns: what a scheduler of the fair class defines.
 * Callers hold the lock of the CPU, but for the three at the end. "Task i" is an entity that is a
 * task; groups are entities in the queues above.
 */
#ifndef __LIB_FAIR_RULE_H
#define __LIB_FAIR_RULE_H

#include "types.h"

/* How a task leaves its queues. */
#define LEAVE_SLEEP   1	  /* it blocks */
#define LEAVE_BRIEFLY 2	  /* it comes back at once, with another weight or group */
#define LEAVE_FOREVER 4	  /* it ends */
#define LEAVE_CPU     8	  /* for another CPU or group */
#define LEAVE_AS_IS   16  /* it comes back at once, and nothing has changed */
#define LEAVE_DELAYED 32  /* it was delayed; nothing is done if it no longer is */
#define LEAVE_HANDS   64  /* it leaves custody, but keeps its place in the queue */
#define LEAVE_UNHELD  128 /* the core took it away; nothing is done if it is in custody again */

/* Charges the queue's current entity for the time since its last charge. */
static void update_curr(u32 q, u64 now_ns);

/* Task i is about to join, and may be a newborn that nobody forked; joins the queues of its CPU; it
 * comes back to those that it has never left. */
static void place_unplaced(u32 i);
static void enqueue_task(u32 i, u64 now_ns, bool wakeup);
static void rejoin_task(u32 i, u64 now_ns);
/* Task i leaves its queues, how: LEAVE_*; leaves its CPU or group, when it is in no queue. */
static void dequeue_task(u32 i, u64 now_ns, u32 how);
static void forget_queue(u32 i);
/* It sleeps, but has not left its queues. */
static bool is_delayed(u32 i);
/* Whether that happens at all. */
static bool delays_tasks(void);
/* Whether enqueue() calls queue_apart(), and has none of that inline: the verifier would have too
 * much to follow. */
static bool queues_apart(void);

/* Entity i is among those that wait for a turn in queue q, and no longer. */
static void start_waiting(u32 q, u32 i);
static void stop_waiting(u32 q, u32 i);
/* Entity i, which waits in queue q, is to have the next turn there, after those of its weight that
 * were moved to the front before. False: it was there already. */
static bool move_to_front(u32 q, u32 i);
/* Entity i gets the turn in queue q. */
static void set_current(u32 q, u32 i, u64 now_ns);

/* The task that should run on a CPU, 0 if none is runnable. Changes no turn. An entity that is
 * delayed has to leave now, and another to be picked. */
static u32 pick_task(u32 cpu, u64 now_ns);
/* A tick hits task i: is its turn over? */
static bool tick_task(u32 i, u64 now_ns);
/* Task `wakee` has come to its CPU: should it preempt the one that runs there? */
static bool preempts(u32 wakee, u64 now_ns);
/* Charges have found since the last pick that the turn on a CPU is over; that no longer counts, a
 * turn has begun without a pick. */
static bool wants_pick(u32 cpu);
static void forget_charges(u32 cpu);
/* Task i gives way: is there anybody to give way to? And task i is to run next, if that is fair. */
static bool yield_task(u32 i, u64 now_ns);
static void set_next_buddy(u32 i);

/* The entity of a group has another weight, in a queue or in none. */
static void reweight_group(u32 i, u64 weight, u64 now_ns);

/* These take the lock themselves: task i has another weight; group g has other shares; task i is
 * the child of `parent`, who runs (true: the parent should be preempted). The scheduler starts. */
static void reweight_task(struct task_struct *p, u32 i, const struct fair_load *load);
static void shares_changed(u32 g);
static bool fork_task(u32 i, u32 parent, u64 now_ns);
static void init_rule(u32 online);

/* Before task i joins a queue: what its task_struct asks the scheduler for. */
static void take_request(struct task_struct *p, u32 i);

/* More figures to show: see probe_task(). */
static void probe_turn(struct task_struct *p, u32 i);

#endif
