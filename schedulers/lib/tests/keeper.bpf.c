/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A scheduler for tests of custody.h and groups.h: it keeps all waiting tasks to itself, in the
 * order in which they came, hands them over one by one, and reports each one's group. The CPUs
 * of the simulated machine take turns, so it locks nothing.
 */
#include <scx/common.bpf.h>
#include "tiltyard.bpf.h"

/* An insert during which the core may take the task away, and a look at whether a CPU runs it. */
static void insert(struct task_struct *p, u64 dsq, u64 slice_ns, u64 enq_flags);
static bool is_on_a_cpu(struct task_struct *p);

#define scx_bpf_dsq_insert insert
#undef BPF_CORE_READ_BITFIELD
#define BPF_CORE_READ_BITFIELD(task, field) is_on_a_cpu(task)
#include "tiltyard/custody.h"
#undef scx_bpf_dsq_insert
#include "tiltyard/groups.h"
#include "tiltyard/tree.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Whether a task stays in custody on the books when it has been handed over: what must not be. */
const volatile bool forgets;
/* Whether the core takes each other task away when it has been chosen, and brings it back: before
 * the hand-over, or in the midst of it. */
const volatile bool snatches;
/* Whether another CPU chooses it then. */
const volatile bool rivals;
/* How often dispatch() finds the task that it has chosen on the CPU where it ran. */
const volatile u32 lingers;
/* At which of these looks the core takes it away, 0: never. */
const volatile u32 taken_at;

#define TURN_NS 1000000

struct keeper_task {
	struct custody custody;
	struct tree_node node;
	u32 group;
	u64 session;
};

static struct keeper_task tasks[MAX_TASKS];
static struct tree waiting;
static u64 arrivals;
static u32 nr_groups, nr_chosen;
/* Whose hand-over the core is going to disturb, and on which CPU. */
static u32 disturbed;
static s32 disturbed_cpu;
/* How often the hand-over has looked for the task's CPU. */
static u32 nr_looks;

static __always_inline struct keeper_task *task(u32 i)
{
	return &tasks[i & (MAX_TASKS - 1)];
}

static __always_inline struct tree_node *tree_node(u32 i)
{
	return &task(i)->node;
}

static __always_inline bool tree_keeps_more(void)
{
	return false;
}

static __always_inline void tree_keep(u32 i, u32 a, u32 b)
{
}

/* Groups have no queues here; only their number is known. */
static void group_reset_queue(u32 g, u32 cpu)
{
	if (!cpu)
		nr_groups++;
}

static void group_leave(u32 g)
{
}

static void forget(u32 i)
{
	custody_end(&task(i)->custody);
	tree_remove(&waiting, i);
}

void BPF_STRUCT_OPS(keeper_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 i = slot_of(p), round;

	if (custody_holds(&task(i)->custody)) {
		scx_bpf_error("%d is in custody twice", p->pid);
		return;
	}
	round = task(i)->custody.round;
	custody_begin(&task(i)->custody, p->pid);
	if (task(i)->custody.round == round)
		scx_bpf_error("%d: its custody is the one before", p->pid);
	tree_insert(&waiting, i, ++arrivals, 0);
}

void BPF_STRUCT_OPS(keeper_dequeue, struct task_struct *p, u64 deq_flags)
{
	u32 i = slot_of(p);

	if (custody_holds(&task(i)->custody))
		forget(i);
}

/* What the core and other CPUs may do to the task that @cpu has chosen. */
static void snatch(u32 i, s32 cpu)
{
	custody_end(&task(i)->custody);
	custody_begin(&task(i)->custody, task(i)->custody.pid);
	if (rivals)
		custody_choose(&task(i)->custody, cpu + 1);
}

static bool is_on_a_cpu(struct task_struct *p)
{
	u32 i = slot_of(p);

	nr_looks++;
	if (nr_looks == taken_at)
		snatch(i, scx_bpf_task_cpu(p));
	if (taken_at && nr_looks > taken_at + 1 && nr_looks <= lingers)
		scx_bpf_error("%d is waited for, and has been taken away", p->pid);
	return nr_looks <= lingers;
}

static void insert(struct task_struct *p, u64 dsq, u64 slice_ns, u64 enq_flags)
{
	if (!custody_holds(&task(slot_of(p))->custody))
		scx_bpf_error("%d is inserted, and is in nobody's custody", p->pid);
	if (nr_looks <= lingers && (!taken_at || nr_looks < taken_at))
		scx_bpf_error("%d is inserted after %d looks", p->pid, nr_looks);
	scx_bpf_dsq_insert(p, dsq, slice_ns, enq_flags);
	if (disturbed)
		snatch(disturbed, disturbed_cpu);
}

/* The hand-over of a task that the core takes away fails, and leaves nothing behind. */
static void disturb(u32 i, s32 cpu)
{
	u32 slots = scx_bpf_dispatch_nr_slots();

	if (nr_chosen % 4 == 1) {
		snatch(i, cpu);
	} else {
		disturbed = i;
		disturbed_cpu = cpu;
	}
	if (hand_over(&task(i)->custody, cpu, TURN_NS))
		scx_bpf_error("%d was handed over, and is elsewhere", task(i)->custody.pid);
	if (!custody_holds(&task(i)->custody) || scx_bpf_dispatch_nr_slots() != slots)
		scx_bpf_error("%d is lost", task(i)->custody.pid);
	disturbed = 0;
	custody_choose(&task(i)->custody, cpu);
}

void BPF_STRUCT_OPS(keeper_dispatch, s32 cpu, struct task_struct *prev)
{
	u32 i = waiting.first;

	if (!i)
		return;
	tree_remove(&waiting, i);
	custody_choose(&task(i)->custody, cpu);
	if (snatches && ++nr_chosen % 2)
		disturb(i, cpu);
	nr_looks = 0;
	if (taken_at) {
		if (hand_over(&task(i)->custody, cpu, TURN_NS))
			scx_bpf_error("%d was handed over, and is elsewhere", task(i)->custody.pid);
		custody_choose(&task(i)->custody, cpu);
		nr_looks = lingers;
	}
	if (!hand_over(&task(i)->custody, cpu, TURN_NS))
		scx_bpf_error("%d could not be handed over", task(i)->custody.pid);
	custody_choose(&task(i)->custody, cpu);
	if (custody_holds(&task(i)->custody))
		scx_bpf_error("%d is chosen, and in nobody's custody", task(i)->custody.pid);
	if (hand_over(&task(i)->custody, cpu, TURN_NS))
		scx_bpf_error("%d was handed over twice", task(i)->custody.pid);
	if (forgets)
		custody_begin(&task(i)->custody, task(i)->custody.pid);
}

void BPF_STRUCT_OPS(keeper_running, struct task_struct *p)
{
	struct keeper_task *t = task(slot_of(p));
	struct task_group_state *g = group(t->group);

	TILT_PROBE_TASK(group, p, t->group);
	TILT_PROBE_TASK(parent, p, g->parent);
	TILT_PROBE_TASK(depth, p, g->depth);
	TILT_PROBE_TASK(shares, p, g->shares);
	TILT_PROBE_TASK(session, p, g->session);
	TILT_PROBE_TASK(members, p, g->nr_tasks);
	TILT_PROBE_TASK(groups, p, nr_groups);
}

s32 BPF_STRUCT_OPS(keeper_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	u32 i = slot_open(p);
	s32 nice = 0;

	if (!i)
		return -ENOMEM;
	custody_init(&task(i)->custody, p->pid);
	task(i)->session = 0;
	task(i)->group = group_of_cgroup(args->cgroup);
	if (!task(i)->group)
		task(i)->session = session_of(p, &nice);
	if (task(i)->session)
		task(i)->group = join_session(task(i)->session, nice);
	return 0;
}

void BPF_STRUCT_OPS(keeper_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 i = slot_of(p);

	if (!i)
		return;
	leave_session(task(i)->group, task(i)->session);
	slot_close(p);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(keeper_cgroup_init, struct cgroup *cgrp,
			     struct scx_cgroup_init_args *args)
{
	return cgrp->level ? open_cgroup(cgrp, args->weight) : 0;
}

void BPF_STRUCT_OPS(keeper_cgroup_exit, struct cgroup *cgrp)
{
	give_group(group_of_cgroup(cgrp));
}

s32 BPF_STRUCT_OPS_SLEEPABLE(keeper_init)
{
	nr_cpus = scx_bpf_nr_cpu_ids();
	setup_group(0, 0, NICE_0_WEIGHT);
	return 0;
}

void BPF_STRUCT_OPS(keeper_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(keeper_ops,
	       .enqueue		= (void *)keeper_enqueue,
	       .dequeue		= (void *)keeper_dequeue,
	       .dispatch	= (void *)keeper_dispatch,
	       .running		= (void *)keeper_running,
	       .init_task	= (void *)keeper_init_task,
	       .exit_task	= (void *)keeper_exit_task,
	       .cgroup_init	= (void *)keeper_cgroup_init,
	       .cgroup_exit	= (void *)keeper_cgroup_exit,
	       .init		= (void *)keeper_init,
	       .exit		= (void *)keeper_exit,
	       .name		= "keeper");
