/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What happens by the clock: once a second schedcpu() walks all tasks, lets their estcpu decay and
 * recomputes their priorities; every five seconds or so the load average follows the number of
 * tasks.
 */
#pragma once

#include "add.h"

/* exp(-1/12): five seconds of a minute. exp(-1/20): a second of the CPU share. */
#define LOAD_DECAY   1884
#define PCTCPU_DECAY 1948

/* Tasks that starve_limit_ms has let run: each is a deviation from 4BSD. presets.toml names it. */
u64 nr_rescued;

/* A second has passed for a task. True if it belongs into another FIFO. */
static __always_inline bool schedcpu_task(struct bsd4_task *t)
{
	bool awake = READ_ONCE(t->runnable) || READ_ONCE(t->did_run);
	u32 slept = READ_ONCE(t->slptime);

	if (!READ_ONCE(t->running))
		WRITE_ONCE(t->did_run, false);
	t->pctcpu = t->pctcpu * PCTCPU_DECAY >> FSHIFT;
	if (t->cpticks) {
		/* FreeBSD divides neither by a clock of 100 Hz nor into thousandths. */
		t->pctcpu += par.stathz == 100 ? t->cpticks : 100 * t->cpticks / par.stathz;
		t->cpticks = 0;
	}
	if (awake) {
		if (slept > 1)
			update_pri(t);
		slept = 0;
	} else {
		slept++;
	}
	WRITE_ONCE(t->slptime, slept);
	if (slept > 1)
		return false;
	WRITE_ONCE(t->est, estcpu_decay(t->est, load_factor()));
	reset_user_pri(t);
	return apply_user_pri(t);
}

/* The queue to which a waiting task moves; @cpu is where the kernel has it. FreeBSD
 * does this in a thread, after which an idle CPU picks again; after a timer it has to be kicked. */
static __always_inline u64 requeue_queue(struct task_struct *p, struct bsd4_task *t, s32 cpu,
					 u64 from)
{
	u64 queue = add_queue(p, t, cpu, from);

	if (queue != QUEUE_GLOBAL && queue == bpf_get_smp_processor_id())
		scx_bpf_kick_cpu(queue, SCX_KICK_IDLE);
	return queue;
}

/*
 * A waiting task leaves its FIFO for that of its priority, @pri: to the tail, of a queue that is
 * chosen again. An iterator moves any task of its queue. If the kernel has taken the task
 * meanwhile, nothing moves. Not static, so that the verifier looks at it once.
 */
__noinline int requeue(u32 i, u32 pri, u32 flags, u64 now_ns)
{
	struct bsd4_task *t = task_at(i);
	u64 from = READ_ONCE(t->queue), to = from, key = queue_key(pri, flags & ADD_HEAD, now_ns);
	struct task_struct *p, *any;
	bool moved = false;

	/* Until 6.17 the verifier takes a timer that a sleepable op starts for sleepable too. */
	bpf_rcu_read_lock();
	p = bpf_task_from_pid(READ_ONCE(t->pid));
	/* The pid may be that of another task by now. */
	if (p && slot_of(p) == i) {
		to = requeue_queue(p, t, scx_bpf_task_cpu(p), from);
		bpf_for_each (scx_dsq, any, from, 0) {
			scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, key);
			moved = scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, to, 0);
			break;
		}
	}
	if (p)
		bpf_task_release(p);
	bpf_rcu_read_unlock();
	if (!moved)
		return 0;
	/* Partners: enqueue(), running(), which may have begun: then it waits nowhere. */
	__sync_val_compare_and_swap(&t->queue, from, to);
	add_notify(to, pri, flags);
	return 1;
}

/* The guard: a task that has waited for too long goes before all others, once. */
static __always_inline void rescue(u32 i, u64 now_ns)
{
	struct bsd4_task *t = task_at(i);
	u64 queued_ns = READ_ONCE(t->queued_ns);
	u32 pri = READ_ONCE(t->pri);

	if (READ_ONCE(t->queue) == QUEUE_NONE || !queued_ns ||
	    (s64)(now_ns - queued_ns) < (s64)(starve_limit_ms * NSEC_PER_MSEC))
		return;
	/* dispatch() compares the priorities of the heads of two queues. running() restores this
	 * one, so it has to be there before the task moves. */
	WRITE_ONCE(t->pri, 0);
	if (!requeue(i, 0, ADD_SCHEDCPU | ADD_HEAD, now_ns)) {
		WRITE_ONCE(t->pri, pri);
		return;
	}
	WRITE_ONCE(t->queued_ns, 0);
	__sync_fetch_and_add(&nr_rescued, 1);
}

static __noinline void schedcpu(void)
{
	struct sched_lock *lk = sched_lock();
	u64 now_ns = scx_bpf_now();
	u32 i;

	if (!lk)
		return;
	bpf_for (i, 1, READ_ONCE(task_slots_fresh)) {
		struct bsd4_task *t = task_at(i);
		bool moves = false;

		if (!READ_ONCE(t->pid))
			continue;
		bpf_spin_lock(&lk->lock);
		if (READ_ONCE(t->pid))
			moves = schedcpu_task(t);
		bpf_spin_unlock(&lk->lock);
		if (moves && READ_ONCE(t->queue) != QUEUE_NONE)
			requeue(i, READ_ONCE(t->pri), ADD_SCHEDCPU, now_ns);
		if (starve_limit_ms)
			rescue(i, now_ns);
		if (tilt_probes_on) {
			struct probed p = {.pid = READ_ONCE(t->pid)};

			probe_task(t);
			TILT_PROBE_TASK(pctcpu, &p, data_race(t->pctcpu));
		}
	}
}

/* The load average of a minute moves towards the number of tasks that run or wait. */
static __noinline void loadav(void)
{
	s64 nr = 0;
	s32 i;

	bpf_for (i, 0, nr_cpus)
		nr += READ_ONCE(cpu_ctx(i)->nr_runnable);
	if (nr < 0)
		nr = 0;
	WRITE_ONCE(load_avg, (LOAD_DECAY * (u64)READ_ONCE(load_avg) +
			      (u64)nr * FSCALE * (FSCALE - LOAD_DECAY)) >>
				     FSHIFT);
	TILT_PROBE_CPU(load_avg, 0, READ_ONCE(load_avg));
}

struct clock {
	struct bpf_timer timer;
};

DEFINE_ARRAY_MAP(clocks, 2, struct clock)

enum { CLOCK_SCHEDCPU, CLOCK_LOADAV };

/* Four to six seconds. */
static u64 loadav_delay_ns(void)
{
	return 4 * NSEC_PER_SEC + bpf_get_prandom_u32() % (2 * hz + 1) * par.hz_ns;
}

static int clock_fires(void *map, u32 *key, struct clock *c)
{
	if (*key == CLOCK_SCHEDCPU)
		schedcpu();
	else
		loadav();
	bpf_timer_start(&c->timer, *key == CLOCK_SCHEDCPU ? NSEC_PER_SEC : loadav_delay_ns(), 0);
	return 0;
}

static int clock_init(u32 key, u64 delay_ns)
{
	struct clock *c = bpf_map_lookup_elem(&clocks, &key);
	int err;

	if (!c)
		return -ESRCH;
	err = bpf_timer_init(&c->timer, &clocks, CLOCK_MONOTONIC);
	if (!err)
		err = bpf_timer_set_callback(&c->timer, clock_fires);
	if (!err)
		err = bpf_timer_start(&c->timer, delay_ns, 0);
	return err;
}

static int clocks_init(void)
{
	return clock_init(CLOCK_SCHEDCPU, NSEC_PER_SEC)
		       ?: clock_init(CLOCK_LOADAV, loadav_delay_ns());
}
