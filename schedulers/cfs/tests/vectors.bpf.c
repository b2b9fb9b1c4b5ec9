/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handles on the insides of cfs for tests: each program takes its arguments in eight u64 and
 * leaves its results there. No kernel is needed: none of them looks up a map or takes a lock.
 */
#include <scx/common.bpf.h>

#include "../cfs.bpf.c"

/* A lone average, for ramps and decays. */
static struct pelt scratch;

/* An empty machine. a[0] possible CPUs, a[1] CPUs that count for scaling. */
SEC("syscall") u64 t_reset(u64 *a)
{
	u32 cpu;

	nr_cpus = a[0];
	task_slots_fresh = 1;
	bpf_for (cpu, 0, MAX_CPUS)
		__builtin_memset(cpu_state(cpu), 0, sizeof(struct fair_cpu));
	__builtin_memset(&scratch, 0, sizeof(scratch));
	scale_tunables(a[1]);
	setup_group(0, 0, NICE_0_WEIGHT);
	return 0;
}

/* A group: a[0] its index, a[1] its parent, a[2] shares. */
SEC("syscall") u64 t_group(u64 *a)
{
	setup_group(a[0], a[1], a[2]);
	return 0;
}

/* Group a[0] gets a[1] shares while it is in use. */
SEC("syscall") u64 t_set_shares(u64 *a)
{
	group(a[0])->shares = clamp_shares(a[1]);
	return 0;
}

/* min_vruntime of the queue of group a[0] on CPU a[1]; set to a[2] first if a[3]. */
SEC("syscall") u64 t_min_vruntime(u64 *a)
{
	struct fair_queue *cfs_rq = queue(queue_of(a[0], a[1]));

	if (a[3])
		cfs_rq->min_vruntime = a[2];
	return cfs_rq->min_vruntime;
}

/* A new task: a[0] nice, a[1] policy, a[2] group, a[3] CPU, a[4] vruntime. Returns its index. */
SEC("syscall") u64 t_task(u64 *a)
{
	u32 i = task_slots_fresh++;
	struct fair_entity *e = entity(i);

	__builtin_memset(e, 0, sizeof(*e));
	e->nice = a[0];
	e->policy = a[1];
	e->group = a[2];
	e->cpu = a[3];
	e->queue = queue_of(e->group, e->cpu);
	e->vruntime = a[4];
	e->newborn = true;
	e->placed = true;
	load_of_nice(&e->load, e->nice, e->policy == POLICY_IDLE);
	pelt_newborn(&e->pelt, table_units(e->load.weight));
	return i;
}

/* Task a[0] is queued at a[1] ns; a[2]: by a wakeup. */
SEC("syscall") u64 t_enqueue(u64 *a)
{
	enqueue_task(a[0], a[1], a[2]);
	return entity(a[0])->vruntime;
}

/* Task a[0] leaves at a[1] ns, how: a[2]. */
SEC("syscall") u64 t_dequeue(u64 *a)
{
	dequeue_task(a[0], a[1], a[2]);
	return entity(a[0])->vruntime;
}

/* Task a[0], not queued, goes to CPU a[1]: its queue is set, its vruntime stays. */
SEC("syscall") u64 t_move(u64 *a)
{
	struct fair_entity *e = entity(a[0]);

	detach_load(a[0], a[2]);
	e->cpu = a[1];
	e->queue = queue_of(e->group, e->cpu);
	return 0;
}

/* The pick of CPU a[0] at a[1] ns; it gets the turn if a[2]. */
SEC("syscall") u64 t_pick(u64 *a)
{
	u32 i = pick_task(a[0], a[1]);

	if (a[2] && i) {
		if (cpu_state(a[0])->curr != i)
			switch_to(i, a[1]);
		resume_current(i, a[1]);
	}
	return i;
}

/* Is the turn of task a[0] over at a tick at a[1] ns? */
SEC("syscall") u64 t_tick(u64 *a)
{
	return tick_task(a[0], a[1]);
}

/* Slice of entity a[0]; as vruntime if a[1]. */
SEC("syscall") u64 t_slice(u64 *a)
{
	u64 slice = slice_ns(a[0]);

	return a[1] ? calc_delta_fair(slice, &entity(a[0])->load) : slice;
}

/* vruntime that a[0] ns cost at nice a[1]. */
SEC("syscall") u64 t_fair(u64 *a)
{
	struct fair_load load;

	load_of_nice(&load, a[1], false);
	return calc_delta_fair(a[0], &load);
}

/* Places entity a[0] at vruntime a[1] as a wakee, or as a newborn if a[2]. */
SEC("syscall") u64 t_place(u64 *a)
{
	struct fair_entity *e = entity(a[0]);

	e->vruntime = a[1];
	if (a[2])
		place_newborn(e->queue, a[0]);
	else
		place_wakee(e->queue, a[0]);
	return e->vruntime;
}

/* wakeup_test of curr a[0] and wakee a[1]. */
SEC("syscall") u64 t_wakeup_test(u64 *a)
{
	return (s64)wakeup_test(a[0], a[1]);
}

/* Does task a[0], queued, preempt at a[1] ns? a[2]: another one is about to do so. */
SEC("syscall") u64 t_preempts(u64 *a)
{
	cpu_state(entity(a[0])->cpu)->resched = a[2];
	return preempts(a[0], a[1]);
}

/* Task a[0] yields at a[1] ns. */
SEC("syscall") u64 t_yield(u64 *a)
{
	return yield_task(a[0], a[1]);
}

/* Marks entity a[0]: a[1] 0 next, 1 last, 2 skip. */
SEC("syscall") u64 t_mark(u64 *a)
{
	if (a[1] == 0)
		set_next_buddy(a[0]);
	else if (a[1] == 1)
		set_last_buddy(a[0]);
	else
		set_skip_buddy(a[0]);
	return 0;
}

/* vruntime of entity a[0]; set to a[1] first if a[2]. */
SEC("syscall") u64 t_vruntime(u64 *a)
{
	if (a[2])
		entity(a[0])->vruntime = a[1];
	return entity(a[0])->vruntime;
}

SEC("syscall") u64 t_sum_exec(u64 *a)
{
	return entity(a[0])->sum_exec_ns;
}

/* The entity that stands for group a[0] on CPU a[1]. */
SEC("syscall") u64 t_group_entity(u64 *a)
{
	return owner_of(queue_of(a[0], a[1]));
}

/* Weight of entity a[0] in units of the table. */
SEC("syscall") u64 t_weight(u64 *a)
{
	return table_units(entity(a[0])->load.weight);
}

/* Weight of the group of queue (a[0], CPU a[1]) if its queue weighs a[2] of a[3] in all. */
SEC("syscall") u64 t_shares(u64 *a)
{
	u32 q = queue_of(a[0], a[1]);

	queue(q)->weight = a[2] << WEIGHT_SHIFT;
	group(a[0])->load_avg = a[3] - a[2];
	queue(q)->announced_avg = 0;
	return table_units(group_weight(q));
}

/* The lone average: a[0] at what time, a[1] weight, a[2] running. Leaves load_avg, util_avg. */
SEC("syscall") u64 t_pelt(u64 *a)
{
	bool crossed = pelt_update(&scratch, a[0], a[1], false, a[2]);

	a[0] = scratch.load_avg;
	a[1] = scratch.util_avg;
	return crossed;
}

/* Sets the sums of the lone average to a[0] times their limit at nice 0, its time to zero. */
SEC("syscall") u64 t_pelt_set(u64 *a)
{
	__builtin_memset(&scratch, 0, sizeof(scratch));
	scratch.load_sum = scratch.util_sum = a[0] * PELT_MAX * NICE_0_WEIGHT;
	return 0;
}

/* load_avg of entity a[0] at a[1] ns; leaves util_avg in a[0]. */
SEC("syscall") u64 t_load(u64 *a)
{
	u32 i = a[0];

	update_load(i, a[1]);
	a[0] = entity(i)->pelt.util_avg;
	return entity(i)->pelt.load_avg;
}

/* load_avg of the queue of group a[0] on CPU a[1]; leaves its runnable part in a[0]. */
SEC("syscall") u64 t_queue_load(u64 *a)
{
	struct pelt *pelt = &queue(queue_of(a[0], a[1]))->pelt;

	a[0] = pelt->runnable_avg;
	return pelt->load_avg;
}

/* Runnable tasks on CPU a[0]. */
SEC("syscall") u64 t_nr_tasks(u64 *a)
{
	return cpu_state(a[0])->nr_tasks;
}

/* The average idle time of CPU 0 of a[0], after it idled until a[1] ns since 1; a search costs it
 * a[2] at most. */
SEC("syscall") u64 t_avg_idle(u64 *a)
{
	struct fair_cpu *cs = cpu_state(0);

	cs->avg_idle_ns = a[0];
	cs->idle_since_ns = 1;
	cs->max_idle_cost_ns = a[2];
	end_idle(0, 1 + a[1]);
	return cs->avg_idle_ns;
}
