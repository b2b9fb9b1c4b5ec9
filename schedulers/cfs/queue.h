/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks come to a CPU's tree of queues, leave it, and take turns. Callers hold the CPU's lock.
 */
#pragma once

#include "fair.h"
#include "tiltyard/fair/turns.h"

static __always_inline void start_waiting(u32 q, u32 i)
{
	struct fair_entity *e = entity(i);

	/* After join() has set its CPU; partner: detach_any(). */
	WRITE_ONCE(e->waiting, true);
	tree_insert(&queue(q)->waiting, i, e->vruntime, 0);
}

static __always_inline void stop_waiting(u32 q, u32 i)
{
	WRITE_ONCE(entity(i)->waiting, false);
	tree_remove(&queue(q)->waiting, i);
}

/* Places entity i before all that wait in queue q, and before any that may wake up (see
 * place_wakee()). A heavy entity leads by no more than a turn of its is worth: it does not starve,
 * but is moved because of its tasks. A buddy may still be favoured: see pick_entity(). */
static __noinline bool move_to_front(u32 q, u32 i)
{
	struct fair_entity *e = entity(i);
	u64 lead = min_of(latency_ns, calc_delta_fair(granularity_ns, &e->load));
	u64 front = queue(q)->min_vruntime - lead;

	if (queue(q)->skip == i)
		queue(q)->skip = 0;
	if (!earlier(front, e->vruntime))
		return false;
	stop_waiting(q, i);
	e->vruntime = front;
	start_waiting(q, i);
	return true;
}

static __always_inline void enqueue_entity(u32 i, u64 now_ns, bool wakeup)
{
	struct fair_entity *e = entity(i);
	u32 q = e->queue;
	struct fair_queue *cfs_rq = queue(q);

	update_curr(q, now_ns);
	if (e->attached)
		update_load(i, now_ns);
	else
		attach_load(i, now_ns);
	if (e->relative) {
		e->vruntime += cfs_rq->min_vruntime;
		e->relative = false;
	}
	if (wakeup)
		place_wakee(q, i);
	e->newborn = false;
	/* Partner: still_there(). */
	WRITE_ONCE(e->on_rq, true);
	cfs_rq->weight += e->load.weight;
	cfs_rq->nr_running++;
	/* WRITE_ONCE here and in dequeue_entity(): partner cpu_load() on other CPUs. */
	WRITE_ONCE(cfs_rq->pelt.runnable_avg, cfs_rq->pelt.runnable_avg + e->pelt.load_avg);
	cfs_rq->pelt.runnable_sum += e->pelt.load_sum;
	update_shares(q, now_ns);
	start_waiting(q, i);
}

static __always_inline void dequeue_entity(u32 i, u64 now_ns, u32 how)
{
	struct fair_entity *e = entity(i);
	u32 q = e->queue;
	struct fair_queue *cfs_rq = queue(q);
	bool briefly = how & LEAVE_BRIEFLY;

	update_curr(q, now_ns);
	update_load(i, now_ns);
	WRITE_ONCE(cfs_rq->pelt.runnable_avg, less(cfs_rq->pelt.runnable_avg, e->pelt.load_avg));
	cfs_rq->pelt.runnable_sum = less(cfs_rq->pelt.runnable_sum, e->pelt.load_sum);
	clear_buddies(i);
	if (e->waiting)
		stop_waiting(q, i);
	if (cfs_rq->curr == i)
		cfs_rq->curr = 0;
	WRITE_ONCE(e->on_rq, false);
	cfs_rq->weight -= e->load.weight;
	cfs_rq->nr_running--;
	if (!(how & LEAVE_SLEEP)) {
		e->vruntime -= cfs_rq->min_vruntime;
		e->relative = true;
	}
	if (briefly == late_min_vruntime && !(how & LEAVE_AS_IS))
		update_min_vruntime(q);
	update_shares(q, now_ns);
}

/* A newborn that nobody forked: the scheduler has just been loaded. */
static __always_inline void place_unplaced(u32 i)
{
	struct fair_entity *e = entity(i);

	if (!e->newborn || e->placed)
		return;
	e->vruntime = queue(e->queue)->min_vruntime;
	place_newborn(e->queue, i);
	e->vruntime -= queue(e->queue)->min_vruntime;
}

/* Queues task i, and the groups above it that were empty on this CPU as if they woke up. */
static __noinline void enqueue_task(u32 i, u64 now_ns, bool wakeup)
{
	struct fair_cpu *cs = cpu_state(entity(i)->cpu);
	u32 level;

	/* Partner: nr_running() on other CPUs. */
	WRITE_ONCE(cs->nr_tasks, cs->nr_tasks + 1);
	if (cs->nr_tasks >= 2 && !READ_ONCE(overload))
		WRITE_ONCE(overload, true);
	list_task(cs, i);
	bpf_for (level, 0, MAX_DEPTH) {
		if (!i)
			break;
		if (!entity(i)->on_rq) {
			enqueue_entity(i, now_ns, wakeup);
			wakeup = true;
		} else {
			update_load(i, now_ns);
			update_shares(entity(i)->queue, now_ns);
		}
		i = parent_of(i);
	}
}

/* Takes task i out, and the groups above it that it leaves empty. */
static __noinline void dequeue_task(u32 i, u64 now_ns, u32 how)
{
	struct fair_cpu *cs = cpu_state(entity(i)->cpu);
	bool asleep = how & LEAVE_SLEEP, leaving = true;
	u32 level;

	WRITE_ONCE(cs->nr_tasks, cs->nr_tasks - 1);
	unlist_task(cs, i);
	if (cs->curr == i)
		WRITE_ONCE(cs->curr, 0);
	bpf_for (level, 0, MAX_DEPTH) {
		u32 q = entity(i)->queue;

		if (!i)
			break;
		if (leaving) {
			dequeue_entity(i, now_ns, how);
			leaving = !queue(q)->nr_running;
			how |= LEAVE_SLEEP;
			/* Those who stay in the sleeper's group go on in its place. */
			if (!leaving && asleep)
				set_next_buddy(owner_of(q));
		} else {
			update_load(i, now_ns);
			update_shares(q, now_ns);
		}
		i = owner_of(q);
	}
}

static __noinline void set_current(u32 q, u32 i, u64 now_ns)
{
	struct fair_entity *e = entity(i);

	if (e->waiting)
		stop_waiting(q, i);
	update_load(i, now_ns);
	queue(q)->curr = i;
	e->turn.start_ns = e->sum_exec_ns;
}

/* The task that should run on this CPU, 0 if none is runnable. Changes no turn. */
static __noinline u32 pick_task(u32 cpu, u64 now_ns)
{
	u32 q = queue_of(0, cpu), i, level;

	bpf_for (level, 0, MAX_DEPTH) {
		if (!queue(q)->nr_running)
			break;
		update_curr(q, now_ns);
		i = pick_entity(q);
		if (is_task(i))
			return i;
		q = owned_queue(i);
	}
	return 0;
}

/* A tick hits task i. True if its turn, or that of one of its groups, is over. */
static __noinline bool tick_task(u32 i, u64 now_ns)
{
	bool over = false;
	u32 level;

	bpf_for (level, 0, MAX_DEPTH) {
		u32 q = entity(i)->queue;

		if (!i)
			break;
		update_curr(q, now_ns);
		update_load(i, now_ns);
		update_shares(q, now_ns);
		if (queue(q)->nr_running > 1 && turn_is_over(q))
			over = true;
		i = owner_of(q);
	}
	return over;
}

/* Task `wakee` has come to its CPU. True if it should preempt the one that runs there. */
static __noinline bool preempts(u32 wakee, u64 now_ns)
{
	struct fair_entity *w = entity(wakee);
	struct fair_cpu *cs = cpu_state(w->cpu);
	u32 curr = cs->curr, i = curr, j = wakee;
	bool crowded;

	if (!curr || curr == wakee || cs->resched)
		return false;
	/* Not before it is known that somebody runs here: entity 0 names a queue of CPU 0. */
	crowded = queue(entity(curr)->queue)->nr_running >= nr_latency;
	if (entity(curr)->policy == POLICY_IDLE && w->policy != POLICY_IDLE)
		return true;
	if (w->policy != POLICY_NORMAL || !wakeup_preemption)
		return false;
	if (!meet(&i, &j))
		return false;
	update_curr(entity(i)->queue, now_ns);
	if (wakeup_test(i, j) != 1)
		return false;
	set_next_buddy(j);
	if (last_buddy && crowded && is_task(i))
		set_last_buddy(i);
	return true;
}

/* Task i gives way. True if there is anybody to give way to. */
static __noinline bool yield_task(u32 i, u64 now_ns)
{
	struct fair_entity *e = entity(i);

	if (cpu_state(e->cpu)->nr_tasks < 2)
		return false;
	clear_buddies(i);
	if (e->policy != POLICY_BATCH)
		update_curr(e->queue, now_ns);
	set_skip_buddy(i);
	return true;
}

/* A sleeper leaves its CPU or group: its vruntime becomes a distance, as that of others does. */
static __always_inline void forget_queue(u32 i)
{
	struct fair_entity *e = entity(i);

	if (e->relative)
		return;
	e->vruntime -= queue(e->queue)->min_vruntime;
	e->relative = true;
}

/*
 * A new task takes its place in the parent's queue; the vruntime is kept as a distance, to be
 * counted from wherever the task will be queued. True if the parent should be preempted.
 */
static __noinline bool fork_task(u32 i, u32 parent, u64 now_ns)
{
	struct fair_entity *e = entity(i);
	/* Partner: join() of the parent, if another CPU changes it just now. */
	u32 cpu = READ_ONCE(entity(parent)->cpu), q = queue_of(e->group, cpu), curr;
	struct fair_lock *lk = cpu_lock(cpu);
	bool swap = false;

	if (!lk)
		return false;
	bpf_spin_lock(&lk->lock);
	update_curr(q, now_ns);
	curr = queue(q)->curr;
	WRITE_ONCE(e->cpu, cpu);
	e->queue = q;
	e->vruntime = queue(q)->min_vruntime;
	if (start_debit && curr)
		e->vruntime = entity(curr)->vruntime;
	place_newborn(q, i);
	if (child_runs_first && curr && is_task(curr) &&
	    earlier(entity(curr)->vruntime, e->vruntime)) {
		u64 v = entity(curr)->vruntime;

		entity(curr)->vruntime = e->vruntime;
		e->vruntime = v;
		swap = true;
	}
	e->vruntime -= queue(q)->min_vruntime;
	e->placed = true;
	bpf_spin_unlock(&lk->lock);
	return swap;
}

/* Sleepers leave their queues at once. */
static __always_inline bool delays_tasks(void)
{
	return false;
}

static __always_inline bool queues_apart(void)
{
	return false;
}

static __always_inline bool is_delayed(u32 i)
{
	return false;
}

static __always_inline void rejoin_task(u32 i, u64 now_ns)
{
}

static __always_inline void reweight_task(struct task_struct *p, u32 i,
					  const struct fair_load *load)
{
	entity(i)->load = *load;
}

/* Its vruntime is not touched. */
static __always_inline void reweight_group(u32 i, u64 weight, u64 now_ns)
{
	struct fair_entity *e = entity(i);

	if (e->on_rq) {
		struct fair_queue *parent = queue(e->queue);

		if (parent->curr == i)
			update_curr(e->queue, now_ns);
		parent->weight += weight - e->load.weight;
	}
	e->load.weight = weight;
	e->load.inverse = inverse_of(weight);
}

/* The queues take notice at their next update, in group_weight(). */
static __always_inline void shares_changed(u32 g)
{
}

/* Ticks and wakeups end turns, charges do not. */
static __always_inline bool wants_pick(u32 cpu)
{
	return false;
}

static __always_inline void forget_charges(u32 cpu)
{
}

/* A slice of its own means nothing. */
static __always_inline void take_request(struct task_struct *p, u32 i)
{
}

static __always_inline void init_rule(u32 online)
{
	check_tunables();
	scale_tunables(online);
}

static __always_inline void probe_turn(struct task_struct *p, u32 i)
{
}
