/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What CFS keeps beside what the fair class does.
 */
#pragma once

/* Of an entity. */
struct entity_turn {
	u64 start_ns; /* sum_exec_ns when it was last picked */
};

/* Of a queue. */
struct queue_turns {
};

/* A queue's runnable load is by weight. */
#define COUNTS_TASKS false

#include "tiltyard/fair/types.h"

/* Its tree of waiting entities knows no more than tiltyard/tree.h says. */
static __always_inline bool tree_keeps_more(void)
{
	return false;
}

static __always_inline void tree_keep(u32 i, u32 a, u32 b)
{
}
