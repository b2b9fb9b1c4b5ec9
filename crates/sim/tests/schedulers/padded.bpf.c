/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The key of its map has padding, which no assignment to a member writes: what one callback has put
 * into the map, another one finds only if the padding is always the same.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

struct task_key {
	u8 kind;
	u64 pid;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct task_key);
	__type(value, u64);
} seen SEC(".maps");

/* The default one would insert tasks before anybody has seen them. */
s32 BPF_STRUCT_OPS(padded_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void BPF_STRUCT_OPS(padded_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_key key;
	u64 one = 1;

	key.kind = 1;
	key.pid = p->pid;
	bpf_map_update_elem(&seen, &key, &one, 0);
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, 1000000, enq_flags);
}

void BPF_STRUCT_OPS(padded_running, struct task_struct *p)
{
	u64 noise[32];
	struct task_key key;

	bpf_probe_read_kernel(noise, sizeof(noise), &p->comm);
	key.kind = 1;
	key.pid = p->pid;
	if (!bpf_map_lookup_elem(&seen, &key))
		scx_bpf_error("task %d is not among the seen", p->pid);
}

SCX_OPS_DEFINE(padded_ops, .select_cpu = (void *)padded_select_cpu,
	       .enqueue = (void *)padded_enqueue, .running = (void *)padded_running,
	       .name = "padded");
