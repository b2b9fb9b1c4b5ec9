/* SPDX-License-Identifier: GPL-2.0-or-later */
/* scx_simple's rule and nothing else. */
#include "recorder.h"
