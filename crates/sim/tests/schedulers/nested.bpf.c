/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counts in a map of maps whose inner maps are described by a type, not by a variable. It has none.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

#ifndef MAX_BATCH
#define MAX_BATCH 0
#endif

struct inner {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, u64);
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, 8);
	__type(key, u32);
	__array(values, struct inner);
} groups SEC(".maps");

u64 missing;

void BPF_STRUCT_OPS(nested_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 group = p->tgid;

	if (!bpf_map_lookup_elem(&groups, &group))
		missing++;
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(nested_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(nested_ops, .enqueue = (void *)nested_enqueue, .exit = (void *)nested_exit,
	       .dispatch_max_batch = MAX_BATCH, .name = "nested");
