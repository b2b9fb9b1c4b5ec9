/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Claims an idle CPU in ops.select_cpu and makes nothing of it: the task stays where it was. With
 * -DKICK the claimed CPU is at least made to look for work.
 */
#include <scx/common.bpf.h>

#define SELECT_CPU(p, prev_cpu, wake_flags) claim_only(p, prev_cpu)

struct task_struct;
static int claim_only(struct task_struct *p, int prev_cpu);

#include "recorder.h"

static int claim_only(struct task_struct *p, int prev_cpu)
{
	s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	TILT_PROBE_TASK(picked, p, cpu);
#ifdef KICK
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, 0);
#endif
	return prev_cpu;
}
