/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Moving tasks between CPUs: a CPU that runs out of work steals one (tdq_idled), and a timer
 * evens out loads now and then (sched_balance). Running tasks are never moved.
 */
#ifndef __ULE_BALANCE_H
#define __ULE_BALANCE_H

#include "search.h"

static bool movable(struct task_struct *p, s32 to)
{
	return allowed(p, to) && !is_migration_disabled(p);
}

/*
 * Books a task that is about to leave its queue on CPU @to; returns what load_unset() needs if the
 * kernel has taken the task away meanwhile. Before the move, not after it: the move publishes the
 * task, and running() elsewhere would find it not booked. What is lost if the move fails is the
 * slice of a task that runs just now.
 */
static s32 moves(struct ule_task *t, s32 to)
{
	/* Partner: clock() on the CPU that has taken it. */
	if (par.queue_restarts)
		WRITE_ONCE(t->slice_used, 0);
	return load_set(t, to);
}

/* Takes the first movable task of a queue straight to the CPU that dispatches. */
static bool steal_first(s32 from, enum runq q, s32 to, bool skip_head)
{
	struct task_struct *p;
	bool done = false;

	bpf_for_each (scx_dsq, p, runq_id(from, q), 0) {
		struct ule_task *t;
		s32 booked;

		if (skip_head) {
			skip_head = false;
			continue;
		}
		t = task_ctx(p);
		if (!t || !movable(p, to))
			continue;
		booked = moves(t, to);
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER,
					   runq_key(to, cpu_ctx(to), READ_ONCE(t->pri), false));
		if (scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0)) {
			done = true;
			break;
		}
		load_unset(t, to, booked);
	}
	return done;
}

/* Moves the first movable task of a queue into the queues of CPU @to. Returns its priority,
 * PRI_IDLE if there was none. */
static u32 move_first(s32 from, enum runq q, s32 to, bool skip_head)
{
	struct task_struct *p;
	u32 pri = PRI_IDLE;

	bpf_for_each (scx_dsq, p, runq_id(from, q), 0) {
		struct ule_task *t;
		s32 booked;
		u32 first;
		u64 key;

		if (skip_head) {
			skip_head = false;
			continue;
		}
		t = task_ctx(p);
		if (!t || !movable(p, to))
			continue;
		first = READ_ONCE(t->pri);
		key = runq_key(to, cpu_ctx(to), first, false);
		booked = moves(t, to);
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, key);
		if (scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, runq_id(to, key_runq(key)), 0)) {
			pri = first;
			break;
		}
		load_unset(t, to, booked);
	}
	return pri;
}

static bool steal_from(s32 from, s32 to)
{
	if (steal_first(from, RUNQ_RT, to, false))
		return true;
	if (par.spares_head && steal_first(from, RUNQ_TS, to, true))
		return true;
	return steal_first(from, RUNQ_TS, to, false);
}

/* Idle stealing: asks the most loaded CPU of the nearest group, then of the next larger one. */
static bool steal(s32 cpu)
{
	struct ule_cpu *c = cpu_ctx(cpu), *v;
	u32 step, attempt;

	__builtin_memset(c->tried, 0, sizeof(c->tried));
	c->tried[(cpu & (MAX_CPUS - 1)) / 64] |= 1ULL << (cpu & 63);
	bpf_for (step, 0, NR_TOPO) {
		struct search q = {
			.cpu = cpu,
			.level = TOPO_CORE - step,
			.mask = SEARCH_UNTRIED,
			.highest = true,
			.limit = policy_steal_load(TOPO_CORE - step),
		};

		if (!topo_has(&topo, q.level))
			continue;
		bpf_for (attempt, 0, par.steal_once ? 1 : topo.nr_online) {
			s32 victim = search(&q, NULL);

			if (victim < 0)
				break;
			v = cpu_ctx(victim);
			c->tried[(victim & (MAX_CPUS - 1)) / 64] |= 1ULL << (victim & 63);
			if (READ_ONCE(c->load))
				return false;
			if (READ_ONCE(v->load) >= q.limit && policy_may_give(v) &&
			    steal_from(victim, cpu))
				return true;
		}
	}
	return false;
}

/* Moves one task and lets the receiver look at it. The unit tests put a model in its place. */
#ifndef ULE_BALANCE_MOVE
#define ULE_BALANCE_MOVE balance_move
static bool balance_move(s32 from, s32 to)
{
	struct ule_cpu *c = cpu_ctx(to);
	u32 pri = move_first(from, RUNQ_RT, to, false);

	if (pri == PRI_IDLE && par.spares_head)
		pri = move_first(from, RUNQ_TS, to, true);
	if (pri == PRI_IDLE)
		pri = move_first(from, RUNQ_TS, to, false);
	if (pri == PRI_IDLE)
		return false;
	/* FreeBSD holds the receiver's lock here; partners: enqueue(), freebsd_cpu_runs(),
	 * requeue_key(). */
	if (pri < READ_ONCE(c->lowpri))
		WRITE_ONCE(c->lowpri, pri);
	policy_received(to, c, pri);
	return true;
}
#endif

/* Finds a receiver for one task of @high. False: there is none for anybody. */
static bool balance_donor(s32 high)
{
	struct ule_cpu *h = cpu_ctx(high);
	struct search q = {
		.mask = SEARCH_TAKERS,
		.limit = READ_ONCE(h->load) - 1,
		.prefer = high,
	};
	u32 i, attempt;

	bpf_for (i, 0, nr_cpus) {
		struct ule_cpu *c = cpu_ctx(i);

		c->taker = c->donor;
	}
	bpf_for (attempt, 0, topo.nr_online) {
		s32 low = search(&q, NULL);
		struct ule_cpu *l = cpu_ctx(low);

		if (low < 0)
			return attempt > 0;
		/* With nothing to give, each taker would be asked without success. */
		if (!policy_may_give(h))
			return true;
		if (READ_ONCE(h->load) >= READ_ONCE(l->load) + balance_diff_min &&
		    ULE_BALANCE_MOVE(high, low)) {
			l->donor = false;
			return true;
		}
		l->taker = false;
	}
	return true;
}

/* One pass: pairs of most and least loaded CPUs, each CPU in one pair at most. */
static void balance_pass(void)
{
	struct search q = {
		.mask = SEARCH_DONORS,
		.highest = true,
		.limit = 1,
	};
	u32 i;

	bpf_for (i, 0, nr_cpus)
		cpu_ctx(i)->donor = true;
	bpf_for (i, 0, topo.nr_online) {
		s32 high = search(&q, NULL);

		if (high < 0)
			break;
		cpu_ctx(high)->donor = false;
		if (!balance_donor(high))
			break;
	}
}

struct balance_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct balance_timer);
} balance_timer SEC(".maps");

/* Time to the next pass: half to one and a half intervals. */
static u64 balance_delay_ns(void)
{
	u32 half = par.balance_interval / 2 ?: 1;

	return (half + bpf_get_prandom_u32() % par.balance_interval) * par.tick_ns;
}

static int balance_fire(void *map, u32 *key, struct balance_timer *b)
{
	/* Until 6.17 the verifier takes a timer that a sleepable op starts for sleepable too. */
	bpf_rcu_read_lock();
	balance_pass();
	bpf_rcu_read_unlock();
	bpf_timer_start(&b->timer, balance_delay_ns(), 0);
	return 0;
}

/* FreeBSD 11.1 as shipped returns before it arms the timer, so the balancer never runs. */
static int balance_init(void)
{
	struct balance_timer *b;
	u32 key = 0;
	int err;

	if (!balance || balance_bug || topo.nr_online == 1)
		return 0;
	b = bpf_map_lookup_elem(&balance_timer, &key);
	if (!b)
		return -ESRCH;
	err = bpf_timer_init(&b->timer, &balance_timer, CLOCK_MONOTONIC);
	if (!err)
		err = bpf_timer_set_callback(&b->timer, balance_fire);
	if (!err)
		err = bpf_timer_start(&b->timer, balance_delay_ns(), 0);
	return err;
}

#endif
