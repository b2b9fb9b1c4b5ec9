/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The best CPU of a group as a descent through its tree of groups finds it: at each level the child
 * with the least (or most) load that contains an eligible CPU, of equal ones the one whose best CPU
 * has the lower (higher) key. Loads may be negative.
 *
 * One pass over the group's range in the topology's order gives the same: it closes the groups
 * inside as they end, and hands each one's load and best CPU to its parent.
 *
 *	descent_begin(d, level, leaf, highest);
 *	for each CPU of the group:
 *		descent_offer(d, load, eligible ? cpu : -1, key);
 *		descent_close(d, topo, cpu);
 *	cpu = descent_best(d);
 *
 * Example: two cores with loads 1, 1 and 0, 4. The first (2) is chosen over the second (4), and one
 * of its CPUs, although the second core has an idle one.
 */
#ifndef __LIB_DESCENT_H
#define __LIB_DESCENT_H

#include "topology.h"

/* Best CPU of a group so far; -1: none is eligible. */
struct descent_best {
	s32 load_sum;
	s32 cpu;
	/* Load of the child it came from, and its own key. */
	s32 load;
	s32 key;
};

/* In memory and not on the stack, because the verifier would follow each value it can take. */
struct descent {
	/* Of the group that is open at each level. */
	struct descent_best best[NR_TOPO];
	u32 level; /* of the group that is searched */
	u32 leaf;  /* level whose groups are not divided: that of a core, or `level` for a flat
		      search */
	bool highest;
};

static __always_inline void descent_open(struct descent_best *best)
{
	best->load_sum = 0;
	best->cpu = -1;
	best->load = 0;
	best->key = 0;
}

static __always_inline void descent_begin(struct descent *d, u32 level, u32 leaf, bool highest)
{
	u32 i;

	d->level = level & (NR_TOPO - 1);
	d->leaf = leaf & (NR_TOPO - 1);
	d->highest = highest;
	bpf_for (i, 0, NR_TOPO)
		descent_open(&d->best[i & (NR_TOPO - 1)]);
}

/* A child with @load whose best eligible CPU is @cpu. */
static void descent_add(struct descent_best *best, bool highest, s32 load, s32 cpu, s32 key)
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

static __always_inline void descent_offer(struct descent *d, s32 load, s32 cpu, s32 key)
{
	descent_add(&d->best[d->leaf & (NR_TOPO - 1)], d->highest, load, cpu, key);
}

/* A group ends: it is a child of the one above. */
static __noinline void descent_up(struct descent_best *best, bool highest)
{
	descent_add(best - 1, highest, best->load_sum, best->cpu, best->key);
	descent_open(best);
}

/* Closes the groups from the leaf up to the searched one that end with @cpu, smallest first. */
static __always_inline void descent_close(struct descent *d, const struct topology *t, u32 cpu)
{
	const struct topo_cpu *c = topo_of(t, cpu);
	u32 next = c->rank + 1;

	if (d->level < TOPO_CORE && d->leaf == TOPO_CORE && c->span[TOPO_CORE].end == next)
		descent_up(&d->best[TOPO_CORE], d->highest);
	if (d->level < TOPO_LLC && d->leaf >= TOPO_LLC && c->span[TOPO_LLC].end == next)
		descent_up(&d->best[TOPO_LLC], d->highest);
	if (d->level < TOPO_NODE && d->leaf >= TOPO_NODE && c->span[TOPO_NODE].end == next)
		descent_up(&d->best[TOPO_NODE], d->highest);
}

static __always_inline s32 descent_best(const struct descent *d)
{
	return d->best[d->level & (NR_TOPO - 1)].cpu;
}

#endif
