/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What differs between versions of Linux: how CPUs are compared. Who includes class.h includes
 * linux_4_9/version.h or linux_6_18/version.h before it, which define this and
 *
 *	struct comparison	what a balancing pass finds out: see pass.h
 *	BUSY_TICKS_LESS		so many ticks earlier than others a busy CPU balances
 *	NEWIDLE_LENGTHENS	a search by a CPU that runs dry, in vain, lengthens the interval
 *	SIBLINGS_SHARE_CACHE	no task is too hot for another CPU of its core
 *	PUSH_TAKES_HOT		nor for a push
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

/* The load of @cpu; a tick of it, and it has nothing to run: what averages need. */
static u64 cpu_load(u32 cpu);
static void count_load(u32 cpu, u64 tick);
/* Task @i is about to leave the averages of its CPU. Lock held. */
static void load_leaves(u32 i, u64 now_ns);
static void load_at_rest(u32 cpu, struct fair_cpu *cs);

/* New tasks: which group of @cpu's domain at @level to go to; -1: its own one. */
int idlest_group(struct task_struct *p, u32 cpu, u32 level);

/* Wakees: whether @wakee, last on @prev, is pulled to @here, where @waker runs; @sync: that is
 * about to sleep. @pct: tolerance. And an idle CPU that shares the cache with @target, else it. */
static bool wake_affine(u32 wakee, u32 waker, u32 prev, u32 here, bool sync, u32 pct);
int idle_sibling(struct task_struct *p, u32 target, u32 prev);
/* Task @i is new, and its parent's CPU is @cpu. */
static void born_on(u32 i, u32 cpu);

/* Balancing, of this_balance(): whether it is this CPU's turn; the group to take tasks from, with
 * what to move in b->imbalance, and the CPU of it; -1: none. */
int should_balance(void);
int busiest_group(void);
int busiest_cpu(u32 index, u32 pct);
/* Whether moving task @i helps, and how much it makes up for; whether it is not to be moved unless
 * passes fail; whether it is time to push a running
 * task; whether @cpu, which has run dry, idles for long enough to look for one. */
static bool fits(struct balance *b, u32 i, s64 *amount);
static bool stays_behind(struct balance *b, u32 i);
static bool needs_push(struct balance *b, const struct cpu_domain *d);
static bool newidle_pays(u32 cpu, const struct fair_cpu *cs);
/* Whether it looks at @level, and that it has, and found @found tasks. */
static bool newidle_tries(u32 cpu, u32 level);
static void newidle_tried(u32 cpu, u32 level, u32 found);

#endif
