/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handles by which groups.rs, balancing.rs and passes.rs set up machines and let the fair class of
 * Linux 6.18 decide on them: each program takes its arguments in eight words and leaves its results
 * there. Time stands still meanwhile.
 */
#include <scx/common.bpf.h>

#include "../eevdf.bpf.c"

/* Entities that tests use. */
#define NR_ENTITIES 64

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

/* Tasks 1, 2 and 3 come to CPU 0 one after the other; task 2 goes to CPU 1. Out: first and last
 * task of CPU 1, the tasks after and before 2, first and last task of CPU 0, the tasks after 1 and
 * before 3. */
SEC("syscall")
int t_lists(struct words *x)
{
	struct fair_cpu *from = cpu_state(0), *to = cpu_state(1);

	append_task(from, 1);
	append_task(from, 2);
	append_task(from, 3);
	unlist_task(from, 2);
	append_task(to, 2);
	x->w[0] = to->first_task;
	x->w[1] = to->last_task;
	x->w[2] = entity(2)->list_next;
	x->w[3] = entity(2)->list_prev;
	x->w[4] = from->first_task;
	x->w[5] = from->last_task;
	x->w[6] = entity(1)->list_next;
	x->w[7] = entity(3)->list_prev;
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
		not_scanned[i] = 0;
		queue(queue_of(0, i))->pelt.updated_ns = x->w[0];
		bpf_for (level, 0, nr_domains(i)) {
			domain(i, level)->nr_failed = 0;
			domain(i, level)->max_newidle_ns = 0;
		}
	}
	bpf_for (i, 0, build.nr_groups)
		cpu_group(i)->imbalance = 0;
	bpf_for (i, 0, NR_ENTITIES)
		__builtin_memset(entity(i), 0, sizeof(struct fair_entity));
	__builtin_memset(&balances[0], 0, sizeof(balances[0]));
	init_cpus(x->w[0]);
	overload = 0;
	return 0;
}

/* In: CPU, runnable tasks, other tasks, tasks that are delayed, load, utilisation, average of
 * runnable tasks, what other classes leave of 1024. */
SEC("syscall")
int t_cpu(struct words *x)
{
	struct fair_queue *cfs_rq = queue(queue_of(0, x->w[0]));
	struct fair_cpu *cs = cpu_state(x->w[0]);

	cs->nr_tasks = x->w[1];
	cs->nr_other = x->w[2];
	cpu_turns(x->w[0])->nr_delayed = x->w[3];
	cfs_rq->pelt.load_avg = x->w[4];
	cfs_rq->pelt.util_avg = x->w[5];
	cfs_rq->pelt.runnable_avg = x->w[6];
	cs->capacity = x->w[7] * full_capacity(x->w[0]) / CAPACITY;
	return 0;
}

/* In: CPU, what its runnable tasks are expected to need. Out: its utilisation. */
SEC("syscall")
int t_expected(struct words *x)
{
	cpu_turns(x->w[0])->past.expected = x->w[1];
	x->w[2] = util_of(x->w[0]);
	return 0;
}

/* In: CPU, idle time, idle cores of its cache, CPUs that a wakeup does not look at. */
SEC("syscall")
int t_cache(struct words *x)
{
	u32 first = ring_first(LEVEL_MC, x->w[0]);

	cpu_state(x->w[0])->avg_idle_ns = x->w[1];
	cpu_state(first)->has_idle_cores = x->w[2];
	not_scanned[first & (MAX_CPUS - 1)] = x->w[3];
	return 0;
}

/* The same, out. */
SEC("syscall")
int t_cache_get(struct words *x)
{
	u32 first = ring_first(LEVEL_MC, x->w[0]);

	x->w[2] = cpu_state(first)->has_idle_cores;
	x->w[3] = not_scanned[first & (MAX_CPUS - 1)];
	x->w[4] = cpu_state(x->w[0])->idle_since_ns;
	return 0;
}

SEC("syscall")
int t_begin(struct words *x)
{
	init_version();
	return 0;
}

/* In: CPU, level. Out: kind, CPUs, groups, levels, the allowance of a NUMA level. */
SEC("syscall")
int t_level(struct words *x)
{
	struct cpu_domain *d = domain(x->w[0], x->w[1]);

	x->w[2] = d->kind;
	x->w[3] = d->nr_cpus;
	x->w[4] = d->nr;
	x->w[5] = nr_domains(x->w[0]);
	x->w[6] = numa_allowance(x->w[0], x->w[1]);
	return 0;
}

/* In: CPU, level, failed passes, cost of a search. */
SEC("syscall")
int t_domain(struct words *x)
{
	struct cpu_domain *d = domain(x->w[0], x->w[1]);

	d->nr_failed = x->w[2];
	d->max_newidle_ns = x->w[3];
	return 0;
}

/* In: CPU, level, which group. Out: its number, CPUs, first CPU. */
SEC("syscall")
int t_group(struct words *x)
{
	struct cpu_domain *d = domain(x->w[0], x->w[1]);

	x->w[3] = group_index(d, x->w[2]);
	x->w[4] = cpu_group(x->w[3])->nr;
	x->w[5] = member(cpu_group(x->w[3]), 0);
	return 0;
}

/* In: group, whether a level below has failed. */
SEC("syscall")
int t_set_imbalance(struct words *x)
{
	cpu_group(x->w[0])->imbalance = x->w[1];
	return 0;
}

/* In: entity, CPU, load, utilisation, expected need, weight in units of the table (0: nice 0). */
SEC("syscall")
int t_entity(struct words *x)
{
	struct fair_entity *e = entity(x->w[0]);

	e->cpu = x->w[1];
	e->queue = queue_of(0, x->w[1]);
	e->pelt.load_avg = x->w[2];
	e->pelt.util_avg = x->w[3];
	e->pelt.util_sum = x->w[3] * PELT_MAX;
	e->turn.past.expected = x->w[4];
	e->load.weight = (x->w[5] ?: NICE_0_WEIGHT) << WEIGHT_SHIFT;
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

/* A group below the root on a CPU, and a task in it. In: group, CPU, load of its queue, load of the
 * entity that stands for it, entity of the task, the task's load. */
SEC("syscall")
int t_task_group(struct words *x)
{
	u32 q = queue_of(x->w[0], x->w[1]);

	setup_group(x->w[0], 0, NICE_0_WEIGHT);
	queue(q)->pelt.load_avg = x->w[2];
	entity(owner_of(q))->pelt.load_avg = x->w[3];
	entity(x->w[4])->cpu = x->w[1];
	entity(x->w[4])->queue = q;
	entity(x->w[4])->pelt.load_avg = x->w[5];
	return 0;
}

/* Placement ------------------------------------------------------------------------------ */

/* In: task_struct, CPU, level. Out: group, -1 the own one. */
SEC("syscall")
int t_idlest_group(struct words *x)
{
	x->w[3] = idlest_group((void *)x->w[0], x->w[1], x->w[2]);
	return 0;
}

/* In: wakee, waker, last CPU, waker's CPU, whether sync, tolerance. Out: pulled. */
SEC("syscall")
int t_affine(struct words *x)
{
	x->w[6] = wake_affine(x->w[0], x->w[1], x->w[2], x->w[3], x->w[4], x->w[5]);
	return 0;
}

/* In: task_struct, target, last CPU. */
SEC("syscall")
int t_idle_sibling(struct words *x)
{
	x->w[3] = idle_sibling((void *)x->w[0], x->w[1], x->w[2]);
	return 0;
}

/* In: entity, CPU of its parent, -1 if it is not new; out: its CPU before the last one. */
SEC("syscall")
int t_recent(struct words *x)
{
	if (x->w[1] >= 0)
		born_on(x->w[0], x->w[1]);
	x->w[2] = past_of(x->w[0])->recent_cpu;
	return 0;
}

/* In: entity, CPU before the last one. */
SEC("syscall")
int t_set_recent(struct words *x)
{
	past_of(x->w[0])->recent_cpu = x->w[1];
	return 0;
}

/* In: CPU, average utilisation, tolerance. Out: CPUs that a wakeup does not look at. */
SEC("syscall")
int t_limit_scan(struct words *x)
{
	limit_scan(x->w[0], x->w[1], x->w[2]);
	x->w[3] = not_scanned[ring_first(LEVEL_MC, x->w[0]) & (MAX_CPUS - 1)];
	return 0;
}

/* Averages ------------------------------------------------------------------------------- */

/* In: entity, now: it has gone to sleep. Out: what it is expected to need. */
SEC("syscall")
int t_estimate(struct words *x)
{
	estimate(x->w[0], x->w[1]);
	x->w[2] = expected_of(x->w[0]);
	return 0;
}

/* In: entity, CPU, whether it becomes runnable. Out: what is expected there. */
SEC("syscall")
int t_expect(struct words *x)
{
	expect(x->w[0], x->w[1], x->w[2]);
	x->w[3] = cpu_turns(x->w[1])->past.expected;
	return 0;
}

/* In: entity, what it had not waited when it was born, when that was, now. Out: its average of
 * having been runnable. */
SEC("syscall")
int t_runnable(struct words *x)
{
	past_of(x->w[0])->newborn_gap = x->w[1];
	past_of(x->w[0])->born_ns = x->w[2];
	x->w[4] = task_runnable(x->w[0], x->w[3]);
	return 0;
}

/* In: entity, whether it comes, whether it is new, now. */
SEC("syscall")
int t_carry(struct words *x)
{
	entity(x->w[0])->attached = true;
	if (x->w[1])
		load_comes(x->w[0], x->w[2], x->w[3]);
	else
		load_leaves(x->w[0], x->w[3]);
	return 0;
}

/* In: group, CPU, weight of what is in its queue, a new weight in units (0: it keeps its own). Out:
 * load of the entity that stands for it, and of the root queue. */
SEC("syscall")
int t_group_load(struct words *x)
{
	u32 q = queue_of(x->w[0], x->w[1]), owner = owner_of(q);

	queue(q)->weight = x->w[2] << WEIGHT_SHIFT;
	entity(owner)->attached = true;
	if (x->w[3])
		rescale(owner, x->w[3] << WEIGHT_SHIFT, 0);
	x->w[4] = entity(owner)->pelt.load_avg;
	x->w[5] = queue(queue_of(0, x->w[1]))->pelt.load_avg;
	return 0;
}

/* In: CPU, now: a tick. Out: average of runnable tasks, utilisation of its queue. */
SEC("syscall")
int t_averages(struct words *x)
{
	note_runnable(x->w[0], x->w[1]);
	x->w[2] = runnable_of(x->w[0]);
	x->w[3] = queue(queue_of(0, x->w[0]))->pelt.util_avg;
	return 0;
}

/* Balancing ------------------------------------------------------------------------------ */

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

static __always_inline void put_stats(struct words *x, const struct group_stats *s)
{
	x->w[0] = s->type;
	x->w[1] = s->avg;
	x->w[2] = s->load;
	x->w[3] = s->util;
	x->w[4] = s->runnable;
	x->w[5] = s->capacity;
	x->w[6] = s->reduced;
	x->w[7] = s->nr_running | s->nr_fair << 8 | s->nr_idle << 16 | s->nr_cpus << 24;
}

/* In: group, whether it is the own one, tolerance. Out: see put_stats(). */
SEC("syscall")
int t_count(struct words *x)
{
	count_group(x->w[0], x->w[1], x->w[2]);
	put_stats(x, &this_balance()->compared.stats);
	return 0;
}

/* Out: candidate, -1: none; whether there is overload, and in which the machine believes. */
SEC("syscall")
int t_candidate(struct words *x)
{
	x->w[0] = busiest_candidate();
	x->w[1] = this_balance()->overload;
	x->w[2] = overload;
	return 0;
}

/* Out: busiest group, what is to be moved, how much. */
SEC("syscall")
int t_busiest(struct words *x)
{
	struct balance *b = this_balance();

	x->w[0] = busiest_group();
	x->w[1] = b->compared.what;
	x->w[2] = b->imbalance;
	return 0;
}

/* In: group, what is to be moved, how much, tolerance. Out: CPU. */
SEC("syscall")
int t_busiest_cpu(struct words *x)
{
	struct balance *b = this_balance();

	b->compared.what = x->w[1];
	b->imbalance = x->w[2];
	x->w[4] = busiest_cpu(x->w[0], x->w[3]);
	return 0;
}

/* In: task, what is to be moved, how much. Out: whether it fits, and how much it is. */
SEC("syscall")
int t_fits(struct words *x)
{
	struct balance *b = this_balance();

	b->compared.what = x->w[1];
	b->imbalance = x->w[2];
	x->w[3] = fits(b, x->w[0], &x->w[4]);
	return 0;
}

SEC("syscall")
int t_should_balance(struct words *x)
{
	x->w[0] = should_balance();
	return 0;
}

/* In: task, tasks on the CPU that it would go to, failed passes, how far it is ahead of the virtual
 * time of its queue. Out: whether it stays for now. */
SEC("syscall")
int t_stays_behind(struct words *x)
{
	struct balance *b = this_balance();
	struct fair_queue *from = queue(entity(x->w[0])->queue);

	from->turns.sum = 0;
	from->turns.weight = NICE_0_WEIGHT;
	entity(x->w[0])->vruntime = from->min_vruntime + x->w[3];
	queue(queue_of(0, b->dst))->nr_running = x->w[1];
	domain(b->cpu, b->level)->nr_failed = x->w[2];
	x->w[4] = stays_behind(b, x->w[0]);
	return 0;
}

/* In: source, destination, what is to be moved. */
SEC("syscall")
int t_needs_push(struct words *x)
{
	struct balance *b = this_balance();

	b->src = x->w[0];
	b->dst = x->w[1];
	b->compared.what = x->w[2];
	x->w[3] = needs_push(b, domain(b->cpu, b->level));
	return 0;
}

/* In: CPU. Out: whether it idles for long enough. */
SEC("syscall")
int t_pays(struct words *x)
{
	x->w[1] = newidle_pays(x->w[0], cpu_state(x->w[0]));
	return 0;
}

/* In: CPU, level. Out: whether it looks there. */
SEC("syscall")
int t_tries(struct words *x)
{
	x->w[2] = newidle_tries(x->w[0], x->w[1]);
	return 0;
}

/* In: CPU, level, tasks found. */
SEC("syscall")
int t_tried(struct words *x)
{
	newidle_tried(x->w[0], x->w[1], x->w[2]);
	return 0;
}

/* In: CPU, level. Out: calls, what they found, ratio. */
SEC("syscall")
int t_record(struct words *x)
{
	struct newidle_record *r = newidle_record(x->w[0], x->w[1]);

	x->w[2] = r->calls;
	x->w[3] = r->found;
	x->w[4] = r->ratio;
	return 0;
}

/* In: CPU, level, whether busy. Out: ticks between passes. */
SEC("syscall")
int t_interval(struct words *x)
{
	x->w[3] = interval_ticks(domain(x->w[0], x->w[1]), x->w[2]);
	return 0;
}

/* In: task, when it ran last. Out: whether it is too hot for this pass. */
SEC("syscall")
int t_hot(struct words *x)
{
	entity(x->w[0])->exec_start_ns = x->w[1];
	x->w[2] = is_hot(this_balance(), x->w[0]);
	return 0;
}

/* In: task_struct, group, CPU on which it is born. Out: CPU of the group. */
SEC("syscall")
int t_idlest_cpu(struct words *x)
{
	x->w[3] = idlest_cpu((void *)x->w[0], x->w[1], x->w[2]);
	return 0;
}

/* In: CPU, level, state, now: a pass. Out: the interval after it, in ms. */
SEC("syscall")
int t_balance(struct words *x)
{
	balance_domain(x->w[0], x->w[1], x->w[2], x->w[3]);
	x->w[4] = domain(x->w[0], x->w[1])->interval_ms;
	return 0;
}

/* When passes are made, and pushes ------------------------------------------------------- */

/* In: where tasks are too many, what is to be moved, failed passes so far. Out: failed passes, and
 * to which CPU a task is to be pushed, plus 1. Nothing could be moved. */
SEC("syscall")
int t_uneven(struct words *x)
{
	struct balance *b = this_balance();
	struct cpu_domain *d = domain(b->cpu, b->level);

	b->src = x->w[0];
	b->compared.what = x->w[1];
	d->nr_failed = x->w[2];
	account_uneven(b, d);
	x->w[3] = d->nr_failed;
	x->w[4] = cpu_state(b->src)->push_to;
	return 0;
}

/* In: task, which has run on this CPU until now, failed passes, now. Out: whether it is pushed. */
SEC("syscall")
int t_push(struct words *x)
{
	struct balance *b = this_balance();
	u32 i = x->w[0];

	entity(i)->load.inverse = inverse_of(entity(i)->load.weight);
	enqueue_task(i, x->w[3], false);
	entity(i)->exec_start_ns = x->w[3];
	domain(b->cpu, b->level)->nr_failed = x->w[2];
	b->src = x->w[1];
	b->seen[0] = i;
	b->seen_round[0] = entity(i)->custody.round;
	b->seen_to[0] = b->dst;
	b->nr_seen = 1;
	detach_any(b, i);
	x->w[4] = b->nr_detached;
	return 0;
}

/* In: an idle CPU that is woken to balance for all, in how many ticks each is due, now. Out:
 * whether it has looked at its own lowest level. */
SEC("syscall")
int t_woken(struct words *x)
{
	u64 tick = tick_of(x->w[2]);
	u32 cpu;

	bpf_for (cpu, 0, nr_cpus)
		cpu_state(cpu)->next_balance = tick + x->w[1];
	domain(x->w[0], 0)->last_balance = 0;
	balance_idle(x->w[0], x->w[2]);
	x->w[3] = domain(x->w[0], 0)->last_balance == tick;
	return 0;
}

/* In: an idle CPU, now, in how many ticks an idle CPU is to be woken to balance for all. Out: the
 * same after a pass of this CPU; in how many ticks its own next one is due. */
SEC("syscall")
int t_idle_pass(struct words *x)
{
	u64 tick = tick_of(x->w[1]);

	nohz_next_balance = tick + x->w[2];
	rebalance(x->w[0], LB_IDLE, x->w[1]);
	x->w[3] = nohz_next_balance - tick;
	x->w[4] = cpu_state(x->w[0])->next_balance - tick;
	return 0;
}
