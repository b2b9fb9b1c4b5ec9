/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which CPU: wakeups, new tasks, and CPUs that run dry.
 *
 * The shape of Linux 4.9 (wake_wide, wake_affine, idle sibling, idlest CPU, newidle), reduced
 * to two domains, last-level cache and machine. README.md lists what is missing.
 */
#ifndef __CFS_BALANCE_H
#define __CFS_BALANCE_H

#include "types.h"
#include "queue.h"

#define FLIPS_DECAY_NS 1000000000ULL

/* Imbalance that wake_affine tolerates between two CPUs, in percent: one cache, two caches. */
#define PCT_LLC	       117
#define PCT_NODE       125

static __always_inline bool share_cache(u32 a, u32 b)
{
	return cpu_llc_id[a & (MAX_CPUS - 1)] == cpu_llc_id[b & (MAX_CPUS - 1)];
}

/* CPUs that share a last-level cache with @cpu, itself included. */
static __always_inline u32 llc_size(u32 cpu)
{
	const struct topo_span *span = &topo_of(&topo, cpu)->span[TOPO_LLC];

	return span->end - span->first;
}

static __always_inline bool cpu_is_idle(u32 cpu, const struct cpumask *idle)
{
	return !READ_ONCE(cpu_state(cpu)->nr_tasks) && bpf_cpumask_test_cpu(cpu, idle);
}

/*
 * Load of the tasks that are runnable on `cpu` now. Other CPUs are looked at without their locks,
 * here and wherever nr_tasks is read below, as in Linux: each at another moment. Partners are the
 * updates under the lock, in queue.h and pelt_update().
 */
static __always_inline u64 cpu_load(u32 cpu)
{
	return READ_ONCE(queue(queue_of(0, cpu))->pelt.runnable_avg);
}

/* The waker notes whom it wakes. Tasks that wake many different ones have many flips. */
static __noinline void record_wakee(u32 waker, u32 wakee, u64 now_ns)
{
	struct cfs_entity *e = entity(waker);

	if (now_ns - e->flips_decayed_ns > FLIPS_DECAY_NS) {
		e->flips >>= 1;
		e->flips_decayed_ns = now_ns;
	}
	if (e->last_wakee != wakee) {
		e->last_wakee = wakee;
		e->flips++;
	}
}

/* Is this one task waking many, each of which wakes several? They do not fit one cache. */
static __noinline bool wake_wide(u32 waker_flips, u32 wakee_flips, u32 size)
{
	u32 high = waker_flips, low = wakee_flips;

	if (high < low) {
		high = wakee_flips;
		low = waker_flips;
	}
	return low >= size && high >= low * size;
}

/* Is the waker's CPU, with the wakee's load on top, no busier than the wakee's last CPU? */
static __noinline bool wake_affine(u64 prev_load, u64 this_load, u64 task_load, u32 pct)
{
	u64 this_eff = 100, prev_eff = 100 + (pct - 100) / 2;

	if (this_load) {
		this_eff *= this_load + task_load;
		prev_eff *= prev_load;
	}
	return this_eff <= prev_eff;
}

/* An idle CPU that shares the cache with `target`, else `target` itself. */
static __noinline s32 idle_sibling(struct task_struct *p, u32 target, u32 prev)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	u32 cpu = target, n = llc_size(target), k;
	s32 found = target;

	if (cpu_is_idle(target, idle))
		goto out;
	if (prev != target && share_cache(prev, target) && cpu_is_idle(prev, idle)) {
		found = prev;
		goto out;
	}
	bpf_for (k, 1, n) {
		cpu = topo_next(&topo, cpu, TOPO_LLC);
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && cpu_is_idle(cpu, idle)) {
			found = cpu;
			break;
		}
	}
out:
	scx_bpf_put_idle_cpumask(idle);
	return found;
}

/* For a new task: an idle CPU, else the one with the least load; the parent's among equals. */
static __noinline s32 idlest_cpu(struct task_struct *p, u32 here)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	u64 least = ~0ULL;
	s32 found = here;
	u32 k;

	bpf_for (k, 0, nr_cpus) {
		u32 cpu = (here + k) % nr_cpus;

		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (cpu_is_idle(cpu, idle)) {
			found = cpu;
			break;
		}
		if (cpu_load(cpu) < least) {
			least = cpu_load(cpu);
			found = cpu;
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	return found;
}

/*
 * For a wakee: near its last CPU or near the waker. `waker` is 0 for an interrupt on an idle
 * CPU, which has no load and no habits.
 */
static __noinline s32 wake_cpu(struct task_struct *p, u32 i, u32 waker, u32 prev, bool sync)
{
	u32 here = bpf_get_smp_processor_id(), target = prev;
	u32 pct = share_cache(here, prev) ? PCT_LLC : PCT_NODE;
	struct cfs_entity *e = entity(i);
	u64 here_load;

	if (here != prev && bpf_cpumask_test_cpu(here, p->cpus_ptr) &&
	    !wake_wide(entity(waker)->flips, e->flips, llc_size(here))) {
		here_load = cpu_load(here);
		if (sync)
			here_load = less(here_load, entity(waker)->pelt.load_avg);
		if (wake_affine(cpu_load(prev), here_load, e->pelt.load_avg, pct))
			target = here;
	}
	return idle_sibling(p, target, prev);
}

/* The CPU with the most load among those where a task waits; `cpu` itself if there is none. */
static __noinline u32 busiest_cpu(u32 cpu)
{
	u32 found = cpu, k;
	u64 most = 0;

	bpf_for (k, 1, nr_cpus) {
		u32 other = (cpu + k) % nr_cpus;

		if (READ_ONCE(cpu_state(other)->nr_tasks) < 2)
			continue;
		if (found == cpu || cpu_load(other) > most) {
			most = cpu_load(other);
			found = other;
		}
	}
	return found;
}

/* The first waiting task on `cpu` that is ours to dispatch, 0 if there is none. Lock held. */
static __noinline u32 waiting_task(u32 cpu)
{
	u32 q = queue_of(0, cpu), level;

	bpf_for (level, 0, MAX_DEPTH) {
		u32 i = queue(q)->waiting.first;

		/* All that waits may wait inside the group that has the turn. */
		if (!i)
			i = queue(q)->curr;
		if (!i)
			break;
		if (is_task(i))
			return custody_holds(&entity(i)->custody) && entity(i)->waiting ? i : 0;
		q = owned_queue(i);
	}
	return 0;
}

/*
 * Takes task i off its CPU; 0 if it has gone meanwhile, else 1. If it has gone, another lock guards
 * it now: join() and start_waiting() there set the CPU first and `waiting` last, and here they are
 * read the other way round, so that a task that waits elsewhere is not taken for one that does
 * here.
 */
__noinline int take_away(u32 i, u32 from, u64 now_ns)
{
	struct cfs_lock *lk = cpu_lock(from);
	struct cfs_entity *e = entity(i);
	int taken = 0;

	if (!lk)
		return 0;
	bpf_spin_lock(&lk->lock);
	if (custody_holds(&e->custody) && READ_ONCE(e->waiting) && READ_ONCE(e->cpu) == from) {
		dequeue_task(i, now_ns, 0);
		detach_load(i, now_ns);
		custody_end(&e->custody);
		taken = 1;
	}
	bpf_spin_unlock(&lk->lock);
	return taken;
}

/*
 * CPU `cpu` has nothing to run: brings it one waiting task of the busiest CPU. The task joins
 * this CPU's queue when it starts here, in running(): until the core has moved it, which it
 * does not if the task has been dequeued meanwhile, it is nobody's.
 */
static __noinline bool pull_task(u32 cpu, u64 now_ns)
{
	u32 from = busiest_cpu(cpu), i = 0;
	struct cfs_lock *lk = cpu_lock(from);
	struct task_struct *p;
	bool may;

	if (from == cpu || !lk)
		return false;
	bpf_spin_lock(&lk->lock);
	i = waiting_task(from);
	bpf_spin_unlock(&lk->lock);
	if (!i)
		return false;
	p = bpf_task_from_pid(entity(i)->custody.pid);
	if (!p)
		return false;
	may = bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && !p->migration_disabled &&
	      take_away(i, from, now_ns);
	if (may)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, TURN_NS, 0);
	bpf_task_release(p);
	return may;
}

/* A task waits here at a tick while some CPU idles that may run it: sends that CPU looking. */
static __noinline void kick_idle_cpu(struct task_struct *curr, u32 cpu)
{
	s32 idle;

	if (READ_ONCE(cpu_state(cpu)->nr_tasks) < 2)
		return;
	idle = scx_bpf_pick_idle_cpu(curr->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

#endif
