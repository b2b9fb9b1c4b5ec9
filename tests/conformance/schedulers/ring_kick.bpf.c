/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Each CPU, at each tick, kicks the next one and waits for it. */
#include <scx/common.bpf.h>

static void kick_next(void);

#define TICK(p) kick_next()

#include "recorder.h"

static void kick_next(void)
{
	s32 next = bpf_get_smp_processor_id() + 1;

	scx_bpf_kick_cpu(next % scx_bpf_nr_cpu_ids(), SCX_KICK_WAIT);
}
