/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How a task's nice value and its sleep make its priority and its slices.
 */
#pragma once

#include "types.h"

/* Slices ------------------------------------------------------------------------------------ */

/* In ticks: 5 ms at nice 19, 100 ms at nice 0, 420 to 800 ms below. */
static __always_inline u32 static_prio_timeslice(u32 static_prio)
{
	u32 scale = static_prio < 120 ? 4 * par.def_timeslice : par.def_timeslice;
	u32 slice = scale * (MAX_PRIO - static_prio) / 20;

	return slice > par.min_timeslice ? slice : par.min_timeslice;
}

static __always_inline u32 task_timeslice(const struct o1_task *t)
{
	return static_prio_timeslice(t->static_prio);
}

/* The load of a task: 128 for a slice at nice 0. */
static __always_inline u32 weight_of(u32 static_prio)
{
	return static_prio_timeslice(static_prio) * 128 / par.def_timeslice;
}

/* Priority ---------------------------------------------------------------------------------- */

/* 0..max_bonus. In whole ticks, as the kernel has it. */
static __always_inline u32 current_bonus(const struct o1_task *t)
{
	if (!sleep_bonus)
		return max_bonus / 2;
	return t->sleep_avg_ns / par.tick_ns * max_bonus / par.max_sleep_avg;
}

static __always_inline u32 effective_prio(const struct o1_task *t)
{
	s32 prio = (s32)t->static_prio - ((s32)current_bonus(t) - (s32)(max_bonus / 2));

	if (t->serves_cpu || prio < MAX_RT_PRIO)
		return MAX_RT_PRIO;
	return prio < MAX_PRIO ? prio : MAX_PRIO - 1;
}

/* Bonus beyond the middle that a task needs to be interactive: -3 at nice -20, 6 at nice 19. 2.6.11
 * rounds towards the middle. */
static __always_inline s32 delta_of(const struct o1_task *t)
{
	s32 nice = (s32)t->static_prio - 120, part;

	if (estimator_2611 && nice < 0)
		part = -(s32)((u32)-nice * max_bonus / 40);
	else if (estimator_2611)
		part = (u32)nice * max_bonus / 40;
	else
		part = (s32)((u32)(nice + 20) * max_bonus / 40) - (s32)(20 * max_bonus / 40);
	return part + (s32)interactive_delta;
}

/* By the priority that it has, which may be older than its sleep average. */
static __always_inline bool is_interactive(const struct o1_task *t)
{
	return sleep_bonus && (s32)t->rq.prio <= (s32)t->static_prio - delta_of(t);
}

/* Sleep that just makes a task interactive. */
static __always_inline u64 interactive_sleep_ns(const struct o1_task *t)
{
	s32 levels = (s32)(max_bonus / 2) + delta_of(t) + 1;
	u64 ticks = levels > 0 ? par.max_sleep_avg * (u32)levels / max_bonus : 0;

	return (ticks ? ticks - 1 : 0) * par.tick_ns;
}

/* Ticks after which an interactive task lets its equals run. */
static __always_inline u32 granularity_of(const struct o1_task *t, u32 nr_online)
{
	u32 bonus = current_bonus(t), lacks = bonus < max_bonus ? max_bonus - bonus : 1;

	return (par.granularity << ((lacks - 1) & 31)) * nr_online;
}

/* Sleep and run time -------------------------------------------------------------------------- */

/* A task of this sleep average that sleeps on: no further than @ceiling if nobody waits for it. */
static __always_inline u64 slept_ns(const struct o1_task *t, u64 sleep_ns, u64 ceiling_ns)
{
	if (t->sleep_type != SLEEP_NONINTERACTIVE || !t->user)
		return t->sleep_avg_ns + sleep_ns;
	if (t->sleep_avg_ns >= ceiling_ns)
		return t->sleep_avg_ns;
	if (t->sleep_avg_ns + sleep_ns >= ceiling_ns)
		return ceiling_ns;
	return t->sleep_avg_ns + sleep_ns;
}

/* The estimator of 2.6.11: who slept for long is nearly at the top at once, unless it waited for a
 * disk; others rise the faster, the lower they are. */
static __always_inline void slept_2611(struct o1_task *t, u64 sleep_ns, u64 ceiling_ns)
{
	u32 bonus = current_bonus(t);

	if (sleep_ns > par.max_sleep_avg_ns)
		sleep_ns = par.max_sleep_avg_ns;
	if (t->user && t->sleep_type != SLEEP_NONINTERACTIVE && sleep_ns > ceiling_ns) {
		t->sleep_avg_ns = par.max_sleep_avg_ns - par.def_timeslice * par.tick_ns;
		return;
	}
	sleep_ns *= bonus < max_bonus ? max_bonus - bonus : 1;
	t->sleep_avg_ns = slept_ns(t, sleep_ns, ceiling_ns);
}

/* recalc_task_prio: it has slept. Returns its new priority. */
static __noinline u32 recalc_task_prio(struct o1_task *t, u64 sleep_ns)
{
	u64 ceiling_ns = interactive_sleep_ns(t);

	if (t->batch || !sleep_ns)
		return effective_prio(t);
	if (estimator_2611) {
		slept_2611(t, sleep_ns, ceiling_ns);
	} else if (t->user && sleep_ns > ceiling_ns && t->sleep_avg_ns < ceiling_ns) {
		/* One long sleep makes nobody more than just interactive. */
		t->sleep_avg_ns = ceiling_ns;
		t->sleep_type = SLEEP_NONINTERACTIVE;
	} else {
		t->sleep_avg_ns = slept_ns(t, sleep_ns, ceiling_ns);
	}
	if (t->sleep_avg_ns > par.max_sleep_avg_ns)
		t->sleep_avg_ns = par.max_sleep_avg_ns;
	return effective_prio(t);
}

/* What the time since it came to the CPU costs it: the less, the higher its bonus. */
static __always_inline u64 run_cost_ns(const struct o1_task *t, u64 now_ns)
{
	s64 ran_ns = now_ns - t->timestamp_ns;

	if (ran_ns < 0)
		ran_ns = 0;
	if ((u64)ran_ns > par.max_sleep_avg_ns)
		ran_ns = par.max_sleep_avg_ns;
	return (u64)ran_ns / (current_bonus(t) ?: 1);
}

/* The sleep average of a bonus, of which a fork leaves @percent. */
static __always_inline u64 after_fork_ns(const struct o1_task *t, u32 percent)
{
	return current_bonus(t) * percent / 100 * par.max_sleep_avg / max_bonus * par.tick_ns;
}
