// SPDX-License-Identifier: GPL-2.0-or-later
//! The sample as a page.

use tiltyard_measure::{Summary, compare};
use tiltyard_report::ReportInput;

const COMMAND: &str = "tiltyard run -w sample -s first,half --seeds 3 --report sample.html";

pub fn page(runs: &[(String, Vec<Summary>)]) -> String {
    let comparison = compare(runs);
    tiltyard_report::html::render(&ReportInput {
        title: "fibo + sysbench (sample)",
        about: "A task that computes beside sixteen threads that serve requests, on each CPU.",
        machine: "A made-up machine, 30 s.",
        command: COMMAND,
        shown: "seed 1",
        comparison: &comparison,
        runs,
        timelines: &[],
    })
}
