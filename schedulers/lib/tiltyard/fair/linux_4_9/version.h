/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How Linux 4.9 compares CPUs: by load.
 *
 *   load.h   the load of a CPU, now and lately     wakee.h    where a task wakes up
 *   stats.h  what is known of a group of CPUs      busiest.h  whom to take load from
 *   idlest.h where a new task begins
 */
#pragma once

#include "stats.h"
#include "idlest.h"
#include "wakee.h"
#include "busiest.h"

enum {
	BUSY_TICKS_LESS = 0,
	NEWIDLE_LENGTHENS = true,
	SIBLINGS_SHARE_CACHE = false,
	PUSH_TAKES_HOT = false,
	PUSH_COUNTS = true,
	HERE_IF_EQUAL = true,
	KICKED_BALANCES = true,
	IDLE_LOWERS_NOHZ = true,
};
