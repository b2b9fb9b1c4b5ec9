/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handles by which the tests set up states of SD, let it decide, and look: programs of eight words.
 * Tasks are named by their index.
 */
#include <scx/common.bpf.h>

#include "../sd.bpf.c"

struct words {
	s64 w[8];
};

/* In: CPUs that count. Out: error. */
SEC("syscall")
int t_setup(struct words *x)
{
	nr_cpus = x->w[0];
	nr_online = nr_cpus;
	x->w[0] = quotas_init(nr_cpus);
	return 0;
}

/* In: static level. Out: slots, quota in us, entitlement in ms, load weight, first slot. */
SEC("syscall")
int t_quota(struct words *x)
{
	u32 level = nth(x->w[0]);

	x->w[1] = slots_of[level];
	x->w[2] = quotas_us[level];
	x->w[3] = entitlement_ms(level);
	x->w[4] = weight_of(level, false);
	x->w[5] = first_slot(slots_of[level]);
	return 0;
}

/* In: CPUs. Out: rr_interval. */
SEC("syscall")
int t_rr(struct words *x)
{
	x->w[1] = rr_interval_ms(x->w[0]);
	return 0;
}

/* In: CPU, rotation, best static levels of active and expired, clock. An empty CPU. */
SEC("syscall")
int t_cpu(struct words *x)
{
	struct sd_cpu *c = cpu_state(x->w[0]);

	__builtin_memset(c, 0, sizeof(*c));
	c->rotation = x->w[1];
	c->best[0] = x->w[2];
	c->best[1] = x->w[3];
	c->rq.clock_ns = x->w[4];
	return 0;
}

/* In: CPU, static level, level. */
SEC("syscall")
int t_reached(struct words *x)
{
	cpu_state(x->w[0])->reached[nth(x->w[1])] = x->w[2];
	return 0;
}

/* In: CPU, static level. Out: level. */
SEC("syscall")
int t_reached_get(struct words *x)
{
	x->w[2] = cpu_state(x->w[0])->reached[nth(x->w[1])];
	return 0;
}

/* In: CPU. Out: rotation, best static levels of active and expired, running task, whether to choose
 * again, number of tasks, level that is served. */
SEC("syscall")
int t_cpu_get(struct words *x)
{
	struct sd_cpu *c = cpu_state(x->w[0]);

	x->w[1] = c->rotation;
	x->w[2] = c->best[c->rq.active & 1];
	x->w[3] = c->best[expired_of(&c->rq) & 1];
	x->w[4] = c->rq.curr;
	x->w[5] = c->rq.need_resched;
	x->w[6] = c->rq.nr_running;
	x->w[7] = c->served;
	return 0;
}

/* In: task, static level, policy, granted slots, rotation, CPU, whether expired, slice. */
SEC("syscall")
int t_task(struct words *x)
{
	struct sd_task *t = task(x->w[0]);

	__builtin_memset(t, 0, sizeof(*t));
	t->static_level = x->w[1];
	t->policy = x->w[2];
	t->granted = x->w[3];
	t->rotation = x->w[4];
	t->home = x->w[5];
	t->rq.cpu = x->w[5];
	t->array = x->w[6] ^ cpu_rq(t->home)->active;
	t->slice_us = x->w[7];
	t->rq.array = UNQUEUED;
	t->rq.affinity.anywhere = true;
	t->rq.load_weight = weight_of(nth(t->static_level), false);
	return 0;
}

/* In: task, priority, whether it has its first slice, when it ran last, load weight or 0, affinity:
 * -1 or a CPU, whether a synchronous wakeup, whether held by the scheduler. */
SEC("syscall")
int t_task_more(struct words *x)
{
	struct sd_task *t = task(x->w[0]);

	t->rq.prio = x->w[1];
	t->first_slice = x->w[2];
	t->rq.last_ran_ns = x->w[3];
	t->charged_ns = x->w[3];
	if (x->w[4])
		t->rq.load_weight = x->w[4];
	t->rq.affinity.anywhere = x->w[5] < 0;
	t->rq.affinity.only = x->w[5];
	t->rq.sync = x->w[6];
	t->rq.custody.held = x->w[7];
	return 0;
}

/* In: task. Out: its weight in the load. */
SEC("syscall")
int t_weight_get(struct words *x)
{
	x->w[1] = task(x->w[0])->rq.load_weight;
	return 0;
}

/* In: task. Out: static level, granted slots, rotation, slice, priority, array in which it is
 * queued or 2, CPU; whether it has its first slice. */
SEC("syscall")
int t_task_get(struct words *x)
{
	struct sd_task *t = task(x->w[0]);

	x->w[0] = t->static_level;
	x->w[1] = t->granted;
	x->w[2] = t->rotation;
	x->w[3] = t->slice_us;
	x->w[4] = t->rq.prio;
	x->w[5] = t->rq.array;
	x->w[6] = t->rq.cpu;
	x->w[7] = t->first_slice;
	return 0;
}

/* In: CPU, task, whether it runs. At the tail of its level. */
SEC("syscall")
int t_queue(struct words *x)
{
	struct runqueue *rq = cpu_rq(x->w[0]);
	u32 i = x->w[1];

	enqueue_tail(rq, i, task(i)->array);
	inc_nr_running(rq, i);
	if (x->w[2])
		rq->curr = i;
	return 0;
}

/* In: CPU, whether expired, level. Out: the first task there, or 0. */
SEC("syscall")
int t_first(struct words *x)
{
	struct runqueue *rq = cpu_rq(x->w[0]);
	struct prio_array *a = rq_array(rq, rq->active ^ x->w[1]);
	u32 level = x->w[2] & (RQ_LEVELS - 1);

	x->w[3] = a->bitmap & 1ULL << level ? a->head[level] : 0;
	return 0;
}

/* In: task. Out: the next one in its list. */
SEC("syscall")
int t_next(struct words *x)
{
	x->w[1] = rq_task(x->w[0])->next;
	return 0;
}

/* In: CPU, task. Out: slot. */
SEC("syscall")
int t_slot(struct words *x)
{
	x->w[2] = next_slot(cpu_state(x->w[0]), task(x->w[1]));
	return 0;
}

/* In: CPU, task. */
SEC("syscall")
int t_place(struct words *x)
{
	place(x->w[0], x->w[1]);
	return 0;
}

/* In: time in ns, whether at a tick. Out: microseconds. */
SEC("syscall")
int t_charge(struct words *x)
{
	x->w[2] = charge_us(x->w[0], x->w[1]);
	return 0;
}

/* In: CPU, task that leaves the queue before or 0, now. Out: who runs. */
SEC("syscall")
int t_pick(struct words *x)
{
	if (x->w[1])
		depart(x->w[1], x->w[2], LEAVE_QUEUE);
	x->w[3] = schedule(x->w[0], 0, x->w[2]);
	if (!x->w[3])
		begin_idle(x->w[0], x->w[2]);
	return 0;
}

/* In: CPU, task, now. */
SEC("syscall")
int t_tick(struct words *x)
{
	tick_task(x->w[0], x->w[1], x->w[2]);
	return 0;
}

/* In: CPU, task, whether the waker is on that CPU. Out: whether it preempts. */
SEC("syscall")
int t_wake(struct words *x)
{
	struct rq_task *t = rq_task(x->w[1]);

	activate(x->w[0], x->w[1], false, 0);
	t->sync = t->sync && x->w[2];
	x->w[3] = preempts(cpu_rq(x->w[0]), x->w[1]);
	return 0;
}

/* In: CPU, new task, its parent, whether it is a thread. Out: whether the CPU chooses again. */
SEC("syscall")
int t_fork(struct words *x)
{
	u32 i = x->w[1], parent = x->w[2];

	fork_task(i, parent, 0);
	rq_task(i)->thread = x->w[3];
	activate(x->w[0], i, false, 0);
	x->w[4] = preempts(cpu_rq(x->w[0]), i);
	end_fork(i);
	return 0;
}

/* In: parent, task that exits. */
SEC("syscall")
int t_exit(struct words *x)
{
	inherit(x->w[0], x->w[1]);
	return 0;
}

/* In: CPU, task. */
SEC("syscall")
int t_yield(struct words *x)
{
	yield_turn(x->w[0], x->w[1]);
	return 0;
}

/* In: CPU, task, static level. */
SEC("syscall")
int t_renice(struct words *x)
{
	renice(x->w[0], x->w[1], x->w[2], task(x->w[1])->policy);
	return 0;
}

/* In: CPU that gets tasks, one that gives, failed passes, most tasks, most load, now. Out: tasks
 * moved, whether none was allowed here. */
SEC("syscall")
int t_move(struct words *x)
{
	struct balance *b = this_balance();
	u32 to = x->w[0], from = x->w[1];

	domain(to, 0)->kind = KIND_CPU;
	domain(to, 0)->nr_failed = x->w[2];
	b->cpu = to;
	b->src = from;
	b->level = 0;
	b->idle = LB_BUSY;
	b->now_ns = x->w[5];
	b->nr_moved = 0;
	b->max_moved = x->w[3];
	b->rem_load = x->w[4];
	b->all_pinned = true;
	b->this_best_prio = rq_best_prio(cpu_rq(to), curr_prio(cpu_rq(to)));
	detach_tasks(b, cpu_rq(from), curr_prio(cpu_rq(from)));
	attach_tasks();
	x->w[6] = b->nr_moved;
	x->w[7] = b->all_pinned;
	return 0;
}

/* Whole schedules ----------------------------------------------------------------------------- */

/* In: tick. All domains of the machine, balanced last at this tick; its CPUs are due one after the
 * other. */
SEC("syscall")
int t_build(struct words *x)
{
	const struct cpumask *mask = scx_bpf_get_online_cpumask();
	u64 tick = x->w[0];
	u32 cpu;

	nr_cpus = scx_bpf_nr_cpu_ids();
	nr_online = 0;
	x->w[0] = build_domains(mask, tick) ?: quotas_init(nr_online);
	bpf_for (cpu, 0, nr_cpus) {
		cpu_rq(cpu)->load_tick = tick;
		cpu_rq(cpu)->next_balance = tick + 1 + cpu;
	}
	idle_next_balance = ~0ULL >> 1;
	return 0;
}

/* In: CPU, now. A tick, of an idle CPU too. */
SEC("syscall")
int t_cpu_tick(struct words *x)
{
	struct runqueue *rq = cpu_rq(x->w[0]);

	if (rq->curr)
		tick_task(x->w[0], rq->curr, x->w[1]);
	update_cpu_load(rq, tick_of(x->w[1]));
	return 0;
}

/* In: CPU, whether it idles, now. What its tick does if that is due. Out: CPU that is asked to push
 * a task, or -1. */
SEC("syscall")
int t_rebalance(struct words *x)
{
	u32 cpu;

	if (is_due(x->w[0], tick_of(x->w[2])))
		rebalance(x->w[0], x->w[1] ? LB_IDLE : LB_BUSY, x->w[2]);
	x->w[3] = -1;
	bpf_for (cpu, 0, nr_cpus) {
		if (!cpu_rq(cpu)->push_to)
			continue;
		x->w[3] = cpu;
		cpu_rq(cpu)->push_to = 0;
	}
	return 0;
}

/* In: CPU, now. It has run dry. */
SEC("syscall")
int t_newidle(struct words *x)
{
	x->w[2] = balance_newidle(x->w[0], x->w[1]);
	return 0;
}

/* In: kernel's task, task, its last CPU, tick. Out: CPU. */
SEC("syscall")
int t_place_wakee(struct words *x)
{
	x->w[4] = place_wakee((struct task_struct *)x->w[0], x->w[1], x->w[2], false, x->w[3]);
	return 0;
}

/* In: task, CPU, now. It wakes up there. */
SEC("syscall")
int t_join(struct words *x)
{
	u32 i = x->w[0], cpu = x->w[1];

	settle(i, cpu, x->w[2]);
	join(cpu, i, false, x->w[2]);
	custody_begin(&rq_task(i)->custody, i);
	preempts(cpu_rq(cpu), i);
	return 0;
}

/* In: task, now. It blocks. */
SEC("syscall")
int t_block(struct words *x)
{
	depart(x->w[0], x->w[1], LEAVE_QUEUE);
	return 0;
}

/* In: task. It slept uninterruptibly. */
SEC("syscall")
int t_unsuitable(struct words *x)
{
	task(x->w[0])->unsuitable = task(x->w[0])->policy == POLICY_IDLE;
	return 0;
}

/* In: task, now. It begins to run. */
SEC("syscall")
int t_begin(struct words *x)
{
	task(x->w[0])->charged_ns = x->w[1];
	return 0;
}

/* In: CPU. It chooses again. */
SEC("syscall")
int t_resched_done(struct words *x)
{
	cpu_rq(x->w[0])->need_resched = false;
	return 0;
}

/* In: CPU, level that is served, what is left of its quota. RSDL. */
SEC("syscall")
int t_level_quota(struct words *x)
{
	struct sd_cpu *c = cpu_state(x->w[0]);

	c->served = x->w[1];
	c->level_quota_us[nth(x->w[1])] = x->w[2];
	return 0;
}

/* In: CPU, when its rotation began. */
SEC("syscall")
int t_rotation_began(struct words *x)
{
	cpu_state(x->w[0])->rotation_ns = x->w[1];
	return 0;
}

/* In: CPU. Out: averages of its load. */
SEC("syscall")
int t_load_get(struct words *x)
{
	x->w[1] = cpu_rq(x->w[0])->cpu_load[0];
	x->w[2] = cpu_rq(x->w[0])->cpu_load[1];
	x->w[3] = cpu_rq(x->w[0])->cpu_load[2];
	return 0;
}

/* In: CPU, to whom it is to push a task. */
SEC("syscall")
int t_push_to(struct words *x)
{
	cpu_rq(x->w[0])->push_to = x->w[1] + 1;
	return 0;
}

/* In: task, CPU. Out: whether balancing may move it there; load of the CPU. */
SEC("syscall")
int t_may_run(struct words *x)
{
	x->w[2] = affinity_has(&rq_task(x->w[0])->affinity, x->w[1]);
	x->w[3] = cpu_load(x->w[1]);
	return 0;
}
