/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a pass finds out about groups of CPUs: their loads.
 */
#pragma once

#include "load.h"

/* The later, the rather a group is taken from. */
enum load_type { LOAD_OTHER, LOAD_IMBALANCED, LOAD_OVERLOADED };

struct group_stats {
	u64 avg; /* load per 1024 of capacity */
	u64 load;
	u64 runnable; /* load of what runs now */
	u64 per_task;
	u64 capacity;
	u64 util;
	u64 least; /* load of its least loaded CPU, per 1024 of capacity */
	u32 nr_running;
	u32 nr_idle;
	u32 nr_cpus;
	enum load_type type;
	bool no_capacity;
};

/* Of one pass. */
struct comparison {
	struct group_stats local, busiest, stats;
	u64 total_load, total_capacity, domain_avg;
};
