/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tunables of 4BSD and what follows from them. They are read once, by params_init(); everything
 * else reads `par`. Names are those of FreeBSD's sysctls and build options where there are any.
 */
#pragma once

#include "tiltyard/freebsd.h"

/* Rate of the clock that counts time, and of the one that charges run time; 0: as hz. */
const volatile u32 hz = 1000;
const volatile u32 stathz = 127;

/* A turn: a count of statistics ticks that the task has left (9.2 and later), or the time since the
 * last switch on its CPU (before). */
const volatile bool slice_counter = true;
/* Length of a turn (kern.sched.quantum); 0: a tenth of a second, in whole ticks. */
const volatile u32 quantum_us = 0;

/* Which running tasks go to the head of their FIFO when they lose their CPU: enum head_rule. */
enum head_rule {
	HEAD_2012 = 0, /* real preemptions; the victim comes back flagged to be rescheduled */
	HEAD_9_3 = 1,  /* all but those whose turn is over */
	HEAD_11_0 = 2, /* the same, but for owed preemptions, yields and rescheduling */
	HEAD_11_1 = 3, /* real preemptions, unless the turn is over */
	NR_HEAD_RULES,
};

const volatile u32 head_rule = HEAD_11_1;

/* Build options: a task may preempt on its waker's CPU, on another CPU, and also one that is no
 * interrupt thread. */
const volatile bool preemption = true;
const volatile bool ipi_preemption = false;
const volatile bool full_preemption = false;

/* kern.sched.ipiwakeup: wake idle CPUs for a task of the global queue, those that are marked as
 * idle (usemask), or those that a look at all CPUs finds (useloop). */
const volatile bool ipiwakeup_enabled = true;
const volatile bool ipiwakeup_usemask = true;
const volatile bool ipiwakeup_useloop = false;

/* Of this many tasks at the head of the global queue, a CPU prefers the one that it ran last. */
const volatile u32 runq_fuzz = 1;

/* Priority of a task that has slept, until it runs; 0: that which it had. FreeBSD: 92 for pipes and
 * disks, 104 sockets, 108 sleeps, none for locks. */
const volatile u32 sleep_priority = 104;
/* Priority of kernel threads. */
const volatile u32 kthread_priority = PRI_KERN;

/* Run a task that has waited this long before all others; 0: let it starve, as 4BSD does. */
const volatile u32 starve_limit_ms = 0;

/* Number of CPU ids; 0: ask the kernel. */
const volatile u32 nr_cpu_ids = 0;

/* Priorities: of interrupt threads the last; of timeshare tasks the first and the last. */
#define PRI_MAX_INTERRUPT 47
#define PRI_MIN_TIMESHARE 120
#define PRI_MAX_TIMESHARE 223
/* Priorities that share a FIFO. */
#define PRI_PER_FIFO	  4
/* Best and worst nice value; the latter exists in FreeBSD only. */
#define NICE_MIN	  (-20)
#define NICE_MAX	  20
/* Fixed point of load averages and CPU shares. */
#define FSHIFT		  11
#define FSCALE		  (1U << FSHIFT)

struct bsd4_params {
	u64 hz_ns;
	u64 tick_ns;
	/* Statistics ticks of a second. */
	u32 stathz;
	/* CPUs that are online; what estcpu grows by for one priority; its limit. */
	u32 nr_online;
	u32 estcpu_weight;
	u32 estcpu_max;
	/* A turn in statistics ticks, and in hz ticks. */
	u32 slice;
	u32 quantum;
};

/* Not static: the compiler would split it, and the kernel refuses the BTF of the parts. */
struct bsd4_params par;
static s32 nr_cpus;

/* CPUs share one queue, but all their ticks together are as many times more. */
static void params_of_cpus(u32 nr_online)
{
	par.nr_online = nr_online;
	par.estcpu_weight = 8 * nr_online;
	par.estcpu_max =
		par.estcpu_weight * (NICE_MAX - NICE_MIN - PRI_PER_FIFO) + par.estcpu_weight - 1;
}

static int params_init(void)
{
	u32 tick_us, period_us;

	if (!hz || hz > 10000 || stathz > 10000) {
		scx_bpf_error("bsd4: hz=%u stathz=%u; use 1..10000, 0..10000", hz, stathz);
		return -EINVAL;
	}
	par.stathz = stathz ?: hz;
	par.hz_ns = NSEC_PER_SEC / hz;
	par.tick_ns = NSEC_PER_SEC / par.stathz;
	tick_us = 1000000 / hz;
	period_us = 1000000 / par.stathz;
	if (quantum_us && !slice_counter && quantum_us < tick_us) {
		scx_bpf_error("bsd4: quantum_us=%u; use %u, which is one tick, or more", quantum_us,
			      tick_us);
		return -EINVAL;
	}
	if (head_rule >= NR_HEAD_RULES) {
		scx_bpf_error("bsd4: head_rule=%u; use 0..%u", head_rule, NR_HEAD_RULES - 1);
		return -EINVAL;
	}
	if (sleep_priority >= PRI_MIN_IDLE || kthread_priority >= PRI_MIN_IDLE) {
		scx_bpf_error("bsd4: sleep_priority=%u kthread_priority=%u; use at most %u",
			      sleep_priority, kthread_priority, PRI_MIN_IDLE - 1);
		return -EINVAL;
	}
	par.slice = par.stathz / 10;
	par.quantum = hz / 10;
	if (quantum_us) {
		par.slice = ((u64)quantum_us + period_us / 2) / period_us;
		par.quantum = quantum_us / tick_us;
	}
	par.slice = par.slice ?: 1;
	return 0;
}
