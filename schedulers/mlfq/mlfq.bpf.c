/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mlfq: a textbook multi-level feedback queue.
 *
 * Tasks wait in one queue per level; the first task of the highest non-empty level runs. A task's
 * level depends on its behaviour:
 *
 *	1. A new task begins in the middle.
 *	2. A task that uses its whole slice goes down a level.
 *	3. A task that blocks before its slice ends goes up a level.
 *
 * So tasks that compute sink, and tasks that wait rise, without any declaration. Example with 5
 * levels and slices of 20 ms: a compiler begins at level 2 and is at level 0 after 40 ms. An editor
 * blocks after 1 ms each time; after its second key press it is at level 4 and preempts the
 * compiler whenever it wakes up.
 *
 * The rules can be cheated. A program that computes for 19 ms of each 20, and then blocks for a
 * moment, stays at the top: it has nearly the whole CPU, and the compiler starves. Nothing here
 * prevents that, or prevents tasks at high levels from filling the CPU: README.md shows the
 * exploit, and what boost_ms does about the second problem.
 *
 * The next file to read after fifo.bpf.c and rr.bpf.c: it adds per-task state, its own account of
 * each task's run time, and preemption.
 */
#include <scx/common.bpf.h>
#include "tiltyard.bpf.h"
#include "tiltyard/kernel.h"
#include "tiltyard/maps.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Levels, of which the highest runs first. */
const volatile u32 nr_levels = 5;
/* Slice at the lowest and at the highest level; between them it rises, or falls, evenly. */
const volatile u32 slice_bottom_ms = 20;
const volatile u32 slice_top_ms = 20;
/* All waiting tasks go to the highest level after so long; 0: never. */
const volatile u32 boost_ms = 0;

#define MAX_LEVELS 64

/* Tasks that boost_ms has lifted: presets.toml names it. */
u64 nr_boosted;
static u64 boosted_ns;

struct mlfq_task {
	u32 level;
	/* Of its slice: used until it came to the CPU the last time, at this moment. */
	u64 used_ns;
	u64 since_ns;
	/* It lets its equals go first: sched_yield(). */
	bool yields;
};

DEFINE_TASK_STORAGE(tasks, struct mlfq_task)

/* Level of what runs on a CPU. */
static u32 cpu_level[MAX_CPUS];

static __always_inline struct mlfq_task *task_ctx(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, 0, 0);
}

/* Marked, because boost() changes levels of tasks that may be about to run elsewhere. */
static __always_inline u32 level_of(const struct mlfq_task *t)
{
	return READ_ONCE(t->level);
}

static __always_inline void set_level(struct task_struct *p, struct mlfq_task *t, u32 level)
{
	WRITE_ONCE(t->level, level);
	TILT_PROBE_TASK(level, p, level);
}

static __always_inline u64 slice_ns(u32 level)
{
	s64 bottom = slice_bottom_ms, top = slice_top_ms;
	s64 steps = nr_levels > 1 ? nr_levels - 1 : 1;
	/* BPF divides without a sign. */
	u64 part = (top > bottom ? top - bottom : bottom - top) * NSEC_PER_MSEC * level / steps;

	return bottom * NSEC_PER_MSEC + (top > bottom ? part : -part);
}

/* What task @p has used of its slice, which runs or ran until @now_ns. */
static __always_inline u64 used_ns(const struct mlfq_task *t, u64 now_ns)
{
	return t->used_ns + now_ns - t->since_ns;
}

/* What is left of it; the core takes 0 for "the default". */
static __always_inline u64 left_ns(const struct mlfq_task *t)
{
	u64 slice = slice_ns(level_of(t));

	return slice > t->used_ns ? slice - t->used_ns : 1;
}

/* Rule 2. True: the slice of @t was used up, and it has a new one, a level further down. */
static __always_inline bool end_slice(struct task_struct *p, struct mlfq_task *t)
{
	u32 level = level_of(t);

	if (t->used_ns < slice_ns(level))
		return false;
	t->used_ns = 0;
	set_level(p, t, level ? level - 1 : 0);
	return true;
}

/* Kernel threads that belong to a CPU do what the kernel needs there: no level may keep them
 * waiting. */
static __always_inline bool serves_cpu(const struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1;
}

/* An idle CPU needs no queue. */
s32 BPF_STRUCT_OPS(mlfq_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct mlfq_task *t = task_ctx(p);
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle && t)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, left_ns(t), 0);
	return cpu;
}

/* To the tail of its level, and over a task of a lower one that runs on the CPU where this one is.
 * Who was preempted returns to the head with the rest of its slice. */
void BPF_STRUCT_OPS(mlfq_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct mlfq_task *t = task_ctx(p);
	s32 cpu = scx_bpf_task_cpu(p);
	bool ran = !enq_flags;
	s32 idle;

	if (!t) {
		scx_bpf_error("mlfq: task %d has no state", p->pid);
		return;
	}
	if (serves_cpu(p)) {
		enq_flags |= ran ? 0 : SCX_ENQ_PREEMPT;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns(nr_levels - 1), enq_flags);
		return;
	}
	if (ran && !end_slice(p, t) && !t->yields)
		enq_flags |= SCX_ENQ_HEAD;
	t->yields = false;
	scx_bpf_dsq_insert(p, level_of(t), left_ns(t), enq_flags);
	if (!ran && level_of(t) > READ_ONCE(cpu_level[cpu & (MAX_CPUS - 1)])) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return;
	}
	/* A CPU that fell idle since select_cpu(), or found only tasks that may not run there,
	 * would not look again. */
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

/* Lifts all waiting tasks, if it is time. */
static __always_inline void boost(u64 now_ns)
{
	u64 last_ns = READ_ONCE(boosted_ns);
	struct task_struct *p;
	u32 level;

	/* Another CPU's clock may be ahead. */
	if (!boost_ms || (s64)(now_ns - last_ns) < (s64)(boost_ms * NSEC_PER_MSEC) ||
	    __sync_val_compare_and_swap(&boosted_ns, last_ns, now_ns) != last_ns)
		return;
	bpf_for (level, 0, nr_levels - 1) {
		bpf_for_each (scx_dsq, p, level, 0) {
			struct mlfq_task *t = task_ctx(p);

			if (!t || !scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, nr_levels - 1, 0))
				continue;
			/* It may run already: then this is the level of its next slice. */
			set_level(p, t, nr_levels - 1);
			__sync_fetch_and_add(&nr_boosted, 1);
		}
	}
}

/*
 * The first task of the highest level. The core asks before it puts the running task back, so that
 * takes part here: who was preempted is the head of its level, who yields its tail, who has used
 * its slice the tail of the next.
 */
void BPF_STRUCT_OPS(mlfq_dispatch, s32 cpu, struct task_struct *prev)
{
	u64 now_ns = scx_bpf_now();
	struct mlfq_task *t = NULL;
	u32 lowest = 0, n;

	boost(now_ns);
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		t = task_ctx(prev);
	if (t)
		lowest = level_of(t);
	if (t && used_ns(t, now_ns) < slice_ns(lowest))
		lowest += !t->yields;
	else if (lowest)
		lowest--;
	bpf_for (n, 0, nr_levels) {
		u32 level = nr_levels - 1 - n;

		if (level < lowest)
			break;
		if (scx_bpf_dsq_move_to_local(level, 0))
			return;
	}
	if (!t)
		return;
	/* It goes on: no stopping(), no enqueue(). */
	t->yields = false;
	t->used_ns = used_ns(t, now_ns);
	t->since_ns = now_ns;
	end_slice(prev, t);
	WRITE_ONCE(cpu_level[cpu & (MAX_CPUS - 1)], level_of(t));
	prev->scx.slice = left_ns(t);
}

void BPF_STRUCT_OPS(mlfq_running, struct task_struct *p)
{
	struct mlfq_task *t = task_ctx(p);

	if (!t)
		return;
	t->since_ns = scx_bpf_now();
	WRITE_ONCE(cpu_level[scx_bpf_task_cpu(p) & (MAX_CPUS - 1)], level_of(t));
}

void BPF_STRUCT_OPS(mlfq_stopping, struct task_struct *p, bool runnable)
{
	struct mlfq_task *t = task_ctx(p);

	if (!t)
		return;
	t->used_ns = used_ns(t, scx_bpf_now());
	/* A higher class takes the CPU. Without a slice it comes by enqueue(): others may take it,
	 * and a better one that wakes up meanwhile runs first. */
	if (runnable)
		p->scx.slice = 0;
}

/* To the tail of its level, with the rest of its slice. */
bool BPF_STRUCT_OPS(mlfq_yield, struct task_struct *from, struct task_struct *to)
{
	struct mlfq_task *t = task_ctx(from);

	if (to || !t)
		return false;
	t->yields = true;
	from->scx.slice = 0;
	return false;
}

/* Rule 3. A sleep ends the slice: the next one is whole. */
void BPF_STRUCT_OPS(mlfq_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct mlfq_task *t = task_ctx(p);
	u32 level;

	if (!t || !(deq_flags & SCX_DEQ_SLEEP))
		return;
	level = level_of(t);
	if (t->used_ns < slice_ns(level) && level + 1 < nr_levels)
		set_level(p, t, level + 1);
	t->used_ns = 0;
	t->yields = false;
}

/* Rule 1. */
s32 BPF_STRUCT_OPS(mlfq_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct mlfq_task *t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -ENOMEM;
	set_level(p, t, nr_levels / 2);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(mlfq_init)
{
	u32 level;
	int err;

	if (!nr_levels || nr_levels > MAX_LEVELS || !slice_bottom_ms || !slice_top_ms) {
		scx_bpf_error("mlfq: nr_levels=%u, slices of %u and %u ms; use 1..%u levels, 1 ms "
			      "or more",
			      nr_levels, slice_bottom_ms, slice_top_ms, MAX_LEVELS);
		return -EINVAL;
	}
	bpf_for (level, 0, nr_levels) {
		err = scx_bpf_create_dsq(level, -1);
		if (err)
			return err;
	}
	boosted_ns = scx_bpf_now();
	return 0;
}

void BPF_STRUCT_OPS(mlfq_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(mlfq_ops,
	       .select_cpu		= (void *)mlfq_select_cpu,
	       .enqueue			= (void *)mlfq_enqueue,
	       .dispatch		= (void *)mlfq_dispatch,
	       .running			= (void *)mlfq_running,
	       .stopping		= (void *)mlfq_stopping,
	       .yield			= (void *)mlfq_yield,
	       .quiescent		= (void *)mlfq_quiescent,
	       .init_task		= (void *)mlfq_init_task,
	       .init			= (void *)mlfq_init,
	       .exit			= (void *)mlfq_exit,
	       .name			= "mlfq");
/* clang-format on */
