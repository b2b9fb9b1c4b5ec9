/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * BFS: Con Kolivas's scheduler of 2009, version 0.311 for Linux 2.6.31. README.md has the details,
 * tunables.h the changes of later versions.
 *
 * One queue holds all tasks that wait for any CPU, under one lock. A task has a slice, 6 ms for all
 * tasks, and a virtual deadline. Both are renewed together when the slice has been used up, and
 * only then:
 *
 *	deadline = now + 6 ms * 1.1^(nice + 20)
 *
 * A CPU that needs a task looks at all waiting tasks and takes the one with the earliest deadline.
 * A woken task preempts the running task with the latest deadline, if that is later than its own.
 * That is all: there are no sleep statistics, no estimate of interactivity, no balancer.
 *
 * Nice 0 gives 39 ms, nice 10 gives 101 ms (1.1^20 * 6 = 40, but each step is rounded down). Two
 * hogs A and B of these nice values start at 0 on one CPU:
 *
 *	time	A's deadline	B's deadline
 *	0	39		101		A runs
 *	6	45		101		A's slice is over; A is still earlier
 *	60	99		101		A runs for the eleventh time
 *	66	105		101		B runs
 *	72	105		173		A runs eleven times again
 *
 * A gets 11 slices for each of B's. S, a sleeper of nice 0 with deadline 39 since time 0, wakes up
 * at 50 for 1 ms: it is earlier than A, so it runs at once, and does so each time until it has used
 * its 6 ms. Tasks that sleep much get no bonus; their deadlines are just older.
 *
 * With several CPUs, slices are longer, and a task's deadline seems later to a CPU that shares no
 * cache with the CPU where the task ran last, by one offset as above. So the task moves only when
 * it is overdue.
 *
 * Good at: latency on few CPUs; simplicity. Bad at: many tasks, since each choice is O(n); many
 * CPUs, since all of them share one lock and its cache lines; cache locality, since any CPU takes
 * any task.
 *
 *   tunables.h  all that a run may set; versions    preempt.h  which task a woken task preempts
 *   types.h     what BFS keeps                      iso.h      isochronous tasks and their limit
 *   deadline.h  slices, deadlines, distances        come.h     joining the queue
 *   queue.h     the queue and its search            run.h      getting a CPU and leaving it
 *   idle.h      which idle CPU is best              family.h   fork and exit
 *
 * This file connects them to the callbacks of sched_ext. A queued task is in the scheduler's
 * custody; dispatch() charges the running task, includes it in the search, and hands over the
 * winner. Slices are given to the core as TURN_NS and end in tick().
 */
#include <scx/common.bpf.h>
#include "tiltyard.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

#include "types.h"
#include "come.h"
#include "family.h"

/* Tasks that may turn out not to be ours in one dispatch(); each has just been dequeued. */
#define DISPATCH_TRIES 32

static __always_inline void probe_cpu(u32 cpu)
{
	TILT_PROBE_CPU(queued, cpu, data_race(grq.nr_queued));
	TILT_PROBE_CPU(looked_at, cpu, data_race(grq.nr_looked_at));
}

static __always_inline void probe_task(struct task_struct *p, u32 i)
{
	TILT_PROBE_TASK(deadline, p, data_race(task(i)->deadline));
	TILT_PROBE_TASK(slice, p, data_race(task(i)->slice));
}

/* Coming ---------------------------------------------------------------------------------- */

/*
 * BFS binds no woken task to a CPU: it wakes the best idle one, which takes the earliest task. The
 * core wakes the CPU that is returned here.
 */
s32 BPF_STRUCT_OPS(bfs_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	u32 i = slot_of(p);
	struct bfs_task *t = task(i);
	s32 cpu;

	if (!i)
		return prev_cpu;
	t->sync = wake_flags & SCX_WAKE_SYNC;
	cpu = claim_best_idle(i, t->cpu);
	t->has_claimed = cpu >= 0;
	t->claimed = cpu;
	return t->has_claimed ? cpu : prev_cpu;
}

/* The task is ours until it is dispatched, or dequeued below. */
void BPF_STRUCT_OPS(bfs_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 i = slot_of(p), how = 0;
	struct bfs_task *t = task(i);
	u8 policy = policy_of(p);
	s32 go, cpu;

	if (!i) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	if (enq_flags & SCX_ENQ_WAKEUP)
		how = t->sync ? COME_WOKEN | COME_SYNC : COME_WOKEN;
	else if (t->newborn)
		how = come_newborn(p);
	else if (enq_flags & ENQUEUE_RESTORE)
		how = t->better || policy != t->policy ? COME_BETTER : 0;
	else if (!enq_flags && requeue_wakes_idle())
		how = COME_BACK;
	if (starve_limit_ms && (!enq_flags || enq_flags & SCX_ENQ_WAKEUP || !t->queued_ns))
		t->queued_ns = scx_bpf_now();
	t->rq = scx_bpf_task_cpu(p);
	t->sync = false;
	t->newborn = false;
	t->better = false;
	t->policy = policy;
	go = come_to_queue(i, p->pid, prio_of(p, t), how, bpf_get_smp_processor_id());
	if (go < 0)
		return;
	cpu = go & (GO_PREEMPT - 1);
	/* For a woken task the core wakes this CPU anyway. */
	if (go & GO_PREEMPT)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	else if (!(how & COME_WOKEN) || cpu != t->rq)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/*
 * The core takes the task back before it was dispatched: its affinity or another property changes.
 * It keeps its place for the enqueue() that follows; of all others quiescent() follows.
 */
void BPF_STRUCT_OPS(bfs_dequeue, struct task_struct *p, u64 deq_flags)
{
	u32 i = slot_of(p);
	struct bfs_lock *lk = the_lock();

	if (!i || !lk)
		return;
	bpf_spin_lock(&lk->lock);
	custody_end(&task(i)->custody);
	task(i)->seen_idle = grq.nr_idle;
	bpf_spin_unlock(&lk->lock);
}

/* Running --------------------------------------------------------------------------------- */

/*
 * schedule(). BFS puts the running task back first and then takes the earliest of all; the core
 * puts it back afterwards: so it takes part in the choice as if it were the last in the queue.
 */
void BPF_STRUCT_OPS(bfs_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 running = 0, try;
	u64 now_ns = scx_bpf_now();

	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		running = slot_of(prev);
	if (running) {
		task(running)->policy = policy_of(prev);
		task(running)->prio = prio_of(prev, task(running));
	}
	bpf_for (try, 0, DISPATCH_TRIES) {
		u32 i = choose(cpu, running, now_ns);

		probe_cpu(cpu);
		if (running)
			probe_task(prev, running);
		if (sticks())
			wake_for_old(cpu);
		if (!i)
			break;
		if (i == running) {
			prev->scx.slice = TURN_NS;
			break;
		}
		if (hand_over(&task(i)->custody, cpu, TURN_NS))
			break;
	}
}

void BPF_STRUCT_OPS(bfs_running, struct task_struct *p)
{
	u32 i = slot_of(p), cpu = scx_bpf_task_cpu(p);
	struct bfs_task *t = task(i);

	if (!i)
		return;
	if (READ_ONCE(cpu_state(cpu)->curr) != i || READ_ONCE(t->queued)) {
		u8 policy = policy_of(p), was = t->prio;
		bool changed = policy != t->policy;

		t->policy = policy;
		come(i, cpu, prio_of(p, t), scx_bpf_now());
		/* It ran all the time, and others may be better now. */
		if (changed && t->prio > was)
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	t->has_claimed = false;
	t->slept_load = false;
	t->queued_ns = 0;
	probe_task(p, i);
}

/*
 * A task that dispatch() has not put back: a higher class takes the CPU. Without a slice it comes
 * by enqueue(), and others may take it. Of one that goes to sleep quiescent() knows more.
 */
void BPF_STRUCT_OPS(bfs_stopping, struct task_struct *p, bool runnable)
{
	u32 i = slot_of(p), cpu = scx_bpf_task_cpu(p);

	if (!i || !runnable || READ_ONCE(cpu_state(cpu)->curr) != i)
		return;
	leave(i, cpu, scx_bpf_now(), true);
	p->scx.slice = 0;
}

void BPF_STRUCT_OPS(bfs_quiescent, struct task_struct *p, u64 deq_flags)
{
	u32 i = slot_of(p), cpu = scx_bpf_task_cpu(p);
	u64 change = deq_flags & (DEQUEUE_SAVE | DEQUEUE_MOVE);
	struct bfs_task *t = task(i);
	struct task_struct *heir;

	/* It only comes back: BFS does not even notice. */
	if (!i || change == DEQUEUE_SAVE)
		return;
	if (READ_ONCE(cpu_state(cpu)->curr) == i)
		leave(i, cpu, scx_bpf_now(), false);
	else
		forget(i);
	if (!(deq_flags & SCX_DEQ_SLEEP))
		return;
	t->slept_load = (p->__state & STATE_UNINTERRUPTIBLE) && !(p->__state & STATE_NOLOAD);
	probe_task(p, i);
	if (!exit_returns() || !p->exit_state || !t->first_slice)
		return;
	heir = bpf_task_from_pid(p->real_parent->pid);
	if (!heir)
		return;
	end_task(i, slot_of(heir));
	bpf_task_release(heir);
}

void BPF_STRUCT_OPS(bfs_tick, struct task_struct *p)
{
	u32 i = slot_of(p), cpu = scx_bpf_task_cpu(p);
	struct bfs_cpu *c = cpu_state(cpu);
	struct bfs_lock *lk;
	u64 now_ns = scx_bpf_now();

	if (!i || READ_ONCE(c->curr) != i)
		return;
	c->tick_ns = now_ns;
	charge(c, now_ns);
	if (c->policy == ISO || READ_ONCE(iso.ticks)) {
		lk = the_lock();
		if (!lk)
			return;
		bpf_spin_lock(&lk->lock);
		iso_account(c);
		bpf_spin_unlock(&lk->lock);
	}
	if (slice_is_over(c))
		p->scx.slice = 0;
}

bool BPF_STRUCT_OPS(bfs_yield, struct task_struct *from, struct task_struct *to)
{
	u32 i = slot_of(from), cpu = scx_bpf_task_cpu(from);

	if (to || !i)
		return false;
	if (yield_refills() && READ_ONCE(cpu_state(cpu)->curr) == i)
		WRITE_ONCE(cpu_state(cpu)->slice, 0);
	from->scx.slice = 0;
	return false;
}

/* A CPU goes idle, or a class that is not ours takes it out of that. */
void BPF_STRUCT_OPS(bfs_update_idle, s32 cpu, bool idle)
{
	struct bfs_cpu *c = cpu_state(cpu);

	if (idle || READ_ONCE(c->prio) != PRIO_NONE)
		return;
	claim_idle(cpu);
	WRITE_ONCE(c->prio, PRIO_OTHER);
}

/* Changes --------------------------------------------------------------------------------- */

/* A nice value changes. A queued task has been dequeued and comes back by enqueue(). */
void BPF_STRUCT_OPS(bfs_set_weight, struct task_struct *p, u32 weight)
{
	u32 i = slot_of(p), nice = task_nice(p) + 20, cpu = scx_bpf_task_cpu(p);
	struct bfs_task *t = task(i);
	u64 was = offset_of(t->nice), is = offset_of(nice);

	if (!i || nice == t->nice)
		return;
	t->nice = nice;
	/* The CPU's copy stays as it is: the running task's next deadline is the first to differ.
	 */
	t->deadline += is - was;
	if (READ_ONCE(cpu_state(cpu)->curr) == i) {
		if (is > was)
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return;
	}
	t->to_tail = true;
	t->better = is < was;
}

/* Task @i may run on the CPUs of @mask. Searches under the lock cannot ask the kernel. */
static __noinline void copy_mask(u32 i, const struct cpumask *mask)
{
	const struct cpumask *all = scx_bpf_get_online_cpumask();
	u32 cpu;

	task(i)->anywhere = bpf_cpumask_subset(all, mask);
	scx_bpf_put_cpumask(all);
	if (task(i)->anywhere)
		return;
	bpf_for (cpu, 0, nr_cpus) {
		u64 *word = word_of(&allowed[i & (MAX_TASKS - 1)], cpu);

		if (bpf_cpumask_test_cpu(cpu, mask))
			*word |= bit_of(cpu);
		else
			*word &= ~bit_of(cpu);
	}
}

void BPF_STRUCT_OPS(bfs_set_cpumask, struct task_struct *p, const struct cpumask *mask)
{
	u32 i = slot_of(p), cpu = scx_bpf_task_cpu(p), first;
	struct bfs_task *t = task(i);

	if (!i)
		return;
	copy_mask(i, mask);
	if (READ_ONCE(cpu_state(cpu)->curr) == i)
		return;
	t->better = true;
	if (may_run(i, t->cpu))
		return;
	first = bpf_cpumask_first(mask);
	if (t->queued)
		t->left = t->cpu;
	WRITE_ONCE(t->cpu, first < nr_cpus ? first : cpu);
}

s32 BPF_STRUCT_OPS(bfs_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_struct *current;
	u32 i = slot_open(p), parent = 0, round, cpu = bpf_get_smp_processor_id();
	struct bfs_task *t = task(i);
	u64 now_ns = scx_bpf_now();

	if (!i)
		return -ENOMEM;
	/* Who still looks at the task that had this place finds it not in custody. */
	round = t->custody.round;
	__builtin_memset(t, 0, sizeof(*t));
	t->custody.round = round;
	custody_init(&t->custody, p->pid);
	t->left = -1;
	t->nice = task_nice(p) + 20;
	t->policy = policy_of(p);
	t->prio = PRIO_NORMAL;
	t->cpu = scx_bpf_task_cpu(p);
	t->newborn = args->fork;
	t->last_ran_ns = now_ns;
	refill(t, now_ns);
	copy_mask(i, p->cpus_ptr);
	if (!args->fork)
		return 0;
	current = bpf_get_current_task_btf();
	if (current)
		parent = slot_of(current);
	if (parent && fork_task(i, parent, cpu, now_ns))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return 0;
}

void BPF_STRUCT_OPS(bfs_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 i = slot_of(p);

	if (!i)
		return;
	forget(i);
	slot_close(p);
}

/* The scheduler itself -------------------------------------------------------------------- */

static int cpus_init(void)
{
	const struct cpumask *mask;
	u32 cpu;

	nr_cpus = nr_cpu_ids ?: scx_bpf_nr_cpu_ids();
	if (nr_cpus > MAX_CPUS) {
		scx_bpf_error("bfs: %u CPUs, at most %u; raise MAX_CPUS", nr_cpus, MAX_CPUS);
		return -E2BIG;
	}
	mask = scx_bpf_get_online_cpumask();
	bpf_for (cpu, 0, nr_cpus) {
		cpu_state(cpu)->prio = PRIO_OTHER;
		if (!bpf_cpumask_test_cpu(cpu, mask))
			continue;
		*word_of(&online, cpu) |= bit_of(cpu);
		nr_online++;
		/* The core thinks so, too, until it has looked at each CPU. */
		cpu_state(cpu)->prio = PRIO_NONE;
		idle_init(cpu);
	}
	scx_bpf_put_cpumask(mask);
	params_init();
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(bfs_init)
{
	if (!tick_hz || tick_hz > 10000) {
		scx_bpf_error("bfs: tick_hz=%u; use 1..10000", tick_hz);
		return -EINVAL;
	}
	if (!rr_interval || rr_interval > 5000) {
		scx_bpf_error("bfs: rr_interval=%u ms; use 1..5000", rr_interval);
		return -EINVAL;
	}
	if (version < 311 || version > 464 || iso_cpu > 100) {
		scx_bpf_error("bfs: version=%u iso_cpu=%u; use 311..464, 0..100", version, iso_cpu);
		return -EINVAL;
	}
	return cpus_init();
}

void BPF_STRUCT_OPS(bfs_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(bfs_ops,
	       .select_cpu		= (void *)bfs_select_cpu,
	       .enqueue			= (void *)bfs_enqueue,
	       .dequeue			= (void *)bfs_dequeue,
	       .dispatch		= (void *)bfs_dispatch,
	       .running			= (void *)bfs_running,
	       .stopping		= (void *)bfs_stopping,
	       .quiescent		= (void *)bfs_quiescent,
	       .tick			= (void *)bfs_tick,
	       .yield			= (void *)bfs_yield,
	       .update_idle		= (void *)bfs_update_idle,
	       .set_weight		= (void *)bfs_set_weight,
	       .set_cpumask		= (void *)bfs_set_cpumask,
	       .init_task		= (void *)bfs_init_task,
	       .exit_task		= (void *)bfs_exit_task,
	       .init			= (void *)bfs_init,
	       .exit			= (void *)bfs_exit,
	       .name			= "bfs");
/* clang-format on */
