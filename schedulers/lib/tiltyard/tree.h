/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waiting entities in order of a key, which may wrap; equal keys first come, first served.
 *
 * A balanced (AVL) tree: the heights of siblings differ by one at most, so a tree of n nodes is no
 * higher than 1.44 log2(n + 2): all loops here are bounded. Each node also knows the least `value`
 * at and below it, so the first in order whose value is within a limit is found on one way down:
 * EEVDF's pick, the earliest deadline (key) of those whose vruntime (value) is not ahead. The
 * kernel's red-black tree does the same with more cases.
 *
 * Nodes are named by index, 0 is none. Who includes this defines
 *
 *	struct tree_node *tree_node(u32 i)	the node of entity i
 *	bool tree_keeps_more(void)		whether nodes know more of those below them
 *	void tree_keep(u32 i, u32 a, u32 b)	node i learns that from its children, 0: none
 *
 * and holds the lock of the tree in all calls. Nothing here calls into the kernel.
 */
#ifndef __LIB_TREE_H
#define __LIB_TREE_H

#include "arith.h"

/* More than the height of a tree with 2^20 nodes. */
#define TREE_STEPS 32

struct tree_node {
	u64 key;
	u64 value;
	u64 least; /* of the values at and below it */
	/* The earlier side and the later side. */
	u32 child[2];
	u32 up;
	u32 height; /* 1 without children */
};

struct tree {
	u32 root;
	u32 first; /* in order */
	/* While it is changed: where tree_settle() is, what was known there before, and the last
	 * node that it has to see. Not locals: of those the verifier follows every value in a loop.
	 */
	u32 at;
	u32 height;
	u64 least;
	u32 past;
	bool leans;
};

static __always_inline struct tree_node *tree_node(u32 i);
static __always_inline bool tree_keeps_more(void);
static __always_inline void tree_keep(u32 i, u32 a, u32 b);

static __always_inline u32 tree_height(u32 i)
{
	return i ? tree_node(i)->height : 0;
}

/* Node i learns again what it knows of those below it. */
static __always_inline void tree_sum(u32 i)
{
	struct tree_node *n = tree_node(i);
	u32 a = n->child[0], b = n->child[1];
	u32 left = tree_height(a), right = tree_height(b);

	n->height = 1 + (left > right ? left : right);
	n->least = n->value;
	if (a)
		n->least = earlier_of(n->least, tree_node(a)->least);
	if (b)
		n->least = earlier_of(n->least, tree_node(b)->least);
	tree_keep(i, a, b);
}

/* `to`, 0 for nothing, takes the place of node `from` below `up`. */
static __always_inline void tree_replace(struct tree *t, u32 up, u32 from, u32 to)
{
	if (to)
		tree_node(to)->up = up;
	if (up)
		tree_node(up)->child[tree_node(up)->child[1] == from] = to;
	else
		t->root = to;
}

/* Rotates: lifts the child of node i on `side` above i, and returns it. */
static __noinline u32 tree_lift(struct tree *t, u32 i, u32 side)
{
	u32 lifted = tree_node(i)->child[side & 1];
	u32 inner = tree_node(lifted)->child[~side & 1];

	tree_replace(t, tree_node(i)->up, i, lifted);
	tree_node(i)->child[side & 1] = inner;
	if (inner)
		tree_node(inner)->up = i;
	tree_node(lifted)->child[~side & 1] = i;
	tree_node(i)->up = lifted;
	tree_sum(i);
	tree_sum(lifted);
	return lifted;
}

/* One step of tree_settle(). False: nothing more is to be done. */
static __always_inline bool tree_step(struct tree *t)
{
	u32 i = t->at, at = i, left, right, high;
	struct tree_node *n = tree_node(i), *c;

	if (!i)
		return false;
	if (i == t->past)
		t->past = 0;
	if (!t->leans) {
		t->height = n->height;
		t->least = n->least;
	}
	left = tree_height(n->child[0]);
	right = tree_height(n->child[1]);
	t->leans = left > right + 1 || right > left + 1;
	if (!t->leans) {
		tree_sum(i);
		t->at = n->up;
		return t->past || n->height != t->height || n->least != t->least ||
		       tree_keeps_more();
	}
	high = right > left;
	c = tree_node(n->child[high]);
	if (tree_height(c->child[!high]) > tree_height(c->child[high])) {
		at = n->child[high];
		high = !high;
	}
	t->at = tree_lift(t, at, high);
	if (at != i)
		t->at = i;
	return true;
}

/* Sets right all nodes from i upwards: as far as node `past` (0: i) and then until nothing changes.
 * A node that leans takes a step for each rotation. */
static __noinline void tree_settle(struct tree *t, u32 i, u32 past)
{
	u32 step;

	t->at = i;
	t->past = past;
	t->leans = false;
	bpf_for (step, 0, 3 * TREE_STEPS) {
		if (!tree_step(t))
			break;
	}
}

/* The first in order at and below node i. */
static __noinline u32 tree_leftmost(u32 i)
{
	u32 step;

	bpf_for (step, 0, TREE_STEPS) {
		u32 left = tree_node(i)->child[0];

		if (!left)
			break;
		i = left;
	}
	return i;
}

/* Inserts entity i, which is in no tree, after all whose keys are not later. */
static __noinline void tree_insert(struct tree *t, u32 i, u64 key, u64 value)
{
	struct tree_node *n = tree_node(i);
	u32 up = t->root, side = 0, step;
	bool is_first = true;

	n->key = key;
	n->value = value;
	n->least = value;
	n->child[0] = 0;
	n->child[1] = 0;
	n->up = up;
	n->height = 1;
	tree_keep(i, 0, 0);
	if (!up) {
		t->root = i;
		t->first = i;
		return;
	}
	bpf_for (step, 0, TREE_STEPS) {
		u32 next;

		side = !earlier(key, tree_node(up)->key);
		if (side)
			is_first = false;
		next = tree_node(up)->child[side];
		if (!next)
			break;
		up = next;
	}
	if (is_first)
		t->first = i;
	n->up = up;
	tree_node(up)->child[side & 1] = i;
	tree_settle(t, up, 0);
}

/* The entity that comes after the first; 0 if there is none. */
static __maybe_unused __noinline u32 tree_second(const struct tree *t)
{
	u32 first = t->first, right;

	if (!first)
		return 0;
	right = tree_node(first)->child[1];
	return right ? tree_leftmost(right) : tree_node(first)->up;
}

/* Takes entity i out of the tree that it is in. */
static __noinline void tree_remove(struct tree *t, u32 i)
{
	struct tree_node *n = tree_node(i), *heir;
	u32 left = n->child[0], right = n->child[1], next = left ? left : right, from = n->up;
	u32 past = 0;

	/* The first has no earlier child. */
	if (t->first == i)
		t->first = right ? tree_leftmost(right) : n->up;
	if (left && right) {
		/* The next in order has no earlier child: it leaves its place to its later one. */
		next = tree_leftmost(right);
		heir = tree_node(next);
		from = next;
		past = next;
		if (next != right) {
			from = heir->up;
			tree_replace(t, from, next, heir->child[1]);
			heir->child[1] = right;
			tree_node(right)->up = next;
		}
		heir->child[0] = left;
		tree_node(left)->up = next;
		heir->height = n->height;
		heir->least = n->least;
	}
	tree_replace(t, n->up, i, next);
	tree_settle(t, from, past);
}

/* The first in order whose value is not later than `limit`; 0 if there is none. */
static __maybe_unused __noinline u32 tree_first_within(const struct tree *t, u64 limit)
{
	u32 i = t->root, step;

	if (!i || earlier(limit, tree_node(i)->least))
		return 0;
	bpf_for (step, 0, TREE_STEPS) {
		u32 left = tree_node(i)->child[0];

		if (left && !earlier(limit, tree_node(left)->least)) {
			i = left;
			continue;
		}
		if (!earlier(limit, tree_node(i)->value))
			break;
		i = tree_node(i)->child[1];
	}
	return i;
}

#endif
