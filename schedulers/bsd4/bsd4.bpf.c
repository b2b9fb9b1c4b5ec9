/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * 4BSD: FreeBSD's traditional scheduler, the default before ULE. README.md has the details.
 *
 * One queue for the whole machine is ordered by priority, and every CPU takes the best task from
 * it. A task's priority worsens as the task uses a CPU, and recovers with time. Let e be the
 * statistics ticks that a task has used; each of n CPUs ticks 127 times a second:
 *
 *	priority = 120 + e / (8 n) + nice + 20		the lower the better
 *	e = e * 2 L / (2 L + 1)				each second, L: tasks that want to run
 *
 * Example: one hog alone on one CPU (L = 1). Each second adds 127 ticks, and then removes a third
 * of the total: e = 84, priority 150; after two seconds e = 140, 157; then 178, 162; then 196, 164,
 * where it stays. A task that starts now has priority 140 and runs first, for about a second. Four
 * priorities share a FIFO; tasks in it take turns of 12 ticks, 94 ms.
 *
 * A task that has slept wakes up with a kernel priority, better than that of any task that
 * computes, and so runs at the next opportunity. When that comes is 4BSD's weakness: it wakes all
 * idle CPUs, and asks the task on the waker's own CPU to reschedule, but no other CPU.
 *
 * Good at: using all CPUs, as no task waits while a CPU is idle; fairness among hogs. Bad at:
 * caches, as any CPU takes any task; large machines, where all CPUs contend for the lock of one
 * queue, and all idle CPUs are woken for every task.
 */
#include <scx/common.bpf.h>
#include "tiltyard.bpf.h"
#include "place.h"
#include "schedcpu.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Wakeups ------------------------------------------------------------------------------- */

/*
 * A task that may run anywhere joins the global queue, which belongs to no CPU. So it stays with
 * its waker: on the task's last CPU, if that is idle, the kernel would wake it for the task, and so
 * give it a lead that FreeBSD does not give.
 */
s32 BPF_STRUCT_OPS(bsd4_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct bsd4_task *t = task_of(p);

	if (!t)
		return prev_cpu;
	if (!is_restricted(p))
		return bpf_get_smp_processor_id();
	return pick_cpu(p, READ_ONCE(t->last_cpu), prev_cpu, QUEUE_NONE);
}

void BPF_STRUCT_OPS(bsd4_runnable, struct task_struct *p, u64 enq_flags)
{
	struct bsd4_cpu *c = cpu_ctx(bpf_get_smp_processor_id());
	struct bsd4_task *t = task_of(p);

	if (!t)
		return;
	if (!t->runnable)
		WRITE_ONCE(c->nr_runnable, c->nr_runnable + 1);
	WRITE_ONCE(t->runnable, true);
	if (enq_flags & SCX_ENQ_WAKEUP)
		wakes(t);
}

/* The task that exits does not come back. Once per task, at its last switch or when it is freed. */
static void exits(struct task_struct *p, struct bsd4_task *t)
{
	struct task_struct *heir;
	struct bsd4_task *ht;

	if (t->exited)
		return;
	t->exited = true;
	heir = bpf_task_from_pid(freebsd_heir_pid(p));
	if (!heir)
		return;
	ht = task_of(heir);
	if (ht)
		bequeath(ht, READ_ONCE(t->est));
	bpf_task_release(heir);
}

void BPF_STRUCT_OPS(bsd4_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct bsd4_cpu *c = cpu_ctx(bpf_get_smp_processor_id());
	struct bsd4_task *t = task_of(p);

	if (!t)
		return;
	if (t->runnable)
		WRITE_ONCE(c->nr_runnable, c->nr_runnable - 1);
	WRITE_ONCE(t->runnable, false);
	if (deq_flags & SCX_DEQ_SLEEP)
		sleeps(t);
	if (p->exit_state)
		exits(p, t);
}

/* Queues -------------------------------------------------------------------------------- */

void BPF_STRUCT_OPS(bsd4_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct bsd4_task *t = task_of(p);
	u64 now_ns = scx_bpf_now(), queue;
	bool kept = false;
	u32 flags = 0;

	if (!t) {
		scx_bpf_error("bsd4: task %d has no state", p->pid);
		return;
	}
	/* No flag: a task that was running and still wants to. */
	if (!enq_flags) {
		if (!t->placed)
			place(cpu, cpu_ctx(cpu), p, t);
		flags = ADD_YIELDING;
	} else {
		kept = !(enq_flags & SCX_ENQ_WAKEUP) && keeps_place(p, t, READ_ONCE(t->queue));
		if (!kept)
			set_place(p, t, cpu, false, now_ns);
	}
	t->placed = false;
	/* A thread that calls execve() takes the pid of another. */
	if (t->pid != p->pid)
		WRITE_ONCE(t->pid, p->pid);
	if (starve_limit_ms && (!enq_flags || !READ_ONCE(t->queued_ns)))
		WRITE_ONCE(t->queued_ns, now_ns);
	queue = READ_ONCE(t->queue);
	if (READ_ONCE(t->pri) <= PRI_MAX_INTERRUPT)
		flags |= ADD_INTERRUPT;
	scx_bpf_dsq_insert_vtime(p, queue, SLICE_UNTIL_TICK, p->scx.dsq_vtime, enq_flags);
	if (!kept)
		add_notify(queue, READ_ONCE(t->pri), flags);
}

/* A switch from the running task to itself. */
static __always_inline void run_on(s32 cpu, struct bsd4_cpu *c, struct task_struct *p,
				   struct bsd4_task *t)
{
	t->placed = false;
	WRITE_ONCE(t->did_run, true);
	WRITE_ONCE(t->queue, QUEUE_NONE);
	switched(c, scx_bpf_now());
	p->scx.slice = SLICE_UNTIL_TICK;
	still_flagged(cpu, c, t);
}

/* Whether the running task, at the tail of the best FIFO, is the one that runq_fuzz prefers. */
static __always_inline bool fuzz_prefers(struct bsd4_cpu *c, u64 key, u64 head)
{
	return runq_fuzz > 1 && c->fuzz_open && key_fifo(key) == key_fifo(head);
}

/*
 * sched_choose. The kernel asks before it requeues the running task @t, 4BSD requeues first: so
 * find the place that the task would get, and let it run on if that is the first of all. Between
 * the heads of the two queues the exact priority decides, and the global queue if it is the same.
 * False: there is nothing to run.
 */
static __always_inline bool choose(s32 cpu, struct bsd4_cpu *c, struct task_struct *prev,
				   struct bsd4_task *t)
{
	bool own = scx_bpf_dsq_nr_queued(cpu) > 0, stays = false;
	struct candidate global = {}, local = {};

	if (!t && !own && runq_fuzz <= 1)
		return scx_bpf_dsq_move_to_local(QUEUE_GLOBAL, 0);
	if (runq_fuzz > 1)
		first_with_fuzz(cpu, &global);
	else
		first_of(QUEUE_GLOBAL, &global);
	local.key = KEY_NONE;
	if (own)
		first_of(cpu, &local);
	if (t) {
		struct candidate mine = {};

		place(cpu, c, prev, t);
		mine.key = prev->scx.dsq_vtime;
		mine.pri = READ_ONCE(t->pri);
		if (READ_ONCE(t->queue) == QUEUE_GLOBAL) {
			stays = mine.key < global.key || fuzz_prefers(c, mine.key, global.key);
			if (stays)
				global = mine;
		} else if (READ_ONCE(t->queue) == (u64)cpu) {
			stays = mine.key < local.key;
			if (stays)
				local = mine;
		}
	}
	own = local.key != KEY_NONE && (global.key == KEY_NONE || local.pri < global.pri);
	/* It is the best one after all. */
	if (stays && (READ_ONCE(t->queue) != QUEUE_GLOBAL) == own) {
		add_notify(READ_ONCE(t->queue), READ_ONCE(t->pri), ADD_YIELDING);
		run_on(cpu, c, prev, t);
		return true;
	}
	if (own && scx_bpf_dsq_move_to_local(cpu, 0))
		return true;
	if (runq_fuzz > 1 && c->nth && take_nth(cpu))
		return true;
	if (scx_bpf_dsq_move_to_local(QUEUE_GLOBAL, 0) || scx_bpf_dsq_move_to_local(cpu, 0))
		return true;
	/* Another CPU was faster. */
	if (t)
		run_on(cpu, c, prev, t);
	return t;
}

/*
 * While a scheduler is loaded, and while the machine is suspended, the kernel runs tasks by itself,
 * and does not say which CPUs are idle. Then it makes all CPUs choose again.
 */
void BPF_STRUCT_OPS(bsd4_dispatch, s32 cpu, struct task_struct *prev)
{
	struct bsd4_cpu *c = cpu_ctx(cpu);
	struct bsd4_task *t = NULL;

	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		t = task_of(prev);
	if (prev && c->marked)
		mark_idle(cpu, false);
	if (choose(cpu, c, prev, t) || prev || c->marked)
		return;
	cpu_leaves(c, PRI_IDLE);
	mark_idle(cpu, true);
}

/* Running ------------------------------------------------------------------------------- */

void BPF_STRUCT_OPS(bsd4_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct bsd4_cpu *c = cpu_ctx(cpu);
	u32 i = slot_of(p);
	struct bsd4_task *t = task_at(i);
	u64 now_ns = scx_bpf_now();

	if (!i)
		return;
	WRITE_ONCE(t->last_cpu, cpu);
	WRITE_ONCE(t->running, true);
	WRITE_ONCE(t->did_run, true);
	WRITE_ONCE(t->queue, QUEUE_NONE);
	WRITE_ONCE(t->queued_ns, 0);
	t->placed = false;
	/* It returns to user mode now or soon. */
	return_to_user(t);
	WRITE_ONCE(c->curr, i);
	switched(c, now_ns);
	ticks_skip(&c->ticks, now_ns, par.tick_ns);
	still_flagged(cpu, c, t);
}

void BPF_STRUCT_OPS(bsd4_stopping, struct task_struct *p, bool runnable)
{
	struct bsd4_cpu *c = cpu_ctx(scx_bpf_task_cpu(p));
	struct bsd4_task *t = task_of(p);

	if (!t)
		return;
	WRITE_ONCE(t->running, false);
	cpu_leaves(c, runnable && p->scx.slice ? 0 : PRI_IDLE);
	/* A better class takes the CPU, as interrupt threads do in FreeBSD. Without a slice the
	 * task goes back to its queue, where others can take it. */
	if (runnable && p->scx.slice) {
		p->scx.slice = 0;
		WRITE_ONCE(c->preempt, true);
		WRITE_ONCE(c->resched, true);
	}
}

/* sched_clock: one statistics tick. True if the task is to leave the CPU. */
static __always_inline bool clock_tick(struct bsd4_cpu *c, struct bsd4_task *t, u64 now_ns)
{
	charge_tick(t);
	if (slice_counter) {
		if (--t->slice > 0)
			return false;
		t->slice = par.slice;
		c->turn_over = true;
	} else if (now_ns / par.hz_ns - c->switch_tick < par.quantum) {
		return false;
	}
	WRITE_ONCE(c->resched, true);
	return true;
}

/* The machine's tick, at its own rate: as many statistics ticks as have come due. */
void BPF_STRUCT_OPS(bsd4_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct bsd4_cpu *c = cpu_ctx(cpu);
	struct bsd4_task *t = task_of(p);
	u64 now_ns = scx_bpf_now();
	u32 i, nr_due = ticks_due(&c->ticks, now_ns, par.tick_ns);

	if (!t)
		return;
	bpf_for (i, 0, nr_due) {
		if (clock_tick(c, t, now_ns))
			p->scx.slice = 0;
	}
	/* Idle CPUs of FreeBSD look at the queue when their clocks interrupt them. Here they have
	 * no ticks, and one of them may have fallen idle while a task was on its way to the queue.
	 */
	if (nr_due && scx_bpf_dsq_nr_queued(QUEUE_GLOBAL))
		wake_idle(cpu);
	if (tilt_probes_on && nr_due)
		probe_task(t);
}

/* sched_relinquish: to the tail of its FIFO; what it has used and what is left of its turn stay. */
bool BPF_STRUCT_OPS(bsd4_yield, struct task_struct *from, struct task_struct *to)
{
	/* FreeBSD cannot give the CPU to a certain task. */
	if (to)
		return false;
	cpu_ctx(bpf_get_smp_processor_id())->yields = true;
	from->scx.slice = 0;
	return false;
}

/* The CPU runs nothing, or something again. */
void BPF_STRUCT_OPS(bsd4_update_idle, s32 cpu, bool idle)
{
	struct bsd4_cpu *c = cpu_ctx(cpu);

	cpu_leaves(c, idle ? PRI_IDLE : 0);
	mark_idle(cpu, idle);
	if (!idle)
		return;
	/* The idle loop: a task may have come between the last look and the mark, whose waker did
	 * not see it. */
	if (scx_bpf_dsq_nr_queued(QUEUE_GLOBAL) || scx_bpf_dsq_nr_queued(cpu))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Tasks come and go --------------------------------------------------------------------- */

/* What the kernel says about a task: nice value and policy. */
static __always_inline enum bsd4_class class_of(struct task_struct *p)
{
	if (is_kthread(p))
		return CLASS_KERNEL;
	return freebsd_is_idle_class(p) ? CLASS_FIXED : CLASS_TIMESHARE;
}

static __always_inline void describe(struct task_struct *p, struct bsd4_task *t)
{
	t->nice = task_nice(p);
	t->class = class_of(p);
}

s32 BPF_STRUCT_OPS(bsd4_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_struct *creator = bpf_get_current_task_btf();
	struct bsd4_task *ct = task_of(creator), *t;
	struct sched_lock *lk = sched_lock();
	u32 i = slot_open(p);

	if (!i || !lk)
		return -ENOMEM;
	t = task_at(i);
	/* schedcpu() may be about to leave the task that had this slot before. */
	bpf_spin_lock(&lk->lock);
	reset_task(t);
	describe(p, t);
	if (args->fork && ct) {
		t->is_new = true;
		inherit(t, ct);
	} else {
		WRITE_ONCE(t->user_pri, PRI_MIN_IDLE);
		reset_user_pri(t);
		return_to_user(t);
	}
	if (t->class == CLASS_KERNEL)
		return_to_user(t);
	WRITE_ONCE(t->pid, p->pid);
	bpf_spin_unlock(&lk->lock);
	return 0;
}

/* sched_nice, and whatever else changes the weight. The kernel queues a waiting task again. */
static void changes(struct task_struct *p, struct bsd4_task *t)
{
	struct sched_lock *lk = sched_lock();
	u32 pri = READ_ONCE(t->pri);

	if (!lk)
		return;
	if (pri >= PRI_MIN_TIMESHARE && pri <= PRI_MAX_TIMESHARE)
		maybe_resched(bpf_get_smp_processor_id(), pri, false);
	bpf_spin_lock(&lk->lock);
	describe(p, t);
	if (t->class == CLASS_FIXED)
		WRITE_ONCE(t->user_pri, PRI_MIN_IDLE);
	reset_user_pri(t);
	apply_user_pri(t);
	bpf_spin_unlock(&lk->lock);
}

void BPF_STRUCT_OPS(bsd4_set_weight, struct task_struct *p, u32 weight)
{
	struct bsd4_task *t = task_of(p);

	if (!t)
		return;
	/* sched_fork: a new task keeps its creator's priority, although that is not recomputed
	 * when the creator inherits what a child has used. */
	if (t->is_new && t->nice == task_nice(p) && t->class == class_of(p)) {
		t->is_new = false;
		return;
	}
	changes(p, t);
}

void BPF_STRUCT_OPS(bsd4_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct sched_lock *lk = sched_lock();
	struct bsd4_task *t = task_of(p);

	if (!t || !lk)
		return;
	if (!args->cancelled)
		exits(p, t);
	bpf_spin_lock(&lk->lock);
	WRITE_ONCE(t->pid, 0);
	bpf_spin_unlock(&lk->lock);
	slot_close(p);
}

/* The scheduler itself ------------------------------------------------------------------ */

static int cpus_init(void)
{
	const struct cpumask *online;
	s32 i, err, nr_online = 0;

	nr_cpus = nr_cpu_ids ?: scx_bpf_nr_cpu_ids();
	if (nr_cpus > MAX_CPUS) {
		scx_bpf_error("bsd4: %d CPUs, at most %u; raise MAX_CPUS", nr_cpus, MAX_CPUS);
		return -EINVAL;
	}
	online = scx_bpf_get_online_cpumask();
	bpf_for (i, 0, nr_cpus) {
		if (!bpf_cpumask_test_cpu(i, online))
			continue;
		nr_online++;
		cpu_ctx(i)->online = true;
		/* Until it shows that it is not. */
		cpu_leaves(cpu_ctx(i), PRI_IDLE);
		mark_idle(i, true);
	}
	scx_bpf_put_cpumask(online);
	params_of_cpus(nr_online);
	bpf_for (i, 0, nr_cpus) {
		err = scx_bpf_create_dsq(i, -1);
		if (err)
			return err;
	}
	return scx_bpf_create_dsq(QUEUE_GLOBAL, -1);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(bsd4_init)
{
	return params_init() ?: cpus_init() ?: clocks_init();
}

void BPF_STRUCT_OPS(bsd4_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(bsd4_ops,
	       .select_cpu		= (void *)bsd4_select_cpu,
	       .enqueue			= (void *)bsd4_enqueue,
	       .dispatch		= (void *)bsd4_dispatch,
	       .tick			= (void *)bsd4_tick,
	       .runnable		= (void *)bsd4_runnable,
	       .running			= (void *)bsd4_running,
	       .stopping		= (void *)bsd4_stopping,
	       .quiescent		= (void *)bsd4_quiescent,
	       .yield			= (void *)bsd4_yield,
	       .update_idle		= (void *)bsd4_update_idle,
	       .set_weight		= (void *)bsd4_set_weight,
	       .init_task		= (void *)bsd4_init_task,
	       .exit_task		= (void *)bsd4_exit_task,
	       .init			= (void *)bsd4_init,
	       .exit			= (void *)bsd4_exit,
	       /* Exiting tasks queue like all others. */
	       .flags			= SCX_OPS_ENQ_EXITING,
	       .name			= "bsd4");
/* clang-format on */
