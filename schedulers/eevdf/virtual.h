/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rules of EEVDF for one queue: virtual time, lag, placement, the pick, protection.
 *
 * Of n entities with weights w and vruntimes v, queue's virtual time is V = sum(w * v) / sum(w):
 * where all would be had each got its share. An entity's lag is V - v: what it is owed. It is
 * eligible if that is not negative. The sums are kept of (v - min_vruntime), which is small.
 *
 * Nothing here calls into the kernel: callers hold the lock of the CPU and pass the time. A current
 * entity is not in the tree, but counts in nr_running, in weight and in V.
 */
#pragma once

#include "tunables.h"
#include "turn.h"

/* V and lag --------------------------------------------------------------------------------- */

/* An entity's weight in the sums, in units of the table. */
static __always_inline u64 units_of(u32 i)
{
	return max_of(table_units(entity(i)->load.weight), MIN_SHARES);
}

/* Part of entity i of its queue's sum. */
static __always_inline s64 moment_of(u32 q, u32 i)
{
	return (s64)(entity(i)->vruntime - queue(q)->min_vruntime) * (s64)units_of(i);
}

/* V, rounded down: so that an entity at V is eligible. */
static __noinline u64 virtual_time(u32 q)
{
	struct fair_queue *cfs_rq = queue(q);
	u32 curr = cfs_rq->curr;
	s64 sum = cfs_rq->turns.sum, weight = cfs_rq->turns.weight;

	if (curr) {
		sum += moment_of(q, curr);
		weight += units_of(curr);
	}
	if (!weight)
		return cfs_rq->min_vruntime;
	if (sum < 0)
		sum -= weight - 1;
	return cfs_rq->min_vruntime + divide(sum, weight);
}

static __always_inline bool is_eligible(u32 q, u32 i)
{
	return !earlier(virtual_time(q), entity(i)->vruntime);
}

/* Entity i leaves queue q, or gets another weight: its lag counts no further than two requests, or
 * a tick, into either direction. */
static __noinline void store_lag(u32 q, u32 i)
{
	struct fair_entity *e = entity(i);
	u64 most_ns = max_of(2 * e->turn.slice_ns, NSEC_PER_SEC / tick_hz);
	s64 lag = virtual_time(q) - e->vruntime, limit = calc_delta_fair(most_ns, &e->load);

	if (lag > limit)
		lag = limit;
	if (lag < -limit)
		lag = -limit;
	e->turn.lag = lag;
}

/* min_vruntime follows the smallest vruntime in the queue and never goes back; sums are counted
 * from it. */
static __always_inline void update_min_vruntime(u32 q)
{
	struct fair_queue *cfs_rq = queue(q);
	u32 curr = cfs_rq->curr ?: cfs_rq->turns.aside, aside = cfs_rq->turns.aside;
	u32 root = cfs_rq->waiting.root;
	u64 least;
	s64 step;

	if (!curr && !root)
		return;
	least = root ? tree_node(root)->least : entity(curr)->vruntime;
	if (curr)
		least = earlier_of(least, entity(curr)->vruntime);
	if (aside)
		least = earlier_of(least, entity(aside)->vruntime);
	step = least - cfs_rq->min_vruntime;
	if (step <= 0)
		return;
	cfs_rq->turns.sum -= step * (s64)cfs_rq->turns.weight;
	cfs_rq->min_vruntime = least;
}

/* Entity i counts in the sums of queue q, if it waits, and no longer. */
static __always_inline void count(u32 q, u32 i)
{
	if (!entity(i)->waiting)
		return;
	queue(q)->turns.sum += moment_of(q, i);
	queue(q)->turns.weight += units_of(i);
}

static __always_inline void uncount(u32 q, u32 i)
{
	if (!entity(i)->waiting)
		return;
	queue(q)->turns.sum -= moment_of(q, i);
	queue(q)->turns.weight -= units_of(i);
}

/* Entity i, if it waits, is out of the tree, or already was, while its place changes; put_back()
 * ends that. */
static __always_inline void set_aside(u32 q, u32 i)
{
	if (!entity(i)->waiting || queue(q)->turns.aside == i)
		return;
	tree_remove(&queue(q)->waiting, i);
	queue(q)->turns.aside = i;
}

/* Entity i waits from now on, and is to be put into the tree. */
static __always_inline void wait_aside(u32 q, u32 i)
{
	/* After join() has set its CPU; partner: detach_any(). */
	WRITE_ONCE(entity(i)->waiting, true);
	count(q, i);
	queue(q)->turns.aside = i;
}

static __always_inline void put_back(u32 q, u32 i)
{
	struct fair_queue *cfs_rq = queue(q);

	if (cfs_rq->turns.aside != i)
		return;
	cfs_rq->turns.aside = 0;
	tree_insert(&cfs_rq->waiting, i, entity(i)->turn.deadline, entity(i)->vruntime);
}

static __always_inline void start_waiting(u32 q, u32 i)
{
	wait_aside(q, i);
	put_back(q, i);
}

static __always_inline void stop_waiting(u32 q, u32 i)
{
	tree_remove(&queue(q)->waiting, i);
	uncount(q, i);
	WRITE_ONCE(entity(i)->waiting, false);
}

/* Requests ---------------------------------------------------------------------------------- */

static __always_inline u64 request_in_vruntime(u32 i)
{
	return calc_delta_fair(entity(i)->turn.slice_ns, &entity(i)->load);
}

/* Has entity i's request been served? Then it makes the next one, from where it is: what it ran too
 * long counts in its lag, not in its deadline. */
static __always_inline bool renew_request(u32 i)
{
	struct fair_entity *e = entity(i);

	if (earlier(e->vruntime, e->turn.deadline))
		return false;
	if (!e->turn.custom)
		e->turn.slice_ns = request_ns;
	e->turn.deadline = e->vruntime + request_in_vruntime(i);
	return true;
}

/*
 * Where entity i, with its lag, joins queue q. If it is owed l, it comes to be at V - l; but with
 * it V moves. So that l is right afterwards, it is counted as l * (W + w) / W. Example: V = 100
 * with W = 2048, w = 1024, l = 1: at 98.5, V becomes 99.5.
 */
static __noinline void place(u32 q, u32 i, bool new_task)
{
	struct fair_queue *cfs_rq = queue(q);
	struct fair_entity *e = entity(i);
	u64 now = virtual_time(q), request;
	s64 lag = 0, weight;

	if (!e->turn.custom)
		e->turn.slice_ns = request_ns;
	request = request_in_vruntime(i);
	if (!place_current && cfs_rq->curr == i) {
		lag = e->turn.lag;
	} else if (place_lag && cfs_rq->nr_running && e->turn.lag) {
		weight = cfs_rq->turns.weight;
		if (cfs_rq->curr)
			weight += units_of(cfs_rq->curr);
		lag = divide(e->turn.lag * (weight + (s64)units_of(i)), weight ?: 1);
	}
	e->vruntime = now - lag;
	if (e->relative && !e->newborn) {
		e->turn.deadline += e->vruntime;
	} else {
		if (place_deadline_initial && new_task)
			request /= 2;
		e->turn.deadline = e->vruntime + request;
	}
	e->relative = false;
}

/* Turns ------------------------------------------------------------------------------------- */

/* The least slice in queue q. */
static __always_inline u64 least_slice(u32 q)
{
	struct fair_queue *cfs_rq = queue(q);
	u32 curr = cfs_rq->curr, root = cfs_rq->waiting.root;
	u64 least = ~0ULL;

	if (curr)
		least = entity(curr)->turn.slice_ns;
	if (root)
		least = min_of(least, entity(root)->turn.least_slice_ns);
	return least;
}

/* Entity i is about to be current: nobody takes the turn from it before its request has been
 * served, or the least of the others would have been. */
static __always_inline void protect(u32 q, u32 i)
{
	struct fair_entity *e = entity(i);
	u64 slice_ns = run_to_parity ? least_slice(q) : base_slice_ns, until = e->turn.deadline;

	if (slice_ns < e->turn.slice_ns)
		until = earlier_of(until, e->vruntime + calc_delta_fair(slice_ns, &e->load));
	e->turn.protected_until = until;
}

static __always_inline bool is_protected(u32 i)
{
	return earlier(entity(i)->vruntime, entity(i)->turn.protected_until);
}

/* Somebody with a shorter slice has come. */
static __always_inline void shorten_protection(u32 q, u32 i)
{
	struct fair_entity *e = entity(i);
	u64 until = e->vruntime + calc_delta_fair(least_slice(q), &e->load);

	e->turn.protected_until = earlier_of(e->turn.protected_until, until);
}

static __always_inline void end_protection(u32 i)
{
	if (is_protected(i))
		entity(i)->turn.protected_until = entity(i)->vruntime;
}

/* Favours entity i and the groups it is in: see pick_entity(). */
static __noinline void set_next_buddy(u32 i)
{
	u32 level;

	bpf_for (level, 0, MAX_DEPTH) {
		if (!i || !entity(i)->on_rq || (is_task(i) && entity(i)->policy == POLICY_IDLE))
			break;
		queue(entity(i)->queue)->next = i;
		i = parent_of(i);
	}
}

/* Entity i is favoured no longer, nor are the groups that were on its behalf. */
static __noinline void clear_buddies(u32 i)
{
	u32 level;

	bpf_for (level, 0, MAX_DEPTH) {
		if (!i || queue(entity(i)->queue)->next != i)
			break;
		queue(entity(i)->queue)->next = 0;
		i = parent_of(i);
	}
}

/* Charges the queue's current entity for the time since its last charge. This is where turns are
 * found to be over, whatever the charge is for. */
static __noinline void update_curr(u32 q, u64 now_ns)
{
	struct fair_queue *cfs_rq = queue(q);
	u32 curr = cfs_rq->curr;
	struct fair_entity *e = entity(curr);
	s64 ran_ns = now_ns - READ_ONCE(e->exec_start_ns);
	bool served;

	if (!curr || ran_ns <= 0)
		return;
	/* Partner: resume_current(), which has no lock. */
	WRITE_ONCE(e->exec_start_ns, now_ns);
	e->sum_exec_ns += ran_ns;
	e->vruntime += calc_delta_fair(ran_ns, &e->load);
	served = renew_request(curr);
	update_min_vruntime(q);
	if (cfs_rq->nr_running == 1 || (!served && is_protected(curr)))
		return;
	queue(queue_of(0, cfs_rq->cpu))->turns.over = true;
	clear_buddies(curr);
}

/*
 * The earliest deadline of those that are eligible; the current entity's, if it is eligible and
 * @protection counts. Of equal deadlines one that waits comes first. Somebody is always eligible:
 * not all can be ahead of their mean.
 */
static __noinline u32 earliest_eligible(u32 q, bool protection)
{
	struct fair_queue *cfs_rq = queue(q);
	u32 curr = cfs_rq->curr, best;
	u64 now;

	if (cfs_rq->nr_running == 1)
		return curr ?: cfs_rq->waiting.first;
	now = virtual_time(q);
	if (curr && earlier(now, entity(curr)->vruntime))
		curr = 0;
	if (curr && protection && is_protected(curr))
		return curr;
	best = tree_first_within(&cfs_rq->waiting, now);
	if (!best || (curr && earlier(entity(curr)->turn.deadline, entity(best)->turn.deadline)))
		return curr;
	return best;
}

/* The entity of queue q that should run. */
static __always_inline u32 pick_entity(u32 q)
{
	u32 next = queue(q)->next;

	if (pick_buddy && next && queue(q)->nr_running > 1 && is_eligible(q, next))
		return next;
	return earliest_eligible(q, true);
}
