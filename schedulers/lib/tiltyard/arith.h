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

/* a - b, zero at least: for sums whose parts were rounded. */
static __always_inline u64 less(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

/* a * b >> shift as if the product had 96 bits; shift <= 32. */
static __always_inline u64 mul_shift(u64 a, u32 b, u32 shift)
{
	return (((a >> 32) * b) << (32 - shift)) + (((a & 0xffffffff) * b) >> shift);
}

/* Bits needed for v. */
static __always_inline u32 bit_length(u32 v)
{
	u32 n = 0;

	if (v >> 16) {
		v >>= 16;
		n += 16;
	}
	if (v >> 8) {
		v >>= 8;
		n += 8;
	}
	if (v >> 4) {
		v >>= 4;
		n += 4;
	}
	if (v >> 2) {
		v >>= 2;
		n += 2;
	}
	if (v >> 1) {
		v >>= 1;
		n += 1;
	}
	return n + v;
}

#endif
