/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A released CPU puts its local queue back through ops.enqueue. */
#define CPU_RELEASE(cpu) scx_bpf_reenqueue_local()

#include "recorder.h"
