/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A woken task takes the CPU at once: a parent that waits gets it while its child exits. */
#include <scx/common.bpf.h>

#define SELECT_CPU(p, prev_cpu, wake_flags) (prev_cpu)
#define ENQUEUE(p, enq_flags)                                                                      \
	do {                                                                                       \
		scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);                            \
		if ((enq_flags) & SCX_ENQ_WAKEUP)                                                  \
			scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);                   \
	} while (0)

#include "recorder.h"
