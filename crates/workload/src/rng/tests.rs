// SPDX-License-Identifier: GPL-2.0-or-later
//! Floats are for the tests: what is drawn is compared with what mathematics says.

use super::*;

const ONE: f64 = (1u64 << logarithm::BITS) as f64;

fn rng() -> Pcg {
    Streams::new(7).stream("test", 0)
}

/// Sorted draws.
fn sample(n: usize, mut draw: impl FnMut(&mut Pcg) -> f64) -> Vec<f64> {
    let mut rng = rng();
    let mut values: Vec<f64> = (0..n).map(|_| draw(&mut rng)).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Kolmogorov and Smirnov: the greatest distance between the sample's distribution and `cdf`, times
/// the root of the sample's size. Above 1.95 with probability 0.001.
fn ks(sorted: &[f64], cdf: impl Fn(f64) -> f64) -> f64 {
    let n = sorted.len() as f64;
    let distance = sorted.iter().enumerate().map(|(i, &x)| {
        let p = cdf(x);
        (p - i as f64 / n).abs().max(((i + 1) as f64 / n - p).abs())
    });
    distance.fold(0.0, f64::max) * n.sqrt()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The normal distribution function, by its series (|x| < 7).
fn normal_cdf(x: f64) -> f64 {
    let (mut term, mut sum, mut k) = (x, x, 1.0);
    while term.abs() > 1e-18 {
        k += 2.0;
        term *= x * x / k;
        sum += term;
    }
    0.5 + sum * (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

#[test]
fn streams_are_what_they_have_always_been() {
    // Changing these changes every result that anybody has kept. The figures are from an
    // implementation of the generator of its own.
    let first = |seed, name, index| Streams::new(seed).stream(name, index).u64();
    assert_eq!(first(0, "task", 0), 11_347_230_551_054_253_815);
    assert_eq!(first(1, "task", 0), 461_910_592_975_730_102);
    assert_eq!(first(0, "task", 1), 7_269_600_980_566_048_671);
    assert_eq!(first(0, "noise", 0), 14_276_419_025_480_395_292);
}

#[test]
fn draws_are_what_they_have_always_been() {
    let mut rng = rng();
    let sum = |draw: &mut dyn FnMut(&mut Pcg) -> u64, rng: &mut Pcg| {
        (0..10_000).fold(0u64, |hash, _| hash.rotate_left(7) ^ draw(rng))
    };
    let hashes = [
        sum(&mut |r| r.exponential(1 << 40), &mut rng),
        sum(&mut |r| r.log_normal(1 << 40, 1500), &mut rng),
        sum(&mut |r| r.uniform(3, 1 << 50), &mut rng),
        sum(&mut |r| r.chance(1000).into(), &mut rng),
    ];
    assert_eq!(
        hashes,
        [
            563863444317414346,
            1035712385063176562,
            2847081438049685177,
            2307109682070947840
        ]
    );
}

#[test]
fn a_stream_does_not_know_of_the_others() {
    let streams = Streams::new(3);
    let alone: Vec<u64> = {
        let mut stream = streams.stream("a", 0);
        (0..10).map(|_| stream.u64()).collect()
    };
    let (mut a, mut b) = (streams.stream("a", 0), streams.stream("b", 0));
    for value in alone {
        b.u64();
        assert_eq!(a.u64(), value);
    }
    let mut firsts: Vec<u64> = (0..1000).map(|i| streams.stream("a", i).u64()).collect();
    firsts.sort_unstable();
    firsts.dedup();
    assert_eq!(firsts.len(), 1000);
}

#[test]
fn logarithm_is_as_exact_as_it_says() {
    let mut rng = rng();
    let edges = [
        1,
        2,
        3,
        u64::MAX,
        1 << 63,
        (1 << 63) - 1,
        (1 << 63) + 1,
        255 << 56,
    ];
    let random = (0..100_000)
        .map(|i| rng.u64() >> (i % 64))
        .filter(|&u| u > 0);
    for u in edges.into_iter().chain(random) {
        let exact = 64.0 * std::f64::consts::LN_2 - (u as f64).ln();
        let ours = logarithm::minus_ln(u) as f64 / ONE;
        // Finer than the resolution of f64 at 44.
        assert!((ours - exact).abs() < 3e-14, "{u}: {ours} {exact}");
    }
    // Where f64 is exact enough to see the last bits: -ln(1 - d) = d + d^2 / 2 + ...
    for bits in 1..20 {
        let d = (1u64 << (63 - bits)) as f64 / 2f64.powi(64);
        let ours = logarithm::minus_ln(u64::wrapping_neg(1 << (63 - bits))) as f64 / ONE;
        assert!(
            (ours + (-d).ln_1p()).abs() < 2f64.powi(-55),
            "{bits}: {ours}"
        );
    }
}

#[test]
fn exponential_function_is_as_exact_as_it_says() {
    let mut rng = rng();
    for i in 0..100_000 {
        let y = (rng.u64() as i64 >> (i % 5)) as i128 * 2;
        let (v, n) = logarithm::exp(y);
        let ours = v as f64 / 2f64.powi(63) * 2f64.powi(n);
        let exact = (y as f64 / ONE).exp();
        // f64 loses the bits of a large y.
        assert!((ours / exact - 1.0).abs() < 3e-14, "{y}: {ours} {exact}");
    }
    assert_eq!(logarithm::exp(0), (1 << 63, 0));
    assert_eq!(logarithm::times_exp(1000, 0), 1000);
    assert_eq!(logarithm::times_exp(u64::MAX, 1), u64::MAX);
    assert_eq!(logarithm::times_exp(1, i128::MAX), u64::MAX);
    assert_eq!(logarithm::times_exp(u64::MAX, i128::MIN), 0);
    assert_eq!(logarithm::times_exp(0, i128::MAX), 0);
    assert_eq!(
        logarithm::times_exp(1_000_000, 1 << logarithm::BITS),
        2_718_282
    );
}

#[test]
fn exponential_draws() {
    const MEAN: u64 = 1_000_000_000;
    let values = sample(400_000, |rng| rng.exponential(MEAN) as f64 / MEAN as f64);
    assert!((mean(&values) - 1.0).abs() < 4.0 / (values.len() as f64).sqrt());
    let distance = ks(&values, |x| 1.0 - (-x).exp());
    assert!(distance < 1.95, "{distance}");
    let median = values[values.len() / 2];
    assert!((median - std::f64::consts::LN_2).abs() < 0.007, "{median}");
    assert_eq!(rng().exponential(0), 0);
    assert!(sample(1000, |rng| rng.exponential(u64::MAX) as f64)[999] == u64::MAX as f64);
}

#[test]
fn normal_draws() {
    let values = sample(1_000_000, |rng| normal::draw(rng) as f64 / ONE);
    let n = values.len() as f64;
    let moment = |power: i32| values.iter().map(|x| x.powi(power)).sum::<f64>() / n;
    for (power, expected, variance) in [
        (1, 0.0, 1.0),
        (2, 1.0, 2.0),
        (3, 0.0, 15.0),
        (4, 3.0, 96.0),
        (6, 15.0, 10_170.0),
    ] {
        let bound = 4.0 * f64::sqrt(variance / n);
        assert!(
            (moment(power) - expected).abs() < bound,
            "{power}: {}",
            moment(power)
        );
    }
    let distance = ks(&values, normal_cdf);
    assert!(distance < 1.95, "{distance}");
    // The tail beyond the lowest layer's rectangle: 258 expected of a million.
    let tail = values
        .iter()
        .filter(|x| x.abs() > 3.654_152_885_361_009)
        .count();
    assert!((194..=322).contains(&tail), "{tail}");
    assert!(values[0] < -4.5 && values[0] > -6.5, "{}", values[0]);
}

#[test]
fn log_normal_draws() {
    const MEDIAN: u64 = 1_000_000_000;
    let values = sample(400_000, |rng| {
        rng.log_normal(MEDIAN, 500) as f64 / MEDIAN as f64
    });
    let distance = ks(&values, |x| normal_cdf(x.ln() / 0.5));
    assert!(distance < 1.95, "{distance}");
    // Mean e^(sigma^2 / 2), standard deviation mean * sqrt(e^(sigma^2) - 1).
    let (expected, spread) = (
        f64::exp(0.125),
        f64::exp(0.125) * (f64::exp(0.25) - 1.0).sqrt(),
    );
    assert!((mean(&values) - expected).abs() < 4.0 * spread / (values.len() as f64).sqrt());
    let quantile = |p: f64| values[(p * values.len() as f64) as usize];
    assert!((quantile(0.5) - 1.0).abs() < 0.006);
    assert!((quantile(0.975) / f64::exp(0.5 * 1.959_963_984_540_054) - 1.0).abs() < 0.01);
    assert_eq!(rng().log_normal(5, 0), 5);
    assert_eq!(rng().log_normal(0, u64::MAX), 0);
    let wild = sample(100, |rng| rng.log_normal(1 << 60, u64::MAX) as f64);
    assert_eq!((wild[0], wild[99]), (0.0, u64::MAX as f64));
}

#[test]
fn uniform_draws() {
    let mut counts = [0; 7];
    let mut rng = rng();
    for _ in 0..70_000 {
        counts[rng.uniform(10, 16) as usize - 10] += 1;
    }
    assert!(
        counts.iter().all(|count| (9_600..10_400).contains(count)),
        "{counts:?}"
    );
    // Three quarters of 2^64: four draws make three numbers, and without the rejection every third
    // number would come twice as often as its neighbours.
    let thirds = (0..10_000)
        .filter(|_| rng.below(3 << 62).is_multiple_of(3))
        .count();
    assert!((3_140..3_530).contains(&thirds), "{thirds}");
    assert_eq!(
        (rng.uniform(5, 5), rng.uniform(6, 5), rng.below(0)),
        (5, 6, 0)
    );
    rng.uniform(0, u64::MAX);
    let hits = (0..100_000).filter(|_| rng.chance(250_000)).count();
    assert!((24_400..25_600).contains(&hits), "{hits}");
    assert!(!rng.chance(0) && rng.chance(1_000_000));
}

#[test]
fn distributions_of_a_workload() {
    let mut rng = rng();
    let before = rng.clone();
    assert_eq!(rng.draw(&Dist::Const(42)), 42);
    assert_eq!(rng, before, "a constant draws nothing");
    let mut same = before.clone();
    assert_eq!(rng.draw(&Dist::Exp { mean: 1000 }), same.exponential(1000));
    assert_eq!(
        rng.draw(&Dist::Uniform { low: 1, high: 1000 }),
        same.uniform(1, 1000)
    );
    let dist = Dist::LogNormal {
        median: 1000,
        sigma_milli: 700,
    };
    assert_eq!(rng.draw(&dist), same.log_normal(1000, 700));
}
