/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads through a pointer that may be NULL: the verifier must refuse it. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, u32);
	__type(value, u64);
} slices SEC(".maps");

void BPF_STRUCT_OPS(verifier_fail_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 pid = p->pid;
	u64 *slice_ns = bpf_map_lookup_elem(&slices, &pid);

	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, *slice_ns, enq_flags);
}

SCX_OPS_DEFINE(verifier_fail_ops, .enqueue = (void *)verifier_fail_enqueue,
	       .name = "verifier_fail");
