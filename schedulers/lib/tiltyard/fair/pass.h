/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A balancing pass, as far as it is the same in all versions of Linux.
 */
#ifndef __LIB_FAIR_PASS_H
#define __LIB_FAIR_PASS_H

#include "version.h"

/* Most tasks that a pass looks at, whatever nr_migrate says: a power of two. */
#define MAX_SEEN 64

#define NOWHERE	 MAX_CPUS

/* One balancing pass. A CPU's own: passes of a CPU do not interrupt each other. */
struct balance {
	/* For whom, at which level, and in which state that CPU is. */
	u32 cpu;
	u32 level;
	enum balance_idle idle;
	u64 now_ns;

	/* CPUs left out, because all their tasks are pinned. */
	u64 left_out[MAX_CPUS / 64];
	u32 nr_left_out;
	struct comparison compared;
	bool overload;

	s64 imbalance; /* what to move: see fits() */
	u32 dst, src;
	u32 nr_moved;
	/* Some tasks, or all, may not run on dst; one may on another CPU of its group. */
	bool some_pinned, all_pinned;
	u32 new_dst;
	u32 loop, loop_max;
	/* Tasks to look at, with the CPU to which each may go; tasks on their way. */
	u32 nr_seen, nr_detached;
	u32 seen[MAX_SEEN], seen_round[MAX_SEEN], seen_to[MAX_SEEN], detached[MAX_SEEN];
};

static struct balance balances[MAX_CPUS];

static __always_inline struct balance *this_balance(void)
{
	return &balances[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
}

static __always_inline bool is_left_out(const struct balance *b, u32 cpu)
{
	return b->left_out[(cpu & (MAX_CPUS - 1)) / 64] & 1ULL << (cpu & 63);
}

static __always_inline void leave_out(struct balance *b, u32 cpu)
{
	b->left_out[(cpu & (MAX_CPUS - 1)) / 64] |= 1ULL << (cpu & 63);
	b->nr_left_out++;
}

#endif
