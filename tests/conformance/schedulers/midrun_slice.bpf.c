/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ops.tick gives the running task another slice of `tick_slice_ns`, `grants` times. */
#include <scx/common.bpf.h>

const volatile unsigned long long tick_slice_ns = 3000000;
const volatile unsigned int grants = ~0U;
static unsigned int granted;

#define TICK(p)                                                                                    \
	do {                                                                                       \
		if (is_of_workload(p) && granted < grants) {                                       \
			granted++;                                                                 \
			(p)->scx.slice = tick_slice_ns;                                            \
		}                                                                                  \
	} while (0)

#include "recorder.h"
