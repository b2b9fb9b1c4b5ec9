/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a run may set of the fair class: groups, placement, balancing. The defaults are those of
 * Linux 4.9; a scheduler of another version sets its own in presets.toml.
 */
#ifndef __LIB_FAIR_TUNABLES_H
#define __LIB_FAIR_TUNABLES_H

#include "../arith.h"

/* Fairness between cgroups first, between tasks second. */
const volatile bool groups_on = true;
/* A session is a group while its tasks are in the root cgroup. */
const volatile bool autogroup = true;

/*
 * Balancing. Tolerated imbalance in percent, by kind of domain: SMT, MC, DIE, NUMA.
 */
const volatile u32 imbalance_pct[4] = {110, 117, 125, 125};
/* Looks for tasks: at ticks, and when a CPU runs dry. */
const volatile bool periodic_balance = true;
const volatile bool newidle_balance = true;
/* A busy CPU balances so many times less often. */
const volatile u32 busy_factor = 32;
/* Most tasks that one pass looks at. */
const volatile u32 nr_migrate = 32;
/* A task that ran more recently than this has a warm cache. In Linux 4.9, a CPU whose idle times
 * are shorter does not look for tasks either. */
const volatile u64 migration_cost_ns = 500000;
/* A kernel with CONFIG_PREEMPT moves one task at a time to a CPU that runs dry. */
const volatile bool newidle_one = false;
/* Running tasks are pushed to a CPU that has failed to get one. */
const volatile bool active_balance = true;
/* A wakee may be pulled to its waker's CPU; wakers of many are recognised. */
const volatile bool affine_wakeups = true;
const volatile bool wide_wakeups = true;

/* CONFIG_HZ. */
const volatile u32 tick_hz = 250;

/* Who has waited for so long goes to the front; 0: nobody. See guard.h. */
const volatile u32 starve_limit_ms = 0;

/*
 * A wakee stays within its cache even if another cache has idle CPUs. This is one of the bugs of
 * "The Linux Scheduler: a Decade of Wasted Cores" (EuroSys 2016); domains.h and linux_4_9/busiest.h
 * have the others. The ATC'18 paper compares versions without "obvious bugs that were not intended
 * as features" (its section 7); its section 2.1 describes this bug and group_imbalance_bug.
 */
const volatile bool overload_on_wakeup_bug = true;

/*
 * Kernels multiply times by a factor for the number of online CPUs, eight at most. @scaling: 0
 * none, 1 1 + floor(log2(CPUs)), 2 CPUs.
 */
static u32 cpu_factor(const volatile u32 *scaling, u32 online)
{
	u32 n = online < 8 ? online : 8;

	if (*scaling == 1)
		return bit_length(n);
	if (*scaling == 2)
		return n;
	return 1;
}

#endif
