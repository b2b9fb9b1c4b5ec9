/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cfs: Linux's Completely Fair Scheduler as it was in 4.9, and as "The Battle of the
 * Schedulers" (USENIX ATC'18, section 2.1) describes it.
 *
 * Every task has a vruntime, the time it ran divided by its weight; the runnable task with
 * the least runs. Groups (cgroups, sessions) are entities with a vruntime of their own in the
 * queue above. A slice is a task's part of a period; ticks end it; a wakee that is far enough
 * behind the running task preempts it.
 *
 *   turn.h     what CFS keeps        fair.h     the rules of one queue
 *   tunables.h what a run may set    queue.h    coming, going, taking turns
 *
 * The rest is Linux's fair class, which CFS shares with EEVDF: tiltyard/fair/class.h, which also
 * ties all of it to the callbacks of sched_ext.
 */
#include <scx/common.bpf.h>
#include "tiltyard.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

#include "turn.h"
#include "queue.h"
#include "tiltyard/fair/linux_4_9/version.h"
#include "tiltyard/fair/class.h"

void BPF_STRUCT_OPS(cfs_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(cfs_ops,
	       .select_cpu		= (void *)fair_select_cpu,
	       .enqueue			= (void *)fair_enqueue,
	       .dequeue			= (void *)fair_dequeue,
	       .dispatch		= (void *)fair_dispatch,
	       .running			= (void *)fair_running,
	       .stopping		= (void *)fair_stopping,
	       .quiescent		= (void *)fair_quiescent,
	       .tick			= (void *)fair_tick,
	       .yield			= (void *)fair_yield,
	       .set_weight		= (void *)fair_set_weight,
	       .init_task		= (void *)fair_init_task,
	       .exit_task		= (void *)fair_exit_task,
	       .cgroup_init		= (void *)fair_cgroup_init,
	       .cgroup_exit		= (void *)fair_cgroup_exit,
	       .cgroup_move		= (void *)fair_cgroup_move,
	       .cgroup_set_weight	= (void *)fair_cgroup_set_weight,
	       .init			= (void *)fair_init,
	       .exit			= (void *)cfs_exit,
	       /* A running task that is pushed elsewhere comes by enqueue() even if it is the last. */
	       .flags			= SCX_OPS_ENQ_LAST,
	       .name			= "cfs");
/* clang-format on */
