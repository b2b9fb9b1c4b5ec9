/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * costs: a scheduler to weigh the others' work with. Each CPU first come, first served; beside that
 * it does known amounts of what schedulers do. Two threads that wake each other in turn run slower
 * under it by just that, and the difference is the cost.
 *
 * CALLBACKS adds ops.runnable, running, stopping and quiescent, which do nothing: each is called
 * once for every turn of a thread.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* How often an enqueue does work() for nothing. */
const volatile u32 passes = 0;

/* How often an enqueue does each of these for nothing. */
const volatile u32 array_lookups = 0;
const volatile u32 map_lookups = 0;
const volatile u32 storage_lookups = 0;
const volatile u32 spin_locks = 0;
const volatile u32 task_lookups = 0;

/* An enqueue kicks its CPU, which has no effect: it is not idle. */
const volatile bool kick = false;

/* Tasks go through a queue, from which ops.dispatch moves them, not straight to their CPU. */
const volatile bool queue = false;

#define SHARED_DSQ 0

#define NR_ITEMS   64

struct item {
	u64 key;
	u64 since_ns;
	u64 sum;
	u32 average;
	u32 weight;
};

static struct item items[NR_ITEMS];

static __always_inline struct item *item(u32 i)
{
	return &items[i & (NR_ITEMS - 1)];
}

/*
 * Down a heap, along the lesser children. Not static, nor is the next one: the verifier looks at
 * such functions once, not in every pass.
 */
__noinline int descend(u32 at)
{
	u32 level;

	bpf_for (level, 0, 4) {
		u32 child = 2 * at + 1;

		if (item(child + 1)->key < item(child)->key)
			child++;
		at = child;
	}
	return at;
}

/* What has passed is added up by weight, and averaged. */
__noinline int account(u32 i, u64 now_ns)
{
	struct item *it = item(i);
	u64 delta_ns = now_ns - it->since_ns;

	it->since_ns = now_ns;
	it->sum += delta_ns * 1024 / (it->weight | 1);
	it->average += ((s64)(delta_ns & 0xffff) - it->average) >> 3;
	return 0;
}

/* Of a pass of work(), as the simulated machine counts them. */
#define PASS_INSNS 146

/*
 * What schedulers consist of: calls, walks along indices that are checked, sums, a division. It
 * takes the same path every time, so that the instructions of a pass can be counted.
 */
static __noinline void work(u64 now_ns)
{
	u32 i;

	bpf_for (i, 0, passes) {
		account(descend(0), now_ns);
		account(i, now_ns);
	}
}

struct locked {
	struct bpf_spin_lock lock;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct locked);
} array SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u64);
	__type(value, u64);
} hash SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} storage SEC(".maps");

static __noinline void look_up(struct task_struct *p)
{
	struct task_struct *found;
	u64 of_hash = 0;
	u32 i, of_array = 1;

	bpf_for (i, 0, array_lookups)
		bpf_map_lookup_elem(&array, &of_array);
	bpf_for (i, 0, map_lookups)
		bpf_map_lookup_elem(&hash, &of_hash);
	if (storage_lookups)
		bpf_task_storage_get(&storage, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	bpf_for (i, 0, storage_lookups)
		bpf_task_storage_get(&storage, p, NULL, 0);
	bpf_for (i, 0, task_lookups) {
		found = bpf_task_from_pid(p->pid);
		if (found)
			bpf_task_release(found);
	}
}

static __noinline void lock(void)
{
	u32 zero = 0, i;
	struct locked *locked = bpf_map_lookup_elem(&array, &zero);

	if (!locked)
		return;
	bpf_for (i, 0, spin_locks) {
		bpf_spin_lock(&locked->lock);
		bpf_spin_unlock(&locked->lock);
	}
}

void BPF_STRUCT_OPS(costs_enqueue, struct task_struct *p, u64 enq_flags)
{
	work(enq_flags);
	look_up(p);
	lock();
	if (kick)
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_IDLE);
	scx_bpf_dsq_insert(p, queue ? SHARED_DSQ : SCX_DSQ_LOCAL, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(costs_dispatch, s32 cpu, struct task_struct *prev)
{
	if (queue)
		scx_bpf_dsq_move_to_local(SHARED_DSQ, 0);
}

#ifdef CALLBACKS
void BPF_STRUCT_OPS(costs_runnable, struct task_struct *p, u64 enq_flags)
{
}

void BPF_STRUCT_OPS(costs_running, struct task_struct *p)
{
}

void BPF_STRUCT_OPS(costs_stopping, struct task_struct *p, bool runnable)
{
}

void BPF_STRUCT_OPS(costs_quiescent, struct task_struct *p, u64 deq_flags)
{
}
#endif

s32 BPF_STRUCT_OPS_SLEEPABLE(costs_init)
{
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

void BPF_STRUCT_OPS(costs_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(costs_ops, .enqueue = (void *)costs_enqueue, .dispatch = (void *)costs_dispatch,
#ifdef CALLBACKS
	       .runnable = (void *)costs_runnable, .running = (void *)costs_running,
	       .stopping = (void *)costs_stopping, .quiescent = (void *)costs_quiescent,
#endif
	       .init = (void *)costs_init, .exit = (void *)costs_exit, .name = "costs");
