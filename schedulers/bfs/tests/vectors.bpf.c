/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handles by which the tests set up BFS's state and look at it: programs of eight words. A task is
 * the address of its task_struct.
 */
#include <scx/common.bpf.h>

#include "../bfs.bpf.c"

struct words {
	s64 w[8];
};

static struct bfs_task *task_at(s64 address)
{
	return task(slot_of((struct task_struct *)address));
}

/* In: nice from 0. Out: offset, distance, slice, rr. */
SEC("syscall")
int t_params(struct words *x)
{
	u32 nice = x->w[0];

	x->w[0] = offset_of(nice);
	x->w[1] = par.distance[nice & 63];
	x->w[2] = par.slice;
	x->w[3] = par.rr;
	return 0;
}

/* In: CPUs. Out: rr. */
SEC("syscall")
int t_scaled_rr(struct words *x)
{
	x->w[0] = scaled_rr(x->w[0]);
	return 0;
}

/* In: two CPUs. Out: locality. */
SEC("syscall")
int t_locality(struct words *x)
{
	x->w[0] = locality(x->w[0], x->w[1]);
	return 0;
}

/* In: two CPUs. Out: how far they are apart from 0.464 on. */
SEC("syscall")
int t_sticky_locality(struct words *x)
{
	x->w[0] = sticky_locality(x->w[0], x->w[1]);
	return 0;
}

/* In: task, CPU. Out: its deadline as this CPU sees it. */
SEC("syscall")
int t_deadline_from(struct words *x)
{
	x->w[0] = deadline_from(slot_of((struct task_struct *)x->w[0]), x->w[1]);
	return 0;
}

/* In: task, slice, deadline, last_ran_ns, first_slice, CPU, slept_load. Out: slot. */
SEC("syscall")
int t_task(struct words *x)
{
	struct bfs_task *t = task_at(x->w[0]);

	t->slice = x->w[1];
	t->deadline = x->w[2];
	t->last_ran_ns = x->w[3];
	t->first_slice = x->w[4];
	t->cpu = x->w[5];
	t->slept_load = x->w[6];
	x->w[0] = slot_of((struct task_struct *)x->w[0]);
	return 0;
}

/* In: task. Out: slice, deadline, last_ran_ns, first_slice, CPU, prio. */
SEC("syscall")
int t_task_get(struct words *x)
{
	struct bfs_task *t = task_at(x->w[0]);

	x->w[0] = t->slice;
	x->w[1] = t->deadline;
	x->w[2] = t->last_ran_ns;
	x->w[3] = t->first_slice;
	x->w[4] = t->cpu;
	x->w[5] = t->prio;
	return 0;
}

/* In: CPU. Out: slice, deadline, prio, policy, slot, last_ran_ns, whether idle and not claimed. */
SEC("syscall")
int t_cpu_get(struct words *x)
{
	u32 cpu = x->w[0];
	struct bfs_cpu *c = cpu_state(cpu);

	x->w[0] = c->slice;
	x->w[1] = c->deadline;
	x->w[2] = c->prio;
	x->w[3] = c->policy;
	x->w[4] = c->curr;
	x->w[5] = c->last_ran_ns;
	x->w[6] = is_idle(cpu);
	return 0;
}

/* In: CPU, slot of the task that ran there before the present one. */
SEC("syscall")
int t_last(struct words *x)
{
	cpu_state(x->w[0])->last_task = x->w[1];
	return 0;
}

/* In: ticks, refractory. */
SEC("syscall")
int t_iso(struct words *x)
{
	iso.ticks = x->w[0];
	iso.refractory = x->w[1];
	return 0;
}

/* Out: ticks, refractory. */
SEC("syscall")
int t_iso_get(struct words *x)
{
	x->w[0] = iso.ticks;
	x->w[1] = iso.refractory;
	return 0;
}

/* In: CPU, which is idle or runs a realtime task: its ticks are not the scheduler's. */
SEC("syscall")
int t_iso_tick(struct words *x)
{
	iso_account(cpu_state(x->w[0]));
	return 0;
}

/* In: prio, slot or 0. Out: the next slot in this list. */
SEC("syscall")
int t_next(struct words *x)
{
	u32 i = x->w[1];

	x->w[0] = i ? task(i)->next : list_of(x->w[0])->first;
	return 0;
}

/* In: task, CPU where it ran last. Out: CPU that is to look for a task, whether it is preempted. */
SEC("syscall")
int t_find_cpu(struct words *x)
{
	u32 i = slot_of((struct task_struct *)x->w[0]);
	bool preempt;

	x->w[0] = find_cpu(i, x->w[1], true, &preempt);
	x->w[1] = preempt;
	return 0;
}

/* In: task, CPU where it ran last. Out: CPU. */
SEC("syscall")
int t_best_idle(struct words *x)
{
	x->w[0] = best_idle(slot_of((struct task_struct *)x->w[0]), x->w[1]);
	return 0;
}

/* In: task. Out: prio. */
SEC("syscall")
int t_prio(struct words *x)
{
	struct task_struct *p = (struct task_struct *)x->w[0];

	x->w[0] = prio_of(p, task_at(x->w[0]));
	return 0;
}

/* In: task that has ended, its parent. */
SEC("syscall")
int t_end(struct words *x)
{
	end_task(slot_of((struct task_struct *)x->w[0]), slot_of((struct task_struct *)x->w[1]));
	return 0;
}

/* In: task, now in ns. */
SEC("syscall")
int t_check_deadline(struct words *x)
{
	check_deadline(task_at(x->w[0]), x->w[1]);
	return 0;
}

/* In: task. Out: whether it is in custody. */
SEC("syscall")
int t_held(struct words *x)
{
	x->w[0] = custody_holds(&task_at(x->w[0])->custody);
	return 0;
}
