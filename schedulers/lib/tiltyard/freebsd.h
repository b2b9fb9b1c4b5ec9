/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What FreeBSD's schedulers share: the map of priorities, and how tasks of Linux correspond to
 * threads of FreeBSD.
 *
 * The lower the number, the better: 0 to 47 interrupt threads, 48 to 79 realtime, 80 to 119 threads
 * in the kernel, 120 to 223 timeshare, 224 to 255 idle class. Linux has no interrupt threads, and
 * its realtime classes are above sched_ext.
 */
#ifndef __LIB_FREEBSD_H
#define __LIB_FREEBSD_H

#include "kernel.h"

/* No priority: an idle CPU. */
#define PRI_IDLE     255
/* Band of ordinary kernel threads (PVM) and first priority of the idle class. */
#define PRI_KERN     84
#define PRI_MIN_IDLE 224

static bool is_kthread(const struct task_struct *p)
{
	return p->flags & PF_KTHREAD;
}

static bool freebsd_is_idle_class(const struct task_struct *p)
{
	return p->policy == POLICY_IDLE;
}

/* Who inherits from a task that exits: the first thread of its own process, or of the parent
 * process when the whole process ends. */
static s32 freebsd_heir_pid(struct task_struct *p)
{
	struct task_struct *parent = p->real_parent;

	if (p->pid != p->tgid)
		return p->tgid;
	return parent ? parent->tgid : 0;
}

#endif
