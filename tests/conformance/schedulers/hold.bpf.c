/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Holds tasks itself, in a queue of pids, and dispatches up to `batch` of them at once to the
 * local queues of their CPUs.
 */
#include <scx/common.bpf.h>

const volatile unsigned int batch = 4;

#define ENQUEUE(p, enq_flags) hold(p)
#define DISPATCH(cpu, prev)   release()

struct task_struct;
static void hold(struct task_struct *p);
static void release(void);

#include "recorder.h"

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 64);
	__type(value, s32);
} pids SEC(".maps");

static void hold(struct task_struct *p)
{
	s32 pid = p->pid;

	if (bpf_map_push_elem(&pids, &pid, 0))
		scx_bpf_error("the queue is full");
}

static void release(void)
{
	struct task_struct *p;
	s32 i, pid;

	bpf_for (i, 0, batch) {
		if (bpf_map_pop_elem(&pids, &pid))
			break;
		p = bpf_task_from_pid(pid);
		if (!p)
			continue;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | scx_bpf_task_cpu(p), slice_ns, 0);
		bpf_task_release(p);
	}
}
