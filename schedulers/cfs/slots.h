/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Locks, and who gets which index: tasks an entity each, cgroups and sessions a group each.
 */
#ifndef __CFS_SLOTS_H
#define __CFS_SLOTS_H

#include "types.h"
#include "weights.h"
#include "pelt.h"
#include "group.h"

struct cfs_lock {
	struct bpf_spin_lock lock;
};

/*
 * One lock a CPU for its queues and everything in them. The kernel's own runqueue lock would
 * do for all callbacks about that CPU, but a CPU that runs dry also takes from others.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, struct cfs_lock);
} cpu_locks SEC(".maps");

#define SLOT_LOCK_TASKS	 0
#define SLOT_LOCK_GROUPS 1

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct cfs_lock);
} slot_locks SEC(".maps");

struct cfs_slot {
	u32 index;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cfs_slot);
} task_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGRP_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cfs_slot);
} cgroup_slots SEC(".maps");

/* Autogroup id to group. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_GROUPS);
	__type(key, u64);
	__type(value, u32);
} sessions SEC(".maps");

/* Free slots: those given back, linked through `left` (tasks) or `parent` (groups), then new ones.
 */
static u32 free_task, fresh_task = 1;
static u32 free_group, fresh_group = 1;

static __always_inline struct cfs_lock *cpu_lock(u32 cpu)
{
	return bpf_map_lookup_elem(&cpu_locks, &cpu);
}

static __always_inline struct cfs_lock *slot_lock(u32 which)
{
	return bpf_map_lookup_elem(&slot_locks, &which);
}

/* Index of p's entity, 0 if it has none. */
static __always_inline u32 slot_of(struct task_struct *p)
{
	struct cfs_slot *slot = bpf_task_storage_get(&task_slots, p, NULL, 0);

	return slot ? slot->index : 0;
}

/* A clean entity for a task, 0 if there are MAX_TASKS - 1 already. */
static __noinline u32 take_task_slot(void)
{
	struct cfs_lock *lk = slot_lock(SLOT_LOCK_TASKS);
	u32 i = 0;

	if (!lk)
		return 0;
	bpf_spin_lock(&lk->lock);
	if (free_task) {
		i = free_task;
		free_task = entity(i)->left;
	} else if (fresh_task < MAX_TASKS) {
		i = fresh_task++;
	}
	bpf_spin_unlock(&lk->lock);
	if (i)
		__builtin_memset(entity(i), 0, sizeof(struct cfs_entity));
	return i;
}

static __noinline void give_task_slot(u32 i)
{
	struct cfs_lock *lk = slot_lock(SLOT_LOCK_TASKS);

	if (!lk)
		return;
	bpf_spin_lock(&lk->lock);
	entity(i)->left = free_task;
	free_task = i;
	bpf_spin_unlock(&lk->lock);
}

static __always_inline u32 max_groups(void)
{
	u32 by_queues = MAX_QUEUES / nr_cpus;

	return by_queues < MAX_GROUPS ? by_queues : MAX_GROUPS;
}

/* Empties queue q of group g and the entity that stands for it. */
static __noinline void reset_queue(u32 g, u32 cpu)
{
	u32 q = queue_of(g, cpu);
	struct cfs_queue *cfs_rq = queue(q);
	struct cfs_entity *e = entity(MAX_TASKS + q);

	__builtin_memset(cfs_rq, 0, sizeof(*cfs_rq));
	__builtin_memset(e, 0, sizeof(*e));
	cfs_rq->cpu = cpu;
	cfs_rq->group = g;
	/* Early enough to meet a wrap of vruntime soon: code that cannot bear it shows. */
	cfs_rq->min_vruntime = -(1ULL << 20);
	e->cpu = cpu;
	e->queue = queue_of(group(g)->parent, cpu);
	e->load.weight = NICE_0_WEIGHT << WEIGHT_SHIFT;
	e->load.inverse = inverse_of(e->load.weight);
}

static __always_inline u32 clamp_shares(u64 shares)
{
	if (shares < MIN_SHARES)
		return MIN_SHARES;
	return shares > MAX_SHARES ? MAX_SHARES : shares;
}

static __noinline void setup_group(u32 g, u32 parent, u64 shares)
{
	struct cfs_group *grp = group(g);
	u32 cpu;

	grp->parent = parent;
	grp->depth = g ? group(parent)->depth + 1 : 0;
	grp->shares = clamp_shares(shares);
	grp->load_avg = 0;
	WRITE_ONCE(grp->session, 0);
	grp->nr_tasks = 0;
	bpf_for (cpu, 0, nr_cpus)
		reset_queue(g, cpu);
	WRITE_ONCE(grp->used, true);
}

/* A new group below `parent`, 0 if there is no room or it would be too deep. */
static __noinline u32 take_group(u32 parent, u64 shares)
{
	struct cfs_lock *lk = slot_lock(SLOT_LOCK_GROUPS);
	u32 limit = max_groups(), g = 0;

	if (!lk || group(parent)->depth + 1 >= MAX_DEPTH)
		return 0;
	bpf_spin_lock(&lk->lock);
	if (free_group) {
		g = free_group;
		free_group = group(g)->parent;
	} else if (fresh_group < limit) {
		g = fresh_group++;
	}
	bpf_spin_unlock(&lk->lock);
	if (g)
		setup_group(g, parent, shares);
	return g;
}

static __noinline void give_group(u32 g)
{
	struct cfs_lock *lk = slot_lock(SLOT_LOCK_GROUPS);

	if (!g || !lk)
		return;
	bpf_spin_lock(&lk->lock);
	group(g)->used = false;
	group(g)->session = 0;
	group(g)->parent = free_group;
	free_group = g;
	bpf_spin_unlock(&lk->lock);
}

/* What cpu.weight means in shares: 100 is 1024. */
static __always_inline u64 shares_of_weight(u32 weight)
{
	return ((u64)weight * NICE_0_WEIGHT + 50) / 100;
}

/*
 * Counts one more task in group g if it is still that of session `id`. A session's last task
 * may be leaving on another CPU just now.
 */
static __noinline bool hold_session(u32 g, u64 id)
{
	struct cfs_lock *lk = slot_lock(SLOT_LOCK_GROUPS);
	bool held = false;

	if (!lk)
		return false;
	bpf_spin_lock(&lk->lock);
	/* Partner: setup_group(), if the group has been given away meanwhile. */
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
	struct cfs_lock *lk = slot_lock(SLOT_LOCK_GROUPS);

	if (!lk)
		return;
	bpf_spin_lock(&lk->lock);
	group(g)->session = id;
	group(g)->nr_tasks = 1;
	bpf_spin_unlock(&lk->lock);
}

/* The group of session `id`, with one more task in it; 0 if there is no room for it. */
__noinline int join_session(u64 id, s32 nice)
{
	struct cfs_load load;
	u32 *known = bpf_map_lookup_elem(&sessions, &id);
	u32 g;

	if (known && hold_session(*known, id))
		return *known;
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
	struct cfs_lock *lk = slot_lock(SLOT_LOCK_GROUPS);
	bool empty = false;
	u32 *known;

	if (!id || !lk)
		return 0;
	bpf_spin_lock(&lk->lock);
	if (!--group(g)->nr_tasks) {
		group(g)->session = 0;
		empty = true;
	}
	bpf_spin_unlock(&lk->lock);
	if (!empty)
		return 0;
	known = bpf_map_lookup_elem(&sessions, &id);
	if (known && *known == g)
		bpf_map_delete_elem(&sessions, &id);
	give_group(g);
	return 0;
}

#endif
