/* SPDX-License-Identifier: GPL-2.0-or-later */
/* scx_simple's rule and nothing else. */
#include <scx/common.bpf.h>

#include "recorder.h"
