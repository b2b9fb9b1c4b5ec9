/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One call about nodes or idle CPUs, chosen by -DASK; X makes it when it wakes up. */
#include <scx/common.bpf.h>

static int call(const struct task_struct *p);

#define SELECT_CPU(p, prev_cpu, wake_flags)                                                        \
	(is_x(p) && (wake_flags) & SCX_WAKE_TTWU ? call(p), (prev_cpu) : (prev_cpu))

#include "recorder.h"

#define IDLE_CPU_NODE(node) scx_bpf_pick_idle_cpu_node(p->cpus_ptr, node, 0)
#define ANY_CPU_NODE(node)  scx_bpf_pick_any_cpu_node(p->cpus_ptr, node, 0)
#define IDLE_CPU	    scx_bpf_pick_idle_cpu(p->cpus_ptr, 0)
#define ANY_CPU		    scx_bpf_pick_any_cpu(p->cpus_ptr, 0)
#define CLAIM(cpu)	    scx_bpf_test_and_clear_cpu_idle(cpu)
#define NODE_OF(cpu)	    scx_bpf_cpu_node(cpu)
#define MASK		    weight(scx_bpf_get_idle_cpumask())
#define MASK_NODE(node)	    weight(scx_bpf_get_idle_cpumask_node(node))
#define CORES		    weight(scx_bpf_get_idle_smtmask())
#define CORES_NODE(node)    weight(scx_bpf_get_idle_smtmask_node(node))

static __always_inline s32 weight(const struct cpumask *mask)
{
	s32 weight = bpf_cpumask_weight(mask);

	scx_bpf_put_idle_cpumask(mask);
	return weight;
}

static int call(const struct task_struct *p)
{
	TILT_PROBE_TASK(answer, p, ASK);
	return 0;
}
