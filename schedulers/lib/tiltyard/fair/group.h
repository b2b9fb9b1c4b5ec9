/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Groups inside the queues: how averages add up, and what a group weighs on a CPU.
 */
#ifndef __LIB_FAIR_GROUP_H
#define __LIB_FAIR_GROUP_H

#include "pelt.h"
#include "rule.h"
#include "types.h"

/* Empties queue q of group g and the entity that stands for it. */
static __noinline void group_reset_queue(u32 g, u32 cpu)
{
	u32 q = queue_of(g, cpu);
	struct fair_queue *cfs_rq = queue(q);
	struct fair_entity *e = entity(MAX_TASKS + q);

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

/* Announces the queue's load to its group if it has changed by more than 1/64. */
static __noinline void announce_load(u32 q)
{
	struct fair_queue *cfs_rq = queue(q);
	s64 change = cfs_rq->pelt.load_avg - cfs_rq->announced_avg;
	s64 size = change < 0 ? -change : change;

	if (!cfs_rq->group || size <= (s64)(cfs_rq->announced_avg / 64))
		return;
	__sync_fetch_and_add(&group(cfs_rq->group)->load_avg, change);
	/* Partner: effective_load() on other CPUs. */
	WRITE_ONCE(cfs_rq->announced_avg, cfs_rq->pelt.load_avg);
}

/* Takes out what balancing has moved elsewhere since the last time. */
static __noinline void settle_moved(struct fair_queue *cfs_rq)
{
	struct pelt *a = &cfs_rq->pelt;

	WRITE_ONCE(a->load_avg, less(a->load_avg, cfs_rq->moved_load));
	a->load_sum = less(a->load_sum, cfs_rq->moved_load * PELT_MAX);
	WRITE_ONCE(a->util_avg, less(a->util_avg, cfs_rq->moved_util));
	a->util_sum = less(a->util_sum, cfs_rq->moved_util * PELT_MAX);
	cfs_rq->moved_load = 0;
	cfs_rq->moved_util = 0;
}

/* Brings the averages of queue q up to date. */
static __always_inline void update_queue_load(u32 q, u64 now_ns)
{
	struct fair_queue *cfs_rq = queue(q);

	if (cfs_rq->moved_load || cfs_rq->moved_util)
		settle_moved(cfs_rq);
	if (COUNTS_TASKS && !cfs_rq->group) {
		pelt_update_tasks(&cfs_rq->pelt, now_ns, table_units(cfs_rq->weight),
				  cpu_state(cfs_rq->cpu)->nr_tasks, cfs_rq->curr != 0);
		return;
	}
	if (pelt_update(&cfs_rq->pelt, now_ns, table_units(cfs_rq->weight), true,
			cfs_rq->curr != 0))
		announce_load(q);
}

/* Brings the averages of entity i and of its queue up to date. */
static __noinline void update_load(u32 i, u64 now_ns)
{
	struct fair_entity *e = entity(i);
	u64 weight = e->on_rq ? table_units(e->load.weight) : 0;

	if (e->attached)
		pelt_update(&e->pelt, now_ns, weight, false, queue(e->queue)->curr == i);
	update_queue_load(e->queue, now_ns);
}

/*
 * Queues of groups that have averages, by CPU: of a queue whose tasks have gone or sleep nothing
 * else would let them decay, and the group's queues on other CPUs would go on counting them. Not in
 * struct fair_queue, which is emptied when a group is given to another cgroup. Lock of the CPU.
 */
#define MAX_DECAYING MAX_GROUPS

static u32 decaying_next[MAX_QUEUES], decaying_first[MAX_CPUS];
static bool decaying[MAX_QUEUES];

static __always_inline void keep_decaying(u32 q)
{
	u32 at = q & (MAX_QUEUES - 1), cpu = queue(q)->cpu & (MAX_CPUS - 1);

	if (!queue(q)->group || decaying[at])
		return;
	decaying[at] = true;
	decaying_next[at] = decaying_first[cpu];
	decaying_first[cpu] = q;
}

/* Brings the averages of all queues of @cpu up to date. Lock held. */
static __noinline void update_blocked(u32 cpu, u64 now_ns)
{
	u32 *link = &decaying_first[cpu & (MAX_CPUS - 1)], n;

	update_queue_load(queue_of(0, cpu), now_ns);
	bpf_for (n, 0, MAX_DECAYING) {
		u32 q = *link;
		struct fair_queue *cfs_rq = queue(q);

		if (!q)
			break;
		update_queue_load(q, now_ns);
		if (cfs_rq->pelt.load_avg || cfs_rq->pelt.util_avg || cfs_rq->announced_avg) {
			link = &decaying_next[q & (MAX_QUEUES - 1)];
			continue;
		}
		decaying[q & (MAX_QUEUES - 1)] = false;
		*link = decaying_next[q & (MAX_QUEUES - 1)];
	}
}

/* Adds the averages of an entity that comes from elsewhere to its queue's. */
static __noinline void attach_load(u32 i, u64 now_ns)
{
	struct fair_entity *e = entity(i);
	struct pelt *a = &e->pelt, *of_queue = &queue(e->queue)->pelt;

	update_queue_load(e->queue, now_ns);
	if (e->newborn && is_task(i))
		pelt_newborn_util(a, of_queue, table_units(e->load.weight));
	a->updated_ns = of_queue->updated_ns;
	WRITE_ONCE(of_queue->load_avg, of_queue->load_avg + a->load_avg);
	of_queue->load_sum += a->load_sum;
	WRITE_ONCE(of_queue->util_avg, of_queue->util_avg + a->util_avg);
	of_queue->util_sum += a->util_sum;
	e->attached = true;
	announce_load(e->queue);
	keep_decaying(e->queue);
}

/* Takes the averages of an entity that leaves out of its queue's. */
static __noinline void detach_load(u32 i, u64 now_ns)
{
	struct fair_entity *e = entity(i);
	struct pelt *a = &e->pelt, *of_queue = &queue(e->queue)->pelt;

	if (!e->attached)
		return;
	update_load(i, now_ns);
	WRITE_ONCE(of_queue->load_avg, less(of_queue->load_avg, a->load_avg));
	of_queue->load_sum = less(of_queue->load_sum, a->load_sum);
	WRITE_ONCE(of_queue->util_avg, less(of_queue->util_avg, a->util_avg));
	of_queue->util_sum = less(of_queue->util_sum, a->util_sum);
	e->attached = false;
	announce_load(e->queue);
}

/* The same for a task that balancing takes: the queue forgets its averages at its next update. */
static __noinline void detach_moved(u32 i)
{
	struct fair_entity *e = entity(i);
	struct fair_queue *cfs_rq = queue(e->queue);

	if (!e->attached)
		return;
	cfs_rq->moved_load += e->pelt.load_avg;
	cfs_rq->moved_util += e->pelt.util_avg;
	e->attached = false;
}

/*
 * The weight of queue q's group on this CPU: the group's shares times this queue's part of
 * the group's load. The other CPUs count with what they announced, this one as it is now.
 */
static __noinline u64 group_weight(u32 q)
{
	struct fair_queue *cfs_rq = queue(q);
	struct task_group_state *g = group(cfs_rq->group);
	/* Partners: fair_cgroup_set_weight(), and announce_load() of the group's other queues. */
	u64 shares = (u64)READ_ONCE(g->shares) << WEIGHT_SHIFT;
	u64 load = table_units(cfs_rq->weight);
	u64 total = less(READ_ONCE(g->load_avg), cfs_rq->announced_avg) + load;
	u64 weight = shares * load;

	if (total)
		weight /= total;
	if (weight < MIN_SHARES << WEIGHT_SHIFT)
		weight = MIN_SHARES << WEIGHT_SHIFT;
	return weight < shares ? weight : shares;
}

/* Gives the entity of queue q's group its weight of now. */
static __maybe_unused __noinline void update_shares(u32 q, u64 now_ns)
{
	u32 i = owner_of(q);
	struct fair_entity *e = entity(i);
	u64 weight;

	if (!i)
		return;
	weight = group_weight(q);
	if (weight != e->load.weight)
		reweight_group(i, weight, now_ns);
}

#endif
