/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sd: the staircase deadline scheduler by Con Kolivas, as in his patch 2.6.22-ck1 for Linux.
 *README.md has the details.
 *
 * SD keeps no record of who sleeps. A task has a quota of CPU time on each of a number of levels,
 * the more the better its nice value: nice 0 on 20 of the 40, every other one. It runs on its best
 * level until the quota there is used up, then steps down to its next one, and so on, down the
 * staircase. Behind the last it waits in the expired array. When no task is left on any level, the
 * arrays swap, a new rotation begins, and all start at the top again. So in each rotation a task
 *gets
 *
 *	quota * number of its levels
 *
 * 6 ms * 20 = 120 ms for nice 0, 3 ms * 10 = 30 ms for nice 10. And who has slept meanwhile still
 * has its good levels, where it comes before those that have run: that is all that makes SD
 * interactive. Nobody waits for longer than the sum of what the others are entitled to: the
 *deadline.
 *
 * Example: A (nice 0, levels 1 3 5 ...) and B (nice 10, levels 3 7 11 ...) compute. A runs 6 ms on
 * level 1; then B, which came first there, 3 ms on level 3, and A 6 ms; A 6 ms on 5; and so on.
 *After 150 ms both have expired: A had 120 ms, B 30.
 *
 *   tunables.h, types.h   what can be set, what is kept
 *   quota.h               what a nice value is worth
 *   staircase.h           where a task goes
 *   rsdl.h                the same in RSDL, SD's predecessor
 *   queue.h               queues, rotations, time
 *   pick.h                who runs next
 *
 * Good at: fairness to the millisecond, bounded latency, no heuristics. Bad at: latency of tasks
 *that use up their levels before they sleep; a rotation of many tasks is long.
 */
#include <scx/common.bpf.h>
#include "tiltyard.bpf.h"
#include "pick.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Queues -------------------------------------------------------------------------------- */

s32 BPF_STRUCT_OPS(sd_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct sd_task *t = task_ctx(p);

	if (t)
		t->sync_wakeup = wake_flags & SCX_WAKE_SYNC;
	return prev_cpu;
}

/* Does a task that has been queued on @cpu preempt the one that runs there? */
static bool preempts(struct sd_cpu *c, s32 cpu, const struct task_struct *p, struct sd_task *t)
{
	bool here = cpu == bpf_get_smp_processor_id();
	bool sync = t->sync_wakeup, newborn = t->newborn;

	t->sync_wakeup = false;
	t->newborn = false;
	if (c->curr_level == LEVEL_NONE)
		return false;
	/* A new process does so that its creator is charged; a new thread waits. */
	if (newborn && here)
		return bpf_get_current_task_btf()->mm != p->mm;
	return t->array == c->active && t->level < c->curr_level && !(sync && here);
}

void BPF_STRUCT_OPS(sd_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct sd_task *t = task_ctx(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct sd_cpu *c = cpu_ctx(cpu);
	bool changed = enq_flags & ENQUEUE_RESTORE, kick;
	u64 key = p->scx.dsq_vtime;
	u32 array, level;
	s32 slice_us;

	if (!t) {
		scx_bpf_error("sd: task %d has no state", p->pid);
		return;
	}
	/* No flag: a task that was running and still wants to. It has its place. */
	if (enq_flags || t->cpu != cpu) {
		place(c, cpu, p, t);
		key = tail_key(c);
	}
	count_on(t, p, cpu);
	array = t->array;
	level = t->level;
	slice_us = t->slice_us;
	kick = enq_flags && !changed && preempts(c, cpu, p, t);
	TILT_PROBE_TASK(level, p, level);
	scx_bpf_dsq_insert_vtime(p, queue_id_of(cpu, t), SLICE_UNTIL_TICK, key, enq_flags);
	level_filled(c, array, level);
	note_spent(c, array, slice_us);
	if (kick)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	/* A property has changed: for that the core wakes no idle CPU. */
	else if (changed && c->curr_level == LEVEL_NONE)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* The kernel asks before it puts the running task back: its place is known already. */
void BPF_STRUCT_OPS(sd_dispatch, s32 cpu, struct task_struct *prev)
{
	struct sd_cpu *c = cpu_ctx(cpu);
	struct sd_task *t = NULL;

	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		t = task_ctx(prev);
	if (mode == MODE_RSDL && rsdl_exhausted(c))
		rotate_minor(c, cpu, prev, t);
	if (pick(c, cpu, prev, t))
		return;
	/* Idle: whoever comes next starts with all of its slots. */
	rotation_begins(c);
	WRITE_ONCE(c->curr_level, LEVEL_NONE);
}

/* The task counts in the load from here to quiescent(). */
void BPF_STRUCT_OPS(sd_runnable, struct task_struct *p, u64 enq_flags)
{
	struct sd_task *t = task_ctx(p);

	if (t)
		count_on(t, p, scx_bpf_task_cpu(p));
}

/* Running ------------------------------------------------------------------------------- */

void BPF_STRUCT_OPS(sd_running, struct task_struct *p)
{
	struct sd_task *t = task_ctx(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct sd_cpu *c = cpu_ctx(cpu);

	/* It has only been changed: its time goes on. */
	if (!t || t->on_cpu)
		return;
	/* The core has left out enqueue(). */
	if (t->cpu != cpu) {
		place(c, cpu, p, t);
		p->scx.dsq_vtime = tail_key(c);
	}
	count_on(t, p, cpu);
	picked(c, p, t);
	t->on_cpu = true;
	t->charged_ns = scx_bpf_now();
}

static void off_cpu(struct task_struct *p, struct sd_task *t)
{
	struct sd_cpu *c = cpu_ctx(scx_bpf_task_cpu(p));

	if (!t->on_cpu)
		return;
	t->on_cpu = false;
	charge(c, t, scx_bpf_now(), false);
	WRITE_ONCE(c->curr_level, LEVEL_NONE);
}

void BPF_STRUCT_OPS(sd_stopping, struct task_struct *p, bool runnable)
{
	struct sd_task *t = task_ctx(p);

	if (!t || !runnable)
		return;
	off_cpu(p, t);
	/* A higher class takes the CPU. Without a slice the task comes back to its place, where
	 * others are chosen first if they are better. */
	p->scx.slice = 0;
}

void BPF_STRUCT_OPS(sd_tick, struct task_struct *p)
{
	struct sd_task *t = task_ctx(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct sd_cpu *c = cpu_ctx(cpu);

	if (!t)
		return;
	charge(c, t, scx_bpf_now(), true);
	TILT_PROBE_TASK(slice_us, p, t->slice_us);
	if (t->slice_us <= 0) {
		advance_running(c, cpu, p, t);
		p->scx.slice = 0;
	} else if (mode == MODE_RSDL && rsdl_exhausted(c)) {
		p->scx.slice = 0;
	}
}

/* Waits for the next rotation, unless it is alone. */
bool BPF_STRUCT_OPS(sd_yield, struct task_struct *from, struct task_struct *to)
{
	struct sd_task *t = task_ctx(from);
	struct sd_cpu *c = cpu_ctx(scx_bpf_task_cpu(from));

	if (!t || to)
		return false;
	if (from->policy == POLICY_IDLE)
		place_idle(c, from, t);
	else if (READ_ONCE(c->nr_running) > 1)
		expire(c, from, t);
	from->scx.dsq_vtime = tail_key(c);
	from->scx.slice = 0;
	return false;
}

/* Tasks come, change and go ------------------------------------------------------------- */

/* A new task gets half of what its creator has left, and the creator keeps the other half. */
static void fork_split(struct sd_task *t, struct sd_task *pt)
{
	s32 left_us = READ_ONCE(pt->slice_us);

	t->granted = pt->granted;
	t->rotation = pt->rotation;
	t->cpu = pt->cpu;
	t->array = pt->array;
	t->level = pt->level;
	if (left_us <= 0)
		return;
	t->slice_us = left_us / 2 ?: 1;
	t->first_slice = true;
	/* Its tick may come between. An odd microsecond is lost. Partner: charge(). */
	__sync_fetch_and_sub(&pt->slice_us, left_us - left_us / 2);
}

s32 BPF_STRUCT_OPS(sd_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct sd_task *t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct sd_task *pt = task_ctx(bpf_get_current_task_btf());

	if (!t)
		return -ENOMEM;
	t->cpu = -1;
	t->array = ARRAY_NONE;
	t->book = -1;
	if (args->fork && pt) {
		t->newborn = true;
		fork_split(t, pt);
	}
	return 0;
}

/* A task that exits before it needed a quota of its own gives the rest to its parent, if that is on
 * the same CPU: so forking costs nothing. */
static void give_back(struct task_struct *p, struct sd_task *t)
{
	struct task_struct *parent;
	struct sd_task *pt;

	if (!t->first_slice || t->slice_returned)
		return;
	t->slice_returned = true;
	parent = bpf_task_from_pid(p->real_parent->pid);
	if (!parent)
		return;
	pt = task_ctx(parent);
	if (pt && scx_bpf_task_cpu(parent) == scx_bpf_task_cpu(p)) {
		s32 has_us = READ_ONCE(pt->slice_us);
		s32 sum_us = has_us + t->slice_us, quota_us = quotas_us[static_level(parent)];

		__sync_fetch_and_add(&pt->slice_us,
				     (sum_us < quota_us ? sum_us : quota_us) - has_us);
	}
	bpf_task_release(parent);
}

void BPF_STRUCT_OPS(sd_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct sd_task *t = task_ctx(p);

	if (!t)
		return;
	book_set(t, -1);
	if (!(deq_flags & SCX_DEQ_SLEEP))
		return;
	off_cpu(p, t);
	t->unsuitable = p->policy == POLICY_IDLE && (p->__state & TASK_UNINTERRUPTIBLE);
	if (p->exit_state)
		give_back(p, t);
}

/* Its nice value has changed. One that waits is queued again afterwards; one that runs too, at the
 * tail of its level. It takes effect when the task gets its next quota. */
void BPF_STRUCT_OPS(sd_set_weight, struct task_struct *p, u32 weight)
{
	struct sd_task *t = task_ctx(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct sd_cpu *c = cpu_ctx(cpu);

	if (!t || !t->on_cpu || t->cpu != cpu)
		return;
	place(c, cpu, p, t);
	p->scx.dsq_vtime = tail_key(c);
	WRITE_ONCE(c->curr_level, t->level);
}

void BPF_STRUCT_OPS(sd_enable, struct task_struct *p)
{
	struct sd_task *t = task_ctx(p);

	if (t)
		t->on_cpu = false;
}

void BPF_STRUCT_OPS(sd_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct sd_task *t = task_ctx(p);

	if (t)
		book_set(t, -1);
}

/* The scheduler itself ------------------------------------------------------------------ */

static int cpus_init(void)
{
	u32 i, level;

	bpf_for (i, 0, nr_cpus) {
		struct sd_cpu *c = cpu_ctx(i);

		c->curr_level = LEVEL_NONE;
		rotation_begins(c);
		bpf_for (level, 0, LEVEL_IDLE + 1) {
			int err = scx_bpf_create_dsq(queue_id(i, 0, level), -1);

			if (!err && level < LEVEL_IDLE)
				err = scx_bpf_create_dsq(queue_id(i, 1, level), -1);
			if (err)
				return err;
		}
	}
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(sd_init)
{
	nr_cpus = nr_cpu_ids ?: scx_bpf_nr_cpu_ids();
	if (nr_cpus > MAX_CPUS) {
		scx_bpf_error("sd: %u CPUs, at most %u; raise MAX_CPUS", nr_cpus, MAX_CPUS);
		return -EINVAL;
	}
	return quotas_init(nr_cpus) ?: cpus_init();
}

void BPF_STRUCT_OPS(sd_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(sd_ops,
	       .select_cpu		= (void *)sd_select_cpu,
	       .enqueue			= (void *)sd_enqueue,
	       .dispatch		= (void *)sd_dispatch,
	       .tick			= (void *)sd_tick,
	       .runnable		= (void *)sd_runnable,
	       .running			= (void *)sd_running,
	       .stopping		= (void *)sd_stopping,
	       .quiescent		= (void *)sd_quiescent,
	       .yield			= (void *)sd_yield,
	       .set_weight		= (void *)sd_set_weight,
	       .init_task		= (void *)sd_init_task,
	       .exit_task		= (void *)sd_exit_task,
	       .enable			= (void *)sd_enable,
	       .init			= (void *)sd_init,
	       .exit			= (void *)sd_exit,
	       /* Exiting tasks, and those that must not migrate, queue like all others. */
	       .flags			= SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	       .name			= "sd");
/* clang-format on */
