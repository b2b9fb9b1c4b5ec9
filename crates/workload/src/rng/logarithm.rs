// SPDX-License-Identifier: GPL-2.0-or-later
//! Logarithm and exponential in fixed point, for random draws that are the same everywhere.
//!
//! Logarithms are integers in units of 2^-58. Both functions take the leading bits from a table of
//! 256 and the rest from a short series; the tables are computed when the program is compiled, by
//! the series below, so there is no number here to mistype. Absolute error of [`minus_ln`]: less
//! than 2^-56. Relative error of [`exp`]: less than 2^-55.

/// Fractional bits of a logarithm.
pub const BITS: u32 = 58;

const TABLE: usize = 256;
/// ln 2, times 2^64.
const LN_2: u64 = ln_of_ratio(2, 1);
/// 1 / ln 2, times 2^62.
const LOG2_E: i128 = ((1u128 << 126) / LN_2 as u128) as i128;

/// Middles of the 256 parts of 1..2, c = (513 + 2 i) / 512: 1 / c and ln c, times 2^64.
static INVERSE: [u64; TABLE] = tables().0;
static LN: [u64; TABLE] = tables().1;
/// 2^(i / 256), times 2^63.
static EXP2: [u64; TABLE] = exp2_table();

/// ln(num / den), times 2^64, for 1 < num / den <= 2, as 2 atanh z with z = (num - den) / (num + den).
/// Terms shrink by z^2 <= 1/9 and are kept with 100 fractional bits.
const fn ln_of_ratio(num: u128, den: u128) -> u64 {
    let (above, below) = (num - den, num + den);
    let mut power = (above << 100) / below;
    let (mut sum, mut k) = (0, 1);
    while power > 0 {
        sum += power / k;
        power = power * (above * above) / (below * below);
        k += 2;
    }
    (sum >> 35) as u64
}

const fn tables() -> ([u64; TABLE], [u64; TABLE]) {
    let (mut inverse, mut ln) = ([0; TABLE], [0; TABLE]);
    let mut i = 0;
    while i < TABLE {
        let middle = 513 + 2 * i as u128;
        inverse[i] = ((512 << 64) / middle) as u64;
        ln[i] = ln_of_ratio(middle, 512);
        i += 1;
    }
    (inverse, ln)
}

const fn exp2_table() -> [u64; TABLE] {
    let mut table = [0; TABLE];
    let mut i = 0;
    while i < TABLE {
        let x = LN_2 as u128 * i as u128 / TABLE as u128;
        // The Taylor series of e^x, times 2^64, without its first term.
        let (mut sum, mut term, mut k) = (0, x, 2);
        while term > 0 {
            sum += term;
            term = ((term * x) >> 64) / k;
            k += 1;
        }
        table[i] = (1 << 63) + (sum >> 1) as u64;
        i += 1;
    }
    table
}

/// High half of a product of numbers with 64 and `bits` fractional bits: a number with 64.
const fn mul(a: i64, b: i64, bits: u32) -> i64 {
    ((a as i128 * b as i128) >> bits) as i64
}

/// -ln(u / 2^64), times 2^58, for u > 0.
#[inline]
pub const fn minus_ln(u: u64) -> u64 {
    let zeros = u.leading_zeros();
    // u = m 2^-zeros with m in 1..2, and m = c (1 + r) with |r| <= 2^-9.
    let m = u << zeros;
    let i = (m >> 55) as usize & (TABLE - 1);
    let product = (m as u128 * INVERSE[i] as u128) >> 63;
    let r = product.wrapping_sub(1 << 64) as i64;
    // ln(1 + r) = r + r^2 q, and q = -1/2 + r/3 - r^2/4 + r^3/5 - r^4/6 with 63 fractional bits.
    const fn part(n: u64) -> i64 {
        ((1 << 63) / n) as i64
    }
    let q = part(5) - mul(r, part(6), 64);
    let q = mul(r, q, 64) - part(4);
    let q = mul(r, q, 64) + part(3);
    let q = mul(r, q, 64) - part(2);
    let ln_1_r = r + mul(mul(r, r, 64), q, 63);
    let whole = (zeros as i128 + 1) * LN_2 as i128;
    ((whole - LN[i] as i128 - ln_1_r as i128) >> (64 - BITS)) as u64
}

/// e^y for |y| <= 64 in units of 2^-58, as (v, n): v 2^n with v in 1..2 in units of 2^-63.
#[inline]
pub const fn exp(y: i128) -> (u64, i32) {
    let log2 = (y * LOG2_E) >> 62;
    let fraction = log2 as u64 & ((1 << BITS) - 1);
    let i = (fraction >> (BITS - 8)) as usize;
    // What is left, times ln 2, with 64 fractional bits: below 2^-8.5.
    let rest = (fraction & ((1 << (BITS - 8)) - 1)) << (64 - BITS);
    let s = ((rest as u128 * LN_2 as u128) >> 64) as i64;
    // e^s - 1, as far as s^5 / 120; the next term is below 2^-60.
    let s2 = mul(s, s, 64);
    let s3 = mul(s2, s, 64);
    let s4 = mul(s3, s, 64);
    let s5 = mul(s4, s, 64);
    let grown = (s + s2 / 2 + s3 / 6 + s4 / 24 + s5 / 120) as u64;
    let v = EXP2[i] + ((EXP2[i] as u128 * grown as u128) >> 64) as u64;
    (v, (log2 >> BITS) as i32)
}

/// `factor` times e^y, y in units of 2^-58, to the nearest integer; `u64::MAX` if that is less.
#[inline]
pub fn times_exp(factor: u64, y: i128) -> u64 {
    /// Farther out any factor but 0 overflows, or vanishes.
    const LIMIT: i128 = 64 << BITS;
    let (v, n) = exp(y.clamp(-LIMIT, LIMIT));
    let product = u128::from(factor) * u128::from(v);
    match 63 - n {
        shift @ 1..128 => {
            let rounded = (product >> (shift - 1)).div_ceil(2);
            u64::try_from(rounded).unwrap_or(u64::MAX)
        }
        128.. => 0,
        _ if factor == 0 => 0,
        _ => u64::MAX,
    }
}
