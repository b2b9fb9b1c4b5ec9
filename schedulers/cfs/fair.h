/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rules of CFS for one queue: time, placement, slices, buddies, the pick, preemption.
 *
 * Nothing here calls into the kernel: callers hold the lock of the CPU (queue.h) and pass the
 * time. A current entity is not in the tree, but counts in nr_running and weight.
 */
#pragma once

#include "tunables.h"
#include "turn.h"

/* min_vruntime follows the smallest vruntime in the queue and never goes back. */
static __noinline void update_min_vruntime(u32 q)
{
	struct fair_queue *cfs_rq = queue(q);
	u32 curr = cfs_rq->curr, first = cfs_rq->waiting.first;
	u64 v;

	if (!curr && !first)
		return;
	if (!curr)
		v = entity(first)->vruntime;
	else if (!first)
		v = entity(curr)->vruntime;
	else
		v = earlier_of(entity(curr)->vruntime, entity(first)->vruntime);
	cfs_rq->min_vruntime = later_of(cfs_rq->min_vruntime, v);
}

/* Charges the queue's current entity for the time since its last charge. */
static __noinline void update_curr(u32 q, u64 now_ns)
{
	u32 curr = queue(q)->curr;
	struct fair_entity *e = entity(curr);
	s64 ran_ns = now_ns - READ_ONCE(e->exec_start_ns);

	if (!curr || ran_ns <= 0)
		return;
	/* Partner: resume_current(), which has no lock. */
	WRITE_ONCE(e->exec_start_ns, now_ns);
	e->sum_exec_ns += ran_ns;
	e->vruntime += calc_delta_fair(ran_ns, &e->load);
	update_min_vruntime(q);
}

/* Time in which each of n entities should run once. */
static __always_inline u64 period_ns(u32 n)
{
	return n > nr_latency ? n * granularity_ns : latency_ns;
}

/*
 * The slice of entity i: its part of the period of its own queue, times the part of its group
 * in the queue above, and so on. An entity that is not queued yet is counted as if it were.
 * Later kernels count all tasks of the CPU (ALT_PERIOD), and let no slice be shorter than the
 * granularity (BASE_SLICE).
 */
static __noinline u64 slice_ns(u32 i)
{
	struct fair_entity *e = entity(i);
	u32 n = alt_period ? cpu_state(e->queue % nr_cpus)->nr_tasks : queue(e->queue)->nr_running;
	u64 slice = period_ns(n + !e->on_rq);
	u32 level;

	bpf_for (level, 0, MAX_DEPTH) {
		u64 total;

		e = entity(i);
		total = queue(e->queue)->weight;
		if (!e->on_rq)
			total += e->load.weight;
		slice = calc_delta(slice, e->load.weight, inverse_of(total));
		i = owner_of(e->queue);
		if (!i)
			break;
	}
	return base_slice && slice < granularity_ns ? granularity_ns : slice;
}

/* A new entity starts behind those that wait, by the vruntime of one slice. */
static __noinline void place_newborn(u32 q, u32 i)
{
	struct fair_entity *e = entity(i);
	u64 v = queue(q)->min_vruntime;

	if (start_debit)
		v += calc_delta_fair(slice_ns(i), &e->load);
	e->vruntime = later_of(e->vruntime, v);
}

/* Who slept long starts a little ahead of the others, who slept shortly keeps what it has. */
static __noinline void place_wakee(u32 q, u32 i)
{
	struct fair_entity *e = entity(i);
	u64 v = queue(q)->min_vruntime;

	if (sleeper_credit == 1)
		v -= latency_ns / 2;
	else if (sleeper_credit)
		v -= latency_ns;
	e->vruntime = later_of(e->vruntime, v);
}

/* A buddy is favoured at the next pick. Tasks of policy SCHED_IDLE never are. */
static __always_inline bool may_be_buddy(u32 i)
{
	return !is_task(i) || entity(i)->policy != POLICY_IDLE;
}

/* Favours entity i and the groups it is in. */
static __noinline void set_next_buddy(u32 i)
{
	u32 level;

	if (!may_be_buddy(i))
		return;
	bpf_for (level, 0, MAX_DEPTH) {
		if (!i)
			break;
		queue(entity(i)->queue)->next = i;
		i = parent_of(i);
	}
}

static __noinline void set_last_buddy(u32 i)
{
	u32 level;

	if (!may_be_buddy(i))
		return;
	bpf_for (level, 0, MAX_DEPTH) {
		if (!i)
			break;
		queue(entity(i)->queue)->last = i;
		i = parent_of(i);
	}
}

/* Yielding passes over the task and its groups once. */
static __noinline void set_skip_buddy(u32 i)
{
	u32 level;

	bpf_for (level, 0, MAX_DEPTH) {
		if (!i)
			break;
		queue(entity(i)->queue)->skip = i;
		i = parent_of(i);
	}
}

/*
 * Takes every mark off entity i, and each kind of mark off the groups above it as long as they
 * bear it on i's behalf.
 */
static __noinline void clear_buddies(u32 i)
{
	bool next = true, last = true, skip = true;
	u32 level;

	bpf_for (level, 0, MAX_DEPTH) {
		struct fair_queue *cfs_rq = queue(entity(i)->queue);

		if (!i || !(next || last || skip))
			break;
		next = next && cfs_rq->next == i;
		last = last && cfs_rq->last == i;
		skip = skip && cfs_rq->skip == i;
		if (next)
			cfs_rq->next = 0;
		if (last)
			cfs_rq->last = 0;
		if (skip)
			cfs_rq->skip = 0;
		i = parent_of(i);
	}
}

/*
 * 1 if `wakee` is so far behind `curr` that it should preempt, -1 if it is not behind at all,
 * else 0. The granularity is in the wakee's own vruntime, so a light task has to wait longer.
 */
static __noinline s32 wakeup_test(u32 curr, u32 wakee)
{
	struct fair_entity *w = entity(wakee);
	s64 lead = entity(curr)->vruntime - w->vruntime;

	if (lead <= 0)
		return -1;
	return lead > (s64)calc_delta_fair(wakeup_gran_ns, &w->load);
}

/* May x run now without being unfair to the leftmost entity? */
static __always_inline bool fair(u32 x, u32 left)
{
	return wakeup_test(x, left) < 1;
}

/* The one after `left`, who is to be passed over; 0 if there is none. */
static __always_inline u32 second_of(u32 q, u32 left)
{
	u32 curr = queue(q)->curr, second;

	if (left == curr)
		return queue(q)->waiting.first;
	second = tree_second(&queue(q)->waiting);
	if (!second || (curr && earlier(entity(curr)->vruntime, entity(second)->vruntime)))
		second = curr;
	return second;
}

/* The entity of queue q that should run: the leftmost, or a buddy if that is fair. */
static __noinline u32 pick_entity(u32 q)
{
	struct fair_queue *cfs_rq = queue(q);
	u32 curr = cfs_rq->curr, left = cfs_rq->waiting.first, pick;

	if (!left || (curr && earlier(entity(curr)->vruntime, entity(left)->vruntime)))
		left = curr;
	pick = left;
	if (cfs_rq->skip == pick) {
		u32 second = second_of(q, pick);

		if (second && fair(second, left))
			pick = second;
	}
	if (cfs_rq->last && fair(cfs_rq->last, left))
		pick = cfs_rq->last;
	if (cfs_rq->next && fair(cfs_rq->next, left))
		pick = cfs_rq->next;
	clear_buddies(pick);
	return pick;
}

/* Has the current entity of queue q, which is not alone there, had its turn? */
static __noinline bool turn_is_over(u32 q)
{
	u32 curr = queue(q)->curr, first = queue(q)->waiting.first;
	struct fair_entity *e = entity(curr);
	u64 slice = slice_ns(curr), ran_ns = e->sum_exec_ns - e->turn.start_ns;
	s64 lead;

	if (ran_ns > slice) {
		clear_buddies(curr);
		return true;
	}
	if (ran_ns < granularity_ns || !first)
		return false;
	lead = e->vruntime - entity(first)->vruntime;
	return lead > (s64)slice;
}
