/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Holds a lock for `passes` rounds of a loop in each wakeup's enqueue: its own if `spin` is set,
 * else only that of the runqueue, under which every enqueue runs. If `enough_ns` is set, the loop
 * ends after that time at the latest. With `shared`, all CPUs take their tasks from one queue. What
 * crates/sim/tests/contention.rs expects CPUs to wait for.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define QUEUE 7

const volatile u32 passes;
const volatile u64 enough_ns;
const volatile bool spin;
const volatile bool shared;

struct guarded {
	struct bpf_spin_lock lock;
	u64 value;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct guarded);
} guarded SEC(".maps");

static u64 sum;

static void work(void)
{
	u64 end_ns = bpf_ktime_get_ns() + enough_ns;
	u32 i;

	bpf_for (i, 0, passes) {
		if (enough_ns && bpf_ktime_get_ns() >= end_ns)
			break;
		*(volatile u64 *)&sum += i;
	}
}

void BPF_STRUCT_OPS(locker_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 key = 0;
	struct guarded *g = bpf_map_lookup_elem(&guarded, &key);

	if (!g)
		return;
	if (spin)
		bpf_spin_lock(&g->lock);
	if (enq_flags & SCX_ENQ_WAKEUP)
		work();
	if (spin)
		bpf_spin_unlock(&g->lock);
	scx_bpf_dsq_insert(p, shared ? QUEUE : SCX_DSQ_LOCAL, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(locker_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(locker_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SCX_OPS_DEFINE(locker_ops, .enqueue = (void *)locker_enqueue, .dispatch = (void *)locker_dispatch,
	       .init = (void *)locker_init, .name = "locker");
