/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What ULE knows about a task and what it concludes: run and sleep history, the penalty and
 * score that decide whether the task is interactive, its CPU share, its priority.
 *
 * Integer arithmetic throughout, rounding where FreeBSD's rounds.
 */
#pragma once

#include "tiltyard/maps.h"
#include "policy.h"

/*
 * One task. Its callbacks come one after the other, under the lock of its runqueue or p->pi_lock,
 * so what only they access needs no mark. Other CPUs access without these locks
 *
 *   run, slept   return_run() of a child that exits: writes under `lock`, reads with READ_ONCE
 *   cpu_ticks, ftick, ltick   pri_update() for such a child's parent reads them; they may be of
 *                two moments, which gives the parent a slightly wrong priority until its next tick.
 *                fork_account() of the parent writes them, in its own context without these locks:
 *                a tick or switch in the middle is counted again later, as the older ltick stays
 *   user_pri, pri   the same writes them; who places or moves the task reads them
 *   slice_used   take(), of CPUs that take the task from a queue
 *   book         book_set(), of the same: swapped atomically
 *   queued_ns    rescue() of the CPU where it waited, while another one takes it and runs it
 *   probed*      pri_update(): a probe may come twice or not at all
 *
 * all of which are marked, on both sides, by READ_ONCE, WRITE_ONCE or as atomic operations.
 */
struct ule_task {
	struct bpf_spin_lock lock;
	/* History in hz ticks << 10, cut by history_cap(). */
	u32 run;
	u32 slept;
	/* CPU share window [ftick, ltick] in hz ticks; cpu_ticks of it, << 10, on a CPU. */
	u32 cpu_ticks;
	u64 ftick;
	u64 ltick;
	/* When it was last switched out, and when it fell asleep, in hz ticks. */
	u64 rltick;
	u64 slp_tick;
	/* The computed priority, and the one it is queued and compared with. */
	u32 user_pri;
	u32 pri;
	/* Ticks of the current slice that are used up. */
	u32 slice_used;
	/* Where it is counted, see book_set(); -1 while it sleeps. */
	s32 book;
	/* Where it was counted before it was last taken out; -1 if nowhere. */
	s32 left;
	/* dispatch() has found the next place in a run queue, p->scx.dsq_vtime; see runq.h. */
	bool key_ready;
	u64 queued_ns;
	bool sleeping;
	bool has_slept;
	/* select_cpu() has accounted this wakeup. */
	bool wake_done;
	bool run_returned;
	/* Last values given to the probes. */
	u32 probed;
	u32 probed_run;
	u32 probed_slept;
	u32 probed_slice;
	u64 probed_queue;
	u64 probed_fifo;
};

DEFINE_TASK_STORAGE(tasks, struct ule_task)

static struct ule_task *task_ctx(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, 0, 0);
}

/* The hz clock: FreeBSD's `ticks`, Linux's jiffies. */
static u64 hz_ticks(u64 now_ns)
{
	return now_ns / par.hz_ns;
}

/* Keeps run + slept within about history_ms and their ratio about the same. */
static __always_inline void history_cap(u32 *run, u32 *slept)
{
	u32 max = par.slp_run_max;
	u64 sum = (u64)*run + *slept;

	if (sum < max)
		return;
	if (sum > 2 * (u64)max) {
		/* One very long run or sleep wipes out what was before. */
		if (*run > *slept) {
			*run = max;
			*slept = 1;
		} else {
			*slept = max;
			*run = 1;
		}
	} else if (sum > max / 5 * 6) {
		*run /= 2;
		*slept /= 2;
	} else {
		*run = *run / 5 * 4;
		*slept = *slept / 5 * 4;
	}
}

/* Adds to a task's history, in hz ticks << 10. */
static void history_add(struct ule_task *t, u32 run, u32 slept)
{
	bpf_spin_lock(&t->lock);
	run += t->run;
	slept += t->slept;
	history_cap(&run, &slept);
	/* Partners without the lock: pri_update(), the probes, fork_account(), return_run(). */
	WRITE_ONCE(t->run, run);
	WRITE_ONCE(t->slept, slept);
	bpf_spin_unlock(&t->lock);
}

/* Cuts an inherited history to fork_history_ms, so that the child's own behaviour shows soon. */
static void history_fork(u32 *run, u32 *slept)
{
	u32 sum = *run + *slept;

	if (par.slp_run_fork && sum > par.slp_run_fork) {
		u32 ratio = sum / par.slp_run_fork;

		*run /= ratio;
		*slept /= ratio;
	}
}

/* The penalty of the paper's formula, 0 (always asleep) to 100 (always running). */
static u32 penalty_full(u32 run, u32 slept)
{
	if (run > slept)
		return 100 - slept / (run / 50 ?: 1);
	if (slept > run)
		return run / (slept / 50 ?: 1);
	return run ? 50 : 0;
}

static u32 interact_score(u32 run, u32 slept, s32 nice)
{
	s32 score = (s32)policy_penalty(run, slept) + nice;

	return score > 0 ? score : 0;
}

/* Priority of a timeshare task. @cpu_ticks of the last @window hz ticks it was on a CPU. */
static u32 timeshare_pri(u32 run, u32 slept, u32 cpu_ticks, u32 window, s32 nice)
{
	u32 score = interact_score(run, slept, nice);
	u32 used = 0, per_level;

	if (score < interact_thresh) {
		if (interact_linear)
			return par.pri_min_interact + par.nr_interact * score / interact_thresh;
		return par.pri_min_interact + par.nr_interact / interact_thresh * score;
	}
	if (cpu_ticks) {
		if (window < hz)
			window = hz;
		per_level = (window + par.nr_used - 1) / par.nr_used;
		used = (cpu_ticks >> SCHED_TICK_SHIFT) / per_level;
		if (used > par.nr_used - 1)
			used = par.nr_used - 1;
	}
	return par.pri_min_used + used + policy_batch_nice(nice);
}

/* Moves the CPU share window to @now; @run: the task was on a CPU since the last update. Partners:
 * pri_update() of a child's exit, and fork_account() of this task as a parent, without its lock. */
static void pctcpu_update(struct ule_task *t, u64 now, bool run)
{
	u64 start = now - par.pct_targ, ltick = READ_ONCE(t->ltick), ftick = READ_ONCE(t->ftick);
	u32 ticks = READ_ONCE(t->cpu_ticks);

	/* Clocks of two CPUs may differ by a tick; the window never runs backwards. */
	if ((s64)(now - ltick) < 0)
		return;
	if (now - ltick >= par.pct_targ) {
		ticks = 0;
		ftick = start;
	} else if (now - ftick >= par.pct_max) {
		u32 window = ltick - ftick;

		ticks = ticks / (window ?: 1) * (u32)(ltick - start);
		ftick = start;
	}
	if (run)
		ticks += (u32)((now - ltick) << SCHED_TICK_SHIFT);
	WRITE_ONCE(t->cpu_ticks, ticks);
	WRITE_ONCE(t->ftick, ftick);
	WRITE_ONCE(t->ltick, now);
}

/* ULE's fixed point in microseconds. */
static u64 history_us(u32 ticks)
{
	return ticks * (par.hz_ns / 1000) >> SCHED_TICK_SHIFT;
}

/* What a penalty is made of, and how much of the slice is used up. */
static void probe_history(struct task_struct *p, struct ule_task *t)
{
	u32 run = READ_ONCE(t->run), slept = READ_ONCE(t->slept);
	u32 slice = READ_ONCE(t->slice_used);

	if (run != READ_ONCE(t->probed_run))
		TILT_PROBE_TASK(hist_run_us, p, history_us(run));
	if (slept != READ_ONCE(t->probed_slept))
		TILT_PROBE_TASK(hist_slept_us, p, history_us(slept));
	if (slice != READ_ONCE(t->probed_slice))
		TILT_PROBE_TASK(slice_used, p, slice);
	WRITE_ONCE(t->probed_run, run);
	WRITE_ONCE(t->probed_slept, slept);
	WRITE_ONCE(t->probed_slice, slice);
}

/* Penalty, score and priority over time. The penalty is the paper's, 0..100. */
static void probe_task(struct task_struct *p, struct ule_task *t)
{
	u32 run = READ_ONCE(t->run), slept = READ_ONCE(t->slept), pri = READ_ONCE(t->user_pri);
	u32 pen = penalty_full(run, slept), score = interact_score(run, slept, task_nice(p));
	/* Each takes less than ten bits; the top bit distinguishes "probed" from "never probed". */
	u32 probed = 1U << 31 | pen << 20 | score << 10 | pri;

	if (probed == READ_ONCE(t->probed))
		return;
	WRITE_ONCE(t->probed, probed);
	TILT_PROBE_TASK(penalty, p, pen);
	TILT_PROBE_TASK(score, p, score);
	TILT_PROBE_TASK(prio, p, pri);
}

/*
 * Recomputes a task's priority after its history or CPU share changed.
 *
 * Called by the task's own callbacks and, through return_run(), by those of its children: the later
 * result stays. It may have been computed from older history; the next tick or wakeup repairs that.
 */
static void pri_update(struct task_struct *p, struct ule_task *t)
{
	u32 pri = PRI_MIN_IDLE;

	if (!policy_is_idle_class(p))
		pri = timeshare_pri(READ_ONCE(t->run), READ_ONCE(t->slept), READ_ONCE(t->cpu_ticks),
				    READ_ONCE(t->ltick) - READ_ONCE(t->ftick), task_nice(p));
	WRITE_ONCE(t->user_pri, pri);
	policy_pri_computed(t);
	if (tilt_probes_on) {
		probe_history(p, t);
		probe_task(p, t);
	}
}

/* The task went to sleep voluntarily at hz tick @now. */
static void sleep_account(struct task_struct *p, struct ule_task *t, u64 now)
{
	t->sleeping = true;
	t->slp_tick = now;
	if (par.static_boost && READ_ONCE(t->pri) > par.static_boost && !policy_is_idle_class(p))
		WRITE_ONCE(t->pri, par.static_boost);
}

/* The task woke up at hz tick @now: its sleep counts, its slice restarts. */
static void wake_account(struct task_struct *p, struct ule_task *t, u64 now)
{
	u64 slept = now - t->slp_tick;

	WRITE_ONCE(t->slice_used, 0);
	if (t->sleeping && (s64)slept > 0 && (first_sleep || t->has_slept)) {
		/* Anything over twice the history has the same effect. */
		if (slept > 2 * (u64)history_ms * hz / 1000 + 1)
			slept = 2 * (u64)history_ms * hz / 1000 + 1;
		history_add(t, 0, slept << SCHED_TICK_SHIFT);
	}
	t->has_slept = true;
	t->sleeping = false;
	pctcpu_update(t, now, false);
	pri_update(p, t);
}
