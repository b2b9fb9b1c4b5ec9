/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Balancing: one level of one CPU, then when all of that happens: at ticks, when a CPU runs dry,
 * and by one idle CPU for all of them (no tick wakes an idle CPU).
 */
#ifndef __LIB_FAIR_BALANCE_H
#define __LIB_FAIR_BALANCE_H

#include "move.h"
#include "place.h"

/* With all tasks pinned, intervals grow up to this. */
#define MAX_PINNED_MS 512

/* NUMA levels are balanced by one CPU at a time. */
static u32 numa_balancing;
/* When the idle CPUs are due next. */
static u64 nohz_next_balance;

/* One level --------------------------------------------------------------------------------- */

static __always_inline u32 max_interval_ms(const struct cpu_domain *d)
{
	return 2 * (min_interval_ms ?: d->nr_cpus);
}

/* Ticks between passes. */
static __noinline u64 interval_ticks(const struct cpu_domain *d, bool busy)
{
	u64 ms = (u64)READ_ONCE(d->interval_ms) * (busy ? busy_factor : 1);
	u64 ticks = (ms * tick_hz + 999) / 1000 - (busy ? BUSY_TICKS_LESS : 0),
	    most = (u64)tick_hz * nr_online / 10;

	if (ticks > most)
		ticks = most;
	return ticks ?: 1;
}

/* Marks the own group of the next level: tasks are pinned in this one, or no longer. */
static __noinline void mark_parent(struct balance *b, bool imbalance)
{
	struct cpu_group *g;

	if (b->level + 1 >= nr_domains(b->cpu))
		return;
	g = group_at(domain(b->cpu, b->level + 1), 0);
	if (READ_ONCE(g->imbalance) != imbalance)
		WRITE_ONCE(g->imbalance, imbalance);
}

enum push { PUSH_NONE, PUSH_BEGUN, PUSH_UNDER_WAY, PUSH_PINNED };

/* Has b->src push a task to the balancing CPU. */
static __noinline enum push begin_push(struct balance *b, const struct cpu_domain *d)
{
	struct fair_cpu *cs = cpu_state(b->src);
	/* Partner: switch_to() there. */
	u32 curr = READ_ONCE(cs->curr);

	if (!active_balance || !needs_push(b, d))
		return PUSH_NONE;
	b->dst = b->cpu;
	if (curr && cpu_for(b, curr, false) == NOWHERE)
		return PUSH_PINNED;
	/* Partner: push_task() there. */
	if (__sync_val_compare_and_swap(&cs->push_to, 0, b->cpu + 1))
		return PUSH_UNDER_WAY;
	scx_bpf_kick_cpu(b->src, SCX_KICK_PREEMPT);
	return PUSH_BEGUN;
}

/* Moves tasks from b->src to b->dst, then to other CPUs of the group for which some were pinned. */
static __always_inline void pull_tasks(struct balance *b)
{
	u32 n;

	b->all_pinned = true;
	b->loop = 0;
	b->loop_max = min_of(min_of(nr_migrate, nr_running(b->src)), MAX_SEEN);
	b->new_dst = NOWHERE;
	bpf_for (n, 0, nr_cpus) {
		detach_tasks();
		b->nr_moved += b->nr_detached;
		attach_tasks();
		if (b->new_dst == NOWHERE || b->imbalance <= 0)
			break;
		leave_out(b, b->dst);
		b->dst = b->new_dst;
		b->new_dst = NOWHERE;
		b->loop = 0;
	}
	if (b->some_pinned && b->imbalance > 0)
		mark_parent(b, true);
}

enum pass {
	PASS_BALANCED,
	PASS_FOREIGN, /* another CPU balances for the group */
	PASS_PINNED,  /* no task of the busiest CPU may move */
	PASS_UNEVEN,  /* b->nr_moved tasks have */
};

static __always_inline enum pass try_balance(struct balance *b, struct cpu_domain *d)
{
	s32 index, src;

	if (!should_balance())
		return PASS_FOREIGN;
	index = busiest_group();
	src = index < 0 ? -1 : busiest_cpu(index, domain_pct(d));
	if (src < 0)
		return PASS_BALANCED;
	b->src = src;
	if (nr_running(src) > 1) {
		pull_tasks(b);
		if (b->all_pinned)
			return PASS_PINNED;
	}
	return PASS_UNEVEN;
}

/* All is well, or cannot be helped: the next pass may wait longer. */
static __noinline void lengthen_interval(struct balance *b, struct cpu_domain *d)
{
	if (READ_ONCE(d->interval_ms) < max_interval_ms(d) ||
	    (b->all_pinned && READ_ONCE(d->interval_ms) < MAX_PINNED_MS))
		WRITE_ONCE(d->interval_ms, 2 * READ_ONCE(d->interval_ms));
}

/* After a pass that found load to move. */
static __noinline void account_uneven(struct balance *b, struct cpu_domain *d)
{
	enum push push = PUSH_NONE;

	if (b->nr_moved) {
		WRITE_ONCE(d->nr_failed, 0);
	} else {
		if (b->idle != LB_NEWIDLE)
			WRITE_ONCE(d->nr_failed, READ_ONCE(d->nr_failed) + 1);
		push = begin_push(b, d);
		if (push == PUSH_PINNED) {
			b->all_pinned = true;
			lengthen_interval(b, d);
			return;
		}
		if (PUSH_COUNTS && push != PUSH_NONE)
			WRITE_ONCE(d->nr_failed, hot_tries(d) + 1);
	}
	if (push != PUSH_BEGUN)
		WRITE_ONCE(d->interval_ms, max_interval_ms(d) / 2);
	else if (READ_ONCE(d->interval_ms) < max_interval_ms(d))
		WRITE_ONCE(d->interval_ms, 2 * READ_ONCE(d->interval_ms));
}

/*
 * Evens out the groups of CPU @cpu's domain at @level; @idle is an enum balance_idle. What it has
 * found is in this_balance(): nr_moved tasks have come. 0: it is not this CPU's turn.
 */
__noinline int balance_domain(u32 cpu, u32 level, u32 idle, u64 now_ns)
{
	struct balance *b = this_balance();
	struct cpu_domain *d = domain(cpu, level);
	enum pass pass = PASS_PINNED;
	u32 n;

	bpf_for (n, 0, (nr_cpus + 63) / 64)
		b->left_out[n & (MAX_CPUS / 64 - 1)] = 0;
	b->nr_left_out = 0;
	b->cpu = cpu;
	b->dst = cpu;
	b->level = level;
	b->idle = idle;
	b->now_ns = now_ns;
	b->nr_moved = 0;
	b->some_pinned = false;
	b->all_pinned = false;
	/* CPUs with nothing but pinned tasks are left out, one by one. */
	bpf_for (n, 0, nr_cpus) {
		pass = try_balance(b, d);
		if (pass != PASS_PINNED)
			break;
		leave_out(b, b->src);
		if (b->nr_left_out >= nr_online)
			break;
	}
	if (pass == PASS_UNEVEN) {
		account_uneven(b, d);
		return true;
	}
	if (pass != PASS_PINNED)
		mark_parent(b, false);
	WRITE_ONCE(d->nr_failed, 0);
	if (idle != LB_NEWIDLE || NEWIDLE_LENGTHENS)
		lengthen_interval(b, d);
	b->nr_moved = 0;
	return pass != PASS_FOREIGN;
}

/* At ticks --------------------------------------------------------------------------------- */

/* A second after the last time, searches by CPUs that run dry are taken for a little cheaper. */
static __noinline bool decay_newidle(struct cpu_domain *d, u64 tick)
{
	if ((s64)(tick - READ_ONCE(d->next_decay)) <= 0)
		return false;
	WRITE_ONCE(d->max_newidle_ns, READ_ONCE(d->max_newidle_ns) * 253 / 256);
	WRITE_ONCE(d->next_decay, tick + tick_hz);
	return true;
}

/* Brings the averages and the capacity of @cpu up to date: of an idle one nothing else does. */
static __noinline void refresh_load(u32 cpu, u64 now_ns)
{
	struct fair_cpu *cs = cpu_state(cpu);
	struct fair_lock *lk = cpu_lock(cpu);

	if (!lk)
		return;
	bpf_spin_lock(&lk->lock);
	update_blocked(cpu, now_ns);
	if (cs->other_avg) {
		age_other(cs, now_ns);
		update_capacity(cpu, now_ns);
	}
	bpf_spin_unlock(&lk->lock);
}

/* One level of rebalance(). Returns false if higher ones are another CPU's. */
static __always_inline bool rebalance_level(u32 cpu, u32 level, enum balance_idle *idle, u64 now_ns)
{
	struct cpu_domain *d = domain(cpu, level);
	struct balance *b = this_balance();
	u64 tick = tick_of(now_ns);
	bool more;

	if ((s64)(tick - READ_ONCE(d->last_balance)) < (s64)interval_ticks(d, *idle == LB_BUSY))
		return true;
	/* A level of NUMA waits for its turn. */
	if (d->kind == LEVEL_NUMA && __sync_val_compare_and_swap(&numa_balancing, 0, 1))
		return true;
	more = balance_domain(cpu, level, *idle, now_ns);
	if (b->nr_moved)
		*idle = nr_running(cpu) ? LB_BUSY : LB_IDLE;
	WRITE_ONCE(d->last_balance, tick);
	/* With a barrier: what this pass has written is there for the next. */
	if (d->kind == LEVEL_NUMA)
		__sync_lock_test_and_set(&numa_balancing, 0);
	return more;
}

/* Balances all levels of @cpu that are due, and says when the next one is. */
static __always_inline void rebalance(u32 cpu, enum balance_idle state, u64 now_ns)
{
	u64 tick = tick_of(now_ns), next = tick + 60ULL * tick_hz, cost_ns = 0;
	enum balance_idle idle = state;
	bool more = true, decayed = false;
	u32 level;

	refresh_load(cpu, now_ns);
	bpf_for (level, 0, MAX_LEVELS) {
		struct cpu_domain *d = domain(cpu, level);
		u64 due;

		if (level >= nr_domains(cpu))
			break;
		decayed |= decay_newidle(d, tick);
		cost_ns += READ_ONCE(d->max_newidle_ns);
		if (!more && decayed)
			continue;
		if (!more)
			break;
		more = rebalance_level(cpu, level, &idle, now_ns);
		due = READ_ONCE(d->last_balance) + interval_ticks(d, idle == LB_BUSY);
		if ((s64)(due - next) < 0)
			next = due;
	}
	if (decayed)
		WRITE_ONCE(cpu_state(cpu)->max_idle_cost_ns, max_of(cost_ns, migration_cost_ns));
	/* Partner: the CPU that balances for the idle ones. */
	WRITE_ONCE(cpu_state(cpu)->next_balance, next);
	if (IDLE_LOWERS_NOHZ && idle == LB_IDLE && (s64)(READ_ONCE(nohz_next_balance) - next) > 0)
		WRITE_ONCE(nohz_next_balance, next);
}

/* Whether a busy CPU's tick is to wake an idle CPU that balances for all idle ones. */
static __noinline bool needs_idle_balancer(u32 cpu, u64 tick, u32 nr_busy)
{
	if ((s64)(tick - READ_ONCE(nohz_next_balance)) < 0)
		return false;
	if (nr_running(cpu) >= 2 || nr_busy > 1)
		return true;
	return nr_domains(cpu) && READ_ONCE(cpu_state(cpu)->nr_tasks) &&
	       capacity_reduced(cpu, domain_pct(domain(cpu, 0)));
}

/* CPUs of @cpu's cache that are not idle. */
static __noinline u32 busy_in_cache(u32 cpu, const struct cpumask *idle)
{
	u32 n, nr = 0, c = cpu;

	bpf_for (n, 0, llc_size(cpu)) {
		nr += !bpf_cpumask_test_cpu(c, idle);
		c = ring_next(LEVEL_MC, c);
	}
	return nr;
}

/* Wakes the first idle CPU to balance, if that is really idle and not on its way. */
static __noinline void kick_idle_balancer(const struct cpumask *idle)
{
	u32 cpu = bpf_cpumask_first(idle);

	WRITE_ONCE(nohz_next_balance, READ_ONCE(nohz_next_balance) + 1);
	if (cpu >= nr_cpus || !cpu_is_idle(cpu, idle))
		return;
	/* Partner: take_idle_kick(). */
	if (__sync_lock_test_and_set(&cpu_state(cpu)->nohz_kick, 1))
		return;
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Takes the mark that @cpu has been woken for that. False: it has none. */
static __always_inline bool take_idle_kick(u32 cpu)
{
	/* Partner: kick_idle_balancer(). */
	return READ_ONCE(cpu_state(cpu)->nohz_kick) &&
	       __sync_lock_test_and_set(&cpu_state(cpu)->nohz_kick, 0);
}

static __always_inline bool is_due(u32 cpu, u64 tick)
{
	return (s64)(tick - READ_ONCE(cpu_state(cpu)->next_balance)) >= 0;
}

/* A tick of a busy CPU. */
__noinline int balance_tick(u32 cpu, u64 now_ns)
{
	const struct cpumask *idle;
	u64 tick = tick_of(now_ns);

	count_load(cpu, tick);
	if (!periodic_balance || !nr_domains(cpu))
		return 0;
	idle = scx_bpf_get_idle_cpumask();
	if (bpf_cpumask_first(idle) < nr_cpus &&
	    needs_idle_balancer(cpu, tick, busy_in_cache(cpu, idle)))
		kick_idle_balancer(idle);
	scx_bpf_put_idle_cpumask(idle);
	if (is_due(cpu, tick))
		rebalance(cpu, LB_BUSY, now_ns);
	return 0;
}

/* An idle CPU has been kicked: it balances for all idle CPUs that are due, itself last. */
__noinline int balance_idle(u32 here, u64 now_ns)
{
	u64 tick = tick_of(now_ns), next = tick + 60ULL * tick_hz;
	bool update = false;
	u32 n;

	bpf_for (n, 1, nr_cpus + 1) {
		u32 cpu = (here + n) % nr_cpus;
		u64 due;

		if (cpu != here && (nr_running(here) || !is_idle(cpu)))
			continue;
		if (cpu == here && update)
			WRITE_ONCE(nohz_next_balance, next);
		if ((KICKED_BALANCES && cpu == here) || is_due(cpu, tick)) {
			if (cpu != here)
				count_load(cpu, tick);
			rebalance(cpu, nr_running(cpu) ? LB_BUSY : LB_IDLE, now_ns);
		}
		due = READ_ONCE(cpu_state(cpu)->next_balance);
		if ((s64)(due - next) < 0) {
			next = due;
			update = true;
		}
	}
	return 0;
}

/* When a CPU runs dry ---------------------------------------------------------------------- */

/* Brings @next, a tick, forward to when a level is due for an idle CPU. */
static __always_inline u64 due_idle(const struct cpu_domain *d, u64 next)
{
	u64 due = READ_ONCE(d->last_balance) + interval_ticks(d, false);

	return (s64)(due - next) < 0 ? due : next;
}

/* Looks for a task, level by level, as long as the CPU's idle times are worth it. */
static __always_inline u32 search_levels(u32 cpu, u64 now_ns, u64 *next, u64 *cost_ns)
{
	struct fair_cpu *cs = cpu_state(cpu);
	struct balance *b = this_balance();
	u32 level, found = 0;

	bpf_for (level, 0, MAX_LEVELS) {
		struct cpu_domain *d = domain(cpu, level);
		u64 begin_ns, took_ns;

		if (level >= nr_domains(cpu))
			break;
		if (READ_ONCE(cs->avg_idle_ns) < *cost_ns + READ_ONCE(d->max_newidle_ns)) {
			*next = due_idle(d, *next);
			break;
		}
		if (!newidle_tries(cpu, level)) {
			*next = due_idle(d, *next);
			continue;
		}
		begin_ns = bpf_ktime_get_ns();
		balance_domain(cpu, level, LB_NEWIDLE, now_ns);
		found = b->nr_moved;
		newidle_tried(cpu, level, found);
		took_ns = bpf_ktime_get_ns() - begin_ns;
		if (took_ns > READ_ONCE(d->max_newidle_ns))
			WRITE_ONCE(d->max_newidle_ns, took_ns);
		*cost_ns += took_ns;
		*next = due_idle(d, *next);
		if (found || nr_running(cpu))
			break;
	}
	return found;
}

/* @cpu has nothing to run. True: now it has. */
__noinline int balance_newidle(u32 cpu, u64 now_ns)
{
	struct fair_cpu *cs = cpu_state(cpu);
	u64 next = tick_of(now_ns) + tick_hz, cost_ns = 0;
	bool found = false;

	WRITE_ONCE(cs->idle_since_ns, now_ns);
	if (!nr_domains(cpu) || !newidle_balance)
		return false;
	if (!newidle_pays(cpu, cs) || !READ_ONCE(overload)) {
		next = due_idle(domain(cpu, 0), next);
	} else {
		refresh_load(cpu, now_ns);
		found = search_levels(cpu, now_ns, &next, &cost_ns);
		if (cost_ns > READ_ONCE(cs->max_idle_cost_ns))
			WRITE_ONCE(cs->max_idle_cost_ns, cost_ns);
		found |= READ_ONCE(cs->nr_tasks) > 0;
	}
	if ((s64)(READ_ONCE(cs->next_balance) - next) > 0)
		WRITE_ONCE(cs->next_balance, next);
	if (found)
		WRITE_ONCE(cs->idle_since_ns, 0);
	return found;
}

/* A task comes to @cpu: if that was idle, its idle times are known a little better. */
static __noinline void end_idle(u32 cpu, u64 now_ns)
{
	struct fair_cpu *cs = cpu_state(cpu);
	u64 since_ns = READ_ONCE(cs->idle_since_ns), most = 2 * READ_ONCE(cs->max_idle_cost_ns);
	u64 avg_ns = READ_ONCE(cs->avg_idle_ns);

	if (!since_ns)
		return;
	/* Rounded down, as a shift does. */
	avg_ns += (s64)(now_ns - since_ns - avg_ns) >> 3;
	/* Partner: newidle_pays(). */
	WRITE_ONCE(cs->avg_idle_ns, min_of(avg_ns, most));
	WRITE_ONCE(cs->idle_since_ns, 0);
}

#endif
