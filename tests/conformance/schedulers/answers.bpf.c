/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What kernel functions answer, right and wrong calls alike. */
#include <scx/common.bpf.h>

#define INIT() ask()

static int ask(void);

#include "recorder.h"

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 2);
	__type(value, u32);
} small SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u32);
} table SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u32);
} array SEC(".maps");

static int ask(void)
{
	u32 one = 1, two = 2, three = 3, value = 7;

	TILT_PROBE_CPU(create_builtin, 0, scx_bpf_create_dsq(SCX_DSQ_GLOBAL, -1));
	TILT_PROBE_CPU(create_bad_node, 0, scx_bpf_create_dsq(77, 99));
	TILT_PROBE_CPU(create_twice, 0, scx_bpf_create_dsq(SHARED_DSQ, -1));
	TILT_PROBE_CPU(nr_queued_empty, 0, scx_bpf_dsq_nr_queued(SHARED_DSQ));
	TILT_PROBE_CPU(nr_queued_unknown, 0, scx_bpf_dsq_nr_queued(77));
	TILT_PROBE_CPU(nr_queued_global, 0, scx_bpf_dsq_nr_queued(SCX_DSQ_GLOBAL));
	TILT_PROBE_CPU(nr_cpu_ids, 0, scx_bpf_nr_cpu_ids());

	TILT_PROBE_CPU(pop_empty, 0, bpf_map_pop_elem(&small, &value));
	TILT_PROBE_CPU(pop_zeroes, 0, value);
	bpf_map_push_elem(&small, &one, 0);
	bpf_map_push_elem(&small, &two, 0);
	TILT_PROBE_CPU(push_full, 0, bpf_map_push_elem(&small, &three, 0));
	TILT_PROBE_CPU(push_over, 0, bpf_map_push_elem(&small, &three, BPF_EXIST));
	bpf_map_pop_elem(&small, &value);
	TILT_PROBE_CPU(pop_second, 0, value);

	TILT_PROBE_CPU(hash_exist, 0, bpf_map_update_elem(&table, &one, &one, BPF_EXIST));
	bpf_map_update_elem(&table, &one, &one, BPF_ANY);
	TILT_PROBE_CPU(hash_noexist, 0, bpf_map_update_elem(&table, &one, &one, BPF_NOEXIST));
	bpf_map_update_elem(&table, &two, &two, BPF_ANY);
	TILT_PROBE_CPU(hash_full, 0, bpf_map_update_elem(&table, &three, &three, BPF_ANY));
	TILT_PROBE_CPU(hash_delete, 0, bpf_map_delete_elem(&table, &three));
	TILT_PROBE_CPU(array_range, 0, !bpf_map_lookup_elem(&array, &two));
	TILT_PROBE_CPU(array_update, 0, bpf_map_update_elem(&array, &two, &two, BPF_ANY));
	TILT_PROBE_CPU(array_delete, 0, bpf_map_delete_elem(&array, &one));
	return 0;
}
