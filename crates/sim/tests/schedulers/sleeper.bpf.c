/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes what a task has at the end of its turn and reads it when the task wakes up, maybe on
 * another CPU: only p->on_cpu orders the two. Even pids have one CPU, odd ones the other.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

struct turn {
	u64 ended_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct turn);
} turns SEC(".maps");

s32 BPF_STRUCT_OPS(sleeper_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct turn *t = bpf_task_storage_get(&turns, p, NULL, 0);

	if (t && t->ended_ns > bpf_ktime_get_ns())
		scx_bpf_error("the turn has not ended yet");
	return p->pid & 1;
}

void BPF_STRUCT_OPS(sleeper_stopping, struct task_struct *p, bool runnable)
{
	struct turn *t = bpf_task_storage_get(&turns, p, NULL, 0);

	if (t)
		t->ended_ns = bpf_ktime_get_ns();
}

s32 BPF_STRUCT_OPS(sleeper_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return bpf_task_storage_get(&turns, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
}

SCX_OPS_DEFINE(sleeper_ops, .select_cpu = (void *)sleeper_select_cpu,
	       .stopping = (void *)sleeper_stopping, .init_task = (void *)sleeper_init_task,
	       .name = "sleeper");
