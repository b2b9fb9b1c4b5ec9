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
 *	tasks.h		new, sleeping, changed tasks
 *
 * Runqueues, several CPUs and most callbacks are those of Linux 2.6, which O(1) shares with SD:
 * tiltyard/linux26/class.h.
 *
 * Good at: latency of tasks that sleep, low and constant cost. Bad at: fairness. The estimate of
 * interactivity can be wrong and can be cheated, and a nice 0 task runs for up to a second per
 * runnable task while others get nothing. Between nice 0 and -1, slices jump by a factor of four.
 */
#include <scx/common.bpf.h>
#include "tiltyard.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

#include "tasks.h"
#include "tiltyard/linux26/class.h"

void BPF_STRUCT_OPS(o1_set_weight, struct task_struct *p, u32 weight)
{
	u32 i = slot_of(p), static_prio = static_prio_of(p);

	if (!i)
		return;
	if (change(i, static_prio, is_batch(p)) > 0)
		scx_bpf_kick_cpu(READ_ONCE(rq_task(i)->cpu), SCX_KICK_PREEMPT);
}

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
	u32 i = open_task(p);
	struct o1_task *t = task(i);
	u64 now_ns = scx_bpf_now();

	if (!i)
		return -ENOMEM;
	t->static_prio = static_prio_of(p);
	t->batch = is_batch(p);
	t->user = p->mm;
	t->serves_cpu = serves_cpu(p);
	t->time_slice = task_timeslice(t);
	t->timestamp_ns = now_ns;
	t->rq.load_weight = weight_of(t->static_prio);
	t->rq.prio = effective_prio(t);
	/* If it was there before and sleeps, then since now. */
	if (args->fork)
		begin_fork(p, i, now_ns);
	else
		t->asleep = true;
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(o1_init)
{
	int err = params_init();
	u32 cpu;

	if (!err)
		err = init_machine();
	if (err)
		return err;
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
	       .select_cpu		= (void *)linux26_select_cpu,
	       .enqueue			= (void *)linux26_enqueue,
	       .dequeue			= (void *)linux26_dequeue,
	       .dispatch		= (void *)linux26_dispatch,
	       .running			= (void *)linux26_running,
	       .stopping		= (void *)linux26_stopping,
	       .quiescent		= (void *)linux26_quiescent,
	       .tick			= (void *)linux26_tick,
	       .yield			= (void *)linux26_yield,
	       .set_weight		= (void *)o1_set_weight,
	       .set_cpumask		= (void *)o1_set_cpumask,
	       .init_task		= (void *)o1_init_task,
	       .exit_task		= (void *)linux26_exit_task,
	       .disable			= (void *)linux26_disable,
	       .init			= (void *)o1_init,
	       .exit			= (void *)o1_exit,
	       /* A running task that is pushed elsewhere comes by enqueue() even if it is the last. */
	       .flags			= SCX_OPS_ENQ_LAST,
	       .name			= "o1");
/* clang-format on */
