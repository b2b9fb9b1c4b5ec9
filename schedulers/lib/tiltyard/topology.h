/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The machine as levels of groups (whole, nodes, last-level caches, cores), with the CPUs in an
 * order in which each group is a range of neighbours: a search of a group visits its CPUs and no
 * other.
 *
 * Example: CPUs 0, 2 and 1, 3 share caches. In ascending order they are 0 2 1 3; CPU 3 has rank 3,
 * its cache is the span [2, 4), the machine is [0, 4).
 */
#ifndef __LIB_TOPOLOGY_H
#define __LIB_TOPOLOGY_H

#include "machine.h"

enum topo_level { TOPO_ALL = 0, TOPO_NODE = 1, TOPO_LLC = 2, TOPO_CORE = 3, NR_TOPO = 4 };

/* How topo_init() builds: groups in descending order of their numbers; levels of single CPUs, and
 * single groups around those of another level, are levels too. */
enum topo_build { TOPO_DESCENDING = 1, TOPO_SINGLES = 2 };

/* Ranks [first, end). */
struct topo_span {
	u32 first;
	u32 end;
};

struct topo_cpu {
	/* Position in the order; the group at each level. */
	u32 rank;
	struct topo_span span[NR_TOPO];
};

/* Written by topo_init() only. */
struct topology {
	/* Online CPUs, and those by rank. */
	u32 nr_online;
	u32 order[MAX_CPUS];
	struct topo_cpu cpus[MAX_CPUS];
	/* Bit n: level n has several groups, one of several CPUs (but see TOPO_SINGLES). Else its
	 * groups are those of the level above. */
	u32 levels;
	/* While it is being built. The numbers are not locals: of those the verifier follows every
	 * value that they can have in a loop. */
	u32 count[MAX_CPUS];
	u32 sorted[MAX_CPUS];
	u32 nr_groups;
	u32 nr_shared;
	u32 first;
};

static __always_inline u32 topo_id(u32 cpu, u32 level)
{
	u32 i = cpu & (MAX_CPUS - 1);

	switch (level) {
	case TOPO_NODE:
		return cpu_node_id[i] & (MAX_CPUS - 1);
	case TOPO_LLC:
		return cpu_llc_id[i] & (MAX_CPUS - 1);
	case TOPO_CORE:
		return cpu_core_id[i] & (MAX_CPUS - 1);
	}
	return 0;
}

/* The CPU of a rank. */
static __always_inline u32 topo_at(const struct topology *t, u32 rank)
{
	return t->order[rank & (MAX_CPUS - 1)];
}

static __always_inline const struct topo_cpu *topo_of(const struct topology *t, u32 cpu)
{
	return &t->cpus[cpu & (MAX_CPUS - 1)];
}

static __always_inline bool topo_has(const struct topology *t, u32 level)
{
	return level == TOPO_ALL || t->levels & 1U << level;
}

/* Counts the CPUs of each group of a level, after smaller ones. True if it is a level. */
static __noinline bool topo_count(struct topology *t, u32 level, bool singles)
{
	u32 i;

	t->nr_groups = 0;
	t->nr_shared = 0;
	bpf_for (i, 0, MAX_CPUS)
		t->count[i & (MAX_CPUS - 1)] = 0;
	bpf_for (i, 0, t->nr_online) {
		u32 *count = &t->count[topo_id(topo_at(t, i), level)];

		if (!(*count)++)
			t->nr_groups++;
		else
			t->nr_shared++;
	}
	if (singles)
		return t->nr_groups > 1 || t->levels;
	return t->nr_shared && t->nr_groups > 1;
}

/* Sorts the order by the groups of a level, which topo_count() has counted; within a group it
 * stays. */
static __noinline void topo_sort(struct topology *t, u32 level, bool descending)
{
	u32 i;

	t->first = 0;
	bpf_for (i, 0, MAX_CPUS) {
		u32 id = (descending ? MAX_CPUS - 1 - i : i) & (MAX_CPUS - 1);
		u32 count = t->count[id];

		t->count[id] = t->first;
		t->first += count;
	}
	bpf_for (i, 0, t->nr_online) {
		u32 cpu = topo_at(t, i);
		u32 *rank = &t->count[topo_id(cpu, level)];

		t->sorted[(*rank)++ & (MAX_CPUS - 1)] = cpu;
	}
	bpf_for (i, 0, t->nr_online)
		t->order[i & (MAX_CPUS - 1)] = t->sorted[i & (MAX_CPUS - 1)];
}

/* Whether a group at @level, or one that holds it, ends between two CPUs that are neighbours. */
static __noinline bool topo_parts(const struct topology *t, u32 level, u32 a, u32 b)
{
	u32 l;

	bpf_for (l, TOPO_NODE, NR_TOPO) {
		if (l <= level && topo_has(t, l) && topo_id(a, l) != topo_id(b, l))
			return true;
	}
	return false;
}

/* Sets the spans of a level from the finished order. */
static __noinline void topo_spans(struct topology *t, u32 level)
{
	u32 l = level & (NR_TOPO - 1), i;

	t->first = 0;
	bpf_for (i, 0, t->nr_online) {
		if (i && topo_parts(t, l, topo_at(t, i - 1), topo_at(t, i)))
			t->first = i;
		t->cpus[topo_at(t, i) & (MAX_CPUS - 1)].span[l].first = t->first;
	}
	t->first = t->nr_online;
	bpf_for (i, 0, t->nr_online) {
		u32 rank = t->nr_online - 1 - i;
		struct topo_cpu *c = &t->cpus[topo_at(t, rank) & (MAX_CPUS - 1)];

		c->span[l].end = t->first;
		if (c->span[l].first == rank)
			t->first = rank;
	}
}

/*
 * Fills @t with the CPUs below @nr_cpus that are online. Bit n of @levels: level n is wanted.
 * Groups are sorted by their numbers, CPUs within the smallest groups ascending. @how: of enum
 * topo_build.
 */
static __noinline void topo_init(struct topology *t, u32 nr_cpus, u32 levels, u32 how)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 i;

	bpf_for (i, 0, nr_cpus) {
		if (bpf_cpumask_test_cpu(i, online))
			t->order[t->nr_online++ & (MAX_CPUS - 1)] = i;
	}
	scx_bpf_put_cpumask(online);
	/* The smallest groups first: later sorts keep what earlier ones have done. */
	bpf_for (i, 0, NR_TOPO - 1) {
		u32 level = TOPO_CORE - i;

		if (!(levels & 1U << level) || !topo_count(t, level, how & TOPO_SINGLES))
			continue;
		t->levels |= 1U << level;
		topo_sort(t, level, how & TOPO_DESCENDING);
	}
	bpf_for (i, 0, t->nr_online)
		t->cpus[topo_at(t, i) & (MAX_CPUS - 1)].rank = i;
	bpf_for (i, 0, NR_TOPO)
		topo_spans(t, i);
}

#endif
