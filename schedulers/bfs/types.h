/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What BFS keeps: a task's slice and deadline, a CPU's copies of those of its running task, and the
 * lock of it all.
 */
#pragma once

#include "tiltyard/custody.h"
#include "tiltyard/machine.h"
#include "tiltyard/slots.h"
#include "tunables.h"

/* 0 to 99 are realtime tasks: the kernel's own, which BFS only sees take a CPU. */
enum bfs_prio {
	PRIO_OTHER = 0,
	PRIO_ISO = 100,
	PRIO_NORMAL = 101,
	PRIO_IDLE = 102,
	PRIO_NONE = 103, /* of an idle CPU */
};

#define NR_QUEUES 4 /* a power of two; the last one stays empty */

enum bfs_policy { NORMAL, BATCH, ISO, IDLE };

/* Slices are in us and deadlines in jiffies, or in units of 1024 ns and in ns: has_niffies(). */
struct bfs_task {
	/* What searches read. In the queue all changes are made under the lock, else by whoever
	 * has the task. */
	u32 next, prev;
	u64 deadline;
	u32 cpu;     /* where it ran last */
	u8 nice;     /* 0 to 39 */
	u8 prio;     /* its queue */
	bool queued; /* is in it, maybe without being in custody: dequeue() */
	bool anywhere;
	bool sticky; /* to that CPU */
	struct custody custody;

	s64 slice;
	u64 last_ran_ns; /* when it left a CPU */
	u64 queued_ns;	 /* guard: since when it waits */
	s32 rq;		 /* CPU on whose runqueue it waits */
	s32 left;	 /* CPU that it may no longer run on, where it waited; -1: none */
	u8 policy;
	bool first_slice;
	bool newborn;
	bool sync;	  /* woken by a task that is about to sleep */
	bool slept_load;  /* its last sleep counted as load */
	bool to_tail;	  /* its nice value changed: it does not keep its place */
	bool better;	  /* so much that others may have to make way */
	bool has_claimed; /* an idle CPU: `claimed` */
	u32 claimed;
	u32 seen_idle; /* grq.nr_idle when it was in the queue or on its CPU for the last time */
};

struct bfs_cpu {
	/* Copies for all to read; their CPU writes them, with the lock or in its tick. */
	u32 curr; /* the task, 0: none */
	u32 prio;
	u64 deadline;
	s64 slice;
	u64 last_ran_ns; /* to when the slice is charged */
	u8 policy;
	bool dither; /* switched in before the middle of a tick */
	u64 tick_ns;
	/* The task that runs, or ran last; and the one before it. */
	u32 ran, last_task;
	u32 sticky; /* the task that was the last to stick here */
	u32 wake;   /* an idle CPU to be woken when the lock is free, plus 1 */
};

/* Bits of CPUs, 64 a word. */
#define CPU_WORDS (MAX_CPUS / 64)

struct cpu_words {
	u64 w[CPU_WORDS];
};

/* The one lock: of the queue, and of who runs where. */
struct bfs_lock {
	struct bpf_spin_lock lock;
};

DEFINE_ARRAY_MAP(queue_lock, 1, struct bfs_lock)

static struct bfs_task tasks[MAX_TASKS];
/* Where a task may run, unless it is anywhere. */
static struct cpu_words allowed[MAX_TASKS];
static struct bfs_cpu cpus[MAX_CPUS];
/* Not locals of what counts them: there the verifier would follow every value. */
static u32 nr_cpus, nr_online;
static struct cpu_words online;

static __always_inline struct bfs_lock *the_lock(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&queue_lock, &zero);
}

static __always_inline struct bfs_task *task(u32 i)
{
	return &tasks[i & (MAX_TASKS - 1)];
}

/* Looked up in each turn of a loop: the verifier forgets the bounds of what was computed before it.
 */
static __always_inline struct bfs_cpu *cpu_state(u32 cpu)
{
	barrier_var(cpu);
	return &cpus[cpu & (MAX_CPUS - 1)];
}

static __always_inline u64 *word_of(struct cpu_words *set, u32 cpu)
{
	return &set->w[cpu >> 6 & (CPU_WORDS - 1)];
}

static __always_inline u64 bit_of(u32 cpu)
{
	return 1ULL << (cpu & 63);
}

static __always_inline u32 nr_words(void)
{
	return (nr_cpus + 63) >> 6;
}

/* The CPUs of word @w where task @i may run. */
static __always_inline u64 allowed_word(u32 i, u32 w)
{
	if (task(i)->anywhere)
		return online.w[w & (CPU_WORDS - 1)];
	return allowed[i & (MAX_TASKS - 1)].w[w & (CPU_WORDS - 1)];
}

static __always_inline bool may_run(u32 i, u32 cpu)
{
	return task(i)->anywhere || allowed_word(i, cpu >> 6) & bit_of(cpu);
}
