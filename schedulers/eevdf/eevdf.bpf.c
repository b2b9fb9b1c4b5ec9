/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * eevdf: Earliest Eligible Virtual Deadline First, Linux's default scheduler since 6.6, as of 6.18.
 *
 * Every task has a vruntime v, the time it ran divided by its weight w, and makes requests of
 * length r, its slice. The virtual time V is the mean of all v, weighted by w: where every v would
 * be if each task had received its share. A task that is not ahead of it (v <= V) is eligible; of
 * the eligible tasks, the one whose request has the earliest deadline runs:
 *
 *	V = sum(w * v) / sum(w)		deadline = v at the time of the request + r / w
 *
 * So weights determine shares, and slices determine only how soon and how long at a time a task
 * runs: with a slice of 0.5 ms among others of 3 ms, a task gets no larger share, but never waits
 * long.
 *
 * Example: A(v 10, deadline 12.8), B(11, 11.5), C(9, 11.8) of equal weights. V = 10: A and C are
 * eligible, and C runs. B has the earliest deadline, but has already had more than its share.
 *
 *   turn.h      what EEVDF keeps        virtual.h  the rules of one queue
 *   tunables.h  what a run may set      change.h   new weights, new slices
 *   moves.h     joining and leaving     queue.h    taking turns
 *
 * The rest is Linux's fair class, which EEVDF shares with CFS: tiltyard/fair/class.h, which also
 * connects everything to the callbacks of sched_ext.
 */
#include <scx/common.bpf.h>
#include "tiltyard.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

#include "queue.h"
#include "tiltyard/fair/linux_6_18/version.h"
#include "tiltyard/fair/class.h"

void BPF_STRUCT_OPS(eevdf_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(eevdf_ops,
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
	       .exit			= (void *)eevdf_exit,
	       /* A running task that is pushed elsewhere comes by enqueue() even if it is the last. */
	       .flags			= SCX_OPS_ENQ_LAST,
	       .name			= "eevdf");
/* clang-format on */
