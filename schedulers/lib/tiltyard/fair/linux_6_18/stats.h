/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is found out about groups of CPUs: their types, and what decides within a type.
 */
#pragma once

#include "load.h"

/* The later, the rather a group is taken from, and the less it is given. */
enum busyness {
	GROUP_HAS_SPARE,  /* it could run more */
	GROUP_FULLY_BUSY, /* each CPU has about a task */
	GROUP_REDUCED,	  /* a task is alone on a CPU of which other classes take much */
	GROUP_SIBLINGS,	  /* tasks share a core, and the balancing CPU is idle */
	GROUP_IMBALANCED, /* a level below failed: tasks are pinned */
	GROUP_OVERLOADED, /* more tasks than its CPUs can serve */
};

struct group_stats {
	u64 avg; /* load per 1024 of capacity; of overloaded and fully busy groups */
	u64 load;
	u64 util;
	u64 runnable;
	u64 capacity;
	u64 reduced;	/* GROUP_REDUCED: load of the lone task */
	u32 nr_running; /* of all classes */
	u32 nr_fair;
	u32 nr_idle;
	u32 nr_cpus;
	u32 nr_cores;
	u32 nr_allowed; /* CPUs on which a new task may run */
	bool is_core;	/* its CPUs are siblings */
	enum busyness type;
};

/* What is counted in b->imbalance. */
enum move_what { MOVE_LOAD, MOVE_UTIL, MOVE_TASKS };

/* Of one pass. */
struct comparison {
	struct group_stats local, busiest, stats;
	u64 total_load, total_capacity, total_util, domain_avg;
	/* Tasks are to be spread over the groups, one after another (SD_PREFER_SIBLING). */
	bool spreads;
	enum move_what what;
};

/* Adds @cpu. */
static __always_inline void count_cpu(struct group_stats *s, u32 cpu, const struct cpumask *idle)
{
	u32 nr = nr_queued(cpu);

	s->load += cpu_load(cpu);
	s->util += util_of(cpu);
	s->runnable += runnable_of(cpu);
	s->nr_running += nr;
	s->nr_fair += READ_ONCE(cpu_state(cpu)->nr_tasks);
	s->nr_idle += !nr && bpf_cpumask_test_cpu(cpu, idle);
}

static __always_inline void count_room(struct group_stats *s, u32 cpu)
{
	s->capacity += room_of(cpu);
	s->nr_cpus++;
	s->nr_cores += ring_first(LEVEL_SMT, cpu) == cpu;
}

static __always_inline bool is_overloaded(const struct group_stats *s, u32 pct)
{
	return s->nr_running > s->nr_cpus &&
	       (s->capacity * 100 < s->util * pct || s->capacity * pct < s->runnable * 100);
}

static __always_inline bool has_room(const struct group_stats *s, u32 pct)
{
	if (s->nr_running < s->nr_cpus)
		return true;
	return s->capacity * pct >= s->runnable * 100 && s->capacity * 100 > s->util * pct;
}

/* The type of group @g by its stats; @idle: the balancing CPU is idle. */
static __always_inline enum busyness classify(const struct cpu_group *g,
					      const struct group_stats *s, bool idle, u32 pct)
{
	if (is_overloaded(s, pct))
		return GROUP_OVERLOADED;
	if (READ_ONCE(g->imbalance))
		return GROUP_IMBALANCED;
	if (idle && s->is_core && s->nr_fair > 1)
		return GROUP_SIBLINGS;
	if (s->reduced)
		return GROUP_REDUCED;
	return has_room(s, pct) ? GROUP_HAS_SPARE : GROUP_FULLY_BUSY;
}

static __always_inline u64 load_per_capacity(const struct group_stats *s)
{
	return s->load * CAPACITY / (s->capacity ?: 1);
}

/*
 * A node of @cpu's domain at NUMA level @level that has no more tasks than this may have slightly
 * more to do than others, because remote memory is slower: an eighth of its CPUs if it has one
 * cache, otherwise one task per cache; at NUMA levels above the first, in proportion to their CPUs.
 */
static __noinline u32 numa_allowance(u32 cpu, u32 level)
{
	u32 of_node = ring_size(LEVEL_DIE, cpu), caches = of_node / (llc_size(cpu) ?: 1);
	u32 allowed = (caches == 1 ? of_node / 8 : caches) ?: 1, first = 0, l;

	bpf_for (l, 0, MAX_LEVELS) {
		if (first || l > level)
			break;
		if (domain(cpu, l)->kind == LEVEL_NUMA)
			first = domain(cpu, l)->nr_cpus;
	}
	return allowed * (domain(cpu, level)->nr_cpus / (first ?: 1) ?: 1);
}

/* Whether a difference of @imbalance tasks or idle CPUs between nodes does not matter, if the one
 * that gets them has @nr tasks then. */
static __always_inline bool numa_tolerates(u64 imbalance, u32 nr, u32 allowance)
{
	return nr <= allowance && imbalance <= 2;
}
