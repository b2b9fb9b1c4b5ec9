/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records what the kernel's scheduler does: one record for each event of Tiltyard's vocabulary,
 * through a ring buffer. Works on any kernel with BTF, with or without sched_ext.
 *
 * The layout of the records is src/trace/record.rs; the two change together.
 */
#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

enum tilt_kind {
	TILT_SWITCH = 0,
	TILT_WAKING = 1,
	TILT_WAKEUP_NEW = 2,
	TILT_MIGRATE = 3,
	TILT_EXIT = 4,
	/* These and TILT_RENAME are followed by the rest of struct tilt_task. */
	TILT_FORK = 5,
	TILT_EXEC = 6,
	TILT_FOUND = 7,
	/* 8 is a scheduler's probe. */
	TILT_RENAME = 9,
	TILT_NICE = 10,
};

struct tilt_event {
	u64 time_ns;
	u32 kind;
	u32 cpu;
	/* The task that it is about; of a switch, the one that leaves. */
	u32 tid;
	/* Switch: next; waking: waker, 0 for an interrupt; migrate: CPU it leaves; else the parent.
	 */
	u32 other;
	/* Switch: state, cause; waking, new, migrate: CPU it goes to; found: 1 unless it is asleep;
	 * nice: the value. */
	u32 detail;
	u32 tgid;
};

struct tilt_task {
	struct tilt_event event;
	u64 born_ns;
	s32 nice;
	char comm[16];
	/* PF_KTHREAD */
	u32 is_kernel;
};

enum tilt_state {
	TILT_RUNNABLE = 0,
	TILT_SLEEPING = 1,
	TILT_DEAD = 2,
};

enum tilt_cause {
	TILT_BLOCK = 0,
	TILT_SLICE_END = 1,
	TILT_PREEMPT = 2,
	TILT_HIGHER_CLASS = 3,
	TILT_FROM_IDLE = 6,
	TILT_UNKNOWN = 7,
};

/* Time within which a CPU gives up its task when asked to. Longer: it picked the same task again.
 */
#define PREEMPT_WITHIN_NS 1000000
#define MAX_CPUS	  8192

/* include/linux/sched.h, include/linux/sched/ext.h, include/linux/preempt.h */
#define TASK_DEAD	  0x80
#define EXIT_ANY	  0x30
#define PF_KTHREAD	  0x00200000
#define MAX_RT_PRIO	  100
#define DEFAULT_PRIO	  120
#define SCX_STATE_SHIFT	  8
#define SCX_STATE_ENABLED 3
#define NOT_TASK_CONTEXT                                                                           \
	0x00ff0000 /* hard interrupts and NMIs; soft ones below count by offset                    \
		    */
#define SOFTIRQ_SERVING 0x00000100

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	/* The loader makes it as large as the run needs. */
	__uint(max_entries, 1 << 20);
} tilt_events SEC(".maps");

/* When each CPU was last asked to give up its task. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, u64);
} tilt_preempted SEC(".maps");

/* Records that found no room. */
u64 tilt_lost;

extern const int __preempt_count __ksym __weak;

/* What runs on this CPU is an interrupt, not the current task. */
static bool in_interrupt(void)
{
	if (!&__preempt_count)
		return false;
	return *(int *)bpf_this_cpu_ptr(&__preempt_count) & (NOT_TASK_CONTEXT | SOFTIRQ_SERVING);
}

static void fill(struct tilt_event *event, u32 kind, struct task_struct *p, u32 other, u32 detail)
{
	event->time_ns = bpf_ktime_get_ns();
	event->kind = kind;
	event->cpu = bpf_get_smp_processor_id();
	event->tid = p->pid;
	event->other = other;
	event->detail = detail;
	event->tgid = p->tgid;
}

static void record(u32 kind, struct task_struct *p, u32 other, u32 detail)
{
	struct tilt_event *event;

	event = bpf_ringbuf_reserve(&tilt_events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&tilt_lost, 1);
		return;
	}
	fill(event, kind, p, other, detail);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static void describe(struct tilt_task *task, struct task_struct *p)
{
	task->born_ns = p->start_time;
	task->nice = p->static_prio - DEFAULT_PRIO;
	task->is_kernel = !!(p->flags & PF_KTHREAD);
	BPF_CORE_READ_STR_INTO(&task->comm, p, comm);
}

/* name: what it will be called, if not what it is. */
static void record_task(u32 kind, struct task_struct *p, u32 parent, const char *name)
{
	struct tilt_task *task;

	task = bpf_ringbuf_reserve(&tilt_events, sizeof(*task), 0);
	if (!task) {
		__sync_fetch_and_add(&tilt_lost, 1);
		return;
	}
	fill(&task->event, kind, p, parent, 0);
	describe(task, p);
	if (name)
		bpf_probe_read_kernel_str(task->comm, sizeof(task->comm), name);
	bpf_ringbuf_submit(task, BPF_RB_NO_WAKEUP);
}

static bool is_ext(struct task_struct *p)
{
	return bpf_core_field_exists(p->scx) &&
	       ((BPF_CORE_READ(p, scx.flags) >> SCX_STATE_SHIFT) & 3) == SCX_STATE_ENABLED;
}

static u64 *preempted(u32 cpu)
{
	return bpf_map_lookup_elem(&tilt_preempted, &cpu);
}

/*
 * Why a task that could go on leaves the CPU. The slice does not show it: to preempt a task is to
 * take its slice away, and the scheduler may have given it another since.
 */
static u32 cause_of(struct task_struct *prev, struct task_struct *next)
{
	u64 *told_ns = preempted(bpf_get_smp_processor_id());

	if (next->prio < MAX_RT_PRIO && prev->prio >= MAX_RT_PRIO)
		return TILT_HIGHER_CLASS;
	if (!is_ext(prev))
		return TILT_UNKNOWN;
	return told_ns && *told_ns && bpf_ktime_get_ns() - *told_ns < PREEMPT_WITHIN_NS
		       ? TILT_PREEMPT
		       : TILT_SLICE_END;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	u64 *told_ns = preempted(bpf_get_smp_processor_id());
	u32 state = TILT_RUNNABLE, cause;

	if (!prev->pid) {
		cause = TILT_FROM_IDLE;
	} else if (preempt || !prev_state) {
		cause = cause_of(prev, next);
	} else {
		cause = TILT_BLOCK;
		state = prev_state & (TASK_DEAD | EXIT_ANY) ? TILT_DEAD : TILT_SLEEPING;
	}
	record(TILT_SWITCH, prev, next->pid, state | cause << 8);
	if (told_ns)
		*told_ns = 0;
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *p)
{
	struct task_struct *waker = bpf_get_current_task_btf();

	record(TILT_WAKING, p, in_interrupt() ? 0 : waker->pid, p->thread_info.cpu);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *p)
{
	record(TILT_WAKEUP_NEW, p, 0, p->thread_info.cpu);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *p, int to)
{
	record(TILT_MIGRATE, p, p->thread_info.cpu, to);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *p)
{
	record(TILT_EXIT, p, 0, 0);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	record_task(TILT_FORK, child, parent->pid, NULL);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *p)
{
	record_task(TILT_EXEC, p, 0, NULL);
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *p, const char *comm)
{
	record_task(TILT_RENAME, p, 0, comm);
	return 0;
}

static void tell_to_let_go(u32 cpu)
{
	u64 *told_ns = preempted(cpu);

	if (told_ns)
		*told_ns = bpf_ktime_get_ns();
}

/* The two ways in which a scheduler preempts. Loaded where the kernel has them. */
SEC("?fentry/scx_bpf_kick_cpu")
int BPF_PROG(on_kick, s32 cpu, u64 flags)
{
	if (flags & SCX_KICK_PREEMPT)
		tell_to_let_go(cpu);
	return 0;
}

SEC("?fentry/scx_bpf_dsq_insert")
int BPF_PROG(on_insert, struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags)
{
	if (!(enq_flags & SCX_ENQ_PREEMPT))
		return 0;
	if (dsq_id == SCX_DSQ_LOCAL)
		tell_to_let_go(p->thread_info.cpu);
	else if ((dsq_id & SCX_DSQ_LOCAL_ON) == SCX_DSQ_LOCAL_ON)
		tell_to_let_go(dsq_id & SCX_DSQ_LOCAL_CPU_MASK);
	return 0;
}

SEC("?fentry/set_user_nice")
int BPF_PROG(on_nice, struct task_struct *p, long nice)
{
	/* In 32 bits: to extend a sign takes an instruction that 6.1 does not know. */
	if ((s32)nice != p->static_prio - DEFAULT_PRIO)
		record(TILT_NICE, p, 0, nice);
	return 0;
}

/* The tasks that are there already. */
SEC("iter/task")
int found(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct tilt_task task = {};

	if (!p)
		return 0;
	fill(&task.event, TILT_FOUND, p, p->real_parent->pid, !p->__state);
	task.event.cpu = p->thread_info.cpu;
	describe(&task, p);
	bpf_seq_write(ctx->meta->seq, &task, sizeof(task));
	return 0;
}
