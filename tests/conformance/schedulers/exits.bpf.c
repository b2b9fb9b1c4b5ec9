/* SPDX-License-Identifier: GPL-2.0-or-later */
/* scx_bpf_exit() from the callback that -DEXIT_FROM names, with a code of our own. */
#include <scx/common.bpf.h>

#define IN_SELECT_CPU 1
#define IN_ENQUEUE    2
#define IN_DISPATCH   3
#define IN_INIT_TASK  4
#define IN_ENABLE     5
#define IN_INIT	      6
#define IN_RUNNING    7

#define LEAVE_IF(here)                                                                             \
	do {                                                                                       \
		if (EXIT_FROM == (here))                                                           \
			scx_bpf_exit(0xcafe, "from %d", here);                                     \
	} while (0)

#define SELECT_CPU(p, prev_cpu, wake_flags)                                                        \
	({                                                                                         \
		LEAVE_IF(IN_SELECT_CPU);                                                           \
		(prev_cpu);                                                                        \
	})
#define ENQUEUE(p, enq_flags)                                                                      \
	do {                                                                                       \
		LEAVE_IF(IN_ENQUEUE);                                                              \
		scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);                            \
	} while (0)
#define DISPATCH(cpu, prev)                                                                        \
	do {                                                                                       \
		LEAVE_IF(IN_DISPATCH);                                                             \
		scx_bpf_dsq_move_to_local(SHARED_DSQ, 0);                                          \
	} while (0)
#define INIT_TASK(p)                                                                               \
	({                                                                                         \
		LEAVE_IF(IN_INIT_TASK);                                                            \
		0;                                                                                 \
	})
#define INIT()                                                                                     \
	({                                                                                         \
		LEAVE_IF(IN_INIT);                                                                 \
		0;                                                                                 \
	})
#define ENABLE(p)  LEAVE_IF(IN_ENABLE)
#define RUNNING(p) LEAVE_IF(IN_RUNNING)

#include "recorder.h"
