/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Scheduling domains as Linux 2.6.22 builds them on x86-64: for each CPU a list of larger and
 * larger sets of CPUs, each divided into groups between which its load is kept even.
 *
 *	SMT	CPUs of a core			groups: CPUs
 *	MC	CPUs of a last-level cache	groups: cores
 *	CPU	CPUs of a node			groups: caches
 *	NODE	16 nodes, the nearest		groups: nodes
 *	ALL	all nodes, if there are more	groups: nodes
 *
 * Sets of one group are left out: they decide nothing. Example: 2 nodes of 4 cores that share a
 * cache have MC (4 groups of 1) and NODE (2 groups of 4).
 *
 * A core counts as one CPU, and so does a cache: cpu_power, the load that a group is to have
 * relative to others and the number of tasks beyond which it is asked for some, is 128 for each of
 * them, and for a node the sum of its caches.
 *
 * Groups need no memory: each is a ring of CPUs, and is known by the first of them.
 */
#ifndef __LIB_LINUX26_DOMAINS_H
#define __LIB_LINUX26_DOMAINS_H

#include "load.h"

#define MAX_NODES	 64
#define NODES_PER_DOMAIN 16
/* A power of two; there are five. */
#define MAX_LEVELS	 8
#define LOCAL_DISTANCE	 10

enum domain_kind { KIND_SMT, KIND_MC, KIND_CPU, KIND_NODE, KIND_ALL, NR_KINDS };
enum balance_idle { LB_IDLE, LB_BUSY, LB_NEWIDLE };

/* What is done in a domain. */
#define DO_NEWIDLE	1  /* a CPU that runs dry looks for tasks */
#define DO_EXEC		2  /* a program that begins is placed */
#define DO_FORK		4  /* a new task is placed */
#define DO_WAKE_IDLE	8  /* a wakee may go to an idle CPU */
#define DO_WAKE_AFFINE	16 /* a wakee may go to its waker's CPU */
#define DO_WAKE_BALANCE 32 /* the same, if that evens out loads */
#define DO_SERIALIZE	64 /* one CPU balances at a time */
#define SHARE_CPUPOWER	128

struct domain_params {
	/* Tolerated imbalance. */
	u32 imbalance_pct;
	/* Which average of the load counts: cpu_load[n - 1], 0 the present load. */
	u8 busy_idx, idle_idx, newidle_idx, wake_idx, forkexec_idx;
	/* Failed passes after which a warm cache no longer keeps a task where it is. */
	u8 cache_nice_tries;
	/* Time between passes; max_ms 0: as many as the least for each CPU. */
	u8 min_ms, max_ms;
	u32 busy_factor;
	u32 flags;
};

static const struct domain_params domain_params[MAX_LEVELS] = {
	{110, 0, 0, 1, 0, 0, 0, 1, 2, 64,
	 DO_NEWIDLE | DO_EXEC | DO_WAKE_AFFINE | DO_WAKE_IDLE | SHARE_CPUPOWER},
	{125, 2, 1, 2, 1, 1, 1, 1, 4, 64, DO_NEWIDLE | DO_EXEC | DO_WAKE_AFFINE},
	{125, 2, 1, 2, 1, 1, 1, 1, 4, 64, DO_NEWIDLE | DO_EXEC | DO_WAKE_AFFINE},
	{125, 3, 2, 0, 1, 1, 2, 8, 32, 32, DO_FORK | DO_EXEC | DO_WAKE_BALANCE | DO_SERIALIZE},
	{133, 3, 3, 0, 0, 0, 1, 64, 0, 128, DO_SERIALIZE},
};

/* NUMA nodes, and the distances between them, row by row. */
const volatile u32 nr_nodes = 1;
const volatile u32 node_distance[MAX_NODES * MAX_NODES];

/* A task that ran so shortly ago has a warm cache: by kind of domain. Linux measures it when it
 * boots; these are of the usual size. */
const volatile u32 cache_hot_us[NR_KINDS] = {0, 5000, 5000, 10000, 10000};

/* A CPU's domain of one level. */
struct domain {
	enum domain_kind kind;
	u32 nr_cpus;
	/* The CPU that balances for all idle ones changes these, too, by WRITE_ONCE: if it does so
	 * at the same time, the later one wins, as in Linux. */
	u32 interval_ms;
	u32 nr_failed;
	u64 last_balance; /* tick */
};

struct cpu_domains {
	u32 nr;
	struct domain level[MAX_LEVELS];
};

/* CPUs of a set, ascending and around; sizes are those of the first CPU's. */
struct domain_ring {
	u16 next[MAX_CPUS];
	u16 first[MAX_CPUS];
	u16 size[MAX_CPUS];
};

/* The CPUs of a core, a cache, a node. */
#define NR_RINGS 4

static struct cpu_domains domains[MAX_CPUS];
static struct domain_ring rings[NR_RINGS];
/* By kind of domain: the first CPUs of its groups; CPU 0 has that of KIND_ALL. */
static struct domain_ring leaders[MAX_LEVELS];
/* Nodes of a node's domain; the first CPU of a node, or none. */
static u64 node_span[MAX_NODES];
static u32 node_first[MAX_NODES];
static bool online[MAX_CPUS];

/* While rings are built: by number of a set, the CPU found last. */
static u32 ring_last[MAX_CPUS];

/* Looked up in each turn of a loop: see cpu_rq(). */
static __always_inline struct domain *domain(u32 cpu, u32 level)
{
	barrier_var(cpu);
	barrier_var(level);
	return &domains[cpu & (MAX_CPUS - 1)].level[level & (MAX_LEVELS - 1)];
}

static __always_inline u32 nr_domains(u32 cpu)
{
	return domains[cpu & (MAX_CPUS - 1)].nr;
}

static __always_inline const struct domain_params *params_of(const struct domain *d)
{
	return &domain_params[d->kind & (MAX_LEVELS - 1)];
}

static __always_inline struct domain_ring *ring_of(u32 kind)
{
	barrier_var(kind);
	return &rings[kind & (NR_RINGS - 1)];
}

static __always_inline struct domain_ring *leaders_of(u32 kind)
{
	barrier_var(kind);
	return &leaders[kind & (MAX_LEVELS - 1)];
}

static __always_inline u32 node_of(u32 cpu)
{
	return cpu_node_id[cpu & (MAX_CPUS - 1)] & (MAX_NODES - 1);
}

/* Whether @other is in @cpu's domain of this kind. */
static __always_inline bool kind_has(u32 kind, u32 cpu, u32 other)
{
	if (kind == KIND_ALL)
		return true;
	if (kind == KIND_NODE)
		return node_span[node_of(cpu)] & 1ULL << node_of(other);
	return ring_of(kind)->first[cpu & (MAX_CPUS - 1)] ==
	       ring_of(kind)->first[other & (MAX_CPUS - 1)];
}

static __always_inline bool domain_has(u32 cpu, const struct domain *d, u32 other)
{
	return kind_has(d->kind, cpu, other);
}

/* Groups -------------------------------------------------------------------------------- */

/* The ring that the groups of a kind of domain are, NR_RINGS for single CPUs. */
static __always_inline u32 group_ring(u32 kind)
{
	if (kind == KIND_SMT)
		return NR_RINGS;
	return kind < KIND_NODE ? kind - 1 : KIND_CPU;
}

/* The group of a kind of domain that @cpu is in: its first CPU. */
static __always_inline u32 group_of_cpu(u32 kind, u32 cpu)
{
	u32 ring = group_ring(kind);

	return ring < NR_RINGS ? ring_of(ring)->first[cpu & (MAX_CPUS - 1)] : cpu;
}

static __always_inline u32 group_size(u32 kind, u32 group)
{
	u32 ring = group_ring(kind);

	return ring < NR_RINGS ? ring_of(ring)->size[group & (MAX_CPUS - 1)] : 1;
}

/* The next CPU of the group. */
static __always_inline u32 group_next_cpu(u32 kind, u32 cpu)
{
	u32 ring = group_ring(kind);

	return ring < NR_RINGS ? ring_of(ring)->next[cpu & (MAX_CPUS - 1)] : cpu;
}

/* The load that counts as 128 of one CPU. */
static __always_inline u32 group_power(u32 kind, u32 group)
{
	u32 caches = 1;

	if (kind >= KIND_NODE)
		caches = leaders_of(KIND_CPU)->size[group & (MAX_CPUS - 1)];
	return caches * SCHED_LOAD_SCALE;
}

/* The group after @group among those of @cpu's domain, in ascending order and around. */
static __noinline u32 next_group(u32 kind, u32 cpu, u32 group)
{
	u64 span = node_span[node_of(cpu)];
	u32 node = node_of(group), n;

	if (kind != KIND_NODE)
		return leaders_of(kind)->next[group & (MAX_CPUS - 1)];
	bpf_for (n, 0, MAX_NODES) {
		node = node + 1 < nr_nodes ? node + 1 : 0;
		if (span & 1ULL << (node & 63))
			break;
	}
	return node_first[node & (MAX_NODES - 1)];
}

static __noinline u32 nr_groups(u32 kind, u32 cpu)
{
	u64 span = node_span[node_of(cpu)];
	u32 n, nr = 0;

	if (kind == KIND_ALL)
		return leaders_of(kind)->size[leaders_of(kind)->first[0] & (MAX_CPUS - 1)];
	if (kind != KIND_NODE)
		return leaders_of(kind)->size[cpu & (MAX_CPUS - 1)];
	bpf_for (n, 0, MAX_NODES) {
		nr += span & 1;
		span >>= 1;
	}
	return nr;
}

/* Construction -------------------------------------------------------------------------- */

/* Where the set of CPUs is known by number: the core, cache or node of a CPU; one for all. */
static __always_inline u32 set_id(u32 kind, u32 cpu)
{
	u32 i = cpu & (MAX_CPUS - 1), id = 0;

	if (kind == KIND_SMT)
		id = cpu_core_id[i];
	else if (kind == KIND_MC)
		id = cpu_llc_id[i];
	else if (kind == KIND_CPU)
		id = cpu_node_id[i];
	return id & (MAX_CPUS - 1);
}

/* Whether @cpu is in a ring: online, and, for rings of groups, the first of its group. */
static __always_inline bool in_ring(u32 kind, u32 cpu, bool of_groups)
{
	return online[cpu & (MAX_CPUS - 1)] && (!of_groups || group_of_cpu(kind, cpu) == cpu);
}

/* Links the CPUs of each set of a kind of domain, or its groups. @known: sets have numbers; else
 * each CPU is one. */
static __noinline void build_ring(struct domain_ring *ring, u32 kind, bool of_groups, bool known)
{
	u32 k;

	bpf_for (k, 0, MAX_CPUS)
		ring_last[k & (MAX_CPUS - 1)] = MAX_CPUS;
	/* Downwards, so that each CPU finds the next one, and the lowest is left. */
	bpf_for (k, 0, nr_cpus) {
		u32 cpu = (nr_cpus - 1 - k) & (MAX_CPUS - 1), id = known ? set_id(kind, cpu) : cpu;

		if (!in_ring(kind, cpu, of_groups))
			continue;
		ring->next[cpu] = ring_last[id & (MAX_CPUS - 1)];
		ring_last[id & (MAX_CPUS - 1)] = cpu;
	}
	bpf_for (k, 0, nr_cpus) {
		u32 cpu = k & (MAX_CPUS - 1), id = known ? set_id(kind, cpu) : cpu;
		u32 first = ring_last[id & (MAX_CPUS - 1)] & (MAX_CPUS - 1);

		ring->first[cpu] = first;
		if (!in_ring(kind, cpu, of_groups))
			continue;
		if (ring->next[cpu] == MAX_CPUS)
			ring->next[cpu] = first;
		ring->size[first]++;
	}
	bpf_for (k, 0, nr_cpus) {
		u32 cpu = k & (MAX_CPUS - 1);

		ring->size[cpu] = ring->size[ring->first[cpu] & (MAX_CPUS - 1)];
	}
}

static __always_inline u32 distance_of(u32 node, u32 to)
{
	if (node == to)
		return LOCAL_DISTANCE;
	return node_distance[(node * nr_nodes + to) & (MAX_NODES * MAX_NODES - 1)];
}

/* The nearest node to @node that is not in @span and has CPUs, the next by number among equals;
 * MAX_NODES: there is none. */
static __noinline u32 nearest_node(u32 node, u64 span)
{
	u32 best = MAX_NODES, least = ~0U, n, at = node;

	bpf_for (n, 0, nr_nodes) {
		u32 distance = distance_of(node, at);

		if (!(span & 1ULL << (at & 63)) && node_first[at & (MAX_NODES - 1)] != MAX_CPUS &&
		    distance < least) {
			least = distance;
			best = at;
		}
		at = at + 1 < nr_nodes ? at + 1 : 0;
	}
	return best;
}

/* Which nodes each node's domain holds. */
static __noinline void build_nodes(void)
{
	u32 node, n, k;

	bpf_for (n, 0, MAX_NODES)
		node_first[n & (MAX_NODES - 1)] = MAX_CPUS;
	bpf_for (k, 0, nr_cpus) {
		u32 cpu = nr_cpus - 1 - k;

		if (online[cpu & (MAX_CPUS - 1)])
			node_first[node_of(cpu)] = cpu;
	}
	bpf_for (node, 0, nr_nodes) {
		u64 span = 1ULL << (node & 63);

		bpf_for (n, 1, NODES_PER_DOMAIN) {
			u32 nearest = nearest_node(node, span);

			if (nearest < MAX_NODES)
				span |= 1ULL << (nearest & 63);
		}
		node_span[node & (MAX_NODES - 1)] = span;
	}
}

static __noinline u32 domain_size(u32 kind, u32 cpu)
{
	u64 span = node_span[node_of(cpu)];
	u32 n, nr = 0;

	if (kind == KIND_ALL)
		return nr_online;
	if (kind != KIND_NODE)
		return ring_of(kind)->size[cpu & (MAX_CPUS - 1)];
	bpf_for (n, 0, MAX_NODES) {
		u32 first = node_first[n & (MAX_NODES - 1)];

		if (span & 1ULL << (n & 63) && first != MAX_CPUS)
			nr += ring_of(KIND_CPU)->size[first & (MAX_CPUS - 1)];
	}
	return nr;
}

/* Domains of nodes, too, begin with an interval below their least. */
static __always_inline u32 first_interval_ms(u32 kind)
{
	return kind == KIND_ALL ? domain_params[KIND_ALL].min_ms : 1;
}

/* Adds @cpu's domain of this kind to those that it has, unless it would decide nothing. */
static __noinline void add_domain(u32 kind, u32 cpu, u64 tick)
{
	struct cpu_domains *own = &domains[cpu & (MAX_CPUS - 1)];
	struct domain *d = domain(cpu, own->nr);

	if (nr_groups(kind, cpu) < 2)
		return;
	/* All nodes, if one domain does not hold them. */
	if (kind == KIND_ALL && domain_size(KIND_NODE, cpu) == nr_online)
		return;
	__builtin_memset(d, 0, sizeof(*d));
	d->kind = kind;
	d->nr_cpus = domain_size(kind, cpu);
	d->interval_ms = first_interval_ms(kind);
	d->last_balance = tick;
	own->nr++;
}

/* Builds the domains of all CPUs that are in @mask. -E2BIG: there are too many nodes. */
static __noinline int build_domains(const struct cpumask *mask, u64 tick)
{
	bool has_cores = false;
	u32 k, kind;

	if (nr_nodes > MAX_NODES)
		return -E2BIG;
	bpf_for (k, 0, nr_cpus) {
		u32 cpu = k & (MAX_CPUS - 1);

		online[cpu] = bpf_cpumask_test_cpu(k, mask);
		nr_online += online[cpu];
		has_cores |= cpu_core_id[cpu] != 0;
	}
	bpf_for (kind, 0, KIND_NODE)
		build_ring(ring_of(kind), kind, false, kind != KIND_SMT || has_cores);
	bpf_for (kind, 0, NR_KINDS)
		build_ring(leaders_of(kind), kind, true, kind != KIND_SMT || has_cores);
	build_nodes();
	bpf_for (kind, 0, NR_KINDS) {
		bpf_for (k, 0, nr_cpus) {
			if (online[k & (MAX_CPUS - 1)])
				add_domain(kind, k, tick);
		}
	}
	return 0;
}

#endif
