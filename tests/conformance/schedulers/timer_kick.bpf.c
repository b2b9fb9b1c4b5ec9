/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A timer that A starts when it first runs where it must stay fires every `period_ns` and kicks CPU
 * `kick_cpu` with `kick_flags`; it stops after `fires` times.
 */
#include <scx/common.bpf.h>

const volatile unsigned long long period_ns = 5000000;
const volatile unsigned long long kick_flags = 2; /* SCX_KICK_PREEMPT */
const volatile unsigned int kick_cpu;
const volatile unsigned int fires = ~0U;

#define INIT()	   make_timer()
#define RUNNING(p) start_timer(p)

struct task_struct;
static int make_timer(void);
static void start_timer(const struct task_struct *p);

#include "recorder.h"

struct timer_value {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_value);
} timers SEC(".maps");

static u32 fired;

static int on_timer(void *map, int *key, struct timer_value *value)
{
	fired++;
	LOG_CPU(timer, kick_cpu, fired);
	scx_bpf_kick_cpu(kick_cpu, kick_flags);
	if (fired < fires)
		bpf_timer_start(&value->timer, period_ns, 0);
	return 0;
}

static int make_timer(void)
{
	struct timer_value *value;
	u32 key = 0;

	value = bpf_map_lookup_elem(&timers, &key);
	if (!value)
		return -ESRCH;
	bpf_timer_init(&value->timer, &timers, CLOCK_MONOTONIC);
	return bpf_timer_set_callback(&value->timer, on_timer);
}

static void start_timer(const struct task_struct *p)
{
	struct timer_value *value;
	static bool started;
	u32 key = 0;

	if (started || p->comm[0] != 'A' || p->comm[1] || p->nr_cpus_allowed > 1 ||
	    !bpf_cpumask_test_cpu(scx_bpf_task_cpu(p), p->cpus_ptr))
		return;
	started = true;
	value = bpf_map_lookup_elem(&timers, &key);
	if (value)
		bpf_timer_start(&value->timer, period_ns, 0);
}
