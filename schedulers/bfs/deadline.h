/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Slices and virtual deadlines.
 *
 * A task gets a slice and a deadline together, and keeps both until the slice is used up, however
 * long it sleeps. All slices are equal; nice only moves the deadline:
 *
 *	deadline = now + ratio * rr_interval,	ratio 1 at nice -20, a tenth more with each nice
 */
#pragma once

#include "types.h"

#define NR_NICE 40

/* Computed when the scheduler is loaded. */
struct bfs_params {
	u32 rr; /* ms, on this machine */
	u32 unit_ns;
	u32 ratio; /* while offsets are computed: see nr_online */
	s64 slice;
	u64 jiffy_ns;
	s64 jiffy; /* in units of slices */
	/* By nice: what is added to now, and what one step of distance adds. */
	u64 offset[64];
	u64 distance[64];
};

static struct bfs_params par;

static __noinline void params_init(void)
{
	u32 base = has_niffies() ? 128 : 100, i;

	par.rr = scaled_rr(nr_online);
	par.ratio = base;
	par.unit_ns = has_niffies() ? 1024 : 1000;
	par.slice = (u64)par.rr * (has_niffies() ? 1024 : 1000);
	par.jiffy_ns = NSEC_PER_SEC / tick_hz;
	par.jiffy = par.jiffy_ns / par.unit_ns;
	bpf_for (i, 0, NR_NICE) {
		u64 time = (u64)par.ratio * par.rr, offset;

		if (has_niffies())
			offset = time * ((1 << 20) / 128);
		else
			offset = time * tick_hz / 100000 ?: 1;
		par.offset[i & 63] = offset;
		par.distance[i & 63] = distance_ms ? time / base : offset;
		par.ratio = par.ratio * 11 / 10;
	}
}

static __always_inline u64 offset_of(u32 nice)
{
	return par.offset[nice & 63];
}

/* Now, as deadlines count it. */
static __always_inline u64 deadline_now(u64 now_ns)
{
	return has_niffies() ? now_ns : now_ns / par.jiffy_ns;
}

/*
 * The running task's slice pays for the time since it last did. When a task gets a CPU, that is
 * when it last left one: its first sample costs up to a jiffy, even if it runs for an instant only.
 * So brief wakeups use a slice up, and its deadline does not stay for ever.
 */
static __always_inline void charge(struct bfs_cpu *c, u64 now_ns)
{
	s64 ran = (s64)(now_ns - READ_ONCE(c->last_ran_ns)) / (s64)par.unit_ns;

	if (ran <= 0)
		ran = charge_still_clock ? par.jiffy / 2 : 0;
	else if (ran > par.jiffy)
		ran = par.jiffy;
	/* Partner: give_back() on another CPU, whose gift may be lost. */
	WRITE_ONCE(c->slice, READ_ONCE(c->slice) - ran);
	WRITE_ONCE(c->last_ran_ns, now_ns);
}

static __always_inline void refill(struct bfs_task *t, u64 now_ns)
{
	t->slice = par.slice;
	t->deadline = deadline_now(now_ns) + offset_of(t->nice);
	t->first_slice = false;
}

/* Of a task that leaves its CPU, for whatever reason. */
static __always_inline void check_deadline(struct bfs_task *t, u64 now_ns)
{
	if (t->slice < slice_min() || (batch_refills() && t->policy == BATCH))
		refill(t, now_ns);
}

/* Whether the running task's slice is over, at a tick. */
static __always_inline bool slice_is_over(struct bfs_cpu *c)
{
	s64 slice = READ_ONCE(c->slice);

	if (dithers() && c->dither && slice <= par.jiffy / 2)
		return true;
	return slice < slice_min();
}

/* How far CPU @b is from CPU @a: 0 shares a cache, 3 is beyond the near_nodes nearest nodes. The
 * nearest nodes are the next ones by number, as if all were equally far: nr_nodes - 1 before 0. */
static __always_inline u32 locality(u32 a, u32 b)
{
	u32 i = a & (MAX_CPUS - 1), j = b & (MAX_CPUS - 1);

	if (cpu_llc_id[i] == cpu_llc_id[j])
		return 0;
	if (nr_nodes > near_nodes &&
	    (cpu_node_id[j] + nr_nodes - cpu_node_id[i]) % nr_nodes >= near_nodes)
		return 3;
	return 1;
}

/* What is added to the deadline of task @i, which ran last on @from, where CPU @to looks for one.
 */
static __always_inline u64 distance(u32 i, u32 from, u32 to)
{
	if (from == to || !cache_distance)
		return 0;
	return locality(to, from) * par.distance[task(i)->nice & 63];
}

/* The same from 0.464 on: 0 the CPU itself, 1 a thread of its core, 2 shares a cache, 3 is in the
 * same node, 4 elsewhere. */
static __always_inline u32 sticky_locality(u32 a, u32 b)
{
	u32 i = a & (MAX_CPUS - 1), j = b & (MAX_CPUS - 1);

	if (a == b)
		return 0;
	if (cpu_core_id[i] == cpu_core_id[j])
		return 1;
	if (cpu_llc_id[i] == cpu_llc_id[j])
		return 2;
	return cpu_node_id[i] == cpu_node_id[j] ? 3 : 4;
}
