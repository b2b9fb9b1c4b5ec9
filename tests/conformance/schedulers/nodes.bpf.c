/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keeps tasks on the NUMA node they are on: idle CPUs are looked for there, and each node has its
 * own queue. With -DDEFAULT_SEARCH the built-in search chooses instead.
 */
#include <scx/common.bpf.h>

static int pick_in_node(struct task_struct *p);
static void take_from_node(int cpu);
static int create_queues(void);

#ifndef DEFAULT_SEARCH
#define SELECT_CPU(p, prev_cpu, wake_flags) pick_in_node(p)
#define ENQUEUE(p, enq_flags)                                                                      \
	scx_bpf_dsq_insert(p, 1 + scx_bpf_cpu_node(scx_bpf_task_cpu(p)), slice_ns, enq_flags)
#define DISPATCH(cpu, prev) take_from_node(cpu)
#define INIT()		    create_queues()
#endif

#include "recorder.h"

/* Bits of `node`'s mask that are CPUs of other nodes. */
static s32 foreign_bits(const struct cpumask *mask, s32 node)
{
	s32 cpu, foreign = 0;

	bpf_for (cpu, 0, scx_bpf_nr_cpu_ids())
		foreign += bpf_cpumask_test_cpu(cpu, mask) && scx_bpf_cpu_node(cpu) != node;
	return foreign;
}

static int pick_in_node(struct task_struct *p)
{
	s32 node = scx_bpf_cpu_node(scx_bpf_task_cpu(p));
	const struct cpumask *idle, *cores;
	s32 cpu;

	cpu = scx_bpf_pick_idle_cpu_node(p->cpus_ptr, node, SCX_PICK_IDLE_IN_NODE);
	TILT_PROBE_TASK(idle_cpu, p, cpu);
	if (cpu < 0)
		cpu = scx_bpf_pick_any_cpu_node(p->cpus_ptr, node, SCX_PICK_IDLE_IN_NODE);
	TILT_PROBE_TASK(any_cpu, p, cpu);
	idle = scx_bpf_get_idle_cpumask_node(node);
	cores = scx_bpf_get_idle_smtmask_node(node);
	TILT_PROBE_TASK(foreign, p, foreign_bits(idle, node) + foreign_bits(cores, node));
	TILT_PROBE_TASK(unclaimed, p, bpf_cpumask_test_cpu(cpu, idle));
	scx_bpf_put_idle_cpumask(idle);
	scx_bpf_put_idle_cpumask(cores);
	return cpu;
}

static void take_from_node(int cpu)
{
	scx_bpf_dsq_move_to_local(1 + scx_bpf_cpu_node(cpu), 0);
}

static int create_queues(void)
{
	s32 node, err;

	bpf_for (node, 0, scx_bpf_nr_node_ids()) {
		err = scx_bpf_create_dsq(1 + node, node);
		if (err)
			return err;
	}
	return 0;
}
