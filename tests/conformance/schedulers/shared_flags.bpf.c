/* SPDX-License-Identifier: GPL-2.0-or-later */
/* X goes into a shared queue with `insert_flags` or, with -DVTIME, everyone by vtime: a woken task
 * comes behind the others. */
#include <scx/common.bpf.h>

const volatile unsigned long long insert_flags;

#ifdef VTIME
#define ENQUEUE(p, enq_flags)                                                                      \
	scx_bpf_dsq_insert_vtime(p, SHARED_DSQ, slice_ns,                                          \
				 !is_of_workload(p)		? 2000                             \
				 : (enq_flags) & SCX_ENQ_WAKEUP ? 1000                             \
								: 500,                             \
				 enq_flags)
#else
#define ENQUEUE(p, enq_flags)                                                                      \
	scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns,                                                \
			   is_x(p) ? (enq_flags) | insert_flags : (enq_flags))
#endif

#include "recorder.h"
