/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the two policies' placements of a woken task share.
 */
#pragma once

#include "tiltyard/arith.h"
#include "search.h"

/* Least loaded CPU of @cpu's group at @level where a task of @min_pri would run at once. */
static s32 search_lowest(s32 cpu, u32 level, struct task_struct *p, s32 min_pri, s32 prefer)
{
	struct search q = {
		.cpu = cpu,
		.level = level,
		.mask = SEARCH_ALLOWED,
		.limit = 0x7fffffff,
		.min_pri = min_pri,
		.prefer = prefer,
	};

	return search(&q, p);
}

/* The same of the whole machine: where the task would run at once, or else anywhere. */
static s32 search_machine(s32 cpu, struct task_struct *p, u32 pri, s32 prefer)
{
	s32 found = search_lowest(cpu, TOPO_ALL, p, pri, prefer);

	return found < 0 ? search_lowest(cpu, TOPO_ALL, p, -1, prefer) : found;
}

/* Whether all CPUs that share a core with @cpu are idle. */
static bool core_idle(s32 cpu)
{
	const struct topo_span *core = &topo_of(&topo, cpu)->span[TOPO_CORE];
	u32 i;

	bpf_for (i, core->first, core->end) {
		if (READ_ONCE(cpu_ctx(topo_at(&topo, i))->lowpri) < PRI_MIN_IDLE)
			return false;
	}
	return true;
}
