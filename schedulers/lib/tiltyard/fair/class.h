/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Linux's fair class as callbacks of sched_ext. A scheduler first defines the rule by which the
 * tasks of a CPU take turns (rule.h) and includes how CPUs are compared (version.h).
 *
 *   types.h    entities, queues, CPUs              load.h     tasks, capacity, loads of CPUs
 *   pelt.h     decaying averages                   idle.h     idle CPUs
 *   group.h    shares of groups, averages          place.h    where a task wakes up or begins
 *   turns.h    who has the turn, level by level    pass.h     a balancing pass
 *   tasks.h    a task's CPU and group              move.h     taking and giving tasks
 *   tunables.h what a run may set                  balance.h  when all of that happens
 *   guard.h    against starvation, in real kernels
 *
 * Three callbacks decide the shape:
 *
 *   dispatch() comes before the previous task is put back, so it charges that task, picks
 *   among it and all others, and makes the switch in the queues at once. stopping() and
 *   running() only stop and start the clock of whoever has the turn.
 *
 *   Tasks leave the queues in quiescent(), which the second step of an affinity change leaves out
 *   (settle() makes up for it). They join in enqueue(), which some paths leave out: exiting
 *   tasks, tasks that cannot migrate, everything while a scheduler is being loaded. running()
 *   sets right whatever comes to run without the turn.
 *
 *   Slices are given as TURN_NS; tick() ends turns, because what a slice is changes while it
 *   lasts.
 */
#ifndef __LIB_FAIR_CLASS_H
#define __LIB_FAIR_CLASS_H

#include "balance.h"
#include "guard.h"
#include "rule.h"
#include "tasks.h"
#include "tunables.h"

/* Tasks that may turn out not to be ours in one dispatch(), having just been dequeued; or delayed.
 */
#define DISPATCH_TRIES MAX_TASKS

/* Of the task and of the group that it is in, if that is not the root. Probes are shown and decide
 * nothing: the lock has been dropped, and a CPU that pulls the task may be changing them. */
static __noinline void probe_entities(struct task_struct *p, u32 i)
{
	u32 group = owner_of(data_race(entity(i)->queue));

	TILT_PROBE_TASK(load_avg, p, data_race(entity(i)->pelt.load_avg));
	if (group)
		TILT_PROBE_TASK(group_vruntime, p, data_race(entity(group)->vruntime));
}

static __noinline void probe_task(struct task_struct *p, u32 i)
{
	TILT_PROBE_TASK(vruntime, p, data_race(entity(i)->vruntime));
	if (tilt_probes_on) {
		probe_entities(p, i);
		probe_turn(p, i);
	}
}

static __noinline void probe_cpu(u32 cpu)
{
	TILT_PROBE_CPU(nr_running, cpu, READ_ONCE(cpu_state(cpu)->nr_tasks));
}

s32 BPF_STRUCT_OPS(fair_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u32 i = slot_of(p), waker = 0;
	struct task_struct *current;

	if (!i || (u32)prev_cpu >= nr_cpus)
		return prev_cpu;
	if (is_delayed(i))
		return READ_ONCE(entity(i)->cpu);
	if (entity(i)->newborn)
		return place_new(p, bpf_get_smp_processor_id(), prev_cpu);
	current = bpf_get_current_task_btf();
	if (current)
		waker = slot_of(current);
	if (waker)
		record_wakee(waker, i, tick_of(scx_bpf_now()));
	return place_wakee_near(p, i, waker, prev_cpu, wake_flags & SCX_WAKE_SYNC);
}

void BPF_STRUCT_OPS(fair_quiescent, struct task_struct *p, u64 deq_flags)
{
	u64 change = deq_flags & (DEQUEUE_SAVE | DEQUEUE_MOVE);
	u32 i = slot_of(p), how = 0;

	if (!i)
		return;
	if (deq_flags & SCX_DEQ_SLEEP)
		how |= LEAVE_SLEEP;
	if (change == DEQUEUE_SAVE)
		how |= LEAVE_BRIEFLY;
	/* The core takes a task that exits out of a group for sessions, where most are not: 6.5
	 * leaves it alone then, and 4.9 advances min_vruntime for no such change. */
	if (change == (DEQUEUE_SAVE | DEQUEUE_MOVE) && (p->flags & PF_EXITING))
		how |= LEAVE_AS_IS;
	/* exit_task() may come long after the last sleep, and after the group has gone. */
	if (p->flags & PF_EXITING)
		how |= LEAVE_FOREVER;
	depart(i, scx_bpf_now(), how);
	probe_task(p, i);
	probe_cpu(entity(i)->cpu);
}

/* Is task p, whose nice value or affinity changes, to stay on the CPU whose queues it was in? */
static __always_inline bool stays_elsewhere(struct task_struct *p, u32 i, u64 enq_flags)
{
	u32 cpu = READ_ONCE(entity(i)->cpu);

	return (enq_flags & (ENQUEUE_RESTORE | ENQUEUE_MOVE)) == ENQUEUE_RESTORE &&
	       cpu != scx_bpf_task_cpu(p) && !is_migration_disabled(p) &&
	       bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/* A task that comes to a CPU's queues. */
struct coming {
	u32 i, cpu;
	u64 now_ns, enq_flags;
	bool came;   /* it was not there before */
	bool pushed; /* it ran, and has been pushed there */
};

/* Task p, settled, joins the queues of a CPU. True if the running task must be
 * preempted. */
static __always_inline bool queue_task(struct task_struct *p, const struct coming *c,
				       struct fair_lock *lk)
{
	u32 i = c->i, cpu = c->cpu;
	u64 now_ns = c->now_ns;
	bool preempt = false;

	bpf_spin_lock(&lk->lock);
	if (c->enq_flags & SCX_ENQ_WAKEUP)
		end_idle(cpu, now_ns);
	join(i, cpu, now_ns, c->enq_flags & SCX_ENQ_WAKEUP);
	/* It had the turn and lost the CPU without a dispatch(). */
	if (cpu_state(cpu)->curr == i) {
		put_current(queue_of(0, cpu), now_ns);
		WRITE_ONCE(cpu_state(cpu)->curr, 0);
	}
	custody_begin(&entity(i)->custody, p->pid);
	if (((c->came || c->pushed) && preempts(i, now_ns)) || wants_pick(cpu)) {
		WRITE_ONCE(cpu_state(cpu)->resched, true);
		preempt = true;
	}
	bpf_spin_unlock(&lk->lock);
	return preempt;
}

/* Not static: see join_session(). */
__noinline int queue_apart(struct task_struct *p __arg_trusted,
			   const struct coming *c __arg_nonnull)
{
	struct fair_lock *lk = cpu_lock(c->cpu);

	return lk && queue_task(p, c, lk);
}

/* The task is ours until it is dispatched, or dequeued below. */
void BPF_STRUCT_OPS(fair_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct coming c = {.i = slot_of(p), .cpu = scx_bpf_task_cpu(p), .enq_flags = enq_flags};
	struct fair_lock *lk;
	bool elsewhere;

	c.now_ns = scx_bpf_now();
	c.came = enq_flags && !(enq_flags & ENQUEUE_RESTORE);
	/* Pushed, or only changed while it waited on a CPU to which it has been pulled. */
	c.pushed = entity(c.i)->pushed;
	elsewhere = c.pushed || stays_elsewhere(p, c.i, enq_flags);
	if (elsewhere)
		c.cpu = entity(c.i)->cpu;
	lk = cpu_lock(c.cpu);
	if (!c.i || !lk) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	settle(p, c.i, c.cpu, c.now_ns);
	if (queues_apart() ? queue_apart(p, &c) : queue_task(p, &c, lk))
		scx_bpf_kick_cpu(c.cpu, SCX_KICK_PREEMPT);
	else if (elsewhere || (enq_flags & SCX_ENQ_LAST))
		scx_bpf_kick_cpu(c.cpu, SCX_KICK_IDLE);
	/* If it had nobody else, the CPU that pushed looks for tasks now, this one among them. */
	if (c.pushed)
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_IDLE);
	probe_task(p, c.i);
	probe_cpu(c.cpu);
}

/* p leaves our hands before it was dispatched: its affinity or another property changes. */
void BPF_STRUCT_OPS(fair_dequeue, struct task_struct *p, u64 deq_flags)
{
	u32 i = slot_of(p);

	if (i)
		depart(i, 0, LEAVE_HANDS);
}

/* choose() says so with the task that has the turn and keeps it; and with an entity that has to
 * leave before the next choice. */
#define KEEPS_TURN MAX_TASKS
#define IS_DELAYED (1U << 20)

/*
 * The task that shall run on `cpu` next; it has the turn now. KEEPS_TURN is added if it is @prev,
 * which runs. 0 if nothing is runnable.
 */
__noinline int choose(u32 cpu, u32 prev, u64 now_ns)
{
	struct fair_lock *lk = cpu_lock(cpu);
	struct fair_cpu *cs = cpu_state(cpu);
	bool keeps;
	u32 i;

	if (!lk)
		return 0;
	bpf_spin_lock(&lk->lock);
	i = pick_task(cpu, now_ns);
	if (i && is_delayed(i)) {
		bpf_spin_unlock(&lk->lock);
		return i + IS_DELAYED;
	}
	keeps = i && i == prev;
	WRITE_ONCE(cs->resched, false);
	if (i && i != cs->curr) {
		switch_to(i, now_ns);
		/* push_task() put it back for nothing: it goes on, and running() will not
		 * say so. */
		if (keeps)
			resume_current(i, now_ns);
	}
	if (keeps)
		i += KEEPS_TURN;
	else if (i)
		custody_choose(&entity(i)->custody, cpu);
	bpf_spin_unlock(&lk->lock);
	return i;
}

/* Runs whom it has to be, @prev if it has the turn or gets it. False: nobody is runnable. */
static __noinline bool run_next(s32 cpu, struct task_struct *prev, u64 now_ns)
{
	u32 prev_slot = prev ? slot_of(prev) : 0, try;

	bpf_for (try, 0, DISPATCH_TRIES) {
		u32 i = choose(cpu, prev_slot, now_ns);

		if (delays_tasks() && i >= IS_DELAYED) {
			unchoose(i - IS_DELAYED, cpu, now_ns, LEAVE_DELAYED);
			continue;
		}
		if (prev && i > KEEPS_TURN) {
			prev->scx.slice = TURN_NS;
			return true;
		}
		if (!i)
			break;
		if (hand_over(&entity(i)->custody, cpu, TURN_NS))
			return true;
		unchoose(i, cpu, now_ns, LEAVE_CPU | LEAVE_UNHELD);
	}
	return false;
}

/* Nothing to run: looks for tasks elsewhere, for itself or for all idle CPUs. */
static __always_inline void go_idle(s32 cpu, u64 now_ns)
{
	struct fair_cpu *cs = cpu_state(cpu);

	if (!cs->dry) {
		load_at_rest(cpu, cs);
		note_idle_core(cpu);
		balance_newidle(cpu, now_ns);
	}
	if (take_idle_kick(cpu))
		balance_idle(cpu, now_ns);
	cs->dry = true;
}

void BPF_STRUCT_OPS(fair_dispatch, s32 cpu, struct task_struct *prev)
{
	struct fair_cpu *cs = cpu_state(cpu);
	u64 now_ns = scx_bpf_now();
	u32 curr = 0;
	bool pushed = false;

	end_other(cpu, now_ns);
	/* Partner: begin_push(). */
	if (READ_ONCE(cs->push_to)) {
		if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
			curr = slot_of(prev);
		pushed = push_task(cpu, curr, now_ns) == PUSHED_CURRENT;
	}
	if (run_next(cpu, prev, now_ns))
		return;
	/* enqueue() brings it where it goes, and this CPU here again. */
	if (pushed)
		return;
	go_idle(cpu, now_ns);
	if (READ_ONCE(cs->nr_tasks))
		run_next(cpu, prev, now_ns);
}

/* Task i, settled on `cpu`, has got the CPU without having been given the turn: it has it now. */
__noinline int take_turn(u32 i, u32 cpu, bool wakes, u64 now_ns)
{
	struct fair_lock *lk = cpu_lock(cpu);

	if (!lk)
		return -ENOENT;
	bpf_spin_lock(&lk->lock);
	join(i, cpu, now_ns, wakes);
	switch_to(i, now_ns);
	/* What the switch has found was about the turn before. */
	forget_charges(cpu);
	WRITE_ONCE(cpu_state(cpu)->resched, false);
	custody_end(&entity(i)->custody);
	bpf_spin_unlock(&lk->lock);
	return 0;
}

void BPF_STRUCT_OPS(fair_running, struct task_struct *p)
{
	u32 i = slot_of(p), cpu = scx_bpf_task_cpu(p);
	u64 now_ns = scx_bpf_now();

	if (!i)
		return;
	cpu_state(cpu)->dry = false;
	end_other(cpu, now_ns);
	if (READ_ONCE(cpu_state(cpu)->curr) != i) {
		/* A sleeper is placed as one; a relative vruntime has just been taken off a queue.
		 */
		bool wakes = !entity(i)->relative;

		settle(p, i, cpu, now_ns);
		take_turn(i, cpu, wakes, now_ns);
	}
	/*
	 * No lock: until now the turn was paused, so who takes a task from this CPU's queues
	 * meanwhile charges it for nothing, or for the time since now_ns. Its update_curr() may
	 * lose its exec_start to ours, and a few ns are charged twice.
	 */
	resume_current(i, now_ns);
	/* Asked for since it got the turn, while a task of a higher class ran: that kick was lost.
	 */
	if (READ_ONCE(cpu_state(cpu)->resched) || READ_ONCE(cpu_state(cpu)->push_to)) {
		/* Such tasks skip dispatch(), which pushes: two preempt each other for ever. */
		if (skips_custody(p))
			WRITE_ONCE(cpu_state(cpu)->push_to, 0);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/*
 * A sleeper, quiescent() follows, is charged there; who has lost the turn was charged when it did.
 * What is left is a task that a higher class drives off the CPU. Without a slice it comes back by
 * enqueue(): others may take it, and a wakee that comes meanwhile may get the turn.
 */
void BPF_STRUCT_OPS(fair_stopping, struct task_struct *p, bool runnable)
{
	u32 i = runnable ? slot_of(p) : 0, cpu = entity(i)->cpu;
	struct fair_lock *lk;
	u64 now_ns;

	if (!i || READ_ONCE(cpu_state(cpu)->curr) != i)
		return;
	lk = cpu_lock(cpu);
	now_ns = scx_bpf_now();
	if (!lk)
		return;
	bpf_spin_lock(&lk->lock);
	pause_current(i, now_ns);
	bpf_spin_unlock(&lk->lock);
	p->scx.slice = 0;
	begin_other(cpu, now_ns);
}

void BPF_STRUCT_OPS(fair_tick, struct task_struct *p)
{
	u32 i = slot_of(p), cpu = entity(i)->cpu;
	struct fair_lock *lk = cpu_lock(cpu);
	u64 now_ns = scx_bpf_now();
	bool over = false;

	if (!i || !lk)
		return;
	bpf_spin_lock(&lk->lock);
	if (cpu_state(cpu)->curr == i) {
		over = tick_task(i, now_ns);
		if (over)
			cpu_state(cpu)->resched = true;
	}
	bpf_spin_unlock(&lk->lock);
	if (over)
		p->scx.slice = 0;
	if (nr_online > 1)
		balance_tick(cpu, now_ns);
	probe_task(p, i);
}

bool BPF_STRUCT_OPS(fair_yield, struct task_struct *from, struct task_struct *to)
{
	u32 i = slot_of(from), j = to ? slot_of(to) : 0;
	struct fair_lock *lk = cpu_lock(entity(i)->cpu);
	/* Of another task; partners: join(), detach_task(). If it has just moved, no buddy. */
	u32 to_cpu = READ_ONCE(entity(j)->cpu);
	struct fair_lock *to_lk = cpu_lock(to_cpu);
	u64 now_ns = scx_bpf_now();
	bool gives_way;

	if (!i || !lk || !to_lk)
		return false;
	if (to) {
		bool waits;

		bpf_spin_lock(&to_lk->lock);
		/* In this order: see still_there(). */
		waits = j && READ_ONCE(entity(j)->on_rq) && READ_ONCE(entity(j)->cpu) == to_cpu;
		if (waits)
			set_next_buddy(j);
		bpf_spin_unlock(&to_lk->lock);
		if (!waits)
			return false;
	}
	bpf_spin_lock(&lk->lock);
	gives_way = yield_task(i, now_ns);
	bpf_spin_unlock(&lk->lock);
	if (gives_way)
		from->scx.slice = 0;
	return true;
}

/* A nice value changes. A queued task has been taken out by quiescent() and comes back by
 * enqueue(). */
void BPF_STRUCT_OPS(fair_set_weight, struct task_struct *p, u32 weight)
{
	u32 i = slot_of(p), cpu = scx_bpf_task_cpu(p);
	struct fair_entity *e = entity(i);
	s32 nice = task_nice(p);
	struct fair_load load;
	/* quiescent() has taken the turn from it. */
	bool runs = scx_bpf_task_running(p), raised = nice < e->nice;

	if (!i)
		return;
	e->policy = p->policy;
	load_of_nice(&load, nice, p->policy == POLICY_IDLE);
	reweight_task(p, i, &load);
	if (e->newborn)
		pelt_newborn(&e->pelt, table_units(e->load.weight));
	if (nice != e->nice && (raised || runs))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	e->nice = nice;
}

/* Not sleepable, although it may be: only so does the verifier trust args->cgroup. */
s32 BPF_STRUCT_OPS(fair_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_struct *current;
	u32 i = slot_open(p), parent = 0, round;
	struct fair_entity *e = entity(i);
	u64 now_ns = scx_bpf_now();

	if (!i)
		return -ENOMEM;
	/* Who still looks at the task that had this place finds it in no queue: still_there(). */
	round = e->custody.round;
	__builtin_memset(e, 0, sizeof(*e));
	e->custody.round = round;
	custody_init(&e->custody, p->pid);
	e->policy = p->policy;
	e->nice = task_nice(p);
	load_of_nice(&e->load, e->nice, p->policy == POLICY_IDLE);
	pelt_newborn(&e->pelt, table_units(e->load.weight));
	e->newborn = true;
	e->relative = true;
	e->placed = !args->fork;
	WRITE_ONCE(e->cpu, scx_bpf_task_cpu(p));
	born_on(i, e->cpu);
	e->cgroup = group_of_cgroup(args->cgroup);
	WRITE_ONCE(e->group, e->cgroup);
	e->queue = queue_of(e->group, e->cpu);
	follow_session(p, i, now_ns);
	if (!args->fork)
		return 0;
	current = bpf_get_current_task_btf();
	if (current)
		parent = slot_of(current);
	if (parent && fork_task(i, parent, now_ns))
		scx_bpf_kick_cpu(READ_ONCE(entity(parent)->cpu), SCX_KICK_PREEMPT);
	return 0;
}

void BPF_STRUCT_OPS(fair_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 i = slot_of(p);
	struct fair_entity *e = entity(i);

	if (!i)
		return;
	depart(i, scx_bpf_now(), LEAVE_CPU);
	leave_session(e->group, e->session);
	slot_close(p);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(fair_cgroup_init, struct cgroup *cgrp,
			     struct scx_cgroup_init_args *args)
{
	int err;

	if (!groups_on || !cgrp->level)
		return 0;
	err = open_cgroup(cgrp, args->weight);
	if (err == -ENOSPC)
		scx_bpf_error("fair: no room for cgroup %llu at level %d (%d groups, %d levels); "
			      "set groups_on=0",
			      cgrp->kn->id, cgrp->level, max_groups(), MAX_DEPTH);
	return err;
}

void BPF_STRUCT_OPS(fair_cgroup_exit, struct cgroup *cgrp)
{
	give_group(group_of_cgroup(cgrp));
}

/* A queued task has been taken out by quiescent() and comes back by enqueue(). */
void BPF_STRUCT_OPS(fair_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	u32 i = slot_of(p);
	struct fair_entity *e = entity(i);
	u64 now_ns = scx_bpf_now();

	if (!i)
		return;
	depart(i, now_ns, LEAVE_CPU);
	leave_session(e->group, e->session);
	e->session = 0;
	e->cgroup = group_of_cgroup(to);
	WRITE_ONCE(e->group, e->cgroup);
	e->queue = queue_of(e->group, e->cpu);
	follow_session(p, i, now_ns);
}

void BPF_STRUCT_OPS(fair_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	u32 g = group_of_cgroup(cgrp);

	if (!g)
		return;
	WRITE_ONCE(group(g)->shares, clamp_shares(shares_of_weight(weight)));
	shares_changed(g);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(fair_init)
{
	const struct cpumask *mask;
	int err;

	if (!tick_hz || tick_hz > 10000 || !busy_factor) {
		scx_bpf_error("fair: tick_hz=%u busy_factor=%u; use 1..10000, 1 or more", tick_hz,
			      busy_factor);
		return -EINVAL;
	}
	nr_cpus = scx_bpf_nr_cpu_ids();
	if (nr_cpus > MAX_CPUS) {
		scx_bpf_error("fair: %d CPUs, at most %d are supported", nr_cpus, MAX_CPUS);
		return -E2BIG;
	}
	mask = scx_bpf_get_online_cpumask();
	err = build_domains(mask, tick_of(scx_bpf_now()));
	scx_bpf_put_cpumask(mask);
	if (err) {
		scx_bpf_error("fair: too many nodes (%d, at most %d) or groups of CPUs", nr_nodes,
			      MAX_NODES);
		return err;
	}
	init_cpus(scx_bpf_now());
	init_version();
	init_rule(nr_online);
	setup_group(0, 0, NICE_0_WEIGHT);
	return init_guard();
}

#endif
