/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Definitions of maps: a value for each task, a value for each number.
 */
#ifndef __LIB_MAPS_H
#define __LIB_MAPS_H

/* For bpf_task_storage_get(). */
#define DEFINE_TASK_STORAGE(name, what)                                                            \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_TASK_STORAGE);                                           \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                              \
		__type(key, int);                                                                  \
		__type(value, what);                                                               \
	} name SEC(".maps");

/* For bpf_map_lookup_elem() with a number below @max. */
#define DEFINE_ARRAY_MAP(name, max, what)                                                          \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, max);                                                          \
		__type(key, u32);                                                                  \
		__type(value, what);                                                               \
	} name SEC(".maps");

#endif
