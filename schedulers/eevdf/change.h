/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An entity gets another weight, another slice, or is wanted again, and stays in its queue. Callers
 * hold the CPU's lock.
 */
#pragma once

#include "virtual.h"
#include "tiltyard/fair/linux_6_18/load.h"

/* Entity i, in no queue or about to be placed, gets another weight. What it is owed is lag *
 * weight, and stays. */
static __always_inline void rescale(u32 i, u64 weight, u32 inverse)
{
	struct fair_entity *e = entity(i);
	s64 before = e->load.weight;

	e->turn.lag = divide(e->turn.lag * before, weight);
	if (e->relative)
		e->turn.deadline = divide((s64)e->turn.deadline * before, weight);
	rescale_load(i, before, weight);
	e->load.weight = weight;
	e->load.inverse = inverse;
}

/* The weight that group entity i should have. It follows the load of the group's queues on all
 * CPUs, which may change at any time, so two calls may return different values. */
static __always_inline u64 weight_now(u32 i)
{
	u64 weight = entity(i)->load.weight;

	if (!is_task(i) && queue(owned_queue(i))->weight)
		weight = group_weight(owned_queue(i));
	return weight;
}

/* Entity i, which may wait, gets another weight. Its place changes as if it left and came back; if
 * it has the turn, it keeps that. */
static __noinline void reweight(u32 q, u32 i, u64 weight, u64 now_ns)
{
	struct fair_entity *e = entity(i);
	struct fair_queue *cfs_rq = queue(q);

	update_curr(q, now_ns);
	store_lag(q, i);
	e->turn.deadline -= e->vruntime;
	e->relative = true;
	WRITE_ONCE(cfs_rq->nr_running, cfs_rq->nr_running - 1);
	uncount(q, i);
	cfs_rq->weight += weight - e->load.weight;
	rescale(i, weight, inverse_of(weight));
	place(q, i, false);
	count(q, i);
	WRITE_ONCE(cfs_rq->nr_running, cfs_rq->nr_running + 1);
	update_min_vruntime(q);
}

/* Entity i, delayed, is wanted again. If it has come to be owed something meanwhile, that is
 * forgotten, and changes its place: the caller puts it back. */
static __always_inline void undelay(u32 q, u32 i)
{
	struct fair_entity *e = entity(i);
	struct fair_queue *cfs_rq = queue(q);

	WRITE_ONCE(e->turn.delayed, false);
	if (!delay_zero)
		return;
	store_lag(q, i);
	if (e->turn.lag <= 0)
		return;
	set_aside(q, i);
	WRITE_ONCE(cfs_rq->nr_running, cfs_rq->nr_running - 1);
	uncount(q, i);
	e->turn.lag = 0;
	place(q, i, false);
	count(q, i);
	WRITE_ONCE(cfs_rq->nr_running, cfs_rq->nr_running + 1);
}

/* Where it is. */
static __always_inline void reweight_group(u32 i, u64 weight, u64 now_ns)
{
	u32 q = entity(i)->queue;

	set_aside(q, i);
	reweight(q, i, weight, now_ns);
	put_back(q, i);
}

/* Group entity i weighs what it should. */
static __always_inline void follow_weight(u32 i, u64 now_ns)
{
	u64 weight = weight_now(i);

	if (weight == entity(i)->load.weight)
		return;
	if (entity(i)->on_rq)
		reweight_group(i, weight, now_ns);
	else
		rescale(i, weight, inverse_of(weight));
}

/* Something has changed below entity i, which stays in its queue: sets its new weight and slice. If
 * has_news(), the caller has taken i out of the tree. */
static __always_inline void update_above(u32 q, u32 i, u64 weight, u64 slice_ns, u64 now_ns)
{
	update_load(i, now_ns);
	if (weight != entity(i)->load.weight)
		reweight(q, i, weight, now_ns);
	entity(i)->turn.slice_ns = slice_ns;
}

/* Does that change its place? */
static __always_inline bool has_news(u32 i, u64 weight, u64 slice_ns)
{
	return slice_ns != entity(i)->turn.slice_ns || weight != entity(i)->load.weight;
}
