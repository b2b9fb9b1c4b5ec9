/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One queue by vtime: the later in the alphabet, the smaller. `base` moves all of them; with
 * `all_equal` they are the same.
 */
#include <scx/common.bpf.h>

const volatile unsigned long long base = 1000;
const volatile _Bool all_equal;

#define ENQUEUE(p, enq_flags) insert_ordered(p, enq_flags)

struct task_struct;
static void insert_ordered(struct task_struct *p, unsigned long long enq_flags);

#include "recorder.h"

static void insert_ordered(struct task_struct *p, u64 enq_flags)
{
	char comm[sizeof(p->comm)];
	u64 vtime = base;

	__builtin_memcpy(comm, p->comm, sizeof(comm));
	if (!all_equal)
		vtime += 'Z' - comm[0];
	scx_bpf_dsq_insert_vtime(p, SHARED_DSQ, slice_ns, vtime, enq_flags);
}
