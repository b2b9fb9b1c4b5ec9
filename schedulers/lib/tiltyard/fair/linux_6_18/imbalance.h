/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much to move between two groups that have been compared, in which unit.
 */
#pragma once

#include "../pass.h"
#include "stats.h"

/* How many tasks the busiest group has more than the own one, by core. */
static __noinline s64 task_surplus(const struct balance *b)
{
	const struct group_stats *local = &b->compared.local, *busiest = &b->compared.busiest;
	u64 mine = local->nr_running, theirs = busiest->nr_running, cores;
	s64 surplus;

	if (b->idle == LB_BUSY || !theirs)
		return 0;
	if (local->nr_cores == busiest->nr_cores)
		return less(theirs, mine);
	cores = local->nr_cores + busiest->nr_cores;
	surplus = (2 * less(local->nr_cores * theirs, busiest->nr_cores * mine) + cores) /
		  (cores ?: 1);
	/* An empty group takes one of two. */
	if (surplus <= 1 && !mine && theirs > 1)
		surplus = 2;
	return surplus;
}

static __always_inline void move(struct balance *b, enum move_what what, s64 imbalance)
{
	b->compared.what = what;
	b->imbalance = imbalance;
}

/* The own group can run more: fill it up, or even out tasks or idle CPUs. */
static __noinline void fill_spare(struct balance *b)
{
	const struct group_stats *local = &b->compared.local, *busiest = &b->compared.busiest;
	const struct cpu_domain *d = domain(b->cpu, b->level);
	s64 imbalance;

	if (busiest->type > GROUP_FULLY_BUSY && d->kind > LEVEL_MC) {
		move(b, MOVE_UTIL, less(local->capacity, local->util));
		/* Its utilisation is of the past. */
		if (b->idle != LB_BUSY && !b->imbalance)
			move(b, MOVE_TASKS, 1);
		return;
	}
	if (busiest->nr_cpus == 1 || b->compared.spreads)
		imbalance = task_surplus(b);
	else
		imbalance = less(local->nr_idle, busiest->nr_idle);
	if (d->kind == LEVEL_NUMA &&
	    numa_tolerates(imbalance, local->nr_running + 1, numa_allowance(b->cpu, b->level)))
		imbalance = 0;
	move(b, MOVE_TASKS, imbalance / 2);
}

/* Both groups are busy: neither is to end up beyond the average load. */
static __noinline void even_out_load(struct balance *b)
{
	struct comparison *c = &b->compared;
	struct group_stats *local = &c->local, *busiest = &c->busiest;

	b->imbalance = 0;
	if (local->type < GROUP_OVERLOADED) {
		local->avg = load_per_capacity(local);
		if (local->avg >= busiest->avg)
			return;
		c->domain_avg = c->total_load * CAPACITY / (c->total_capacity ?: 1);
		if (local->avg >= c->domain_avg)
			return;
	}
	/* Unsigned on purpose: if the busiest is below the average, its term wraps to a huge
	 * number, and the own group's lack decides. */
	move(b, MOVE_LOAD,
	     min_of((busiest->avg - c->domain_avg) * busiest->capacity,
		    (c->domain_avg - local->avg) * local->capacity) /
		     CAPACITY);
}

static __noinline void find_imbalance(struct balance *b)
{
	const struct group_stats *local = &b->compared.local, *busiest = &b->compared.busiest;

	if (busiest->type == GROUP_REDUCED)
		move(b, MOVE_LOAD, busiest->reduced);
	else if (busiest->type == GROUP_SIBLINGS || busiest->type == GROUP_IMBALANCED)
		move(b, MOVE_TASKS, 1);
	else if (local->type == GROUP_HAS_SPARE)
		fill_spare(b);
	else
		even_out_load(b);
}

/* Whether the difference between the two groups is tolerated. */
static __noinline bool is_balanced(struct balance *b, u32 pct)
{
	struct comparison *c = &b->compared;
	const struct group_stats *local = &c->local, *busiest = &c->busiest;

	if (busiest->type == GROUP_REDUCED || busiest->type == GROUP_IMBALANCED)
		return false;
	if (local->type > busiest->type)
		return true;
	if (local->type == GROUP_OVERLOADED) {
		c->domain_avg = c->total_load * CAPACITY / (c->total_capacity ?: 1);
		if (local->avg >= busiest->avg || local->avg >= c->domain_avg ||
		    100 * busiest->avg <= pct * local->avg)
			return true;
	}
	if (c->spreads && local->type == GROUP_HAS_SPARE && task_surplus(b) > 1)
		return false;
	if (busiest->type == GROUP_OVERLOADED)
		return false;
	/* An idle CPU may come for the tasks. */
	if (b->idle == LB_BUSY)
		return true;
	if (busiest->type == GROUP_SIBLINGS && local->is_core != busiest->is_core)
		return false;
	if (busiest->nr_cpus > 1 && local->nr_idle <= busiest->nr_idle + 1)
		return true;
	return busiest->nr_fair == 1;
}

/* Whether moving task @i makes up for the imbalance, by how much. The more passes have failed, the
 * more may be moved. Lock of its CPU held. */
static __always_inline bool fits(struct balance *b, u32 i, s64 *amount)
{
	u32 failed = READ_ONCE(domain(b->cpu, b->level)->nr_failed);

	*amount = 1;
	if (b->compared.what == MOVE_TASKS)
		return true;
	if (b->compared.what == MOVE_UTIL)
		*amount = max_of(entity(i)->pelt.util_avg, expected_of(i));
	else
		*amount = task_h_load(i, tick_of(b->now_ns)) ?: 1;
	return *amount >> (failed < 63 ? failed : 63) <= b->imbalance;
}

/* Whether task @i is eligible in queue @q. Defined by the rule of turns. */
static bool is_eligible(u32 q, u32 i);

/* Task @i has had more than its share, and would have to wait on the other CPU as well. */
static __always_inline bool stays_behind(struct balance *b, u32 i)
{
	struct fair_entity *e = entity(i);

	return !READ_ONCE(domain(b->cpu, b->level)->nr_failed) &&
	       READ_ONCE(queue(queue_of(e->group, b->dst))->nr_running) &&
	       !is_eligible(e->queue, i);
}
