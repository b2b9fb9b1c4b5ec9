/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Per-entity load tracking as in Linux 4.9: sums that halve in 32 segments.
 *
 * A unit is 1024 ns, a segment 1024 units. With y^32 = 1/2, what happened k segments ago
 * counts y^k. Averages are sums over PELT_MAX, renewed when a segment boundary is crossed.
 */
#ifndef __LIB_FAIR_PELT_H
#define __LIB_FAIR_PELT_H

#include "types.h"

/* What a sum of 1024 per segment tends to (integer arithmetic), and after how many segments. */
#define PELT_MAX	  47742
#define PELT_MAX_SEGMENTS 345
#define PELT_HALF_LIFE	  32

/* floor((2^32 - 1) * y^n) */
static const u32 pelt_y[PELT_HALF_LIFE] = {
	0xffffffff, 0xfa83b2da, 0xf5257d14, 0xefe4b99a, 0xeac0c6e6, 0xe5b906e6, 0xe0ccdeeb,
	0xdbfbb796, 0xd744fcc9, 0xd2a81d91, 0xce248c14, 0xc9b9bd85, 0xc5672a10, 0xc12c4cc9,
	0xbd08a39e, 0xb8fbaf46, 0xb504f333, 0xb123f581, 0xad583ee9, 0xa9a15ab4, 0xa5fed6a9,
	0xa2704302, 0x9ef5325f, 0x9b8d39b9, 0x9837f050, 0x94f4efa8, 0x91c3d373, 0x8ea4398a,
	0x8b95c1e3, 0x88980e80, 0x85aac367, 0x82cd8698,
};

/* 1024 * (y + y^2 + ... + y^n), each partial sum rounded down */
static const u32 pelt_partial[PELT_HALF_LIFE + 1] = {
	0,     1002,  1982,  2941,  3880,  4798,  5697,	 6576,	7437,  8279,  9103,
	9909,  10698, 11470, 12226, 12966, 13690, 14398, 15091, 15769, 16433, 17082,
	17718, 18340, 18949, 19545, 20128, 20698, 21256, 21802, 22336, 22859, 23371,
};

/* The same sum for 32 * k segments */
static const u32 pelt_halves[12] = {
	0, 23371, 35056, 40899, 43820, 45281, 46011, 46376, 46559, 46650, 46696, 46719,
};

/* v * y^segments */
static __noinline u64 pelt_decay(u64 v, u64 segments)
{
	if (!segments)
		return v;
	if (segments > PELT_HALF_LIFE * 63)
		return 0;
	return mul_shift(v >> (segments / PELT_HALF_LIFE), pelt_y[segments % PELT_HALF_LIFE], 32);
}

/* What `segments` whole segments contribute, seen from their end. */
static __always_inline u64 pelt_contribution(u64 segments)
{
	u64 halves = segments / PELT_HALF_LIFE;

	if (segments <= PELT_HALF_LIFE)
		return pelt_partial[segments];
	if (segments >= PELT_MAX_SEGMENTS || halves > 11)
		return PELT_MAX;
	return pelt_decay(pelt_halves[halves], segments % PELT_HALF_LIFE) +
	       pelt_partial[segments % PELT_HALF_LIFE];
}

static __always_inline void pelt_add(struct pelt *a, u64 units, u64 weight, u64 runnable,
				     bool running)
{
	a->load_sum += weight * units;
	a->runnable_sum += runnable * units;
	if (running)
		a->util_sum += units << 10;
}

static __always_inline void pelt_fade(struct pelt *a, u64 segments)
{
	a->load_sum = pelt_decay(a->load_sum, segments);
	a->runnable_sum = pelt_decay(a->runnable_sum, segments);
	a->util_sum = pelt_decay(a->util_sum, segments);
}

/*
 * Brings an average to now_ns. The time since the last update counts with `weight` (units of the
 * table; zero if nothing was runnable) as load and with `runnable` as runnable load. Returns true
 * if a segment boundary was crossed, that is, if the averages are new.
 */
static __always_inline bool pelt_advance(struct pelt *a, u64 now_ns, u64 weight, u64 runnable,
					 bool running)
{
	u64 units = now_ns - a->updated_ns;
	u64 head, segments;

	if ((s64)units < 0) {
		a->updated_ns = now_ns;
		return false;
	}
	units >>= 10;
	if (!units)
		return false;
	a->updated_ns = now_ns;

	if (a->phase + units < 1024) {
		pelt_add(a, units, weight, runnable, running);
		a->phase += units;
		return false;
	}
	/* The rest of the open segment, whole segments, then the start of a new one. */
	head = 1024 - a->phase;
	pelt_add(a, head, weight, runnable, running);
	units -= head;
	segments = units >> 10;
	/* Bounds tests on it shall not be moved to `units`: the verifier would lose them. */
	barrier_var(segments);
	units &= 1023;
	pelt_fade(a, segments + 1);
	pelt_add(a, pelt_contribution(segments) + units, weight, runnable, running);
	a->phase = units;

	/* Partners: readers on other CPUs, as cpu_load(), cpu_util(), util_of(), effective_load().
	 */
	WRITE_ONCE(a->load_avg, a->load_sum / PELT_MAX);
	WRITE_ONCE(a->runnable_avg, a->runnable_sum / PELT_MAX);
	WRITE_ONCE(a->util_avg, a->util_sum / PELT_MAX);
	return true;
}

/* A queue's runnable load is its load. */
static __noinline bool pelt_update(struct pelt *a, u64 now_ns, u64 weight, bool of_queue,
				   bool running)
{
	return pelt_advance(a, now_ns, weight, of_queue ? weight : 0, running);
}

/* In 6.18, the runnable load of a CPU's root queue is the number @nr of its tasks, whatever their
 * weights. */
static __maybe_unused __noinline bool pelt_update_tasks(struct pelt *a, u64 now_ns, u64 weight,
							u32 nr, bool running)
{
	return pelt_advance(a, now_ns, weight, (u64)nr << 10, running);
}

/* The averages of a new task: it is taken for one that always runs. */
static __always_inline void pelt_newborn(struct pelt *a, u64 weight)
{
	/* The first update crosses a boundary. */
	a->phase = 1023;
	a->load_avg = weight;
	a->load_sum = weight * PELT_MAX;
	a->util_avg = 0;
	a->util_sum = 0;
}

/* A new task's utilisation: its part of the queue's, at most half of what is left. */
static __noinline void pelt_newborn_util(struct pelt *a, const struct pelt *of_queue, u64 weight)
{
	s64 cap = ((s64)1024 - of_queue->util_avg) / 2;

	if (cap <= 0)
		return;
	a->util_avg = cap;
	if (of_queue->util_avg) {
		u64 util = of_queue->util_avg * weight / (of_queue->load_avg + 1);

		if (util < cap)
			a->util_avg = util;
	}
	a->util_sum = (u64)a->util_avg * PELT_MAX;
}

#endif
