/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * First come, first served on each CPU, and one access pattern between CPUs, chosen by `scenario`:
 * what crates/sim/tests/races.rs expects to be found racing or clean. Each pattern has a line of
 * its own for each access.
 */
#include <scx/common.bpf.h>
#include <bpf_atomic.h>
#include "tiltyard.bpf.h"

char _license[] SEC("license") = "GPL";

enum scenario {
	PLAIN,
	ONCE,
	HALF_ONCE,
	ONE_LOCK,
	TWO_LOCKS,
	ATOMIC,
	ATOMIC_READ,
	RELEASE,
	PUBLISH_RELAXED,
	FULL_ORDER,
	UNUSED_RESULT,
	PER_CPU,
	OTHERS_CPU,
	TIMER,
	TIMER_UNARMED,
	HAND_OVER,
	BOOK_LATE,
	BYTES,
	FREED,
	UPDATED,
	MEANT,
};

const volatile u32 scenario;

u64 shared;
u64 flag;
u64 payload;
u8 bytes[8];

struct locked {
	struct bpf_spin_lock lock;
	u64 value;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct locked);
} locks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} per_cpu SEC(".maps");

struct racer_alarm {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct alarm);
} alarms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} fresh SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} updated SEC(".maps");

struct booking {
	u64 value;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct booking);
} bookings SEC(".maps");

/* Kept out of line, and so on a line of its own. */
static __noinline void book(struct booking *b)
{
	b->value++;
}

static void locked_add(u32 which)
{
	struct locked *l = bpf_map_lookup_elem(&locks, &which);
	u32 zero = 0;
	struct locked *first = bpf_map_lookup_elem(&locks, &zero);

	if (!l || !first)
		return;
	bpf_spin_lock(&l->lock);
	first->value++;
	bpf_spin_unlock(&l->lock);
}

/* One CPU's slot, by its owner or by all. */
static void count(u32 cpu)
{
	u32 key = 0;
	u64 *own = bpf_map_lookup_percpu_elem(&per_cpu, &key, cpu);

	if (own)
		++*own;
}

static int fire(void *map, u32 *key, struct racer_alarm *a)
{
	if (payload != 1)
		scx_bpf_error("the timer fires before it was started");
	return 0;
}

/* CPU 0 writes and starts the timer; CPU 1 starts it again, so that the callback runs there. Only
 * the timer orders them. */
static void race_timer(s32 cpu, bool start)
{
	u32 key = 0;
	struct racer_alarm *a = bpf_map_lookup_elem(&alarms, &key);

	if (!a || READ_ONCE(flag) != cpu)
		return;
	if (cpu == 0)
		payload = 1;
	if (start || cpu)
		bpf_timer_start(&a->timer, cpu ? 100000 : 900000000, 0);
	WRITE_ONCE(flag, cpu + 1);
}

/* The message is written once, before the flag, and read after it. */
static void send(s32 cpu)
{
	if (cpu == 0 && !READ_ONCE(flag)) {
		payload = 1;
		if (scenario == RELEASE)
			smp_store_release(&flag, 1);
		else if (scenario == PUBLISH_RELAXED)
			WRITE_ONCE(flag, 1);
		else if (scenario == FULL_ORDER)
			shared = __sync_val_compare_and_swap(&flag, 0, 1);
		else
			__sync_fetch_and_add(&flag, 1);
	}
	if (cpu == 1 && smp_load_acquire(&flag) && payload != 1)
		scx_bpf_error("the flag is set and the message is not");
}

/* Each tick another entry, which gets the memory of the one before the last: two ticks on one CPU,
 * two on the other. */
static void renew(s32 cpu)
{
	u64 now = bpf_ktime_get_ns(), *value;
	u32 key = 1;

	if (now / 2000000 % 2 != cpu)
		return;
	bpf_map_delete_elem(&fresh, &key);
	bpf_map_update_elem(&fresh, &key, &now, BPF_ANY);
	value = bpf_map_lookup_elem(&fresh, &key);
	if (value)
		++*value;
}

static void overwrite(s32 cpu)
{
	u32 key = 0;
	u64 one = 1, *value = bpf_map_lookup_elem(&updated, &key);

	if (cpu == 0)
		bpf_map_update_elem(&updated, &key, &one, BPF_ANY);
	else if (value && *value > 1)
		scx_bpf_error("a value that nobody wrote");
}

void BPF_STRUCT_OPS(racer_tick, struct task_struct *p)
{
	s32 cpu = bpf_get_smp_processor_id();

	switch (scenario) {
	case PLAIN:
		shared++;
		break;
	case ONCE:
		WRITE_ONCE(shared, READ_ONCE(shared) + 1);
		break;
	case HALF_ONCE:
		if (cpu == 0)
			WRITE_ONCE(shared, 1);
		else if (shared > 1)
			flag = 1;
		break;
	case ONE_LOCK:
		locked_add(0);
		break;
	case TWO_LOCKS:
		locked_add(cpu & 1);
		break;
	case ATOMIC:
		__sync_fetch_and_add(&shared, 1);
		break;
	case ATOMIC_READ:
		if (cpu == 0)
			__sync_fetch_and_add(&shared, 1);
		else if (shared == ~0ULL)
			flag = 1;
		break;
	case RELEASE:
	case PUBLISH_RELAXED:
	case FULL_ORDER:
	case UNUSED_RESULT:
		send(cpu);
		break;
	case PER_CPU:
		count(cpu);
		break;
	case OTHERS_CPU:
		count(0);
		break;
	case TIMER:
		race_timer(cpu, true);
		break;
	case TIMER_UNARMED:
		race_timer(cpu, false);
		break;
	case BYTES:
		bytes[cpu & 7]++;
		break;
	case FREED:
		renew(cpu);
		break;
	case UPDATED:
		overwrite(cpu);
		break;
	case MEANT:
		if (cpu == 0)
			shared = bpf_ktime_get_ns();
		else if (data_race(shared) + 1 == 0)
			flag = 1;
		break;
	}
}

void BPF_STRUCT_OPS(racer_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct booking *b = bpf_task_storage_get(&bookings, p, NULL, 0);

	if (b && scenario == HAND_OVER)
		book(b);
	scx_bpf_dsq_insert(p, scx_bpf_task_cpu(p), SCX_SLICE_DFL, enq_flags);
}

/* Takes a task from the other CPU and books it, before the task may run or afterwards. */
static bool steal(s32 cpu)
{
	struct task_struct *p;
	bool done = false;

	bpf_for_each (scx_dsq, p, !cpu, 0) {
		struct booking *b = bpf_task_storage_get(&bookings, p, NULL, 0);

		if (!b || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (scenario == HAND_OVER)
			book(b);
		done = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, 2, 0);
		if (done && scenario == BOOK_LATE)
			book(b);
		break;
	}
	return done;
}

void BPF_STRUCT_OPS(racer_dispatch, s32 cpu, struct task_struct *prev)
{
	if (scx_bpf_dsq_move_to_local(2, 0) || scx_bpf_dsq_move_to_local(cpu, 0))
		return;
	if (scenario == HAND_OVER || scenario == BOOK_LATE)
		steal(cpu);
}

void BPF_STRUCT_OPS(racer_running, struct task_struct *p)
{
	struct booking *b = bpf_task_storage_get(&bookings, p, NULL, 0);

	if (b && (scenario == HAND_OVER || scenario == BOOK_LATE))
		book(b);
}

s32 BPF_STRUCT_OPS(racer_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return bpf_task_storage_get(&bookings, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0
											: -ENOMEM;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(racer_init)
{
	u32 key = 0;
	struct racer_alarm *a = bpf_map_lookup_elem(&alarms, &key);
	s32 q, err;

	/* Before everything: no order is needed. */
	shared = 1;
	bpf_for (q, 0, 3) {
		err = scx_bpf_create_dsq(q, -1);
		if (err)
			return err;
	}
	if (!a)
		return -ENOENT;
	err = bpf_timer_init(&a->timer, &alarms, CLOCK_MONOTONIC);
	return err ?: bpf_timer_set_callback(&a->timer, fire);
}

SCX_OPS_DEFINE(racer_ops, .enqueue = (void *)racer_enqueue, .dispatch = (void *)racer_dispatch,
	       .tick = (void *)racer_tick, .running = (void *)racer_running,
	       .init_task = (void *)racer_init_task, .init = (void *)racer_init, .name = "racer");
