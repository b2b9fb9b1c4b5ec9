/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hierarchical groups of tasks: cgroups, and sessions (autogroup), each with a queue on every CPU.
 *
 * Everything lies in plain arrays and is named by index, so that schedulers may walk the tree while
 * they hold a bpf_spin_lock, and so that one source serves the verifier and the simulated machine.
 *
 *   entities  [0, MAX_TASKS) are tasks; MAX_TASKS + q stands for queue q in its parent queue
 *   queues    group * nr_cpus + cpu; queue `cpu` (group 0) is the root queue of that CPU
 *   groups    0 is the root group; cgroups and sessions get the others
 *
 * There is room for MAX_QUEUES / nr_cpus groups, the root included, and for MAX_GROUPS at most: 16
 * on 4096 CPUs.
 *
 * With 4 CPUs, group 2 has the queues 8 to 11, and the entity MAX_TASKS + 9 is what CPU 1's queue
 * of its parent group holds for it.
 *
 * Who includes this defines
 *
 *	void group_reset_queue(u32 g, u32 cpu)	empties queue queue_of(g, cpu) and its entity
 */
#ifndef __LIB_GROUPS_H
#define __LIB_GROUPS_H

#include "slots.h"
#include "weights.h"

#define MAX_QUEUES   (1U << 16)
#define MAX_ENTITIES (MAX_TASKS + MAX_QUEUES)
#define MAX_GROUPS   (1U << 12)
/* Levels of nested groups, the root included. */
#define MAX_DEPTH    8

/* Bounds of a group's shares and of its weight on one CPU, in units of the table of weights. */
#define MIN_SHARES   2
#define MAX_SHARES   (1U << 18)

struct task_group_state {
	bool used;
	u32 parent;
	u32 depth;  /* root 0 */
	u32 shares; /* 1024 for cpu.weight 100 */
	/* Sum of the loads that the group's queues have announced; the scheduler's. */
	u64 load_avg;
	/* Sessions only. */
	u64 session;
	u32 nr_tasks;
};

static struct task_group_state groups[MAX_GROUPS];

/* Number of possible CPUs; the stride of the table of queues. */
static u32 nr_cpus = 1;

struct {
	__uint(type, BPF_MAP_TYPE_CGRP_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct slot);
} slots_of_cgroups SEC(".maps");

/* Autogroup id to group. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_GROUPS);
	__type(key, u64);
	__type(value, u32);
} sessions SEC(".maps");

DEFINE_ARRAY_MAP(session_lock, 1, struct slot_lock)

DEFINE_SLOTS(group_slots, MAX_GROUPS)

/* Of the scheduler: empties the queue of group g on a CPU. */
static void group_reset_queue(u32 g, u32 cpu);
/* Of the scheduler: group g has no tasks any more, and leaves all queues that it is in. */
static void group_leave(u32 g);

static __always_inline struct task_group_state *group(u32 g)
{
	return &groups[g & (MAX_GROUPS - 1)];
}

static __always_inline bool is_task(u32 i)
{
	return i < MAX_TASKS;
}

/* The queue that a group's entity stands for. */
static __always_inline u32 owned_queue(u32 i)
{
	return i - MAX_TASKS;
}

static __always_inline u32 queue_of(u32 g, u32 cpu)
{
	return g * nr_cpus + cpu;
}

static __always_inline u32 max_groups(void)
{
	u32 by_queues = MAX_QUEUES / nr_cpus;

	return by_queues < MAX_GROUPS ? by_queues : MAX_GROUPS;
}

static __always_inline u32 clamp_shares(u64 shares)
{
	if (shares < MIN_SHARES)
		return MIN_SHARES;
	return shares > MAX_SHARES ? MAX_SHARES : shares;
}

/* What cpu.weight means in shares: 100 is 1024. */
static __always_inline u64 shares_of_weight(u32 weight)
{
	return ((u64)weight * NICE_0_WEIGHT + 50) / 100;
}

static __noinline void setup_group(u32 g, u32 parent, u64 shares)
{
	struct task_group_state *grp = group(g);
	u32 cpu;

	grp->parent = parent;
	grp->depth = g ? group(parent)->depth + 1 : 0;
	grp->shares = clamp_shares(shares);
	grp->load_avg = 0;
	WRITE_ONCE(grp->session, 0);
	grp->nr_tasks = 0;
	bpf_for (cpu, 0, nr_cpus)
		group_reset_queue(g, cpu);
	WRITE_ONCE(grp->used, true);
}

/* A new group below `parent`, 0 if there is no room or it would be too deep. */
static __noinline u32 take_group(u32 parent, u64 shares)
{
	u32 g = 0;

	if (group(parent)->depth + 1 < MAX_DEPTH)
		g = group_slots_take(max_groups());
	if (g)
		setup_group(g, parent, shares);
	return g;
}

/* Inlined, as is group_leave(): the verifier allows 8 frames. */
static __always_inline void give_group(u32 g)
{
	if (!g)
		return;
	/* Partner: hold_session(), of a task that has just found the group. */
	WRITE_ONCE(group(g)->used, false);
	WRITE_ONCE(group(g)->session, 0);
	group_leave(g);
	group_slots_give(g);
}

/* Cgroups ------------------------------------------------------------------------------- */

static __always_inline u32 group_of_cgroup(struct cgroup *cgrp)
{
	struct slot *slot;

	if (!cgrp)
		return 0;
	slot = bpf_cgrp_storage_get(&slots_of_cgroups, cgrp, NULL, 0);
	return slot ? slot->index : 0;
}

/* Gives a cgroup that is not the root a group, in cgroup_init(). -ENOSPC: no room, or too deep. */
static __always_inline int open_cgroup(struct cgroup *cgrp, u32 weight)
{
	struct cgroup *above;
	struct slot *slot;
	u32 parent;

	slot = bpf_cgrp_storage_get(&slots_of_cgroups, cgrp, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	above = bpf_cgroup_ancestor(cgrp, cgrp->level - 1);
	if (!above)
		return -ENOENT;
	parent = group_of_cgroup(above);
	bpf_cgroup_release(above);
	if (!slot)
		return -ENOMEM;
	slot->index = take_group(parent, shares_of_weight(weight));
	return slot->index ? 0 : -ENOSPC;
}

/* Sessions ------------------------------------------------------------------------------ */

/* The part of the kernel's structs that names a session; absent without CONFIG_SCHED_AUTOGROUP. */
struct autogroup___session {
	unsigned long id;
	int nice;
} __attribute__((preserve_access_index));

struct signal_struct___session {
	struct autogroup___session *autogroup;
} __attribute__((preserve_access_index));

/* Autogroup id of p, 0 for the default one (the root group) or none. */
static __noinline u64 session_of(struct task_struct *p, s32 *nice)
{
	struct signal_struct___session *signal = (void *)p->signal;
	struct autogroup___session *ag;

	if (!bpf_core_field_exists(signal->autogroup) || !signal)
		return 0;
	ag = signal->autogroup;
	if (!ag)
		return 0;
	*nice = ag->nice;
	return ag->id;
}

static __always_inline struct slot_lock *lock_of_sessions(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&session_lock, &zero);
}

/*
 * Counts one more task in group g if it is still that of session `id`. A session's last task
 * may be leaving on another CPU just now.
 */
static __noinline bool hold_session(u32 g, u64 id)
{
	struct slot_lock *lk = lock_of_sessions();
	bool held = false;

	if (!lk)
		return false;
	bpf_spin_lock(&lk->lock);
	/* Partners: setup_group() and give_group(), if the group has been given away meanwhile. */
	if (READ_ONCE(group(g)->used) && READ_ONCE(group(g)->session) == id) {
		group(g)->nr_tasks++;
		held = true;
	}
	bpf_spin_unlock(&lk->lock);
	return held;
}

/* Group g is that of session `id` from now on, with one task. */
static __noinline void open_session(u32 g, u64 id)
{
	struct slot_lock *lk = lock_of_sessions();

	if (!lk)
		return;
	bpf_spin_lock(&lk->lock);
	WRITE_ONCE(group(g)->session, id);
	group(g)->nr_tasks = 1;
	bpf_spin_unlock(&lk->lock);
}

/*
 * The group of session `id`, with one more task in it; 0 if there is no room for it.
 *
 * Not static, nor are others that take a lock and need only numbers: the verifier looks at such a
 * function by itself, once, and not along every path to it. It wants them to return int.
 */
__noinline int join_session(u64 id, s32 nice)
{
	struct fair_load load;
	u32 *known = bpf_map_lookup_elem(&sessions, &id);
	/* Once: another CPU may put another group there. */
	u32 g = known ? READ_ONCE(*known) : 0;

	if (g && hold_session(g, id))
		return g;
	load_of_nice(&load, nice, false);
	g = take_group(0, table_units(load.weight));
	if (!g)
		return 0;
	open_session(g, id);
	bpf_map_update_elem(&sessions, &id, &g, BPF_ANY);
	return g;
}

/* One task less in session `id`; the group goes with the last. */
__noinline int leave_session(u32 g, u64 id)
{
	struct slot_lock *lk = lock_of_sessions();
	bool empty = false;
	u32 *known;

	if (!id || !lk)
		return 0;
	bpf_spin_lock(&lk->lock);
	if (!--group(g)->nr_tasks) {
		WRITE_ONCE(group(g)->session, 0);
		empty = true;
	}
	bpf_spin_unlock(&lk->lock);
	if (!empty)
		return 0;
	known = bpf_map_lookup_elem(&sessions, &id);
	/* join_session() on another CPU may be putting a new group there now. If that one is
	 * forgotten, the session's next task gets a further group: the session weighs more, until
	 * one is empty. */
	if (known && READ_ONCE(*known) == g)
		bpf_map_delete_elem(&sessions, &id);
	give_group(g);
	return 0;
}

#endif
