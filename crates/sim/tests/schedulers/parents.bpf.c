/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reports whose child each task is, and who leads its process: what crates/sim/tests/rules.rs
 * expects to hear.
 */
#include <scx/common.bpf.h>
#include "tiltyard.bpf.h"

char _license[] SEC("license") = "GPL";

void BPF_STRUCT_OPS(parents_runnable, struct task_struct *p, u64 enq_flags)
{
	TILT_PROBE_TASK(parent, p, p->real_parent->pid);
	TILT_PROBE_TASK(leader, p, p->group_leader->pid);
}

SCX_OPS_DEFINE(parents_ops, .runnable = (void *)parents_runnable, .name = "parents");
