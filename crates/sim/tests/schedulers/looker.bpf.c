/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Looks at one CPU, the same at every enqueue, and otherwise leaves all to the core. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

const volatile u32 target;
u64 looks;

void BPF_STRUCT_OPS(looker_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | target) >= 0)
		looks++;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS_DEFINE(looker_ops, .enqueue = (void *)looker_enqueue, .name = "looker");
