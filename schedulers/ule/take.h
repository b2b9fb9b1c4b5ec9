/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Takes a task out of another CPU's queues, for a CPU that steals or by the balancer. Running tasks
 * are never moved.
 */
#pragma once

#include "search.h"

/* Which tasks of a CPU are in question, in the order in which they are. */
enum take {
	TAKE_RT,
	TAKE_CALENDAR, /* but for its head, if that is spared */
	TAKE_HEAD,
	TAKE_IDLE,
};

static bool in_question(enum take what, u64 class, bool head)
{
	switch (what) {
	case TAKE_RT:
		return true;
	case TAKE_CALENDAR:
		return class == CLASS_TS && !(head && par.spares_head);
	case TAKE_HEAD:
		return class == CLASS_TS && head;
	case TAKE_IDLE:
		return class == CLASS_IDLE;
	}
	return false;
}

/*
 * Moves the first task in question of @from that may run on @to into the queues of @to, or, if
 * @now, straight to that CPU, which dispatches. Returns its priority, PRI_IDLE if there was none.
 */
static __noinline u32 take(s32 from, s32 to, enum take what, bool now)
{
	struct ule_cpu *c = cpu_ctx(to);
	u32 found = PRI_IDLE;
	struct task_struct *p;
	bool first = true;

	bpf_for_each (scx_dsq, p, runq_id(from, what == TAKE_RT ? RUNQ_RT : RUNQ_TS), 0) {
		u64 class = p->scx.dsq_vtime >> KEY_CLASS_SHIFT, key;
		struct ule_task *t;
		bool head = first;
		s32 booked;
		u32 pri;

		first = false;
		if (!in_question(what, class, head))
			continue;
		t = task_ctx(p);
		if (!t || !allowed(p, to) || is_pinned(p))
			continue;
		pri = READ_ONCE(t->pri);
		key = runq_key(to, c, pri, false);
		/*
		 * Before the move, not after it: the move publishes the task, and running()
		 * elsewhere would find it not booked. If the kernel has taken the task away
		 * meanwhile, the move fails, and what is lost is the slice of a task that runs just
		 * now. Partner: clock() on the CPU that has taken it.
		 */
		if (par.queue_restarts)
			WRITE_ONCE(t->slice_used, 0);
		booked = book_set(t, to << 1);
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, key);
		if (now ? scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0)
			: scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, runq_id(to, key_runq(key)),
						 0)) {
			found = pri;
			break;
		}
		book_unset(t, to << 1, booked);
	}
	return found;
}

/*
 * Whether the head of @cpu's calendar, which is next to run, is given away when nothing behind it
 * can be. FreeBSD looks through the slots from ridx to the last one of the ring and then through
 * all again, unless ridx is 0, and passes over the first task it meets, once. So it meets the head
 * again if that was in the first part; else the head goes only if it is alone.
 */
static __noinline bool head_goes(s32 cpu, struct ule_cpu *v)
{
	u64 ridx = READ_ONCE(v->ridx), head = SLOT_NONE;
	struct task_struct *p;
	u32 nr = 0;

	bpf_for_each (scx_dsq, p, runq_id(cpu, RUNQ_TS), 0) {
		u64 slot = key_slot(p->scx.dsq_vtime);

		if (slot == SLOT_NONE || nr++)
			break;
		head = slot;
	}
	if (nr < 2)
		return nr;
	calendar_fold(READ_ONCE(v->idx), &ridx, head);
	return ridx % par.nr_slots && ridx / par.nr_slots == head / par.nr_slots;
}

/* Moves one task, if @from has one to give; see take(). */
static u32 take_one(s32 from, s32 to, bool now)
{
	struct ule_cpu *v = cpu_ctx(from);
	u32 pri;

	if (!policy_may_give(v))
		return PRI_IDLE;
	pri = take(from, to, TAKE_RT, now);
	if (pri == PRI_IDLE)
		pri = take(from, to, TAKE_CALENDAR, now);
	if (pri == PRI_IDLE && par.spares_head && head_goes(from, v))
		pri = take(from, to, TAKE_HEAD, now);
	if (pri == PRI_IDLE && par.spares_head)
		pri = take(from, to, TAKE_IDLE, now);
	if (pri == PRI_IDLE)
		return PRI_IDLE;
	/* FreeBSD holds both CPUs' locks here; partners: enqueue(), freebsd_cpu_runs(),
	 * requeue_key(). */
	lowpri_lower(cpu_ctx(to), pri);
	if (pri == READ_ONCE(v->lowpri))
		lowpri_update(from, v);
	return pri;
}
