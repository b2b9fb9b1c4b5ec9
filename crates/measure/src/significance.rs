// SPDX-License-Identifier: GPL-2.0-or-later
//! How likely a difference is by chance: the Mann-Whitney test, and the correction for many tests at once.
//!
//! Tests are exact: they enumerate all assignments of the runs to the two sides. Ties, which counts and simulated times
//! often have, are handled by midranks.

use std::collections::BTreeMap;

/// A difference is significant when chance alone gives one as large this often or less.
pub const ALPHA: f64 = 0.05;

/// The probability that runs dealt out at random differ at least as much as these, either way: by how far the rank sum
/// is from its mean. `None` without runs of both; 1 where all are equal. Values must not be NaN.
///
/// Of more than [`MANY`] runs the normal distribution stands for the exact one, with the variance that ties leave and a
/// correction for continuity.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<f64> {
    let (m, n) = (a.len(), b.len());
    if m * n == 0 {
        return None;
    }
    let ties = ties(a, b);
    // Ranks and their sums count double, so that midranks are whole numbers. Mean: m (m + n + 1) / 2.
    let sum: usize = ties.iter().map(|tie| tie.in_a * tie.rank2).sum();
    let distance = sum.abs_diff(m * (m + n + 1));
    if m + n > MANY {
        return Some(normal(m as f64, n as f64, &ties, distance as f64 / 2.0));
    }
    let ways = rank_sums(m, &ties);
    let all: f64 = ways.iter().sum();
    let far = |(sum2, _): &(usize, &f64)| sum2.abs_diff(m * (m + n + 1)) >= distance;
    let as_far: f64 = ways
        .iter()
        .enumerate()
        .filter(far)
        .map(|(_, ways)| ways)
        .sum();
    Some((as_far / all).min(1.0))
}

/// The smallest probability that so many runs can give: that of two that do not mix, one of them above. 1 without runs.
pub fn smallest(m: usize, n: usize) -> f64 {
    // Ways to choose which m of m + n come first.
    let ways: f64 = (1..=m).map(|i| (n + i) as f64 / i as f64).product();
    (2.0 / ways).min(1.0)
}

/// Benjamini and Hochberg's correction, in the order of `p`: called significant where it is at most alpha, no more than
/// alpha of what is called so is expected to be chance. It holds for tests that are independent or go together, as
/// figures of the same runs do.
pub fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&i, &j| p[i].total_cmp(&p[j]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least = 1.0_f64;
    for (rank, &i) in order.iter().enumerate().rev() {
        least = least.min(p[i] * p.len() as f64 / (rank + 1) as f64);
        adjusted[i] = least;
    }
    adjusted
}

/// Runs up to which all ways to deal them out are counted: half of them have 1e11 ways, which floats count exactly.
const MANY: usize = 40;

/// Runs with the same value.
struct Tie {
    in_a: usize,
    in_both: usize,
    /// Twice their common rank: the mean of the ranks, from 1, that they take up.
    rank2: usize,
}

/// In ascending order of values.
fn ties(a: &[f64], b: &[f64]) -> Vec<Tie> {
    let mut values: Vec<(f64, usize)> = a.iter().map(|v| (*v, 1)).collect();
    values.extend(b.iter().map(|v| (*v, 0)));
    values.sort_by(|x, y| x.0.total_cmp(&y.0));
    let mut below = 0;
    let equal = values.chunk_by(|x, y| x.0 == y.0).map(|equal| {
        let first = below + 1;
        below += equal.len();
        Tie {
            in_a: equal.iter().map(|(_, in_a)| in_a).sum(),
            in_both: equal.len(),
            rank2: first + below,
        }
    });
    equal.collect()
}

/// In how many ways `m` of all runs have each rank sum; the index is twice the sum.
fn rank_sums(m: usize, ties: &[Tie]) -> Vec<f64> {
    // By how many runs were taken so far, and by the sum of what was taken.
    let mut ways: BTreeMap<(usize, usize), f64> = BTreeMap::from([((0, 0), 1.0)]);
    for tie in ties {
        let mut next = BTreeMap::new();
        for ((taken, sum), count) in ways {
            let mut choices = 1.0; // of k out of the tie
            for k in 0..=tie.in_both.min(m - taken) {
                *next.entry((taken + k, sum + k * tie.rank2)).or_insert(0.0) += count * choices;
                choices *= (tie.in_both - k) as f64 / (k + 1) as f64;
            }
        }
        ways = next;
    }
    let whole = ways.into_iter().filter(|((taken, _), _)| *taken == m);
    let whole: Vec<(usize, f64)> = whole.map(|((_, sum), count)| (sum, count)).collect();
    let mut by_sum = vec![0.0; whole.last().map_or(0, |(sum, _)| sum + 1)];
    for (sum, count) in whole {
        by_sum[sum] = count;
    }
    by_sum
}

/// Two tails of the normal distribution beyond `distance` from the mean.
fn normal(m: f64, n: f64, ties: &[Tie], distance: f64) -> f64 {
    let all = m + n;
    let tied: f64 = ties
        .iter()
        .map(|tie| (tie.in_both as f64).powi(3) - tie.in_both as f64)
        .sum();
    let variance = m * n / 12.0 * (all + 1.0 - tied / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let z = (distance - 0.5).max(0.0) / variance.sqrt();
    complementary_error(z / std::f64::consts::SQRT_2)
}

/// erfc(x) for x >= 0: Abramowitz and Stegun, "Handbook of Mathematical Functions", 7.1.26; off by 1.5e-7 at most.
fn complementary_error(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let terms = [
        0.254_829_592,
        -0.284_496_736,
        1.421_413_741,
        -1.453_152_027,
        1.061_405_429,
    ];
    let sum = terms.iter().rev().fold(0.0, |sum, term| (sum + term) * t);
    sum * (-x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(p: Option<f64>) -> String {
        format!("{:.4}", p.unwrap())
    }

    /// Hollander and Wolfe, "Nonparametric Statistical Methods" (1973), page 69: permeability of the chorioamnion at term
    /// and earlier. U = 35, and P(U >= 35) = 0.1272; without ties both tails are alike.
    #[test]
    fn a_published_test_without_ties() {
        let term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let earlier = [1.15, 0.88, 0.90, 0.74, 1.21];
        assert_eq!(digits(mann_whitney(&term, &earlier)), "0.2544");
        assert_eq!(digits(mann_whitney(&earlier, &term)), "0.2544");
    }

    /// Mehta and Patel, StatXact 5 manual (2001), page 229: diastolic blood pressure, treated and not. 0.0989 on both
    /// sides, 0.0542 on one; so the tails are not alike.
    #[test]
    fn a_published_test_with_ties() {
        let treated = [94.0, 108.0, 110.0, 90.0];
        let control = [
            80.0, 94.0, 85.0, 90.0, 90.0, 90.0, 108.0, 94.0, 78.0, 105.0, 88.0,
        ];
        assert_eq!(digits(mann_whitney(&treated, &control)), "0.0989");
    }

    #[test]
    fn the_smallest_is_that_of_runs_that_do_not_mix() {
        for (m, n) in [(1, 1), (2, 3), (4, 4), (5, 5), (10, 10), (7, 12)] {
            let a: Vec<f64> = (0..m).map(|i| i as f64).collect();
            let b: Vec<f64> = (0..n).map(|i| (100 + i) as f64).collect();
            let p = mann_whitney(&a, &b).unwrap();
            assert!((p - smallest(m, n)).abs() < 1e-12, "{m} and {n} runs: {p}");
        }
        assert_eq!(smallest(5, 5), 2.0 / 252.0);
        assert_eq!((smallest(3, 3), smallest(0, 4)), (0.1, 1.0));
    }

    #[test]
    fn equal_runs_and_missing_runs() {
        assert_eq!(mann_whitney(&[3.0; 5], &[3.0; 4]), Some(1.0));
        assert_eq!(mann_whitney(&[3.0; 50], &[3.0; 50]), Some(1.0));
        assert_eq!(mann_whitney(&[], &[3.0]), None);
        assert_eq!(mann_whitney(&[0.0], &[-0.0]), Some(1.0));
    }

    /// At the border both must say nearly the same, or figures would jump with one run more.
    #[test]
    fn many_runs_are_as_good_as_normal() {
        for more in [0.0, 4.5, 8.0, 12.0] {
            let runs = |from: usize| (0..20).map(move |i| ((i * 7 + from) % 23) as f64);
            let a: Vec<f64> = runs(0).collect();
            let b: Vec<f64> = runs(5).map(|value| value + more).collect();
            let ties = ties(&a, &b);
            let sum: usize = ties.iter().map(|tie| tie.in_a * tie.rank2).sum();
            let distance = sum.abs_diff(20 * 41) as f64 / 2.0;
            let exact = mann_whitney(&a, &b).unwrap();
            let normal = normal(20.0, 20.0, &ties, distance);
            assert!(
                (exact - normal).abs() < 3e-3,
                "{more}: {exact} and {normal}"
            );
        }
    }

    #[test]
    fn tails_of_the_normal_distribution_are_those_of_the_tables() {
        for (z, p) in [
            (0.0, 1.0),
            (1.0, 0.317_310_5),
            (1.959_964, 0.05),
            (3.0, 0.002_699_8),
        ] {
            let got = complementary_error(z / std::f64::consts::SQRT_2);
            assert!((got - p).abs() < 2e-7, "{z}: {got}");
        }
    }

    /// Benjamini and Hochberg (1995), section 4.1: 15 comparisons of two treatments of myocardial infarction. At 5 %
    /// four are significant; Bonferroni's correction leaves three.
    #[test]
    fn a_published_correction() {
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let got = adjusted(&p);
        assert_eq!(got.iter().filter(|p| **p <= ALPHA).count(), 4);
        // By hand: 15 p / rank, and never more than what follows: the sixth takes the seventh's, 0.0298 * 15 / 7.
        let expect = [
            0.0015,
            0.003,
            0.0095,
            0.035_625,
            0.0603,
            0.447 / 7.0,
            0.447 / 7.0,
        ];
        for (got, expect) in got.iter().zip(expect) {
            assert!((got - expect).abs() < 1e-12, "{got} and {expect}");
        }
        assert_eq!(got[14], 1.0);
        let backwards: Vec<f64> = p.iter().rev().copied().collect();
        let back: Vec<f64> = adjusted(&backwards).into_iter().rev().collect();
        assert_eq!(back, got, "whatever the order");
        assert_eq!(adjusted(&[0.04]), [0.04]);
        assert!(adjusted(&[]).is_empty());
    }
}
