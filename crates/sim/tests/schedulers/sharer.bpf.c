/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counts turns: in a variable for all CPUs, or in one of each CPU's own; or in values of a map. The
 * compiler knows which variable it is only if that is `named`. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

const volatile bool shared;
const volatile bool locked;
const volatile bool mapped;
const volatile bool named;

struct line {
	u64 turns;
	u64 rest[7];
};
#define NR_CPUS 256
struct line counts[NR_CPUS] __attribute__((aligned(64)));
struct line everybody __attribute__((aligned(64)));

/* One more for everybody. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NR_CPUS + 1);
	__type(key, u32);
	__type(value, struct line);
} values SEC(".maps");

void BPF_STRUCT_OPS(sharer_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(sharer_running, struct task_struct *p)
{
	u32 cpu = bpf_get_smp_processor_id() & (NR_CPUS - 1), key = shared ? NR_CPUS : cpu;
	struct line *line = shared ? &everybody : &counts[cpu];

	if (named && shared) {
		everybody.turns++;
		return;
	}
	if (mapped)
		line = bpf_map_lookup_elem(&values, &key);
	if (!line)
		return;
	if (locked)
		__sync_fetch_and_add(&line->turns, 1);
	else
		line->turns++;
}

SCX_OPS_DEFINE(sharer_ops, .enqueue = (void *)sharer_enqueue, .running = (void *)sharer_running,
	       .name = "sharer");
