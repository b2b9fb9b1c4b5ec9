/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ops.dispatch inserts the task that is about to leave, which nobody owns, with a slice of 5 ms. */
#include <scx/common.bpf.h>

#define DISPATCH(cpu, prev)                                                                        \
	do {                                                                                       \
		if (prev)                                                                          \
			scx_bpf_dsq_insert(prev, SCX_DSQ_LOCAL, 5000000, 0);                       \
		scx_bpf_dsq_move_to_local(SHARED_DSQ, 0);                                          \
	} while (0)

#include "recorder.h"
