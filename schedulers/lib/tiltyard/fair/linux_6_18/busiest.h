/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whom to take tasks from: the group of the worst type, and the CPU of it with the most of what is
 * to be moved.
 *
 * Not modelled: cores that are preferred (ITMT), and CPUs of different capacity.
 */
#pragma once

#include "imbalance.h"

/* Counts the CPUs of a group into the stats of this CPU's pass. Not static: see join_session(). */
__noinline int count_group(u32 index, bool own, u32 pct)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	const struct cpu_group *g = cpu_group(index);
	struct balance *b = this_balance();
	struct group_stats *s = &b->compared.stats;
	u32 n;

	__builtin_memset(s, 0, sizeof(*s));
	bpf_for (n, 0, g->nr) {
		u32 cpu = member(g, n);

		count_room(s, cpu);
		if (is_left_out(b, cpu))
			continue;
		count_cpu(s, cpu, idle);
		b->overload |= nr_queued(cpu) > 1;
		if (!own && b->idle != LB_BUSY && READ_ONCE(cpu_state(cpu)->nr_tasks) == 1 &&
		    capacity_reduced(cpu, pct) && s->reduced < cpu_load(cpu))
			s->reduced = cpu_load(cpu);
	}
	scx_bpf_put_idle_cpumask(idle);
	s->is_core = g->nr > 1 && ring_size(LEVEL_SMT, member(g, 0)) == g->nr;
	s->type = classify(g, s, !own && b->idle != LB_BUSY, pct);
	if (s->type == GROUP_OVERLOADED)
		s->avg = load_per_capacity(s);
	return 0;
}

/* Of two groups that could each run more: which has fewer idle CPUs, or as many and more tasks? */
static __always_inline bool has_less_spare(const struct group_stats *s,
					   const struct group_stats *than)
{
	if (s->nr_idle != than->nr_idle)
		return s->nr_idle < than->nr_idle;
	return s->nr_running > than->nr_running;
}

/* Is a group busier than the busiest until now? */
static __noinline bool is_busier(const struct group_stats *s, const struct group_stats *than)
{
	if (!s->nr_fair)
		return false;
	if (s->type != than->type)
		return s->type > than->type;
	switch (s->type) {
	case GROUP_OVERLOADED:
		return s->avg > than->avg;
	case GROUP_IMBALANCED:
		return false;
	case GROUP_REDUCED:
		return s->reduced > than->reduced;
	case GROUP_HAS_SPARE:
		/* Of a core with siblings and a group that is none, the core only if it has more
		 * than one task. */
		if (s->is_core != than->is_core && than->nr_cpus)
			return !s->is_core || s->nr_fair > 1;
		return has_less_spare(s, than);
	default:
		if (s->type == GROUP_SIBLINGS && (s->nr_idle || than->nr_idle))
			return has_less_spare(s, than);
		/* The later group replaces the earlier, unless that is a core with siblings: these
		 * need help more. */
		return !than->is_core;
	}
}

/* The busiest group of the domain other than the own one; -1 if no other has a task. */
__noinline int busiest_candidate(void)
{
	struct balance *b = this_balance();
	struct comparison *c = &b->compared;
	struct cpu_domain *d = domain(b->cpu, b->level);
	u32 pct = domain_pct(d), n;
	s32 found = -1;

	__builtin_memset(&c->busiest, 0, sizeof(c->busiest));
	c->busiest.nr_idle = ~0U;
	c->total_load = 0;
	c->total_capacity = 0;
	c->total_util = 0;
	b->overload = false;
	bpf_for (n, 0, d->nr) {
		struct group_stats *s = &c->stats;
		u32 index = group_index(d, n);
		bool own = group_has(cpu_group(index), b->dst);

		count_group(index, own, pct);
		c->total_load += s->load;
		c->total_capacity += s->capacity;
		c->total_util += s->util;
		if (own) {
			c->local = *s;
		} else if (is_busier(s, &c->busiest)) {
			c->busiest = *s;
			found = index;
		}
	}
	/* SD_PREFER_SIBLING of the level below, which all levels but NUMA have. */
	c->spreads = b->level && domain(b->cpu, b->level - 1)->kind < LEVEL_NUMA;
	if (b->level + 1 == nr_domains(b->cpu) && READ_ONCE(overload) != b->overload)
		WRITE_ONCE(overload, b->overload);
	if (b->idle != LB_NEWIDLE && d->nr_cpus == llc_size(b->dst))
		limit_scan(b->dst, c->total_util / d->nr_cpus, pct);
	return found;
}

__noinline int busiest_group(void)
{
	struct balance *b = this_balance();
	s32 index = busiest_candidate();

	b->imbalance = 0;
	if (index < 0 || is_balanced(b, domain_pct(domain(b->cpu, b->level))))
		return -1;
	find_imbalance(b);
	return b->imbalance ? index : -1;
}

/* How much @cpu has of what is to be moved; 0: nothing may be. */
static __noinline u64 movable(const struct balance *b, u32 cpu, u32 pct)
{
	u64 load = cpu_load(cpu);
	u32 nr = READ_ONCE(cpu_state(cpu)->nr_tasks);

	if (!nr || is_left_out(b, cpu))
		return 0;
	if (b->compared.what == MOVE_TASKS)
		return nr;
	/* Under contention, what its tasks would use; a lone task is not taken. */
	if (b->compared.what == MOVE_UTIL)
		return nr > 1 ? min_of(max_of(util_of(cpu), runnable_of(cpu)), CAPACITY) : 0;
	/* A lone task is moved only if all of it fits the imbalance, or if its CPU has little left
	 * for it. */
	if (nr == 1 && (s64)load > b->imbalance && !capacity_reduced(cpu, pct))
		return 0;
	return load;
}

/* The CPU of the group from which tasks are taken; -1: none. */
__noinline int busiest_cpu(u32 index, u32 pct)
{
	const struct cpu_group *g = cpu_group(index);
	struct balance *b = this_balance();
	u64 most = 0, of = 1;
	s32 found = -1;
	u32 n;

	bpf_for (n, 0, g->nr) {
		u32 cpu = member(g, n);
		u64 amount = movable(b, cpu, pct);
		/* Load counts by capacity. */
		u64 capacity = b->compared.what == MOVE_LOAD ? room_of(cpu) : 1;

		if (amount * of <= most * capacity)
			continue;
		most = amount;
		of = capacity;
		found = cpu;
	}
	return found;
}

/* One CPU of a group balances for it: the first that is on a wholly idle core, else the first idle
 * one, else the group's first. A CPU that runs dry balances for itself unless it has got a task
 * meanwhile. */
__noinline int should_balance(void)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	struct balance *b = this_balance();
	struct cpu_domain *d = domain(b->cpu, b->level);
	struct cpu_group *g = group_at(d, 0);
	u32 who = NOWHERE, beside = NOWHERE, n;

	bpf_for (n, 0, g->nr) {
		u32 cpu = member(g, n);

		if (b->idle == LB_NEWIDLE || who != NOWHERE)
			break;
		if (is_left_out(b, cpu) || !(g->nodes & 1ULL << node_of(cpu)) ||
		    !cpu_is_idle(cpu, idle))
			continue;
		if (d->kind == LEVEL_SMT || core_is_idle(cpu))
			who = cpu;
		else if (beside == NOWHERE)
			beside = cpu;
	}
	scx_bpf_put_idle_cpumask(idle);
	if (b->idle == LB_NEWIDLE)
		return !nr_queued(b->dst);
	if (who == NOWHERE)
		who = beside == NOWHERE ? g->balancer : beside;
	return b->dst == who;
}

/* Is it time to push a running task? */
static __noinline bool needs_push(struct balance *b, const struct cpu_domain *d)
{
	u32 pct = domain_pct(d);

	if (b->compared.what == MOVE_TASKS && READ_ONCE(d->nr_failed) > hot_tries(d) + 2)
		return true;
	return b->idle != LB_BUSY && READ_ONCE(cpu_state(b->src)->nr_tasks) == 1 &&
	       room_of(b->src) * pct < room_of(b->dst) * 100;
}
