/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ULE as "The Battle of the Schedulers" ported it to Linux: what differs from FreeBSD. policy.h
 * says what each function is for.
 */
#pragma once

#include "place.h"

static void port_params(void)
{
	par.tick_ns = par.hz_ns;
	par.tickincr = 1 << SCHED_TICK_SHIFT;
	par.slice = slice_ticks ?: 10;
	par.slice_min = slice_min_ticks ?: 1;
	par.balance_interval = balance_interval_ticks ?: 128;
	par.affinity = affinity_ticks ?: 100;
	/* 100..139: 12 interactive levels, then 28 batch levels of which CPU use spans 13. */
	par.pri_min_interact = 100;
	par.nr_interact = 12;
	par.pri_min_batch = 112;
	par.nr_batch = 28;
	par.pri_min_used = 119;
	par.nr_used = 13;
	/* One FIFO per priority up to Linux's MAX_PRIO; the calendar has as many slots. The
	 * port's own count is not published: any count from 112 on gives the same order of
	 * interactive tasks, and scales a calendar turn. */
	par.nr_slots = 140;
	par.pri_per_fifo = 1;
	par.queue_restarts = true;
	par.flat_search = true;
	par.steal_once = true;
	par.stops_when_empty = true;
	par.topo_levels = 1U << TOPO_NODE | 1U << TOPO_LLC | 1U << TOPO_CORE;
}

static u32 port_penalty(u32 run, u32 slept)
{
	return penalty_full(run, slept);
}

/* 40 nice values on 104 priorities. */
static s32 port_batch_nice(s32 nice)
{
	u32 size = PRI_NRESV * (nice < 0 ? -nice : nice) / 104;

	return nice < 0 ? -(s32)size : (s32)size;
}

/* At once. */
static void port_pri_computed(struct ule_task *t)
{
	WRITE_ONCE(t->pri, READ_ONCE(t->user_pri));
}

/*
 * FreeBSD's without the search for an idle CPU: that would be one of the largest domain which is
 * warm and not the machine, but the machine is the largest, and warm for longest. The last step
 * compares with the previous CPU.
 */
static s32 port_pickcpu(struct task_struct *p, struct ule_task *t, s32 prev, u64 now)
{
	s32 self = bpf_get_smp_processor_id();
	struct ule_cpu *last = cpu_ctx(prev), *here = cpu_ctx(self);
	u64 away = less(now, t->ltick) / par.affinity;
	u32 pri = READ_ONCE(t->pri);
	s32 cpu;

	if (!READ_ONCE(last->load) && away < 2 && allowed(p, prev))
		return prev;
	cpu = search_machine(self, p, pri, prev);
	if (cpu < 0)
		return prev;
	if (allowed(p, self) && READ_ONCE(here->lowpri) > pri && READ_ONCE(last->load) > 0 &&
	    READ_ONCE(here->load) <= READ_ONCE(last->load) + 1)
		return self;
	return cpu;
}

/* The running task stays on the calendar, and lowpri as it is. */
static void port_cpu_runs(struct ule_cpu *c, u32 pri, u64 slot)
{
	c->run_slot = slot;
	WRITE_ONCE(c->curr_pri, pri);
}

/* The parent. */
static s32 port_heir_pid(struct task_struct *p)
{
	struct task_struct *parent = p->real_parent;

	return parent ? parent->pid : 0;
}
