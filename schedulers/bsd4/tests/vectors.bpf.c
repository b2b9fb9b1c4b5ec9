/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handles by which the tests set up machines and let 4BSD decide on them: programs of eight words.
 */
#include <scx/common.bpf.h>

#include "../bsd4.bpf.c"

struct words {
	s64 w[8];
};

static struct bsd4_task *task_in(s64 p)
{
	return task_of((struct task_struct *)p);
}

/* Out: error, online CPUs, a turn in statistics ticks, in hz ticks, ns of a tick. */
SEC("syscall")
int t_setup(struct words *x)
{
	x->w[0] = params_init();
	if (!x->w[0])
		x->w[0] = cpus_init();
	x->w[1] = par.nr_online;
	x->w[2] = par.slice;
	x->w[3] = par.quantum;
	x->w[4] = par.tick_ns;
	return 0;
}

/* In: CPUs for the arithmetic. Out: weight, limit of estcpu. */
SEC("syscall")
int t_cpus(struct words *x)
{
	params_of_cpus(x->w[0]);
	x->w[1] = par.estcpu_weight;
	x->w[2] = par.estcpu_max;
	return 0;
}

/* In: task, estcpu, seconds asleep, ticks in this second, share of a CPU, nice, class, turn. Makes
 * it known. Out: its slot. */
SEC("syscall")
int t_task(struct words *x)
{
	struct task_struct *p = (struct task_struct *)x->w[0];
	u32 i = slot_of(p) ?: slot_open(p);
	struct bsd4_task *t = task_at(i);

	t->pid = p->pid;
	t->est = x->w[1];
	t->slptime = x->w[2];
	t->cpticks = x->w[3];
	t->pctcpu = x->w[4];
	t->nice = x->w[5];
	t->class = x->w[6];
	t->slice = x->w[7];
	t->queue = QUEUE_NONE;
	x->w[0] = i;
	return 0;
}

/* In: task, computed and active priority, last CPU, whether it is runnable, runs, did run. */
SEC("syscall")
int t_state(struct words *x)
{
	struct bsd4_task *t = task_in(x->w[0]);

	if (!t)
		return -1;
	t->user_pri = x->w[1];
	t->pri = x->w[2];
	t->last_cpu = x->w[3];
	t->runnable = x->w[4];
	t->running = x->w[5];
	t->did_run = x->w[6];
	return 0;
}

/* In: task. Out: estcpu, seconds asleep, ticks in this second, share of a CPU, computed and active
 * priority, turn, last CPU. */
SEC("syscall")
int t_get(struct words *x)
{
	struct bsd4_task *t = task_in(x->w[0]);

	if (!t)
		return -1;
	x->w[0] = t->est;
	x->w[1] = t->slptime;
	x->w[2] = t->cpticks;
	x->w[3] = t->pctcpu;
	x->w[4] = t->user_pri;
	x->w[5] = t->pri;
	x->w[6] = t->slice;
	x->w[7] = t->last_cpu;
	return 0;
}

/* In: task. Out: did run, runs, is runnable, flagged to make way, has a slot, is restricted. */
SEC("syscall")
int t_flags(struct words *x)
{
	struct task_struct *p = (struct task_struct *)x->w[0];
	struct bsd4_task *t = task_of(p);

	x->w[4] = !!t;
	if (!t)
		return 0;
	x->w[0] = t->did_run;
	x->w[1] = t->running;
	x->w[2] = t->runnable;
	x->w[3] = t->resched;
	x->w[5] = is_restricted(p);
	return 0;
}

/* In: task, its active priority: it is in the kernel, or back from there. */
SEC("syscall")
int t_set_pri(struct words *x)
{
	struct bsd4_task *t = task_in(x->w[0]);

	if (!t)
		return -1;
	t->pri = x->w[1];
	return 0;
}

/* In: task, CPU of its queue or -1 for the global one, time. Out: its key. */
SEC("syscall")
int t_queue(struct words *x)
{
	struct task_struct *p = (struct task_struct *)x->w[0];
	struct bsd4_task *t = task_of(p);

	if (!t)
		return -1;
	t->queue = x->w[1] < 0 ? QUEUE_GLOBAL : x->w[1];
	x->w[0] = queue_key(t->pri, false, x->w[2]);
	return 0;
}

/* In: CPU, slot of its task or 0, priority of what runs otherwise, whether it is marked as idle,
 * hz tick of its last switch, tasks counted there. */
SEC("syscall")
int t_cpu(struct words *x)
{
	struct bsd4_cpu *c = cpu_ctx(x->w[0]);

	c->curr = x->w[1];
	c->other_pri = x->w[2];
	mark_idle(x->w[0], x->w[3]);
	c->switch_tick = x->w[4];
	c->nr_runnable = x->w[5];
	return 0;
}

/* In: CPU, whether it is marked as idle. */
SEC("syscall")
int t_idle(struct words *x)
{
	mark_idle(x->w[0], x->w[1]);
	return 0;
}

/* In: CPU, flags of its next switch: resched, preempt, preempt_remote, turn over. */
SEC("syscall")
int t_asked(struct words *x)
{
	struct bsd4_cpu *c = cpu_ctx(x->w[0]);

	c->resched = x->w[1];
	c->preempt = x->w[2];
	c->preempt_remote = x->w[3];
	c->turn_over = x->w[4];
	return 0;
}

/* In: CPU. Out: the same flags, whether it is marked as idle, tasks counted on all CPUs. */
SEC("syscall")
int t_cpu_get(struct words *x)
{
	s32 cpu = x->w[0], i;
	struct bsd4_cpu *c = cpu_ctx(cpu);

	x->w[0] = c->resched;
	x->w[1] = c->preempt;
	x->w[2] = c->preempt_remote;
	x->w[3] = c->turn_over;
	x->w[4] = cpu_idles(cpu);
	x->w[5] = 0;
	bpf_for (i, 0, nr_cpus)
		x->w[5] += cpu_ctx(i)->nr_runnable;
	return 0;
}

/* In: load average. */
SEC("syscall")
int t_load(struct words *x)
{
	load_avg = x->w[0];
	return 0;
}

/* Out: load average. */
SEC("syscall")
int t_loadav(struct words *x)
{
	loadav();
	x->w[0] = load_avg;
	return 0;
}

SEC("syscall")
int t_schedcpu(struct words *x)
{
	schedcpu();
	return 0;
}

/* In: task, CPU where it runs, time. Out: whether it is to leave. */
SEC("syscall")
int t_clock(struct words *x)
{
	struct bsd4_task *t = task_in(x->w[0]);

	if (!t)
		return -1;
	x->w[3] = clock_tick(cpu_ctx(x->w[1]), t, x->w[2]);
	return 0;
}

/* In: task, flags of enum add_flags. It joins a queue. */
SEC("syscall")
int t_add(struct words *x)
{
	struct task_struct *p = (struct task_struct *)x->w[0];
	struct bsd4_task *t = task_of(p);

	if (!t)
		return -1;
	set_place(p, t, scx_bpf_task_cpu(p), false, scx_bpf_now());
	scx_bpf_dsq_insert_vtime(p, t->queue, SLICE_UNTIL_TICK, p->scx.dsq_vtime, 0);
	add_notify(t->queue, t->pri, x->w[1]);
	return 0;
}

/* In: slot of a task that waits, its new priority, time: sched_prio. */
SEC("syscall")
int t_prio(struct words *x)
{
	struct bsd4_task *t = task_at(x->w[0]);
	u32 old = t->pri;

	t->pri = x->w[1];
	if (t->queue != QUEUE_NONE && old / PRI_PER_FIFO != t->pri / PRI_PER_FIFO)
		requeue(x->w[0], t->pri, 0, x->w[2]);
	return 0;
}

/* In: CPU. Out: whether it has woken others. */
SEC("syscall")
int t_forward(struct words *x)
{
	x->w[1] = !cpu_idles(x->w[0]) && forward_wakeup(x->w[0]);
	return 0;
}

/* CPU w0 is offline. */
SEC("syscall")
int t_offline(struct words *x)
{
	cpu_ctx(x->w[0])->online = false;
	return 0;
}

/* In: task, CPU where it ran last. Out: CPU of its queue. */
SEC("syscall")
int t_pick_cpu(struct words *x)
{
	x->w[2] = pick_cpu((struct task_struct *)x->w[0], x->w[1], x->w[1], QUEUE_NONE);
	return 0;
}

/* In: estcpu of two tasks. Out: what the heir has. */
SEC("syscall")
int t_limit(struct words *x)
{
	x->w[2] = estcpu_limit(x->w[0] + x->w[1]);
	return 0;
}

/* In: estcpu, nice. Out: priority, FIFO. */
SEC("syscall")
int t_pri(struct words *x)
{
	x->w[2] = timeshare_pri(x->w[0], x->w[1]);
	x->w[3] = key_fifo(queue_key(x->w[2], false, 0));
	return 0;
}

/* In: share of a CPU, ticks in a second, whether a second passes for a task that runs. Out: share.
 */
SEC("syscall")
int t_second(struct words *x)
{
	struct bsd4_task t = {
		.est = x->w[0],
		.slptime = x->w[1],
		.runnable = x->w[2],
		.pctcpu = x->w[3],
		.cpticks = x->w[4],
	};

	schedcpu_task(&t);
	x->w[0] = t.est;
	x->w[1] = t.slptime;
	x->w[3] = t.pctcpu;
	return 0;
}
