/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handles by which multicore.rs sets up machines and lets CFS decide on them: each program takes
 * its arguments in eight words and leaves its results there. Time stands still meanwhile.
 */
#include <scx/common.bpf.h>

#include "../cfs.bpf.c"

/* Entities that tests use. */
#define NR_ENTITIES 4096

struct words {
	s64 w[8];
};

/* The machine of the kernel for tests. Out: error. */
SEC("syscall")
int t_build(struct words *x)
{
	const struct cpumask *mask = scx_bpf_get_online_cpumask();

	nr_cpus = scx_bpf_nr_cpu_ids();
	x->w[0] = build_domains(mask, 0);
	return 0;
}

/* All idle, no task, nothing remembered, at @w[0] ns. */
SEC("syscall")
int t_clear(struct words *x)
{
	u32 i, level;

	setup_group(0, 0, NICE_0_WEIGHT);
	bpf_for (i, 0, nr_cpus) {
		__builtin_memset(cpu_state(i), 0, sizeof(struct fair_cpu));
		queue(i)->pelt.updated_ns = x->w[0];
		bpf_for (level, 0, nr_domains(i)) {
			struct cpu_domain *d = domain(i, level);

			d->interval_ms = d->nr_cpus;
			d->nr_failed = 0;
			d->last_balance = 0;
			d->next_decay = ~0ULL >> 1;
			d->max_newidle_ns = 0;
		}
	}
	bpf_for (i, 0, build.nr_groups)
		cpu_group(i)->imbalance = 0;
	bpf_for (i, 0, NR_ENTITIES)
		__builtin_memset(entity(i), 0, sizeof(struct fair_entity));
	__builtin_memset(&balances[0], 0, sizeof(balances[0]));
	init_cpus(scx_bpf_now());
	overload = 0;
	numa_balancing = 0;
	nohz_next_balance = 0;
	return 0;
}

/* In: CPU. Out: levels; CPUs of its cache; its lowest; whole capacity. */
SEC("syscall")
int t_topology(struct words *x)
{
	u32 cpu = x->w[0];

	x->w[1] = nr_domains(cpu);
	x->w[2] = llc_size(cpu);
	x->w[3] = ring_first(LEVEL_MC, cpu);
	x->w[4] = full_capacity(cpu);
	return 0;
}

/* In: CPU, level. Out: kind, CPUs, groups, prefer_sibling, places, tolerance. */
SEC("syscall")
int t_level(struct words *x)
{
	struct cpu_domain *d = domain(x->w[0], x->w[1]);

	x->w[2] = d->kind;
	x->w[3] = d->nr_cpus;
	x->w[4] = d->nr;
	x->w[5] = d->prefer_sibling;
	x->w[6] = d->places;
	x->w[7] = domain_pct(d);
	return 0;
}

/* In: CPU, level. Out: history of a busy, idle, newly idle CPU; tries; longest interval. */
SEC("syscall")
int t_level_figures(struct words *x)
{
	struct cpu_domain *d = domain(x->w[0], x->w[1]);

	x->w[2] = load_index(d, LB_BUSY);
	x->w[3] = load_index(d, LB_IDLE);
	x->w[4] = load_index(d, LB_NEWIDLE);
	x->w[5] = hot_tries(d);
	x->w[6] = max_interval_ms(d);
	return 0;
}

/* In: CPU, level, which group. Out: its number, CPUs, nodes, balancer, imbalance. */
SEC("syscall")
int t_group(struct words *x)
{
	struct cpu_domain *d = domain(x->w[0], x->w[1]);
	struct cpu_group *g = group_at(d, x->w[2]);

	x->w[3] = group_index(d, x->w[2]);
	x->w[4] = g->nr;
	x->w[5] = g->nodes;
	x->w[6] = g->balancer;
	x->w[7] = g->imbalance;
	return 0;
}

/* In: group, which member. Out: CPU. */
SEC("syscall")
int t_member(struct words *x)
{
	x->w[2] = member(cpu_group(x->w[0]), x->w[1]);
	return 0;
}

SEC("syscall")
int t_set_imbalance(struct words *x)
{
	cpu_group(x->w[0])->imbalance = x->w[1];
	return 0;
}

/* In: CPU, tasks, other tasks, load, utilisation, capacity. */
SEC("syscall")
int t_cpu(struct words *x)
{
	struct fair_cpu *cs = cpu_state(x->w[0]);
	struct fair_queue *cfs_rq = queue(x->w[0]);

	cs->nr_tasks = x->w[1];
	cs->nr_other = x->w[2];
	cfs_rq->pelt.runnable_avg = x->w[3];
	cfs_rq->pelt.util_avg = x->w[4];
	cs->capacity = x->w[5];
	return 0;
}

/* In: CPU, idle since, idle time, cost of a scan, exit latency, idle cores. */
SEC("syscall")
int t_cpu_idle(struct words *x)
{
	struct fair_cpu *cs = cpu_state(x->w[0]);

	cs->idle_since_ns = x->w[1];
	cs->avg_idle_ns = x->w[2];
	cs->scan_cost_ns = x->w[3];
	cs->exit_latency_us = x->w[4];
	cpu_state(ring_first(LEVEL_MC, x->w[0]))->has_idle_cores = x->w[5];
	return 0;
}

/* The same, out. */
SEC("syscall")
int t_cpu_idle_get(struct words *x)
{
	struct fair_cpu *cs = cpu_state(x->w[0]);

	x->w[1] = cs->idle_since_ns;
	x->w[2] = cs->avg_idle_ns;
	x->w[3] = cs->scan_cost_ns;
	x->w[5] = cpu_state(ring_first(LEVEL_MC, x->w[0]))->has_idle_cores;
	return 0;
}

/* In: CPU, most that a search for a task cost, next balance, whether it is asked to balance. */
SEC("syscall")
int t_cpu_balance(struct words *x)
{
	struct fair_cpu *cs = cpu_state(x->w[0]);

	cs->max_idle_cost_ns = x->w[1];
	cs->next_balance = x->w[2];
	cs->nohz_kick = x->w[3];
	return 0;
}

/* The same, out; and to whom it shall push a task. */
SEC("syscall")
int t_cpu_balance_get(struct words *x)
{
	struct fair_cpu *cs = cpu_state(x->w[0]);

	x->w[1] = cs->max_idle_cost_ns;
	x->w[2] = cs->next_balance;
	x->w[3] = cs->nohz_kick;
	x->w[4] = (s64)cs->push_to - 1;
	x->w[5] = cs->nr_tasks;
	return 0;
}

/* In: CPU, which average, value. */
SEC("syscall")
int t_history(struct words *x)
{
	cpu_state(x->w[0])->history[x->w[1] & (HISTORY_SLOTS - 1)] = x->w[2];
	return 0;
}

/* In: CPU, which average. */
SEC("syscall")
int t_history_get(struct words *x)
{
	x->w[2] = cpu_state(x->w[0])->history[x->w[1] & (HISTORY_SLOTS - 1)];
	return 0;
}

/* In: CPU, level, failed passes, interval, last balance, next decay, cost of a search. */
SEC("syscall")
int t_domain(struct words *x)
{
	struct cpu_domain *d = domain(x->w[0], x->w[1]);

	d->nr_failed = x->w[2];
	d->interval_ms = x->w[3];
	d->last_balance = x->w[4];
	d->next_decay = x->w[5];
	d->max_newidle_ns = x->w[6];
	return 0;
}

/* The same, out. */
SEC("syscall")
int t_domain_get(struct words *x)
{
	struct cpu_domain *d = domain(x->w[0], x->w[1]);

	x->w[2] = d->nr_failed;
	x->w[3] = d->interval_ms;
	x->w[4] = d->last_balance;
	x->w[6] = d->max_newidle_ns;
	return 0;
}

/* All CPUs: whether one has a task waiting, the NUMA levels are taken, idle ones are due. */
SEC("syscall")
int t_machine(struct words *x)
{
	overload = x->w[0];
	numa_balancing = x->w[1];
	nohz_next_balance = x->w[2];
	return 0;
}

SEC("syscall")
int t_machine_get(struct words *x)
{
	x->w[0] = overload;
	x->w[1] = numa_balancing;
	x->w[2] = nohz_next_balance;
	return 0;
}

/* In: entity, load, flips, last wakee, tick of their decay. */
SEC("syscall")
int t_entity(struct words *x)
{
	struct fair_entity *e = entity(x->w[0]);

	e->pelt.load_avg = x->w[1];
	e->flips = x->w[2];
	e->last_wakee = x->w[3];
	e->flips_tick = x->w[4];
	return 0;
}

/* The same, out. */
SEC("syscall")
int t_entity_get(struct words *x)
{
	struct fair_entity *e = entity(x->w[0]);

	x->w[1] = e->pelt.load_avg;
	x->w[2] = e->flips;
	x->w[3] = e->last_wakee;
	x->w[4] = e->flips_tick;
	x->w[5] = e->cpu;
	x->w[6] = e->on_rq;
	return 0;
}

/* A task that waits. In: entity, CPU, load, when it last ran, policy, now. Its pid is the
 * entity. */
SEC("syscall")
int t_task(struct words *x)
{
	struct fair_entity *e = entity(x->w[0]);

	e->custody.pid = x->w[0];
	e->cpu = x->w[1];
	e->queue = e->cpu;
	e->policy = x->w[4];
	e->attached = true;
	e->relative = true;
	load_of_nice(&e->load, 0, false);
	e->pelt.updated_ns = x->w[5];
	e->pelt.load_avg = x->w[2];
	enqueue_task(x->w[0], x->w[5], false);
	e->exec_start_ns = x->w[3];
	custody_begin(&e->custody, e->custody.pid);
	return 0;
}

/* In: task_struct, entity: callbacks about the former are about the latter. */
SEC("syscall")
int t_slot(struct words *x)
{
	struct task_struct *p = (struct task_struct *)x->w[0];
	struct slot *slot;

	slot = bpf_task_storage_get(&slots_of_tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!slot)
		return -1;
	slot->index = x->w[1];
	return 0;
}

/* In: task that runs, now. */
SEC("syscall")
int t_run(struct words *x)
{
	switch_to(x->w[0], x->w[1]);
	custody_end(&entity(x->w[0])->custody);
	return 0;
}

/* In: task, ns, CPU that could not hand it over. Out: whether it is queued. */
SEC("syscall")
int t_lost(struct words *x)
{
	unchoose(x->w[0], x->w[2], x->w[1], LEAVE_CPU | LEAVE_UNHELD);
	x->w[2] = entity(x->w[0])->on_rq;
	return 0;
}

/* In: CPU, load of its queue, blocked tasks included; runnable load; utilisation; buddies. */
SEC("syscall")
int t_queue(struct words *x)
{
	struct fair_queue *cfs_rq = queue(x->w[0]);

	cfs_rq->pelt.load_avg = x->w[1];
	cfs_rq->pelt.runnable_avg = x->w[2];
	cfs_rq->pelt.util_avg = x->w[3];
	cfs_rq->next = x->w[4];
	cfs_rq->last = x->w[5];
	return 0;
}

/* In: CPU. Out: its first task; in: entity. Out: the next one. */
SEC("syscall")
int t_first(struct words *x)
{
	x->w[1] = cpu_state(x->w[0])->first_task;
	return 0;
}

SEC("syscall")
int t_next(struct words *x)
{
	x->w[1] = entity(x->w[0])->list_next;
	return 0;
}

/* A group below the root. In: group, parent, CPU, shares, its load, what this CPU has announced of
 * it, load of its queue here, of the entity that stands for it here. */
SEC("syscall")
int t_task_group(struct words *x)
{
	u32 q;

	setup_group(x->w[0], x->w[1], NICE_0_WEIGHT);
	group(x->w[0])->shares = x->w[3];
	group(x->w[0])->load_avg = x->w[4];
	q = queue_of(x->w[0], x->w[2]);
	queue(q)->announced_avg = x->w[5];
	queue(q)->pelt.load_avg = x->w[6];
	entity(owner_of(q))->pelt.load_avg = x->w[7];
	return 0;
}

/* Decisions ------------------------------------------------------------------------------ */

/* In: flips of waker and wakee, CPUs of the cache. */
SEC("syscall")
int t_wide(struct words *x)
{
	x->w[3] = wake_wide(x->w[0], x->w[1], x->w[2]);
	return 0;
}

/* In: waker, wakee, tick. */
SEC("syscall")
int t_record(struct words *x)
{
	record_wakee(x->w[0], x->w[1], x->w[2]);
	return 0;
}

/* In: wakee, waker, last CPU, waker's CPU, whether sync. Out: pulled; its tolerance. */
SEC("syscall")
int t_affine(struct words *x)
{
	x->w[5] = pulled_to_waker(x->w[0], x->w[1], x->w[2], x->w[3], x->w[4]);
	return 0;
}

/* In: group, CPU, load, load of the whole group. */
SEC("syscall")
int t_effective(struct words *x)
{
	x->w[4] = effective_load(queue_of(x->w[0], x->w[1]), x->w[2], x->w[3]);
	return 0;
}

/* In: task, its group, CPU, load, tick. */
SEC("syscall")
int t_h_load(struct words *x)
{
	entity(x->w[0])->queue = queue_of(x->w[1], x->w[2]);
	entity(x->w[0])->pelt.load_avg = x->w[3];
	x->w[5] = task_h_load(x->w[0], x->w[4]);
	return 0;
}

/* In: task_struct, target, last CPU. */
SEC("syscall")
int t_idle_sibling(struct words *x)
{
	x->w[3] = idle_sibling((void *)x->w[0], x->w[1], x->w[2]);
	return 0;
}

SEC("syscall")
int t_note_idle_core(struct words *x)
{
	note_idle_core(x->w[0]);
	return 0;
}

/* In: CPU. */
SEC("syscall")
int t_is_idle(struct words *x)
{
	x->w[1] = is_idle(x->w[0]);
	return 0;
}

/* In: task_struct, CPU, level. Out: group, -1 the own one. */
SEC("syscall")
int t_idlest_group(struct words *x)
{
	x->w[3] = idlest_group((void *)x->w[0], x->w[1], x->w[2]);
	return 0;
}

/* In: task_struct, group, CPU. */
SEC("syscall")
int t_idlest_cpu(struct words *x)
{
	x->w[3] = idlest_cpu((void *)x->w[0], x->w[1], x->w[2]);
	return 0;
}

/* In: task_struct, entity, waker (-1: the task is new), last CPU, whether sync, tick. */
SEC("syscall")
int t_place(struct words *x)
{
	if (x->w[2] < 0) {
		x->w[6] = place_new((void *)x->w[0], bpf_get_smp_processor_id(), x->w[3]);
		return 0;
	}
	record_wakee(x->w[2], x->w[1], x->w[5]);
	x->w[6] = place_wakee_near((void *)x->w[0], x->w[1], x->w[2], x->w[3], x->w[4]);
	return 0;
}

/* In: CPU, level, state, now. The pass that the next ones are about. */
SEC("syscall")
int t_pass(struct words *x)
{
	struct balance *b = this_balance();

	__builtin_memset(b, 0, sizeof(*b));
	b->cpu = x->w[0];
	b->dst = x->w[0];
	b->level = x->w[1];
	b->idle = x->w[2];
	b->now_ns = x->w[3];
	return 0;
}

/* In: CPU. */
SEC("syscall")
int t_leave_out(struct words *x)
{
	leave_out(this_balance(), x->w[0]);
	return 0;
}

/* Out: candidate; busiest group; imbalance; busiest CPU; average of the domain. */
SEC("syscall")
int t_busiest(struct words *x)
{
	struct balance *b = this_balance();

	x->w[0] = busiest_candidate();
	x->w[4] = b->compared.domain_avg;
	x->w[5] = b->compared.total_load;
	x->w[6] = b->compared.total_capacity;
	x->w[1] = busiest_group();
	x->w[2] = b->imbalance;
	x->w[3] = x->w[1] < 0 ? -1 : busiest_cpu(x->w[1], domain_pct(domain(b->cpu, b->level)));
	return 0;
}

/* In: whether of the busiest group. Out: average, load, runnable, per task, capacity,
 * utilisation, tasks, idle CPUs; the rest by t_stats_type. As busiest_candidate() left them. */
SEC("syscall")
int t_stats(struct words *x)
{
	struct balance *b = this_balance();
	struct group_stats *s;

	busiest_candidate();
	s = x->w[0] ? &b->compared.busiest : &b->compared.local;
	x->w[0] = s->avg;
	x->w[1] = s->load;
	x->w[2] = s->runnable;
	x->w[3] = s->per_task;
	x->w[4] = s->capacity;
	x->w[5] = s->util;
	x->w[6] = s->nr_running;
	x->w[7] = s->nr_idle | s->type << 16 | s->no_capacity << 24;
	return 0;
}

/* In: group, imbalance, tolerance. */
SEC("syscall")
int t_busiest_cpu(struct words *x)
{
	this_balance()->imbalance = x->w[1];
	x->w[3] = busiest_cpu(x->w[0], x->w[2]);
	return 0;
}

SEC("syscall")
int t_should_balance(struct words *x)
{
	x->w[0] = should_balance();
	return 0;
}

/* In: source, destination. */
SEC("syscall")
int t_needs_push(struct words *x)
{
	struct balance *b = this_balance();

	b->src = x->w[0];
	b->dst = x->w[1];
	x->w[2] = needs_push(b, domain(b->cpu, b->level));
	return 0;
}

/* In: CPU, level, interval in ms. Out: ticks between passes of an idle and of a busy CPU. */
SEC("syscall")
int t_interval(struct words *x)
{
	struct cpu_domain *d = domain(x->w[0], x->w[1]);

	d->interval_ms = x->w[2];
	x->w[3] = interval_ticks(d, false);
	x->w[4] = interval_ticks(d, true);
	return 0;
}

/* In: source, imbalance, most tasks. Out: how many, what is left; some pinned, all pinned, other
 * destination. */
SEC("syscall")
int t_detach(struct words *x)
{
	struct balance *b = this_balance();

	b->src = x->w[0];
	b->imbalance = x->w[1];
	b->loop_max = x->w[2];
	b->new_dst = NOWHERE;
	b->all_pinned = true;
	x->w[0] = detach_tasks();
	x->w[1] = b->imbalance;
	x->w[2] = b->some_pinned;
	x->w[3] = b->all_pinned;
	x->w[4] = b->new_dst == NOWHERE ? -1 : (s64)b->new_dst;
	return 0;
}

/* In: which. Out: task. */
SEC("syscall")
int t_detached(struct words *x)
{
	x->w[1] = this_balance()->detached[x->w[0] & (MAX_SEEN - 1)];
	return 0;
}

/* In: CPU, level, state, now. Out: tasks moved, whether to go on. */
SEC("syscall")
int t_balance(struct words *x)
{
	x->w[5] = balance_domain(x->w[0], x->w[1], x->w[2], x->w[3]);
	x->w[4] = this_balance()->nr_moved;
	return 0;
}

/* In: CPU, now. */
SEC("syscall")
int t_push(struct words *x)
{
	push_task(x->w[0], cpu_state(x->w[0])->curr, x->w[1]);
	return 0;
}

/* In: CPU, now. Out: tasks found. */
SEC("syscall")
int t_newidle(struct words *x)
{
	x->w[2] = balance_newidle(x->w[0], x->w[1]);
	x->w[3] = this_balance()->nr_moved;
	return 0;
}

/* In: CPU, state, now. */
SEC("syscall")
int t_rebalance(struct words *x)
{
	rebalance(x->w[0], x->w[1], x->w[2]);
	return 0;
}

/* In: CPU, tick, busy CPUs of its cache: what a tick does for the idle CPUs. */
SEC("syscall")
int t_kick(struct words *x)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();

	if (bpf_cpumask_first(idle) < nr_cpus && needs_idle_balancer(x->w[0], x->w[1], x->w[2]))
		kick_idle_balancer(idle);
	scx_bpf_put_idle_cpumask(idle);
	return 0;
}

/* In: CPU, tick. Out: whether it balances. */
SEC("syscall")
int t_due(struct words *x)
{
	x->w[2] = is_due(x->w[0], x->w[1]);
	return 0;
}

/* In: CPU, to whom it is to push a task. */
SEC("syscall")
int t_set_push(struct words *x)
{
	cpu_state(x->w[0])->push_to = x->w[1] + 1;
	return 0;
}

/* In: entity. Out: whether it is on its way. */
SEC("syscall")
int t_moving(struct words *x)
{
	x->w[1] = entity(x->w[0])->moving;
	return 0;
}

/* In: CPU, load, ticks. */
SEC("syscall")
int t_history_update(struct words *x)
{
	history_update(cpu_state(x->w[0]), x->w[1], x->w[2]);
	return 0;
}

/* In: CPU, index. Out: source_load, target_load. */
SEC("syscall")
int t_loads(struct words *x)
{
	x->w[2] = source_load(x->w[0], x->w[1]);
	x->w[3] = target_load(x->w[0], x->w[1]);
	return 0;
}

/* In: CPU, average of other classes, ns since its last decay. Out: capacity. */
SEC("syscall")
int t_capacity(struct words *x)
{
	cpu_state(x->w[0])->other_avg = x->w[1];
	cpu_state(x->w[0])->other_stamp_ns = 0;
	update_capacity(x->w[0], x->w[2]);
	x->w[3] = capacity_of(x->w[0]);
	return 0;
}

/* In: group, history. Out: capacity. */
SEC("syscall")
int t_group_capacity(struct words *x)
{
	count_group(x->w[0], true, 0, 117);
	x->w[1] = this_balance()->compared.stats.capacity;
	return 0;
}
