/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Holds the tasks named X. The rest of the workload starts on CPU 0, but for H on CPU 1. Once H
 * runs, ops.dispatch there inserts one of the held into `give_to` each time it is asked, where CPU
 * 1 finds none. With `forever` it is the same one every time, which changes nothing: after the
 * first time it is not held any more.
 *
 * Others, a kernel's own, come and go at once: while one waited, nobody would be asked.
 */
#include <scx/common.bpf.h>

const volatile unsigned long long give_to;
const volatile _Bool forever;

#define SELECT_CPU(p, prev_cpu, wake_flags) (is_of_workload(p) ? is_h(p) : (prev_cpu))
#define ENQUEUE(p, enq_flags)		    hold_x(p, enq_flags)
#define DISPATCH(cpu, prev)		    give(cpu)
#define RUNNING(p)			    (h_runs |= is_h(p) && scx_bpf_task_cpu(p) == 1)

struct task_struct;
static void hold_x(struct task_struct *p, unsigned long long enq_flags);
static void give(int cpu);
static int is_h(struct task_struct *p);
static _Bool h_runs;

#include "recorder.h"

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 64);
	__type(value, s32);
} pids SEC(".maps");

static int is_h(struct task_struct *p)
{
	return is_of_workload(p) && p->comm[0] == 'H';
}

static void hold_x(struct task_struct *p, u64 enq_flags)
{
	s32 pid = p->pid;

	if (is_x(p))
		bpf_map_push_elem(&pids, &pid, 0);
	else if (is_of_workload(p))
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags);
	else
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags | SCX_ENQ_PREEMPT);
}

static void give(int cpu)
{
	struct task_struct *p;
	s32 pid;

	if (cpu != 1) {
		scx_bpf_dsq_move_to_local(SHARED_DSQ, 0);
		return;
	}
	if (!h_runs || bpf_map_pop_elem(&pids, &pid))
		return;
	if (forever)
		bpf_map_push_elem(&pids, &pid, 0);
	p = bpf_task_from_pid(pid);
	if (p) {
		scx_bpf_dsq_insert(p, give_to, slice_ns, 0);
		bpf_task_release(p);
	}
}
