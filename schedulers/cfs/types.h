/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What CFS keeps: entities, run queues, groups, and how they refer to each other.
 *
 * Everything lies in plain global arrays and is named by index, so that the code below may
 * walk trees while it holds a bpf_spin_lock (no map look-ups there) and so that one source
 * serves the verifier and the simulator alike. Index 0 of the entities is "none".
 *
 *   entities  [0, MAX_TASKS) are tasks; MAX_TASKS + q stands for queue q in its parent queue
 *   queues    group * nr_cpus + cpu; queue `cpu` (group 0) is the root queue of that CPU
 *   groups    0 is the root group; cgroups and sessions (autogroup) get the others
 */
#ifndef __CFS_TYPES_H
#define __CFS_TYPES_H

#define MAX_CPUS      1024
#define MAX_TASKS     (1U << 16)
#define MAX_QUEUES    (1U << 16)
#define MAX_ENTITIES  (MAX_TASKS + MAX_QUEUES)
#define MAX_GROUPS    (1U << 12)
/* Levels of nested groups, the root included. */
#define MAX_DEPTH     8

#define NICE_0_WEIGHT 1024
/* Weights are kept 1024 times finer than the table has them, as 64-bit kernels do. */
#define WEIGHT_SHIFT  10

/* exec_start of a current entity that is not on the CPU just now: no time passes for it. */
#define PAUSED	      (~0ULL >> 1)

/* Slice given to the core: far beyond any turn, but not "infinite", which may stop the tick. */
#define TURN_NS	      1000000000ULL

enum cfs_policy { POLICY_NORMAL = 0, POLICY_BATCH = 3, POLICY_IDLE = 5 };

struct cfs_load {
	/* In 1/1024 of the units of the weight table. */
	u64 weight;
	/* About 2^32 divided by the weight in units of the table. */
	u32 inverse;
};

/* A decaying average (PELT); one of an entity or of a whole queue. */
struct cfs_pelt {
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

struct cfs_entity {
	u64 vruntime; /* ns at nice 0 */
	u64 seq;      /* order of insertion, for equal vruntimes */
	u64 exec_start_ns;
	u64 sum_exec_ns;
	u64 turn_start_ns; /* sum_exec_ns when it was last picked */
	struct cfs_load load;
	struct cfs_pelt pelt;

	/* Links of the heap of waiting entities. */
	u32 left, right, up, rank;

	u32 queue;     /* where it is, or would be, queued */
	bool on_rq;    /* counted in its queue, waiting or current */
	bool waiting;  /* in the heap */
	bool relative; /* vruntime is a distance to min_vruntime, not a point */
	bool newborn;  /* never queued yet */
	bool placed;   /* a newborn whose vruntime has been set beside its parent's */
	bool attached; /* its averages are part of the queue's */

	/* Tasks only. */
	bool owned; /* the core has left it to us: ours to dispatch */
	u8 policy;
	s8 nice;
	s32 pid;
	u32 cpu;
	u32 group;   /* the group it runs in: of its cgroup, or its session's */
	u32 cgroup;  /* the group of its cgroup */
	u64 session; /* autogroup id it is counted in, 0 if none */

	/* Wakeup pattern: how often this task has changed the one it wakes. */
	u32 flips;
	u32 last_wakee;
	u64 flips_decayed_ns;
};

struct cfs_queue {
	u64 min_vruntime;
	u64 seq;
	u64 weight;	/* sum over its entities, the current one included */
	u32 nr_running; /* entities, the current one included */
	u32 root;	/* heap of the waiting */
	u32 curr, next, last, skip;
	u32 cpu, group;
	struct cfs_pelt pelt;
	/* Share of the group's load_avg that this queue has announced. */
	u64 announced_avg;
};

struct cfs_group {
	bool used;
	u32 parent;
	u32 depth;  /* root 0 */
	u32 shares; /* 1024 for cpu.weight 100 */
	/* Sum of what the queues have announced. */
	u64 load_avg;
	/* Sessions only. */
	u64 session;
	u32 nr_tasks;
};

struct cfs_cpu {
	u32 curr;     /* the task that runs or is about to, 0 if none */
	u32 nr_tasks; /* runnable tasks, the running one included */
	bool resched; /* a preemption has been asked for and not happened yet */
	u32 llc_next; /* the next CPU that shares its last-level cache, around */
};

/* The CPUs that share a last-level cache. */
struct cfs_llc {
	u32 first, last, size;
};

static struct cfs_entity entities[MAX_ENTITIES];
static struct cfs_queue queues[MAX_QUEUES];
static struct cfs_group groups[MAX_GROUPS];
static struct cfs_cpu cpus[MAX_CPUS];
static struct cfs_llc llcs[MAX_CPUS];

/* Number of possible CPUs; the stride of the table of queues. */
static u32 nr_cpus = 1;

static __always_inline struct cfs_entity *entity(u32 i)
{
	return &entities[i & (MAX_ENTITIES - 1)];
}

static __always_inline struct cfs_queue *queue(u32 q)
{
	return &queues[q & (MAX_QUEUES - 1)];
}

static __always_inline struct cfs_group *group(u32 g)
{
	return &groups[g & (MAX_GROUPS - 1)];
}

static __always_inline struct cfs_cpu *cpu_state(u32 cpu)
{
	return &cpus[cpu & (MAX_CPUS - 1)];
}

static __always_inline bool is_task(u32 i)
{
	return i < MAX_TASKS;
}

/* The queue that a group entity stands for. */
static __always_inline u32 owned_queue(u32 i)
{
	return i - MAX_TASKS;
}

static __always_inline u32 queue_of(u32 g, u32 cpu)
{
	return g * nr_cpus + cpu;
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

#endif
