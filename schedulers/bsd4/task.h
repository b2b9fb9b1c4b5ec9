/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What 4BSD knows about a task: how much CPU time it used (estcpu), and the priority that follows.
 *
 *	priority = 120 + estcpu / (8 * CPUs) + nice + 20
 *
 * estcpu grows by 1 with each statistics tick on a CPU, up to a limit that is worth 36 priorities.
 * Once a second it is multiplied by 2 L / (2 L + 1), where L is the load average: the more tasks
 * share the CPUs, the longer use is remembered. A sleeper's estcpu is left alone from its second
 * second on; the wakeup makes up for what was missed.
 */
#pragma once

#include "tiltyard.bpf.h"
#include "tiltyard/arith.h"
#include "tiltyard/slots.h"
#include "params.h"

/* A task that waits nowhere. */
#define QUEUE_NONE (~0ULL >> 1)

/* Fixed: the idle class. Kernel threads compute a priority, but never return to user mode. */
enum bsd4_class { CLASS_TIMESHARE, CLASS_FIXED, CLASS_KERNEL };

/*
 * A task. `lock` below guards est, cpticks, pctcpu, slptime and both priorities against others than
 * the task's own callbacks: schedcpu() and the exit of a child. Those who only look at them take no
 * lock, and get values of a moment ago.
 */
struct bsd4_task {
	s32 pid; /* 0: nobody has this slot */
	u32 est;
	/* Ticks in this second; decayed share of a CPU, << 11, which decides nothing. */
	u32 cpticks;
	u32 pctcpu;
	/* Seconds asleep. */
	u32 slptime;
	/* The priority by the formula, and the active one, by which it is queued and compared. */
	u32 user_pri;
	u32 pri;
	/* Ticks left of its turn. */
	s32 slice;
	s32 nice;
	enum bsd4_class class;
	/* CPU where it ran last, -1: none. */
	s32 last_cpu;
	bool runnable;
	bool running;
	/* It ran since schedcpu() looked last. */
	bool did_run;
	/* It was preempted, and had been asked to make way before that. */
	bool resched;
	/* dispatch() has found its next place: `queue`, and p->scx.dsq_vtime in it. */
	bool placed;
	bool exited;
	/* Of a fork: the kernel has not set its weight yet. */
	bool is_new;
	/* Waits there; QUEUE_NONE: nowhere. */
	u64 queue;
	/* Since when it waits. */
	u64 queued_ns;
	u32 probed_est;
	u32 probed_pri;
};

static struct bsd4_task tasks[MAX_TASKS];

static __always_inline struct bsd4_task *task_at(u32 i)
{
	return &tasks[i & (MAX_TASKS - 1)];
}

/* NULL: it has no state. */
static __always_inline struct bsd4_task *task_of(struct task_struct *p)
{
	u32 i = slot_of(p);

	return i ? task_at(i) : NULL;
}

/* FreeBSD's sched_lock, but for the queues, which have the locks of their DSQs. */
struct sched_lock {
	struct bpf_spin_lock lock;
};

DEFINE_ARRAY_MAP(sched_lock_map, 1, struct sched_lock)

static __always_inline struct sched_lock *sched_lock(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&sched_lock_map, &zero);
}

/* Load average of a minute, << 11. */
static u32 load_avg;

static u32 load_factor(void)
{
	return 2 * READ_ONCE(load_avg);
}

static __always_inline u32 estcpu_limit(u32 est)
{
	return est < par.estcpu_max ? est : par.estcpu_max;
}

/* One second passes. In 32 bits, which wrap where load * est exceeds 2^20. */
static __always_inline u32 estcpu_decay(u32 est, u32 loadfac)
{
	return loadfac * est / (loadfac + FSCALE);
}

/* The formula. */
static __always_inline u32 timeshare_pri(u32 est, s32 nice)
{
	s32 pri = PRI_MIN_TIMESHARE + (s32)(est / par.estcpu_weight) + nice - NICE_MIN;

	if (pri < PRI_MIN_TIMESHARE)
		return PRI_MIN_TIMESHARE;
	return pri < PRI_MAX_TIMESHARE ? pri : PRI_MAX_TIMESHARE;
}

/* resetpriority. */
static __always_inline void reset_user_pri(struct bsd4_task *t)
{
	if (t->class != CLASS_FIXED)
		WRITE_ONCE(t->user_pri, timeshare_pri(t->est, t->nice));
}

/* resetpriority_thread, but for the queue: a task in user mode takes its new priority, one that is
 * still in the kernel keeps that. True if that is another FIFO. */
static __always_inline bool apply_user_pri(struct bsd4_task *t)
{
	u32 pri = READ_ONCE(t->pri), user_pri = READ_ONCE(t->user_pri);

	if (pri < PRI_MIN_TIMESHARE || pri > PRI_MAX_TIMESHARE)
		return false;
	WRITE_ONCE(t->pri, user_pri);
	return pri / PRI_PER_FIFO != user_pri / PRI_PER_FIFO;
}

/* The priority of a task that returns to user mode. */
static __always_inline void return_to_user(struct bsd4_task *t)
{
	if (t->class == CLASS_KERNEL)
		WRITE_ONCE(t->pri, kthread_priority);
	else
		WRITE_ONCE(t->pri, READ_ONCE(t->user_pri));
}

/* Makes up for the seconds that a sleeper missed; two were not. By the load of today. */
static __always_inline void update_pri(struct bsd4_task *t)
{
	u32 loadfac = load_factor(), slept = READ_ONCE(t->slptime), est = t->est, i;
	/* Each step takes 1 at least. */
	u32 nr_steps = min_of(slept - 2, est);

	if (slept > 5 * loadfac) {
		est = 0;
	} else {
		bpf_for (i, 0, nr_steps) {
			est = estcpu_decay(est, loadfac);
			if (!est)
				break;
		}
	}
	WRITE_ONCE(t->est, est);
	reset_user_pri(t);
}

/* Whom a probe is about. */
struct probed {
	s32 pid;
};

/* What people can see over time. */
static void probe_task(struct bsd4_task *t)
{
	u32 est = READ_ONCE(t->est), pri = READ_ONCE(t->user_pri);
	struct probed p = {.pid = READ_ONCE(t->pid)};

	if (est != data_race(t->probed_est))
		TILT_PROBE_TASK(estcpu, &p, est);
	if (pri != data_race(t->probed_pri))
		TILT_PROBE_TASK(prio, &p, pri);
	WRITE_ONCE(t->probed_est, est);
	WRITE_ONCE(t->probed_pri, pri);
}

/* sched_clock: one statistics tick on a CPU. */
static void charge_tick(struct bsd4_task *t)
{
	struct sched_lock *lk = sched_lock();

	if (!lk)
		return;
	bpf_spin_lock(&lk->lock);
	t->cpticks++;
	WRITE_ONCE(t->est, estcpu_limit(t->est + 1));
	if (!(t->est % par.estcpu_weight)) {
		reset_user_pri(t);
		apply_user_pri(t);
	}
	bpf_spin_unlock(&lk->lock);
}

/* sched_sleep: a sleeper gets a priority of the kernel's, better than that of all tasks in user
 * mode, and has it until it runs. */
static void sleeps(struct bsd4_task *t)
{
	WRITE_ONCE(t->slptime, 0);
	if (sleep_priority && t->class == CLASS_TIMESHARE)
		WRITE_ONCE(t->pri, sleep_priority);
}

/* sched_wakeup. The active priority stays as it is, even if the formula gives a better one. */
static void wakes(struct bsd4_task *t)
{
	struct sched_lock *lk;

	if (READ_ONCE(t->slptime) > 1) {
		lk = sched_lock();
		if (!lk)
			return;
		bpf_spin_lock(&lk->lock);
		if (READ_ONCE(t->slptime) > 1)
			update_pri(t);
		bpf_spin_unlock(&lk->lock);
	}
	WRITE_ONCE(t->slptime, 0);
	if (slice_counter)
		t->slice = par.slice;
}

/* A slot has a new task. Partners of what is marked read it without the lock. */
static __always_inline void reset_task(struct bsd4_task *t)
{
	WRITE_ONCE(t->est, 0);
	WRITE_ONCE(t->slptime, 0);
	WRITE_ONCE(t->last_cpu, -1);
	WRITE_ONCE(t->runnable, false);
	WRITE_ONCE(t->running, false);
	WRITE_ONCE(t->did_run, false);
	WRITE_ONCE(t->resched, false);
	WRITE_ONCE(t->queue, QUEUE_NONE);
	WRITE_ONCE(t->queued_ns, 0);
	WRITE_ONCE(t->probed_est, 0);
	WRITE_ONCE(t->probed_pri, 0);
	t->cpticks = 0;
	t->pctcpu = 0;
	t->slice = par.slice;
	t->placed = false;
	t->exited = false;
}

/* sched_fork_thread: the child starts with its creator's use and priority, and, where turns are
 * counted, with one tick of a turn. */
static __always_inline void inherit(struct bsd4_task *t, struct bsd4_task *creator)
{
	WRITE_ONCE(t->est, READ_ONCE(creator->est));
	WRITE_ONCE(t->user_pri, READ_ONCE(creator->user_pri));
	WRITE_ONCE(t->pri, READ_ONCE(creator->pri));
	WRITE_ONCE(t->last_cpu, slice_counter ? -1 : 0);
	t->slice = 1;
}

/* sched_exit_thread: what a task has used is its heir's, whose priority is computed later. */
static void bequeath(struct bsd4_task *heir, u32 est)
{
	struct sched_lock *lk = sched_lock();

	if (!lk)
		return;
	bpf_spin_lock(&lk->lock);
	WRITE_ONCE(heir->est, estcpu_limit(heir->est + est));
	bpf_spin_unlock(&lk->lock);
}
