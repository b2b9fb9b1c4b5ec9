/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A scheduler that fails in the way and in the callback that BREAK names. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

#ifndef OPS_NAME
#define OPS_NAME "broken"
#endif

#define NULL_READ	1
#define WILD_WRITE	2
#define SPIN		3
#define NEVER_DISPATCH	4
#define BOGUS_DSQ	5
#define INIT_ERROR	6
#define INIT_TASK_ERROR 7
#define FORK_ERROR	8
#define LEAVES		9
#define NEVER_CONSUME	10
#define NEVER_PREEMPT	11
#define KICK_FOR_EVER	12
#define TIMER_FOR_NOW	13
#define IDLE_FLAGS	14
#define MISPLACED	15
#define ARRAY_WRITE	16
#define ARRAY_READ	17
#define VALUE_WRITE	18
#define STACK_WRITE	19
#define TASK_WRITE	20
#define NULL_PREV	21
#define NULL_TASK	22
#define NO_TASK		23
#define NOT_OWN_MASK	24
#define HEAP_WRITE	25
#define NULL_WRITE	40
#define FULL		26
#define NESTED_LOOPS	27
#define FEW_CPUS	28
#define FIRST_CPU_ONLY	29
#define TWO_LOCKS	41
#define KEPT_LOCK	42
#define LOOSE_LOCK	43
#define LOSES_ONE	44
#define KEEPS_ONE	45
#define KEEPS_FOR_LATER 46
#define SAME_DSQ	47
#define NO_NODE		48
#define BUILTIN_DSQ	49
#define ARENA		50

#define SHARED_DSQ	0

/* Where nobody's memory is; volatile, so that no compiler knows it. */
static volatile u64 nowhere = 0xdead000000000000ULL;
static volatile u64 null;
static volatile u64 forever = 1;
/* More than any array here has, and as far as the engine's heap. */
static volatile u64 far = 100;
static volatile u64 from_heap = 0x100000;

#if BREAK == KEEPS_ONE || BREAK == KEEPS_FOR_LATER
static s32 kept;

static void insert_kept(void)
{
	struct task_struct *p = bpf_task_from_pid(kept);

	if (!p)
		return;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
	bpf_task_release(p);
}
#endif

#if BREAK == ARENA
struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
} arena SEC(".maps");
#endif

#if BREAK == FEW_CPUS
const volatile u32 cpu_llc_id[4];
#endif

u64 counters[4];
u64 sum;

static __noinline void fill(u64 *to, u64 words)
{
	u64 i;

	for (i = 0; i < words; i++)
		to[i] = i;
}

static int inner(u32 i, void *ctx)
{
	return 0;
}

static int outer(u32 i, void *ctx)
{
	bpf_loop(BPF_MAX_LOOPS, inner, NULL, 0);
	return 0;
}

struct bell {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bell);
} bells SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} storage SEC(".maps");

struct guarded {
	struct bpf_spin_lock lock;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct guarded);
} guarded SEC(".maps");

static __maybe_unused void misuse_lock(void)
{
	u32 key = 0;
	struct guarded *g = bpf_map_lookup_elem(&guarded, &key);

	if (!g)
		return;
#if BREAK != LOOSE_LOCK
	bpf_spin_lock(&g->lock);
#endif
#if BREAK == TWO_LOCKS
	bpf_spin_lock(&g->lock); /* again */
#endif
#if BREAK != KEPT_LOCK
	bpf_spin_unlock(&g->lock);
#endif
}

static int ring(void *map, int *key, struct bell *bell)
{
	bpf_timer_start(&bell->timer, 0, 0);
	return 0;
}

static s32 start_bell(void)
{
	struct bell *bell;
	u32 key = 0;

	bell = bpf_map_lookup_elem(&bells, &key);
	if (!bell)
		return -ENOENT;
	bpf_timer_init(&bell->timer, &bells, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&bell->timer, ring);
	return bpf_timer_start(&bell->timer, 1000000, 0);
}

void BPF_STRUCT_OPS(broken_enqueue, struct task_struct *p, u64 enq_flags)
{
#if BREAK == NULL_READ
	scx_bpf_dsq_insert(p, *(volatile u64 *)null, SCX_SLICE_DFL, enq_flags);
	return;
#elif BREAK == BOGUS_DSQ
	scx_bpf_dsq_insert(p, 0xbeef, SCX_SLICE_DFL, enq_flags);
	return;
#elif BREAK == NEVER_DISPATCH
	return;
#elif BREAK == LOSES_ONE
	if (p->comm[0] == 'd')
		return;
#elif BREAK == KEEPS_FOR_LATER
	if (p->comm[0] == 'd') {
		kept = p->pid;
		return;
	}
#elif BREAK == KEEPS_ONE
	/* Every task is kept back; dispatch() inserts all but one. */
	if (p->comm[0] != 'd')
		kept = p->pid;
	return;
#elif BREAK == NEVER_PREEMPT
	scx_bpf_dsq_insert(p, SHARED_DSQ, SCX_SLICE_INF, enq_flags);
	return;
#endif
	scx_bpf_dsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(broken_dispatch, s32 cpu, struct task_struct *prev)
{
#if BREAK == SPIN
	while (forever)
		;
#elif BREAK == NESTED_LOOPS
	bpf_loop(BPF_MAX_LOOPS, outer, NULL, 0);
#elif BREAK == NEVER_CONSUME
	return;
#elif BREAK == KEEPS_ONE
	return insert_kept();
#elif BREAK == KEEPS_FOR_LATER
	if (!scx_bpf_dsq_move_to_local(SHARED_DSQ, 0))
		insert_kept();
	return;
#elif BREAK == FIRST_CPU_ONLY
	if (cpu)
		return;
#elif BREAK == NULL_PREV
	sum = prev->pid;
#endif
	scx_bpf_dsq_move_to_local(SHARED_DSQ, 0);
}

void BPF_STRUCT_OPS(broken_running, struct task_struct *p)
{
#if BREAK == WILD_WRITE
	*(volatile u64 *)nowhere = p->pid;
#elif BREAK == LEAVES
	if (p->tgid != p->pid || p->comm[0] == 'v')
		scx_bpf_exit(42, "had enough of %s", p->comm);
#elif BREAK == KICK_FOR_EVER
	scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
#elif BREAK == MISPLACED
	scx_bpf_dsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, 0);
#elif BREAK == ARRAY_WRITE
	counters[far]++;
#elif BREAK == ARRAY_READ
	sum = counters[far];
#elif BREAK == VALUE_WRITE
	u32 key = 0;
	u64 *words = bpf_map_lookup_elem(&bells, &key);

	if (words)
		words[far] = 1;
#elif BREAK == STACK_WRITE
	u64 local[4];

	fill(local, far * 100);
	sum = local[0];
#elif BREAK == TASK_WRITE
	p->flags = 0;
#elif BREAK == NULL_TASK
	sum = bpf_task_from_pid(0x7fffffff)->pid;
#elif BREAK == NO_TASK
	bpf_task_storage_get(&storage, (struct task_struct *)counters, 0, 0);
#elif BREAK == NOT_OWN_MASK
	bpf_cpumask_set_cpu(0, (struct bpf_cpumask *)p->cpus_ptr);
#elif BREAK == HEAP_WRITE
	fill((u64 *)((u64)p + from_heap), 1);
#elif BREAK == NULL_WRITE
	u64 *none = (u64 *)(far - far);

	*none = 1;
#elif BREAK == TWO_LOCKS || BREAK == KEPT_LOCK || BREAK == LOOSE_LOCK
	misuse_lock();
#endif
}

s32 BPF_STRUCT_OPS_SLEEPABLE(broken_init_task, struct task_struct *p,
			     struct scx_init_task_args *args)
{
#if BREAK == INIT_TASK_ERROR
	return -ENOMEM;
#elif BREAK == FORK_ERROR
	return args->fork ? -ENOMEM : 0;
#elif BREAK == FULL
	static u32 held;

	return held++ < 3 ? 0 : -ENOMEM;
#endif
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(broken_init)
{
#if BREAK == INIT_ERROR
	return -ENOSPC;
#elif BREAK == TIMER_FOR_NOW
	start_bell();
#elif BREAK == FEW_CPUS
	sum = cpu_llc_id[far % 4];
#elif BREAK == IDLE_FLAGS
	scx_bpf_exit(scx_bpf_cpu_rq(0)->curr->flags, "");
#elif BREAK == ARENA
	sum = !bpf_map_lookup_elem(&arena, (void *)&far);
#elif BREAK == SAME_DSQ
	scx_bpf_create_dsq(SHARED_DSQ, -1);
#elif BREAK == NO_NODE
	return scx_bpf_create_dsq(SHARED_DSQ, 1);
#elif BREAK == BUILTIN_DSQ
	return scx_bpf_create_dsq(SCX_DSQ_GLOBAL, -1);
#endif
	return scx_bpf_create_dsq(SHARED_DSQ, -1);
}

void BPF_STRUCT_OPS(broken_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(broken_ops, .enqueue = (void *)broken_enqueue, .dispatch = (void *)broken_dispatch,
	       .running = (void *)broken_running, .init_task = (void *)broken_init_task,
	       .init = (void *)broken_init, .exit = (void *)broken_exit, .timeout_ms = 4000,
	       .name = OPS_NAME);
