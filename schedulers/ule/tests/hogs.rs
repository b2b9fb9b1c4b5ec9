// SPDX-License-Identifier: GPL-2.0-or-later
//! How ULE as FreeBSD 11.1 has it shares one CPU among tasks that never sleep, by nice value: nice is weak.
//! The shares come from the fact sheet's independent model of the rules; they are those after the warm-up.

use tiltyard_schedtest::{Lab, globals, ideal, object, parse};

/// Long enough for histories of 10 s to be full.
const WARM_UP_S: u64 = 60;
const MEASURED_S: u64 = 240;
/// Of a share, in percentage points: statistics clock and slices do not divide the window.
const TOLERANCE: f64 = 0.7;

fn workload(nice: &[i8]) -> String {
    let tasks: Vec<String> = nice
        .iter()
        .enumerate()
        .map(|(i, nice)| {
            format!(r#""hog{i}": {{ "loop": -1, "priority": {nice}, "run": 1000000 }}"#)
        })
        .collect();
    format!(r#"{{ "tasks": {{ {} }} }}"#, tasks.join(", "))
}

/// Runtimes of the hogs in the first `seconds` of the run.
fn runtimes_ns(nice: &[i8], seconds: u64) -> Vec<u64> {
    let machine = ideal("pu:1", 1000);
    let globals = globals(&[("mode", 1), ("hz", 1000)]);
    let mut lab = Lab::new(&machine, object("ule", 2));
    lab.globals = &globals;
    lab.duration_ns = Some(seconds * 1_000_000_000);
    let ran = lab.run(&parse(&workload(nice))).expect("ule runs hogs");
    let hogs = ran
        .summary
        .tasks
        .iter()
        .filter(|t| t.name.starts_with("hog"));
    hogs.map(|t| t.runtime_ns).collect()
}

fn shares_are(nice: &[i8], percent: &[f64]) {
    let (warm, all) = (
        runtimes_ns(nice, WARM_UP_S),
        runtimes_ns(nice, WARM_UP_S + MEASURED_S),
    );
    let shares: Vec<f64> = all
        .iter()
        .zip(&warm)
        .map(|(all, warm)| (all - warm) as f64 / (MEASURED_S as f64 * 1e9) * 100.0)
        .collect();
    for (share, wanted) in shares.iter().zip(percent) {
        assert!(
            (share - wanted).abs() < TOLERANCE,
            "nice {nice:?}: {shares:.1?}, not {percent:?}"
        );
    }
}

#[test]
fn equals_share_equally() {
    shares_are(&[0, 0], &[50.0, 50.0]);
    shares_are(&[0; 8], &[12.5; 8]);
}

#[test]
fn ten_steps_of_nice_change_nothing() {
    shares_are(&[0, 10], &[50.0, 50.0]);
}

#[test]
fn the_whole_range_of_nice_is_worth_little() {
    shares_are(&[0, 19], &[58.6, 41.4]);
}
