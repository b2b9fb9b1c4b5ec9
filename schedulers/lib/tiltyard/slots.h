/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Indices of a table's elements, given out and taken back.
 *
 * A scheduler that walks queues of its own while it holds a bpf_spin_lock may look up no map: it
 * keeps its tasks in a plain array and names them by index, 0 for none. What a task's storage holds
 * is that index.
 */
#ifndef __LIB_SLOTS_H
#define __LIB_SLOTS_H

#include "maps.h"

struct slot {
	u32 index;
};

struct slot_lock {
	struct bpf_spin_lock lock;
};

/*
 * Slots 1 to max - 1 of a table. Defines
 *
 *	u32 NAME_take(u32 limit)	a slot below `limit`, which is max at most; 0: all are taken
 *	void NAME_give(u32 i)		takes slot i back
 *
 * Given slots come back last in, first out, then new ones; what is in a slot is left as it was.
 */
#define DEFINE_SLOTS(name, max)                                                                    \
	static u32 name##_next[max], name##_free, name##_fresh = 1;                                \
                                                                                                   \
	DEFINE_ARRAY_MAP(name##_lock, 1, struct slot_lock)                                         \
                                                                                                   \
	static __noinline u32 name##_take(u32 limit)                                               \
	{                                                                                          \
		u32 zero = 0, i = 0;                                                               \
		struct slot_lock *lk = bpf_map_lookup_elem(&name##_lock, &zero);                   \
                                                                                                   \
		if (!lk)                                                                           \
			return 0;                                                                  \
		bpf_spin_lock(&lk->lock);                                                          \
		if (name##_free) {                                                                 \
			i = name##_free;                                                           \
			name##_free = name##_next[i & ((max) - 1)];                                \
		} else if (name##_fresh < limit) {                                                 \
			i = name##_fresh++;                                                        \
		}                                                                                  \
		bpf_spin_unlock(&lk->lock);                                                        \
		return i;                                                                          \
	}                                                                                          \
                                                                                                   \
	static __noinline void name##_give(u32 i)                                                  \
	{                                                                                          \
		u32 zero = 0;                                                                      \
		struct slot_lock *lk = bpf_map_lookup_elem(&name##_lock, &zero);                   \
                                                                                                   \
		if (!lk || !i)                                                                     \
			return;                                                                    \
		bpf_spin_lock(&lk->lock);                                                          \
		name##_next[i & ((max) - 1)] = name##_free;                                        \
		name##_free = i;                                                                   \
		bpf_spin_unlock(&lk->lock);                                                        \
	}

#define MAX_TASKS (1U << 16)

DEFINE_SLOTS(task_slots, MAX_TASKS)

DEFINE_TASK_STORAGE(slots_of_tasks, struct slot)

/* The index of task p; 0: it has none. */
static __always_inline u32 slot_of(struct task_struct *p)
{
	struct slot *slot = bpf_task_storage_get(&slots_of_tasks, p, NULL, 0);

	return slot ? slot->index : 0;
}

/* Gives task p an index, in init_task(). 0: there are MAX_TASKS - 1 tasks, or no memory. */
static __always_inline u32 slot_open(struct task_struct *p)
{
	struct slot *slot;

	slot = bpf_task_storage_get(&slots_of_tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!slot)
		return 0;
	slot->index = task_slots_take(MAX_TASKS);
	return slot->index;
}

/* Takes the index of task p back, in exit_task(). */
static __always_inline void slot_close(struct task_struct *p)
{
	u32 i = slot_of(p);

	bpf_task_storage_delete(&slots_of_tasks, p);
	task_slots_give(i);
}

#endif
