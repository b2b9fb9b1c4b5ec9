/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ULE: FreeBSD's scheduler, as its 11.1 release has it and as "The Battle of the Schedulers:
 * FreeBSD ULE vs. Linux CFS" (USENIX ATC'18) ported it to Linux. README.md has the details.
 *
 * ULE divides tasks into interactive ones and batch ones and lets the former always go first.
 * A task's penalty grows from 0 to 100 as it runs more and sleeps less; with r and s the time
 * it ran and slept voluntarily in the last five seconds or so,
 *
 *	penalty = 50 r / s          if s > r
 *	        = 100 - 50 s / r    otherwise
 *
 * and it is interactive if penalty + nice < 30. A task that ran 1 s and slept 3 s has penalty
 * 50 * 1 / 3 = 16: interactive. When it has run on for another second (2 s and 3 s, penalty 33)
 * it is batch. Interactive tasks are served first come, first served; batch tasks from a
 * calendar, a ring of slots that turns by one each tick, into which a task is put the further
 * ahead the more of the last ten seconds it had the CPU. So no batch task waits for ever for
 * others, but any of them waits for ever if interactive tasks fill the CPU. That is ULE's design,
 * and the paper's point: 80 database threads starve a computation until they are done.
 *
 * Slices are 10 ticks divided among the waiting tasks, 1 tick at least (FreeBSD: 12 and 2).
 * A woken task never preempts another one in the port. In FreeBSD it does on the waker's own CPU
 * if it is the better one, and elsewhere if it is interactive and the other one is batch.
 *
 * Good at: latency of tasks that sleep, whatever the load. Bad at: fairness between the two
 * classes; placement, which visits all CPUs up to three times for one wakeup.
 */
#include <scx/common.bpf.h>
#include "tiltyard.bpf.h"
#include "port.h"
#include "freebsd.h"
#include "balance.h"
#include "account.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Starving tasks that starve_limit_ms has let run: each is a deviation from ULE. presets.toml names
 * it. */
u64 nr_rescued;

/* Wakeups and placement ----------------------------------------------------------------- */

/* sched_pickcpu. */
s32 BPF_STRUCT_OPS(ule_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct ule_task *t = task_ctx(p);
	u64 now = hz_ticks(scx_bpf_now());

	if (!t)
		return prev_cpu;
	policy_waking(p, t, now);
	if (topo.nr_online == 1 || (prevcpu && t->has_slept))
		return prev_cpu;
	return policy_pickcpu(p, t, prev_cpu, now);
}

/* The task counts in the load from here to quiescent(), on whatever CPU it is. */
void BPF_STRUCT_OPS(ule_runnable, struct task_struct *p, u64 enq_flags)
{
	struct ule_task *t = task_ctx(p);

	if (!t)
		return;
	load_set(p, t, scx_bpf_task_cpu(p));
	if ((enq_flags & SCX_ENQ_WAKEUP) && !t->wake_done)
		wake_account(p, t, hz_ticks(scx_bpf_now()));
	else
		pri_update(p, t);
	t->wake_done = false;
}

void BPF_STRUCT_OPS(ule_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct ule_task *t = task_ctx(p);
	struct ule_cpu *c;
	s32 book;

	if (!t)
		return;
	book = book_set(t, -1);
	if (deq_flags & SCX_DEQ_SLEEP)
		sleep_account(p, t, hz_ticks(scx_bpf_now()));
	if (p->exit_state)
		return_run(p, t);
	t->left = book < 0 ? -1 : book >> 1;
	if (book < 0)
		return;
	c = cpu_ctx(book >> 1);
	if (READ_ONCE(t->pri) == READ_ONCE(c->lowpri))
		lowpri_update(book >> 1, c);
}

/* Queues -------------------------------------------------------------------------------- */

/* Key of a running task that goes back to its queues. */
static u64 requeue_key(s32 cpu, struct ule_cpu *c, struct task_struct *p, struct ule_task *t)
{
	bool head = READ_ONCE(c->owe_preempt);

	WRITE_ONCE(c->owe_preempt, false);
	if (!head)
		policy_pri_apply(p, t);
	return runq_key(cpu, c, READ_ONCE(t->pri), head);
}

/*
 * The guard: a task waits from here on, unless it does already. A change of its nice value or its
 * affinity brings it here in the middle of a wait, which the kernel's watchdog does not forget
 * either. A CPU's own kernel threads, for which others wait, do not queue; true if it is one. Apart
 * from enqueue(), which must not change by it: what is simulated costs what is executed.
 */
static __noinline bool guard_wait(struct task_struct *p, struct ule_task *t, u64 key, u64 enq_flags)
{
	bool was_running = !enq_flags || (enq_flags & SCX_ENQ_LAST);

	if (was_running || (enq_flags & SCX_ENQ_WAKEUP) || !READ_ONCE(t->queued_ns))
		WRITE_ONCE(t->queued_ns, scx_bpf_now());
	if (!is_kthread(p) || p->nr_cpus_allowed > 1)
		return false;
	p->scx.dsq_vtime = key;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_UNTIL_TICK, enq_flags);
	return true;
}

void BPF_STRUCT_OPS(ule_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct ule_task *t = task_ctx(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct ule_cpu *c = cpu_ctx(cpu);
	u64 key = p->scx.dsq_vtime;
	bool changed = (enq_flags & (ENQUEUE_RESTORE | ENQUEUE_MOVE)) == ENQUEUE_RESTORE;
	u32 pri;

	if (!t) {
		scx_bpf_error("ule: task %d has no state", p->pid);
		return;
	}
	if (enq_flags && !(enq_flags & SCX_ENQ_WAKEUP) && t->left >= 0 && !allowed(p, t->left) &&
	    !is_pinned(p)) {
		cpu = policy_displaced(p, t, cpu);
		c = cpu_ctx(cpu);
		/* In case it is not the one that the core expects to run it. */
		changed = true;
	}
	load_set(p, t, cpu);
	/* No flag: a task that was running and still wants to. */
	if (!enq_flags) {
		if (!t->key_ready)
			key = requeue_key(cpu, c, p, t);
	} else {
		if (par.queue_restarts)
			WRITE_ONCE(t->slice_used, 0);
		key = runq_key(cpu, c, READ_ONCE(t->pri), false);
		if (changed && t->left == cpu && policy_keeps_place(p, c, key))
			key = p->scx.dsq_vtime;
	}
	t->key_ready = false;
	pri = READ_ONCE(t->pri);
	if (starve_limit_ms && guard_wait(p, t, key, enq_flags)) {
		/* It preempts as it would from the queues. */
		if (enq_flags)
			policy_preempt_check(cpu, c, pri);
		return;
	}
	/* Partners: searches on other CPUs, and take(). */
	lowpri_lower(c, pri);
	if (tilt_probes_on)
		probe_place(p, t, key);
	scx_bpf_dsq_insert_vtime(p, runq_id(cpu, key_runq(key)), SLICE_UNTIL_TICK, key, enq_flags);
	if (enq_flags)
		policy_preempt_check(cpu, c, pri);
	/* A property has changed: for that the core wakes no idle CPU. */
	if (changed && !READ_ONCE(c->running))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Tasks that have waited for too long go to a queue of their own, which is served first. */
static bool rescue(s32 cpu, struct ule_cpu *c)
{
	u64 limit_ns = starve_limit_ms * NSEC_PER_MSEC, now = scx_bpf_now();
	struct task_struct *p;
	u32 q;

	if (now - c->rescue_ns >= limit_ns / 8) {
		c->rescue_ns = now;
		bpf_for (q, RUNQ_RT, RUNQ_STARVED) {
			bpf_for_each (scx_dsq, p, runq_id(cpu, q), 0) {
				struct ule_task *t = task_ctx(p);
				/* 0: it runs elsewhere by now; partner: running(). */
				u64 queued_ns = t ? READ_ONCE(t->queued_ns) : 0;
				u64 waited_ns = now - queued_ns;

				if (!queued_ns || (s64)waited_ns < (s64)limit_ns)
					continue;
				if (!scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p,
						      runq_id(cpu, RUNQ_STARVED), 0))
					continue;
				__sync_fetch_and_add(&nr_rescued, 1);
				TILT_PROBE_TASK(rescued_ms, p, waited_ns / NSEC_PER_MSEC);
			}
		}
	}
	return scx_bpf_dsq_move_to_local(runq_id(cpu, RUNQ_STARVED), 0);
}

/* The task has been chosen, maybe again: its slot and priority are the CPU's. */
static void chosen(struct task_struct *p, struct ule_task *t, struct ule_cpu *c)
{
	t->key_ready = false;
	WRITE_ONCE(c->owe_preempt, false);
	policy_cpu_runs(c, READ_ONCE(t->pri), key_slot(p->scx.dsq_vtime));
}

/* The running task is the best one after all: no switch, a new time on the CPU. */
static void run_on(struct task_struct *p, struct ule_task *t, struct ule_cpu *c)
{
	chosen(p, t, c);
	p->scx.slice = SLICE_UNTIL_TICK;
}

/* Hands the first task that waits here to the kernel. */
static bool take_first(s32 cpu)
{
	return scx_bpf_dsq_move_to_local(runq_id(cpu, RUNQ_RT), 0) ||
	       scx_bpf_dsq_move_to_local(runq_id(cpu, RUNQ_TS), 0);
}

/*
 * sched_choose. The kernel asks before it requeues the running task, ULE requeues first: so
 * find the place that the task would get, and let it run on if that is the first of all.
 */
void BPF_STRUCT_OPS(ule_dispatch, s32 cpu, struct task_struct *prev)
{
	struct ule_cpu *c = cpu_ctx(cpu);
	struct ule_task *t = NULL;
	u64 key = KEY_NONE;

	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		t = task_ctx(prev);
	if (t) {
		key = requeue_key(cpu, c, prev, t);
		prev->scx.dsq_vtime = key;
		t->key_ready = true;
	}
	if (starve_limit_ms && rescue(cpu, c))
		return;
	if (t && key < runq_head(cpu, RUNQ_RT) &&
	    (key_runq(key) == RUNQ_RT || key < runq_head(cpu, RUNQ_TS))) {
		run_on(prev, t, c);
		return;
	}
	if (take_first(cpu))
		return;
	if (t) {
		run_on(prev, t, c);
		return;
	}
	/* Stealing drops the run queue's lock: a wakeup may come meanwhile. */
	if (topo.nr_online > 1 && (steal(cpu) || take_first(cpu)))
		return;
	policy_cpu_idles(c);
}

/* Running ------------------------------------------------------------------------------- */

void BPF_STRUCT_OPS(ule_running, struct task_struct *p)
{
	struct ule_task *t = task_ctx(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct ule_cpu *c = cpu_ctx(cpu);
	u64 now_ns = scx_bpf_now();

	if (!t)
		return;
	load_set(p, t, cpu);
	WRITE_ONCE(c->running, true);
	WRITE_ONCE(c->runs_free, !is_pinned(p));
	/* Its next wait begins again: guard_wait(). */
	WRITE_ONCE(t->queued_ns, 0);
	/* It returns to user mode now or soon, and then has its computed priority. */
	policy_pri_apply(p, t);
	chosen(p, t, c);
	pctcpu_update(t, hz_ticks(now_ns), false);
	ticks_skip(&c->ticks, now_ns, par.tick_ns);
}

void BPF_STRUCT_OPS(ule_stopping, struct task_struct *p, bool runnable)
{
	struct ule_task *t = task_ctx(p);
	u64 now = hz_ticks(scx_bpf_now());
	struct ule_cpu *c = cpu_ctx(scx_bpf_task_cpu(p));

	if (!t)
		return;
	WRITE_ONCE(c->running, false);
	WRITE_ONCE(c->runs_free, false);
	c->run_slot = SLOT_NONE;
	/* A higher class takes the CPU. Without a slice it comes back to the head of its queue,
	 * where others can take it, and better ones that wake up meanwhile are chosen first. */
	if (runnable && p->scx.slice) {
		p->scx.slice = 0;
		WRITE_ONCE(c->owe_preempt, true);
	}
	pctcpu_update(t, now, true);
	t->rltick = now;
}

/* sched_clock, once per ULE tick. Returns true if the slice is over. */
static bool clock(s32 cpu, struct ule_cpu *c, struct task_struct *p, struct ule_task *t, u64 now)
{
	u64 first = runq_first_slot(cpu, c);
	u32 used;

	TILT_PROBE_CPU(first_slot, cpu, first);
	calendar_tick(&c->idx, &c->ridx, first);
	pctcpu_update(t, now, true);
	if (!policy_is_idle_class(p))
		history_add(t, par.tickincr, 0);
	pri_update(p, t);
	used = READ_ONCE(t->slice_used) + 1;
	if (used < slice_of(READ_ONCE(c->load))) {
		WRITE_ONCE(t->slice_used, used);
		return false;
	}
	WRITE_ONCE(t->slice_used, 0);
	return true;
}

/* The machine's tick, at its own rate: as many ULE ticks as have come due. */
void BPF_STRUCT_OPS(ule_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct ule_cpu *c = cpu_ctx(cpu);
	struct ule_task *t = task_ctx(p);
	u64 now_ns = scx_bpf_now();
	u32 i, nr_due = ticks_due(&c->ticks, now_ns, par.tick_ns);

	if (!t)
		return;
	bpf_for (i, 0, nr_due) {
		/* The others are due, too: they are time that it ran. */
		if (clock(cpu, c, p, t, hz_ticks(now_ns)))
			p->scx.slice = 0;
	}
}

/* sched_relinquish: to the tail of its own place, with what is left of its slice. */
bool BPF_STRUCT_OPS(ule_yield, struct task_struct *from, struct task_struct *to)
{
	from->scx.slice = 0;
	return false;
}

/* Tasks come and go --------------------------------------------------------------------- */

s32 BPF_STRUCT_OPS(ule_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	u64 now = hz_ticks(scx_bpf_now());
	struct ule_task *t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct ule_task *pt = task_ctx(parent);

	if (!t)
		return -ENOMEM;
	t->book = -1;
	t->left = -1;
	if (args->fork && pt) {
		fork_account(p, t, parent, pt, now);
	} else {
		t->ltick = now;
		t->ftick = now;
		history_add(t, 0, par.load_sleep);
	}
	return 0;
}

void BPF_STRUCT_OPS(ule_enable, struct task_struct *p)
{
	struct ule_task *t = task_ctx(p);

	if (!t)
		return;
	/* If it sleeps, since when was not seen. */
	t->sleeping = false;
	pri_update(p, t);
	policy_pri_apply(p, t);
}

void BPF_STRUCT_OPS(ule_set_weight, struct task_struct *p, u32 weight)
{
	struct ule_task *t = task_ctx(p);

	if (!t)
		return;
	pri_update(p, t);
	policy_pri_apply(p, t);
}

void BPF_STRUCT_OPS(ule_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct ule_task *t = task_ctx(p);

	if (!t)
		return;
	book_set(t, -1);
	if (!args->cancelled)
		return_run(p, t);
}

/* The scheduler itself ------------------------------------------------------------------ */

static int cpus_init(void)
{
	u32 i, q;

	nr_cpus = nr_cpu_ids ?: scx_bpf_nr_cpu_ids();
	if (nr_cpus > MAX_CPUS) {
		scx_bpf_error("ule: %u CPUs, at most %u; raise MAX_CPUS", nr_cpus, MAX_CPUS);
		return -EINVAL;
	}
	bpf_for (i, 0, nr_cpus) {
		struct ule_cpu *c = cpu_ctx(i);

		c->run_slot = SLOT_NONE;
		c->lowpri = lowpri_boot;
		policy_cpu_idles(c);
		bpf_for (q, 0, NR_RUNQS) {
			int err = scx_bpf_create_dsq(runq_id(i, q), -1);

			if (err)
				return err;
		}
	}
	topo_init(&topo, nr_cpus, par.topo_levels, par.topo_how);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(ule_init)
{
	return params_init() ?: cpus_init() ?: balance_init();
}

void BPF_STRUCT_OPS(ule_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(ule_ops,
	       .select_cpu		= (void *)ule_select_cpu,
	       .enqueue			= (void *)ule_enqueue,
	       .dispatch		= (void *)ule_dispatch,
	       .tick			= (void *)ule_tick,
	       .runnable		= (void *)ule_runnable,
	       .running			= (void *)ule_running,
	       .stopping		= (void *)ule_stopping,
	       .quiescent		= (void *)ule_quiescent,
	       .yield			= (void *)ule_yield,
	       .set_weight		= (void *)ule_set_weight,
	       .init_task		= (void *)ule_init_task,
	       .exit_task		= (void *)ule_exit_task,
	       .enable			= (void *)ule_enable,
	       .init			= (void *)ule_init,
	       .exit			= (void *)ule_exit,
	       /* Exiting tasks queue like all others. */
	       .flags			= SCX_OPS_ENQ_EXITING,
	       .name			= "ule");
/* clang-format on */
