/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Says in its refusal what its tunables are: the test reads the values that arrived. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

const volatile u64 wide = 1;
const volatile s32 negative = 2;
const volatile bool flag = false;
const volatile u8 narrow = 3;
const volatile u32 untouched = 4;

s32 BPF_STRUCT_OPS_SLEEPABLE(tunables_fail_init)
{
	scx_bpf_error("wide=%llu negative=%d flag=%d narrow=%d untouched=%d", wide, negative, flag,
		      narrow, untouched);
	return -EINVAL;
}

void BPF_STRUCT_OPS(tunables_fail_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(tunables_fail_ops, .init = (void *)tunables_fail_init,
	       .exit = (void *)tunables_fail_exit, .name = "tunables_fail");
