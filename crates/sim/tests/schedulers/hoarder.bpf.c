/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Puts every task on CPU 0: what crates/sim/tests/waste.rs measures. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

s32 BPF_STRUCT_OPS(hoarder_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return 0;
}

void BPF_STRUCT_OPS(hoarder_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | 0, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS_DEFINE(hoarder_ops, .select_cpu = (void *)hoarder_select_cpu,
	       .enqueue = (void *)hoarder_enqueue, .name = "hoarder");
