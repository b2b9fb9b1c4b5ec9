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
 *   tasks.h                 running, sleeping, changed tasks
 *
 * Runqueues, several CPUs and most callbacks are those of Linux 2.6, which SD shares with O(1):
 * tiltyard/linux26/class.h.
 *
 * Good at: fairness to the millisecond, bounded latency, no heuristics. Bad at: latency of tasks
 * that use up their levels before they sleep; many tasks, whose rotations are long.
 */
#include <scx/common.bpf.h>
#include "tiltyard.bpf.h"
#include "tasks.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

#include "tiltyard/linux26/class.h"

void BPF_STRUCT_OPS(sd_set_weight, struct task_struct *p, u32 weight)
{
	u32 i = slot_of(p);

	if (i)
		change(i, static_level_of(p), p->policy);
}

void BPF_STRUCT_OPS(sd_set_cpumask, struct task_struct *p, const struct cpumask *allowed)
{
	u32 i = slot_of(p);

	if (i)
		set_affinity(p, i, allowed);
}

s32 BPF_STRUCT_OPS(sd_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	u32 i = open_task(p);
	struct sd_task *t = task(i);

	if (!i)
		return -ENOMEM;
	t->rq.prio = MAX_RT_PRIO;
	t->home = t->rq.cpu;
	t->policy = p->policy;
	t->static_level = static_level_of(p);
	t->rq.load_weight = weight_of(t->static_level, t->policy == POLICY_IDLE);
	if (args->fork)
		begin_fork(p, i, scx_bpf_now());
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(sd_init)
{
	u64 now_ns = scx_bpf_now();
	int err = init_machine() ?: quotas_init(nr_online);
	u32 cpu;

	if (err)
		return err;
	bpf_for (cpu, 0, nr_cpus)
		new_rotation(cpu_state(cpu), now_ns);
	return 0;
}

void BPF_STRUCT_OPS(sd_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(sd_ops,
	       .select_cpu		= (void *)linux26_select_cpu,
	       .enqueue			= (void *)linux26_enqueue,
	       .dequeue			= (void *)linux26_dequeue,
	       .dispatch		= (void *)linux26_dispatch,
	       .running			= (void *)linux26_running,
	       .stopping		= (void *)linux26_stopping,
	       .quiescent		= (void *)linux26_quiescent,
	       .tick			= (void *)linux26_tick,
	       .yield			= (void *)linux26_yield,
	       .set_weight		= (void *)sd_set_weight,
	       .set_cpumask		= (void *)sd_set_cpumask,
	       .init_task		= (void *)sd_init_task,
	       .exit_task		= (void *)linux26_exit_task,
	       .disable			= (void *)linux26_disable,
	       .init			= (void *)sd_init,
	       .exit			= (void *)sd_exit,
	       /* A running task that is pushed elsewhere comes by enqueue() even if it is the last. */
	       .flags			= SCX_OPS_ENQ_LAST,
	       .name			= "sd");
/* clang-format on */
