/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One queue for all, and accesses of every kind in dispatch(): what crates/sim/tests/accesses.rs
 * expects to see.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define QUEUE 7

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, u64[3]);
} table SEC(".maps");

static struct {
	u64 seen;
	u64 unused;
} cpus[8];
static u64 total;
u64 scratch[4];
/* A constant: what every scheduler reads and nobody asks about. */
const volatile u64 slice_ns = 2000000;

void BPF_STRUCT_OPS(toucher_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, slice_ns, enq_flags);
}

void BPF_STRUCT_OPS(toucher_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 key = 2;
	u64 *value = bpf_map_lookup_elem(&table, &key);

	/* Written, read at a neighbour's, counted atomically, cleared; the array's last word. */
	*(volatile u64 *)&cpus[cpu & 7].seen = 1;
	if (*(volatile u64 *)&cpus[(cpu + 1) & 7].unused)
		return;
	/* Still there, on to the next, and back: three visits. */
	if (*(volatile u64 *)&cpus[(cpu + 1) & 7].seen > 1 ||
	    *(volatile u64 *)&cpus[(cpu + 2) & 7].unused ||
	    *(volatile u64 *)&cpus[(cpu + 1) & 7].unused)
		return;
	__sync_fetch_and_add(&total, 1);
	__builtin_memset(scratch, cpu, sizeof(scratch));
	if (value)
		*(volatile u64 *)&value[2] = 1;
	if (scx_bpf_dsq_nr_queued(QUEUE))
		scx_bpf_dsq_move_to_local(QUEUE, 0);
	if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | 1) > 100)
		return;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(toucher_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS_DEFINE(toucher_ops, .enqueue = (void *)toucher_enqueue,
	       .dispatch = (void *)toucher_dispatch, .init = (void *)toucher_init,
	       .name = "toucher");
