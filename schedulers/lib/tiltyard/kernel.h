/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's units, and what it has but does not name for BPF.
 */
#ifndef __LIB_KERNEL_H
#define __LIB_KERNEL_H

#define NSEC_PER_SEC	1000000000ULL
#define NSEC_PER_MSEC	1000000ULL

/* CPUs of a machine. A power of two, so that a masked index needs no check. */
#define MAX_CPUS	4096

/* Flags of a dequeue and of the enqueue that follows it. */
#define DEQUEUE_SAVE	2
#define DEQUEUE_MOVE	4
#define ENQUEUE_RESTORE 2
#define ENQUEUE_MOVE	4

/* p->policy of the fair class: SCHED_NORMAL, SCHED_BATCH, SCHED_IDLE. */
enum fair_policy { POLICY_NORMAL = 0, POLICY_BATCH = 3, POLICY_IDLE = 5 };

#define task_nice(p) ((p)->static_prio - 120)

#endif
