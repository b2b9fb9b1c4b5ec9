/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A scheduler for a test of custody.h in a real kernel: a CPU takes a long time between putting a
 * task back and completing the switch away from it. Every CPU takes the task that was put back
 * last, so another CPU finds that task in between.
 */
#include <scx/common.bpf.h>
#include "tiltyard.bpf.h"
#include "tiltyard/custody.h"
#include "tiltyard/slots.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Steps of the loop in running(), a few ns each. */
const volatile u32 lingers = 1 << 14;

#define TURN_NS	       1000000
#define DISPATCH_TRIES 32

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 2 * MAX_TASKS);
	__type(value, u32);
} waiting SEC(".maps");

static u32 nr_cpus;
static struct custody tasks[MAX_TASKS];
static u64 steps;

static __always_inline struct custody *task(u32 i)
{
	return &tasks[i & (MAX_TASKS - 1)];
}

/* Tasks that may not run on all CPUs go to the core's global DSQ. */
void BPF_STRUCT_OPS(lingers_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 i = slot_of(p);

	if (!i || p->nr_cpus_allowed < nr_cpus) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	custody_begin(task(i), p->pid);
	if (bpf_map_push_elem(&waiting, &i, 0))
		scx_bpf_error("no room for %d", p->pid);
	scx_bpf_kick_cpu(scx_bpf_pick_any_cpu(p->cpus_ptr, 0), SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(lingers_dequeue, struct task_struct *p, u64 deq_flags)
{
	custody_end(task(slot_of(p)));
}

/* A task that the core has taken away is still on the stack, and may be there twice. */
void BPF_STRUCT_OPS(lingers_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 i, try;

	bpf_for (try, 0, DISPATCH_TRIES) {
		if (bpf_map_pop_elem(&waiting, &i))
			return;
		custody_choose(task(i), cpu);
		if (hand_over(task(i), cpu, TURN_NS))
			return;
	}
}

void BPF_STRUCT_OPS(lingers_running, struct task_struct *p)
{
	u32 step;

	bpf_for (step, 0, lingers)
		steps++;
}

s32 BPF_STRUCT_OPS(lingers_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	u32 i = slot_open(p);

	if (!i)
		return -ENOMEM;
	custody_init(task(i), p->pid);
	return 0;
}

void BPF_STRUCT_OPS(lingers_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	slot_close(p);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(lingers_init)
{
	nr_cpus = scx_bpf_nr_cpu_ids();
	return 0;
}

void BPF_STRUCT_OPS(lingers_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(lingers_ops,
	       .enqueue		= (void *)lingers_enqueue,
	       .dequeue		= (void *)lingers_dequeue,
	       .dispatch	= (void *)lingers_dispatch,
	       .running		= (void *)lingers_running,
	       .init_task	= (void *)lingers_init_task,
	       .exit_task	= (void *)lingers_exit_task,
	       .init		= (void *)lingers_init,
	       .exit		= (void *)lingers_exit,
	       .name		= "lingers");
