/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handles on the insides of eevdf for tests: each program takes its arguments in eight u64 and
 * leaves its results there. No kernel is needed.
 */
#include <scx/common.bpf.h>

#include "../eevdf.bpf.c"

/* An empty CPU. a[0]: default request in ns. Programs that load no scheduler have one CPU. */
SEC("syscall") u64 t_reset(u64 *a)
{
	nr_cpus = 1;
	task_slots_fresh = 1;
	__builtin_memset(cpu_state(0), 0, sizeof(struct fair_cpu));
	request_ns = a[0];
	setup_group(0, 0, NICE_0_WEIGHT);
	/* Where the recorded queues begin. */
	queue(queue_of(0, 0))->min_vruntime = 1000000000000ULL;
	return 0;
}

/* What a task requests by default on a[0] CPUs. */
SEC("syscall") u64 t_request(u64 *a)
{
	init_rule(a[0]);
	return request_ns;
}

/* a[0] ns of a task of nice a[1], in vruntime. */
SEC("syscall") u64 t_delta(u64 *a)
{
	struct fair_load load;

	load_of_nice(&load, a[1], a[1] == 100);
	return calc_delta_fair(a[0], &load);
}

/* Group a[0], parent a[1], shares a[2]. */
SEC("syscall") u64 t_group(u64 *a)
{
	setup_group(a[0], a[1], a[2]);
	return 0;
}

/* Group a[0] has lost its last task. */
SEC("syscall") u64 t_gone(u64 *a)
{
	give_group(a[0]);
	return 0;
}

/* Entity that stands for group a[0]. */
SEC("syscall") u64 t_entity(u64 *a)
{
	return owner_of(queue_of(a[0], 0));
}

/* min_vruntime of the queue of group a[0]. */
SEC("syscall") u64 t_origin(u64 *a)
{
	return queue(queue_of(a[0], 0))->min_vruntime;
}

/* A new task: a[0] nice (100: SCHED_IDLE), a[1] slice, a[2] asked for, a[3] group, a[4] policy.
 * Returns its index. */
SEC("syscall") u64 t_task(u64 *a)
{
	u32 i = task_slots_fresh++;
	struct fair_entity *e = entity(i);

	__builtin_memset(e, 0, sizeof(*e));
	e->nice = a[0];
	e->policy = a[0] == 100 ? POLICY_IDLE : a[4];
	e->group = a[3];
	e->queue = queue_of(e->group, 0);
	e->turn.slice_ns = a[1];
	e->turn.custom = a[2];
	e->newborn = true;
	e->relative = true;
	load_of_nice(&e->load, e->nice, a[0] == 100);
	pelt_newborn(&e->pelt, table_units(e->load.weight));
	return i;
}

/* Task a[0] waits in the root queue: vruntime a[1], deadline a[2], delayed a[3]. */
SEC("syscall") u64 t_waits(u64 *a)
{
	struct fair_entity *e = entity(a[0]);
	struct fair_queue *cfs_rq = queue(e->queue);

	e->vruntime = a[1];
	e->turn.deadline = a[2];
	e->turn.delayed = a[3];
	e->newborn = false;
	e->relative = false;
	e->on_rq = true;
	cfs_rq->weight += e->load.weight;
	cfs_rq->nr_running++;
	if (e->turn.delayed)
		count_delayed(0, 1);
	else
		count_runnable(a[0], 0);
	start_waiting(e->queue, a[0]);
	return 0;
}

/* Task a[0], which waits in the root queue, has the turn and has run since a[1]; protected until
 * a[2].
 */
SEC("syscall") u64 t_runs(u64 *a)
{
	struct fair_entity *e = entity(a[0]);

	stop_waiting(e->queue, a[0]);
	queue(e->queue)->curr = a[0];
	cpu_state(0)->curr = a[0];
	e->exec_start_ns = a[1];
	e->turn.protected_until = a[2];
	return 0;
}

/* Task a[0], in no queue: what it was left with: lag a[1]; if a[2] the deadline is a[3] from its
 * vruntime. It is not new. */
SEC("syscall") u64 t_left(u64 *a)
{
	struct fair_entity *e = entity(a[0]);

	e->turn.lag = a[1];
	e->relative = a[2];
	e->turn.deadline = a[2] ? a[3] : 0;
	e->newborn = false;
	return 0;
}

/* Of entity a[0]: vruntime, deadline, lag or protection, slice, delayed, relative, asked for, in a
 * queue. */
SEC("syscall") u64 t_read(u64 *a)
{
	struct fair_entity *e = entity(a[0]);

	a[0] = e->vruntime;
	a[1] = e->turn.deadline;
	a[2] = e->turn.lag;
	a[3] = e->turn.slice_ns;
	a[4] = e->turn.delayed;
	a[5] = e->relative;
	a[6] = e->turn.custom;
	a[7] = e->on_rq;
	return 0;
}

/* V of the root queue. */
SEC("syscall") u64 t_virtual_time(u64 *a)
{
	return virtual_time(queue_of(0, 0));
}

SEC("syscall") u64 t_is_eligible(u64 *a)
{
	return is_eligible(queue_of(0, 0), a[0]);
}

/* The pick of the root queue, without buddies and whoever is delayed; a[0]: protection counts. */
SEC("syscall") u64 t_earliest(u64 *a)
{
	return earliest_eligible(queue_of(0, 0), a[0]);
}

/* Task a[0] joins at a[1] ns. */
SEC("syscall") u64 t_enqueue(u64 *a)
{
	enqueue_task(a[0], a[1], true);
	return 0;
}

/* Task a[0], delayed, wakes up at a[1] ns. */
SEC("syscall") u64 t_rejoin(u64 *a)
{
	rejoin_task(a[0], a[1]);
	return 0;
}

/* Task a[0] leaves at a[1] ns, how: a[2]. */
SEC("syscall") u64 t_dequeue(u64 *a)
{
	dequeue_task(a[0], a[1], a[2]);
	return 0;
}

/* The same, whether it is delayed or not: 0 if it is now. */
SEC("syscall") u64 t_leave(u64 *a)
{
	leave_queues(begin_climb(a[0], a[2]), a[1]);
	return !entity(a[0])->on_rq;
}

/* Charges have asked for a pick; forgotten if a[0]. */
SEC("syscall") u64 t_over(u64 *a)
{
	bool over = wants_pick(0);

	if (a[0])
		cpu_turns(0)->over = false;
	return over;
}

/* Would task a[0], just queued, be preferred to task a[1], which runs, at a[2] ns? */
SEC("syscall") u64 t_wakeup_test(u64 *a)
{
	return wakeup_test(a[1], a[0], a[2]);
}

/* Does task a[0], which has come, preempt at a[1] ns? a[2]: another one is about to do so. */
SEC("syscall") u64 t_preempts(u64 *a)
{
	cpu_state(0)->resched = a[2];
	return preempts(a[0], a[1]);
}

/* Entities in the root queue. */
SEC("syscall") u64 t_nr_queued(u64 *a)
{
	return queue(queue_of(0, 0))->nr_running;
}

SEC("syscall") u64 t_is_protected(u64 *a)
{
	return is_protected(a[0]);
}

/* The pick at a[0] ns, after those that are delayed have left; it gets the turn if a[1]. */
SEC("syscall") u64 t_pick(u64 *a)
{
	u32 i = 0, try;

	bpf_for (try, 0, MAX_TASKS) {
		i = pick_task(0, a[0]);
		if (!i || !is_delayed(i))
			break;
		dequeue_task(i, a[0], 0);
	}
	if (a[1] && i) {
		if (cpu_state(0)->curr != i)
			switch_to(i, a[0]);
		resume_current(i, a[0]);
	}
	return i;
}

/* Who is current in the root queue and below, is put back: nobody runs. */
SEC("syscall") u64 t_idle(u64 *a)
{
	put_current(queue_of(0, 0), a[0]);
	cpu_state(0)->curr = 0;
	return 0;
}

/* Task a[0] gets the turn, as set_next_task() does. */
SEC("syscall") u64 t_set_current(u64 *a)
{
	switch_to(a[0], a[1]);
	resume_current(a[0], a[1]);
	return 0;
}

SEC("syscall") u64 t_tick(u64 *a)
{
	return tick_task(a[0], a[1]);
}

SEC("syscall") u64 t_yield(u64 *a)
{
	return yield_task(a[0], a[1]);
}

/* Entity a[0] gets weight a[1], in units of the table, at a[2] ns where it is. */
SEC("syscall") u64 t_reweight(u64 *a)
{
	reweight_group(a[0], a[1] << WEIGHT_SHIFT, a[2]);
	return 0;
}

/* The nice value of task a[0], in no queue or delayed, becomes a[1] at a[2] ns; or if a[3] it asks
 * for a slice of a[1] ns, 0: for none. */
SEC("syscall") u64 t_change(u64 *a)
{
	struct task_struct p = {};
	u32 i = a[0];
	struct fair_entity *e = entity(i);
	struct fair_load load = e->load;

	p.se.custom_slice = e->turn.custom;
	p.se.slice = e->turn.slice_ns;
	if (a[3]) {
		p.se.custom_slice = a[1] != 0;
		p.se.slice = a[1];
	} else {
		load_of_nice(&load, a[1], false);
		e->nice = a[1];
	}
	reweight_at(&p, i, &load, a[2]);
	return 0;
}

/* Group a[0] gets a[1] shares at a[2] ns. */
SEC("syscall") u64 t_shares(u64 *a)
{
	group(a[0])->shares = clamp_shares(a[1]);
	apply_shares(queue_of(a[0], 0), a[2]);
	return 0;
}
