/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Puts every task into a queue that no CPU looks at: the watchdog must take it out. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

#define FORGOTTEN_DSQ 0

void BPF_STRUCT_OPS(stall_fail_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, FORGOTTEN_DSQ, SCX_SLICE_DFL, enq_flags);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(stall_fail_init)
{
	return scx_bpf_create_dsq(FORGOTTEN_DSQ, -1);
}

void BPF_STRUCT_OPS(stall_fail_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(stall_fail_ops, .enqueue = (void *)stall_fail_enqueue,
	       .init = (void *)stall_fail_init, .exit = (void *)stall_fail_exit, .timeout_ms = 1000,
	       .name = "stall_fail");
