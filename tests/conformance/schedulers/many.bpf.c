/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Many of everything: 1024 queues, a value for each task, a bit for each CPU. */
#include <scx/common.bpf.h>

#define NR_DSQS		      1024

#define ENQUEUE(p, enq_flags) scx_bpf_dsq_insert(p, 1 + (p)->pid % NR_DSQS, slice_ns, enq_flags)
#define DISPATCH(cpu, prev)   take_any()
#define INIT()		      create_all()
#define INIT_TASK(p)	      remember(p)
#define RUNNING(p)	      count_run(p)

struct task_struct;
static int create_all(void);
static int remember(struct task_struct *p);
static void count_run(struct task_struct *p);
static void take_any(void);

#include "recorder.h"

struct task_value {
	u64 runs;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_value);
} values SEC(".maps");

static int create_all(void)
{
	s32 i, err;

	bpf_for (i, 0, NR_DSQS) {
		err = scx_bpf_create_dsq(1 + i, -1);
		if (err)
			return err;
	}
	return 0;
}

static int remember(struct task_struct *p)
{
	return bpf_task_storage_get(&values, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
}

static void count_run(struct task_struct *p)
{
	struct task_value *value = bpf_task_storage_get(&values, p, 0, 0);

	if (!value) {
		scx_bpf_error("%d has no storage", p->pid);
		return;
	}
	value->runs++;
	TILT_PROBE_TASK(runs, p, value->runs);
}

static void take_any(void)
{
	s32 i;

	bpf_for (i, 0, NR_DSQS) {
		if (scx_bpf_dsq_move_to_local(1 + i, 0))
			return;
	}
}
