/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a task goes that is queued: the staircase, with which SD decides everything.
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
static u32 next_slot(struct sd_cpu *c, const struct task_struct *p, const struct sd_task *t)
{
	u32 own = static_level(p), from = 0, i;
	u8 *best = &c->best[c->active & 1];
	bool batch = p->policy == POLICY_BATCH;

	if (mode == MODE_RSDL)
		return first_slot(levels_from(rsdl_from(c, own)) & ~t->granted);
	if (own > c->best[~c->active & 1])
		return LEVEL_NONE;
	if (own < *best) {
		if (!batch)
			*best = own;
	} else {
		if (!interactive)
			from = c->reached[own];
		if (own > *best) {
			bpf_for (i, *best, own + 1) {
				if (i < NR_LEVELS && c->reached[i] > from)
					from = c->reached[i];
			}
		}
	}
	if (batch)
		return first_slot(levels_from(from > own ? from : own) & ~t->granted);
	return first_slot(slots_of[own] & levels_from(from) & ~t->granted);
}

/* A full quota and an empty record, in one of this CPU's arrays. */
static void start_array(struct sd_cpu *c, struct sd_task *t, u32 array, s32 quota_us)
{
	t->granted = 0;
	t->rotation = c->rotation;
	t->slice_us = quota_us;
	t->first_slice = false;
	t->array = array;
}

/* The task waits for the next rotation: on the first of its own slots. */
static void expire(struct sd_cpu *c, const struct task_struct *p, struct sd_task *t)
{
	u32 own = static_level(p), array = ~c->active & 1;

	/* RSDL grants it when its turn comes, which is in the next rotation. */
	start_array(c, t, array, mode == MODE_RSDL ? 0 : quotas_us[own]);
	t->level = p->policy == POLICY_BATCH ? own : first_slot(slots_of[own]);
	if (mode == MODE_SD && !sd_first_slot_twice)
		t->granted = 1ULL << t->level;
	if (own < c->best[array])
		c->best[array] = own;
}

/* A task that has its place on another CPU brings it along, unless a rotation has begun there
 * since. */
static void change_cpu(struct sd_cpu *c, s32 cpu, struct sd_task *t)
{
	struct sd_cpu *from = cpu_ctx(t->cpu);

	if (t->cpu >= 0 && t->array < ARRAY_IDLE && t->rotation == READ_ONCE(from->rotation)) {
		t->rotation = c->rotation;
		t->array ^= READ_ONCE(from->active) ^ c->active;
	} else {
		t->rotation = 0;
	}
	t->cpu = cpu;
}

/* SCHED_IDLE tasks run when nothing else does, but for one that others may wait for. */
static void place_idle(struct sd_cpu *c, const struct task_struct *p, struct sd_task *t)
{
	u32 own = static_level(p);

	if (t->unsuitable) {
		t->unsuitable = false;
		t->array = ~c->active & 1;
		t->level = NR_LEVELS - 1;
		if (t->slice_us > quotas_us[own])
			t->slice_us = quotas_us[own];
		return;
	}
	t->array = ARRAY_IDLE;
	t->level = LEVEL_IDLE;
	/* Milliseconds, taken for microseconds as in the original: a tick ends each of its turns.
	 */
	if (t->slice_us <= 0)
		t->slice_us = entitlement_ms(own);
}

/* Has the rotation gone on for too long? */
static bool rotation_is_late(const struct sd_cpu *c)
{
	return rotation_limit_ms &&
	       scx_bpf_now() - c->rotation_ns > rotation_limit_ms * NSEC_PER_MSEC;
}

/* Finds the place on @cpu, which is @c, of a task that is queued there. */
static __noinline void place(struct sd_cpu *c, s32 cpu, const struct task_struct *p,
			     struct sd_task *t)
{
	s32 quota_us = quotas_us[static_level(p)];
	bool same;
	u32 slot;

	if (t->cpu != cpu)
		change_cpu(c, cpu, t);
	if (p->policy == POLICY_IDLE) {
		place_idle(c, p, t);
		return;
	}
	same = t->rotation == c->rotation;
	if (same && t->array == (~c->active & 1)) {
		expire(c, p, t);
		return;
	}
	if (same && t->array == c->active) {
		if (mode == MODE_SD ? t->slice_us > 0 : rsdl_stays(c, t))
			return;
		t->slice_us = quota_us;
		t->first_slice = false;
	} else {
		start_array(c, t, c->active, quota_us);
	}
	slot = rotation_is_late(c) ? LEVEL_NONE : next_slot(c, p, t);
	if (slot == LEVEL_NONE) {
		expire(c, p, t);
		return;
	}
	t->level = slot;
	t->granted |= 1ULL << slot;
	if (mode == MODE_RSDL)
		rsdl_grant(c, slot, quota_us);
}
