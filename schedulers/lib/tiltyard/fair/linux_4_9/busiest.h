/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whom to take load from, and how much: a CPU's own group and the busiest of the others are
 * compared by load per capacity, with more tolerance the further away they are.
 */
#pragma once

#include "stats.h"
#include "../pass.h"

/* Groups are compared by their average load, not by that of their least loaded CPU: tunables.h. */
const volatile bool group_imbalance_bug = true;

static __always_inline bool group_has_capacity(const struct group_stats *s, u32 pct)
{
	return s->nr_running < s->nr_cpus || s->capacity * 100 > s->util * pct;
}

static __always_inline enum load_type classify(const struct cpu_group *g, bool no_capacity)
{
	if (no_capacity)
		return LOAD_OVERLOADED;
	return READ_ONCE(g->imbalance) ? LOAD_IMBALANCED : LOAD_OTHER;
}

/* Counts the CPUs of a group into the stats of this CPU's pass; @history is a load_index(). Not
 * static: see join_session(). */
__noinline int count_group(u32 index, bool own, u32 history, u32 pct)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	const struct cpu_group *g = cpu_group(index);
	struct balance *b = this_balance();
	struct group_stats *s = &b->compared.stats;
	u32 n;

	__builtin_memset(s, 0, sizeof(*s));
	s->least = ~0ULL;
	bpf_for (n, 0, g->nr) {
		u32 cpu = member(g, n);
		u64 load;

		s->capacity += capacity_of(cpu);
		if (is_left_out(b, cpu))
			continue;
		load = own ? target_load(cpu, history) : source_load(cpu, history);
		s->load += load;
		s->runnable += cpu_load(cpu);
		s->util += cpu_util(cpu);
		s->nr_running += READ_ONCE(cpu_state(cpu)->nr_tasks);
		s->nr_idle += cpu_is_idle(cpu, idle);
		b->overload |= nr_running(cpu) > 1;
		load = load * CAPACITY / capacity_of(cpu);
		if (load < s->least)
			s->least = load;
	}
	scx_bpf_put_idle_cpumask(idle);
	s->nr_cpus = g->nr;
	s->avg = s->load * CAPACITY / (s->capacity ?: 1);
	if (!group_imbalance_bug)
		s->avg = s->least;
	s->per_task = s->nr_running ? s->runnable / s->nr_running : 0;
	s->no_capacity = s->nr_running > s->nr_cpus && s->capacity * 100 < s->util * pct;
	s->type = classify(g, s->no_capacity);
	return 0;
}

/* The busiest group of the domain other than the own one; -1 if none has any load. */
__noinline int busiest_candidate(void)
{
	struct balance *b = this_balance();
	struct cpu_domain *d = domain(b->cpu, b->level);
	u32 history = load_index(d, b->idle), pct = domain_pct(d), n;
	bool prefers = b->level && domain(b->cpu, b->level - 1)->prefer_sibling;
	bool has_local = false;
	s32 found = -1;

	__builtin_memset(&b->compared.busiest, 0, sizeof(b->compared.busiest));
	b->compared.total_load = 0;
	b->compared.total_capacity = 0;
	b->overload = false;
	bpf_for (n, 0, d->nr) {
		struct group_stats *s = &b->compared.stats;
		u32 index = group_index(d, n);
		bool own = group_has(cpu_group(index), b->dst);

		count_group(index, own, history, pct);
		b->compared.total_load += s->load;
		b->compared.total_capacity += s->capacity;
		if (own) {
			b->compared.local = *s;
			has_local = true;
			continue;
		}
		/* Where CPUs would rather be alone, a second task goes to whoever has room. */
		if (prefers && has_local && s->nr_running > 1 &&
		    group_has_capacity(&b->compared.local, pct)) {
			s->no_capacity = true;
			s->type = LOAD_OVERLOADED;
		}
		if (s->type < b->compared.busiest.type ||
		    (s->type == b->compared.busiest.type && s->avg <= b->compared.busiest.avg))
			continue;
		b->compared.busiest = *s;
		found = index;
	}
	b->compared.domain_avg =
		b->compared.total_load * CAPACITY / (b->compared.total_capacity ?: 1);
	if (b->level + 1 == nr_domains(b->cpu) && READ_ONCE(overload) != b->overload)
		WRITE_ONCE(overload, b->overload);
	return found;
}

/* How much to move if less than a task's load is in excess: a task, if that evens things out. */
static __noinline void small_imbalance(struct balance *b)
{
	struct group_stats *local = &b->compared.local, *busiest = &b->compared.busiest;
	u64 task = busiest->per_task, scaled = task * CAPACITY / busiest->capacity;
	u64 now, moved = 0, added;
	u32 tasks = 2;

	if (!local->nr_running) {
		u32 nr = READ_ONCE(cpu_state(b->dst)->nr_tasks);

		local->per_task = nr ? cpu_load(b->dst) / nr : 0;
	} else if (task > local->per_task) {
		tasks = 1;
	}
	if (busiest->avg + scaled >= local->avg + scaled * tasks) {
		b->imbalance = task;
		return;
	}
	/* Does a move make more of the capacities count? */
	now = busiest->capacity * min_of(task, busiest->avg) +
	      local->capacity * min_of(local->per_task, local->avg);
	if (busiest->avg > scaled)
		moved = busiest->capacity * min_of(task, busiest->avg - scaled);
	added = busiest->avg * busiest->capacity;
	if (added >= task * CAPACITY)
		added = task * CAPACITY;
	added /= local->capacity;
	moved += local->capacity * min_of(local->per_task, local->avg + added);
	if (moved / CAPACITY > now / CAPACITY)
		b->imbalance = task;
}

/* How much load to move so that neither group is left beyond the average. */
static __noinline void find_imbalance(struct balance *b)
{
	struct group_stats *local = &b->compared.local, *busiest = &b->compared.busiest;
	u64 above = ~0ULL, pull, room;

	if (busiest->type == LOAD_IMBALANCED)
		busiest->per_task = min_of(busiest->per_task, b->compared.domain_avg);
	b->imbalance = 0;
	if (busiest->avg <= b->compared.domain_avg || local->avg >= b->compared.domain_avg) {
		small_imbalance(b);
		return;
	}
	/* Not so much that CPUs idle there. */
	if (busiest->type == LOAD_OVERLOADED && local->type == LOAD_OVERLOADED) {
		above = busiest->nr_running * (u64)CAPACITY;
		if (above > busiest->capacity)
			above = (above - busiest->capacity) * NICE_0_WEIGHT / busiest->capacity;
		else
			above = ~0ULL;
	}
	pull = min_of(busiest->avg - b->compared.domain_avg, above) * busiest->capacity;
	room = (b->compared.domain_avg - local->avg) * local->capacity;
	b->imbalance = min_of(pull, room) / CAPACITY;
	if ((u64)b->imbalance < busiest->per_task)
		small_imbalance(b);
}

/* Whether the difference between the two groups is tolerated. */
static __noinline bool is_balanced(struct balance *b, u32 pct)
{
	struct group_stats *local = &b->compared.local, *busiest = &b->compared.busiest;

	if (!busiest->nr_running)
		return true;
	if (busiest->type == LOAD_IMBALANCED)
		return false;
	if (b->idle == LB_NEWIDLE && busiest->no_capacity && group_has_capacity(local, pct))
		return false;
	if (local->avg >= busiest->avg || local->avg >= b->compared.domain_avg)
		return true;
	if (b->idle == LB_IDLE)
		return busiest->type != LOAD_OVERLOADED && local->nr_idle <= busiest->nr_idle + 1;
	return 100 * busiest->avg <= pct * local->avg;
}

/* The group to take load from, and the imbalance of this CPU's pass; -1 if all is well. */
__noinline int busiest_group(void)
{
	struct balance *b = this_balance();
	s32 index = busiest_candidate();

	b->imbalance = 0;
	if (index < 0 || is_balanced(b, domain_pct(domain(b->cpu, b->level))))
		return -1;
	find_imbalance(b);
	return index;
}

/* The CPU of the group with the most load per capacity; -1 if none has any that may be moved. */
__noinline int busiest_cpu(u32 index, u32 pct)
{
	const struct cpu_group *g = cpu_group(index);
	struct balance *b = this_balance();
	u64 most = 0, of = 1;
	s32 found = -1;
	u32 n;

	bpf_for (n, 0, g->nr) {
		u32 cpu = member(g, n), capacity = capacity_of(cpu);
		u64 load = cpu_load(cpu);

		if (is_left_out(b, cpu))
			continue;
		/* A lone task is moved only if all of it fits the imbalance, or if its CPU has
		 * little left for it. */
		if (nr_running(cpu) == 1 && (s64)load > b->imbalance && !capacity_reduced(cpu, pct))
			continue;
		if (load * of <= most * capacity)
			continue;
		most = load;
		of = capacity;
		found = cpu;
	}
	return found;
}

/* Whether moving task @i makes up for the imbalance rather than turns it round; by how much. Lock
 * of its CPU held. */
static __always_inline bool fits(struct balance *b, u32 i, s64 *amount)
{
	*amount = task_h_load(i, tick_of(b->now_ns));
	return *amount / 2 <= b->imbalance;
}

/* One CPU of a group balances for it: the first that idles, else the group's first. */
__noinline int should_balance(void)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	struct balance *b = this_balance();
	struct cpu_group *g = group_at(domain(b->cpu, b->level), 0);
	u32 who = NOWHERE, n;

	bpf_for (n, 0, g->nr) {
		u32 cpu = member(g, n);

		if (b->idle == LB_NEWIDLE || who != NOWHERE)
			break;
		if (!is_left_out(b, cpu) && g->nodes & 1ULL << node_of(cpu) &&
		    cpu_is_idle(cpu, idle))
			who = cpu;
	}
	scx_bpf_put_idle_cpumask(idle);
	if (b->idle == LB_NEWIDLE)
		return true;
	return b->dst == (who == NOWHERE ? g->balancer : who);
}

static __always_inline bool stays_behind(struct balance *b, u32 i)
{
	return false;
}

/* Is it time to push a running task? */
static __noinline bool needs_push(struct balance *b, const struct cpu_domain *d)
{
	u32 pct = domain_pct(d);

	if (b->idle != LB_BUSY && READ_ONCE(cpu_state(b->src)->nr_tasks) == 1 &&
	    capacity_reduced(b->src, pct) && capacity_of(b->src) * pct < capacity_of(b->dst) * 100)
		return true;
	return READ_ONCE(d->nr_failed) > hot_tries(d) + 2;
}

/* Whether @cpu, which has run dry, is idle for long enough to look for a task. */
static __always_inline bool newidle_pays(u32 cpu, const struct fair_cpu *cs)
{
	return READ_ONCE(cs->avg_idle_ns) >= migration_cost_ns;
}

static __always_inline bool newidle_tries(u32 cpu, u32 level)
{
	return true;
}

static __always_inline void newidle_tried(u32 cpu, u32 level, u32 found)
{
}
