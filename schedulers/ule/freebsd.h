/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ULE as FreeBSD 11.1 has it: what differs from the port. policy.h says what each function is for.
 */
#pragma once

#include "place.h"

static void freebsd_params(void)
{
	par.tick_ns = NSEC_PER_SEC / stathz;
	par.tickincr = (hz << SCHED_TICK_SHIFT) / stathz ?: 1;
	par.slice = slice_ticks ?: (stathz / 10 ?: 1);
	par.slice_min = slice_min_ticks ?: (par.slice / 6 ?: 1);
	par.balance_interval = balance_interval_ticks ?: stathz;
	par.affinity = affinity_ticks ?: (hz / 1000 ?: 1);
	/* 120..223: 32 interactive levels, then 72 batch levels: 20 for nice, 32, 20. */
	par.pri_min_interact = 120;
	par.nr_interact = 32;
	par.pri_min_batch = 152;
	par.nr_batch = 72;
	par.pri_min_used = 172;
	par.nr_used = 32;
	par.nr_slots = 64;
	par.pri_per_fifo = 4;
	par.static_boost = static_boost;
	par.spares_head = true;
	/* Its groups are those that share a cache; each core is one, also one of a single CPU. */
	par.topo_levels = 1U << TOPO_LLC | 1U << TOPO_CORE;
	par.topo_how = TOPO_DESCENDING | TOPO_SINGLES;
}

/* Stops at 50 where more could not matter. */
static u32 freebsd_penalty(u32 run, u32 slept)
{
	if (interact_thresh <= 50 && run >= slept)
		return 50;
	return penalty_full(run, slept);
}

static s32 freebsd_batch_nice(s32 nice)
{
	return nice;
}

/* The priority in use follows when the task returns to user mode or its slice ends. */
static void freebsd_pri_computed(struct ule_task *t)
{
}

/* Kernel threads keep their own. */
static void freebsd_pri_apply(struct task_struct *p, struct ule_task *t)
{
	WRITE_ONCE(t->pri, is_kthread(p) ? PRI_KERN : READ_ONCE(t->user_pri));
}

/* The sleep counts before the task is placed. */
static void freebsd_waking(struct task_struct *p, struct ule_task *t, u64 now)
{
	if (!t->sleeping)
		return;
	wake_account(p, t, now);
	t->wake_done = true;
}

/* Whether @cpu's last-level cache is not that of all CPUs. */
static bool cache_is_part(s32 cpu)
{
	const struct topo_span *llc = &topo_of(&topo, cpu)->span[TOPO_LLC];

	return llc->end - llc->first < topo.nr_online;
}

/*
 * The last CPU if idle and its cache warm; an idle CPU of the largest group whose cache is, if that
 * is not the machine; a CPU where the task runs at once; the least loaded; against the latter two
 * the waking CPU has the first claim.
 */
static s32 freebsd_pickcpu(struct task_struct *p, struct ule_task *t, s32 prev, u64 now)
{
	s32 self = bpf_get_smp_processor_id();
	struct ule_cpu *last = cpu_ctx(prev), *here = cpu_ctx(self), *found;
	/* Whole hz ticks since it last ran, on a CPU whose clock may be ahead: a cache of level n
	 * is warm for n - 1. */
	u64 away = less(now, t->rltick) / par.affinity;
	u32 pri = READ_ONCE(t->pri);
	s32 cpu = -1;

	/* L2 is private to a core: level 2. */
	if (READ_ONCE(last->lowpri) >= PRI_MIN_IDLE && away < 2 && allowed(p, prev) &&
	    (!topo_has(&topo, TOPO_CORE) || core_idle(prev)))
		return prev;
	/* A last-level cache, level 3, is the largest group with a cache, and warm for longest. */
	if (away < 3 && cache_is_part(prev))
		cpu = search_lowest(prev, TOPO_LLC, p, max_of(pri, PRI_MIN_IDLE - 1), prev);
	if (cpu < 0)
		cpu = search_machine(prev, p, pri, prev);
	if (cpu < 0)
		return prev;
	found = cpu_ctx(cpu);
	if (allowed(p, self) && READ_ONCE(here->lowpri) > pri &&
	    READ_ONCE(found->lowpri) < PRI_MIN_IDLE &&
	    READ_ONCE(here->load) <= READ_ONCE(found->load) + 1)
		return self;
	return cpu;
}

/* As for a wakeup. */
static s32 freebsd_displaced(struct task_struct *p, struct ule_task *t, s32 cpu)
{
	s32 to = freebsd_pickcpu(p, t, cpu, hz_ticks(scx_bpf_now()));

	return allowed(p, to) ? to : cpu;
}

/* Unless it would come earlier, or its slot is gone. */
static bool freebsd_keeps_place(struct task_struct *p, struct ule_cpu *c, u64 key)
{
	return p->scx.dsq_vtime < key && key_slot(p->scx.dsq_vtime) >= c->ridx;
}

/* Whether a running task of priority @curr is preempted for one of priority @pri. */
static bool should_preempt(u32 pri, u32 curr, bool remote)
{
	if (pri >= curr)
		return false;
	if (curr >= PRI_MIN_IDLE)
		return true;
	if (!preempt_thresh)
		return false;
	if (pri <= preempt_thresh)
		return true;
	return remote && pri < par.pri_min_batch && curr >= par.pri_min_batch;
}

/* On this CPU a better task runs soon, on another one only if it is that much better. */
static void freebsd_preempt_check(s32 cpu, struct ule_cpu *c, u32 pri)
{
	bool remote = cpu != bpf_get_smp_processor_id();
	u32 curr_pri = READ_ONCE(c->curr_pri);
	bool now = should_preempt(pri, curr_pri, remote);

	/* The kernel itself wakes an idle CPU. */
	if (!READ_ONCE(c->running) || pri >= curr_pri)
		return;
	if (now)
		WRITE_ONCE(c->owe_preempt, true);
	if (now || !remote)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* The running task is off the calendar. */
static void freebsd_cpu_runs(struct ule_cpu *c, u32 pri, u64 slot)
{
	c->run_slot = SLOT_NONE;
	WRITE_ONCE(c->curr_pri, pri);
	WRITE_ONCE(c->lowpri, pri);
}

static void freebsd_cpu_idles(struct ule_cpu *c)
{
	WRITE_ONCE(c->curr_pri, PRI_IDLE);
	WRITE_ONCE(c->lowpri, PRI_IDLE);
}

static u32 freebsd_running_pri(struct ule_cpu *c)
{
	return READ_ONCE(c->running) ? READ_ONCE(c->curr_pri) : PRI_IDLE;
}

static bool freebsd_may_ask(struct ule_cpu *c)
{
	return transferable(c) > 0;
}

static bool freebsd_may_give(struct ule_cpu *c)
{
	return transferable(c) > 0;
}

/* Siblings of a core share all but the pipeline: even a task behind an idle one is worth it. */
static u32 freebsd_steal_load(s32 cpu, u32 level)
{
	const struct topo_span *core = &topo_of(&topo, cpu)->span[TOPO_CORE];

	return level == TOPO_CORE && core->end - core->first > 1 ? 1 : steal_thresh;
}

/* An interrupt on @cpu, whose handler switches if a better task waits. */
static void freebsd_interrupt(s32 cpu, struct ule_cpu *c)
{
	bool better = READ_ONCE(c->lowpri) < READ_ONCE(c->curr_pri);

	if (better)
		WRITE_ONCE(c->owe_preempt, true);
	scx_bpf_kick_cpu(cpu, better ? SCX_KICK_PREEMPT : 0);
}

/* No interrupt on the balancer's own CPU; if that is idle, it looks for work all the time. */
static void freebsd_received(s32 to, struct ule_cpu *c)
{
	if (to == bpf_get_smp_processor_id())
		scx_bpf_kick_cpu(to, SCX_KICK_IDLE);
	else
		freebsd_interrupt(to, c);
}

/* Threads of the same process are spared both. */
static bool freebsd_accounts_fork(const struct task_struct *child)
{
	return child->pid == child->tgid;
}
