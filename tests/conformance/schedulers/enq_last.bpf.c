/* SPDX-License-Identifier: GPL-2.0-or-later */
/* With SCX_OPS_ENQ_LAST a task that nobody replaces comes back with LAST; the CPU must be kicked to
 * take it. */
#include <scx/common.bpf.h>

#define ENQUEUE(p, enq_flags)                                                                      \
	do {                                                                                       \
		scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);                            \
		if ((enq_flags) & SCX_ENQ_LAST)                                                    \
			scx_bpf_kick_cpu(scx_bpf_task_cpu(p), 0);                                  \
	} while (0)

#include "recorder.h"
