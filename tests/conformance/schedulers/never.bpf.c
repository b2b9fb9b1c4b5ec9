/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Takes X and never gives it back. */
#include <scx/common.bpf.h>

#define SELECT_CPU(p, prev_cpu, wake_flags) (prev_cpu)
#define ENQUEUE(p, enq_flags)                                                                      \
	do {                                                                                       \
		if (!is_x(p))                                                                      \
			scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);                    \
	} while (0)

#include "recorder.h"
