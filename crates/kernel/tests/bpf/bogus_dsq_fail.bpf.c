/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Inserts into a queue that was never created: the kernel must take it out at once. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

void BPF_STRUCT_OPS(bogus_dsq_fail_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, 0xbad, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(bogus_dsq_fail_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(bogus_dsq_fail_ops, .enqueue = (void *)bogus_dsq_fail_enqueue,
	       .exit = (void *)bogus_dsq_fail_exit, .name = "bogus_dsq_fail");
