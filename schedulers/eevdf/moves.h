/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tasks come to a CPU's tree of queues and leave it. Callers hold the CPU's lock.
 *
 * A task that blocks with a negative lag would be rid of its debt: it would come back owing
 * nothing. So it is delayed: it stays in the queue and counts in V, and leaves when it would be
 * picked; if it wakes up before that, it goes on as if it had not slept. The same with groups.
 */
#pragma once

#include "change.h"

/*
 * A way up from an entity to the root queue of its CPU, whose lock is held. Not locals: of those
 * the verifier follows every value in a loop.
 */
struct climb {
	u32 at;	      /* the entity that it has come to */
	u32 how;      /* LEAVE_* */
	bool moving;  /* this one joins or leaves; false: one below has */
	bool delays;  /* it is delayed instead of leaving */
	bool asleep;  /* who leaves first blocks */
	u64 slice_ns; /* least of the queue below */
	u64 weight;   /* what this one is to weigh */
	u32 first;    /* the entity at which it began */
	bool ran;     /* that had the turn */
};

static struct climb climbs[MAX_CPUS];

static __always_inline struct climb *begin_climb(u32 i, u32 how)
{
	struct climb *c = &climbs[queue(entity(i)->queue)->cpu & (MAX_CPUS - 1)];

	c->at = i;
	c->first = i;
	c->how = how;
	c->moving = true;
	c->asleep = how & LEAVE_SLEEP;
	c->slice_ns = 0;
	return c;
}

/* The entity that c has come to. Read from memory each time, so that the verifier does not track
 * its value. */
static __always_inline u32 here(const struct climb *c)
{
	return READ_ONCE(c->at);
}

/* Coming ------------------------------------------------------------------------------------ */

/* A group requests the least of what its tasks do. */
static __always_inline void request_for_tasks(u32 i, u64 slice_ns)
{
	entity(i)->turn.slice_ns = slice_ns;
	entity(i)->turn.custom = true;
}

/* Entity i joins queue q; all but the tree. */
static __always_inline void enqueue_entity(u32 q, u32 i, u64 now_ns)
{
	struct fair_entity *e = entity(i);
	struct fair_queue *cfs_rq = queue(q);
	u64 weight;

	update_curr(q, now_ns);
	if (e->attached) {
		update_load(i, now_ns);
	} else {
		attach_load(i, now_ns);
		if (is_task(i))
			load_comes(i, e->newborn, now_ns);
	}
	weight = weight_now(i);
	if (weight != e->load.weight)
		rescale(i, weight, inverse_of(weight));
	e->turn.forked = e->newborn;
	place(q, i, e->newborn);
	e->newborn = false;
	/* Partner: still_there(). */
	WRITE_ONCE(e->on_rq, true);
	cfs_rq->weight += e->load.weight;
	WRITE_ONCE(cfs_rq->nr_running, cfs_rq->nr_running + 1);
	wait_aside(q, i);
}

/* Back into the tree, and one level up. */
static __always_inline void go_up(struct climb *c)
{
	u32 at = here(c), q = entity(at)->queue;

	put_back(q, at);
	c->slice_ns = least_slice(q);
	c->at = owner_of(q);
}

/* One step up. False: that was the top. */
static __always_inline bool join_step(struct climb *c, u64 now_ns)
{
	u32 at = here(c), q = entity(at)->queue;
	struct fair_entity *e = entity(at);

	if (!at)
		return false;
	if (!e->on_rq) {
		if (c->slice_ns)
			request_for_tasks(at, c->slice_ns);
		enqueue_entity(q, at, now_ns);
	} else {
		bool wanted = c->moving && e->turn.delayed;

		c->weight = weight_now(at);
		c->moving = false;
		if (wanted)
			undelay(q, at);
		if (has_news(at, c->weight, c->slice_ns))
			set_aside(q, at);
		update_above(q, at, c->weight, c->slice_ns, now_ns);
	}
	go_up(c);
	return true;
}

/* Queues task i, and the groups above it that are in no queue; those in one learn what changes. */
static __noinline void join_queues(u32 i, u64 now_ns)
{
	struct climb *c = begin_climb(i, 0);
	u32 level;

	bpf_for (level, 0, MAX_DEPTH) {
		if (!join_step(c, now_ns))
			break;
	}
}

/* Task i is runnable. Balancing looks at it last. */
static __always_inline void count_runnable(u32 i, u64 now_ns)
{
	struct fair_cpu *cs = cpu_state(entity(i)->cpu);

	note_runnable(entity(i)->cpu, now_ns);
	expect(i, entity(i)->cpu, true);
	/* Partner: nr_running() on other CPUs. */
	WRITE_ONCE(cs->nr_tasks, cs->nr_tasks + 1);
	if (cs->nr_tasks >= 2 && !READ_ONCE(overload))
		WRITE_ONCE(overload, true);
	append_task(cs, i);
}

static __always_inline void enqueue_task(u32 i, u64 now_ns, bool wakeup)
{
	count_runnable(i, now_ns);
	join_queues(i, now_ns);
}

static __always_inline struct queue_turns *cpu_turns(u32 cpu)
{
	return &queue(queue_of(0, cpu))->turns;
}

static __always_inline u32 nr_delayed(u32 cpu)
{
	return READ_ONCE(cpu_turns(cpu)->nr_delayed);
}

/* Partner: nr_delayed() on other CPUs. */
static __always_inline void count_delayed(u32 cpu, s32 change)
{
	WRITE_ONCE(cpu_turns(cpu)->nr_delayed, cpu_turns(cpu)->nr_delayed + change);
}

static __noinline void rejoin_task(u32 i, u64 now_ns)
{
	u32 q = entity(i)->queue;

	if (!entity(i)->turn.delayed)
		return;
	undelay(q, i);
	update_load(i, now_ns);
	put_back(q, i);
	entity(i)->turn.forked = false;
	count_delayed(entity(i)->cpu, -1);
	count_runnable(i, now_ns);
}

/* Going ------------------------------------------------------------------------------------- */

static __always_inline bool is_to_be_delayed(u32 q, u32 i, u32 how)
{
	if (!delay_dequeue || !(how & LEAVE_SLEEP) || how & (LEAVE_DELAYED | LEAVE_FOREVER))
		return false;
	return !is_eligible(q, i);
}

/* Entity i keeps its place in queue q, but not the turn. */
static __always_inline void delay(u32 q, u32 i, u64 now_ns)
{
	update_load(i, now_ns);
	WRITE_ONCE(entity(i)->turn.delayed, true);
	if (queue(q)->curr != i)
		return;
	queue(q)->curr = 0;
	wait_aside(q, i);
}

/* Entity i leaves queue q; it is out of the tree already. */
static __always_inline void dequeue_entity(u32 q, u32 i, u64 now_ns, u32 how)
{
	struct fair_entity *e = entity(i);
	struct fair_queue *cfs_rq = queue(q);

	update_load(i, now_ns);
	store_lag(q, i);
	if (place_rel_deadline && !(how & LEAVE_SLEEP)) {
		e->turn.deadline -= e->vruntime;
		e->relative = true;
	}
	uncount(q, i);
	WRITE_ONCE(e->waiting, false);
	cfs_rq->turns.aside = 0;
	if (cfs_rq->curr == i)
		cfs_rq->curr = 0;
	WRITE_ONCE(e->on_rq, false);
	cfs_rq->weight -= e->load.weight;
	WRITE_ONCE(cfs_rq->nr_running, cfs_rq->nr_running - 1);
	if (!(how & LEAVE_BRIEFLY))
		update_min_vruntime(q);
	if (!(how & LEAVE_DELAYED))
		return;
	WRITE_ONCE(e->turn.delayed, false);
	if (delay_zero && e->turn.lag > 0)
		e->turn.lag = 0;
}

/* What is to become of the entity that c has come to: its weight, and whether it is delayed instead
 * of leaving. */
static __always_inline void begin_step(struct climb *c, u64 now_ns)
{
	u32 at = here(c), q = entity(at)->queue;

	c->weight = weight_now(at);
	WRITE_ONCE(c->delays, false);
	if (!c->moving)
		return;
	update_curr(q, now_ns);
	clear_buddies(at);
	if (!is_to_be_delayed(q, at, c->how))
		return;
	WRITE_ONCE(c->delays, true);
	if (!is_task(at))
		c->slice_ns = least_slice(q);
}

static __always_inline void step_aside(struct climb *c)
{
	u32 at = here(c);

	if (READ_ONCE(c->moving) || has_news(at, c->weight, c->slice_ns))
		set_aside(entity(at)->queue, at);
}

static __always_inline void leave_here(struct climb *c, u64 now_ns)
{
	u32 at = here(c), q = entity(at)->queue;

	dequeue_entity(q, at, now_ns, c->how);
	c->how = LEAVE_SLEEP | (c->how & LEAVE_BRIEFLY);
	c->moving = !queue(q)->nr_running;
	/* Those who stay in the sleeper's group go on in its place. */
	if (!c->moving && c->asleep)
		set_next_buddy(owner_of(q));
}

static __always_inline void stay_here(struct climb *c, u64 now_ns)
{
	u32 at = here(c), q = entity(at)->queue;

	WRITE_ONCE(c->moving, false);
	if (READ_ONCE(c->delays))
		delay(q, at, now_ns);
	if (!is_task(at))
		update_above(q, at, c->weight, c->slice_ns, now_ns);
}

/* One step up. False: that was the top, or the task is delayed. */
static __always_inline bool leave_step(struct climb *c, u64 now_ns)
{
	u32 at;

	if (!here(c))
		return false;
	begin_step(c, now_ns);
	step_aside(c);
	if (READ_ONCE(c->moving) && !READ_ONCE(c->delays))
		leave_here(c, now_ns);
	else
		stay_here(c, now_ns);
	at = here(c);
	go_up(c);
	return !READ_ONCE(c->delays) || !is_task(at);
}

/* Takes the entity at which c begins out, and the groups above it that it leaves empty; or it, or
 * one of them, is delayed instead. */
static __noinline void leave_queues(struct climb *c, u64 now_ns)
{
	u32 level;

	bpf_for (level, 0, MAX_DEPTH) {
		if (!leave_step(c, now_ns))
			break;
	}
}

/* What changes on its CPU when the entity at which c begins leaves. */
static __noinline void begin_leaving(struct climb *c, u64 now_ns)
{
	u32 i = c->first, cpu = entity(i)->cpu;
	struct fair_cpu *cs = cpu_state(cpu);

	c->ran = cs->curr == i;
	if (entity(i)->turn.delayed) {
		/* Or a group. */
		if (is_task(i))
			count_delayed(cpu, -1);
		c->how = LEAVE_SLEEP | LEAVE_DELAYED;
		c->asleep = true;
	} else {
		note_runnable(cpu, now_ns);
		expect(i, cpu, false);
		if (c->asleep)
			estimate(i, now_ns);
		WRITE_ONCE(cs->nr_tasks, cs->nr_tasks - 1);
		unlist_task(cs, i);
	}
	if (c->ran)
		WRITE_ONCE(cs->curr, 0);
}

static __always_inline void end_leaving(struct climb *c, u64 now_ns)
{
	u32 i = c->first, cpu = entity(i)->cpu;

	if (entity(i)->turn.delayed)
		count_delayed(cpu, 1);
	/* Who runs and is changed loses its turn in all groups, and gets it back later. */
	if (c->ran && c->how & LEAVE_BRIEFLY)
		put_current(queue_of(0, cpu), now_ns);
}

/* Apart, and with what they know in c: so the verifier has one state between them, and looks at
 * leave_queues() once. */
static __always_inline void dequeue_task(u32 i, u64 now_ns, u32 how)
{
	struct climb *c = begin_climb(i, how);

	begin_leaving(c, now_ns);
	leave_queues(c, now_ns);
	end_leaving(c, now_ns);
}

static __always_inline bool delays_tasks(void)
{
	return delay_dequeue;
}

static __always_inline bool queues_apart(void)
{
	return true;
}

static __always_inline bool is_delayed(u32 i)
{
	return READ_ONCE(entity(i)->turn.delayed);
}

/* A sleeper's lag and deadline do not depend on where it was. */
static __always_inline void forget_queue(u32 i)
{
}
