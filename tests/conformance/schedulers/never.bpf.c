/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Takes tasks and never gives them back. */
#define SELECT_CPU(p, prev_cpu, wake_flags) (prev_cpu)
#define ENQUEUE(p, enq_flags)
#define DISPATCH(cpu, prev)

#include "recorder.h"
