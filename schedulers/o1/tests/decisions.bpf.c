/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handles by which tests set up machines and let O(1) decide on them: each program takes its
 * arguments in eight words and leaves its results there. Time is an argument: it stands still.
 */
#include <scx/common.bpf.h>

#include "../o1.bpf.c"

/* Tasks that tests use. */
#define NR_TASKS 4096

struct words {
	s64 w[8];
};

/* The machine of the kernel for tests. In: CPUs that count as online, 0 for all. Out: error. */
SEC("syscall")
int t_build(struct words *x)
{
	const struct cpumask *mask = scx_bpf_get_online_cpumask();
	u32 online_cpus = x->w[0];

	nr_cpus = scx_bpf_nr_cpu_ids();
	x->w[0] = params_init() ?: build_domains(mask, 0);
	if (online_cpus)
		nr_online = online_cpus;
	return 0;
}

/* All idle, no task, nothing remembered. */
SEC("syscall")
int t_clear(struct words *x)
{
	u32 i, level;

	bpf_for (i, 0, nr_cpus) {
		__builtin_memset(cpu_state(i), 0, sizeof(struct o1_cpu));
		cpu_rq(i)->best_expired_prio = MAX_PRIO;
		bpf_for (level, 0, nr_domains(i)) {
			struct domain *d = domain(i, level);

			d->interval_ms = first_interval_ms(d->kind);
			d->nr_failed = 0;
			d->last_balance = 0;
		}
	}
	bpf_for (i, 0, NR_TASKS) {
		__builtin_memset(task(i), 0, sizeof(struct o1_task));
		rq_task(i)->array = UNQUEUED;
		rq_task(i)->affinity.anywhere = true;
	}
	balancing = 0;
	idle_next_balance = ~0ULL >> 1;
	return 0;
}

/* In: CPU, level. Out: kind, CPUs, groups, imbalance_pct. */
SEC("syscall")
int t_level(struct words *x)
{
	struct domain *d = domain(x->w[0], x->w[1]);

	if (x->w[1] >= nr_domains(x->w[0])) {
		x->w[2] = -1;
		return 0;
	}
	x->w[2] = d->kind;
	x->w[3] = d->nr_cpus;
	x->w[4] = nr_groups(d->kind, x->w[0]);
	x->w[5] = params_of(d)->imbalance_pct;
	x->w[6] = params_of(d)->flags;
	return 0;
}

/* In: CPU, level. Out: busy, idle, newidle, wake and fork index, in bytes; tries; shortest and
 * longest interval; busy factor; cache-hot time in ns. */
SEC("syscall")
int t_level_figures(struct words *x)
{
	struct domain *d = domain(x->w[0], x->w[1]);
	const struct domain_params *p = params_of(d);

	x->w[2] = p->busy_idx | p->idle_idx << 8 | p->newidle_idx << 16 | p->wake_idx << 24 |
		  (s64)p->forkexec_idx << 32;
	x->w[3] = p->cache_nice_tries;
	x->w[4] = p->min_ms;
	x->w[5] = max_interval_ms(p);
	x->w[6] = p->busy_factor;
	x->w[7] = cache_hot_us[d->kind] * 1000ULL;
	return 0;
}

/* In: CPU, level, which group from its own one on. Out: CPUs, power, first CPU. */
SEC("syscall")
int t_group(struct words *x)
{
	u32 cpu = x->w[0], kind = domain(cpu, x->w[1])->kind, group = group_of_cpu(kind, cpu), n;
	u64 mask = 0;

	bpf_for (n, 0, x->w[2])
		group = next_group(kind, cpu, group);
	x->w[5] = group;
	x->w[4] = group_power(kind, group);
	bpf_for (n, 0, group_size(kind, x->w[5])) {
		mask |= 1ULL << (group & 63);
		group = group_next_cpu(kind, group);
	}
	x->w[3] = mask;
	return 0;
}

/* State ----------------------------------------------------------------------------------- */

/* A task that is not queued. In: task, CPU, nice, prio, slice, sleep_avg, timestamp, sleep type. */
SEC("syscall")
int t_task(struct words *x)
{
	struct o1_task *t = task(x->w[0]);

	__builtin_memset(t, 0, sizeof(*t));
	t->rq.custody.pid = x->w[0];
	t->rq.array = UNQUEUED;
	t->rq.affinity.anywhere = true;
	t->rq.cpu = x->w[1];
	t->static_prio = 120 + x->w[2];
	t->rq.load_weight = weight_of(t->static_prio);
	t->sleep_avg_ns = x->w[5];
	t->rq.prio = x->w[3] ?: effective_prio(t);
	t->time_slice = x->w[4] ?: task_timeslice(t);
	t->timestamp_ns = x->w[6];
	t->sleep_type = x->w[7];
	t->user = true;
	return 0;
}

/* In: task, whether of a user; batch; first slice; weight, -1 for that of its nice value; when it
 * last ran; CPUs where it may run, -1 for all. */
SEC("syscall")
int t_task_more(struct words *x)
{
	struct o1_task *t = task(x->w[0]);
	u32 mask = x->w[0];

	t->user = x->w[1];
	t->batch = x->w[2];
	t->first_time_slice = x->w[3];
	if (x->w[4] >= 0)
		t->rq.load_weight = x->w[4];
	t->rq.last_ran_ns = x->w[5];
	t->rq.affinity.anywhere = x->w[6] == -1;
	t->rq.affinity.only = NO_CPU;
	t->rq.affinity.mask = mask;
	*mask_word(mask, 0) = x->w[6];
	return 0;
}

/* In: task, whether it slept, uninterruptibly, a sync wakeup. */
SEC("syscall")
int t_sleeps(struct words *x)
{
	task(x->w[0])->asleep = x->w[1];
	task(x->w[0])->uninterruptible = x->w[2];
	rq_task(x->w[0])->sync = x->w[3];
	return 0;
}

/* In: task, 0 active or 1 expired. It waits at the tail. */
SEC("syscall")
int t_enqueue(struct words *x)
{
	struct runqueue *rq = cpu_rq(rq_task(x->w[0])->cpu);

	enqueue_tail(rq, x->w[0], x->w[1] ? expired_of(rq) : rq->active);
	inc_nr_running(rq, x->w[0]);
	custody_begin(&rq_task(x->w[0])->custody, rq_task(x->w[0])->custody.pid);
	return 0;
}

/* In: CPU, running task, expired_timestamp, best_expired_prio, clock. */
SEC("syscall")
int t_cpu(struct words *x)
{
	struct o1_cpu *c = cpu_state(x->w[0]);
	u32 i = x->w[1];

	c->rq.curr = i;
	if (i)
		custody_end(&rq_task(i)->custody);
	c->expired_timestamp = x->w[2];
	c->rq.best_expired_prio = x->w[3];
	c->rq.clock_ns = x->w[4];
	return 0;
}

/* In: CPU, averages of its load, the tick of which they are; tasks and load, -1: as they are. */
SEC("syscall")
int t_load(struct words *x)
{
	struct runqueue *rq = cpu_rq(x->w[0]);
	u32 n;

	bpf_for (n, 0, 3)
		rq->cpu_load[n] = x->w[n + 1];
	rq->load_tick = x->w[4];
	if (x->w[5] >= 0)
		rq->nr_running = x->w[5];
	if (x->w[6] >= 0)
		rq->raw_weighted_load = x->w[6];
	return 0;
}

/* In: CPU, level, failed passes, interval, last balance. */
SEC("syscall")
int t_domain(struct words *x)
{
	struct domain *d = domain(x->w[0], x->w[1]);

	d->nr_failed = x->w[2];
	d->interval_ms = x->w[3];
	d->last_balance = x->w[4];
	return 0;
}

/* The same, out. */
SEC("syscall")
int t_domain_get(struct words *x)
{
	struct domain *d = domain(x->w[0], x->w[1]);

	x->w[2] = d->nr_failed;
	x->w[3] = d->interval_ms;
	x->w[4] = d->last_balance;
	return 0;
}

/* In: CPU, when it balances next. */
SEC("syscall")
int t_next_balance(struct words *x)
{
	cpu_rq(x->w[0])->next_balance = x->w[1];
	return 0;
}

/* In: task. Out: prio, slice, sleep_avg, timestamp, sleep type, array (0 active, 1 expired, 2
 * none), first slice + 2 * weight + 2^32 * CPU. */
SEC("syscall")
int t_task_get(struct words *x)
{
	struct o1_task *t = task(x->w[0]);

	x->w[1] = t->rq.prio;
	x->w[2] = t->time_slice;
	x->w[3] = t->sleep_avg_ns;
	x->w[4] = t->timestamp_ns;
	x->w[5] = t->sleep_type;
	x->w[6] = t->rq.array == UNQUEUED ? 2 : t->rq.array != cpu_rq(t->rq.cpu)->active;
	x->w[7] = t->first_time_slice + 2 * t->rq.load_weight + ((s64)t->rq.cpu << 32);
	return 0;
}

/* In: task, timestamp. */
SEC("syscall")
int t_timestamp(struct words *x)
{
	task(x->w[0])->timestamp_ns = x->w[1];
	return 0;
}

/* In: CPU. Out: running task, expired_timestamp, best_expired_prio, which array is active, whether
 * it is to choose again, tasks, load + 2^32 * (CPU to which it is to push a task, plus one). */
SEC("syscall")
int t_cpu_get(struct words *x)
{
	struct o1_cpu *c = cpu_state(x->w[0]);

	x->w[1] = c->rq.curr;
	x->w[2] = c->expired_timestamp;
	x->w[3] = c->rq.best_expired_prio;
	x->w[4] = c->rq.active;
	x->w[5] = c->rq.need_resched;
	x->w[6] = c->rq.nr_running;
	x->w[7] = c->rq.raw_weighted_load + ((s64)c->rq.push_to << 32);
	return 0;
}

/* In: CPU. Out: its averages, when it balances next. */
SEC("syscall")
int t_load_get(struct words *x)
{
	struct runqueue *rq = cpu_rq(x->w[0]);

	x->w[1] = rq->cpu_load[0];
	x->w[2] = rq->cpu_load[1];
	x->w[3] = rq->cpu_load[2];
	x->w[4] = rq->next_balance;
	return 0;
}

/* In: CPU, index of its average, tick. Out: a low and a high guess of its load. */
SEC("syscall")
int t_guess(struct words *x)
{
	u32 cpu = x->w[0], index = x->w[1];

	x->w[3] = source_load(cpu, index, x->w[2]);
	x->w[4] = target_load(cpu, index, x->w[2]);
	return 0;
}

/* In: task, CPU. Out: whether balancing may move it there. */
SEC("syscall")
int t_may_run(struct words *x)
{
	x->w[2] = affinity_has(&rq_task(x->w[0])->affinity, x->w[1]);
	return 0;
}

/* In: CPU, 0 active or 1 expired, which task in order of service. Out: task, 0 for none. */
SEC("syscall")
int t_nth(struct words *x)
{
	struct runqueue *rq = cpu_rq(x->w[0]);
	struct prio_array *a = rq_array(rq, x->w[1] ? expired_of(rq) : rq->active);
	u32 level, k, n = 0;

	x->w[3] = 0;
	bpf_for (level, 0, RQ_LEVELS) {
		u32 i = a->head[level & (RQ_LEVELS - 1)];

		if (!(a->bitmap & 1ULL << level))
			continue;
		bpf_for (k, 0, NR_TASKS) {
			if (n++ == x->w[2])
				x->w[3] = i;
			i = rq_task(i)->next;
			if (i == a->head[level & (RQ_LEVELS - 1)])
				break;
		}
	}
	return 0;
}

/* In: CPU. It has chosen again. */
SEC("syscall")
int t_resched_done(struct words *x)
{
	cpu_rq(x->w[0])->need_resched = false;
	return 0;
}

/* Numbers --------------------------------------------------------------------------------- */

/* In: task. Out: slice, weight, DELTA, ceiling of one sleep; bonus; priority; interactive;
 * granularity. */
SEC("syscall")
int t_numbers(struct words *x)
{
	struct o1_task *t = task(x->w[0]);

	x->w[0] = task_timeslice(t);
	x->w[1] = weight_of(t->static_prio);
	x->w[2] = delta_of(t);
	x->w[3] = interactive_sleep_ns(t);
	x->w[4] = current_bonus(t);
	x->w[5] = effective_prio(t);
	x->w[6] = is_interactive(t);
	x->w[7] = granularity_of(t, nr_online);
	return 0;
}

/* In: task, how long it slept. Out: new priority. */
SEC("syscall")
int t_recalc(struct words *x)
{
	x->w[2] = recalc_task_prio(task(x->w[0]), x->w[1]);
	return 0;
}

/* In: task, percent. Out: what a fork leaves of its sleep_avg. */
SEC("syscall")
int t_after_fork(struct words *x)
{
	x->w[2] = after_fork_ns(task(x->w[0]), x->w[1]);
	return 0;
}

/* In: load, its average n, n, ticks. */
SEC("syscall")
int t_average(struct words *x)
{
	x->w[4] = average_later(x->w[1], x->w[0], x->w[2], x->w[3]);
	return 0;
}

/* Events ---------------------------------------------------------------------------------- */

/* In: CPU, tick, ns. Out: whether expired tasks starved before. */
SEC("syscall")
int t_tick(struct words *x)
{
	struct o1_cpu *c = cpu_state(x->w[0]);
	u32 i = c->rq.curr;

	x->w[3] = i && expired_starving(c, task(i), x->w[1]);
	c->rq.clock_ns = x->w[2];
	if (i)
		task_running_tick(c, i, x->w[1]);
	update_cpu_load(&c->rq, x->w[1]);
	return 0;
}

/* In: CPU, ns. Out: the task that runs from now on. The one that has run comes back by enqueue().
 */
SEC("syscall")
int t_schedule(struct words *x)
{
	u32 prev = cpu_rq(x->w[0])->curr, i = schedule(x->w[0], MAX_TASKS - 1, x->w[1]);

	if (prev && prev != i)
		custody_begin(&rq_task(prev)->custody, rq_task(prev)->custody.pid);
	if (i)
		custody_end(&rq_task(i)->custody);
	x->w[2] = i;
	return 0;
}

/* In: CPU. It has found nothing to run anywhere. */
SEC("syscall")
int t_idles(struct words *x)
{
	cpu_state(x->w[0])->expired_timestamp = 0;
	return 0;
}

/* In: task, ns, whether its sleep is uninterruptible. */
SEC("syscall")
int t_block(struct words *x)
{
	depart(x->w[0], x->w[1], LEAVE_QUEUE);
	task(x->w[0])->asleep = true;
	task(x->w[0])->uninterruptible = x->w[2];
	return 0;
}

/* In: task, ns, CPU that could not hand it over. */
SEC("syscall")
int t_lost(struct words *x)
{
	unchoose(x->w[0], x->w[2], x->w[1]);
	return 0;
}

/* In: task, CPU, whether from an interrupt, ns. Out: whether that CPU is to choose again. */
SEC("syscall")
int t_wake(struct words *x)
{
	u32 i = x->w[0], cpu = x->w[1];

	join(cpu, i, x->w[2], x->w[3]);
	custody_begin(&rq_task(i)->custody, rq_task(i)->custody.pid);
	x->w[4] = preempts(cpu_rq(cpu), i);
	return 0;
}

/* In: child, parent, ns, whether they share memory, the child's CPU. */
SEC("syscall")
int t_fork(struct words *x)
{
	struct rq_task *p = rq_task(x->w[1]);

	rq_task(x->w[0])->thread = x->w[3];
	rq_task(x->w[0])->cpu = x->w[4];
	x->w[5] = fork_task(x->w[0], x->w[1], x->w[2]);
	x->w[6] = p->cpu;
	return 0;
}

/* In: child, ns. Out: whether its CPU is to choose again. */
SEC("syscall")
int t_wake_new(struct words *x)
{
	u32 i = x->w[0], cpu = rq_task(i)->cpu;

	join(cpu, i, false, x->w[1]);
	custody_begin(&rq_task(i)->custody, rq_task(i)->custody.pid);
	x->w[2] = preempts(cpu_rq(cpu), i);
	end_fork(i);
	return 0;
}

/* In: parent, child. */
SEC("syscall")
int t_exit(struct words *x)
{
	inherit(x->w[0], x->w[1]);
	return 0;
}

/* In: CPU. Its task yields. */
SEC("syscall")
int t_yield(struct words *x)
{
	yield_turn(x->w[0], cpu_rq(x->w[0])->curr);
	return 0;
}

/* In: task, nice. */
SEC("syscall")
int t_nice(struct words *x)
{
	x->w[2] = change(x->w[0], 120 + x->w[1], task(x->w[0])->batch);
	return 0;
}

/* Several CPUs ---------------------------------------------------------------------------- */

/* In: task_struct, task, last CPU, whether sync, tick. Woken on the CPU that runs this. */
SEC("syscall")
int t_place_wakee(struct words *x)
{
	x->w[5] = place_wakee((void *)x->w[0], x->w[1], x->w[2], x->w[3], x->w[4]);
	return 0;
}

/* In: task_struct, CPU, whether it is new, tick. */
SEC("syscall")
int t_place_new(struct words *x)
{
	x->w[4] = place_new((void *)x->w[0], x->w[1], x->w[2] ? DO_FORK : DO_EXEC, x->w[3]);
	return 0;
}

/* In: CPU, level, state, now. Out: group, imbalance, whether another CPU balances, CPU. */
SEC("syscall")
int t_busiest(struct words *x)
{
	struct balance *b = this_balance();

	begin_pass(b, x->w[0], x->w[1], x->w[2], x->w[3]);
	x->w[4] = busiest_group();
	x->w[5] = b->imbalance;
	x->w[6] = b->foreign;
	x->w[7] = x->w[4] < 0 ? -1 : busiest_cpu(x->w[4]);
	return 0;
}

/* In: CPU, level, source, most tasks, load. Out: how many were moved, whether all are pinned. */
SEC("syscall")
int t_move(struct words *x)
{
	struct balance *b = this_balance();
	struct runqueue *src = cpu_rq(x->w[2]);

	begin_pass(b, x->w[0], x->w[1], LB_BUSY, src->clock_ns);
	b->src = x->w[2];
	b->imbalance = x->w[4];
	b->max_moved = x->w[3];
	move_tasks();
	x->w[5] = b->nr_moved;
	x->w[6] = b->all_pinned;
	return 0;
}

/* In: CPU, level, state, now. Out: result, whether another CPU balances. */
SEC("syscall")
int t_balance(struct words *x)
{
	x->w[4] = load_balance(x->w[0], x->w[1], x->w[2], x->w[3]);
	x->w[5] = this_balance()->foreign;
	return 0;
}

/* In: CPU, level, now. Out: result. */
SEC("syscall")
int t_balance_newidle(struct words *x)
{
	x->w[3] = load_balance_newidle(x->w[0], x->w[1], x->w[2]);
	return 0;
}

/* In: CPU, now. */
SEC("syscall")
int t_newidle(struct words *x)
{
	x->w[2] = balance_newidle(x->w[0], x->w[1]);
	return 0;
}

/* In: CPU, whether it idles, now. What its tick does if that is due. */
SEC("syscall")
int t_rebalance(struct words *x)
{
	x->w[3] = is_due(x->w[0], tick_of(x->w[2]));
	if (x->w[3])
		rebalance(x->w[0], x->w[1] ? LB_IDLE : LB_BUSY, x->w[2]);
	return 0;
}

/* In: CPU that is to push a task, the one that runs there, now. Out: what has been pushed. */
SEC("syscall")
int t_push(struct words *x)
{
	x->w[3] = push_task(x->w[0], x->w[1], x->w[2]);
	return 0;
}

/* In: CPU. It is not to push a task after all. */
SEC("syscall")
int t_push_done(struct words *x)
{
	cpu_rq(x->w[0])->push_to = 0;
	return 0;
}

/* In: task, the CPU that it is on. */
SEC("syscall")
int t_on_cpu(struct words *x)
{
	rq_task(x->w[0])->cpu = x->w[1];
	return 0;
}

/* In: CPU, to whom it is to push a task. */
SEC("syscall")
int t_push_to(struct words *x)
{
	cpu_rq(x->w[0])->push_to = x->w[1] + 1;
	return 0;
}
