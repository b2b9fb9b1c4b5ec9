/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Balancing: one level of one CPU, then when all of that happens: at ticks, when a CPU runs dry,
 * and by one idle CPU for all of them (no tick wakes an idle CPU).
 */
#ifndef __LIB_LINUX26_BALANCE_H
#define __LIB_LINUX26_BALANCE_H

#include "place.h"
#include "move.h"

/* Looks for tasks: at ticks, and when a CPU runs dry. */
const volatile bool periodic_balance = true;
const volatile bool newidle_balance = true;
/* Running tasks are pushed to a CPU that has failed to get one. */
const volatile bool active_balance = true;

/* With all tasks pinned, intervals grow up to this. */
#define MAX_PINNED_MS 512

/* Levels of nodes are balanced by one CPU at a time. */
static u32 balancing;
/* When the idle CPUs are due next. */
static u64 idle_next_balance;

/* One level --------------------------------------------------------------------------------- */

static __always_inline u32 max_interval_ms(const struct domain_params *params)
{
	return params->max_ms ?: params->min_ms * nr_online;
}

static __always_inline u64 ticks_of(u64 ms)
{
	return (ms * tick_hz + 999) / 1000;
}

/* Ticks between passes. */
static __always_inline u64 interval_ticks(const struct domain *d, bool busy)
{
	return ticks_of((u64)READ_ONCE(d->interval_ms) * (busy ? params_of(d)->busy_factor : 1))
		       ?: 1;
}

/* Has b->src push a task to the balancing CPU. False: what runs there may not run here. */
static __noinline bool begin_push(struct balance *b, bool *begun)
{
	struct runqueue *src = cpu_rq(b->src);
	struct queue_lock *lk = rq_lock(b->src);
	bool may = true;

	if (!lk)
		return true;
	bpf_spin_lock(&lk->lock);
	if (src->curr)
		may = affinity_has(&rq_task(src->curr)->affinity, b->cpu);
	bpf_spin_unlock(&lk->lock);
	if (!may)
		return false;
	/* Partner: push_task() there. */
	*begun = !__sync_val_compare_and_swap(&src->push_to, 0, b->cpu + 1);
	if (*begun)
		scx_bpf_kick_cpu(b->src, SCX_KICK_PREEMPT);
	return true;
}

/* All is well, or cannot be helped: the next pass may wait longer. */
static __noinline void lengthen_interval(struct balance *b, struct domain *d)
{
	u32 ms = READ_ONCE(d->interval_ms);

	if ((b->all_pinned && ms < MAX_PINNED_MS) || ms < max_interval_ms(params_of(d)))
		WRITE_ONCE(d->interval_ms, 2 * ms);
}

/* A pass that found load to move has moved none, once more. False: nor could it. */
static __noinline bool account_failure(struct balance *b, struct domain *d, bool *begun)
{
	u32 tries = params_of(d)->cache_nice_tries, failed = READ_ONCE(d->nr_failed) + 1;

	WRITE_ONCE(d->nr_failed, failed);
	if (!active_balance || failed <= tries + 2)
		return true;
	if (!begin_push(b, begun)) {
		b->all_pinned = true;
		return false;
	}
	WRITE_ONCE(d->nr_failed, tries + 1);
	return true;
}

enum pull {
	PULL_NONE,   /* all is well */
	PULL_SINGLE, /* the busiest CPU has one task, which runs */
	PULL_TRIED,  /* b->nr_moved tasks have come */
};

/* Finds the busiest CPU and takes tasks from it. */
static __always_inline enum pull pull_from_busiest(struct balance *b)
{
	s32 group = busiest_group(), src = group < 0 ? -1 : busiest_cpu(group);
	u32 nr;

	b->nr_moved = 0;
	if (src < 0)
		return PULL_NONE;
	b->src = src;
	nr = nr_running(src);
	if (nr <= 1)
		return PULL_SINGLE;
	/* Or that one would run dry. */
	b->max_moved = least_of(nr - 1, MAX_MOVED);
	move_tasks();
	return PULL_TRIED;
}

static __noinline void begin_pass(struct balance *b, u32 cpu, u32 level, enum balance_idle idle,
				  u64 now_ns)
{
	u32 n;

	bpf_for (n, 0, (nr_cpus + 63) / 64)
		b->left_out[n & (MAX_CPUS / 64 - 1)] = 0;
	b->cpu = cpu;
	b->level = level;
	b->idle = idle;
	b->now_ns = now_ns;
	b->sibling_busy = false;
	b->all_pinned = false;
}

/* Where siblings share a core and one of them is busy, an idle CPU counts as busy, too. */
static __always_inline bool shares_busy_core(const struct balance *b, const struct domain *d)
{
	return params_of(d)->flags & SHARE_CPUPOWER && (b->idle == LB_BUSY || b->sibling_busy);
}

/*
 * load_balance: evens out the groups of CPU @cpu's domain at @level; @idle is an enum balance_idle.
 * What it has found is in this_balance(): nr_moved tasks have come, or it is not this CPU's turn
 * (foreign). Returns nr_moved, or -1 if none has, but a sibling is busy.
 */
__noinline int load_balance(u32 cpu, u32 level, u32 idle, u64 now_ns)
{
	struct balance *b = this_balance();
	struct domain *d = domain(cpu, level);
	enum pull pull = PULL_NONE;
	bool begun = false, uneven;
	u32 n;

	begin_pass(b, cpu, level, idle, now_ns);
	/* CPUs with nothing but pinned tasks are left out, one by one. */
	bpf_for (n, 0, nr_cpus) {
		pull = pull_from_busiest(b);
		if (pull != PULL_TRIED || !b->all_pinned)
			break;
		leave_out(b, b->src);
		pull = PULL_NONE;
	}
	uneven = pull != PULL_NONE;
	if (uneven && !b->nr_moved)
		uneven = account_failure(b, d, &begun);
	else
		WRITE_ONCE(d->nr_failed, 0);
	if (!uneven)
		lengthen_interval(b, d);
	if (uneven && !begun)
		WRITE_ONCE(d->interval_ms, params_of(d)->min_ms);
	else if (uneven && READ_ONCE(d->interval_ms) < max_interval_ms(params_of(d)))
		WRITE_ONCE(d->interval_ms, 2 * READ_ONCE(d->interval_ms));
	if (!b->nr_moved && shares_busy_core(b, d))
		return -1;
	return b->nr_moved;
}

/* load_balance_newidle: the same for a CPU that has run dry. */
__noinline int load_balance_newidle(u32 cpu, u32 level, u64 now_ns)
{
	struct balance *b = this_balance();
	struct domain *d = domain(cpu, level);
	enum pull pull = PULL_NONE;
	u32 n;

	begin_pass(b, cpu, level, LB_NEWIDLE, now_ns);
	/* CPUs that give nothing are left out, one by one. */
	bpf_for (n, 0, nr_cpus) {
		pull = pull_from_busiest(b);
		if (pull != PULL_TRIED || b->nr_moved)
			break;
		leave_out(b, b->src);
	}
	if (!b->nr_moved && shares_busy_core(b, d))
		return -1;
	if (b->nr_moved || pull == PULL_NONE)
		WRITE_ONCE(d->nr_failed, 0);
	return b->nr_moved;
}

/* At ticks --------------------------------------------------------------------------------- */

/* One level of rebalance(). False: higher ones are another CPU's. */
static __always_inline bool rebalance_level(u32 cpu, u32 level, enum balance_idle *idle, u64 now_ns)
{
	struct domain *d = domain(cpu, level);
	bool serialize = params_of(d)->flags & DO_SERIALIZE, more = true;
	u64 tick = tick_of(now_ns);

	if ((s64)(tick - READ_ONCE(d->last_balance)) < (s64)interval_ticks(d, *idle != LB_IDLE))
		return true;
	if (serialize && __sync_val_compare_and_swap(&balancing, 0, 1))
		return true;
	/* A task has come, or a sibling is busy. */
	if (load_balance(cpu, level, *idle, now_ns))
		*idle = LB_BUSY;
	more = !this_balance()->foreign;
	WRITE_ONCE(d->last_balance, tick);
	/* With a barrier: what this pass has written is there for the next. */
	if (serialize)
		__sync_lock_test_and_set(&balancing, 0);
	return more;
}

/* rebalance_domains: balances all levels of @cpu that are due, and notes when the next one is. */
static __always_inline void rebalance(u32 cpu, enum balance_idle idle, u64 now_ns)
{
	u64 next = tick_of(now_ns) + 60ULL * tick_hz;
	u32 level;

	bpf_for (level, 0, MAX_LEVELS) {
		struct domain *d = domain(cpu, level);
		bool busy = idle != LB_IDLE;
		u64 due;
		bool more;

		if (level >= nr_domains(cpu))
			break;
		due = interval_ticks(d, busy);
		more = rebalance_level(cpu, level, &idle, now_ns);
		due += READ_ONCE(d->last_balance);
		if ((s64)(due - next) < 0)
			next = due;
		if (!more)
			break;
	}
	/* Partner: the CPU that balances for the idle ones. */
	WRITE_ONCE(cpu_rq(cpu)->next_balance, next);
	if (idle == LB_IDLE && (s64)(READ_ONCE(idle_next_balance) - next) > 0)
		WRITE_ONCE(idle_next_balance, next);
}

static __always_inline bool is_due(u32 cpu, u64 tick)
{
	return (s64)(tick - READ_ONCE(cpu_rq(cpu)->next_balance)) >= 0;
}

/* Wakes the first idle CPU to balance. */
static __noinline void kick_idle_balancer(const struct cpumask *idle, u64 tick)
{
	u32 cpu = bpf_cpumask_first(idle);

	if (cpu >= nr_cpus)
		return;
	WRITE_ONCE(idle_next_balance, tick + 1);
	/* Partner: take_idle_kick(). */
	if (!__sync_lock_test_and_set(&cpu_rq(cpu)->idle_kick, 1))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Takes the mark that @cpu has been woken for that. False: it has none. */
static __always_inline bool take_idle_kick(u32 cpu)
{
	/* Partner: kick_idle_balancer(). */
	return READ_ONCE(cpu_rq(cpu)->idle_kick) &&
	       __sync_lock_test_and_set(&cpu_rq(cpu)->idle_kick, 0);
}

/* A tick of a busy CPU. */
__noinline int balance_tick(u32 cpu, u64 now_ns)
{
	const struct cpumask *idle;
	u64 tick = tick_of(now_ns);

	if (!periodic_balance || !nr_domains(cpu))
		return 0;
	if (nr_running(cpu) > 1 && (s64)(tick - READ_ONCE(idle_next_balance)) >= 0) {
		idle = scx_bpf_get_idle_cpumask();
		kick_idle_balancer(idle, tick);
		scx_bpf_put_idle_cpumask(idle);
	}
	if (is_due(cpu, tick))
		rebalance(cpu, LB_BUSY, now_ns);
	return 0;
}

/* An idle CPU has been kicked: it balances for all idle CPUs that are due, itself first, until it
 * gets a task. */
__noinline int balance_idle(u32 here, u64 now_ns)
{
	u64 tick = tick_of(now_ns), next = tick + 60ULL * tick_hz;
	u32 n;

	bpf_for (n, 0, nr_cpus) {
		u32 cpu = (here + n) % nr_cpus;
		u64 due;

		/* A tick soon wakes another one. */
		if (nr_running(here))
			return 0;
		if (nr_running(cpu) || !online[cpu & (MAX_CPUS - 1)])
			continue;
		if (is_due(cpu, tick))
			rebalance(cpu, LB_IDLE, now_ns);
		due = READ_ONCE(cpu_rq(cpu)->next_balance);
		if ((s64)(next - due) > 0)
			next = due;
	}
	WRITE_ONCE(idle_next_balance, next);
	return 0;
}

/* When a CPU runs dry ---------------------------------------------------------------------- */

/* idle_balance: @cpu has nothing to run. True: now it has. */
__noinline int balance_newidle(u32 cpu, u64 now_ns)
{
	u64 next = tick_of(now_ns) + 60ULL * tick_hz;
	s32 found = 0;
	u32 level;

	if (!newidle_balance)
		return 0;
	bpf_for (level, 0, MAX_LEVELS) {
		struct domain *d = domain(cpu, level);
		u64 due;

		if (level >= nr_domains(cpu))
			break;
		if (params_of(d)->flags & DO_NEWIDLE)
			found = load_balance_newidle(cpu, level, now_ns);
		due = READ_ONCE(d->last_balance) + ticks_of(READ_ONCE(d->interval_ms));
		if ((s64)(due - next) < 0)
			next = due;
		if (found)
			break;
	}
	if (!found) {
		WRITE_ONCE(cpu_rq(cpu)->next_balance, next);
		/* Partner: balance_tick() of busy CPUs. */
		if ((s64)(READ_ONCE(idle_next_balance) - next) > 0)
			WRITE_ONCE(idle_next_balance, next);
	}
	return nr_running(cpu) > 0;
}

#endif
