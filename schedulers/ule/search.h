/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which CPU: the machine as a tree of groups (whole, nodes, last-level caches, cores), the
 * search of a least or most loaded CPU in it, and the placement of a task (sched_pickcpu).
 *
 * FreeBSD descends the tree: at each level the child with the least (most) load that contains
 * an eligible CPU. Here the CPUs are sorted so that each group is a run of neighbours; one pass
 * over them closes groups as they end and hands each one's best CPU and load to its parent.
 */
#ifndef __ULE_SEARCH_H
#define __ULE_SEARCH_H

/* Load of one task in a search, and what the preferred CPU is spared: a quarter task. */
#define SEARCH_TASK   256
#define SEARCH_PREFER 64

/* Which CPUs are in question, beyond those of the group. */
enum search_mask {
	SEARCH_ALLOWED, /* the task may run there */
	SEARCH_UNTRIED, /* not tried yet by the CPU that steals */
	SEARCH_DONORS,	/* balancer: not yet a donor or receiver in this pass */
	SEARCH_TAKERS,	/* balancer: not yet refused by this donor */
};

struct search {
	/* The group: @cpu's at @level. */
	s32 cpu;
	u32 level;
	enum search_mask mask;
	/* Most loaded with at least `limit` tasks; or least loaded with at most `limit`, where a
	 * task better than min_pri would run next, less SEARCH_PREFER on CPU `prefer`. */
	bool highest;
	u32 limit;
	u32 min_pri;
	s32 prefer;
};

/* Best CPU of a group so far. */
struct search_best {
	u32 load_sum;
	s32 cpu;
	/* Load of the child it came from, and its own load less a random tie breaker. */
	u32 load;
	u32 key;
};

/* A search under way: the group that is open at each level, and the CPU visited last. In
 * memory and not on the stack, because the verifier would follow each value it can take. One
 * for each CPU and one for the balancer, whose timer an interrupt on its CPU may interrupt. */
struct search_state {
	struct search_best best[NR_TOPO];
	s32 last;
};

static struct search_state searches[MAX_CPUS + 1];

/* FreeBSD's generator for ties. */
static u32 lcg_next(u32 *state)
{
	*state = *state * 69069 + 5;
	return *state >> 16;
}

/* Searches see each CPU at another moment: what they read has its partners in load_set() and in the
 * CPU's own callbacks (ule.bpf.c), and may be wrong by the time it is used. */

/* Tasks that could be moved off a CPU: queued ones. */
static u32 transferable(struct ule_cpu *c)
{
	return READ_ONCE(c->load) - (READ_ONCE(c->running) ? 1 : 0);
}

/* Whether one would be: the port looks at the load alone. */
static bool may_give(struct ule_cpu *c)
{
	return par.port ? READ_ONCE(c->load) > 1 : transferable(c) > 0;
}

/* Whether a task may run on a CPU; most may run on all, and need no look at their mask. */
static bool allowed(const struct task_struct *p, s32 cpu)
{
	return p->nr_cpus_allowed >= nr_cpus || bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

static __noinline bool search_eligible(struct search *q, struct task_struct *p, s32 cpu,
				       struct ule_cpu *c)
{
	struct ule_cpu *self;

	switch (q->mask) {
	case SEARCH_ALLOWED:
		if (!p || !allowed(p, cpu))
			return false;
		break;
	case SEARCH_UNTRIED:
		self = cpu_ctx(q->cpu);
		if (self->tried[(cpu & (MAX_CPUS - 1)) / 64] & 1ULL << (cpu & 63))
			return false;
		break;
	case SEARCH_DONORS:
		if (!c->donor)
			return false;
		break;
	case SEARCH_TAKERS:
		if (!c->taker)
			return false;
		break;
	}
	if (q->highest)
		return READ_ONCE(c->load) >= q->limit && (par.port || transferable(c) > 0);
	return READ_ONCE(c->lowpri) > q->min_pri && READ_ONCE(c->load) <= q->limit;
}

/* A child with @load whose best eligible CPU is @cpu (-1: none), ties by @key. */
static void search_offer(struct search_best *best, bool highest, u32 load, s32 cpu, u32 key)
{
	s32 diff = load - best->load;

	best->load_sum += load;
	if (cpu < 0)
		return;
	if (!diff)
		diff = key - best->key;
	if (best->cpu < 0 || (highest ? diff > 0 : diff < 0)) {
		best->cpu = cpu;
		best->load = load;
		best->key = key;
	}
}

static void search_open(struct search_best *best)
{
	best->load_sum = 0;
	best->cpu = -1;
	best->load = 0;
	best->key = 0;
}

/* A group ends: it is a child of the level above. */
static __noinline void search_close(struct search_best *best, struct search_best *parent,
				    bool highest)
{
	search_offer(parent, highest, best->load_sum, best->cpu, best->key);
	search_open(best);
}

/* Closes the groups that end between CPUs @a and @b, the smallest first. */
static void search_step(struct search_best *best, bool highest, struct ule_cpu *a,
			struct ule_cpu *b)
{
	if (a->group[TOPO_CORE] != b->group[TOPO_CORE])
		search_close(&best[TOPO_CORE], &best[TOPO_LLC], highest);
	if (a->group[TOPO_LLC] != b->group[TOPO_LLC])
		search_close(&best[TOPO_LLC], &best[TOPO_NODE], highest);
	if (a->group[TOPO_NODE] != b->group[TOPO_NODE])
		search_close(&best[TOPO_NODE], &best[TOPO_ALL], highest);
}

static u32 search_load(struct search *q, s32 cpu, struct ule_cpu *c)
{
	u32 load = READ_ONCE(c->load) * SEARCH_TASK;

	if (!q->highest && cpu == q->prefer && load >= SEARCH_PREFER)
		load -= SEARCH_PREFER;
	return load;
}

/* The CPU that @q asks for, for task @p or NULL; -1 if there is none. */
static __noinline s32 search(struct search *q, struct task_struct *p)
{
	bool balancing = q->mask == SEARCH_DONORS || q->mask == SEARCH_TAKERS;
	u32 self = bpf_get_smp_processor_id() & (MAX_CPUS - 1);
	struct search_state *s = &searches[balancing ? MAX_CPUS : self];
	u32 level = q->level & (NR_TOPO - 1);
	u32 group = cpu_ctx(q->cpu)->group[level];
	struct ule_cpu *here = cpu_ctx(self);
	u32 i;

	bpf_for (i, 0, NR_TOPO)
		search_open(&s->best[i & (NR_TOPO - 1)]);
	s->last = -1;
	bpf_for (i, 0, nr_online) {
		s32 cpu = cpu_ctx(i)->order;
		struct ule_cpu *c = cpu_ctx(cpu);
		u32 load, noise;

		if (c->group[level] != group)
			continue;
		load = search_load(q, cpu, c);
		noise = search_noise ? lcg_next(&here->lcg) % search_noise : 0;
		/* The port knows no hierarchy: all CPUs are children of one group. */
		if (s->last >= 0 && !par.port)
			search_step(s->best, q->highest, cpu_ctx(s->last), c);
		s->last = cpu;
		search_offer(&s->best[TOPO_CORE], q->highest, load,
			     search_eligible(q, p, cpu, c) ? cpu : -1, load - noise);
	}
	search_close(&s->best[TOPO_CORE], &s->best[TOPO_LLC], q->highest);
	search_close(&s->best[TOPO_LLC], &s->best[TOPO_NODE], q->highest);
	search_close(&s->best[TOPO_NODE], &s->best[TOPO_ALL], q->highest);
	return s->best[TOPO_ALL].cpu;
}

/* Least loaded CPU of @cpu's group at @level where a task better than @min_pri runs next. */
static s32 search_lowest(s32 cpu, u32 level, struct task_struct *p, u32 min_pri, s32 prefer)
{
	struct search q = {
		.cpu = cpu,
		.level = level,
		.mask = SEARCH_ALLOWED,
		.limit = 0x7fffffff,
		.min_pri = min_pri,
		.prefer = prefer,
	};

	return search(&q, p);
}

/* Topology ------------------------------------------------------------------------------ */

/* Bit n: level n of enum topo_level is one. */
static u32 topo_levels;

static u32 topo_id(s32 cpu, u32 level)
{
	u32 i = cpu & (MAX_CPUS - 1);

	switch (level) {
	case TOPO_NODE:
		return cpu_node_id[i];
	case TOPO_LLC:
		return cpu_llc_id[i];
	case TOPO_CORE:
		return cpu_core_id[i];
	}
	return 0;
}

/* Whether groups at this level tell CPUs apart and yet hold more than one: else it is no level. */
static bool topo_level_used(u32 level)
{
	bool shared = false, apart = false;
	u32 i, j;

	bpf_for (i, 0, nr_cpus) {
		bpf_for (j, 0, nr_cpus) {
			if (i == j)
				continue;
			if (topo_id(i, level) == topo_id(j, level))
				shared = true;
			else
				apart = true;
		}
		if (shared && apart)
			return true;
	}
	return false;
}

/* Search order: groups from the last to the first, CPUs within a leaf group ascending. */
static bool topo_before(s32 a, s32 b)
{
	struct ule_cpu *x = cpu_ctx(a), *y = cpu_ctx(b);

	if (x->group[TOPO_NODE] != y->group[TOPO_NODE])
		return x->group[TOPO_NODE] > y->group[TOPO_NODE];
	if (x->group[TOPO_LLC] != y->group[TOPO_LLC])
		return x->group[TOPO_LLC] > y->group[TOPO_LLC];
	if (x->group[TOPO_CORE] != y->group[TOPO_CORE])
		return x->group[TOPO_CORE] > y->group[TOPO_CORE];
	return a < b;
}

/* Numbers the groups of a level by their first CPU; a level splits what the one above holds.
 * Inlined, because the verifier must see that @level is in range. */
static __always_inline void topo_group(u32 level)
{
	bool used = topo_level_used(level);
	u32 i, j;

	if (used)
		topo_levels |= 1U << level;
	bpf_for (i, 0, nr_cpus) {
		struct ule_cpu *c = cpu_ctx(i);

		c->group[level] = used ? i : c->group[level - 1];
		if (!used)
			continue;
		bpf_for (j, 0, i) {
			struct ule_cpu *o = cpu_ctx(j);

			if (o->group[level - 1] == c->group[level - 1] &&
			    topo_id(j, level) == topo_id(i, level)) {
				c->group[level] = o->group[level];
				break;
			}
		}
	}
}

/* Fills groups and search order of all CPUs in @online. */
static void topo_init(const struct cpumask *online)
{
	u32 i, j;

	topo_group(TOPO_NODE);
	topo_group(TOPO_LLC);
	topo_group(TOPO_CORE);
	bpf_for (i, 0, nr_cpus) {
		struct ule_cpu *c = cpu_ctx(i);

		if (!bpf_cpumask_test_cpu(i, online))
			continue;
		nr_online++;
		bpf_for (j, 0, nr_cpus) {
			if (bpf_cpumask_test_cpu(j, online) && topo_before(j, i))
				c->rank++;
		}
		cpu_ctx(c->rank)->order = i;
	}
}

/* Whether all CPUs that share a core with @cpu are idle. */
static bool core_idle(s32 cpu)
{
	u32 core = cpu_ctx(cpu)->group[TOPO_CORE];
	u32 i;

	bpf_for (i, 0, nr_online) {
		struct ule_cpu *c = cpu_ctx(cpu_ctx(i)->order);

		if (c->group[TOPO_CORE] == core && READ_ONCE(c->lowpri) < PRI_MIN_IDLE)
			return false;
	}
	return true;
}

/* Placement ----------------------------------------------------------------------------- */

/* Clocks of two CPUs may differ by a tick. */
static u64 hz_since(u64 then, u64 now)
{
	return now > then ? now - then : 0;
}

static bool topo_level_known(u32 level)
{
	return level == TOPO_ALL || topo_levels & 1U << level;
}

/*
 * FreeBSD's order: the last CPU if idle and its cache warm; an idle CPU of the largest group
 * whose cache is; a CPU where the task runs at once; the least loaded; against the latter two
 * the waking CPU has the first claim.
 */
static s32 pickcpu_freebsd(struct task_struct *p, struct ule_task *t, s32 prev, u64 now)
{
	s32 self = bpf_get_smp_processor_id();
	struct ule_cpu *last = cpu_ctx(prev), *here = cpu_ctx(self), *found;
	/* Whole hz ticks since it last ran: a cache of level n is warm for n - 1. */
	u64 away = hz_since(t->rltick, now) / par.affinity;
	u32 pri = READ_ONCE(t->pri);
	s32 cpu = -1;

	/* L2 is private to a core: level 2. */
	if (READ_ONCE(last->lowpri) >= PRI_MIN_IDLE && away < 2 && allowed(p, prev) &&
	    (!topo_level_known(TOPO_CORE) || core_idle(prev)))
		return prev;
	/* Of the groups only a last-level cache (level 3) is neither SMT nor without cache. */
	if (topo_level_known(TOPO_LLC) && away < 3)
		cpu = search_lowest(prev, TOPO_LLC, p,
				    pri > PRI_MIN_IDLE - 1 ? pri : PRI_MIN_IDLE - 1, prev);
	if (cpu < 0)
		cpu = search_lowest(prev, TOPO_ALL, p, pri, prev);
	if (cpu < 0)
		cpu = search_lowest(prev, TOPO_ALL, p, 0, prev);
	if (cpu < 0)
		return prev;
	found = cpu_ctx(cpu);
	if (allowed(p, self) && READ_ONCE(here->lowpri) > pri &&
	    READ_ONCE(found->lowpri) < PRI_MIN_IDLE &&
	    READ_ONCE(here->load) <= READ_ONCE(found->load) + 1)
		return self;
	return cpu;
}

/*
 * The port's: much the same by the waker's domains, with two differences that cost it: no CPU
 * ever counts as idle in a search, and the last step compares with the previous CPU.
 */
static s32 pickcpu_port(struct task_struct *p, struct ule_task *t, s32 prev, u64 now)
{
	s32 self = bpf_get_smp_processor_id();
	struct ule_cpu *last = cpu_ctx(prev), *here = cpu_ctx(self);
	u64 away = hz_since(t->ltick, now) / par.affinity;
	u32 pri = READ_ONCE(t->pri), idle_pri = par.pri_min_batch + par.nr_batch - 1;
	u32 level, nr_affine = 0, domain = NR_TOPO;
	s32 cpu = -1;

	if (!READ_ONCE(last->load) && away < 2 && allowed(p, prev))
		return prev;
	/* Domains count from the smallest: domain n is warm for n times the affinity. */
	bpf_for (level, 0, NR_TOPO) {
		u32 up = TOPO_CORE - level;

		if (!topo_level_known(up))
			continue;
		if (away < nr_affine)
			domain = up;
		nr_affine++;
	}
	if (domain < NR_TOPO)
		cpu = search_lowest(self, domain, p, pri > idle_pri ? pri : idle_pri, prev);
	if (cpu < 0)
		cpu = search_lowest(self, TOPO_ALL, p, pri, prev);
	if (cpu < 0)
		cpu = search_lowest(self, TOPO_ALL, p, 0, prev);
	if (cpu < 0)
		return prev;
	if (allowed(p, self) && READ_ONCE(here->lowpri) > pri && READ_ONCE(last->load) > 0 &&
	    READ_ONCE(here->load) <= READ_ONCE(last->load) + 1)
		return self;
	return cpu;
}

#endif
