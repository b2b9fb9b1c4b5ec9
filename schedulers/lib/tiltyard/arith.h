/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Arithmetic on times and sums: numbers that wrap, products of 96 bits.
 */
#ifndef __LIB_ARITH_H
#define __LIB_ARITH_H

/* Whether a is before b, of times that may have wrapped but are less than 2^63 apart. */
static __always_inline bool earlier(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

static __always_inline u64 later_of(u64 a, u64 b)
{
	return earlier(a, b) ? b : a;
}

static __always_inline u64 earlier_of(u64 a, u64 b)
{
	return earlier(a, b) ? a : b;
}

static __always_inline u64 min_of(u64 a, u64 b)
{
	return a < b ? a : b;
}

static __always_inline u64 max_of(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* a - b, zero at least: for sums whose parts were rounded, times of clocks that differ a little. */
static __always_inline u64 less(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

/* a * b >> shift as if the product had 96 bits; shift <= 32. */
static __always_inline u64 mul_shift(u64 a, u32 b, u32 shift)
{
	return (((a >> 32) * b) << (32 - shift)) + (((a & 0xffffffff) * b) >> shift);
}

/* Signed division that rounds towards 0; @b > 0. BPF before v4 has none. */
static __always_inline s64 divide(s64 a, s64 b)
{
	return a < 0 ? -(s64)((u64)-a / (u64)b) : (s64)((u64)a / (u64)b);
}

/* Bits needed for v. Without branches, which the verifier would follow one by one. */
static __always_inline u32 bit_length(u32 v)
{
	return v ? 32 - __builtin_clz(v) : 0;
}

#endif
