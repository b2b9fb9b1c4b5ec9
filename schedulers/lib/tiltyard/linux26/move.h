/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Taking tasks off a CPU and giving them to another.
 *
 * A task that waits is in the scheduler's custody, so that to move it is to change queues here; the
 * core follows when it is dispatched there. Between the two queues it is `moving`: it belongs to
 * the CPU it goes to, whose lock guards it. If the core takes it away for good meanwhile, it stays
 * away.
 *
 * Expired tasks go first: they would wait longest, and their caches are coldest. Of an array those
 * of the best priority go first; of a list the last. Linux holds both CPUs' locks meanwhile.
 */
#ifndef __LIB_LINUX26_MOVE_H
#define __LIB_LINUX26_MOVE_H

#include "busiest.h"
#include "place.h"
#include "tasks.h"

/* Where the search begins. Lock of the source held. */
static __always_inline void begin_walk(struct balance *b, const struct runqueue *src)
{
	u32 expired = expired_of(src);

	b->last_array = !src->arrays[expired & 1].nr_active;
	b->array = b->last_array ? src->active : expired;
	b->level_at = 0;
	b->at = 0;
}

/* The next task to look at, 0 if there is none. Lock of the source held. */
static __always_inline u32 next_task(struct balance *b, struct runqueue *src)
{
	u32 i = b->at, level = b->level_at;
	struct prio_array *a = rq_array(src, b->array);
	u64 rest;

	if (!i) {
		rest = level < RQ_LEVELS ? a->bitmap >> (level & 63) : 0;
		if (!rest && !b->last_array) {
			b->last_array = true;
			b->array = src->active;
			level = 0;
			a = rq_array(src, b->array);
			rest = a->bitmap;
		}
		if (!rest)
			return 0;
		level += __builtin_ctzll(rest);
		i = rq_task(a->head[level & (RQ_LEVELS - 1)])->prev;
	}
	/* The head is the last of its list. */
	b->at = i == a->head[level & (RQ_LEVELS - 1)] ? 0 : rq_task(i)->prev;
	b->level_at = b->at ? level : level + 1;
	return i;
}

/* May task @i be moved to b->cpu? Lock of the source held. */
static __always_inline bool can_migrate(struct balance *b, struct runqueue *src, u32 i)
{
	struct domain *d = domain(b->cpu, b->level);
	const struct domain_params *params = params_of(d);
	struct rq_task *t = rq_task(i);
	/* No tick of ours comes while a task of a higher class runs. */
	u64 clock_ns = src->nr_other ? b->now_ns : src->clock_ns;
	s64 cold_ns = clock_ns - t->last_ran_ns;

	if (!affinity_has(&t->affinity, b->cpu))
		return false;
	b->all_pinned = false;
	/* It runs, or is on its way out of our hands. */
	if (src->curr == i || !custody_holds(&t->custody))
		return false;
	if (READ_ONCE(d->nr_failed) > params->cache_nice_tries)
		return true;
	return cold_ns >= (s64)cache_hot_us[d->kind & (MAX_LEVELS - 1)] * 1000;
}

/* Is task @i too heavy for what is left to be moved? Not if it would be the best on the CPU it goes
 * to, and another one as good stays. */
static __always_inline bool too_heavy(const struct balance *b, const struct rq_task *t)
{
	if ((s64)t->load_weight <= b->rem_load)
		return false;
	if (t->prio < b->this_best_prio)
		return !b->best_prio_seen && t->prio == b->best_prio;
	return true;
}

/* Takes task @i off its CPU; it is b->cpu's. Lock of the former held. */
static __always_inline void detach_task(struct balance *b, struct runqueue *src, u32 i)
{
	u32 n = b->nr_moved & (MAX_MOVED - 1);

	b->was_expired[n] = rq_task(i)->array != src->active;
	b->moved[n] = i;
	b->nr_moved++;
	dequeue(src, i);
	dec_nr_running(src, i);
	rq_task(i)->moving = true;
	/* Partners: all who look for the lock of a task that they do not run. */
	WRITE_ONCE(rq_task(i)->cpu, b->cpu);
}

/* Looks at one task. False: enough, or there are no more. Lock of the source held. */
static __always_inline bool move_one(struct balance *b, struct runqueue *src)
{
	u32 i = next_task(b, src), prio = rq_task(i)->prio;

	if (!i)
		return false;
	if (too_heavy(b, rq_task(i)) || !can_migrate(b, src, i)) {
		b->best_prio_seen |= prio == b->best_prio;
		return true;
	}
	b->rem_load -= rq_task(i)->load_weight;
	detach_task(b, src, i);
	if (prio < b->this_best_prio)
		b->this_best_prio = prio;
	return b->nr_moved < b->max_moved && b->rem_load > 0;
}

/* Takes tasks off b->src. Lock of that held. @curr: priority of what runs there. */
static __noinline void detach_tasks(struct balance *b, struct runqueue *src, u32 curr)
{
	u32 n;

	b->best_prio = rq_best_prio(src, curr);
	b->best_prio_seen = b->best_prio == curr;
	begin_walk(b, src);
	bpf_for (n, 0, MAX_TASKS) {
		if (!move_one(b, src))
			break;
	}
}

/* What b->cpu has been given joins its queue, unless the core has taken it away meanwhile. Not
 * static: see depart(). */
__noinline int attach_tasks(void)
{
	struct balance *b = this_balance();
	struct queue_lock *lk = rq_lock(b->cpu);
	struct runqueue *rq = cpu_rq(b->cpu);
	bool preempt = false;
	u32 n;

	if (!lk || !b->nr_moved)
		return 0;
	bpf_spin_lock(&lk->lock);
	/* No tick came while it idled. */
	if (!rq->nr_running)
		update_cpu_load(rq, tick_of(b->now_ns));
	bpf_for (n, 0, MAX_MOVED) {
		u32 i = b->moved[n & (MAX_MOVED - 1)];

		if (n >= b->nr_moved)
			break;
		if (!rq_task(i)->moving || rq_task(i)->cpu != b->cpu)
			continue;
		rq_task(i)->moving = false;
		preempt |= rq_pull(rq, i, b->was_expired[n & (MAX_MOVED - 1)], b->now_ns);
	}
	bpf_spin_unlock(&lk->lock);
	/* A CPU that looks for tasks before it idles looks into its queue next. */
	if (preempt && (b->idle == LB_BUSY || b->cpu != bpf_get_smp_processor_id()))
		scx_bpf_kick_cpu(b->cpu, SCX_KICK_PREEMPT);
	return 0;
}

/* Moves tasks from b->src to b->cpu until the imbalance is made up for: b->nr_moved. All but one.
 */
__noinline int move_tasks(void)
{
	struct balance *b = this_balance();
	struct queue_lock *lk = rq_lock(b->src);
	struct runqueue *src = cpu_rq(b->src), *dst = cpu_rq(b->cpu);

	b->nr_moved = 0;
	b->rem_load = b->imbalance;
	if (!lk || !b->max_moved || b->rem_load <= 0)
		return 0;
	b->all_pinned = true;
	b->this_best_prio = rq_best_prio(dst, curr_prio(dst));
	bpf_spin_lock(&lk->lock);
	detach_tasks(b, src, curr_prio(src));
	bpf_spin_unlock(&lk->lock);
	attach_tasks();
	return 0;
}

/* Pushing --------------------------------------------------------------------------------- */

enum { PUSHED_WAITING = 1, PUSHED_CURRENT };

/* More than any load. */
#define ANY_LOAD (1ULL << 32)

/*
 * CPU @cpu has been asked to push a task to one that gets none by balancing. It takes the running
 * one, @curr or 0, off the CPU first, as Linux's migration thread does, which has priority 0.
 * Returns what has been pushed, 0 for nothing.
 */
__noinline int push_task(u32 cpu, u32 curr, u64 now_ns)
{
	struct balance *b = this_balance();
	struct queue_lock *lk = rq_lock(cpu);
	struct runqueue *src = cpu_rq(cpu);
	/* Partner: begin_push(). */
	u32 to = __sync_lock_test_and_set(&src->push_to, 0) - 1;

	if (to == -1U || !lk)
		return 0;
	b->cpu = to;
	b->src = cpu;
	b->idle = LB_IDLE;
	b->now_ns = now_ns;
	b->level = level_with(to, cpu);
	b->nr_moved = 0;
	b->max_moved = 1;
	b->rem_load = ANY_LOAD;
	b->this_best_prio = rq_best_prio(cpu_rq(to), curr_prio(cpu_rq(to)));
	bpf_spin_lock(&lk->lock);
	put_curr(src, now_ns);
	/* It could be moved now, but is held by the core until it comes back by enqueue(). */
	if (curr && rq_task(curr)->cpu == cpu && is_queued(curr))
		custody_begin(&rq_task(curr)->custody, rq_task(curr)->custody.pid);
	else
		curr = 0;
	if (b->level < MAX_LEVELS)
		detach_tasks(b, src, 0);
	if (curr) {
		custody_end(&rq_task(curr)->custody);
		rq_task(curr)->pushed = b->nr_moved && b->moved[0] == curr;
	}
	bpf_spin_unlock(&lk->lock);
	if (!b->nr_moved)
		return 0;
	if (curr && b->moved[0] == curr)
		return PUSHED_CURRENT;
	attach_tasks();
	return PUSHED_WAITING;
}

#endif
