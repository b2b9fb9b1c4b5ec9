/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A task that wakes up is inserted with slice 0, which means: what it had left. */
#include <scx/common.bpf.h>

#define ENQUEUE(p, enq_flags)                                                                      \
	scx_bpf_dsq_insert(p, SHARED_DSQ, (enq_flags) & SCX_ENQ_WAKEUP ? 0 : slice_ns, enq_flags)

#include "recorder.h"
