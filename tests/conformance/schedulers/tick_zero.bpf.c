/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ops.tick ends the slice every `every` ticks: the stale slice timer trap. */
#include <scx/common.bpf.h>

const volatile unsigned int every = 2;
static unsigned int ticks;

#define TICK(p)                                                                                    \
	do {                                                                                       \
		if (is_of_workload(p) && ++ticks % every == 0)                                     \
			(p)->scx.slice = 0;                                                        \
	} while (0)

#include "recorder.h"
