// SPDX-License-Identifier: GPL-2.0-or-later
//! The one interval that is used throughout: the median with the order-statistic interval. It assumes
//! nothing about how figures are distributed over seeds, and needs no random resampling.

use serde::{Deserialize, Serialize};

/// A median and an interval that covers the true median with probability `coverage_ppm` or more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    /// 0 for a single run, which says nothing about spread.
    pub coverage_ppm: u32,
    pub n: usize,
}

/// The coverage asked for where the number of runs allows it: from six runs on.
pub(crate) const WANTED: f64 = 0.95;

/// For n sorted values the k-th smallest and k-th largest enclose the median of the population unless
/// fewer than k of n fair coins fall on one side: coverage 1 - 2 P(Bin(n, 1/2) < k). Takes the largest k
/// whose coverage is 95 %, else the smallest and the largest value with the coverage that these have.
/// `None` without values; values must not be NaN.
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    let median = middle(&sorted);
    let (mut low, mut high, mut coverage) = (first, last, coverage(n, 1));
    for k in 2..=n / 2 {
        let narrower = self::coverage(n, k);
        if narrower < WANTED {
            break;
        }
        (low, high, coverage) = (sorted[k - 1], sorted[n - k], narrower);
    }
    Some(Interval {
        median,
        low,
        high,
        coverage_ppm: (coverage.max(0.0) * 1e6).round() as u32,
        n,
    })
}

/// The median of sorted values, of which there is one at least.
pub(crate) fn middle(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0
}

/// 1 - 2 P(Bin(n, 1/2) < k).
fn coverage(n: usize, k: usize) -> f64 {
    let mut term = 0.5f64.powi(n as i32);
    let mut below = 0.0;
    for i in 0..k {
        below += term;
        term *= (n - i) as f64 / (i + 1) as f64;
    }
    1.0 - 2.0 * below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_order_statistic_intervals() {
        // Textbook values: n = 10 gives the 2nd and 9th at 97.85 %, n = 6 the extremes at 96.88 %.
        let ten: Vec<f64> = (1..=10).map(f64::from).rev().collect();
        let got = median_interval(&ten).unwrap();
        assert_eq!(
            (got.median, got.low, got.high, got.coverage_ppm),
            (5.5, 2.0, 9.0, 978_516)
        );
        let six = median_interval(&ten[..6]).unwrap();
        assert_eq!((six.low, six.high, six.coverage_ppm), (5.0, 10.0, 968_750));
    }

    #[test]
    fn few_runs_admit_their_coverage() {
        let three = median_interval(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!(
            (three.low, three.high, three.coverage_ppm),
            (1.0, 3.0, 750_000)
        );
        let one = median_interval(&[4.0]).unwrap();
        assert_eq!((one.median, one.coverage_ppm), (4.0, 0));
        assert_eq!(median_interval(&[]), None);
    }
}
