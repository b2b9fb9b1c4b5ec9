// SPDX-License-Identifier: GPL-2.0-or-later
/* Counts turns: in a variable for all CPUs, or in one of each CPU's own. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

const volatile bool shared;
const volatile bool locked;

struct line {
	u64 turns;
	u64 rest[7];
};
struct line counts[64] __attribute__((aligned(64)));
struct line everybody __attribute__((aligned(64)));

void BPF_STRUCT_OPS(sharer_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(sharer_running, struct task_struct *p)
{
	struct line *line = shared ? &everybody : &counts[bpf_get_smp_processor_id() & 63];

	if (locked)
		__sync_fetch_and_add(&line->turns, 1);
	else
		line->turns++;
}

SCX_OPS_DEFINE(sharer_ops, .enqueue = (void *)sharer_enqueue, .running = (void *)sharer_running,
	       .name = "sharer");
