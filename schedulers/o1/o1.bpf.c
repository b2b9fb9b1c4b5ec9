/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * o1: Linux's O(1) scheduler as of 2.6.22.
 *
 * Each CPU has two arrays of lists, one list for each of 40 priorities, and bitmaps of the lists
 * that are not empty: finding the next task, queueing one and removing one take constant time. The
 * first task of the best list in the active array runs. When its slice (100 ms at nice 0) is over,
 * it gets a new one and waits in the expired array; when the active array is empty, the two swap
 * roles. So every task runs once in each round, however bad its priority.
 *
 * A task that sleeps much gets a better priority, and may be spared the expired array. Its
 * sleep_avg, from 0 to 1 s, grows by the time it sleeps and shrinks as it runs:
 *
 *	bonus = sleep_avg / 100 ms		0..10
 *	prio = 120 + nice + 5 - bonus		100..139, lower is better
 *
 * A task of nice 0 is interactive from bonus 7 on: when its slice is over, it returns to the active
 * array. Example: an editor that slept 800 ms has bonus 8 and priority 117. It preempts a compiler
 * that only runs (bonus 0, priority 125), and wins until it has used up its credit: at bonus 8, a
 * millisecond of running costs an eighth of a millisecond of sleep_avg. Interactive tasks expire,
 * too, once other tasks have waited in the expired array for a second per runnable task.
 *
 *	types.h		what O(1) keeps			tunables.h	what a run may set
 *	interact.h	slices, bonus, priority		turns.h		who runs
 *	tasks.h		what callbacks share
 *	../lib/tiltyard/linux26				several CPUs
 *
 * Good at: latency of tasks that sleep, low and constant cost. Bad at: fairness. The estimate of
 * interactivity can be wrong and can be cheated, and a nice 0 task runs for up to a second per
 * runnable task while others get nothing. Between nice 0 and -1, slices jump by a factor of four.
 *
 * As in cfs, queues are plain arrays, each under its CPU's lock, not DSQs: the order in a list, a
 * new task's place before its parent and a moved task's place matter, and the running task stays in
 * its list. dispatch() is called before the previous task is put back, so it charges that task,
 * chooses among it and all others, and makes the switch at once. Slices are given as TURN_NS;
 * tick() ends turns.
 */
#include <scx/common.bpf.h>
#include "tiltyard.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

#include "tasks.h"

/* Slice given to the core: far beyond any turn, but not "infinite", which may stop the tick. */
#define TURN_NS		      (100 * NSEC_PER_SEC)
/* Tasks that may turn out not to be ours in one dispatch(); each has just been dequeued. */
#define DISPATCH_TRIES	      32

/* States of a task that sleeps for a disk, say; idle kernel threads are counted as such today. */
#define STATE_UNINTERRUPTIBLE 2
#define STATE_NOLOAD	      0x400

/* Probes are shown and decide nothing: the lock has been dropped. */
static __noinline void probe_task(struct task_struct *p, u32 i)
{
	TILT_PROBE_TASK(sleep_avg_ms, p, data_race(task(i)->sleep_avg_ns) / NSEC_PER_MSEC);
	TILT_PROBE_TASK(prio, p, data_race(rq_task(i)->prio));
}

/* Wakeups ----------------------------------------------------------------------------------- */

s32 BPF_STRUCT_OPS(o1_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u32 i = slot_of(p), cpu = prev_cpu;
	bool sync = wake_flags & SCX_WAKE_SYNC;

	if (!i || (u32)prev_cpu >= nr_cpus)
		return prev_cpu;
	/* init_task() has chosen. */
	if (task(i)->forker)
		return rq_task(i)->cpu;
	if (nr_online > 1)
		cpu = place_wakee(p, i, prev_cpu, sync, tick_of(scx_bpf_now()));
	task(i)->sync = sync && cpu == bpf_get_smp_processor_id();
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
void BPF_STRUCT_OPS(o1_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 i = slot_of(p), cpu = scx_bpf_task_cpu(p);
	struct rq_task *t = rq_task(i);
	u64 now_ns = scx_bpf_now();
	bool elsewhere = t->pushed || stays_elsewhere(p, i, enq_flags);
	bool came = false, pushed = t->pushed, preempt = false, in_interrupt;
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
	/* Whoever wakes it runs no task of ours: the kernel does, on a CPU that idled. */
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
	if (came && task(i)->forker)
		end_fork(i);
	if (tilt_probes_on)
		probe_task(p, i);
}

/* p leaves our hands before it was dispatched: its affinity or another property changes. */
void BPF_STRUCT_OPS(o1_dequeue, struct task_struct *p, u64 deq_flags)
{
	u32 i = slot_of(p);

	if (i)
		depart(i, 0, LEAVE_HANDS);
}

/* Choosing ---------------------------------------------------------------------------------- */

/* schedule() says so with the task that runs and goes on. */
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
	next = pick_next(cpu_state(cpu), now_ns);
	if (next && next == prev)
		next += RUNS_ON;
	else if (next)
		custody_choose(&rq_task(next)->custody, cpu);
	bpf_spin_unlock(&lk->lock);
	return next;
}

/* Runs whom it has to be, @prev if that is the one. False: nobody is runnable. */
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

void BPF_STRUCT_OPS(o1_dispatch, s32 cpu, struct task_struct *prev)
{
	struct o1_cpu *c = cpu_state(cpu);
	u64 now_ns = scx_bpf_now();
	bool pushed = false;
	u32 curr = 0;

	set_other(&c->rq, false);
	/* Partner: begin_push(). */
	if (READ_ONCE(c->rq.push_to)) {
		if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
			curr = slot_of(prev);
		pushed = push_task(cpu, curr, now_ns) == PUSHED_CURRENT;
	}
	if (run_next(cpu, prev, now_ns))
		return;
	/* enqueue() brings it where it goes, and this CPU here again. */
	if (pushed)
		return;
	go_idle(cpu, now_ns);
	if (nr_running(cpu) && run_next(cpu, prev, now_ns))
		return;
	c->expired_timestamp = 0;
}

void BPF_STRUCT_OPS(o1_running, struct task_struct *p)
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
		if (task(i)->forker)
			end_fork(i);
	}
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
void BPF_STRUCT_OPS(o1_stopping, struct task_struct *p, bool runnable)
{
	if (!runnable || !p->scx.slice)
		return;
	p->scx.slice = 0;
	set_other(cpu_rq(scx_bpf_task_cpu(p)), true);
}

void BPF_STRUCT_OPS(o1_tick, struct task_struct *p)
{
	u32 i = slot_of(p), cpu = scx_bpf_task_cpu(p);
	struct o1_cpu *c = cpu_state(cpu);
	struct queue_lock *lk = rq_lock(cpu);
	u64 now_ns = scx_bpf_now();
	bool resched = false;

	if (!i || !lk)
		return;
	bpf_spin_lock(&lk->lock);
	if (c->rq.curr == i) {
		c->rq.clock_ns = now_ns;
		task_running_tick(c, i, tick_of(now_ns));
		resched = c->rq.need_resched;
	}
	update_cpu_load(&c->rq, tick_of(now_ns));
	bpf_spin_unlock(&lk->lock);
	if (resched)
		p->scx.slice = 0;
	if (nr_online > 1)
		balance_tick(cpu, now_ns);
	if (tilt_probes_on)
		probe_task(p, i);
}

/* Leaving, changing ------------------------------------------------------------------------- */

/* A task that is only changed keeps its place: the core has taken it out of our hands before, by
 * dequeue(), and brings it back by enqueue(). */
void BPF_STRUCT_OPS(o1_quiescent, struct task_struct *p, u64 deq_flags)
{
	u32 i = slot_of(p), state = p->__state;

	if (!i || !(deq_flags & SCX_DEQ_SLEEP))
		return;
	depart(i, scx_bpf_now(), LEAVE_QUEUE);
	task(i)->asleep = true;
	task(i)->uninterruptible =
		(state & (STATE_UNINTERRUPTIBLE | STATE_NOLOAD)) == STATE_UNINTERRUPTIBLE;
	if (p->exit_state)
		bequeath(p, i);
	if (tilt_probes_on)
		probe_task(p, i);
}

bool BPF_STRUCT_OPS(o1_yield, struct task_struct *from, struct task_struct *to)
{
	u32 i = slot_of(from), cpu = scx_bpf_task_cpu(from);
	struct queue_lock *lk = rq_lock(cpu);

	if (!i || !lk || to)
		return false;
	bpf_spin_lock(&lk->lock);
	if (cpu_rq(cpu)->curr == i)
		yield_turn(cpu_state(cpu), i);
	bpf_spin_unlock(&lk->lock);
	from->scx.slice = 0;
	return true;
}

void BPF_STRUCT_OPS(o1_set_weight, struct task_struct *p, u32 weight)
{
	u32 i = slot_of(p), static_prio = static_prio_of(p);

	if (!i)
		return;
	if (change(i, static_prio, p->policy == POLICY_BATCH || p->policy == POLICY_IDLE) > 0)
		scx_bpf_kick_cpu(READ_ONCE(rq_task(i)->cpu), SCX_KICK_PREEMPT);
}

/* Tasks come and go ------------------------------------------------------------------------- */

void BPF_STRUCT_OPS(o1_set_cpumask, struct task_struct *p, const struct cpumask *allowed)
{
	u32 i = slot_of(p);

	if (!i)
		return;
	set_affinity(p, i, allowed);
	task(i)->serves_cpu = serves_cpu(p);
}

s32 BPF_STRUCT_OPS(o1_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u32 i = slot_open(p), parent = 0, round;
	struct o1_task *t = task(i);
	u64 now_ns = scx_bpf_now();

	if (!i)
		return -ENOMEM;
	/* Who still looks at the task that had this place finds it in no queue. */
	round = t->rq.custody.round;
	__builtin_memset(t, 0, sizeof(*t));
	t->rq.custody.round = round;
	custody_init(&t->rq.custody, p->pid);
	t->rq.array = UNQUEUED;
	WRITE_ONCE(t->rq.cpu, scx_bpf_task_cpu(p));
	t->static_prio = static_prio_of(p);
	t->batch = p->policy == POLICY_BATCH || p->policy == POLICY_IDLE;
	t->user = p->mm;
	t->serves_cpu = serves_cpu(p);
	t->time_slice = task_timeslice(t);
	t->timestamp_ns = now_ns;
	t->rq.load_weight = weight_of(t->static_prio);
	t->rq.prio = effective_prio(t);
	affinity_read(&t->rq.affinity, p->cpus_ptr, nr_cpus);
	if (!args->fork) {
		/* If it sleeps, then since now. */
		t->asleep = true;
		return 0;
	}
	if (current)
		parent = slot_of(current);
	if (!parent)
		return 0;
	t->thread = !p->mm || p->tgid == current->tgid;
	WRITE_ONCE(t->rq.cpu, place_new(p, bpf_get_smp_processor_id(), DO_FORK, tick_of(now_ns)));
	if (fork_task(i, parent, now_ns) > 0)
		scx_bpf_kick_cpu(READ_ONCE(rq_task(parent)->cpu), SCX_KICK_PREEMPT);
	return 0;
}

/* It leaves the class, for now. */
void BPF_STRUCT_OPS(o1_disable, struct task_struct *p)
{
	u32 i = slot_of(p);

	if (i)
		depart(i, scx_bpf_now(), LEAVE_QUEUE);
}

void BPF_STRUCT_OPS(o1_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 i = slot_of(p);

	if (!i)
		return;
	depart(i, scx_bpf_now(), LEAVE_QUEUE);
	affinity_drop(&rq_task(i)->affinity);
	slot_close(p);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(o1_init)
{
	const struct cpumask *mask;
	u32 cpu;
	int err;

	nr_cpus = scx_bpf_nr_cpu_ids();
	if (nr_cpus > MAX_CPUS) {
		scx_bpf_error("o1: %d CPUs, at most %d are supported", nr_cpus, MAX_CPUS);
		return -E2BIG;
	}
	err = params_init();
	if (err)
		return err;
	mask = scx_bpf_get_online_cpumask();
	err = build_domains(mask, tick_of(scx_bpf_now()));
	scx_bpf_put_cpumask(mask);
	if (err) {
		scx_bpf_error("o1: %d nodes, at most %d are supported", nr_nodes, MAX_NODES);
		return err;
	}
	bpf_for (cpu, 0, nr_cpus)
		cpu_rq(cpu)->best_expired_prio = MAX_PRIO;
	return 0;
}

void BPF_STRUCT_OPS(o1_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(o1_ops,
	       .select_cpu		= (void *)o1_select_cpu,
	       .enqueue			= (void *)o1_enqueue,
	       .dequeue			= (void *)o1_dequeue,
	       .dispatch		= (void *)o1_dispatch,
	       .running			= (void *)o1_running,
	       .stopping		= (void *)o1_stopping,
	       .quiescent		= (void *)o1_quiescent,
	       .tick			= (void *)o1_tick,
	       .yield			= (void *)o1_yield,
	       .set_weight		= (void *)o1_set_weight,
	       .set_cpumask		= (void *)o1_set_cpumask,
	       .init_task		= (void *)o1_init_task,
	       .exit_task		= (void *)o1_exit_task,
	       .disable			= (void *)o1_disable,
	       .init			= (void *)o1_init,
	       .exit			= (void *)o1_exit,
	       /* A running task that is pushed elsewhere comes by enqueue() even if it is the last. */
	       .flags			= SCX_OPS_ENQ_LAST,
	       .name			= "o1");
/* clang-format on */
