/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Inserts an idle CPU's task from ops.enqueue with the search that ops.select_cpu normally makes.
 */
#include <scx/common.bpf.h>

#define SELECT_CPU(p, prev_cpu, wake_flags) (prev_cpu)
#define ENQUEUE(p, enq_flags)		    enqueue_idle(p, enq_flags)

struct task_struct;
static void enqueue_idle(struct task_struct *p, unsigned long long enq_flags);

#include "recorder.h"

static void enqueue_idle(struct task_struct *p, u64 enq_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, scx_bpf_task_cpu(p), 0, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, slice_ns, enq_flags);
	else
		scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);
}
