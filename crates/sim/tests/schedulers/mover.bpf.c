/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Moves all that waits from a FIFO to a queue by vtime, with a vtime of its own for the first only:
 * what crates/sim/tests/rules.rs expects to come out last.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define FIFO	7
#define ORDERED 8

void BPF_STRUCT_OPS(mover_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, FIFO, 20000000, enq_flags);
}

void BPF_STRUCT_OPS(mover_dispatch, s32 cpu, struct task_struct *prev)
{
	struct task_struct *p;
	bool is_first = true;

	bpf_for_each (scx_dsq, p, FIFO, 0) {
		if (is_first)
			scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, 100);
		is_first = false;
		scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, ORDERED, 0);
	}
	scx_bpf_dsq_move_to_local(ORDERED, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(mover_init)
{
	s32 err = scx_bpf_create_dsq(FIFO, -1);

	return err ?: scx_bpf_create_dsq(ORDERED, -1);
}

SCX_OPS_DEFINE(mover_ops, .enqueue = (void *)mover_enqueue, .dispatch = (void *)mover_dispatch,
	       .init = (void *)mover_init, .name = "mover");
