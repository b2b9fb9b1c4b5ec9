/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tasks of a CPU take turns, and change. Callers hold the CPU's lock.
 */
#pragma once

#include "moves.h"

/* Turns ------------------------------------------------------------------------------------- */

static __noinline void set_current(u32 q, u32 i, u64 now_ns)
{
	clear_buddies(i);
	if (entity(i)->waiting)
		stop_waiting(q, i);
	update_load(i, now_ns);
	protect(q, i);
	queue(q)->curr = i;
	/* Balancing looks last at the task that ran most recently. */
	if (is_task(i))
		list_task_last(cpu_state(entity(i)->cpu), i);
}

/* The task that should run on this CPU, 0 if none is runnable; or an entity that is delayed, and to
 * leave before the next pick. Changes no turn. */
static __noinline u32 pick_task(u32 cpu, u64 now_ns)
{
	u32 root = queue_of(0, cpu), q = root, found = 0, level;

	bpf_for (level, 0, MAX_DEPTH) {
		if (!queue(q)->nr_running)
			break;
		update_curr(q, now_ns);
		found = pick_entity(q);
		if (is_task(found) || entity(found)->turn.delayed)
			break;
		q = owned_queue(found);
	}
	queue(root)->turns.over = false;
	return found;
}

/*
 * Entity i gets a whole new request that is due now: at V, computed without i. Each move lowers the
 * next V. So that who comes later is not due earlier, nobody is due before those that were moved
 * before; of equal deadlines, the tree has them in the order in which they came.
 */
static __noinline bool move_to_front(u32 q, u32 i)
{
	struct queue_turns *turns = &queue(q)->turns;
	struct fair_entity *e = entity(i);
	u64 now = virtual_time(q);

	if (!earlier(later_of(now, turns->front), e->turn.deadline) && !earlier(now, e->vruntime))
		return false;
	stop_waiting(q, i);
	now = virtual_time(q);
	turns->front = later_of(now, turns->front);
	e->turn.deadline = turns->front;
	e->vruntime = now - request_in_vruntime(i);
	start_waiting(q, i);
	return true;
}

/* A tick hits task i. True if its turn, or that of one of its groups, is over. */
static __noinline bool tick_task(u32 i, u64 now_ns)
{
	u32 cpu = entity(i)->cpu, level;

	bpf_for (level, 0, MAX_DEPTH) {
		u32 q = entity(i)->queue;

		if (!i)
			break;
		update_curr(q, now_ns);
		update_load(i, now_ns);
		follow_weight(i, now_ns);
		i = owner_of(q);
	}
	return cpu_turns(cpu)->over;
}

/* A charge has found that the turn on @cpu is over, and nobody has picked since. */
static __always_inline bool wants_pick(u32 cpu)
{
	return cpu_turns(cpu)->over;
}

static __always_inline void forget_charges(u32 cpu)
{
	cpu_turns(cpu)->over = false;
}

static __always_inline bool is_idle_entity(u32 i)
{
	return is_task(i) && entity(i)->policy == POLICY_IDLE;
}

/* Task `wakee` has come to where `curr` runs. Would it be picked? With a shorter slice it is, even
 * in mid-turn; if it is not, then no later than that slice would end. */
static __noinline bool wakeup_test(u32 curr, u32 wakee, u64 now_ns)
{
	u32 i = curr, j = wakee, q;
	bool shorter;

	if (!meet(&i, &j))
		return false;
	q = entity(i)->queue;
	if (is_idle_entity(i) && !is_idle_entity(j)) {
		end_protection(i);
		return true;
	}
	if (is_idle_entity(i) != is_idle_entity(j) || entity(wakee)->policy != POLICY_NORMAL)
		return false;
	update_curr(q, now_ns);
	shorter = preempt_short && entity(j)->turn.slice_ns < entity(i)->turn.slice_ns;
	if (earliest_eligible(q, !shorter) == j) {
		if (shorter)
			end_protection(i);
		return true;
	}
	if (run_to_parity && shorter)
		shorten_protection(q, i);
	return false;
}

/* Task `wakee` has come to its CPU. True if it should preempt the one that runs there. */
static __noinline bool preempts(u32 wakee, u64 now_ns)
{
	struct fair_entity *w = entity(wakee);
	u32 cpu = w->cpu, curr = cpu_state(cpu)->curr;

	if (!curr || curr == wakee)
		return false;
	if (next_buddy && !w->turn.forked)
		set_next_buddy(wakee);
	if (cpu_state(cpu)->resched || cpu_turns(cpu)->over || !wakeup_preemption)
		return false;
	return wakeup_test(curr, wakee, now_ns);
}

/* Task i gives way: what is left of its request is forfeited. True if there is anybody to give way
 * to.
 */
static __noinline bool yield_task(u32 i, u64 now_ns)
{
	struct fair_entity *e = entity(i);
	u32 q = e->queue;

	if (cpu_state(e->cpu)->nr_tasks + nr_delayed(e->cpu) < 2)
		return false;
	clear_buddies(i);
	update_curr(q, now_ns);
	if (is_eligible(q, i)) {
		e->vruntime = e->turn.deadline;
		e->turn.deadline += request_in_vruntime(i);
		update_min_vruntime(q);
	}
	return true;
}

/* Weights and slices ------------------------------------------------------------------------ */

/* What task p has asked for by sched_setattr(). Counts from its next request on. */
static __always_inline void take_request(struct task_struct *p, u32 i)
{
	entity(i)->turn.custom = p->se.custom_slice;
	if (p->se.custom_slice)
		entity(i)->turn.slice_ns = p->se.slice;
}

/* Task i's weight or slice changes. If it is delayed, it leaves, and comes back as it was. Lock
 * held. */
static __always_inline void reweight_at(struct task_struct *p, u32 i, const struct fair_load *load,
					u64 now_ns)
{
	bool delayed = entity(i)->turn.delayed;

	if (delayed)
		leave_queues(begin_climb(i, LEAVE_BRIEFLY), now_ns);
	take_request(p, i);
	rescale(i, load->weight, load->inverse);
	if (delayed)
		join_queues(i, now_ns);
}

static __noinline void reweight_task(struct task_struct *p, u32 i, const struct fair_load *load)
{
	struct fair_lock *lk = cpu_lock(READ_ONCE(entity(i)->cpu));
	u64 now_ns = scx_bpf_now();

	if (!lk)
		return;
	bpf_spin_lock(&lk->lock);
	reweight_at(p, i, load, now_ns);
	bpf_spin_unlock(&lk->lock);
}

/* At once, on all CPUs and in all groups above. */
static __noinline void apply_shares(u32 q, u64 now_ns)
{
	u32 level;

	bpf_for (level, 0, MAX_DEPTH) {
		u32 i = owner_of(q);

		if (!i)
			break;
		follow_weight(i, now_ns);
		q = entity(i)->queue;
	}
}

static __noinline void shares_changed(u32 g)
{
	u64 now_ns = scx_bpf_now();
	u32 cpu;

	bpf_for (cpu, 0, nr_cpus) {
		struct fair_lock *lk = cpu_lock(cpu);

		if (!lk)
			break;
		bpf_spin_lock(&lk->lock);
		apply_shares(queue_of(g, cpu), now_ns);
		bpf_spin_unlock(&lk->lock);
	}
}

static __always_inline void place_unplaced(u32 i)
{
}

/* A new task is placed where it is queued. */
static __always_inline bool fork_task(u32 i, u32 parent, u64 now_ns)
{
	return false;
}

static __always_inline void init_rule(u32 online)
{
	if (!base_slice_ns || base_slice_ns > NSEC_PER_SEC || scaling > 2)
		scx_bpf_error("eevdf: base_slice_ns=%llu scaling=%u; use 1..1000000000, 0..2",
			      base_slice_ns, scaling);
	request_ns = base_slice_ns * cpu_factor(&scaling, online);
}

static __always_inline void probe_turn(struct task_struct *p, u32 i)
{
	TILT_PROBE_TASK(deadline, p, data_race(entity(i)->turn.deadline));
}
