/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Idle CPUs, and which of them is best for a task.
 */
#pragma once

#include "deadline.h"

/* CPUs with nothing to do that nobody has woken yet. Set under the lock, so that a task is either
 * found by the CPU or finds it idle; who wakes one clears its bit first. */
static struct cpu_words idle;

/* The CPUs of each core and of each last-level cache. */
static struct cpu_words core_cpus[MAX_CPUS], llc_cpus[MAX_CPUS];

static __always_inline void set_idle(u32 cpu)
{
	__sync_fetch_and_or(word_of(&idle, cpu), bit_of(cpu));
}

/* True if it was, and nobody else has claimed it. */
static __always_inline bool claim_idle(u32 cpu)
{
	return __sync_fetch_and_and(word_of(&idle, cpu), ~bit_of(cpu)) & bit_of(cpu);
}

static __always_inline bool is_idle(u32 cpu)
{
	return READ_ONCE(*word_of(&idle, cpu)) & bit_of(cpu);
}

/* The idle CPUs of word @w where task @i may run. */
static __always_inline u64 suitable_word(u32 i, u32 w)
{
	u64 bits = READ_ONCE(idle.w[w & (CPU_WORDS - 1)]);

	return bits ? bits & allowed_word(i, w) : 0;
}

static __noinline bool all_idle(const struct cpu_words *set)
{
	u32 w;

	bpf_for (w, 0, nr_words()) {
		u32 i = w & (CPU_WORDS - 1);

		if (set->w[i] & ~READ_ONCE(idle.w[i]))
			return false;
	}
	return true;
}

static __always_inline bool cache_is_busy(u32 cpu)
{
	return !all_idle(&llc_cpus[cpu_llc_id[cpu & (MAX_CPUS - 1)] & (MAX_CPUS - 1)]);
}

static __always_inline bool core_is_busy(u32 cpu)
{
	return !all_idle(&core_cpus[cpu_core_id[cpu & (MAX_CPUS - 1)] & (MAX_CPUS - 1)]);
}

/* Ranks are sums of these. */
#define CACHE_BUSY  1
#define OTHER_CPU   2 /* without a cache in common */
#define THREAD_BUSY 4
#define OTHER_NODE  8

/* How bad CPU @cpu is for a task that ran last on @last. */
static __noinline u32 idle_rank(u32 cpu, u32 last)
{
	u32 far = locality(last, cpu), rank = 0;

	if (cache_is_busy(cpu))
		rank |= CACHE_BUSY;
	if (core_is_busy(cpu))
		rank |= THREAD_BUSY;
	if (far)
		rank |= OTHER_CPU;
	if (far > 1)
		rank |= OTHER_NODE;
	return rank;
}

/* From 0.464 on. */
#define STICKY_OTHER_THREAD 1
#define STICKY_OTHER_CORE   2
#define STICKY_CACHE_BUSY   4
#define STICKY_OTHER_CPU    8
#define STICKY_THREAD_BUSY  16
#define STICKY_OTHER_NODE   64

static __noinline u32 sticky_idle_rank(u32 cpu, u32 last)
{
	u32 far = sticky_locality(last, cpu), rank = 0;

	/* Its own CPU is taken whatever its neighbours do. */
	if (!far)
		return 0;
	if (far == 1)
		rank |= STICKY_OTHER_THREAD;
	if (far == 2)
		rank |= STICKY_OTHER_CORE;
	if (far > 2)
		rank |= STICKY_OTHER_CPU;
	if (far > 3)
		rank |= STICKY_OTHER_NODE;
	if (cache_is_busy(cpu))
		rank |= STICKY_CACHE_BUSY;
	if (core_is_busy(cpu))
		rank |= STICKY_THREAD_BUSY;
	return rank;
}

static __always_inline u32 rank_of_idle(u32 cpu, u32 last)
{
	if (!rank_idle)
		return 0;
	return ranks_as_sticky() ? sticky_idle_rank(cpu, last) : idle_rank(cpu, last);
}

/*
 * The best idle CPU for task @i, which ran last on @last; -1: no idle CPU suits. Looks from @last
 * on upwards and around, and no further when one is good enough.
 */
static __noinline s32 best_idle(u32 i, u32 last)
{
	u32 first = last >> 6, best_rank = ~0U, k, n;
	s32 best = -1;

	/* The first word comes twice: from @last on, and at the end below it. */
	bpf_for (k, 0, nr_words() + 1) {
		u32 w = first + k < nr_words() ? first + k : first + k - nr_words();
		u64 bits = suitable_word(i, w), below = bit_of(last) - 1;

		if (!k)
			bits &= ~below;
		else if (k == nr_words())
			bits &= below;
		bpf_for (n, 0, 64) {
			u32 cpu = w * 64 + __builtin_ctzll(bits), rank;

			if (!bits)
				break;
			bits &= bits - 1;
			rank = rank_of_idle(cpu, last);
			if (rank < best_rank) {
				best = cpu;
				best_rank = rank;
			}
			if (best_rank <= CACHE_BUSY)
				return best;
		}
	}
	return best;
}

/*
 * The same, claimed. Others claim without the lock, so the best one may be gone: then the next best
 * is as good. No CPU goes idle meanwhile if the lock is held, so none is left out.
 */
static __noinline s32 claim_best_idle(u32 i, u32 last)
{
	u32 try;

	bpf_for (try, 0, nr_cpus) {
		s32 cpu = best_idle(i, last);

		if (cpu < 0 || claim_idle(cpu))
			return cpu;
	}
	return -1;
}

static void idle_init(u32 cpu)
{
	u32 i = cpu & (MAX_CPUS - 1);

	*word_of(&core_cpus[cpu_core_id[i] & (MAX_CPUS - 1)], cpu) |= bit_of(cpu);
	*word_of(&llc_cpus[cpu_llc_id[i] & (MAX_CPUS - 1)], cpu) |= bit_of(cpu);
	set_idle(cpu);
}
