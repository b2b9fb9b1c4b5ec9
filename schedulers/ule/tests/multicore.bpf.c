/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handles by which multicore.rs sets up machines and lets ULE decide on them: programs of eight
 * words. All searches and takings are logged, in their order.
 */
#include <scx/common.bpf.h>
#include "tiltyard.bpf.h"
#include "../take.h"

struct words {
	s64 w[8];
};

enum logged_what { LOG_LOWEST, LOG_HIGHEST, LOG_TAKE };

/* Whether lowest, highest, or a taking; its CPU (the victim) and level (the taker), limit, least
 * priority; the CPU (priority) found. */
static struct words logged[16384];
static u32 nr_logged;

static s64 *log_next(enum logged_what what, s64 a, s64 b)
{
	s64 *w = logged[nr_logged++ & 16383].w;

	w[0] = what;
	w[1] = a;
	w[2] = b;
	return w;
}

static s32 logged_search(struct search *q, struct task_struct *p)
{
	s64 *w = log_next(q->highest ? LOG_HIGHEST : LOG_LOWEST, q->cpu, q->level);

	w[3] = q->limit;
	w[4] = q->min_pri;
	w[5] = search(q, p);
	return w[5];
}

static u32 logged_take_one(s32 from, s32 to, bool now)
{
	s64 *w = log_next(LOG_TAKE, from, to);

	w[5] = take_one(from, to, now);
	return w[5];
}

#define search(q, p)		logged_search(q, p)
#define take_one(from, to, now) logged_take_one(from, to, now)
#include "../ule.bpf.c"
#undef search

/* Out: error, slots of the calendar, levels in use. */
SEC("syscall")
int t_setup(struct words *x)
{
	x->w[0] = params_init();
	if (!x->w[0])
		x->w[0] = cpus_init();
	x->w[1] = par.nr_slots;
	x->w[2] = topo.levels;
	x->w[3] = par.tick_ns;
	return 0;
}

/* In: CPU, load, pinned, priority of its running task or -1, lowpri, generator. */
SEC("syscall")
int t_cpu(struct words *x)
{
	struct ule_cpu *c = cpu_ctx(x->w[0]);

	c->load = x->w[1];
	c->pinned = x->w[2];
	c->running = x->w[3] >= 0;
	c->runs_free = c->running;
	if (c->running)
		c->curr_pri = x->w[3];
	c->lowpri = x->w[4];
	c->lcg = x->w[5];
	return 0;
}

/* In: CPU, idx, ridx, slot of its running task or -1. */
SEC("syscall")
int t_calendar(struct words *x)
{
	struct ule_cpu *c = cpu_ctx(x->w[0]);

	c->idx = x->w[1];
	c->ridx = x->w[2];
	c->run_slot = x->w[3];
	return 0;
}

/* In: CPU. Out: load, transferable, lowpri, idx, ridx as it is stored and as its next use finds
 * it, generator, whether it owes a preemption. */
SEC("syscall")
int t_cpu_get(struct words *x)
{
	s32 cpu = x->w[0];
	struct ule_cpu *c = cpu_ctx(cpu);
	u64 ridx = c->ridx;

	calendar_fold(c->idx, &ridx, runq_first_slot(cpu, c));
	x->w[0] = c->load;
	x->w[1] = transferable(c);
	x->w[2] = c->lowpri;
	x->w[3] = c->idx;
	x->w[4] = c->ridx;
	x->w[5] = ridx;
	x->w[6] = c->lcg;
	x->w[7] = c->owe_preempt;
	return 0;
}

/* In: task, priority, CPU that counts it or -1, ticks of its slice, time it last ran, time to which
 * its share of the CPU counts. */
SEC("syscall")
int t_task(struct words *x)
{
	struct task_struct *p = (struct task_struct *)x->w[0];
	struct ule_task *t;

	t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t)
		return -1;
	t->pri = x->w[1];
	t->user_pri = x->w[1];
	t->book = x->w[2] < 0 ? -1 : x->w[2] << 1 | is_pinned(p);
	t->slice_used = x->w[3];
	t->rltick = x->w[4];
	/* A wakeup has just brought its share of the CPU up to date: that is no run. */
	t->ltick = x->w[5];
	return 0;
}

/* In: task. Out: CPU that counts it, ticks of its slice. */
SEC("syscall")
int t_task_get(struct words *x)
{
	struct ule_task *t = task_ctx((struct task_struct *)x->w[0]);

	x->w[0] = t->book >> 1;
	x->w[1] = t->slice_used;
	return 0;
}

/* In: CPU, whether it may be searched; for either kind of search. */
SEC("syscall")
int t_mask(struct words *x)
{
	struct ule_cpu *c = cpu_ctx(x->w[0]);

	c->donor = x->w[1];
	c->taker = x->w[1];
	return 0;
}

/* In: CPU, level, whether the highest, limit, min_pri, prefer. Out: CPU, load of the group, key;
 * the load and the key stay with the balancer, by whose mask this goes. */
SEC("syscall")
int t_search(struct words *x)
{
	struct search q = {
		.cpu = x->w[0],
		.level = x->w[1],
		.mask = x->w[2] ? SEARCH_DONORS : SEARCH_TAKERS,
		.highest = x->w[2],
		.limit = x->w[3],
		.min_pri = x->w[4],
		.prefer = x->w[5],
	};
	struct descent_best *best = &searches[MAX_CPUS].best[q.level & (NR_TOPO - 1)];

	x->w[0] = search(&q, NULL);
	x->w[1] = best->load_sum;
	x->w[2] = best->key;
	return 0;
}

/* In: task, CPU where it ran last, time in hz ticks. Out: CPU. */
SEC("syscall")
int t_pickcpu(struct words *x)
{
	struct task_struct *p = (struct task_struct *)x->w[0];

	x->w[3] = policy_pickcpu(p, task_ctx(p), x->w[1], x->w[2]);
	return 0;
}

/* In: CPU. Out: whether it stole. */
SEC("syscall")
int t_steal(struct words *x)
{
	x->w[1] = steal(x->w[0]);
	return 0;
}

SEC("syscall")
int t_balance(struct words *x)
{
	balance_pass();
	return 0;
}

SEC("syscall")
int t_balance_one(struct words *x)
{
	balance_one();
	return 0;
}

SEC("syscall")
int t_balance_init(struct words *x)
{
	x->w[0] = balance_init();
	return 0;
}

/* In: CPU that gets the interrupt. */
SEC("syscall")
int t_interrupt(struct words *x)
{
	freebsd_interrupt(x->w[0], cpu_ctx(x->w[0]));
	return 0;
}

/* In: priority, running priority, whether on another CPU. Out: whether it preempts. */
SEC("syscall")
int t_should_preempt(struct words *x)
{
	x->w[3] = should_preempt(x->w[0], x->w[1], x->w[2]);
	return 0;
}

/* In: number. Out: what was logged, and in the last word whether there is that much. */
SEC("syscall")
int t_log(struct words *x)
{
	u32 i = x->w[0];

	x->w[7] = i < nr_logged;
	if (!x->w[7])
		return 0;
	x->w[0] = logged[i & 16383].w[0];
	x->w[1] = logged[i & 16383].w[1];
	x->w[2] = logged[i & 16383].w[2];
	x->w[3] = logged[i & 16383].w[3];
	x->w[4] = logged[i & 16383].w[4];
	x->w[5] = logged[i & 16383].w[5];
	return 0;
}
