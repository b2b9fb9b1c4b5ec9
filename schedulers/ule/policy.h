/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The two ULEs: FreeBSD's, and its port to Linux. They share all that is in the other files, and
 * differ in the functions below and in the figures of port_params() and freebsd_params(). A POLICY
 * has a function in freebsd.h and one in port.h; what is FREEBSD_ONLY has one in freebsd.h, and the
 * port's answer stands here. policy_NAME() calls the one that runs.
 */
#pragma once

#include "cpu.h"

struct ule_task;

/* FreeBSD's function; in the port the answer is @in_port. */
#define FREEBSD_ONLY(type, name, params, args, in_port)                                            \
	static type freebsd_##name params;                                                         \
	static __always_inline type policy_##name params                                           \
	{                                                                                          \
		return par.port ? in_port : freebsd_##name args;                                   \
	}

#define POLICY(type, name, params, args)                                                           \
	static type port_##name params;                                                            \
	FREEBSD_ONLY(type, name, params, args, port_##name args)

/* clang-format off */

/* Fills the rest of `par`. */
POLICY(void, params, (void), ())

/* A task's priority. */
FREEBSD_ONLY(bool, is_idle_class, (const struct task_struct *p), (p), false)
POLICY(u32, penalty, (u32 run, u32 slept), (run, slept))
/* What nice adds to a batch priority. */
POLICY(s32, batch_nice, (s32 nice), (nice))
/* t->user_pri has been computed; the task returns to user mode: when does it become t->pri? */
POLICY(void, pri_computed, (struct ule_task *t), (t))
FREEBSD_ONLY(void, pri_apply, (struct task_struct *p, struct ule_task *t), (p, t), (void)0)

/* A task wakes up: before it is placed. The port places it by the priority that it had before it
 * slept: runnable() accounts the sleep. */
FREEBSD_ONLY(void, waking, (struct task_struct *p, struct ule_task *t, u64 now), (p, t, now),
	     (void)0)
/* Where a task that wakes up or is new runs. */
POLICY(s32, pickcpu, (struct task_struct *p, struct ule_task *t, s32 prev, u64 now),
       (p, t, prev, now))
/* Where a task goes whose mask forbids the CPU where it waited or ran; the core has chosen @cpu.
 * Linux takes any CPU of the mask. */
FREEBSD_ONLY(s32, displaced, (struct task_struct *p, struct ule_task *t, s32 cpu), (p, t, cpu), cpu)
/* A task that waited on this CPU and has been changed keeps its place, and does not get that of
 * @key. Linux puts it at the tail. */
FREEBSD_ONLY(bool, keeps_place, (struct task_struct *p, struct ule_cpu *c, u64 key), (p, c, key),
	     false)
/* A task of priority @pri has been queued on @cpu. The port leaves the running one alone. */
FREEBSD_ONLY(void, preempt_check, (s32 cpu, struct ule_cpu *c, u32 pri), (cpu, c, pri), (void)0)

/* A task has been chosen to run: its slot and priority are the CPU's. No task is left to run: in the
 * port the idle task has a priority that nobody has set, and lowpri stays as it is. */
POLICY(void, cpu_runs, (struct ule_cpu *c, u32 pri, u64 slot), (c, pri, slot))
FREEBSD_ONLY(void, cpu_idles, (struct ule_cpu *c), (c), ({ WRITE_ONCE(c->curr_pri, 0); }))
/* The running task's share in the best priority of a CPU. In the port a task that leaves to sleep is
 * still the current one. */
FREEBSD_ONLY(u32, running_pri, (struct ule_cpu *c), (c), READ_ONCE(c->curr_pri))

/* Moving tasks: whether a CPU is asked for one, and has one to give; the least load at which it is
 * asked by @cpu, an idle one of its group at @level; @to has got one from the balancer. The port
 * asks by the load alone, whether tasks wait or not. */
FREEBSD_ONLY(bool, may_ask, (struct ule_cpu *c), (c), true)
FREEBSD_ONLY(bool, may_give, (struct ule_cpu *c), (c), READ_ONCE(c->load) > 1)
FREEBSD_ONLY(u32, steal_load, (s32 cpu, u32 level), (cpu, level), 2)
FREEBSD_ONLY(void, received, (s32 to, struct ule_cpu *c), (to, c),
	     scx_bpf_kick_cpu(to, SCX_KICK_PREEMPT))

/* Whether a new task's history is cut, and its creation charged. Who inherits its run time. */
FREEBSD_ONLY(bool, accounts_fork, (const struct task_struct *child), (child), true)
POLICY(s32, heir_pid, (struct task_struct *p), (p))

/* clang-format on */

/* Fills `par`. Returns -EINVAL for tunables that describe no machine. */
static int params_init(void)
{
	if (mode > MODE_FREEBSD) {
		scx_bpf_error("ule: mode=%u; use 0 (port) or 1 (freebsd)", mode);
		return -EINVAL;
	}
	if (!hz || hz > 10000) {
		scx_bpf_error("ule: hz=%u; use 1..10000", hz);
		return -EINVAL;
	}
	if (mode == MODE_FREEBSD && (!stathz || stathz > hz)) {
		scx_bpf_error("ule: stathz=%u; use 1..%u, which is hz", stathz, hz);
		return -EINVAL;
	}
	if (!history_ms || history_ms > 60000 || load_sleep_ms > 60000) {
		scx_bpf_error("ule: history_ms=%u load_sleep_ms=%u; use 1..60000, 0..60000",
			      history_ms, load_sleep_ms);
		return -EINVAL;
	}
	par.port = mode == MODE_PORT;
	par.hz_ns = NSEC_PER_SEC / hz;
	par.slp_run_max = (u64)history_ms * hz / 1000 << SCHED_TICK_SHIFT;
	par.slp_run_fork = (u64)fork_history_ms * hz / 1000 << SCHED_TICK_SHIFT;
	par.load_sleep = (u64)load_sleep_ms * hz / 1000 << SCHED_TICK_SHIFT;
	par.pct_targ = 10 * hz;
	par.pct_max = 11 * hz;
	policy_params();
	return 0;
}
