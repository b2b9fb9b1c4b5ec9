/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Its init() fails: the scheduler must never take charge. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

s32 BPF_STRUCT_OPS_SLEEPABLE(init_fail_init)
{
	scx_bpf_error("no queue today");
	return -ENOMEM;
}

void BPF_STRUCT_OPS(init_fail_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(init_fail_ops, .init = (void *)init_fail_init, .exit = (void *)init_fail_exit,
	       .name = "init_fail");
