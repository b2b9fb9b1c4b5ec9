/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whom to take load from, and how much: a CPU's own group and the busiest of the others are
 * compared by load per capacity, with more tolerance the further away they are.
 */
#ifndef __LIB_FAIR_BUSIEST_H
#define __LIB_FAIR_BUSIEST_H

#include "load.h"

/* The later, the rather a group is taken from. */
enum load_type { LOAD_OTHER, LOAD_IMBALANCED, LOAD_OVERLOADED };

struct group_stats {
	u64 avg; /* load per 1024 of capacity */
	u64 load;
	u64 runnable; /* load of what runs now */
	u64 per_task;
	u64 capacity;
	u64 util;
	u64 least; /* load of its least loaded CPU, per 1024 of capacity */
	u32 nr_running;
	u32 nr_idle;
	u32 nr_cpus;
	enum load_type type;
	bool no_capacity;
};

/* Most tasks that a pass looks at, whatever nr_migrate says: a power of two. */
#define MAX_SEEN 64

/* One balancing pass. A CPU's own: passes of a CPU do not interrupt each other. */
struct balance {
	/* For whom, at which level, and in which state that CPU is. */
	u32 cpu;
	u32 level;
	enum balance_idle idle;
	u64 now_ns;

	/* CPUs left out, because all their tasks are pinned. */
	u64 left_out[MAX_CPUS / 64];
	u32 nr_left_out;
	struct group_stats local, busiest, stats;
	u64 total_load, total_capacity, domain_avg;
	bool overload;

	s64 imbalance; /* load to move */
	u32 dst, src;
	u32 nr_moved;
	/* Some tasks, or all, may not run on dst; one may on another CPU of its group. */
	bool some_pinned, all_pinned;
	u32 new_dst;
	u32 loop, loop_max;
	/* Tasks to look at, with the CPU to which each may go; tasks on their way. */
	u32 nr_seen, nr_detached;
	u32 seen[MAX_SEEN], seen_round[MAX_SEEN], seen_to[MAX_SEEN], detached[MAX_SEEN];
};

static struct balance balances[MAX_CPUS];

static __always_inline struct balance *this_balance(void)
{
	return &balances[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
}

static __always_inline bool is_left_out(const struct balance *b, u32 cpu)
{
	return b->left_out[(cpu & (MAX_CPUS - 1)) / 64] & 1ULL << (cpu & 63);
}

static __always_inline void leave_out(struct balance *b, u32 cpu)
{
	b->left_out[(cpu & (MAX_CPUS - 1)) / 64] |= 1ULL << (cpu & 63);
	b->nr_left_out++;
}

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
	struct group_stats *s = &b->stats;
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

	__builtin_memset(&b->busiest, 0, sizeof(b->busiest));
	b->total_load = 0;
	b->total_capacity = 0;
	b->overload = false;
	bpf_for (n, 0, d->nr) {
		struct group_stats *s = &b->stats;
		u32 index = group_index(d, n);
		bool own = group_has(cpu_group(index), b->dst);

		count_group(index, own, history, pct);
		b->total_load += s->load;
		b->total_capacity += s->capacity;
		if (own) {
			b->local = *s;
			has_local = true;
			continue;
		}
		/* Where CPUs would rather be alone, a second task goes to whoever has room. */
		if (prefers && has_local && s->nr_running > 1 &&
		    group_has_capacity(&b->local, pct)) {
			s->no_capacity = true;
			s->type = LOAD_OVERLOADED;
		}
		if (s->type < b->busiest.type ||
		    (s->type == b->busiest.type && s->avg <= b->busiest.avg))
			continue;
		b->busiest = *s;
		found = index;
	}
	b->domain_avg = b->total_load * CAPACITY / (b->total_capacity ?: 1);
	if (b->level + 1 == nr_domains(b->cpu) && READ_ONCE(overload) != b->overload)
		WRITE_ONCE(overload, b->overload);
	return found;
}

/* How much to move if less than a task's load is in excess: a task, if that evens things out. */
static __noinline void small_imbalance(struct balance *b)
{
	struct group_stats *local = &b->local, *busiest = &b->busiest;
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
	struct group_stats *local = &b->local, *busiest = &b->busiest;
	u64 above = ~0ULL, pull, room;

	if (busiest->type == LOAD_IMBALANCED)
		busiest->per_task = min_of(busiest->per_task, b->domain_avg);
	b->imbalance = 0;
	if (busiest->avg <= b->domain_avg || local->avg >= b->domain_avg) {
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
	pull = min_of(busiest->avg - b->domain_avg, above) * busiest->capacity;
	room = (b->domain_avg - local->avg) * local->capacity;
	b->imbalance = min_of(pull, room) / CAPACITY;
	if ((u64)b->imbalance < busiest->per_task)
		small_imbalance(b);
}

/* Whether the difference between the two groups is tolerated. */
static __noinline bool is_balanced(struct balance *b, u32 pct)
{
	struct group_stats *local = &b->local, *busiest = &b->busiest;

	if (!busiest->nr_running)
		return true;
	if (busiest->type == LOAD_IMBALANCED)
		return false;
	if (b->idle == LB_NEWIDLE && busiest->no_capacity && group_has_capacity(local, pct))
		return false;
	if (local->avg >= busiest->avg || local->avg >= b->domain_avg)
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
		/* A lone task is moved whole, or if its CPU has little left for it. */
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

#endif
