/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether a CPU that runs dry looks for a task: only if it is idle for longer than a search takes
 * and, in later 6.18.y, with a probability that follows how often it has found one lately.
 */
#pragma once

#include "../load.h"

/* NI_RANDOM of later 6.18.y, seen in 6.18.15. */
const volatile bool newidle_random = false;

/* How the last searches of a CPU at one level ended. */
struct newidle_record {
	u32 calls, found;
	u32 ratio; /* of NEWIDLE_CALLS */
};

#define NEWIDLE_CALLS 1024

/* Of a CPU: in lines of its own. */
struct newidle_past {
	struct newidle_record level[MAX_LEVELS];
} __attribute__((aligned(64)));

static struct newidle_past newidle_pasts[MAX_CPUS];

static __always_inline struct newidle_record *newidle_record(u32 cpu, u32 level)
{
	struct newidle_record *r;

	barrier_var(cpu);
	barrier_var(level);
	r = &newidle_pasts[cpu & (MAX_CPUS - 1)].level[level & (MAX_LEVELS - 1)];
	/* A half, at first. */
	if (!r->calls) {
		r->calls = NEWIDLE_CALLS / 2;
		r->found = NEWIDLE_CALLS / 4;
		r->ratio = NEWIDLE_CALLS / 2;
	}
	return r;
}

static __always_inline void newidle_count(struct newidle_record *r, u32 found)
{
	r->calls++;
	r->found += found;
	if (r->calls < NEWIDLE_CALLS)
		return;
	r->ratio = r->found;
	r->calls /= 2;
	r->found /= 2;
}

/* Whether @cpu, which has run dry, is idle for long enough to look for a task. */
static __always_inline bool newidle_pays(u32 cpu, const struct fair_cpu *cs)
{
	return READ_ONCE(cs->avg_idle_ns) >= READ_ONCE(domain(cpu, 0)->max_newidle_ns);
}

static __noinline bool newidle_tries(u32 cpu, u32 level)
{
	struct newidle_record *r = newidle_record(cpu, level);

	if (!newidle_random || bpf_get_prandom_u32() % NEWIDLE_CALLS <= 1 + r->ratio)
		return true;
	newidle_count(r, 0);
	return false;
}

/* A successful search counts also for the searches that were skipped. */
static __always_inline void newidle_tried(u32 cpu, u32 level, u32 found)
{
	struct newidle_record *r = newidle_record(cpu, level);
	u32 weight = 1 + r->ratio;

	if (newidle_random)
		newidle_count(r, found ? (NEWIDLE_CALLS + weight / 2) / weight : 0);
}

/* It is not known since when CPUs have been idle. A new task goes to the CPU that has gone idle
 * last, and idlest_cpu() never chooses one whose time is 0, so all begin with the present. */
static __noinline void init_version(void)
{
	u64 now_ns = scx_bpf_now() ?: 1;
	u32 cpu;

	bpf_for (cpu, 0, nr_cpus)
		WRITE_ONCE(cpu_state(cpu)->idle_since_ns, now_ns);
}
