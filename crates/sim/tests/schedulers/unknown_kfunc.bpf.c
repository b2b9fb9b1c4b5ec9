/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A scheduler that needs a kernel function which nobody has. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

void scx_bpf_read_minds(struct task_struct *p) __ksym;

void BPF_STRUCT_OPS(unknown_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_read_minds(p);
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS_DEFINE(unknown_ops, .enqueue = (void *)unknown_enqueue, .name = "unknown");
