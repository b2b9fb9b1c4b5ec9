// SPDX-License-Identifier: GPL-2.0-or-later
//! The sample as a page.

use tiltyard_measure::{Summary, compare};
use tiltyard_report::ReportInput;
use tiltyard_report::timeline::{Recorded, Timeline, Window};

const COMMAND: &str = "tiltyard run -w sample -s first,half --seeds 3 --report sample.html";

pub fn page(runs: &[(String, Vec<Summary>)], timelines: &[(String, Recorded)]) -> String {
    let comparison = compare(runs);
    tiltyard_report::html::render(&ReportInput {
        title: "fibo + sysbench (sample)",
        about: "A task that computes beside sixteen threads that serve requests, on each CPU.",
        machine: "A made-up machine, 30 s.",
        command: COMMAND,
        shown: "seed 1",
        comparison: &comparison,
        runs,
        timelines,
        nodes: &[],
    })
}

/// Timelines of both schedulers.
pub fn timelines(nr_cpus: u32, max_slices: usize) -> Vec<(String, Recorded)> {
    use crate::common::{END_NS, START_NS, stream};
    let recorded = |half| {
        let window = Window {
            from_ns: START_NS,
            to_ns: None,
            max_slices,
        };
        let mut timeline = Timeline::new(nr_cpus as usize, 0, window);
        stream(nr_cpus, half, 0).play(&mut timeline);
        timeline.finish(END_NS)
    };
    vec![
        ("first".to_owned(), recorded(false)),
        ("half".to_owned(), recorded(true)),
    ]
}
