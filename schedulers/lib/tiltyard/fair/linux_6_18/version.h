/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How Linux 6.18 compares CPUs: groups of them first by type, from those with idle CPUs to those
 * that are overloaded, then by idle CPUs, tasks, utilisation or load. Linux has done so since 5.5.
 *
 *   load.h    the load of a CPU                 imbalance.h  how much to move
 *   stats.h   what is known of a group of CPUs  busiest.h    whom to take tasks from
 *   idlest.h  where a new task begins           newidle.h    whether a CPU that runs dry looks
 *   wakee.h   where a task wakes up             past.h       what is remembered
 */
#pragma once

#include "stats.h"
#include "idlest.h"
#include "wakee.h"
#include "imbalance.h"
#include "busiest.h"
#include "newidle.h"

enum {
	BUSY_TICKS_LESS = 1,
	NEWIDLE_LENGTHENS = false,
	SIBLINGS_SHARE_CACHE = true,
	PUSH_TAKES_HOT = true,
	PUSH_COUNTS = false,
	HERE_IF_EQUAL = false,
	KICKED_BALANCES = false,
	IDLE_LOWERS_NOHZ = false,
};
