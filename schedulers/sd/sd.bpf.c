/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sd: the staircase deadline scheduler by Con Kolivas, as in his patch 2.6.22-ck1 for Linux.
 * README.md has the details.
 *
 * SD keeps no record of sleep. A task has a quota of CPU time on each of several levels, and the
 * better its nice value, the more levels: nice 0 has 20 of the 40, every other one. It runs on its
 * best level until the quota there is used up, then steps down to its next one, and so on, down the
 * staircase. After the last level it waits in the expired array. When no task is left on any level,
 * the arrays swap, a new rotation begins, and all tasks start at the top again. So in each rotation
 * a task gets
 *
 *	quota * number of its levels
 *
 * 6 ms * 20 = 120 ms for nice 0, 3 ms * 10 = 30 ms for nice 10. A task that has slept meanwhile
 * still has its good levels, where it runs before those that have used theirs: this alone makes SD
 * interactive. No task waits for longer than the sum of what the others are entitled to: the
 * deadline.
 *
 * Example: A (nice 0, levels 1 3 5 ...) and B (nice 10, levels 3 7 11 ...) compute. A runs 6 ms on
 * level 1; then B, which came first there, 3 ms on level 3, and A 6 ms; A 6 ms on 5; and so on.
 * After 150 ms both have expired: A has had 120 ms, B 30 ms.
 *
 *   tunables.h, types.h     what can be set, what is kept
 *   quota.h                 what a nice value is worth
 *   staircase.h             where a task goes
 *   rsdl.h                  the same in RSDL, SD's predecessor
 *   turns.h                 joining, leaving, taking turns
 *   tasks.h                 the same under the CPU's lock, as callbacks need it
 *   tiltyard/linux26/...h   runqueues and several CPUs, as in Linux 2.6.22
 *
 * Good at: fairness to the millisecond, bounded latency, no heuristics. Bad at: latency of tasks
 * that use up their levels before they sleep; many tasks, whose rotations are long.
 */
#include <scx/common.bpf.h>
#include "tiltyard.bpf.h"
#include "tasks.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* The tick ends turns (see sd_tick()): the kernel's own countdown must never come first. */
#define TURN_NS	       (1ULL << 60)

/* Tasks that may turn out not to be ours in one dispatch(); each has just been dequeued. */
#define DISPATCH_TRIES 32

static __noinline void probe_task(struct task_struct *p, u32 i)
{
	/* Shown, and decide nothing: a CPU that pulls the task may be changing them. */
	TILT_PROBE_TASK(level, p, data_race(task(i)->rq.prio) - MAX_RT_PRIO);
	TILT_PROBE_TASK(quota_left_us, p, data_race(task(i)->slice_us));
}

/* Coming ---------------------------------------------------------------------------------- */

s32 BPF_STRUCT_OPS(sd_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
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
	task(i)->sync = sync;
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
void BPF_STRUCT_OPS(sd_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 i = slot_of(p), cpu = scx_bpf_task_cpu(p), here = bpf_get_smp_processor_id();
	struct rq_task *t = rq_task(i);
	u64 now_ns = scx_bpf_now();
	bool pushed = t->pushed, elsewhere = pushed || stays_elsewhere(p, i, enq_flags);
	bool came = false, preempt = false;
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
	bpf_spin_lock(&lk->lock);
	/* It had the CPU and has lost it without a dispatch(). */
	if (rq->curr == i)
		put_curr(rq, now_ns);
	if (!is_queued(i)) {
		join(cpu, i, now_ns);
		came = true;
	}
	custody_begin(&t->custody, p->pid);
	if (came || pushed)
		preempt = preempts(rq, i, cpu == here);
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
	if (tilt_probes_on)
		probe_task(p, i);
}

/* p leaves our hands before it was dispatched: its affinity or another property changes. */
void BPF_STRUCT_OPS(sd_dequeue, struct task_struct *p, u64 deq_flags)
{
	u32 i = slot_of(p);

	if (i)
		depart(i, 0, LEAVE_HANDS);
}

/* Choosing -------------------------------------------------------------------------------- */

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
	next = pick_next(cpu, now_ns);
	if (next && next == prev)
		next += RUNS_ON;
	else if (next)
		custody_choose(&rq_task(next)->custody, cpu);
	bpf_spin_unlock(&lk->lock);
	return next;
}

/* @cpu has nothing to run, even after balancing: whoever comes next starts with all of its slots.
 */
__noinline int idles(u32 cpu, u64 now_ns)
{
	struct queue_lock *lk = rq_lock(cpu);

	if (!lk)
		return 0;
	bpf_spin_lock(&lk->lock);
	if (!cpu_rq(cpu)->nr_running)
		new_rotation(cpu_state(cpu), now_ns);
	bpf_spin_unlock(&lk->lock);
	return 0;
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

void BPF_STRUCT_OPS(sd_dispatch, s32 cpu, struct task_struct *prev)
{
	u64 now_ns = scx_bpf_now();
	bool pushed = false;
	u32 curr = 0;

	set_other(cpu_rq(cpu), false);
	/* Partner: begin_push(). */
	if (READ_ONCE(cpu_rq(cpu)->push_to)) {
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
	idles(cpu, now_ns);
}

/* Running --------------------------------------------------------------------------------- */

void BPF_STRUCT_OPS(sd_running, struct task_struct *p)
{
	u32 i = slot_of(p), cpu = scx_bpf_task_cpu(p);
	struct runqueue *rq = cpu_rq(cpu);
	u64 now_ns = scx_bpf_now();

	if (!i)
		return;
	rq->dry = false;
	set_other(rq, false);
	if (READ_ONCE(rq->curr) != i) {
		settle(i, cpu, now_ns);
		take_turn(i, cpu, now_ns);
	}
	/* Its run begins, unless it has only been changed. */
	if (!task(i)->on_cpu)
		task(i)->charged_ns = now_ns;
	task(i)->on_cpu = true;
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
void BPF_STRUCT_OPS(sd_stopping, struct task_struct *p, bool runnable)
{
	if (!runnable)
		return;
	task(slot_of(p))->on_cpu = false;
	if (!p->scx.slice)
		return;
	p->scx.slice = 0;
	set_other(cpu_rq(scx_bpf_task_cpu(p)), true);
}

void BPF_STRUCT_OPS(sd_tick, struct task_struct *p)
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

/* Leaving, changing ----------------------------------------------------------------------- */

/* A task that is only changed keeps its place: the core has taken it out of our hands before, by
 * dequeue(), and brings it back by enqueue(). */
void BPF_STRUCT_OPS(sd_quiescent, struct task_struct *p, u64 deq_flags)
{
	u32 i = slot_of(p);
	struct sd_task *t = task(i);

	if (!i || !(deq_flags & SCX_DEQ_SLEEP))
		return;
	depart(i, scx_bpf_now(), LEAVE_QUEUE);
	t->on_cpu = false;
	t->unsuitable = t->policy == POLICY_IDLE && (p->__state & TASK_UNINTERRUPTIBLE);
	if (p->exit_state)
		bequeath(p, i);
	if (tilt_probes_on)
		probe_task(p, i);
}

bool BPF_STRUCT_OPS(sd_yield, struct task_struct *from, struct task_struct *to)
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

void BPF_STRUCT_OPS(sd_set_weight, struct task_struct *p, u32 weight)
{
	u32 i = slot_of(p);

	if (i)
		change(i, static_level_of(p), p->policy);
}

/* Tasks come and go ----------------------------------------------------------------------- */

void BPF_STRUCT_OPS(sd_set_cpumask, struct task_struct *p, const struct cpumask *allowed)
{
	u32 i = slot_of(p);

	if (i)
		set_affinity(p, i, allowed);
}

s32 BPF_STRUCT_OPS(sd_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u32 i = slot_open(p), parent = 0, round;
	struct sd_task *t = task(i);

	if (!i)
		return -ENOMEM;
	/* Who still looks at the task that had this place finds it in no queue. */
	round = t->rq.custody.round;
	__builtin_memset(t, 0, sizeof(*t));
	t->rq.custody.round = round;
	custody_init(&t->rq.custody, p->pid);
	t->rq.array = UNQUEUED;
	t->rq.prio = MAX_RT_PRIO;
	WRITE_ONCE(t->rq.cpu, scx_bpf_task_cpu(p));
	t->home = t->rq.cpu;
	t->policy = p->policy;
	t->static_level = static_level_of(p);
	t->rq.load_weight = weight_of(t->static_level, t->policy == POLICY_IDLE);
	affinity_read(&t->rq.affinity, p->cpus_ptr, nr_cpus);
	if (!args->fork)
		return 0;
	if (current)
		parent = slot_of(current);
	if (!parent)
		return 0;
	t->thread = !p->mm || p->tgid == current->tgid;
	WRITE_ONCE(t->rq.cpu,
		   place_new(p, bpf_get_smp_processor_id(), DO_FORK, tick_of(scx_bpf_now())));
	fork_task(i, parent);
	return 0;
}

/* It leaves the class, for now. */
void BPF_STRUCT_OPS(sd_disable, struct task_struct *p)
{
	u32 i = slot_of(p);

	if (!i)
		return;
	depart(i, scx_bpf_now(), LEAVE_QUEUE);
	task(i)->on_cpu = false;
}

void BPF_STRUCT_OPS(sd_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 i = slot_of(p);

	if (!i)
		return;
	depart(i, scx_bpf_now(), LEAVE_QUEUE);
	affinity_drop(&rq_task(i)->affinity);
	slot_close(p);
}

/* The scheduler itself -------------------------------------------------------------------- */

s32 BPF_STRUCT_OPS_SLEEPABLE(sd_init)
{
	u64 now_ns = scx_bpf_now();
	const struct cpumask *mask;
	u32 cpu;
	int err;

	nr_cpus = scx_bpf_nr_cpu_ids();
	if (nr_cpus > MAX_CPUS) {
		scx_bpf_error("sd: %d CPUs, at most %d are supported", nr_cpus, MAX_CPUS);
		return -E2BIG;
	}
	mask = scx_bpf_get_online_cpumask();
	err = build_domains(mask, tick_of(now_ns));
	scx_bpf_put_cpumask(mask);
	if (err) {
		scx_bpf_error("sd: %d nodes, at most %d are supported", nr_nodes, MAX_NODES);
		return err;
	}
	bpf_for (cpu, 0, nr_cpus)
		new_rotation(cpu_state(cpu), now_ns);
	return quotas_init(nr_online);
}

void BPF_STRUCT_OPS(sd_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(sd_ops,
	       .select_cpu		= (void *)sd_select_cpu,
	       .enqueue			= (void *)sd_enqueue,
	       .dequeue			= (void *)sd_dequeue,
	       .dispatch		= (void *)sd_dispatch,
	       .running			= (void *)sd_running,
	       .stopping		= (void *)sd_stopping,
	       .quiescent		= (void *)sd_quiescent,
	       .tick			= (void *)sd_tick,
	       .yield			= (void *)sd_yield,
	       .set_weight		= (void *)sd_set_weight,
	       .set_cpumask		= (void *)sd_set_cpumask,
	       .init_task		= (void *)sd_init_task,
	       .exit_task		= (void *)sd_exit_task,
	       .disable			= (void *)sd_disable,
	       .init			= (void *)sd_init,
	       .exit			= (void *)sd_exit,
	       /* A running task that is pushed elsewhere comes by enqueue() even if it is the last. */
	       .flags			= SCX_OPS_ENQ_LAST,
	       .name			= "sd");
/* clang-format on */
