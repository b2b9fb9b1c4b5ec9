/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One mistake of many, chosen by -DMISTAKE: each must end the scheduler. X makes it. */
#include <scx/common.bpf.h>

#define BOGUS_DSQ	   0xbeef

#define DOUBLE_INSERT	   1
#define BOGUS_INSERT	   2
#define BOGUS_VTIME_INSERT 3
#define VTIME_INTO_LOCAL   4
#define MIXED_ORDER	   5
#define OTHER_TASK	   6
#define BOGUS_MOVE	   7
#define BAD_KICK	   8
#define BAD_CPU		   9
#define INSERT_IN_TICK	   10
#define KICK_IDLE_PREEMPT  11

struct task_struct;
static void enqueue_wrong(struct task_struct *p, unsigned long long enq_flags);
static void dispatch_wrong(void);
static void tick_wrong(struct task_struct *p);

#define SELECT_CPU(p, prev_cpu, wake_flags) (MISTAKE == BAD_CPU && is_x(p) ? 9999 : (prev_cpu))
#define ENQUEUE(p, enq_flags)		    enqueue_wrong(p, enq_flags)
#define DISPATCH(cpu, prev)		    dispatch_wrong()
#define TICK(p)				    tick_wrong(p)

#include "recorder.h"

static bool x_came;

static void enqueue_wrong(struct task_struct *p, u64 enq_flags)
{
	if (is_x(p)) {
		x_came = true;
	} else {
		scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);
		return;
	}
	switch (MISTAKE) {
	case BOGUS_INSERT:
		scx_bpf_dsq_insert(p, BOGUS_DSQ, slice_ns, enq_flags);
		break;
	case BOGUS_VTIME_INSERT:
		scx_bpf_dsq_insert_vtime(p, BOGUS_DSQ, slice_ns, 0, enq_flags);
		break;
	case VTIME_INTO_LOCAL:
		scx_bpf_dsq_insert_vtime(p, SCX_DSQ_LOCAL, slice_ns, 0, enq_flags);
		break;
	case MIXED_ORDER:
		scx_bpf_dsq_insert_vtime(p, SHARED_DSQ, slice_ns, 0, enq_flags);
		break;
	case DOUBLE_INSERT:
		scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);
		scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);
		break;
	case OTHER_TASK: {
		struct task_struct *other = bpf_task_from_pid(1);

		if (other) {
			scx_bpf_dsq_insert(other, SHARED_DSQ, slice_ns, enq_flags);
			bpf_task_release(other);
		}
		break;
	}
	case BAD_KICK:
		scx_bpf_kick_cpu(9999, 0);
		break;
	case KICK_IDLE_PREEMPT:
		scx_bpf_kick_cpu(0, SCX_KICK_IDLE | SCX_KICK_PREEMPT);
		break;
	default:
		scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, enq_flags);
	}
}

static void dispatch_wrong(void)
{
	scx_bpf_dsq_move_to_local(MISTAKE == BOGUS_MOVE && x_came ? BOGUS_DSQ : SHARED_DSQ, 0);
}

static void tick_wrong(struct task_struct *p)
{
#if MISTAKE == INSERT_IN_TICK
	scx_bpf_dsq_insert(p, SHARED_DSQ, slice_ns, 0);
#endif
}
