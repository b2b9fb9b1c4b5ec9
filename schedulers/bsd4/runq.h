/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The run queues: one for all tasks that may run anywhere, and one for each CPU with those that may
 * not. Each is 64 FIFOs, for four priorities each, and is a dispatch queue ordered by
 *
 *	key = FIFO << 57 | place
 *
 * where the place of a task at the tail is 2^56 + the time, and at the head 2^56 - the time, in ns.
 * So a key is a place of its own, and a task that the kernel takes out of a queue and puts back,
 * because its nice value or its mask has changed, can have its place again.
 *
 * A task's key is p->scx.dsq_vtime, which the kernel changes together with the queue.
 */
#pragma once

#include "cpu.h"

#define KEY_FIFO_SHIFT	 57
#define KEY_MIDDLE	 (1ULL << (KEY_FIFO_SHIFT - 1))
#define KEY_NONE	 (~0ULL >> 1)

/* A CPU's queue has the CPU's number. */
#define QUEUE_GLOBAL	 ((u64)MAX_CPUS)

/* The tick ends turns: the kernel's own countdown must never come first. */
#define SLICE_UNTIL_TICK (1ULL << 60)

static __always_inline u64 queue_key(u32 pri, bool head, u64 now_ns)
{
	u64 place = head ? KEY_MIDDLE - now_ns : KEY_MIDDLE + now_ns;

	return (u64)(pri / PRI_PER_FIFO) << KEY_FIFO_SHIFT | (place & (2 * KEY_MIDDLE - 1));
}

static __always_inline u64 key_fifo(u64 key)
{
	return key >> KEY_FIFO_SHIFT;
}

/* Whether a task may run on a CPU; most may run on all, and need no look at their mask. */
static __always_inline bool allowed(const struct task_struct *p, s32 cpu)
{
	return p->nr_cpus_allowed >= nr_cpus || bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/* Whether it waits in the queue of a CPU. */
static __always_inline bool is_restricted(const struct task_struct *p)
{
	return p->nr_cpus_allowed < nr_cpus || is_migration_disabled(p);
}

/* Tasks that wait in the queue of a CPU, without one that is about to leave @from. */
static __always_inline s32 queue_length(s32 cpu, u64 from)
{
	return scx_bpf_dsq_nr_queued(cpu) - ((u64)cpu == from);
}

/* sched_pickcpu: where the fewest wait, the last CPU first; @cpu, where the kernel has the task, if
 * there is no choice. The task is about to leave the queue @from. */
static __noinline s32 pick_cpu(struct task_struct *p, s32 last, s32 cpu, u64 from)
{
	s32 best = -1, least = 0, i;

	if (is_migration_disabled(p) || (p->nr_cpus_allowed == 1 && allowed(p, cpu)))
		return cpu;
	if (last >= 0 && allowed(p, last)) {
		best = last;
		least = queue_length(last, from);
	}
	bpf_for (i, 0, nr_cpus) {
		s32 nr;

		if (!cpu_ctx(i)->online || !allowed(p, i))
			continue;
		nr = queue_length(i, from);
		if (best < 0 || nr < least) {
			best = i;
			least = nr;
		}
	}
	return best < 0 ? cpu : best;
}

/* A task that may be next: its key and exact priority. */
struct candidate {
	u64 key;
	u32 pri;
};

/* The head of a queue. */
static __noinline void first_of(u64 queue, struct candidate *first)
{
	struct task_struct *p;

	first->key = KEY_NONE;
	first->pri = PRI_IDLE;
	bpf_for_each (scx_dsq, p, queue, 0) {
		struct bsd4_task *t = task_of(p);

		first->key = p->scx.dsq_vtime;
		if (t)
			first->pri = READ_ONCE(t->pri);
		break;
	}
}

/*
 * runq_choose_fuzz: of the first runq_fuzz tasks in the best FIFO of the global queue, the one that
 * ran last on @cpu, or else the head. Counts are kept in memory, where the verifier does not follow
 * them.
 */
static __noinline void first_with_fuzz(s32 cpu, struct candidate *first)
{
	struct bsd4_cpu *c = cpu_ctx(cpu);
	struct task_struct *p;

	first->key = KEY_NONE;
	first->pri = PRI_IDLE;
	c->nr_seen = 0;
	c->nth = 0;
	c->fuzz_open = true;
	bpf_for_each (scx_dsq, p, QUEUE_GLOBAL, 0) {
		u64 key = p->scx.dsq_vtime;
		struct bsd4_task *t = task_of(p);
		u32 nth = c->nr_seen++;
		bool last_here = t && READ_ONCE(t->last_cpu) == cpu;

		if (nth && key_fifo(key) != key_fifo(first->key))
			break;
		if (nth >= runq_fuzz) {
			c->fuzz_open = false;
			break;
		}
		if (t && (!nth || last_here)) {
			first->key = key;
			first->pri = READ_ONCE(t->pri);
			c->nth = nth;
		}
		if (last_here) {
			c->fuzz_open = false;
			break;
		}
	}
}

/* Hands the task that first_with_fuzz() found to the kernel. False: it has gone meanwhile. */
static __noinline bool take_nth(s32 cpu)
{
	struct bsd4_cpu *c = cpu_ctx(cpu);
	struct task_struct *p;

	c->nr_seen = 0;
	bpf_for_each (scx_dsq, p, QUEUE_GLOBAL, 0) {
		if (c->nr_seen++ < c->nth)
			continue;
		return scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0);
	}
	return false;
}
