/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Weights of nice values, as Linux has had them since 2.6.23, and the one division that fair
 * schedulers do with them: time * weight / sum of weights.
 */
#ifndef __LIB_WEIGHTS_H
#define __LIB_WEIGHTS_H

#include "arith.h"

#define NICE_0_WEIGHT 1024
/* Weights are kept 1024 times finer than the table has them, as 64-bit kernels do. */
#define WEIGHT_SHIFT  10

struct fair_load {
	/* In 1/1024 of the units of the table. */
	u64 weight;
	/* About 2^32 divided by the weight in units of the table. */
	u32 inverse;
};

/* Weight of nice -20..19: about 1024 / 1.25^nice. */
static const u32 nice_weight[40] = {
	88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
	9548,  7620,  6100,  4904,  3906,  3121,  2501,	 1991,	1586,  1277,
	1024,  820,   655,   526,   423,   335,	  272,	 215,	172,   137,
	110,   87,    70,    56,    45,	   36,	  29,	 23,	18,    15,
};

/* About 2^32 / weight. */
static const u32 nice_inverse[40] = {
	48388,	  59856,    76040,    92818,	 118348,    147320,    184698,	  229616,
	287308,	  360437,   449829,   563644,	 704093,    875809,    1099582,	  1376151,
	1717300,  2157191,  2708050,  3363326,	 4194304,   5237765,   6557202,	  8165337,
	10153587, 12820798, 15790321, 19976592,	 24970740,  31350126,  39045157,  49367440,
	61356676, 76695844, 95443717, 119304647, 148102320, 186737708, 238609294, 286331153,
};

#define IDLE_WEIGHT  3
#define IDLE_INVERSE 1431655765U

static __always_inline u64 table_units(u64 weight)
{
	return weight >> WEIGHT_SHIFT;
}

/* 2^32 / weight for a weight that is not in the table, rounded down. */
static __always_inline u32 inverse_of(u64 weight)
{
	u64 w = table_units(weight);

	return w ? 0xffffffffU / w : 0xffffffffU;
}

static void load_of_nice(struct fair_load *load, s32 nice, bool idle_policy)
{
	u32 i = nice + 20;

	if (idle_policy) {
		load->weight = IDLE_WEIGHT << WEIGHT_SHIFT;
		load->inverse = IDLE_INVERSE;
		return;
	}
	if (i > 39)
		i = 39;
	load->weight = (u64)nice_weight[i] << WEIGHT_SHIFT;
	load->inverse = nice_inverse[i];
}

/*
 * delta_ns * weight / total, rounded down, with `inverse` for the total. The factor is cut
 * to 32 bits before it is multiplied, which is why slices come out a few ns short.
 */
static __noinline u64 calc_delta(u64 delta_ns, u64 weight, u32 inverse)
{
	u64 factor = table_units(weight) * inverse;
	u32 excess = bit_length(factor >> 32);

	return mul_shift(delta_ns, factor >> excess, 32 - excess);
}

/* What a run of delta_ns costs in vruntime. */
static __always_inline u64 calc_delta_fair(u64 delta_ns, const struct fair_load *load)
{
	if (load->weight == NICE_0_WEIGHT << WEIGHT_SHIFT)
		return delta_ns;
	return calc_delta(delta_ns, NICE_0_WEIGHT << WEIGHT_SHIFT, load->inverse);
}

#endif
