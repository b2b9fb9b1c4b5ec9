/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ops.yield does nothing: a yield is then no reason to leave the CPU. */
#include <scx/common.bpf.h>

#define YIELD(p)

#include "recorder.h"
