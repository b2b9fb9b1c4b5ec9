/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * X asks scx_bpf_select_cpu_and() for an idle CPU within `mask_bits`, in ops.select_cpu or, if it
 * is pinned, in ops.enqueue; it goes where the answer says. Others go straight to their own CPU.
 */
#include <scx/common.bpf.h>

const volatile unsigned long long mask_bits;
const volatile unsigned long long pick_flags;
/* What is said to be the CPU that X was on; -1: the truth. */
const volatile int told_prev = -1;

#define SELECT_CPU(p, prev_cpu, wake_flags) ask_if_x(p, prev_cpu, wake_flags)
#define ENQUEUE(p, enq_flags)		    ask_if_pinned(p, enq_flags)

struct task_struct;
static int ask_if_x(struct task_struct *p, int prev_cpu, unsigned long long wake_flags);
static void ask_if_pinned(struct task_struct *p, unsigned long long enq_flags);

#include "recorder.h"

static bool is_idle(s32 cpu)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool in = bpf_cpumask_test_cpu(cpu, idle);

	scx_bpf_put_idle_cpumask(idle);
	return in;
}

static int ask(struct task_struct *p, int prev_cpu, u64 wake_flags)
{
	struct bpf_cpumask *mask = bpf_cpumask_create();
	s32 i, cpu;

	if (!mask)
		return -ENOMEM;
	bpf_for (i, 0, 64) {
		if (mask_bits >> i & 1)
			bpf_cpumask_set_cpu(i, mask);
	}
	cpu = scx_bpf_select_cpu_and(p, told_prev >= 0 ? told_prev : prev_cpu, wake_flags,
				     (const struct cpumask *)mask, pick_flags);
	bpf_cpumask_release(mask);
	TILT_PROBE_TASK(answer, p, cpu);
	if (cpu >= 0)
		TILT_PROBE_TASK(unclaimed, p, is_idle(cpu));
	return cpu;
}

static int ask_if_x(struct task_struct *p, int prev_cpu, u64 wake_flags)
{
	s32 cpu;

	if (!is_x(p))
		return prev_cpu;
	cpu = ask(p, prev_cpu, wake_flags);
	if (cpu < 0)
		return prev_cpu;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}

static void ask_if_pinned(struct task_struct *p, u64 enq_flags)
{
	if (is_x(p) && p->nr_cpus_allowed == 1)
		ask(p, scx_bpf_task_cpu(p), enq_flags & SCX_ENQ_WAKEUP);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags);
}
