/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Linux 2.6's scheduler as callbacks of sched_ext: everything but the rule by which the tasks of a
 * CPU take turns, which a scheduler defines first (rule.h). It adds init_task(), set_weight(),
 * set_cpumask(), which has to call set_affinity(), and init().
 *
 *   rq.h       runqueues: two arrays of lists     domains.h  groups of CPUs, level by level
 *   rule.h     what a scheduler defines           busiest.h  whom to take tasks from
 *   tasks.h    a task's CPU, creation, affinity   move.h     taking and giving tasks
 *   load.h     loads of CPUs                      balance.h  when all of that happens
 *   place.h    where a task wakes up or begins
 *
 * As in cfs, queues are plain arrays, each under its CPU's lock, not DSQs: the order in a list, a
 * new task's place before its parent and a moved task's place matter, and the running task stays in
 * its list. dispatch() is called before the previous task is put back, so it charges that task,
 * chooses among it and all others, and makes the switch at once. Slices are given as TURN_NS;
 * tick() ends turns.
 */
#ifndef __LIB_LINUX26_CLASS_H
#define __LIB_LINUX26_CLASS_H

#include "balance.h"
#include "rule.h"
#include "tasks.h"

/* Slice given to the core: far beyond any turn, but not "infinite", which may stop the tick. */
#define TURN_NS	       (1ULL << 60)
/* Tasks that may turn out not to be ours in one dispatch(); each has just been dequeued. */
#define DISPATCH_TRIES 32

/* Coming ------------------------------------------------------------------------------------ */

s32 BPF_STRUCT_OPS(linux26_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u32 i = slot_of(p), cpu = prev_cpu;
	bool sync = wake_flags & SCX_WAKE_SYNC;

	if (!i || (u32)prev_cpu >= nr_cpus)
		return prev_cpu;
	/* init_task() has chosen. */
	if (rq_task(i)->forker)
		return rq_task(i)->cpu;
	if (nr_online > 1)
		cpu = place_wakee(p, i, prev_cpu, sync, tick_of(scx_bpf_now()));
	rq_task(i)->sync = sync && cpu == bpf_get_smp_processor_id();
	return cpu;
}

/* Is task p, whose nice value or affinity changes, to stay on the CPU in whose queue it is? */
static __always_inline bool stays_elsewhere(struct task_struct *p, u32 i, u64 enq_flags)
{
	u32 cpu = READ_ONCE(rq_task(i)->cpu);

	return (enq_flags & (ENQUEUE_RESTORE | ENQUEUE_MOVE)) == ENQUEUE_RESTORE &&
	       cpu != scx_bpf_task_cpu(p) && affinity_has(&rq_task(i)->affinity, cpu);
}

/* The task is ours until it is dispatched, or dequeued below. */
void BPF_STRUCT_OPS(linux26_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 i = slot_of(p), cpu = scx_bpf_task_cpu(p);
	struct rq_task *t = rq_task(i);
	u64 now_ns = scx_bpf_now();
	bool pushed = t->pushed, elsewhere = pushed || stays_elsewhere(p, i, enq_flags);
	bool came = false, preempt = false, in_interrupt;
	struct queue_lock *lk;
	struct runqueue *rq;

	if (elsewhere)
		cpu = READ_ONCE(t->cpu);
	rq = cpu_rq(cpu);
	lk = rq_lock(cpu);
	if (!i || !lk) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	settle(i, cpu, now_ns);
	/* If the waking CPU runs no task of ours, the kernel woke it, on an idle CPU. */
	in_interrupt = !READ_ONCE(cpu_rq(bpf_get_smp_processor_id())->curr);
	bpf_spin_lock(&lk->lock);
	/* It had the CPU and has lost it without a dispatch(). */
	if (rq->curr == i)
		put_curr(rq, now_ns);
	if (!is_queued(i)) {
		join(cpu, i, in_interrupt, now_ns);
		came = true;
	}
	custody_begin(&t->custody, p->pid);
	if (came || pushed)
		preempt = preempts(rq, i);
	else if (enq_flags & ENQUEUE_RESTORE)
		preempt = rq->need_resched;
	t->pushed = false;
	bpf_spin_unlock(&lk->lock);
	if (preempt)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	else if (elsewhere || (enq_flags & SCX_ENQ_LAST))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	/* If it had nobody else, the CPU that pushed looks for tasks now, this one among them. */
	if (pushed)
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_IDLE);
	if (came && t->forker)
		end_fork(i);
	if (tilt_probes_on)
		probe_task(p, i);
}

/* p leaves our hands before it was dispatched: its affinity or another property changes. */
void BPF_STRUCT_OPS(linux26_dequeue, struct task_struct *p, u64 deq_flags)
{
	u32 i = slot_of(p);

	if (i)
		depart(i, 0, LEAVE_HANDS);
}

/* Choosing ---------------------------------------------------------------------------------- */

/* schedule() adds this to its result if the running task goes on. */
#define RUNS_ON MAX_TASKS

/* The task that is to run on @cpu; it has the CPU now. RUNS_ON is added if it is @prev, which runs.
 * 0 if nothing is runnable. */
__noinline int schedule(u32 cpu, u32 prev, u64 now_ns)
{
	struct queue_lock *lk = rq_lock(cpu);
	u32 next;

	if (!lk)
		return 0;
	bpf_spin_lock(&lk->lock);
	next = pick_next(cpu, now_ns);
	if (next && next == prev)
		next += RUNS_ON;
	else if (next)
		custody_choose(&rq_task(next)->custody, cpu);
	bpf_spin_unlock(&lk->lock);
	return next;
}

/* Runs the task that is to run next, which may be @prev. False: no task is runnable. */
static __noinline bool run_next(s32 cpu, struct task_struct *prev, u64 now_ns)
{
	u32 prev_slot = prev ? slot_of(prev) : 0, try;

	bpf_for (try, 0, DISPATCH_TRIES) {
		u32 i = schedule(cpu, prev_slot, now_ns);

		if (prev && i > RUNS_ON) {
			prev->scx.slice = TURN_NS;
			return true;
		}
		if (!i)
			break;
		if (hand_over(&rq_task(i)->custody, cpu, TURN_NS))
			return true;
		unchoose(i, cpu, now_ns);
	}
	return false;
}

/* Nothing to run: looks for tasks elsewhere, for itself or for all idle CPUs. */
static __always_inline void go_idle(s32 cpu, u64 now_ns)
{
	struct runqueue *rq = cpu_rq(cpu);

	if (!rq->dry && nr_domains(cpu))
		balance_newidle(cpu, now_ns);
	if (take_idle_kick(cpu))
		balance_idle(cpu, now_ns);
	rq->dry = true;
}

void BPF_STRUCT_OPS(linux26_dispatch, s32 cpu, struct task_struct *prev)
{
	struct runqueue *rq = cpu_rq(cpu);
	u64 now_ns = scx_bpf_now();
	bool pushed = false;
	u32 curr = 0;

	set_other(rq, false);
	/* Partner: begin_push(). */
	if (READ_ONCE(rq->push_to)) {
		if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
			curr = slot_of(prev);
		pushed = push_task(cpu, curr, now_ns) == PUSHED_CURRENT;
	}
	if (run_next(cpu, prev, now_ns))
		return;
	/* enqueue() takes the task to its new CPU, and makes this CPU call dispatch() again. */
	if (pushed)
		return;
	go_idle(cpu, now_ns);
	if (nr_running(cpu) && run_next(cpu, prev, now_ns))
		return;
	begin_idle(cpu, now_ns);
}

/* Running ----------------------------------------------------------------------------------- */

void BPF_STRUCT_OPS(linux26_running, struct task_struct *p)
{
	u32 i = slot_of(p), cpu = scx_bpf_task_cpu(p);
	struct runqueue *rq = cpu_rq(cpu);

	if (!i)
		return;
	rq->dry = false;
	set_other(rq, false);
	if (READ_ONCE(rq->curr) != i) {
		u64 now_ns = scx_bpf_now();

		settle(i, cpu, now_ns);
		take_turn(i, cpu, now_ns);
		if (rq_task(i)->forker)
			end_fork(i);
	}
	begin_run(i);
	/* Asked for since it was chosen, while a task of a higher class ran: that kick was lost. */
	if (READ_ONCE(rq->need_resched) || READ_ONCE(rq->push_to)) {
		/* Such tasks skip dispatch(), which pushes: two preempt each other for ever. */
		if (skips_custody(p))
			WRITE_ONCE(rq->push_to, 0);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/* A task of a higher class takes the CPU. Without a slice ours comes back by enqueue(): others may
 * take it, and a better one that wakes up meanwhile runs first. */
void BPF_STRUCT_OPS(linux26_stopping, struct task_struct *p, bool runnable)
{
	if (!runnable)
		return;
	end_run(p);
	if (!p->scx.slice)
		return;
	p->scx.slice = 0;
	set_other(cpu_rq(scx_bpf_task_cpu(p)), true);
}

void BPF_STRUCT_OPS(linux26_tick, struct task_struct *p)
{
	u32 i = slot_of(p), cpu = scx_bpf_task_cpu(p);
	struct queue_lock *lk = rq_lock(cpu);
	struct runqueue *rq = cpu_rq(cpu);
	u64 now_ns = scx_bpf_now();
	bool resched = false;

	if (!i || !lk)
		return;
	bpf_spin_lock(&lk->lock);
	if (rq->curr == i) {
		tick_task(cpu, i, now_ns);
		resched = rq->need_resched;
	}
	update_cpu_load(rq, tick_of(now_ns));
	bpf_spin_unlock(&lk->lock);
	if (resched)
		p->scx.slice = 0;
	if (nr_online > 1)
		balance_tick(cpu, now_ns);
	if (tilt_probes_on)
		probe_task(p, i);
}

bool BPF_STRUCT_OPS(linux26_yield, struct task_struct *from, struct task_struct *to)
{
	u32 i = slot_of(from), cpu = scx_bpf_task_cpu(from);
	struct queue_lock *lk = rq_lock(cpu);

	if (!i || !lk || to)
		return false;
	bpf_spin_lock(&lk->lock);
	if (cpu_rq(cpu)->curr == i)
		yield_turn(cpu, i);
	bpf_spin_unlock(&lk->lock);
	from->scx.slice = 0;
	return true;
}

/* Leaving ----------------------------------------------------------------------------------- */

/* A task that is only changed keeps its place: the core has taken it out of our hands before, by
 * dequeue(), and brings it back by enqueue(). */
void BPF_STRUCT_OPS(linux26_quiescent, struct task_struct *p, u64 deq_flags)
{
	u32 i = slot_of(p);

	if (!i || !(deq_flags & SCX_DEQ_SLEEP))
		return;
	depart(i, scx_bpf_now(), LEAVE_QUEUE);
	fall_asleep(p, i);
	if (p->exit_state)
		bequeath(p, i);
	if (tilt_probes_on)
		probe_task(p, i);
}

/* It leaves the class, for now. */
void BPF_STRUCT_OPS(linux26_disable, struct task_struct *p)
{
	u32 i = slot_of(p);

	if (!i)
		return;
	depart(i, scx_bpf_now(), LEAVE_QUEUE);
	end_run(p);
}

void BPF_STRUCT_OPS(linux26_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 i = slot_of(p);

	if (!i)
		return;
	depart(i, scx_bpf_now(), LEAVE_QUEUE);
	affinity_drop(&rq_task(i)->affinity);
	slot_close(p);
}

/* For the scheduler's own callbacks --------------------------------------------------------- */

/* In init_task(): task p's place, 0 if there is no room. */
static __always_inline u32 open_task(struct task_struct *p)
{
	u32 i = slot_open(p), round;
	struct rq_task *t = rq_task(i);

	if (!i)
		return 0;
	/* Who still looks at the task that had this place finds it in no queue. */
	round = t->custody.round;
	reset_task(i);
	t->custody.round = round;
	custody_init(&t->custody, p->pid);
	t->array = UNQUEUED;
	WRITE_ONCE(t->cpu, scx_bpf_task_cpu(p));
	affinity_read(&t->affinity, p->cpus_ptr, nr_cpus);
	return i;
}

/* In init_task(), then: task @i is being created by the one that runs here. */
static __always_inline void begin_fork(struct task_struct *p, u32 i, u64 now_ns)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u32 parent = current ? slot_of(current) : 0;
	struct rq_task *t = rq_task(i);

	if (!parent)
		return;
	t->thread = !p->mm || p->tgid == current->tgid;
	WRITE_ONCE(t->cpu, place_new(p, bpf_get_smp_processor_id(), DO_FORK, tick_of(now_ns)));
	if (fork_task(i, parent, now_ns) > 0)
		scx_bpf_kick_cpu(READ_ONCE(rq_task(parent)->cpu), SCX_KICK_PREEMPT);
}

/* In init(). */
static __always_inline int init_machine(void)
{
	const struct cpumask *mask;
	int err;

	nr_cpus = scx_bpf_nr_cpu_ids();
	if (nr_cpus > MAX_CPUS) {
		scx_bpf_error("linux26: %d CPUs, at most %d are supported", nr_cpus, MAX_CPUS);
		return -E2BIG;
	}
	mask = scx_bpf_get_online_cpumask();
	err = build_domains(mask, tick_of(scx_bpf_now()));
	scx_bpf_put_cpumask(mask);
	if (err)
		scx_bpf_error("linux26: %d nodes, at most %d are supported", nr_nodes, MAX_NODES);
	return err;
}

#endif
