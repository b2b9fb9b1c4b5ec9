/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What differs between versions of Linux: how CPUs are compared. A scheduler includes
 * linux_4_9/version.h or linux_6_18/version.h before class.h. These define the functions below, and
 *
 *	struct comparison	what a balancing pass finds out: see pass.h
 *	BUSY_TICKS_LESS		by how many ticks the interval of a busy CPU is shortened
 *	NEWIDLE_LENGTHENS	a balanced pass of a CPU that runs dry lengthens the interval
 *	SIBLINGS_SHARE_CACHE	no task is too hot for another CPU of its core
 *	PUSH_TAKES_HOT		no task is too hot to be pushed
 *	PUSH_COUNTS		a push counts as enough failed passes for hot tasks to move
 *	HERE_IF_EQUAL		of equally loaded CPUs a new task prefers the one it is born on
 *	KICKED_BALANCES		a CPU woken to balance for idle ones does so for itself, due or not
 *	IDLE_LOWERS_NOHZ	each pass of an idle CPU may bring the next such wakeup forward
 */
#ifndef __LIB_FAIR_VERSION_H
#define __LIB_FAIR_VERSION_H

#include "types.h"

struct balance;
struct cpu_domain;

/* The scheduler starts. */
static void init_version(void);

/* The load of @cpu. Its averages are kept at each tick (count_load) and when the CPU has nothing
 * left to run (load_at_rest). */
static u64 cpu_load(u32 cpu);
static void count_load(u32 cpu, u64 tick);
static void load_at_rest(u32 cpu, struct fair_cpu *cs);
/* Task @i is about to leave the averages of its CPU. Lock held. */
static void load_leaves(u32 i, u64 now_ns);

/* New tasks: which group of @cpu's domain at @level to go to; -1: its own one. */
int idlest_group(struct task_struct *p, u32 cpu, u32 level);
/* Task @i is new, and its parent's CPU is @cpu. */
static void born_on(u32 i, u32 cpu);

/* Wakees: whether @wakee, last on @prev, is pulled to @here, where @waker runs; @sync: the waker is
 * about to sleep; @pct: tolerance. */
static bool wake_affine(u32 wakee, u32 waker, u32 prev, u32 here, bool sync, u32 pct);
/* An idle CPU that shares the cache with @target, else @target. */
int idle_sibling(struct task_struct *p, u32 target, u32 prev);

/* Balancing, of this_balance(): whether it is this CPU's turn; the group to take tasks from, with
 * what to move in b->imbalance, and the CPU of it; -1: none. */
int should_balance(void);
int busiest_group(void);
int busiest_cpu(u32 index, u32 pct);
/* Whether moving task @i helps; @amount: how much of the imbalance it makes up for. */
static bool fits(struct balance *b, u32 i, s64 *amount);
/* Whether task @i is left where it is until passes have failed. */
static bool stays_behind(struct balance *b, u32 i);
/* Whether it is time to push a running task. */
static bool needs_push(struct balance *b, const struct cpu_domain *d);

/* Whether @cpu, which has run dry, is idle long enough for a search to pay. */
static bool newidle_pays(u32 cpu, const struct fair_cpu *cs);
/* Whether @cpu searches @level this time; it has, and found @found tasks. */
static bool newidle_tries(u32 cpu, u32 level);
static void newidle_tried(u32 cpu, u32 level, u32 found);

#endif
