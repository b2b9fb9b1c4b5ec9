/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Everything goes to the global queue of its node. Nobody asks for idle CPUs. */
#include <scx/common.bpf.h>

#define SELECT_CPU(p, prev_cpu, wake_flags) (prev_cpu)
#define ENQUEUE(p, enq_flags)		    scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice_ns, enq_flags)

#include "recorder.h"
