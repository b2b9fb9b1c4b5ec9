/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handles by which the unit tests reach ULE's arithmetic one function at a time: programs of
 * eight words, numbers in and results out in the same words.
 */
#include <scx/common.bpf.h>

#include "../ule.bpf.c"

struct words {
	s64 w[8];
};

/* Tunables and topology take effect. Out: error, tickincr, slices, history limits, balancer. */
SEC("syscall")
int t_setup(struct words *x)
{
	x->w[0] = params_init();
	if (!x->w[0])
		x->w[0] = cpus_init();
	x->w[1] = par.tickincr;
	x->w[2] = par.slice;
	x->w[3] = par.slice_min;
	x->w[4] = par.slp_run_max;
	x->w[5] = par.slp_run_fork;
	x->w[6] = par.balance_interval;
	x->w[7] = par.nr_slots;
	return 0;
}

/* In: run, slept, nice. Out: full penalty, penalty, score. */
SEC("syscall")
int t_score(struct words *x)
{
	x->w[3] = penalty_full(x->w[0], x->w[1]);
	x->w[4] = policy_penalty(x->w[0], x->w[1]);
	x->w[5] = interact_score(x->w[0], x->w[1], x->w[2]);
	return 0;
}

/* In: run, slept, CPU ticks, window, nice. Out: priority. */
SEC("syscall")
int t_pri(struct words *x)
{
	x->w[5] = timeshare_pri(x->w[0], x->w[1], x->w[2], x->w[3], x->w[4]);
	return 0;
}

/* In and out: run, slept. */
SEC("syscall")
int t_cap(struct words *x)
{
	u32 run = x->w[0], slept = x->w[1];

	history_cap(&run, &slept);
	x->w[0] = run;
	x->w[1] = slept;
	return 0;
}

/* In and out: run, slept. */
SEC("syscall")
int t_fork(struct words *x)
{
	u32 run = x->w[0], slept = x->w[1];

	history_fork(&run, &slept);
	x->w[0] = run;
	x->w[1] = slept;
	return 0;
}

/* In: CPU ticks, ftick, ltick, now, whether it ran. Out: the first three. */
SEC("syscall")
int t_pctcpu(struct words *x)
{
	struct ule_task t = {
		.cpu_ticks = x->w[0],
		.ftick = x->w[1],
		.ltick = x->w[2],
	};

	pctcpu_update(&t, x->w[3], x->w[4]);
	x->w[0] = t.cpu_ticks;
	x->w[1] = t.ftick;
	x->w[2] = t.ltick;
	return 0;
}

/* In: load. Out: slice in ticks. */
SEC("syscall")
int t_slice(struct words *x)
{
	x->w[1] = slice_of(x->w[0]);
	return 0;
}

/* In: priority, idx, ridx. Out: absolute slot. */
SEC("syscall")
int t_slot(struct words *x)
{
	x->w[3] = calendar_slot(x->w[0], x->w[1], x->w[2]);
	return 0;
}

/* In and out: idx, ridx. In: first slot that holds a task, whether a tick or only a removal. */
SEC("syscall")
int t_calendar(struct words *x)
{
	u64 idx = x->w[0], ridx = x->w[1];

	if (x->w[3])
		calendar_tick(&idx, &ridx, x->w[2]);
	else
		calendar_fold(idx, &ridx, x->w[2]);
	x->w[0] = idx;
	x->w[1] = ridx;
	return 0;
}

/* In: CPU, priority, whether at the head. Out: queue key. */
SEC("syscall")
int t_queue_key(struct words *x)
{
	x->w[3] = runq_key(x->w[0], cpu_ctx(x->w[0]), x->w[1], x->w[2]);
	return 0;
}

/* In: CPU, time in ns, whether a tick or a task that starts. Out: ULE ticks due. */
SEC("syscall")
int t_ticks(struct words *x)
{
	struct ule_cpu *c = cpu_ctx(x->w[0]);

	x->w[3] = 0;
	if (x->w[2])
		x->w[3] = ticks_due(&c->ticks, x->w[1], par.tick_ns);
	else
		ticks_skip(&c->ticks, x->w[1], par.tick_ns);
	return 0;
}

/* In: CPU, load, lowpri. One of its tasks runs. */
SEC("syscall")
int t_cpu_set(struct words *x)
{
	struct ule_cpu *c = cpu_ctx(x->w[0]);

	c->load = x->w[1];
	c->lowpri = x->w[2];
	c->runs_free = c->load > 0;
	return 0;
}

/* In: CPU, level, whether highest, limit, min_pri, prefer, whether to leave out CPU. Out: CPU. */
SEC("syscall")
int t_search(struct words *x)
{
	struct search q = {
		.cpu = x->w[0],
		.level = x->w[1],
		.mask = SEARCH_UNTRIED,
		.highest = x->w[2],
		.limit = x->w[3],
		.min_pri = x->w[4],
		.prefer = x->w[5],
	};
	struct ule_cpu *c = cpu_ctx(q.cpu);

	c->tried[0] = x->w[6] ? 1ULL << q.cpu : 0;
	x->w[7] = search(&q, NULL);
	return 0;
}

/* In and out: state. Out: number. */
SEC("syscall")
int t_lcg(struct words *x)
{
	u32 state = x->w[0];

	x->w[1] = lcg_next(&state);
	x->w[0] = state;
	return 0;
}
