/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ops.select_cpu answers `answer` (-1: prev_cpu) for X and inserts it if `insert_x` is set; others
 * stay where they were.
 */
#include <scx/common.bpf.h>

const volatile int answer = -1;
const volatile _Bool insert_x;
const volatile unsigned long long insert_dsq = (1ULL << 63) | 2; /* SCX_DSQ_LOCAL */

#define SELECT_CPU(p, prev_cpu, wake_flags) select_fixed(p, prev_cpu)

struct task_struct;
static int select_fixed(struct task_struct *p, int prev_cpu);

#include "recorder.h"

static int select_fixed(struct task_struct *p, int prev_cpu)
{
	if (!is_x(p))
		return prev_cpu;
	if (insert_x)
		scx_bpf_dsq_insert(p, insert_dsq, slice_ns, 0);
	return answer >= 0 ? answer : prev_cpu;
}
