/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks come to a CPU's tree of queues, leave it, and take turns. Callers hold the CPU's lock.
 */
#pragma once

#include "types.h"
#include "fair.h"
#include "group.h"

struct cfs_lock {
	struct bpf_spin_lock lock;
};

/*
 * One lock a CPU for its queues and everything in them. The kernel's own runqueue lock would
 * do for all callbacks about that CPU, but a CPU that runs dry also takes from others.
 */
DEFINE_ARRAY_MAP(cpu_locks, MAX_CPUS, struct cfs_lock)

static __always_inline struct cfs_lock *cpu_lock(u32 cpu)
{
	return bpf_map_lookup_elem(&cpu_locks, &cpu);
}

/* How an entity leaves its queue. */
#define LEAVE_SLEEP   1	 /* it keeps its vruntime */
#define LEAVE_BRIEFLY 2	 /* it comes back at once, with another weight or group */
#define LEAVE_FOREVER 4	 /* it ends */
#define LEAVE_CPU     8	 /* for another CPU or group */
#define LEAVE_AS_IS   16 /* it comes back at once, and nothing has changed */

static __always_inline void start_waiting(u32 q, u32 i)
{
	struct cfs_entity *e = entity(i);

	/* After join() has set its CPU; partner: detach_any(). */
	WRITE_ONCE(e->waiting, true);
	tree_insert(&queue(q)->waiting, i, e->vruntime, 0);
}

static __always_inline void stop_waiting(u32 q, u32 i)
{
	WRITE_ONCE(entity(i)->waiting, false);
	tree_remove(&queue(q)->waiting, i);
}

static __always_inline void enqueue_entity(u32 i, u64 now_ns, bool wakeup)
{
	struct cfs_entity *e = entity(i);
	u32 q = e->queue;
	struct cfs_queue *cfs_rq = queue(q);

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
	struct cfs_entity *e = entity(i);
	u32 q = e->queue;
	struct cfs_queue *cfs_rq = queue(q);
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

/* The tasks of a CPU, the last that came first: in this order balancing looks at them. */
static __noinline void list_task(struct cfs_cpu *cs, u32 i)
{
	entity(i)->list_prev = 0;
	entity(i)->list_next = cs->first_task;
	if (cs->first_task)
		entity(cs->first_task)->list_prev = i;
	else
		cs->last_task = i;
	cs->first_task = i;
}

static __noinline void unlist_task(struct cfs_cpu *cs, u32 i)
{
	u32 next = entity(i)->list_next, prev = entity(i)->list_prev;

	if (prev)
		entity(prev)->list_next = next;
	else
		cs->first_task = next;
	if (next)
		entity(next)->list_prev = prev;
	else
		cs->last_task = prev;
}

/* To the end of the list: it has been looked at. */
static __noinline void list_task_last(struct cfs_cpu *cs, u32 i)
{
	if (cs->last_task == i)
		return;
	unlist_task(cs, i);
	entity(i)->list_next = 0;
	entity(i)->list_prev = cs->last_task;
	entity(cs->last_task)->list_next = i;
	cs->last_task = i;
}

/* Queues task i, and the groups above it that were empty on this CPU as if they woke up. */
static __noinline void enqueue_task(u32 i, u64 now_ns, bool wakeup)
{
	struct cfs_cpu *cs = cpu_state(entity(i)->cpu);
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
	struct cfs_cpu *cs = cpu_state(entity(i)->cpu);
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

/* Takes what runs in queue q and below out of the turn: back to the tree if still runnable. */
static __noinline void put_current(u32 q, u64 now_ns)
{
	u32 level;

	bpf_for (level, 0, MAX_DEPTH) {
		struct cfs_queue *cfs_rq = queue(q);
		u32 i = cfs_rq->curr;

		if (!i)
			break;
		update_curr(q, now_ns);
		/* Or it would be taken for one that has just run: is_hot(). */
		if (entity(i)->exec_start_ns == PAUSED)
			entity(i)->exec_start_ns = now_ns;
		update_load(i, now_ns);
		start_waiting(q, i);
		cfs_rq->curr = 0;
		if (is_task(i))
			break;
		q = owned_queue(i);
	}
}

static __noinline void set_current(u32 q, u32 i, u64 now_ns)
{
	struct cfs_entity *e = entity(i);

	if (e->waiting)
		stop_waiting(q, i);
	update_load(i, now_ns);
	queue(q)->curr = i;
	e->turn_start_ns = e->sum_exec_ns;
}

/*
 * Gives task i the turn on its CPU, from the level upwards where the present turn differs;
 * groups that have the turn in both cases keep it. No time passes until resume_current().
 */
static __noinline void switch_to(u32 i, u64 now_ns)
{
	struct cfs_cpu *cs = cpu_state(entity(i)->cpu);
	u32 level;

	WRITE_ONCE(cs->curr, i);
	bpf_for (level, 0, MAX_DEPTH) {
		u32 q = entity(i)->queue;

		if (!i)
			break;
		update_curr(q, now_ns);
		if (queue(q)->curr != i) {
			put_current(q, now_ns);
			set_current(q, i, now_ns);
		}
		entity(i)->exec_start_ns = PAUSED;
		i = owner_of(q);
	}
}

/* The task whose turn is paused or about to begin is on the CPU from now on. */
static __noinline void resume_current(u32 i, u64 now_ns)
{
	u32 level;

	bpf_for (level, 0, MAX_DEPTH) {
		if (!i)
			break;
		/* Without the lock, see running(); partner: update_curr(). */
		WRITE_ONCE(entity(i)->exec_start_ns, now_ns);
		i = parent_of(i);
	}
}

/* Something that CFS does not rule takes the CPU: charge up to now, then let no time pass. */
static __noinline void pause_current(u32 i, u64 now_ns)
{
	u32 level;

	bpf_for (level, 0, MAX_DEPTH) {
		if (!i)
			break;
		update_curr(entity(i)->queue, now_ns);
		entity(i)->exec_start_ns = PAUSED;
		i = parent_of(i);
	}
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

/* Moves *i and *j up to where both are in the same queue. */
static __noinline bool meet(u32 *i, u32 *j)
{
	u32 step;

	bpf_for (step, 0, 2 * MAX_DEPTH) {
		u32 a = entity(*i)->queue, b = entity(*j)->queue;

		if (a == b)
			return true;
		if (group(queue(a)->group)->depth >= group(queue(b)->group)->depth)
			*i = owner_of(a);
		if (group(queue(b)->group)->depth >= group(queue(a)->group)->depth)
			*j = owner_of(b);
		if (!*i || !*j)
			break;
	}
	return false;
}

/* Task `wakee` has come to its CPU. True if it should preempt the one that runs there. */
static __noinline bool preempts(u32 wakee, u64 now_ns)
{
	struct cfs_entity *w = entity(wakee);
	struct cfs_cpu *cs = cpu_state(w->cpu);
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
	struct cfs_entity *e = entity(i);

	if (cpu_state(e->cpu)->nr_tasks < 2)
		return false;
	clear_buddies(i);
	if (e->policy != POLICY_BATCH)
		update_curr(e->queue, now_ns);
	set_skip_buddy(i);
	return true;
}
