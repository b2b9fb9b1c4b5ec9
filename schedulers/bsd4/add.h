/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sched_add: a task joins a queue, and somebody is to run it. For the global queue all idle CPUs
 * are woken, and race for the task. If there is none, only the task that runs on this CPU can be
 * asked to make way: worse ones on other CPUs go on until they sleep or their turn is over.
 */
#pragma once

#include "runq.h"

enum add_flags {
	/* The task has just lost this CPU. */
	ADD_YIELDING = 1,
	/* An interrupt wakes its thread. */
	ADD_INTERRUPT = 2,
	/* By schedcpu(), a kernel thread that no task in user mode can beat. */
	ADD_SCHEDCPU = 4,
	/* To the head of its FIFO. */
	ADD_HEAD = 8,
};

/* Wakes all idle CPUs but this one. False: there is none. */
static __noinline bool wake_idle(s32 self)
{
	bool woken = false;
	s32 cpu, word, n;

	if (ipiwakeup_useloop) {
		bpf_for (cpu, 0, nr_cpus) {
			struct bsd4_cpu *c = cpu_ctx(cpu);

			if (cpu == self || READ_ONCE(c->curr) ||
			    READ_ONCE(c->other_pri) != PRI_IDLE)
				continue;
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
			woken = true;
		}
		return woken;
	}
	bpf_for (word, 0, (nr_cpus + 63) / 64) {
		u64 idle = READ_ONCE(idle_mask[word & (MAX_CPUS / 64 - 1)]);

		if (self / 64 == word)
			idle &= ~(1ULL << (self & 63));
		bpf_for (n, 0, 64) {
			if (!idle)
				break;
			scx_bpf_kick_cpu(word * 64 + __builtin_ctzll(idle), SCX_KICK_IDLE);
			idle &= idle - 1;
			woken = true;
		}
	}
	return woken;
}

/* False: nobody has been informed of the task. */
static __always_inline bool forward_wakeup(s32 self)
{
	if (!ipiwakeup_enabled || (!ipiwakeup_usemask && !ipiwakeup_useloop))
		return false;
	return wake_idle(self);
}

/* The rule of maybe_preempt and kick_other_cpu. */
static __always_inline bool preempts(u32 pri, u32 running, bool enabled)
{
	if (!enabled || pri >= running)
		return false;
	return full_preemption || pri <= PRI_MAX_INTERRUPT;
}

/* kick_other_cpu: a task has joined the queue of another CPU. */
static __always_inline void kick_other_cpu(s32 cpu, u32 pri)
{
	struct bsd4_cpu *c = cpu_ctx(cpu);
	u32 running;

	if (cpu_idles(cpu)) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	running = running_pri(c);
	if (pri >= running)
		return;
	if (preempts(pri, running, preemption && ipi_preemption))
		WRITE_ONCE(c->preempt_remote, true);
	else
		WRITE_ONCE(c->resched, true);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* The running task is about to sleep, and leaves its CPU without being preempted. */
static __always_inline bool curr_inhibited(void)
{
	struct task_struct *curr = bpf_get_current_task_btf();

	return curr && curr->__state;
}

/* maybe_preempt and maybe_resched. Anything preempts the idle class. The kernel itself wakes this
 * CPU if it is idle. */
static __always_inline void maybe_resched(s32 self, u32 pri, bool may_preempt)
{
	struct bsd4_cpu *c = cpu_ctx(self);
	u32 running = running_pri(c);

	if (pri >= running || cpu_idles(self))
		return;
	if (may_preempt && (preempts(pri, running, true) || running >= PRI_MIN_IDLE) &&
	    !curr_inhibited())
		WRITE_ONCE(c->preempt, true);
	WRITE_ONCE(c->resched, true);
	scx_bpf_kick_cpu(self, SCX_KICK_PREEMPT);
}

/* A task of priority @pri joins @queue: who is to run it? Not static, so that the verifier looks at
 * it once. */
__noinline int add_notify(u64 queue, u32 pri, u32 flags)
{
	s32 self = bpf_get_smp_processor_id();

	if (queue == QUEUE_GLOBAL) {
		if (!(flags & ADD_INTERRUPT) && !cpu_idles(self) && forward_wakeup(self))
			return 0;
	} else if (queue != (u64)self) {
		kick_other_cpu(queue, pri);
		return 0;
	}
	/* The task that has just lost this CPU asks nobody else. */
	if ((flags & ADD_YIELDING) && !READ_ONCE(cpu_ctx(self)->curr))
		return 0;
	if (!(flags & ADD_SCHEDCPU))
		maybe_resched(self, pri, preemption && !(flags & ADD_YIELDING));
	return 0;
}

/* The queue for a task that leaves @from; @cpu is where the kernel has it. */
static __always_inline u64 add_queue(struct task_struct *p, struct bsd4_task *t, s32 cpu, u64 from)
{
	if (!is_restricted(p))
		return QUEUE_GLOBAL;
	return pick_cpu(p, READ_ONCE(t->last_cpu), cpu, from);
}
