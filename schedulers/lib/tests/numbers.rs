// SPDX-License-Identifier: GPL-2.0-or-later
//! The headers that compute: against 128 bits, in which nothing wraps or is cut off.

use super::{Lib, Random};

/// Numbers at which something changes.
const EDGES: [u64; 12] = [
    0,
    1,
    2,
    1023,
    1024,
    (1 << 31) - 1,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 1,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX,
];

impl Lib {
    /// The same with unsigned words.
    fn words(&self, program: &str, words: &[u64]) -> [u64; 8] {
        let words: Vec<i64> = words.iter().map(|word| *word as i64).collect();
        self.call(program, &words).map(|word| word as u64)
    }
}

/// All pairs of edges, and random ones.
fn pairs() -> Vec<(u64, u64)> {
    let each = EDGES.into_iter();
    let mut pairs: Vec<(u64, u64)> = each.flat_map(|a| EDGES.map(|b| (a, b))).collect();
    let mut random = Random(7);
    pairs.extend((0..5_000).map(|_| (random.of_any_length(), random.of_any_length())));
    pairs
}

/// Clocks of 64 bits that show two times of a longer one.
#[test]
fn times_that_wrap_have_an_order() {
    let lib = Lib::new();
    const FARTHEST: i128 = (1 << 63) - 1;
    for (start, distance) in pairs() {
        let distance = i128::from(distance) % (FARTHEST + 1);
        for distance in [distance, -distance] {
            let first = i128::from(start) + (1 << 100);
            let second = first + distance;
            let out = lib.words("t_order", &[first as u64, second as u64]);
            let (later, earlier) = (first.max(second) as u64, first.min(second) as u64);
            let expected = [u64::from(first < second), later, earlier];
            assert_eq!(out[2..5], expected, "{first} and {second}");
        }
    }
}

#[test]
fn numbers_that_do_not_wrap_have_the_usual_order() {
    let lib = Lib::new();
    for (a, b) in pairs() {
        let out = lib.words("t_order", &[a, b]);
        let difference = (i128::from(a) - i128::from(b)).max(0) as u64;
        assert_eq!(out[5..8], [a.min(b), a.max(b), difference], "{a} and {b}");
    }
}

#[test]
fn products_have_96_bits() {
    let lib = Lib::new();
    for (nr, (a, b)) in pairs().into_iter().enumerate() {
        let b = b as u32;
        let product = u128::from(a) * u128::from(b);
        for shift in [0, 1, nr as u32 % 33, 31, 32] {
            let out = lib.words("t_product", &[a, b.into(), shift.into()]);
            assert_eq!(out[3], (product >> shift) as u64, "{a} * {b} >> {shift}");
            assert_eq!(out[4], (0..32).filter(|bit| b >> bit > 0).count() as u64);
        }
    }
}

/// Each step of nice divides the weight by about 1.25; inverses are 2^32 / weight, rounded up or down.
#[test]
fn a_step_of_nice_is_a_fifth_of_the_weight() {
    let lib = Lib::new();
    let load = |nice: i64, idle: i64| {
        let out = lib.call("t_load", &[nice, idle]);
        assert_eq!(out[2] % 1024, 0, "nice {nice}: a weight of the table");
        let (weight, inverse) = (out[2] / 1024, out[3]);
        assert!(
            (inverse * weight - (1 << 32)).abs() < weight,
            "nice {nice}: {inverse} * {weight} is not 2^32"
        );
        weight
    };
    for nice in -20..=19 {
        let (weight, ideal) = (load(nice, 0), 1024.0 / 1.25f64.powi(nice as i32));
        assert!(
            (weight as f64 / ideal - 1.0).abs() < 0.03,
            "nice {nice}: {weight}"
        );
        assert_eq!(load(nice, 1), 3, "SCHED_IDLE");
    }
    assert_eq!([load(0, 0), load(-20, 0), load(19, 0)], [1024, 88_761, 15]);
    assert_eq!([load(20, 0), load(-21, 0)], [15, 15], "no nice values");
}

/// A weight's part of a time is at most what it is in 128 bits. It is less only as far as an inverse of 32 bits, a factor
/// cut to 32 bits and a result in whole ns explain.
#[test]
fn parts_of_a_time_are_short_by_what_is_rounded() {
    let (lib, mut random) = (Lib::new(), Random(11));
    // In units of the table: the smallest, nice values', the largest share of a group, many tasks.
    let mut weights = vec![1, 2, 3, 15, 1023, 1024, 1025, 88_761, 1 << 18, 1 << 30];
    weights.extend((0..40).map(|_| 1 + random.below(1 << 20)));
    let hour = 3_600_000_000_000;
    let mut times = vec![0, 1, 999, 1_000_000, (1 << 32) - 1, 1 << 32, hour];
    times.extend((0..10).map(|_| random.below(1 << 31)));
    for (nr, &total) in weights.iter().enumerate() {
        let inverse = ((1u64 << 32) - 1) / total;
        // What is below a unit of the table counts for nothing.
        let fine = |units: u64| units << 10 | nr as u64;
        for &time in &times {
            for &weight in weights.iter().filter(|weight| **weight <= total) {
                let out = lib.words("t_parts", &[time, fine(weight), fine(total)]);
                assert_eq!(out[3], inverse, "2^32 / {total}");
                check_part([time, weight, total, inverse], out[4]);
            }
            // What a time costs a task: its part at a weight of nice 0.
            let cost = lib.words("t_parts", &[time, 0, total << 10])[5];
            match total {
                1024 => assert_eq!(cost, time),
                _ => check_part([time, 1024, total, inverse], cost),
            }
        }
    }
    // A sum that is less than a unit of the table.
    assert_eq!(lib.words("t_parts", &[0, 0, 1023])[3], (1 << 32) - 1);
}

/// `part` is time * weight / total, or so little less that rounding explains it.
fn check_part(words: [u64; 4], part: u64) {
    let [time, weight, total, inverse] = words.map(u128::from);
    let part = u128::from(part);
    let said = format!("{time} * {weight} / {total}: {part}");
    assert!(part * total <= time * weight, "{said} is too much");
    let by_inverse = (time * weight * inverse) >> 32;
    let cut = (by_inverse >> 31) + 1;
    assert!(part + cut >= by_inverse, "{said} is too little");
}
