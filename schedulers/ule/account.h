/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the history of a new task comes from, and where the run time of a task goes that exits.
 */
#pragma once

#include "runq.h"

/* sched_fork: the child inherits history and CPU share of the task that creates it. */
static void fork_account(struct task_struct *child, struct ule_task *t, struct task_struct *parent,
			 struct ule_task *pt, u64 now)
{
	bool accounts = policy_accounts_fork(child);

	pctcpu_update(pt, now, true);
	/* Another child of the parent may be exiting; partner: history_add(). */
	t->run = READ_ONCE(pt->run);
	t->slept = READ_ONCE(pt->slept);
	t->cpu_ticks = READ_ONCE(pt->cpu_ticks);
	t->ftick = READ_ONCE(pt->ftick);
	t->ltick = READ_ONCE(pt->ltick);
	/* FreeBSD: the shortest slice to live at first. The port restarts it at enqueue. */
	t->slice_used = slice_of(READ_ONCE(booked_at(pt)->load)) - par.slice_min;
	if (fork_scale && accounts)
		history_fork(&t->run, &t->slept);
	if (fork_charge_ticks && accounts) {
		history_add(pt, fork_charge_ticks * par.tickincr, 0);
		pri_update(parent, pt);
	}
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
	heir = bpf_task_from_pid(policy_heir_pid(p));
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
