/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handles on the shared headers for tests: each program takes its arguments in eight words and
 * leaves its results there. No kernel is needed.
 */
#include <scx/common.bpf.h>
#include "tiltyard/descent.h"
#include "tiltyard/topology.h"
#include "tiltyard/ticks.h"
#include "tiltyard/tree.h"
#include "tiltyard/slots.h"
#include "tiltyard/arith.h"
#include "tiltyard/freebsd.h"
#include "tiltyard/weights.h"

char _license[] SEC("license") = "GPL";

/* The kernel side of a struct_ops object, which this is so that it can be loaded. */
SCX_OPS_DEFINE(lib_ops, .name = "lib");

/* Tree ---------------------------------------------------------------------------------- */

#define NR_NODES 4096

static struct tree_node nodes[NR_NODES];
static struct tree tree;

static __always_inline struct tree_node *tree_node(u32 i)
{
	return &nodes[i & (NR_NODES - 1)];
}

static __always_inline bool tree_keeps_more(void)
{
	return false;
}

static __always_inline void tree_keep(u32 i, u32 a, u32 b)
{
}

/* In: entity, key, value. */
SEC("syscall") u64 t_insert(u64 *a)
{
	tree_insert(&tree, a[0], a[1], a[2]);
	return 0;
}

/* In: entity. */
SEC("syscall") u64 t_remove(u64 *a)
{
	tree_remove(&tree, a[0]);
	return 0;
}

/* In: limit. Out: first, second, first within the limit, height. */
SEC("syscall") u64 t_look(u64 *a)
{
	a[3] = tree_first_within(&tree, a[0]);
	a[1] = tree.first;
	a[2] = tree_second(&tree);
	a[4] = tree_height(tree.root);
	return 0;
}

/* Ticks --------------------------------------------------------------------------------- */

static struct tick_grid grid;

/* In: time, length of a tick, whether a task starts instead. Out: ticks due. */
SEC("syscall") u64 t_ticks(u64 *a)
{
	if (a[2])
		ticks_skip(&grid, a[0], a[1]);
	else
		a[3] = ticks_due(&grid, a[0], a[1]);
	return 0;
}

/* Topology ------------------------------------------------------------------------------ */

static struct topology topo;

/* In: CPUs, levels, of enum topo_build. Out: online CPUs, levels in use. */
SEC("syscall") u64 t_topology(u64 *a)
{
	topo_init(&topo, a[0], a[1], a[2]);
	a[3] = topo.nr_online;
	a[4] = topo.levels;
	return 0;
}

/* In: rank, level. Out: its CPU; that CPU's rank and span at the level. */
SEC("syscall") u64 t_cpu(u64 *a)
{
	u32 cpu = topo_at(&topo, a[0]);
	const struct topo_cpu *c = topo_of(&topo, cpu);

	a[2] = cpu;
	a[3] = c->rank;
	a[4] = c->span[a[1] & (NR_TOPO - 1)].first;
	a[5] = c->span[a[1] & (NR_TOPO - 1)].end;
	return 0;
}

static struct descent descent;

/* In: CPU and level of a group, whether flat, whether highest. Loads are 10 * (CPU * 7 % 5), keys
 * the CPUs, CPU 2 is not eligible. Out: the best CPU. */
SEC("syscall") u64 t_descend(u64 *a)
{
	u32 level = a[1] & (NR_TOPO - 1), i;
	const struct topo_span *span = &topo_of(&topo, a[0])->span[level];

	descent_begin(&descent, level, a[2] ? level : TOPO_CORE, a[3]);
	bpf_for (i, span->first, span->end) {
		u32 cpu = topo_at(&topo, i);

		descent_offer(&descent, 10 * (cpu * 7 % 5), cpu == 2 ? -1 : (s32)cpu, cpu);
		descent_close(&descent, &topo, cpu);
	}
	a[4] = descent_best(&descent);
	return 0;
}

/* Slots --------------------------------------------------------------------------------- */

DEFINE_SLOTS(few, 8)

/* In: limit. Out: a slot. */
SEC("syscall") u64 t_take(u64 *a)
{
	return few_take(a[0]);
}

/* In: a slot. */
SEC("syscall") u64 t_give(u64 *a)
{
	few_give(a[0]);
	return 0;
}

/* Numbers ------------------------------------------------------------------------------- */

/* In: two times. Out: whether the first is earlier, the later, the earlier, min, max, less. */
SEC("syscall") u64 t_order(u64 *a)
{
	a[2] = earlier(a[0], a[1]);
	a[3] = later_of(a[0], a[1]);
	a[4] = earlier_of(a[0], a[1]);
	a[5] = min_of(a[0], a[1]);
	a[6] = max_of(a[0], a[1]);
	a[7] = less(a[0], a[1]);
	return 0;
}

/* In: 64 bits, 32 bits, shift. Out: their product, shifted; bits that the second needs. */
SEC("syscall") u64 t_product(u64 *a)
{
	a[3] = mul_shift(a[0], a[1], a[2]);
	a[4] = bit_length(a[1]);
	return 0;
}

/* In: nice value, whether the policy is SCHED_IDLE. Out: weight, inverse. */
SEC("syscall") u64 t_load(u64 *a)
{
	struct fair_load load;

	load_of_nice(&load, a[0], a[1]);
	a[2] = load.weight;
	a[3] = load.inverse;
	return 0;
}

/* In: a length of time, weight, sum of weights. Out: inverse of the sum, the weight's part of the
 * time, what the time costs a task with the sum's weight. */
SEC("syscall") u64 t_parts(u64 *a)
{
	struct fair_load all = {.weight = a[2], .inverse = inverse_of(a[2])};

	a[3] = all.inverse;
	a[4] = calc_delta(a[0], a[1], all.inverse);
	a[5] = calc_delta_fair(a[0], &all);
	return 0;
}

/* FreeBSD ------------------------------------------------------------------------------- */

/* In: a task. Out: the pid of its heir, whether it is a kernel thread, of the idle class. */
SEC("syscall") u64 t_freebsd(u64 *a)
{
	struct task_struct *p = (struct task_struct *)a[0];

	a[5] = freebsd_heir_pid(p);
	a[6] = is_kthread(p);
	a[7] = freebsd_is_idle_class(p);
	return 0;
}
