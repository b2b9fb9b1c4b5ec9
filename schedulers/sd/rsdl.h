/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RSDL, the Rotating Staircase Deadline scheduler of March 2007, of which SD is the successor.
 *
 * A RECONSTRUCTION: the sources of RSDL seem to be lost. These rules come from its author's
 * descriptions and from what SD's documentation still says of it; where these are silent, from
 * SD. No result of this mode is one of RSDL proper.
 *
 * A task walks down all levels from its static priority on, one quota each. A CPU serves one level
 * after the other; nobody enters above the level that is served. That level has a quota itself: the
 * sum of those that tasks have got there. When it is used up, by whomever, all that still wait
 * there are pushed to the end of the next level that has tasks: a minor rotation. So nobody stays
 * on a level for longer than was granted there, not even by sleeping whenever a tick comes.
 *
 * Nice 0 and 10, rr_interval 6: nice 0 walks from level 20 to 29 alone, 60 ms; then they take turns
 * on ten levels. 120 ms and 60 ms in a rotation of 180.
 */
#pragma once

#include "types.h"

/* A task that is queued again with what is left of its quota may stay where it is. */
static __always_inline bool rsdl_stays(const struct sd_cpu *c, const struct sd_task *t)
{
	u32 level = level_of(t->rq.prio);

	return t->slice_us > 0 && level >= c->served && c->level_quota_us[nth(level)] > 0;
}

/* The first level on which a task of static priority @own gets a quota. */
static __always_inline u32 rsdl_from(const struct sd_cpu *c, u32 own)
{
	return own > c->served ? own : c->served;
}

/* A task has got a quota on this level. */
static __always_inline void rsdl_grant(struct sd_cpu *c, u32 level, s32 quota_us)
{
	c->level_quota_us[nth(level)] += quota_us;
}

/* A task ran for so long: on the level that is served, whatever its own one was. */
static __always_inline void rsdl_charge(struct sd_cpu *c, s32 ran_us)
{
	c->level_quota_us[nth(c->served)] -= ran_us;
}

static __always_inline bool rsdl_exhausted(const struct sd_cpu *c)
{
	return minor_rotation && c->level_quota_us[nth(c->served)] < 0;
}

/* A major rotation begins. */
static __always_inline void rsdl_restart(struct sd_cpu *c)
{
	c->served = 0;
	__builtin_memset(c->level_quota_us, 0, sizeof(c->level_quota_us));
}
