/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a nice value is worth: how many slots a rotation has for it, which, and for how long each.
 *
 *	nice   slots                          quota   in a rotation
 *	-20    0 1 2 3 ... 39 (all 40)        60 ms   2400 ms
 *	  0    1 3 5 7 ... 39 (20)             6 ms    120 ms
 *	 10    3 7 11 15 ... 39 (10)           3 ms     30 ms
 *	 19    39                              3 ms      3 ms
 *
 * with rr_interval 6. So nice decides how much time a task gets, but those with less of it still
 * come early: the slots of each are spread over all levels.
 */
#pragma once

#include "tiltyard/arith.h"
#include "types.h"

/* By static priority: bit n if slot n is one of its own; its quota. */
static u64 slots_of[NR_LEVELS];
static s32 quotas_us[NR_LEVELS];

/* All levels from this one on. */
static __always_inline u64 levels_from(u32 level)
{
	return (1ULL << NR_LEVELS) - (1ULL << (level & 63));
}

/* 40 - @level slots, from the last one backwards at even distances. In RSDL all from @level on. */
static u64 slots_for(u32 level)
{
	u32 step = 1600 / (NR_LEVELS - level), i;
	u64 slots = 0;

	if (mode == MODE_RSDL)
		return levels_from(level);
	bpf_for (i, 0, NR_LEVELS - level)
		slots |= 1ULL << (NR_LEVELS - 1 - i * step / NR_LEVELS);
	return slots;
}

static s32 quota_ms(u32 level, u32 rr_ms)
{
	s32 nice = (s32)level - 20;
	u32 divisor = quota_pos_nice ?: mode == MODE_SD ? 2 : 1;

	if (nice < -6)
		return rr_ms * nice * nice / 40;
	if (nice > 0)
		return rr_ms / divisor ?: 1;
	return rr_ms;
}

/* The first of a set of slots; LEVEL_NONE of none. */
static __always_inline u32 first_slot(u64 slots)
{
	return slots ? __builtin_ctzll(slots) : LEVEL_NONE;
}

/* What a task of static priority @level may run in one rotation. */
static __always_inline u32 entitlement_ms(u32 level)
{
	return quotas_us[nth(level)] / 1000 * (NR_LEVELS - level);
}

/* Load weight, for balancing. */
static __always_inline u32 weight_of(u32 level, bool is_idle_class)
{
	return entitlement_ms(level) * (is_idle_class ? 1 : 40);
}

/* 6 ms on one CPU, 12 on two, 18 on four. */
static u32 rr_interval_ms(u32 cpus)
{
	return rr_interval ?: 6 * bit_length(cpus);
}

static int quotas_init(u32 cpus)
{
	u32 level, rr_ms = rr_interval_ms(cpus);

	if (rr_interval > 5000 || quota_pos_nice > 2) {
		scx_bpf_error("sd: rr_interval=%u quota_pos_nice=%u; use 1..5000 or 0, 0..2",
			      rr_interval, quota_pos_nice);
		return -EINVAL;
	}
	if (mode > MODE_RSDL || !tick_hz || tick_hz > 10000) {
		scx_bpf_error("sd: mode=%u tick_hz=%u; use 0 (sd) or 1 (rsdl), 1..10000", mode,
			      tick_hz);
		return -EINVAL;
	}
	bpf_for (level, 0, NR_LEVELS) {
		slots_of[level] = slots_for(level);
		quotas_us[level] = quota_ms(level, rr_ms) * 1000;
	}
	return 0;
}
