/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guard against starvation, for real kernels.
 *
 * Linux's fair class divides CPU time by weight alone: nice -20 weighs 5917 times as much as nice
 * 19, so a turn of 4 ms beside one such task is paid for with 24 s of waiting. sched_ext ejects a
 * scheduler that leaves a task waiting for 30 s. With starve_limit_ms, a timer looks at all waiting
 * tasks at least once a second, and moves to the front those that have not run for that long. A
 * task may wait for up to two seconds more: one until its last run is noticed, one until the timer
 * looks again.
 */
#ifndef __LIB_FAIR_GUARD_H
#define __LIB_FAIR_GUARD_H

#include "rule.h"
#include "tunables.h"
#include "turns.h"

/* How often starve_limit_ms has moved a task: each move is a deviation, which presets.toml names.
 */
u64 nr_rescued;

/* What the timer has seen of a task. Not in its entity, which has to stay small. */
struct watched {
	s32 pid;
	u64 ran_ns;   /* its total CPU time */
	u64 since_ns; /* when it was first seen waiting with that CPU time */
};

static struct watched watched[MAX_TASKS];

/* How many tasks starve on the CPU that is looked at, and the most on any CPU so far. Not local
 * variables: the verifier would follow each of their values through the loop. */
static u32 starving, most_starving;
/* Whether somebody was moved on the CPU that is looked at. */
static bool moved;

/* Has task i waited for too long? */
static __always_inline bool starves(u32 i, u64 now_ns)
{
	struct watched *w = &watched[i & (MAX_TASKS - 1)];
	u64 ran_ns = entity(i)->sum_exec_ns;
	s32 pid = entity(i)->custody.pid;

	/* What is known is of another task that had this slot; or this one does not wait, or ran.
	 */
	if (w->pid != pid || !entity(i)->waiting || ran_ns != w->ran_ns) {
		w->pid = pid;
		w->ran_ns = ran_ns;
		w->since_ns = now_ns;
		return false;
	}
	return now_ns - w->since_ns >= starve_limit_ms * NSEC_PER_MSEC;
}

/* Moves task i, and each waiting group above it, to the front of its queue. An entity that is there
 * already stays where it is: first come, first served. */
static __noinline void rescue(u32 i)
{
	u32 level;

	bpf_for (level, 0, MAX_DEPTH) {
		if (!i)
			break;
		if (entity(i)->waiting && move_to_front(entity(i)->queue, i)) {
			moved = true;
			nr_rescued += is_task(i);
		}
		i = parent_of(i);
	}
}

/* Looks at all tasks of a CPU. Whoever runs there has to give way: with many tasks, a heavy one's
 * turn may last for seconds. */
static __noinline void guard_cpu(u32 cpu, u64 now_ns)
{
	struct fair_lock *lk = cpu_lock(cpu);
	u32 n, i;

	if (!lk)
		return;
	starving = 0;
	moved = false;
	bpf_spin_lock(&lk->lock);
	i = cpu_state(cpu)->first_task;
	bpf_for (n, 0, MAX_TASKS) {
		if (!i)
			break;
		if (starves(i, now_ns)) {
			rescue(i);
			starving++;
		}
		i = entity(i)->list_next;
	}
	if (moved)
		WRITE_ONCE(cpu_state(cpu)->resched, true);
	bpf_spin_unlock(&lk->lock);
	if (moved)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	if (starving > most_starving)
		most_starving = starving;
}

/* A group at the front runs one of its tasks: the more of them starve, the sooner it has to be
 * moved again. */
static u64 guard_delay_ns(void)
{
	return max_of(NSEC_PER_SEC / (1 + most_starving), 2 * NSEC_PER_SEC / tick_hz);
}

struct guard_timer {
	struct bpf_timer timer;
};

DEFINE_ARRAY_MAP(guard_timer, 1, struct guard_timer)

static int guard_fires(void *map, u32 *key, struct guard_timer *g)
{
	u64 now_ns = scx_bpf_now();
	u32 cpu;

	most_starving = 0;
	bpf_for (cpu, 0, nr_cpus)
		guard_cpu(cpu, now_ns);
	bpf_timer_start(&g->timer, guard_delay_ns(), 0);
	return 0;
}

/* In init(). */
static int init_guard(void)
{
	struct guard_timer *g;
	u32 key = 0;
	int err;

	if (!starve_limit_ms)
		return 0;
	g = bpf_map_lookup_elem(&guard_timer, &key);
	if (!g)
		return -ESRCH;
	err = bpf_timer_init(&g->timer, &guard_timer, CLOCK_MONOTONIC);
	if (!err)
		err = bpf_timer_set_callback(&g->timer, guard_fires);
	if (!err)
		err = bpf_timer_start(&g->timer, NSEC_PER_SEC, 0);
	return err;
}

#endif
