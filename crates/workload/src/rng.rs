// SPDX-License-Identifier: GPL-2.0-or-later
//! Random streams with names, and draws that are the same bits on every machine.
//!
//! Each user of randomness has a stream of its own, derived from the seed, a name and a number, so
//! one more draw in one place moves nothing elsewhere. All arithmetic is on integers; `fixed`
//! states its precision.

mod logarithm;
mod normal;

use crate::program::Dist;
use rand_core::RngCore;
use rand_pcg::Pcg64;
use sha2::{Digest, Sha256};

/// All streams of one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    pub fn new(seed: u64) -> Streams {
        Streams { seed }
    }

    /// The stream of this name and number, from its beginning. State and increment are the sha256
    /// of seed, number and name.
    pub fn stream(&self, name: &str, index: u64) -> Pcg {
        let mut hash = Sha256::new();
        hash.update(self.seed.to_le_bytes());
        hash.update(index.to_le_bytes());
        hash.update(name);
        let digest: [u8; 32] = hash.finalize().into();
        let half = |at: usize| {
            let bytes = digest[at..at + 16]
                .try_into()
                .expect("half a digest is 16 bytes");
            u128::from_le_bytes(bytes)
        };
        Pcg(Pcg64::new(half(0), half(16)))
    }
}

/// One stream: the generator PCG XSL 128/64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pcg(Pcg64);

impl Pcg {
    #[inline]
    pub fn u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    #[inline]
    pub fn u32(&mut self) -> u32 {
        (self.u64() >> 32) as u32
    }

    /// Uniform in `0..bound`; 0 if the bound is 0. Unbiased: draws that would favour some numbers
    /// are thrown away.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        let mut product = u128::from(self.u64()) * u128::from(bound);
        if (product as u64) < bound {
            let surplus = bound.wrapping_neg() % bound;
            while (product as u64) < surplus {
                product = u128::from(self.u64()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// Uniform in `low..=high`; `low` if there is no such number.
    #[inline]
    pub fn uniform(&mut self, low: u64, high: u64) -> u64 {
        match high.saturating_sub(low) {
            u64::MAX => self.u64(),
            span => low + self.below(span + 1),
        }
    }

    /// True this many times in a million.
    #[inline]
    pub fn chance(&mut self, ppm: u32) -> bool {
        self.below(1_000_000) < u64::from(ppm)
    }

    /// Exponential with this mean, rounded to the nearest integer. One draw.
    #[inline]
    pub fn exponential(&mut self, mean: u64) -> u64 {
        let unit = logarithm::minus_ln(self.u64().max(1));
        let scaled =
            (u128::from(mean) * u128::from(unit) + (1 << (logarithm::BITS - 1))) >> logarithm::BITS;
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    /// Log-normal with this median, rounded to the nearest integer; `sigma_milli` is 1000 times the
    /// standard deviation of its logarithm.
    #[inline]
    pub fn log_normal(&mut self, median: u64, sigma_milli: u64) -> u64 {
        let normal = i128::from(normal::draw(self));
        let exponent = normal.saturating_mul(i128::from(sigma_milli)) / 1000;
        logarithm::times_exp(median, exponent)
    }

    /// A value of this distribution.
    #[inline]
    pub fn draw(&mut self, dist: &Dist) -> u64 {
        match *dist {
            Dist::Const(value) => value,
            Dist::Exp { mean } => self.exponential(mean),
            Dist::LogNormal {
                median,
                sigma_milli,
            } => self.log_normal(median, sigma_milli),
            Dist::Uniform { low, high } => self.uniform(low, high),
        }
    }
}

#[cfg(test)]
mod tests;
