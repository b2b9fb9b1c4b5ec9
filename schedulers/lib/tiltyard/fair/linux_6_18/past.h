/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What Linux 6.18 remembers of tasks and CPUs to compare CPUs: a part of `struct entity_turn` and
 * `struct queue_turns`, named `past`.
 */
#pragma once

#include "../../kernel.h"

#define COUNTS_TASKS true

struct task_past {
	/* What it needs when it runs: estimate(). */
	u32 expected;
	/* By how much its load exceeded its utilisation at birth, and when that was:
	 * task_runnable(). */
	u32 newborn_gap;
	u64 born_ns;
	/* Where it was before it came to its last CPU. */
	u32 recent_cpu;
};

/* Of a root queue. */
struct cpu_past {
	/* Of its runnable tasks together. */
	u32 expected;
};
