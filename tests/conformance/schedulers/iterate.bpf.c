/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Puts everything that wakes up or comes back into queue 1 and looks at it in ops.dispatch with
 * an iterator (-DREVERSE: from the end), then takes with scx_bpf_dsq_move() what it saw first.
 */
#include <scx/common.bpf.h>

#define QUEUE		      1

#define ENQUEUE(p, enq_flags) scx_bpf_dsq_insert(p, QUEUE, slice_ns, enq_flags)
#define DISPATCH(cpu, prev)   look_and_move()
#define INIT()		      scx_bpf_create_dsq(QUEUE, -1)

static void look_and_move(void);

#include "recorder.h"

#ifdef REVERSE
#define ITER_FLAGS SCX_DSQ_ITER_REV
#else
#define ITER_FLAGS 0
#endif

static void look_and_move(void)
{
	struct task_struct *p;
	bool moved = false;

	TILT_PROBE_CPU(queued, 0, scx_bpf_dsq_nr_queued(QUEUE));
	bpf_for_each (scx_dsq, p, QUEUE, ITER_FLAGS) {
		TILT_PROBE_TASK(seen, p, 0);
		if (moved)
			continue;
		scx_bpf_dsq_move_set_slice(BPF_FOR_EACH_ITER, 3000000);
		moved = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0);
	}
}
