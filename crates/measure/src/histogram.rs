// SPDX-License-Identifier: GPL-2.0-or-later
//! Distributions of durations with bounded memory (HDR histograms).

use crate::summary::Latency;
use hdrhistogram::{Counter, Histogram};
use smallvec::SmallVec;

/// Which quantiles a [`Latency`] holds in `quantiles_ns`, in parts per million: what a percentile
/// plot draws.
pub const QUANTILES_PPM: [u32; 13] = [
    0, 100_000, 250_000, 500_000, 750_000, 900_000, 950_000, 990_000, 995_000, 999_000, 999_500,
    999_900, 1_000_000,
];

/// So many durations are kept one by one, in half a kB at most, which is less than a histogram takes.
const FEW: usize = 64;

/// A distribution of durations in ns. Extremes and the mean are exact, quantiles rounded to so many significant
/// decimal digits.
#[derive(Clone, Debug)]
pub enum Durations<C: Counter, const DIGITS: u8> {
    /// Up to [`FEW`].
    Few(SmallVec<[u64; 2]>),
    Many(Box<Many<C>>),
}

#[derive(Clone, Debug)]
pub struct Many<C: Counter> {
    histogram: Histogram<C>,
    sum_ns: u128,
    count: u64,
    min_ns: u64,
    max_ns: u64,
}

/// Of an app or a request class: quantiles within 0.1 %.
pub type AppDurations = Durations<u64, 3>;

/// Of a single task, of which there may be a hundred thousand: within 6 %, about 2 KiB.
pub type TaskDurations = Durations<u32, 1>;

impl<C: Counter, const DIGITS: u8> Default for Durations<C, DIGITS> {
    fn default() -> Self {
        Durations::Few(SmallVec::new())
    }
}

impl<C: Counter, const DIGITS: u8> Durations<C, DIGITS> {
    /// Allocates on some of the first calls and when a new largest magnitude appears, else never.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        match self {
            Durations::Many(many) => many.add(ns),
            Durations::Few(few) if few.len() < FEW => few.push(ns),
            Durations::Few(..) => {
                let mut many = self.many();
                many.add(ns);
                *self = Durations::Many(Box::new(many));
            }
        }
    }

    fn many(&self) -> Many<C> {
        match self {
            Durations::Many(many) => (**many).clone(),
            Durations::Few(few) => {
                let mut many = Many::new(DIGITS);
                few.iter().for_each(|ns| many.add(*ns));
                many
            }
        }
    }

    /// All durations of both.
    pub fn and(&self, other: &Self) -> Self {
        let (mut both, other) = (self.many(), other.many());
        let added = both.histogram.add(&other.histogram);
        added.expect("the histogram resizes itself");
        both.sum_ns += other.sum_ns;
        both.count += other.count;
        both.min_ns = both.min_ns.min(other.min_ns);
        both.max_ns = both.max_ns.max(other.max_ns);
        Durations::Many(Box::new(both))
    }

    pub fn summary(&self) -> Latency {
        match self {
            Durations::Few(few) if few.is_empty() => Latency::default(),
            Durations::Few(..) => self.many().summary(),
            Durations::Many(many) => many.summary(),
        }
    }
}

impl<C: Counter> Many<C> {
    fn new(digits: u8) -> Many<C> {
        let mut histogram = Histogram::new(digits).expect("digits are within 0..=5");
        histogram.auto(true);
        Many {
            histogram,
            sum_ns: 0,
            count: 0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }

    #[inline]
    fn add(&mut self, ns: u64) {
        self.sum_ns += u128::from(ns);
        self.count += 1;
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        let recorded = self.histogram.record(ns);
        recorded.expect("the histogram resizes itself");
    }

    fn summary(&self) -> Latency {
        if self.count == 0 {
            return Latency::default();
        }
        // A bucket's upper end may lie beyond the largest value that fell into it.
        let at = |ppm: u32| {
            let rounded = self.histogram.value_at_quantile(f64::from(ppm) / 1e6);
            rounded.clamp(self.min_ns, self.max_ns)
        };
        let mut quantiles_ns: Vec<u64> = QUANTILES_PPM.iter().map(|&ppm| at(ppm)).collect();
        quantiles_ns[0] = self.min_ns;
        *quantiles_ns.last_mut().expect("not empty") = self.max_ns;
        Latency {
            count: self.count,
            mean_ns: (self.sum_ns / u128::from(self.count)) as u64,
            p50_ns: at(500_000),
            p90_ns: at(900_000),
            p99_ns: at(990_000),
            p999_ns: at(999_000),
            max_ns: self.max_ns,
            quantiles_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_one_to_a_thousand_microseconds() {
        let mut durations = AppDurations::default();
        (1..=1000u64).for_each(|us| durations.add(us * 1000));
        let got = durations.summary();
        assert_eq!(
            (got.count, got.mean_ns, got.max_ns),
            (1000, 500_500, 1_000_000)
        );
        for (value, exact) in [
            (got.p50_ns, 500_000),
            (got.p90_ns, 900_000),
            (got.p99_ns, 990_000),
            (got.p999_ns, 999_000),
        ] {
            assert!(
                value.abs_diff(exact) * 1000 <= exact,
                "{value} is not within 0.1 % of {exact}"
            );
        }
        assert_eq!(got.quantiles_ns[0], 1000);
    }

    #[test]
    fn two_distributions_are_one_of_all_durations() {
        let [mut short, mut long, mut all] = [(); 3].map(|()| AppDurations::default());
        for us in 1..=1000u64 {
            let part = if us <= 300 { &mut short } else { &mut long };
            for durations in [part, &mut all] {
                durations.add(us * us * 1000);
            }
        }
        let none = AppDurations::default();
        assert_eq!(short.and(&long).summary(), all.summary());
        assert_eq!(long.and(&short).summary(), all.summary());
        assert_eq!(all.and(&none).summary(), all.summary());
        assert_eq!(none.and(&all).summary(), all.summary());
        assert_eq!(none.and(&none).summary(), Latency::default());
    }

    /// Kept one by one or in a histogram: the summary is that of the histogram.
    #[test]
    fn few_durations_are_rounded_like_many() {
        for count in [1, FEW - 1, FEW, FEW + 1, 3 * FEW] {
            let mut durations = TaskDurations::default();
            let mut many = TaskDurations::Many(Box::new(durations.many()));
            for i in 0..count as u64 {
                durations.add(i * i * 12_345);
                many.add(i * i * 12_345);
            }
            assert_eq!(durations.summary(), many.summary(), "{count}");
        }
    }

    #[test]
    fn a_starved_day_fits_and_nothing_is_nothing() {
        let mut durations = TaskDurations::default();
        assert_eq!(durations.summary(), Latency::default());
        durations.add(86_400_000_000_000);
        assert_eq!(durations.summary().p50_ns, 86_400_000_000_000);
    }
}
