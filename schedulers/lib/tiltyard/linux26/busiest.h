/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whom to take tasks from, and how much load: a CPU's own group and the busiest of the others are
 * compared by load per cpu_power.
 */
#ifndef __LIB_LINUX26_BUSIEST_H
#define __LIB_LINUX26_BUSIEST_H

#include "domains.h"

/* Most tasks that one pass moves. */
#define MAX_MOVED 256

struct group_stats {
	u64 avg;  /* guessed load, per 128 of power */
	u64 load; /* of what runs now; at the end of a task on average */
	u32 nr_running;
	u32 power;
};

/* One balancing pass. A CPU's own: passes of a CPU do not interrupt each other. */
struct balance {
	/* For which CPU, at which level, and in which state that CPU is. */
	u32 cpu;
	u32 level;
	enum balance_idle idle;
	u64 now_ns;

	/* CPUs left out, because none of their tasks could be moved. */
	u64 left_out[MAX_CPUS / 64];
	struct group_stats local, busiest, stats;
	/* Guessed load of all groups, and their power. */
	u64 load, power;
	/* Another CPU balances for the group; a sibling of the own core is busy. */
	bool foreign, sibling_busy;

	/* To move: how much load, from where. */
	u64 imbalance;
	u32 src;

	/* Where the search for tasks to move stands, and by what it chooses: see move.h. */
	u32 array, level_at, at;
	bool last_array, best_prio_seen, all_pinned;
	u32 this_best_prio, best_prio;
	s64 rem_load;
	u32 max_moved;
	/* What has been taken, and from which kind of array. */
	u32 nr_moved;
	u32 moved[MAX_MOVED];
	bool was_expired[MAX_MOVED];
};

static struct balance balances[MAX_CPUS];

static __always_inline struct balance *this_balance(void)
{
	return &balances[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
}

static __always_inline bool is_left_out(const struct balance *b, u32 cpu)
{
	barrier_var(cpu);
	return b->left_out[cpu / 64 & (MAX_CPUS / 64 - 1)] & 1ULL << (cpu & 63);
}

static __always_inline void leave_out(struct balance *b, u32 cpu)
{
	b->left_out[cpu / 64 & (MAX_CPUS / 64 - 1)] |= 1ULL << (cpu & 63);
}

static __always_inline u64 least_of(u64 a, u64 b)
{
	return a < b ? a : b;
}

static __always_inline u32 load_index(const struct domain_params *params, enum balance_idle idle)
{
	if (idle == LB_BUSY)
		return params->busy_idx;
	return idle == LB_NEWIDLE ? params->newidle_idx : params->idle_idx;
}

/* Counts the CPUs of a group into this CPU's pass. One CPU balances for its group: the first that
 * idles, else the first. Not static, nor is what follows: see depart(). */
__noinline int count_group(u32 group, bool own)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	struct balance *b = this_balance();
	const struct domain *d = domain(b->cpu, b->level);
	u32 kind = d->kind, index = load_index(params_of(d), b->idle), cpu = group, n;
	u32 balancer = group, seen_idle = 0;
	u64 tick = tick_of(b->now_ns), load = 0;
	struct group_stats *s = &b->stats;

	__builtin_memset(s, 0, sizeof(*s));
	bpf_for (n, 0, group_size(kind, group)) {
		bool is_idle = bpf_cpumask_test_cpu(cpu, idle);

		if (!is_left_out(b, cpu)) {
			b->sibling_busy |= !is_idle;
			if (is_idle && !seen_idle) {
				seen_idle = 1;
				balancer = cpu;
			}
			load += own ? target_load(cpu, index, tick) : source_load(cpu, index, tick);
			s->nr_running += nr_running(cpu);
			s->load += cpu_load(cpu);
		}
		cpu = group_next_cpu(kind, cpu);
	}
	scx_bpf_put_idle_cpumask(idle);
	s->power = group_power(kind, group);
	s->avg = load * SCHED_LOAD_SCALE / s->power;
	b->load += load;
	b->power += s->power;
	if (own && b->idle != LB_NEWIDLE && balancer != b->cpu)
		b->foreign = true;
	return 0;
}

/* Less than a task's load is in excess. Does it pay to move one? It does if that evens things out,
 * or if it makes more of the CPUs' power count. */
static __noinline bool small_imbalance_pays(struct balance *b)
{
	struct group_stats *local = &b->local, *busiest = &b->busiest;
	u64 task = busiest->load, own_task = SCHED_LOAD_SCALE, now, moved = 0, less, more;
	u32 tasks = 2;

	if (local->nr_running) {
		own_task = local->load / local->nr_running;
		if (task > own_task)
			tasks = 1;
	}
	if (busiest->avg - local->avg >= task * tasks)
		return true;
	now = busiest->power * least_of(task, busiest->avg) +
	      local->power * least_of(own_task, local->avg);
	less = task * SCHED_LOAD_SCALE / busiest->power;
	if (busiest->avg > less)
		moved = busiest->power * least_of(task, busiest->avg - less);
	more = least_of(busiest->avg * busiest->power, task * SCHED_LOAD_SCALE) / local->power;
	moved += local->power * least_of(own_task, local->avg + more);
	return moved / SCHED_LOAD_SCALE > now / SCHED_LOAD_SCALE;
}

/* Sets how much load is to move so that neither group is left beyond the average. False: none. */
static __noinline bool find_imbalance(struct balance *b, u32 pct)
{
	struct group_stats *local = &b->local, *busiest = &b->busiest;
	u64 avg = b->load * SCHED_LOAD_SCALE / (b->power ?: 1), pull;

	if (!busiest->nr_running || local->avg >= busiest->avg || local->avg >= avg ||
	    100 * busiest->avg <= pct * local->avg)
		return false;
	busiest->load /= busiest->nr_running;
	if (busiest->avg <= busiest->load)
		return false;
	if (busiest->avg >= avg) {
		/* Not so much that a CPU there runs dry. */
		pull = least_of(busiest->avg - avg, busiest->avg - busiest->load);
		b->imbalance = least_of(pull * busiest->power, (avg - local->avg) * local->power) /
			       SCHED_LOAD_SCALE;
		if (b->imbalance >= busiest->load)
			return true;
	}
	if (!small_imbalance_pays(b))
		return false;
	b->imbalance = busiest->load;
	return true;
}

/* The group to take tasks from, and the imbalance of this CPU's pass; -1 if all is well. */
__noinline int busiest_group(void)
{
	struct balance *b = this_balance();
	const struct domain *d = domain(b->cpu, b->level);
	u32 kind = d->kind, own = group_of_cpu(kind, b->cpu), group = own, n;
	s32 found = -1;

	__builtin_memset(&b->busiest, 0, sizeof(b->busiest));
	b->load = 0;
	b->power = 0;
	b->imbalance = 0;
	b->foreign = false;
	bpf_for (n, 0, nr_groups(kind, b->cpu)) {
		struct group_stats *s = &b->stats;

		count_group(group, group == own);
		if (b->foreign)
			return -1;
		if (group == own) {
			b->local = *s;
		} else if (s->avg > b->busiest.avg && s->nr_running > s->power / SCHED_LOAD_SCALE) {
			b->busiest = *s;
			found = group;
		}
		group = next_group(kind, b->cpu, group);
	}
	if (found >= 0 && find_imbalance(b, params_of(d)->imbalance_pct))
		return found;
	b->imbalance = 0;
	return -1;
}

/* The CPU of the group with the most load, unless that is a single task too heavy to move; -1: none
 * has any. */
__noinline int busiest_cpu(u32 group)
{
	struct balance *b = this_balance();
	u32 kind = domain(b->cpu, b->level)->kind, cpu = group, most = 0, n;
	s32 found = -1;

	bpf_for (n, 0, group_size(kind, group)) {
		u32 load = cpu_load(cpu);

		if (!is_left_out(b, cpu) && !(nr_running(cpu) == 1 && load > b->imbalance) &&
		    load > most) {
			most = load;
			found = cpu;
		}
		cpu = group_next_cpu(kind, cpu);
	}
	return found;
}

#endif
