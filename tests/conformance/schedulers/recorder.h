/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A scheduler that logs every callback through probes: the callback's name, the task or CPU it was
 * about, and one figure (flags where it has flags).
 *
 * A trap is a file that includes the common header (first, so that its types need not be parsed for
 * each trap), defines what it does differently and includes this. What it leaves alone is
 * scx_simple's rule: straight to an idle CPU, else to the end of one shared queue.
 *
 *	SELECT_CPU(p, prev_cpu, wake_flags)	returns a CPU; may insert
 *	ENQUEUE(p, enq_flags)			DISPATCH(cpu, prev)
 *	TICK(p)	RUNNING(p)	YIELD(p)	CPU_RELEASE(cpu)
 *	INIT() and INIT_TASK(p)			return 0 or an errno
 *
 * and, from the command line of the compiler: OPS_FLAGS (ops.flags), TIMEOUT_MS, WITH_UPDATE_IDLE,
 * WATCH_IDLE_MASK, WITH_CGROUPS, WITHOUT_ENQUEUE, WITHOUT_SELECT_CPU.
 */
#ifndef __RECORDER_H
#define __RECORDER_H

#include <scx/common.bpf.h>
#include "tiltyard.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Slice of every insert that says nothing else. */
const volatile u64 slice_ns = 18000000;

#define SHARED_DSQ 0

#ifndef OPS_FLAGS
#define OPS_FLAGS 0
#endif
#ifndef TIMEOUT_MS
#define TIMEOUT_MS 0
#endif

/* In a kernel probes have no time of their own, and may be the only sign that anything
 * happened. */
#define LOG_TIME() TILT_PROBE_CPU(time, 0, bpf_ktime_get_ns())
#define LOG_TASK(name, p, value)                                                                   \
	do {                                                                                       \
		LOG_TIME();                                                                        \
		TILT_PROBE_TASK(name, p, value);                                                   \
	} while (0)
#define LOG_CPU(name, cpu, value)                                                                  \
	do {                                                                                       \
		LOG_TIME();                                                                        \
		TILT_PROBE_CPU(name, cpu, value);                                                  \
	} while (0)

/* Workloads name the one task that a trap is about X. */
static __always_inline bool is_x(const struct task_struct *p)
{
	char comm[sizeof(p->comm)];

	__builtin_memcpy(comm, p->comm, sizeof(comm));
	return comm[0] == 'X';
}

/* A or A-0, as no task of the kernel's or of those who start the workload is called. */
static __always_inline bool is_of_workload(const struct task_struct *p)
{
	char comm[sizeof(p->comm)];

	__builtin_memcpy(comm, p->comm, sizeof(comm));
	return comm[0] >= 'A' && comm[0] <= 'Z' && (!comm[1] || comm[1] == '-');
}

#ifndef SELECT_CPU
#define SELECT_CPU select_idle
static __always_inline s32 select_idle(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return cpu;
}
#endif
#ifndef ENQUEUE
#define ENQUEUE(p, enq_flags) scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags)
#endif
#ifndef DISPATCH
#define DISPATCH(cpu, prev) scx_bpf_dsq_move_to_local(SHARED_DSQ, 0)
#endif
#ifndef TICK
#define TICK(p)
#endif
#ifndef RUNNING
#define RUNNING(p)
#endif
#ifndef YIELD
#define YIELD(p) ((p)->scx.slice = 0)
#endif
#ifndef CPU_RELEASE
#define CPU_RELEASE(cpu)
#endif
#ifndef ENABLE
#define ENABLE(p)
#endif
#ifndef INIT
#define INIT() 0
#endif
#ifndef INIT_TASK
#define INIT_TASK(p) 0
#endif

#ifndef WITHOUT_SELECT_CPU
s32 BPF_STRUCT_OPS(recorder_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	LOG_TASK(select_cpu, p, wake_flags);
	return SELECT_CPU(p, prev_cpu, wake_flags);
}
#endif

#ifndef WITHOUT_ENQUEUE
void BPF_STRUCT_OPS(recorder_enqueue, struct task_struct *p, u64 enq_flags)
{
	LOG_TASK(enqueue, p, enq_flags);
	ENQUEUE(p, enq_flags);
}
#endif

void BPF_STRUCT_OPS(recorder_dequeue, struct task_struct *p, u64 deq_flags)
{
	LOG_TASK(dequeue, p, deq_flags);
}

/* The figure is the pid of prev, 0 for none. */
void BPF_STRUCT_OPS(recorder_dispatch, s32 cpu, struct task_struct *prev)
{
	LOG_CPU(dispatch, cpu, prev ? prev->pid : 0);
	DISPATCH(cpu, prev);
}

/* The figure is the slice that is left. */
void BPF_STRUCT_OPS(recorder_tick, struct task_struct *p)
{
	LOG_TASK(tick, p, p->scx.slice);
	TICK(p);
}

void BPF_STRUCT_OPS(recorder_runnable, struct task_struct *p, u64 enq_flags)
{
	LOG_TASK(runnable, p, enq_flags);
}

/* The figure is the slice that it starts with. */
void BPF_STRUCT_OPS(recorder_running, struct task_struct *p)
{
	LOG_TASK(running, p, p->scx.slice);
	RUNNING(p);
}

void BPF_STRUCT_OPS(recorder_stopping, struct task_struct *p, bool runnable)
{
	LOG_TASK(stopping, p, runnable);
}

void BPF_STRUCT_OPS(recorder_quiescent, struct task_struct *p, u64 deq_flags)
{
	LOG_TASK(quiescent, p, deq_flags);
}

bool BPF_STRUCT_OPS(recorder_yield, struct task_struct *from, struct task_struct *to)
{
	LOG_TASK(yield, from, to ? to->pid : 0);
	YIELD(from);
	return false;
}

void BPF_STRUCT_OPS(recorder_set_weight, struct task_struct *p, u32 weight)
{
	LOG_TASK(set_weight, p, weight);
}

/* The figure is the first CPU of the mask. */
void BPF_STRUCT_OPS(recorder_set_cpumask, struct task_struct *p, const struct cpumask *mask)
{
	LOG_TASK(set_cpumask, p, bpf_cpumask_first(mask));
}

#ifdef WITH_UPDATE_IDLE
/* Second record: whether the built-in mask has the CPU at this moment. */
void BPF_STRUCT_OPS(recorder_update_idle, s32 cpu, bool idle)
{
	LOG_CPU(update_idle, cpu, idle);
#ifdef WATCH_IDLE_MASK
	const struct cpumask *mask = scx_bpf_get_idle_cpumask();

	LOG_CPU(in_idle_mask, cpu, bpf_cpumask_test_cpu(cpu, mask));
	scx_bpf_put_idle_cpumask(mask);
#endif
}
#endif

#ifdef WITH_CGROUPS
/* The figure is the weight; the key is the level, 0 for the root. */
s32 BPF_STRUCT_OPS_SLEEPABLE(recorder_cgroup_init, struct cgroup *cgrp,
			     struct scx_cgroup_init_args *args)
{
	LOG_CPU(cgroup_init, cgrp->level, args->weight);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(recorder_cgroup_prep_move, struct task_struct *p, struct cgroup *from,
			     struct cgroup *to)
{
	LOG_TASK(cgroup_prep_move, p, to->level);
	return 0;
}

void BPF_STRUCT_OPS(recorder_cgroup_move, struct task_struct *p, struct cgroup *from,
		    struct cgroup *to)
{
	LOG_TASK(cgroup_move, p, to->level);
}
#endif

void BPF_STRUCT_OPS(recorder_cpu_acquire, s32 cpu, struct scx_cpu_acquire_args *args)
{
	LOG_CPU(cpu_acquire, cpu, 0);
}

/* The figure is enum scx_cpu_preempt_reason. */
void BPF_STRUCT_OPS(recorder_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	LOG_CPU(cpu_release, cpu, args->reason);
	CPU_RELEASE(cpu);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(recorder_init_task, struct task_struct *p,
			     struct scx_init_task_args *args)
{
	LOG_TASK(init_task, p, args->fork);
	return INIT_TASK(p);
}

void BPF_STRUCT_OPS(recorder_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	LOG_TASK(exit_task, p, args->cancelled);
}

void BPF_STRUCT_OPS(recorder_enable, struct task_struct *p)
{
	LOG_TASK(enable, p, p->scx.weight);
	ENABLE(p);
}

void BPF_STRUCT_OPS(recorder_disable, struct task_struct *p)
{
	LOG_TASK(disable, p, 0);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(recorder_init)
{
	s32 err = scx_bpf_create_dsq(SHARED_DSQ, -1);

	LOG_CPU(init, 0, 0);
	return err ?: INIT();
}

void BPF_STRUCT_OPS(recorder_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(recorder_ops,
#ifndef WITHOUT_SELECT_CPU
	       .select_cpu = (void *)recorder_select_cpu,
#endif
#ifndef WITHOUT_ENQUEUE
	       .enqueue = (void *)recorder_enqueue,
#endif
	       .dequeue = (void *)recorder_dequeue, .dispatch = (void *)recorder_dispatch,
	       .tick = (void *)recorder_tick, .runnable = (void *)recorder_runnable,
	       .running = (void *)recorder_running, .stopping = (void *)recorder_stopping,
	       .quiescent = (void *)recorder_quiescent, .yield = (void *)recorder_yield,
	       .set_weight = (void *)recorder_set_weight,
	       .set_cpumask = (void *)recorder_set_cpumask,
#ifdef WITH_UPDATE_IDLE
	       .update_idle = (void *)recorder_update_idle,
#endif
#ifdef WITH_CGROUPS
	       .cgroup_init = (void *)recorder_cgroup_init,
	       .cgroup_prep_move = (void *)recorder_cgroup_prep_move,
	       .cgroup_move = (void *)recorder_cgroup_move,
#endif
	       .cpu_acquire = (void *)recorder_cpu_acquire,
	       .cpu_release = (void *)recorder_cpu_release, .init_task = (void *)recorder_init_task,
	       .exit_task = (void *)recorder_exit_task, .enable = (void *)recorder_enable,
	       .disable = (void *)recorder_disable, .init = (void *)recorder_init,
	       .exit = (void *)recorder_exit, .flags = OPS_FLAGS, .timeout_ms = TIMEOUT_MS,
	       .name = "recorder");

#endif
