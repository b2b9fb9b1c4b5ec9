/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ticks at a scheduler's own rate, on a machine that ticks at another.
 *
 * A scheduler that samples charges whoever runs at its tick. Each CPU has a grid of such ticks,
 * which starts at its first tick of the machine. At each tick of the machine as many are accounted
 * as bring the total to the time elapsed, in ticks, rounded: at equal rates each is one, however
 * late it comes. Example: FreeBSD's 127 Hz on a machine of 250 Hz fall due at every second tick,
 * and about every 32nd of them a tick earlier.
 *
 * A grid belongs to its CPU's callbacks: they need no marks.
 */
#ifndef __LIB_TICKS_H
#define __LIB_TICKS_H

struct tick_grid {
	/* One tick before the first; 0: there was none yet. */
	u64 origin_ns;
	/* Ticks accounted since. */
	u64 nr_done;
};

/* Ticks of length @tick_ns to account to the task that runs at the machine's tick at @now_ns. */
static u32 ticks_due(struct tick_grid *g, u64 now_ns, u64 tick_ns)
{
	u64 nr, due;

	if (!g->origin_ns)
		g->origin_ns = now_ns - tick_ns;
	nr = (now_ns - g->origin_ns + tick_ns / 2) / tick_ns;
	due = nr - g->nr_done;
	if ((s64)due <= 0)
		return 0;
	g->nr_done = nr;
	return due;
}

/* A task starts to run: ticks that nobody took (idle, a realtime task) are not for it. */
static void ticks_skip(struct tick_grid *g, u64 now_ns, u64 tick_ns)
{
	u64 nr;

	if (!g->origin_ns)
		return;
	nr = (now_ns - g->origin_ns) / tick_ns;
	if ((s64)(nr - g->nr_done) > 0)
		g->nr_done = nr;
}

#endif
