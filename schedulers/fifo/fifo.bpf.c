/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fifo: one queue for the whole machine, first come first served, with a time slice.
 *
 * The smallest scheduler worth reading: copy this file to start your own. A task that
 * wakes up goes straight to an idle CPU if there is one, else to the end of the shared
 * queue; a CPU that has nothing to run takes the head of that queue. `slice_ms` bounds
 * how long a task may run while others wait; make it huge for a textbook FIFO.
 */
#include <scx/common.bpf.h>
#include "tiltyard.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Time slice. The default is the kernel's own (SCX_SLICE_DFL). */
const volatile u32 slice_ms = 20;

/* Id of the one queue. */
#define SHARED_DSQ 0

static u64 slice_ns(void)
{
	return (u64)slice_ms * 1000000;
}

s32 BPF_STRUCT_OPS(fifo_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	/* An idle CPU needs no queue. Inserting here skips enqueue(). */
	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns(), 0);
	return cpu;
}

void BPF_STRUCT_OPS(fifo_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns(), enq_flags);
}

void BPF_STRUCT_OPS(fifo_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED_DSQ, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(fifo_init)
{
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

void BPF_STRUCT_OPS(fifo_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(fifo_ops,
	       .select_cpu		= (void *)fifo_select_cpu,
	       .enqueue			= (void *)fifo_enqueue,
	       .dispatch		= (void *)fifo_dispatch,
	       .init			= (void *)fifo_init,
	       .exit			= (void *)fifo_exit,
	       .name			= "fifo");
/* clang-format on */
