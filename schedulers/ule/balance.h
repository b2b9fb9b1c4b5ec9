/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Moving tasks between CPUs: a CPU that runs out of work steals one (tdq_idled), and a timer
 * evens out loads now and then (sched_balance). Running tasks are never moved.
 */
#pragma once

#include "take.h"

/* Idle stealing: asks the most loaded CPU of the nearest group, then of the next larger one. */
static bool steal(s32 cpu)
{
	struct ule_cpu *c = cpu_ctx(cpu);
	u32 step, attempt;

	/* FreeBSD looks at its own load each time it has found a victim, too. */
	if (!steal_idle || (par.steal_once && READ_ONCE(c->load)))
		return false;
	__builtin_memset(c->tried, 0, sizeof(c->tried));
	c->tried[(cpu & (MAX_CPUS - 1)) / 64] |= 1ULL << (cpu & 63);
	bpf_for (step, 0, NR_TOPO) {
		struct search q = {
			.cpu = cpu,
			.level = TOPO_CORE - step,
			.mask = SEARCH_UNTRIED,
			.highest = true,
			.limit = policy_steal_load(cpu, TOPO_CORE - step),
		};

		if (!topo_has(&topo, q.level))
			continue;
		bpf_for (attempt, 0, par.steal_once ? 1 : topo.nr_online) {
			s32 victim = search(&q, NULL);

			if (victim < 0)
				break;
			c->tried[(victim & (MAX_CPUS - 1)) / 64] |= 1ULL << (victim & 63);
			if (READ_ONCE(c->load))
				return false;
			if ((s32)READ_ONCE(cpu_ctx(victim)->load) >= q.limit &&
			    take_one(victim, cpu, true) != PRI_IDLE)
				return true;
		}
	}
	return false;
}

/*
 * Searches that a pass may still make. The original makes one for each CPU and each pair of CPUs if
 * nothing can be moved, and a search looks at all CPUs: here a pass looks at 2^21. Up to 127 CPUs
 * that is enough for all; larger machines would do nothing else any more.
 */
#define BALANCE_LOOKS (1 << 21)
static u32 searches_left;

static s32 balance_search(struct search *q)
{
	if (!searches_left)
		return -1;
	searches_left--;
	return search(q, NULL);
}

/* Finds a receiver for one task of @high. False: there is none for anybody. */
static bool balance_donor(s32 high)
{
	struct ule_cpu *h = cpu_ctx(high);
	struct search q = {
		.cpu = high,
		.mask = SEARCH_TAKERS,
		.limit = READ_ONCE(h->load) - 1,
		.min_pri = -1,
		.prefer = high,
	};
	u32 i, attempt, nr_takers = 0;

	bpf_for (i, 0, nr_cpus) {
		struct ule_cpu *c = cpu_ctx(i);

		c->taker = c->donor;
		nr_takers += c->taker;
	}
	if (!nr_takers && par.stops_when_empty)
		return false;
	bpf_for (attempt, 0, topo.nr_online) {
		s32 low = balance_search(&q);
		struct ule_cpu *l = cpu_ctx(low);

		if (low < 0)
			return attempt > 0;
		if (READ_ONCE(h->load) >= READ_ONCE(l->load) + balance_diff_min &&
		    take_one(high, low, false) != PRI_IDLE) {
			policy_received(low, l);
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
		.cpu = topo_at(&topo, 0),
		.mask = SEARCH_DONORS,
		.highest = true,
		.limit = 1,
	};
	u32 i;

	bpf_for (i, 0, nr_cpus)
		cpu_ctx(i)->donor = true;
	searches_left = BALANCE_LOOKS / topo.nr_online;
	bpf_for (i, 0, topo.nr_online) {
		s32 high = balance_search(&q);

		if (high < 0)
			break;
		cpu_ctx(high)->donor = false;
		if (!balance_donor(high))
			break;
	}
}

/* A pass as it was before there were pairs: the first of the most loaded CPUs gives half of the
 * difference, rounded up, to the first of the least loaded. So 2 tasks and 1 task change places. */
static void balance_one(void)
{
	s32 high = -1, low = -1;
	u32 i, high_load = 0, low_load = ~0U, nr;

	bpf_for (i, 0, nr_cpus) {
		struct ule_cpu *c = cpu_ctx(i);
		u32 load = READ_ONCE(c->load);

		/* No others are in the order of searches: offline. */
		if (topo_at(&topo, topo_of(&topo, i)->rank) != i)
			continue;
		if (load > high_load && policy_may_ask(c)) {
			high = i;
			high_load = load;
		}
		if (load < low_load) {
			low = i;
			low_load = load;
		}
	}
	if (high < 0 || low < 0 || high_load <= low_load)
		return;
	nr = (high_load - low_load + 1) / 2;
	bpf_for (i, 0, nr) {
		if (take_one(high, low, false) == PRI_IDLE)
			break;
		policy_received(low, cpu_ctx(low));
	}
}

struct balance_timer {
	struct bpf_timer timer;
};

DEFINE_ARRAY_MAP(balance_timer, 1, struct balance_timer)

/* Time to the next pass: half to one and a half intervals. */
static u64 balance_delay_ns(void)
{
	u32 half = par.balance_interval / 2 ?: 1;
	u32 *lcg = &cpu_ctx(bpf_get_smp_processor_id())->lcg;

	return (half + lcg_next(lcg) % par.balance_interval) * par.tick_ns;
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

static int balance_one_fires(void *map, u32 *key, struct balance_timer *b)
{
	bpf_rcu_read_lock();
	balance_one();
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
	if (err)
		return err;
	if (balance_one_pair)
		err = bpf_timer_set_callback(&b->timer, balance_one_fires);
	else
		err = bpf_timer_set_callback(&b->timer, balance_fire);
	if (!err)
		err = bpf_timer_start(&b->timer, balance_delay_ns(), 0);
	return err;
}
