/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Everything waits in local queues, and a released CPU sends its own through ops.enqueue again. */
#include <scx/common.bpf.h>

#define ENQUEUE(p, enq_flags) scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags)
#define CPU_RELEASE(cpu)      scx_bpf_reenqueue_local()

#include "recorder.h"
