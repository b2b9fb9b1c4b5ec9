/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a task goes that is queued: the staircase, by which SD decides everything. Callers hold the
 * CPU's lock.
 *
 * Who comes with what is left of a quota keeps its level. Who has used its quota up gets another
 * one on its next own slot; when it has none left, it waits in the expired array for the next
 * rotation. Who has not been seen in this rotation starts with all of its slots.
 */
#pragma once

#include "quota.h"
#include "rsdl.h"

/*
 * The next slot of which @t has not had a quota; LEVEL_NONE: there is none, it expires.
 *
 * Static priorities do not overtake better ones: if one of these has come down to some level in
 * this rotation, worse ones start there; if a better one has expired, they expire too.
 */
static __always_inline u32 next_slot(struct sd_cpu *c, const struct sd_task *t)
{
	u32 own = nth(t->static_level), from = 0, level;
	u32 *best = &c->best[c->rq.active & 1];
	bool batch = t->policy == POLICY_BATCH;

	if (mode == MODE_RSDL)
		return first_slot(levels_from(rsdl_from(c, own)) & ~t->granted);
	if (own > c->best[expired_of(&c->rq) & 1])
		return LEVEL_NONE;
	if (own < *best) {
		if (!batch)
			*best = own;
	} else {
		if (!interactive)
			from = c->reached[own];
		if (own > *best) {
			bpf_for (level, *best, own + 1) {
				if (c->reached[nth(level)] > from)
					from = c->reached[nth(level)];
			}
		}
	}
	if (batch)
		return first_slot(levels_from(from > own ? from : own) & ~t->granted);
	return first_slot(slots_of[own] & levels_from(from) & ~t->granted);
}

/* Others look at it: curr_prio(). */
static __always_inline void set_level(struct sd_task *t, u32 level)
{
	WRITE_ONCE(t->rq.prio, MAX_RT_PRIO + level);
}

/* A full quota and a clean record, in one of the CPU's arrays. */
static __always_inline void start_array(struct sd_cpu *c, struct sd_task *t, u32 array)
{
	t->granted = 0;
	t->rotation = c->rotation;
	t->slice_us = quotas_us[nth(t->static_level)];
	t->first_slice = false;
	t->array = array;
}

/* The task waits for the next rotation: on the first of its own slots. */
static __always_inline void expire(struct sd_cpu *c, struct sd_task *t)
{
	u32 own = nth(t->static_level), array = expired_of(&c->rq) & 1;
	u32 level = t->policy == POLICY_BATCH ? own : first_slot(slots_of[own]);

	start_array(c, t, array);
	set_level(t, level);
	if (mode == MODE_RSDL)
		/* The quota follows with its turn, which is in the next rotation. */
		t->slice_us = 0;
	else if (!sd_first_slot_twice)
		t->granted = 1ULL << (level & 63);
	if (own < c->best[array])
		c->best[array] = own;
}

/* A task that has its place on another CPU brings it along, unless a rotation has begun there
 * since. Without that CPU's lock. */
static __always_inline void change_home(struct sd_cpu *c, u32 cpu, struct sd_task *t)
{
	struct sd_cpu *from = cpu_state(t->home);

	if (t->rotation == READ_ONCE(from->rotation)) {
		t->rotation = c->rotation;
		t->array ^= READ_ONCE(from->rq.active) ^ c->rq.active;
	} else {
		t->rotation = 0;
	}
	t->home = cpu;
}

/* SCHED_IDLE tasks run when nothing else does, but for one that others may wait for. */
static __always_inline void place_idle(struct sd_cpu *c, struct sd_task *t)
{
	u32 own = nth(t->static_level);

	if (t->unsuitable) {
		t->unsuitable = false;
		t->array = expired_of(&c->rq);
		set_level(t, NR_LEVELS - 1);
		if (t->slice_us <= 0 || t->slice_us > quotas_us[own])
			t->slice_us = quotas_us[own];
		return;
	}
	t->array = ARRAY_IDLE;
	set_level(t, LEVEL_IDLE);
	/* Milliseconds taken for microseconds, as in the original: any tick ends its turn. */
	if (t->slice_us <= 0)
		t->slice_us = entitlement_ms(own);
}

/* Quotas withheld and turns of SCHED_IDLE tasks given by rotation_limit_ms: each is a deviation
 * from SD. presets.toml names it. */
u64 nr_hurried;

/* Has the rotation gone on for too long? It may have begun ahead of the clock, which is set once
 * the next task is chosen. */
static __always_inline bool rotation_is_late(const struct sd_cpu *c)
{
	return rotation_limit_ms &&
	       (s64)(c->rq.clock_ns - c->rotation_ns) > (s64)(rotation_limit_ms * NSEC_PER_MSEC);
}

/* recalc_task_prio: finds the place of task @i on @cpu. */
static __always_inline void place(u32 cpu, u32 i)
{
	struct sd_cpu *c = cpu_state(cpu);
	struct sd_task *t = task(i);
	u32 own = nth(t->static_level), slot;
	bool same;

	if (t->policy == POLICY_IDLE) {
		t->home = cpu;
		place_idle(c, t);
		return;
	}
	if (t->home != cpu)
		change_home(c, cpu, t);
	same = t->rotation == c->rotation;
	if (same && t->array != c->rq.active) {
		expire(c, t);
		return;
	}
	if (same) {
		if (mode == MODE_SD ? t->slice_us > 0 : rsdl_stays(c, t))
			return;
		t->slice_us = quotas_us[own];
	} else {
		start_array(c, t, c->rq.active);
	}
	slot = next_slot(c, t);
	if (slot != LEVEL_NONE && rotation_is_late(c)) {
		__sync_fetch_and_add(&nr_hurried, 1);
		slot = LEVEL_NONE;
	}
	if (slot == LEVEL_NONE) {
		expire(c, t);
		return;
	}
	set_level(t, slot);
	t->granted |= 1ULL << (slot & 63);
	if (mode == MODE_RSDL)
		rsdl_grant(c, slot, quotas_us[own]);
}
