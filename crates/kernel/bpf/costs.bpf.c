/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * costs: a scheduler to weigh the others' work with. Each CPU first come, first served; beside that
 * it does known amounts of what schedulers do. Two threads that wake each other in turn run slower
 * under it by just that, and the difference is the cost.
 *
 * CALLBACKS adds ops.runnable, running, stopping and quiescent, which do nothing: each is called
 * once for every turn of a thread.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Instructions that an enqueue does for nothing; in steps of 128. */
const volatile u32 insns = 0;

/* Tasks go through a queue, from which ops.dispatch moves them, not straight to their CPU. */
const volatile bool queue = false;

#define SHARED_DSQ 0

#define EIGHT(x)   x x x x x x x x

/* 128 instructions, the loop's own three among them. */
static void spend(void)
{
	for (u32 i = 0; i < insns / 128; i++)
		asm volatile("r0 = 0;" EIGHT(EIGHT("r0 += 1;"))
				     EIGHT("r0 += 1;r0 += 1;r0 += 1;r0 += 1;")
					     EIGHT("r0 += 1;r0 += 1;r0 += 1;") "r0 += 1;r0 += 1;r0 "
									       "+= 1;r0 += 1;" ::
										       : "r0");
}

void BPF_STRUCT_OPS(costs_enqueue, struct task_struct *p, u64 enq_flags)
{
	spend();
	scx_bpf_dsq_insert(p, queue ? SHARED_DSQ : SCX_DSQ_LOCAL, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(costs_dispatch, s32 cpu, struct task_struct *prev)
{
	if (queue)
		scx_bpf_dsq_move_to_local(SHARED_DSQ, 0);
}

#ifdef CALLBACKS
void BPF_STRUCT_OPS(costs_runnable, struct task_struct *p, u64 enq_flags)
{
}

void BPF_STRUCT_OPS(costs_running, struct task_struct *p)
{
}

void BPF_STRUCT_OPS(costs_stopping, struct task_struct *p, bool runnable)
{
}

void BPF_STRUCT_OPS(costs_quiescent, struct task_struct *p, u64 deq_flags)
{
}
#endif

s32 BPF_STRUCT_OPS_SLEEPABLE(costs_init)
{
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

void BPF_STRUCT_OPS(costs_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(costs_ops, .enqueue = (void *)costs_enqueue, .dispatch = (void *)costs_dispatch,
#ifdef CALLBACKS
	       .runnable = (void *)costs_runnable, .running = (void *)costs_running,
	       .stopping = (void *)costs_stopping, .quiescent = (void *)costs_quiescent,
#endif
	       .init = (void *)costs_init, .exit = (void *)costs_exit, .name = "costs");
