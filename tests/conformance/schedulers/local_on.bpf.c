/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ops.enqueue sends X, when it wakes up, to the local queue of CPU `target` with `insert_flags`. */
#include <scx/common.bpf.h>

const volatile unsigned int target = 1;
const volatile unsigned long long insert_flags;

#define SELECT_CPU(p, prev_cpu, wake_flags) (prev_cpu)
#define ENQUEUE(p, enq_flags)                                                                      \
	do {                                                                                       \
		if (is_x(p) && ((enq_flags) & SCX_ENQ_WAKEUP))                                     \
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | target, slice_ns,                 \
					   (enq_flags) | insert_flags);                            \
		else                                                                               \
			scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);                    \
	} while (0)

#include "recorder.h"
