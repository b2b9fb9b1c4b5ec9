/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Isochronous tasks go before all normal ones, as long as they use no more than iso_cpu percent of
 * all CPUs in some five seconds; beyond, they are normal ones until usage has fallen by a tenth.
 */
#pragma once

#include "deadline.h"

struct bfs_iso {
	u64 ticks; /* decaying sum of their ticks, 100 each */
	u32 refractory;
};

static struct bfs_iso iso;

/* Ticks of all CPUs that the sum decays over. */
static __always_inline u64 iso_period(void)
{
	return 5ULL * tick_hz * nr_online + 1;
}

static __always_inline bool iso_throttled(void)
{
	return READ_ONCE(iso.refractory);
}

static __always_inline void iso_check_off(void)
{
	u32 percent = version >= 350 ? iso_cpu * 115 / 128 : iso_cpu * 90 / 100;

	if (iso.refractory && iso.ticks / iso_period() < percent)
		WRITE_ONCE(iso.refractory, 0);
}

/* A tick of a CPU. Lock held. */
static __noinline void iso_account(struct bfs_cpu *c)
{
	bool runs_iso = c->policy == ISO && c->prio != PRIO_NONE;
	u64 period = iso_period();

	if (c->prio < PRIO_ISO || (runs_iso && !iso.refractory)) {
		if (iso.ticks <= 100 * period - 100)
			WRITE_ONCE(iso.ticks, iso.ticks + 100);
	} else if (iso.ticks) {
		WRITE_ONCE(iso.ticks, iso.ticks - (iso.ticks / period + 1));
		iso_check_off();
	}
	if (!runs_iso)
		return;
	if (iso.refractory)
		iso_check_off();
	else if (iso.ticks / period > iso_cpu)
		WRITE_ONCE(iso.refractory, 1);
	if (iso.refractory && c->prio == PRIO_ISO)
		c->slice = 0;
}
