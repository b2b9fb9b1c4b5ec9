/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rr: round robin, one queue a CPU, idle CPUs steal.
 *
 * The next thing to read after fifo. A task that wakes up goes straight to an idle CPU if
 * there is one, else to the end of the queue of the CPU where it ran last. A CPU takes the
 * head of its own queue; when that is empty, it looks at the others' in the order of their
 * numbers, starting behind its own.
 *
 * With slice_ms = 20, A and B on CPU 0 and C alone on CPU 1, A and B take turns of 20 ms. When
 * C sleeps, CPU 1 steals whichever of the two waits, and both run all the time.
 *
 * Costs: the queues are balanced by nothing but idleness. Three hogs on one CPU and one on
 * another get a third and a whole CPU for as long as nobody sleeps. A steal looks at every
 * queue in turn, so it is O(CPUs), and knows nothing of caches or nodes.
 */
#include <scx/common.bpf.h>
#include "tiltyard.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Time slice. The default is the kernel's own (SCX_SLICE_DFL). */
const volatile u32 slice_ms = 20;

static u64 slice_ns(void)
{
	return (u64)slice_ms * 1000000;
}

s32 BPF_STRUCT_OPS(rr_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	/* An idle CPU needs no queue. Inserting here skips enqueue(). */
	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns(), 0);
	return cpu;
}

/* Of a woken task, one whose slice is over, or one that was moved. Queue n is CPU n's. */
void BPF_STRUCT_OPS(rr_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 idle;

	scx_bpf_dsq_insert(p, scx_bpf_task_cpu(p), slice_ns(), enq_flags);

	/* A CPU that fell idle since select_cpu() would not know that there is work to steal. */
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(rr_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids();
	s32 distance;

	/* Distance 0 is our own queue. Tasks that may not run here are passed over. */
	bpf_for (distance, 0, nr_cpus) {
		if (scx_bpf_dsq_move_to_local((cpu + distance) % nr_cpus, 0))
			break;
	}
}

s32 BPF_STRUCT_OPS_SLEEPABLE(rr_init)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids();
	s32 cpu, err;

	bpf_for (cpu, 0, nr_cpus) {
		err = scx_bpf_create_dsq(cpu, -1);
		if (err)
			return err;
	}
	return 0;
}

void BPF_STRUCT_OPS(rr_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(rr_ops,
	       .select_cpu		= (void *)rr_select_cpu,
	       .enqueue			= (void *)rr_enqueue,
	       .dispatch		= (void *)rr_dispatch,
	       .init			= (void *)rr_init,
	       .exit			= (void *)rr_exit,
	       .name			= "rr");
/* clang-format on */
