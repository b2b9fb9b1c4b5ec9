// SPDX-License-Identifier: GPL-2.0-or-later
//! The size of the difference between two schedulers, estimated from few runs. Like the intervals of [`crate::median_interval`]
//! it assumes nothing about how figures are distributed and draws nothing at random.

use crate::stats::{Interval, WANTED, middle};
use serde::{Deserialize, Serialize};

/// A scheduler's figure against that of the first scheduler, the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// By which part of the baseline's figure this one is larger: median over all pairs of runs (Hodges and Lehmann)
    /// and the interval that belongs to the Mann-Whitney test; `n` is the number of pairs. `None` where a baseline's
    /// figure is 0, of which nothing is a part.
    pub change: Option<Interval>,
    /// Cliff's delta: how likely a run's figure is above one of the baseline's, less how likely it is below.
    /// 1 or -1: the runs of the two do not mix at all.
    pub delta: f64,
}

/// `None` without runs of both; values must not be NaN.
pub fn effect(baseline: &[f64], other: &[f64]) -> Option<Effect> {
    let sign = |b: f64, o: f64| f64::from(i8::from(o > b) - i8::from(o < b));
    let signs = pairs(baseline, other, sign);
    if signs.is_empty() {
        return None;
    }
    let is_whole = baseline.iter().all(|b| *b > 0.0);
    let change = || hodges_lehmann(baseline, other, |b, o| o / b - 1.0);
    Some(Effect {
        change: if is_whole { change() } else { None },
        delta: signs.iter().sum::<f64>() / signs.len() as f64,
    })
}

/// By how much the figure is larger than the baseline's, in its own unit: as [`Effect::change`], also where that is none.
pub fn shift(baseline: &[f64], other: &[f64]) -> Option<Interval> {
    hodges_lehmann(baseline, other, |b, o| o - b)
}

/// The median of all pairs' differences and its interval.
fn hodges_lehmann(
    baseline: &[f64],
    other: &[f64],
    difference: fn(f64, f64) -> f64,
) -> Option<Interval> {
    let mut all = pairs(baseline, other, difference);
    if all.is_empty() {
        return None;
    }
    all.sort_by(f64::total_cmp);
    let (k, coverage) = rank(baseline.len(), other.len());
    Some(Interval {
        median: middle(&all),
        low: all[k - 1],
        high: all[all.len() - k],
        coverage_ppm: (coverage.max(0.0) * 1e6).round() as u32,
        n: all.len(),
    })
}

fn pairs(baseline: &[f64], other: &[f64], of: fn(f64, f64) -> f64) -> Vec<f64> {
    let of_one = |b: &f64| other.iter().map(|o| of(*b, *o)).collect::<Vec<_>>();
    baseline.iter().flat_map(of_one).collect()
}

/// The largest k for which the k-th smallest and the k-th largest difference enclose the true one with 95 %
/// probability, else 1; and the probability, 1 - 2 P(U < k) with Mann and Whitney's U.
fn rank(m: usize, n: usize) -> (usize, f64) {
    let mut found = (1, 0.0);
    let mut below = 0.0;
    for (at, p) in null_distribution(m, n).into_iter().enumerate() {
        below += p;
        let coverage = 1.0 - 2.0 * below;
        if at > 0 && coverage < WANTED {
            break;
        }
        found = (at + 1, coverage);
    }
    found
}

/// From this number of runs on the normal distribution stands for the exact one.
const MANY: usize = 40;

/// P(U = 0), P(U = 1), ... when the two do not differ: of m and n values, U pairs have the larger one in the first m.
/// The largest value of all is one of the m (and then above all n) with probability m / (m + n).
fn null_distribution(m: usize, n: usize) -> Vec<f64> {
    if m.max(n) > MANY {
        return normal(m as f64, n as f64);
    }
    let mut of_fewer = vec![vec![1.0]; n + 1];
    for i in 1..=m {
        let mut of_i = vec![vec![1.0]];
        for j in 1..=n {
            let first = i as f64 / (i + j) as f64;
            let at = |row: &Vec<f64>, u: Option<usize>| {
                u.and_then(|u| row.get(u).copied()).unwrap_or(0.0)
            };
            let p = (0..=i * j).map(|u| {
                first * at(&of_fewer[j], u.checked_sub(j))
                    + (1.0 - first) * at(&of_i[j - 1], Some(u))
            });
            let p = p.collect();
            of_i.push(p);
        }
        of_fewer = of_i;
    }
    of_fewer.swap_remove(n)
}

/// Mean m n / 2, variance m n (m + n + 1) / 12.
fn normal(m: f64, n: f64) -> Vec<f64> {
    let (mean, variance) = (m * n / 2.0, m * n * (m + n + 1.0) / 12.0);
    let density = |u: f64| {
        (-(u - mean).powi(2) / (2.0 * variance)).exp()
            / (2.0 * std::f64::consts::PI * variance).sqrt()
    };
    (0..=(m * n) as usize).map(|u| density(u as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(of: impl IntoIterator<Item = u32>) -> Vec<f64> {
        of.into_iter().map(f64::from).collect()
    }

    /// Of the 6 ways to mix two and two, U is 0 and 4 in one each, 1 and 3 in one each, 2 in two.
    #[test]
    fn the_null_distribution_counts_ways_to_mix() {
        let sixths: Vec<f64> = null_distribution(2, 2)
            .iter()
            .map(|p| (p * 6.0).round())
            .collect();
        assert_eq!(sixths, [1.0, 1.0, 2.0, 1.0, 1.0]);
        let sum: f64 = null_distribution(7, 5).iter().sum();
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
    }

    /// Critical values of U for two sides and 5 %, as in every table: k is one more.
    #[test]
    fn ranks_are_those_of_the_tables() {
        for (m, n, critical) in [
            (4, 4, 0),
            (5, 5, 2),
            (6, 6, 5),
            (5, 8, 6),
            (10, 10, 23),
            (20, 20, 127),
            (25, 25, 211),
        ] {
            let (k, coverage) = rank(m, n);
            assert_eq!(k, critical + 1, "{m} and {n} runs");
            assert!(coverage >= WANTED);
        }
        // 1 - 2/20 and 1 - 2/2: what few runs cannot tell.
        assert!((rank(3, 3).1 - 0.9).abs() < 1e-12);
        assert_eq!(rank(1, 1), (1, 0.0));
    }

    #[test]
    fn many_runs_are_as_good_as_normal() {
        let sum = |p: Vec<f64>| p[..=600].iter().sum::<f64>();
        let (exact, normal) = (sum(null_distribution(40, 40)), sum(normal(40.0, 40.0)));
        assert!((exact - normal).abs() < 1e-3, "{exact} and {normal}");
        assert_eq!(
            rank(50, 50).0,
            966,
            "50 * 50 / 2 - 1.96 * sqrt(50 * 50 * 101 / 12), rounded"
        );
    }

    #[test]
    fn a_change_with_its_interval() {
        // Ratios of all pairs: 1.2, 1.4, 1.6 / 1.5, 1.75, 2 / 2, 2.33, 2.67 less 1 for baselines 10, 8 and 6.
        let got = effect(&[10.0, 8.0, 6.0], &[12.0, 14.0, 16.0]).unwrap();
        let change = got.change.unwrap();
        assert_eq!(
            (change.median, change.coverage_ppm, change.n),
            (0.75, 900_000, 9)
        );
        assert!((change.low - 0.2).abs() < 1e-12 && (change.high - 5.0 / 3.0).abs() < 1e-12);
        assert_eq!(
            got.delta, 1.0,
            "every run is above every one of the baseline"
        );
    }

    #[test]
    fn the_rank_effect_counts_pairs() {
        // 3 of 4 pairs above, 1 below; then 1 above, 1 below, 2 equal.
        assert_eq!(effect(&[1.0, 3.0], &[2.0, 4.0]).unwrap().delta, 0.5);
        assert_eq!(effect(&[1.0, 2.0], &[1.0, 2.0]).unwrap().delta, 0.0);
        assert_eq!(effect(&[5.0], &[4.0]).unwrap().delta, -1.0);
    }

    #[test]
    fn five_runs_leave_out_two_pairs_on_each_side() {
        let got = effect(&[1.0; 5], &runs(1..=5)).unwrap();
        let change = got.change.unwrap();
        // 25 pairs, five of each change from 0 to 4; the third from either end is still an outermost one.
        assert_eq!((change.low, change.median, change.high), (0.0, 2.0, 4.0));
        assert_eq!(change.coverage_ppm, 968_254, "1 - 2 * 4/252");
    }

    #[test]
    fn a_shift_has_the_unit_of_the_figure() {
        let got = shift(&[0.0, 10.0, 20.0, 30.0], &[5.0, 15.0, 25.0, 35.0]).unwrap();
        // The 16 differences: -25, -15 twice, -5 three times, 5 four times, 15 three times, 25 twice, 35.
        assert_eq!(
            (got.median, got.low, got.high, got.n),
            (5.0, -25.0, 35.0, 16)
        );
        assert_eq!(shift(&[], &[1.0]), None);
    }

    #[test]
    fn of_nothing_there_is_no_part() {
        let got = effect(&[0.0, 1.0], &[2.0, 3.0]).unwrap();
        assert_eq!((got.change, got.delta), (None, 1.0));
        assert_eq!(effect(&[], &[1.0]), None);
        assert_eq!(effect(&[1.0], &[]), None);
    }
}
