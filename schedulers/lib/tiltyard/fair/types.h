/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the fair class keeps: entities and queues in plain arrays, named by index as
 * tiltyard/groups.h has it. Index 0 of the entities is "none".
 *
 * Who includes this defines before it what its rule (rule.h) keeps beside: `struct entity_turn` of
 * an entity, `struct queue_turns` of a queue; and COUNTS_TASKS: whether a CPU's runnable average
 * counts tasks (6.18) or adds up their weights (4.9).
 */
#ifndef __LIB_FAIR_TYPES_H
#define __LIB_FAIR_TYPES_H

#include "../custody.h"
#include "../groups.h"
#include "../kernel.h"
#include "../machine.h"
#include "../tree.h"

/* exec_start of a current entity that is not on the CPU just now: no time passes for it. */
#define PAUSED	(~0ULL >> 1)

/* Slice given to the core: far beyond any turn beside others, but not "infinite", which may stop
 * the tick. */
#define TURN_NS 1000000000ULL

/* A decaying average (PELT); one of an entity or of a whole queue. */
struct pelt {
	u64 updated_ns;
	/* Sums over the past, in 1024 ns; load is multiplied by the weight, util by 1024. */
	u64 load_sum;
	u64 util_sum;
	/* Position in the current segment of 1024 units of 1024 ns. */
	u32 phase;
	u32 util_avg;
	u64 load_avg;
	/* Queues only: the part of the load whose entities are runnable now. */
	u64 runnable_sum;
	u64 runnable_avg;
};

struct fair_entity {
	u64 vruntime; /* ns at nice 0 */
	u64 exec_start_ns;
	u64 sum_exec_ns;
	struct entity_turn turn;
	struct fair_load load;
	struct pelt pelt;
	struct tree_node node; /* among the waiting */

	u32 queue;     /* where it is, or would be, queued */
	bool on_rq;    /* counted in its queue, waiting or current */
	bool waiting;  /* in the tree */
	bool relative; /* vruntime is a distance to min_vruntime, not a point */
	bool newborn;  /* never queued yet */
	bool placed;   /* a newborn whose vruntime has been set beside its parent's */
	bool attached; /* its averages are part of the queue's */

	/* Tasks only. */
	struct custody custody;
	u32 list_next, list_prev; /* among the tasks of its CPU */
	bool moving;		  /* taken off one CPU, not yet queued on the other */
	bool pushed;		  /* so while it ran: it follows in enqueue() */
	u8 policy;
	s8 nice;
	u32 cpu;
	u32 group;   /* the group it runs in: of its cgroup, or its session's */
	u32 cgroup;  /* the group of its cgroup */
	u64 session; /* autogroup id it is counted in, 0 if none */

	/* Wakeup pattern: how often this task has changed the one it wakes. */
	u32 flips;
	u32 last_wakee;
	u64 flips_tick;
};

struct fair_queue {
	u64 min_vruntime;
	struct tree waiting;
	u64 weight;	/* sum over its entities, the current one included */
	u32 nr_running; /* entities, the current one included */
	u32 curr, next, last, skip;
	u32 cpu, group;
	struct queue_turns turns;
	struct pelt pelt;
	/* Averages of tasks that were moved elsewhere, not yet taken out of pelt. */
	u64 moved_load, moved_util;
	/* Share of the group's load_avg that this queue has announced. */
	u64 announced_avg;
	/* What a load of 1 here counts in the root queue, times load_avg; as of a tick. */
	u64 h_load;
	u64 h_load_tick;
};

/* Load averages of a CPU, of which the first is the load at the last tick. */
#define NR_HISTORY    5
#define HISTORY_SLOTS 8 /* a power of two */

struct fair_cpu {
	u32 curr;     /* the task that runs or is about to, 0 if none */
	u32 nr_tasks; /* runnable tasks, the running one included */
	bool resched; /* a preemption has been asked for and not happened yet */

	/* Its runnable tasks, in the order in which balancing looks at them. */
	u32 first_task, last_task;

	u64 history[HISTORY_SLOTS];
	u64 history_tick;

	/* Tasks of other classes: one if it has driven curr off, more are not seen. */
	u32 nr_other;
	u64 other_since_ns;
	/* Their time on the CPU, in 1/1024 ns, halved each period; and what they leave of 1024. */
	u64 other_avg;
	u64 other_stamp_ns;
	u32 capacity;

	/* Nothing was found to run, and nothing has run since. */
	bool dry;
	/* Since when it has been idle, 0 from its first wakeup on; how long it usually is. */
	u64 idle_since_ns;
	u64 avg_idle_ns;
	/* What searching costs here: an idle CPU for a wakee, a task for a CPU that runs dry. */
	u64 scan_cost_ns;
	u64 max_idle_cost_ns;
	/* Of the whole cache, kept by its first CPU: there may be cores without any task. */
	bool has_idle_cores;
	/* How long it takes to wake from idle; UNKNOWN_LATENCY. */
	u32 exit_latency_us;

	/* Balancing: when next; on behalf of all idle CPUs; a task is to be pushed to CPU less 1.
	 */
	u64 next_balance;
	u32 nohz_kick;
	u32 push_to;
};

static struct fair_entity entities[MAX_ENTITIES];
static struct fair_queue queues[MAX_QUEUES];
static struct fair_cpu cpus[MAX_CPUS];

static __always_inline struct fair_entity *entity(u32 i)
{
	return &entities[i & (MAX_ENTITIES - 1)];
}

static __always_inline struct fair_queue *queue(u32 q)
{
	return &queues[q & (MAX_QUEUES - 1)];
}

/* Looked up in each turn of a loop: the verifier forgets the bounds of what was computed before it.
 */
static __always_inline struct fair_cpu *cpu_state(u32 cpu)
{
	barrier_var(cpu);
	return &cpus[cpu & (MAX_CPUS - 1)];
}

/* The entity that stands for queue q one level up, 0 for a root queue. */
static __always_inline u32 owner_of(u32 q)
{
	return queue(q)->group ? MAX_TASKS + q : 0;
}

/* The entity one level up, 0 at the top. */
static __always_inline u32 parent_of(u32 i)
{
	return owner_of(entity(i)->queue);
}

static __always_inline struct tree_node *tree_node(u32 i)
{
	return &entity(i)->node;
}

/* Some CPU has a task waiting. Of the last pass over all CPUs, or since. */
static bool overload;

#endif
