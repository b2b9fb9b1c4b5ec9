/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The same from ops.dispatch: X, when it wakes up, is held by its pid and sent to CPU `target` by
 * whoever dispatches first. */
#include <scx/common.bpf.h>

const volatile unsigned int target = 1;
static int held;

#define SELECT_CPU(p, prev_cpu, wake_flags) (prev_cpu)
#define ENQUEUE(p, enq_flags)                                                                      \
	do {                                                                                       \
		if (is_x(p) && ((enq_flags) & SCX_ENQ_WAKEUP))                                     \
			held = (p)->pid;                                                           \
		else                                                                               \
			scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);                    \
	} while (0)
#define DISPATCH(cpu, prev) send_x()

static void send_x(void);

#include "recorder.h"

static void send_x(void)
{
	struct task_struct *p = held ? bpf_task_from_pid(held) : NULL;

	held = 0;
	if (p) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | target, slice_ns, 0);
		bpf_task_release(p);
	}
	scx_bpf_dsq_move_to_local(SHARED_DSQ, 0);
}
