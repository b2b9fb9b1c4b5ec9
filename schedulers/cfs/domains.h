/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Scheduling domains as Linux 4.9 builds them on x86: for each CPU a list of larger and larger
 * sets of CPUs, each divided into groups between which its load is kept even.
 *
 *	SMT	CPUs of a core			groups: CPUs
 *	MC	CPUs of a last-level cache	groups: cores
 *	DIE	CPUs of a node			groups: caches
 *	NUMA	within a distance of the node	groups: sets of the level below
 *
 * Levels are built from the smallest up to the first that holds every CPU. Then those of one CPU
 * and those that hold the same CPUs as the one below are dropped. Example: 4 nodes of 8 cores that
 * share a cache have MC (8 groups of 1) and NUMA (4 groups of 8); a single such node has MC alone.
 *
 * Groups of NUMA levels overlap if there are several distances: each is the set of the level below
 * of one of its CPUs.
 */
#pragma once

#include "types.h"
#include "tunables.h"

#define MAX_NODES      64
#define MAX_LEVELS     8
#define MAX_CPU_GROUPS (4 * MAX_CPUS)
#define MAX_GROUP_REFS (8 * MAX_CPUS)
#define MAX_MEMBERS    (32 * MAX_CPUS)

#define LOCAL_DISTANCE 10
/* Beyond it a level is balanced, but places no tasks: RECLAIM_DISTANCE. */
#define FAR_DISTANCE   30

/* Capacity of a core with SMT siblings: smt_gain, shared by them. */
#define CAPACITY       1024
#define SMT_CAPACITY   1178

enum domain_kind { LEVEL_SMT, LEVEL_MC, LEVEL_DIE, LEVEL_NUMA };
enum balance_idle { LB_IDLE, LB_BUSY, LB_NEWIDLE };

/* NUMA nodes, and the distances between them, row by row. */
const volatile u32 nr_nodes = 1;
const volatile u32 node_distance[MAX_NODES * MAX_NODES];

/* A set of CPUs: members[first .. first + nr), ascending. */
struct cpu_group {
	u32 first;
	u32 nr;
	/* Its CPUs on these nodes may balance for it; this one does if none of them idles. */
	u64 nodes;
	u32 balancer;
	/* A level below could not even out its load: tasks are pinned. */
	u32 imbalance;
};

/* A CPU's domain of one level: its groups are group_refs[first .. first + nr). */
struct cfs_domain {
	enum domain_kind kind;
	u32 distance; /* NUMA: it holds the nodes up to this far away */
	u32 nr_cpus;
	u32 first;
	u32 nr;
	u32 local; /* the CPU's own group */
	/* Its CPUs would rather be alone: groups of such CPUs are overloaded by two tasks. */
	bool prefer_sibling;
	/* Tasks that wake up or are new look for a CPU here. */
	bool places;

	/* Also the CPU that balances for all idle ones changes these, by WRITE_ONCE: if it does so
	 * at the same time, the later one wins, as in Linux. */
	u64 last_balance; /* tick */
	u64 next_decay;	  /* tick */
	u32 interval_ms;
	u32 nr_failed;
	u64 max_newidle_ns; /* the longest search for a task by a CPU that runs dry */
};

struct cpu_domains {
	u32 nr;
	struct cfs_domain level[MAX_LEVELS];
};

/* The CPUs of a core, cache or node, ascending and around; a power of two of them. */
#define NR_RINGS 4

struct cpu_ring {
	u16 next[MAX_CPUS];
	u16 first[MAX_CPUS];
	u16 size[MAX_CPUS];
};

static struct cpu_domains domains[MAX_CPUS];
static struct cpu_ring rings[NR_RINGS];
static struct cpu_group cpu_groups[MAX_CPU_GROUPS];
static u32 group_refs[MAX_GROUP_REFS];
static u16 members[MAX_MEMBERS];
static bool online[MAX_CPUS];
static u32 nr_online;
/* Some core has several CPUs. */
static bool smt_present;

/* While domains are built. Not locals: of those the verifier follows every value in a loop. */
static struct {
	u32 nr_levels;
	u32 distance[MAX_LEVELS];
	u32 nr_groups, nr_refs, nr_members;
	/* Group 0 of a level that a CPU stands for, plus one. */
	u32 group[MAX_LEVELS][MAX_CPUS];
	/* By CPU, or node: where the groups of its set begin, and how many there are. */
	u32 refs[MAX_CPUS], nr[MAX_CPUS];
	/* By core, cache or node: the CPU found last. By CPU: the pass that has grouped it. */
	u32 last[MAX_CPUS], covered[MAX_CPUS];
	u32 pass;
	u32 balancer;
} build;

/* Looked up in each turn of a loop: see cpu_state(). */
static __always_inline struct cfs_domain *domain(u32 cpu, u32 level)
{
	barrier_var(cpu);
	barrier_var(level);
	return &domains[cpu & (MAX_CPUS - 1)].level[level & (MAX_LEVELS - 1)];
}

static __always_inline u32 nr_domains(u32 cpu)
{
	return domains[cpu & (MAX_CPUS - 1)].nr;
}

static __always_inline struct cpu_group *cpu_group(u32 index)
{
	return &cpu_groups[index & (MAX_CPU_GROUPS - 1)];
}

/* Group @n of a domain, counted from its own one. */
static __always_inline u32 group_index(const struct cfs_domain *d, u32 n)
{
	u32 k = d->local + n;

	if (k >= d->nr)
		k -= d->nr;
	return group_refs[(d->first + k) & (MAX_GROUP_REFS - 1)];
}

static __always_inline struct cpu_group *group_at(const struct cfs_domain *d, u32 n)
{
	return cpu_group(group_index(d, n));
}

static __always_inline u32 member(const struct cpu_group *g, u32 n)
{
	return members[(g->first + n) & (MAX_MEMBERS - 1)];
}

/* Whether @cpu is in the group. */
static __noinline bool group_has(const struct cpu_group *g, u32 cpu)
{
	u32 low = 0, high = g->nr, step;

	/* Members ascend. */
	bpf_for (step, 0, 13) {
		u32 middle = (low + high) / 2;

		if (low >= high)
			break;
		if (member(g, middle) == cpu)
			return true;
		if (member(g, middle) < cpu)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

static __always_inline u32 node_of(u32 cpu)
{
	return cpu_node_id[cpu & (MAX_CPUS - 1)] & (MAX_NODES - 1);
}

/* Looked up in each turn of a loop: see cpu_state(). */
static __always_inline struct cpu_ring *ring_of(u32 kind)
{
	barrier_var(kind);
	return &rings[kind & (NR_RINGS - 1)];
}

static __always_inline u32 ring_next(u32 kind, u32 cpu)
{
	return ring_of(kind)->next[cpu & (MAX_CPUS - 1)];
}

static __always_inline u32 ring_first(u32 kind, u32 cpu)
{
	return ring_of(kind)->first[cpu & (MAX_CPUS - 1)];
}

static __always_inline u32 ring_size(u32 kind, u32 cpu)
{
	return ring_of(kind)->size[cpu & (MAX_CPUS - 1)];
}

static __always_inline bool share_cache(u32 a, u32 b)
{
	return ring_first(LEVEL_MC, a) == ring_first(LEVEL_MC, b);
}

/* CPUs that share a last-level cache with @cpu, itself included. */
static __always_inline u32 llc_size(u32 cpu)
{
	return ring_size(LEVEL_MC, cpu);
}

static __always_inline u32 distance_of(u32 node, u32 to)
{
	if (node == to)
		return LOCAL_DISTANCE;
	return node_distance[(node * nr_nodes + to) & (MAX_NODES * MAX_NODES - 1)];
}

/* Whether @other is in @cpu's set of a level. */
static __always_inline bool in_set(u32 cpu, u32 other, u32 kind, u32 distance)
{
	if (kind >= LEVEL_NUMA)
		return distance_of(node_of(cpu), node_of(other)) <= distance;
	return ring_first(kind, cpu) == ring_first(kind, other);
}

static __always_inline bool domain_has(u32 cpu, const struct cfs_domain *d, u32 other)
{
	return in_set(cpu, other, d->kind, d->distance);
}

/* What differs by level ----------------------------------------------------------------- */

static __always_inline u32 domain_pct(const struct cfs_domain *d)
{
	return imbalance_pct[d->kind & 3];
}

/* The load average that counts in balancing: 0 is the present load. */
static __always_inline u32 load_index(const struct cfs_domain *d, enum balance_idle idle)
{
	if (idle == LB_BUSY)
		return d->kind == LEVEL_SMT ? 0 : d->kind == LEVEL_NUMA ? 3 : 2;
	if (idle == LB_IDLE && d->kind >= LEVEL_DIE)
		return d->kind == LEVEL_NUMA ? 2 : 1;
	return 0;
}

/* Failed passes after which a warm cache no longer keeps a task where it is. */
static __always_inline u32 hot_tries(const struct cfs_domain *d)
{
	if (d->kind == LEVEL_SMT)
		return 0;
	return d->kind == LEVEL_NUMA ? 2 : 1;
}

static __always_inline u32 full_capacity(u32 cpu)
{
	u32 siblings = ring_size(LEVEL_SMT, cpu);

	return siblings > 1 ? SMT_CAPACITY / siblings : CAPACITY;
}

/* Construction -------------------------------------------------------------------------- */

/* A machine of packages with several nodes has no DIE: level 2 is the first of NUMA. */
static __always_inline u32 level_kind(u32 level)
{
	if (level >= LEVEL_DIE && numa_in_package)
		return LEVEL_NUMA;
	return level < LEVEL_NUMA ? level : LEVEL_NUMA;
}

/* Whether @other is in @cpu's set of the levels below @level; there is a set of one below all. */
static __always_inline bool in_set_below(u32 cpu, u32 other, u32 level)
{
	u32 l = level - 1;

	if (!level)
		return cpu == other;
	return in_set(cpu, other, level_kind(l), build.distance[l & (MAX_LEVELS - 1)]);
}

static __always_inline u32 ring_id(u32 kind, u32 cpu)
{
	const volatile u32 *ids = kind == LEVEL_SMT  ? cpu_core_id
				  : kind == LEVEL_MC ? cpu_llc_id
						     : cpu_node_id;

	return ids[cpu & (MAX_CPUS - 1)] & (MAX_CPUS - 1);
}

/* Links the CPUs of each core, cache or node. Ids that are all 0 mean that nothing is known: then
 * cores are CPUs. */
static __noinline void build_rings(u32 kind, bool known)
{
	struct cpu_ring *ring = ring_of(kind);
	u32 k;

	bpf_for (k, 0, MAX_CPUS)
		build.last[k & (MAX_CPUS - 1)] = MAX_CPUS;
	/* Downwards, so that each CPU finds the next one, and the lowest is left. */
	bpf_for (k, 0, nr_cpus) {
		u32 cpu = (nr_cpus - 1 - k) & (MAX_CPUS - 1);
		u32 id = known ? ring_id(kind, cpu) : cpu;

		if (!online[cpu])
			continue;
		ring->next[cpu] = build.last[id & (MAX_CPUS - 1)];
		build.last[id & (MAX_CPUS - 1)] = cpu;
	}
	bpf_for (k, 0, nr_cpus) {
		u32 cpu = k & (MAX_CPUS - 1), id = known ? ring_id(kind, cpu) : cpu;
		u32 first = build.last[id & (MAX_CPUS - 1)] & (MAX_CPUS - 1);

		ring->first[cpu] = first;
		if (!online[cpu])
			continue;
		if (ring->next[cpu] == MAX_CPUS)
			ring->next[cpu] = first;
		/* The lowest one has the size. */
		ring->size[cpu] = 0;
		ring->size[first]++;
	}
	bpf_for (k, 0, nr_cpus) {
		u32 cpu = k & (MAX_CPUS - 1);

		ring->size[cpu] = ring->size[ring->first[cpu] & (MAX_CPUS - 1)];
		if (kind == LEVEL_SMT && ring->size[cpu] > 1)
			smt_present = true;
	}
}

/* The distances from node 0, ascending: each is a level. */
static __noinline void build_distances(void)
{
	u32 level = numa_in_package ? LEVEL_DIE : LEVEL_NUMA, node, l;

	build.nr_levels = level;
	build.last[0] = LOCAL_DISTANCE;
	if (missing_domains)
		return;
	bpf_for (l, level, MAX_LEVELS) {
		build.last[1] = ~0U;
		bpf_for (node, 0, nr_nodes) {
			u32 distance = distance_of(0, node);

			if (distance > build.last[0] && distance < build.last[1])
				build.last[1] = distance;
		}
		if (build.last[1] == ~0U)
			break;
		build.last[0] = build.last[1];
		build.distance[l & (MAX_LEVELS - 1)] = build.last[1];
		build.nr_levels = l + 1;
	}
}

/* The group of @level that CPU @cpu stands for: its set of the level below. @builder: the CPU whose
 * domain needs it first. */
static __noinline u32 build_group(u32 cpu, u32 level, u32 builder)
{
	u32 *known = &build.group[level & (MAX_LEVELS - 1)][cpu & (MAX_CPUS - 1)], i;
	bool numa = level_kind(level) == LEVEL_NUMA;
	struct cpu_group *g = cpu_group(build.nr_groups);
	/* A small set is walked by its ring. */
	u32 ring = level && level_kind(level - 1) < LEVEL_NUMA ? level - 1 : LEVEL_NUMA;
	u32 nr = ring < LEVEL_NUMA ? ring_size(ring, cpu) : level ? nr_cpus : 1;
	u32 at = ring < LEVEL_NUMA ? ring_first(ring, cpu) : cpu;

	if (*known)
		return *known - 1;
	*known = ++build.nr_groups;
	__builtin_memset(g, 0, sizeof(*g));
	g->first = build.nr_members;
	build.balancer = MAX_CPUS;
	bpf_for (i, 0, nr) {
		u32 c = ring < LEVEL_NUMA || !level ? at : i;

		if (ring < LEVEL_NUMA)
			at = ring_next(ring, at);
		if (!online[c & (MAX_CPUS - 1)] || !in_set_below(cpu, c, level))
			continue;
		members[build.nr_members++ & (MAX_MEMBERS - 1)] = c;
		g->nr++;
		if (!numa || in_set_below(builder, c, level + 1)) {
			g->nodes |= 1ULL << node_of(c);
			if (build.balancer == MAX_CPUS)
				build.balancer = c;
		}
	}
	g->balancer = build.balancer;
	return *known - 1;
}

/* Divides @cpu's set of @level into groups. Linux 4.9 begins with its lowest CPU; where sets
 * overlap, groups then need not be the sets of the CPUs in them (group_construction). */
static __noinline void build_groups(u32 cpu, u32 level, u32 at)
{
	bool numa = level_kind(level) == LEVEL_NUMA;
	u32 k, n, from = cpu, nr = numa ? nr_cpus : ring_size(level, cpu);

	build.refs[at & (MAX_CPUS - 1)] = build.nr_refs;
	build.pass++;
	if (numa && group_construction_bug)
		from = 0;
	bpf_for (k, 0, nr) {
		u32 c = from;
		struct cpu_group *g;
		u32 index;

		from = numa ? (from + 1) % nr_cpus : ring_next(level, from);
		if (!online[c & (MAX_CPUS - 1)] || !in_set_below(cpu, c, level + 1) ||
		    build.covered[c & (MAX_CPUS - 1)] == build.pass)
			continue;
		index = build_group(c, level, cpu);
		g = cpu_group(index);
		group_refs[build.nr_refs++ & (MAX_GROUP_REFS - 1)] = index;
		bpf_for (n, 0, g->nr)
			build.covered[member(g, n) & (MAX_CPUS - 1)] = build.pass;
	}
	build.nr[at & (MAX_CPUS - 1)] = build.nr_refs - build.refs[at & (MAX_CPUS - 1)];
}

/* Which of the groups of a domain is the CPU's own: the one that it balances for, if any. */
static __noinline u32 own_group(u32 cpu, u32 level, u32 first, u32 nr)
{
	u32 k, own = nr;

	bpf_for (k, 0, nr) {
		struct cpu_group *g = cpu_group(group_refs[(first + k) & (MAX_GROUP_REFS - 1)]);

		if (g->balancer == cpu) {
			own = k;
			break;
		}
		if (own == nr && group_has(g, cpu))
			own = k;
	}
	return own;
}

/* The CPUs of @cpu's set of @level. */
static __noinline u32 set_size(u32 cpu, u32 level)
{
	u32 c, nr = 0;

	if (level_kind(level) < LEVEL_NUMA)
		return ring_size(level, cpu);
	bpf_for (c, 0, nr_cpus)
		nr += online[c & (MAX_CPUS - 1)] && in_set_below(cpu, c, level + 1);
	return nr;
}

/* Adds a domain of @level, whose groups lie at build.refs[@at], above those that CPU @cpu has. */
static __noinline void add_domain(u32 cpu, u32 level, u32 at, u32 size, u64 tick)
{
	struct cpu_domains *own = &domains[cpu & (MAX_CPUS - 1)];
	u32 kind = level_kind(level), nr = own->nr;
	bool prefers = kind == LEVEL_SMT || kind == LEVEL_DIE;
	struct cfs_domain *top = domain(cpu, nr - 1), *d = domain(cpu, nr);

	if (size == 1)
		return;
	if (nr && top->nr_cpus == size) {
		top->prefer_sibling |= prefers;
		return;
	}
	__builtin_memset(d, 0, sizeof(*d));
	d->kind = kind;
	d->distance = build.distance[level & (MAX_LEVELS - 1)];
	d->nr_cpus = size;
	d->first = build.refs[at & (MAX_CPUS - 1)];
	d->nr = build.nr[at & (MAX_CPUS - 1)];
	d->local = own_group(cpu, level, d->first, d->nr);
	d->prefer_sibling = prefers;
	d->places = kind < LEVEL_NUMA || d->distance <= FAR_DISTANCE;
	d->interval_ms = min_interval_ms ?: size;
	d->last_balance = tick;
	d->next_decay = tick;
	own->nr = nr + 1;
}

/* Adds a level to all CPUs whose domains do not hold all CPUs yet. */
static __noinline void build_level(u32 level, u64 tick)
{
	/* CPUs of a node have the same set. */
	u32 kind = level_kind(level), ring = kind < LEVEL_DIE ? kind : LEVEL_DIE, c;

	bpf_for (c, 0, nr_cpus) {
		u32 cpu = c & (MAX_CPUS - 1), first = ring_first(ring, cpu), size, nr;

		nr = nr_domains(cpu);
		if (!online[cpu] || (nr && domain(cpu, nr - 1)->nr_cpus == nr_online))
			continue;
		if (cpu == first) {
			build_groups(cpu, level, cpu);
			build.last[cpu] = set_size(cpu, level);
		}
		size = build.last[first & (MAX_CPUS - 1)];
		add_domain(cpu, level, first, size, tick);
	}
}

/* Builds the domains of all CPUs that are @mask. -E2BIG: the machine has too many groups. */
static __noinline int build_domains(const struct cpumask *mask, u64 tick)
{
	bool has_cores = false;
	u32 c, level;

	bpf_for (c, 0, nr_cpus) {
		u32 cpu = c & (MAX_CPUS - 1);

		online[cpu] = bpf_cpumask_test_cpu(c, mask);
		nr_online += online[cpu];
		has_cores |= cpu_core_id[cpu] != 0;
	}
	build_rings(LEVEL_SMT, has_cores);
	build_rings(LEVEL_MC, true);
	build_rings(LEVEL_DIE, true);
	build_distances();
	bpf_for (level, 0, MAX_LEVELS) {
		if (level < build.nr_levels)
			build_level(level, tick);
	}
	if (nr_nodes > MAX_NODES || build.nr_groups > MAX_CPU_GROUPS ||
	    build.nr_refs > MAX_GROUP_REFS || build.nr_members > MAX_MEMBERS)
		return -E2BIG;
	return 0;
}
