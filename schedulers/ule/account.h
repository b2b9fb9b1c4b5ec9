/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Time that passes and tasks that end: how many ULE ticks a tick of the machine stands for, and
 * where the run time of a task goes that exits.
 */
#ifndef __ULE_ACCOUNT_H
#define __ULE_ACCOUNT_H

/*
 * ULE samples: who runs at its tick is charged a whole tick. The machine ticks at a rate of its
 * own, so each CPU has a grid of ULE ticks that starts at its first tick of the machine, and a
 * ULE tick falls due at the machine's tick that is nearest to it. At equal rates each tick is
 * one, however late it comes.
 *
 * Returns the number of ULE ticks to account to the running task at @now_ns.
 */
static u32 ticks_due(struct ule_cpu *c, u64 now_ns)
{
	u64 nr, due;

	if (!c->tick_origin_ns)
		c->tick_origin_ns = now_ns - par.tick_ns;
	nr = (now_ns - c->tick_origin_ns + par.tick_ns / 2) / par.tick_ns;
	due = nr - c->ticked;
	if ((s64)due <= 0)
		return 0;
	c->ticked = nr;
	return due;
}

/* A task starts to run: ticks that nobody took (idle, a realtime task) are not for it. */
static void tick_skip(struct ule_cpu *c, u64 now_ns)
{
	u64 nr;

	if (!c->tick_origin_ns)
		return;
	nr = (now_ns - c->tick_origin_ns) / par.tick_ns;
	if ((s64)(nr - c->ticked) > 0)
		c->ticked = nr;
}

/*
 * Who gets the run time of @p: in the port its parent; in FreeBSD the first thread of its own
 * process, or of the parent process when the whole process ends.
 */
static s32 heir_pid(struct task_struct *p)
{
	struct task_struct *parent;

	if (!par.port && p->pid != p->tgid)
		return p->tgid;
	parent = p->real_parent;
	if (!parent)
		return 0;
	return par.port ? parent->pid : parent->tgid;
}

/* sched_exit: the run time of a task's last seconds goes to its parent, its sleep is lost. So
 * who spawns batch tasks becomes one. Once per task, at its last switch or when it is freed. */
static void return_run(struct task_struct *p, struct ule_task *t)
{
	struct task_struct *heir;
	struct ule_task *ht;

	if (t->run_returned)
		return;
	t->run_returned = true;
	heir = bpf_task_from_pid(heir_pid(p));
	if (!heir)
		return;
	ht = task_ctx(heir);
	if (ht) {
		/* The heir may be running elsewhere: its lock, and the marks in pri_update(). */
		history_add(ht, READ_ONCE(t->run), 0);
		pri_update(heir, ht);
	}
	bpf_task_release(heir);
}

#endif
