/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ops.dispatch and its buffer. -DTRY: OVERFLOW inserts the same task more often than fits,
 * CANCEL takes one insert back and asks how many slots there are, UNDERFLOW takes back too many.
 */
#include <scx/common.bpf.h>

#define OVERFLOW  1
#define CANCEL	  2
#define UNDERFLOW 3

static int held;

#define ENQUEUE(p, enq_flags)                                                                      \
	do {                                                                                       \
		if (is_x(p) && !((enq_flags) & SCX_ENQ_WAKEUP))                                    \
			held = (p)->pid;                                                           \
		else                                                                               \
			scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);                    \
	} while (0)
#define DISPATCH(cpu, prev) fill()

static void fill(void);

#include "recorder.h"

static void try_it(struct task_struct *p)
{
	s32 i;

	if (TRY == OVERFLOW) {
		bpf_for (i, 0, 33)
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	} else if (TRY == UNDERFLOW) {
		scx_bpf_dispatch_cancel();
	} else {
		TILT_PROBE_CPU(slots_before, 0, scx_bpf_dispatch_nr_slots());
		scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, 0);
		TILT_PROBE_CPU(slots_between, 0, scx_bpf_dispatch_nr_slots());
		scx_bpf_dispatch_cancel();
		TILT_PROBE_CPU(slots_after, 0, scx_bpf_dispatch_nr_slots());
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	}
}

static void fill(void)
{
	struct task_struct *p = held ? bpf_task_from_pid(held) : NULL;

	held = 0;
	if (p) {
		try_it(p);
		bpf_task_release(p);
	}
	scx_bpf_dsq_move_to_local(SHARED_DSQ, 0);
}
