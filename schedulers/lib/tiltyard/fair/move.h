/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Taking tasks off a CPU and giving them to another.
 *
 * A task that waits is in the scheduler's custody, so that to move it is to change queues here; the
 * core follows when it is dispatched there. Between the two queues it is `moving`: it belongs to
 * the CPU it goes to, whose lock guards it. If the core takes it away for good meanwhile, it stays
 * away.
 *
 * Affinity is asked of the kernel, which cannot be done under a lock. So a pass writes down the
 * tasks that it will look at, asks for each, and then looks again who is still there: on this CPU,
 * and in the round of custody that it was in when it was asked. Of another task that has got the
 * place meanwhile, or of one with a new affinity, the answer means nothing.
 */
#ifndef __LIB_FAIR_MOVE_H
#define __LIB_FAIR_MOVE_H

#include "pass.h"
#include "turns.h"

/* The CPU to which task @i may go: b->dst, or if it may not run there and @others is set, another
 * one of the own group of the balancing CPU; else NOWHERE. */
static __noinline u32 cpu_for(struct balance *b, u32 i, bool others)
{
	struct task_struct *p = bpf_task_from_pid(READ_ONCE(entity(i)->custody.pid));
	struct cpu_group *g = group_at(domain(b->cpu, b->level), 0);
	u32 found = NOWHERE, n;

	if (!p)
		return NOWHERE;
	if (is_migration_disabled(p))
		others = false;
	else if (bpf_cpumask_test_cpu(b->dst, p->cpus_ptr))
		found = b->dst;
	bpf_for (n, 0, g->nr) {
		u32 cpu = member(g, n);

		if (!others || found != NOWHERE)
			break;
		if (!is_left_out(b, cpu) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			found = cpu;
	}
	bpf_task_release(p);
	return found;
}

/* Notes the tasks of b->src that the pass will look at, and where each may go. */
static __noinline void look(struct balance *b)
{
	struct fair_lock *lk = cpu_lock(b->src);
	u32 i, n, nr = b->loop_max - b->loop;

	b->nr_seen = 0;
	if (!lk)
		return;
	bpf_spin_lock(&lk->lock);
	i = cpu_state(b->src)->first_task;
	bpf_for (n, 0, MAX_SEEN) {
		if (!i || n >= nr)
			break;
		b->seen[n & (MAX_SEEN - 1)] = i;
		b->seen_round[n & (MAX_SEEN - 1)] = entity(i)->custody.round;
		b->nr_seen = n + 1;
		i = entity(i)->list_next;
	}
	bpf_spin_unlock(&lk->lock);
	bpf_for (n, 0, MAX_SEEN) {
		if (n >= b->nr_seen)
			break;
		b->seen_to[n & (MAX_SEEN - 1)] =
			cpu_for(b, b->seen[n & (MAX_SEEN - 1)], b->idle != LB_NEWIDLE);
	}
}

/* Is task @n of those noted still what it was? The lock held is that of b->src, so what it guards
 * may be read once the task is found to be there. Partners: detach_task(), init_task() and join(),
 * which sets the CPU and only then queues the task: so this looks the other way round. Where CPUs
 * keep the order of stores and of loads, as on x86, it cannot find a task queued that is on its way
 * from here to another CPU. */
static __always_inline bool still_there(struct balance *b, u32 n)
{
	struct fair_entity *e = entity(b->seen[n & (MAX_SEEN - 1)]);

	return READ_ONCE(e->on_rq) && READ_ONCE(e->cpu) == b->src &&
	       e->custody.round == b->seen_round[n & (MAX_SEEN - 1)];
}

/* Has task @i a warm cache where it is? Lock held. */
static __noinline bool is_hot(struct balance *b, u32 i)
{
	struct fair_entity *e = entity(i);
	struct fair_queue *cfs_rq = queue(e->queue);

	if (e->policy == POLICY_IDLE ||
	    (SIBLINGS_SHARE_CACHE && domain(b->cpu, b->level)->kind == LEVEL_SMT))
		return false;
	if (nr_running(b->dst) && (cfs_rq->next == i || cfs_rq->last == i))
		return true;
	if (!migration_cost_ns)
		return false;
	return (s64)(b->now_ns - e->exec_start_ns) < (s64)migration_cost_ns;
}

/* May task @i, which may go to CPU @to, be moved to b->dst? Lock held. */
static __noinline bool may_move(struct balance *b, u32 i, u32 to)
{
	struct cpu_domain *d = domain(b->cpu, b->level);
	struct fair_entity *e = entity(i);

	if (stays_behind(b, i))
		return false;
	if (to != b->dst) {
		b->some_pinned = true;
		if (to != NOWHERE && b->new_dst == NOWHERE)
			b->new_dst = to;
		return false;
	}
	b->all_pinned = false;
	/* It runs, or is on its way out of our hands. */
	if (cpu_state(b->src)->curr == i || !e->waiting || !custody_holds(&e->custody))
		return false;
	return READ_ONCE(d->nr_failed) > hot_tries(d) || !is_hot(b, i);
}

/* Takes task @i off its CPU; it is b->dst's. Lock of the former held. */
static __always_inline void detach_task(struct balance *b, u32 i)
{
	struct fair_entity *e = entity(i);

	dequeue_task(i, b->now_ns, 0);
	load_leaves(i, b->now_ns);
	detach_moved(i);
	/* Its cache is left behind. */
	e->exec_start_ns = 0;
	e->moving = true;
	e->queue = queue_of(e->group, b->dst);
	/* Partners: all who look for the lock of a task that they do not run. */
	WRITE_ONCE(e->cpu, b->dst);
	b->detached[b->nr_detached++ & (MAX_SEEN - 1)] = i;
}

/* Looks at one of the tasks noted. False: enough. Lock held. */
static __always_inline bool detach_one(struct balance *b, u32 n)
{
	u32 i = b->seen[n & (MAX_SEEN - 1)], to = b->seen_to[n & (MAX_SEEN - 1)];
	struct fair_cpu *cs = cpu_state(b->src);
	s64 amount;

	/* To take all of them would only have them taken back. */
	if (b->idle != LB_BUSY && nr_running(b->src) <= 1)
		return false;
	b->loop++;
	if (!still_there(b, n))
		return true;
	if (!may_move(b, i, to)) {
		list_task_last(cs, i);
		return true;
	}
	if (!fits(b, i, &amount)) {
		list_task_last(cs, i);
		return true;
	}
	detach_task(b, i);
	b->imbalance -= amount;
	if (b->idle == LB_NEWIDLE && newidle_one)
		return false;
	return b->imbalance > 0;
}

/* Takes tasks off b->src until b->imbalance is made up for. Not static: see join_session(). */
__noinline int detach_tasks(void)
{
	struct balance *b = this_balance();
	struct fair_lock *lk = cpu_lock(b->src);
	u32 n;

	b->nr_detached = 0;
	if (!lk || b->imbalance <= 0)
		return 0;
	look(b);
	bpf_spin_lock(&lk->lock);
	bpf_for (n, 0, MAX_SEEN) {
		if (n >= b->nr_seen || !detach_one(b, n))
			break;
	}
	bpf_spin_unlock(&lk->lock);
	return b->nr_detached;
}

/* Task @i, on its way, joins @cpu's queues unless the core has taken it away meanwhile. True: it
 * should preempt. Lock held. */
static __always_inline bool attach_task(u32 i, u32 cpu, u64 now_ns)
{
	struct fair_entity *e = entity(i);

	if (!e->moving || e->cpu != cpu)
		return false;
	e->moving = false;
	enqueue_task(i, now_ns, false);
	if (!preempts(i, now_ns))
		return false;
	/* Partner: fair_running() there, which has no lock. */
	WRITE_ONCE(cpu_state(cpu)->resched, true);
	return true;
}

/* Gives b->dst what was taken, the last one first. */
__noinline int attach_tasks(void)
{
	struct balance *b = this_balance();
	struct fair_lock *lk = cpu_lock(b->dst);
	bool preempt = false;
	u32 n;

	if (!lk || !b->nr_detached)
		return 0;
	bpf_spin_lock(&lk->lock);
	bpf_for (n, 0, MAX_SEEN) {
		u32 last = b->nr_detached - 1 - n;

		if (n >= b->nr_detached)
			break;
		preempt |= attach_task(b->detached[last & (MAX_SEEN - 1)], b->dst, b->now_ns);
	}
	bpf_spin_unlock(&lk->lock);
	scx_bpf_kick_cpu(b->dst, preempt ? SCX_KICK_PREEMPT : SCX_KICK_IDLE);
	return 0;
}

/* Pushing --------------------------------------------------------------------------------- */

/* Of the tasks noted takes the first that may go, task @curr, which has just run here, included.
 * Lock held. */
static __noinline void detach_any(struct balance *b, u32 curr)
{
	struct cpu_domain *d = domain(b->cpu, b->level);
	u32 n;

	bpf_for (n, 0, MAX_SEEN) {
		u32 i = b->seen[n & (MAX_SEEN - 1)];
		struct fair_entity *e = entity(i);

		if (n >= b->nr_seen)
			break;
		if (b->seen_to[n & (MAX_SEEN - 1)] != b->dst || !still_there(b, n) || !e->waiting ||
		    !(custody_holds(&e->custody) || i == curr) ||
		    (!PUSH_TAKES_HOT && READ_ONCE(d->nr_failed) <= hot_tries(d) && is_hot(b, i)))
			continue;
		detach_task(b, i);
		e->pushed = i == curr;
		WRITE_ONCE(d->nr_failed, 0);
		break;
	}
}

enum { PUSHED_WAITING = 1, PUSHED_CURRENT };

/*
 * CPU @cpu has been asked to push a task to one that gets none by balancing. It takes the running
 * one, @curr or 0, out of its turn first, as the kernel's stopper thread does. Returns what has
 * been pushed, 0 for nothing.
 */
__noinline int push_task(u32 cpu, u32 curr, u64 now_ns)
{
	struct balance *b = this_balance();
	struct fair_lock *lk = cpu_lock(cpu);
	/* Partner: begin_push(). */
	u32 to = __sync_lock_test_and_set(&cpu_state(cpu)->push_to, 0) - 1, level;

	if (to == -1U || !lk)
		return 0;
	b->cpu = to;
	b->dst = to;
	b->src = cpu;
	b->level = MAX_LEVELS;
	b->idle = LB_IDLE;
	b->now_ns = now_ns;
	bpf_for (level, 0, MAX_LEVELS) {
		if (level < nr_domains(to) && b->level == MAX_LEVELS &&
		    domain_has(to, domain(to, level), cpu))
			b->level = level;
	}
	b->loop = 0;
	b->loop_max = MAX_SEEN;
	b->nr_detached = 0;
	look(b);
	bpf_spin_lock(&lk->lock);
	put_current(queue_of(0, cpu), now_ns);
	WRITE_ONCE(cpu_state(cpu)->curr, 0);
	if (b->level < MAX_LEVELS)
		detach_any(b, curr);
	bpf_spin_unlock(&lk->lock);
	if (!b->nr_detached)
		return 0;
	if (b->detached[0] == curr)
		return PUSHED_CURRENT;
	attach_tasks();
	return PUSHED_WAITING;
}

#endif
