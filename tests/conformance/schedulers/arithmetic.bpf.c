/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What BPF computes where C does not say: divisions by zero and overflowing ones, long shifts. */
#include <scx/common.bpf.h>

#define INIT() compute()

static int compute(void);

#include "recorder.h"

/* Volatile, so that neither compiler works anything out. */
static volatile u64 zero64, seven64 = 7, shift65 = 65;
static volatile u32 zero32, seven32 = 7, shift33 = 33;

static int compute(void)
{
	TILT_PROBE_CPU(div64, 0, seven64 / zero64);
	TILT_PROBE_CPU(mod64, 0, seven64 % zero64);
	TILT_PROBE_CPU(div32, 0, seven32 / zero32);
	TILT_PROBE_CPU(mod32, 0, seven32 % zero32);
	TILT_PROBE_CPU(shl64, 0, seven64 << (shift65 & 63));
	TILT_PROBE_CPU(shl32, 0, seven32 << (shift33 & 31));
	return 0;
}
