/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The waiting entities of one queue, ordered by vruntime, equal ones first come first served.
 *
 * A leftist heap: each node is before its children and the right spine is the shortest way
 * out, so no way along right links is longer than log2(n + 1). CFS uses a red-black tree for
 * the same order; of that it needs the first, the second, insertion and removal of any node,
 * and a leftist heap gives these in O(log n) with one loop instead of a dozen rotation cases.
 */
#ifndef __CFS_HEAP_H
#define __CFS_HEAP_H

#include "types.h"

/* Right spines of two heaps of 2^16 nodes end to end, and a little. */
#define HEAP_STEPS 40

static __always_inline bool earlier(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

static __always_inline bool before(const struct cfs_entity *a, const struct cfs_entity *b)
{
	s64 d = a->vruntime - b->vruntime;

	return d < 0 || (d == 0 && earlier(a->seq, b->seq));
}

static __always_inline u32 rank_of(u32 i)
{
	return i ? entity(i)->rank : 0;
}

/*
 * Restores "left child of the higher rank" and the ranks from node i upwards. `all` walks to
 * the top; else the walk ends where nothing changes any more.
 */
static __noinline void heap_settle(u32 i, bool all)
{
	u32 step;

	bpf_for (step, 0, HEAP_STEPS) {
		struct cfs_entity *e = entity(i);
		u32 rank;

		if (!i)
			break;
		if (rank_of(e->left) < rank_of(e->right)) {
			u32 left = e->left;

			e->left = e->right;
			e->right = left;
		}
		rank = rank_of(e->right) + 1;
		if (e->rank == rank && !all)
			break;
		e->rank = rank;
		i = e->up;
	}
}

/* Merges two heaps, both without a parent; returns the root. */
static __noinline u32 heap_merge(u32 a, u32 b)
{
	u32 root, step;

	if (!a || !b)
		return a ? a : b;
	if (before(entity(b), entity(a))) {
		root = b;
		b = a;
		a = root;
	}
	root = a;
	/* b goes somewhere below a, along a's right spine. */
	bpf_for (step, 0, HEAP_STEPS) {
		u32 right = entity(a)->right;

		if (right && before(entity(right), entity(b))) {
			a = right;
			continue;
		}
		entity(a)->right = b;
		entity(b)->up = a;
		if (!right)
			break;
		a = b;
		b = right;
	}
	heap_settle(a, true);
	return root;
}

static __noinline void heap_insert(u32 q, u32 i)
{
	struct cfs_queue *cfs_rq = queue(q);
	struct cfs_entity *e = entity(i);

	e->left = e->right = e->up = 0;
	e->rank = 1;
	e->seq = cfs_rq->seq++;
	/* After join() has set its CPU; partner: take_away(). */
	WRITE_ONCE(e->waiting, true);
	cfs_rq->root = heap_merge(cfs_rq->root, i);
}

static __noinline void heap_remove(u32 q, u32 i)
{
	struct cfs_entity *e = entity(i);
	u32 left = e->left, right = e->right, up = e->up, heir;

	if (left)
		entity(left)->up = 0;
	if (right)
		entity(right)->up = 0;
	heir = heap_merge(left, right);
	WRITE_ONCE(e->waiting, false);
	if (heir)
		entity(heir)->up = up;
	if (!up) {
		queue(q)->root = heir;
		return;
	}
	if (entity(up)->left == i)
		entity(up)->left = heir;
	else
		entity(up)->right = heir;
	heap_settle(up, false);
}

static __always_inline u32 heap_first(u32 q)
{
	return queue(q)->root;
}

static __noinline u32 heap_second(u32 q)
{
	struct cfs_entity *first = entity(heap_first(q));
	u32 left = first->left, right = first->right;

	if (!left || !right)
		return left ? left : right;
	return before(entity(left), entity(right)) ? left : right;
}

#endif
