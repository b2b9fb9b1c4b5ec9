/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where tasks may run, in memory of the scheduler's own: balancing asks while it holds a lock, and
 * then the kernel cannot be asked.
 *
 * Most tasks may run anywhere or on one CPU. Others have a mask from a table; when that is full, or
 * a task's mask is none of these, balancing leaves the task where it is.
 */
#ifndef __LIB_LINUX26_AFFINITY_H
#define __LIB_LINUX26_AFFINITY_H

#include "../machine.h"
#include "../slots.h"

#define MAX_MASKS  8192
#define MASK_WORDS (MAX_CPUS / 64)
#define NO_CPU	   MAX_CPUS

/* Room for masks other than "any" and "one". */
DEFINE_SLOTS(mask_slots, MAX_MASKS)

struct affinity {
	/* On any CPU; else by a mask, on CPU `only`, or nowhere else than where it is. */
	bool anywhere;
	u32 only, mask;
};

static u64 masks[MAX_MASKS][MASK_WORDS];

static __always_inline u64 *mask_word(u32 mask, u32 cpu)
{
	barrier_var(mask);
	barrier_var(cpu);
	return &masks[mask & (MAX_MASKS - 1)][cpu / 64 & (MASK_WORDS - 1)];
}

/* What the CPUs of @allowed are, which may be offline. Takes a mask if it needs one:
 * affinity_drop(). */
static __noinline void affinity_read(struct affinity *a, const struct cpumask *allowed, u32 nr_cpus)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 nr = bpf_cpumask_weight(allowed), cpu, mask;

	a->anywhere = bpf_cpumask_subset(online, allowed);
	scx_bpf_put_cpumask(online);
	a->only = nr == 1 ? bpf_cpumask_first(allowed) : NO_CPU;
	a->mask = 0;
	if (a->anywhere || nr == 1)
		return;
	mask = mask_slots_take(MAX_MASKS);
	bpf_for (cpu, 0, nr_cpus) {
		if (!mask)
			break;
		if (cpu % 64 == 0)
			*mask_word(mask, cpu) = 0;
		if (bpf_cpumask_test_cpu(cpu, allowed))
			*mask_word(mask, cpu) |= 1ULL << (cpu & 63);
	}
	a->mask = mask;
}

static __always_inline void affinity_drop(const struct affinity *a)
{
	if (a->mask)
		mask_slots_give(a->mask);
}

static __always_inline bool affinity_has(const struct affinity *a, u32 cpu)
{
	if (a->anywhere)
		return true;
	if (!a->mask)
		return a->only == cpu;
	return *mask_word(a->mask, cpu) & 1ULL << (cpu & 63);
}

#endif
