// SPDX-License-Identifier: GPL-2.0-or-later
//! The ranges of tunables, at both ends. What a refusal says is tested in failing_schedulers.rs.

use tiltyard_schedtest::kernel::Kernel;
use tiltyard_schedtest::mutations::caught;
use tiltyard_schedtest::{globals, object};

const SECOND: i128 = 1_000_000_000;

/// Scheduler, its callbacks' prefix, tunable; values that are refused, and the first and the last that are not.
type Range = (
    &'static str,
    &'static str,
    &'static str,
    &'static [i128],
    [i128; 2],
);

#[rustfmt::skip]
const RANGES: &[Range] = &[
    ("cfs", "fair", "sched_latency_ns", &[0, SECOND + 1], [1, SECOND]),
    ("cfs", "fair", "min_granularity_ns", &[0, SECOND + 1], [1, SECOND]),
    ("cfs", "fair", "wakeup_granularity_ns", &[SECOND + 1], [0, SECOND]),
    ("cfs", "fair", "nr_latency", &[0], [1, u32::MAX as i128]),
    ("cfs", "fair", "scaling", &[3], [0, 2]),
    ("cfs", "fair", "sleeper_credit", &[3], [0, 2]),
    ("cfs", "fair", "tick_hz", &[0, 10_001], [1, 10_000]),
    ("cfs", "fair", "busy_factor", &[0], [1, u32::MAX as i128]),
    ("eevdf", "fair", "base_slice_ns", &[0, SECOND + 1], [1, SECOND]),
    ("eevdf", "fair", "scaling", &[3], [0, 2]),
    ("o1", "o1", "tick_hz", &[0, 10_001], [100, 10_000]),
    ("sd", "sd", "tick_hz", &[0, 10_001], [1, 10_000]),
    ("sd", "sd", "mode", &[2], [0, 1]),
    ("sd", "sd", "rr_interval", &[5001], [0, 5000]),
    ("sd", "sd", "quota_pos_nice", &[3], [0, 2]),
    ("bfs", "bfs", "tick_hz", &[0, 10_001], [1, 10_000]),
    ("bfs", "bfs", "rr_interval", &[0, 5001], [1, 5000]),
    ("bfs", "bfs", "version", &[310, 465], [311, 464]),
    ("bfs", "bfs", "iso_cpu", &[101], [0, 100]),
];

#[test]
fn only_values_out_of_range_are_refused() {
    let mut wrong = Vec::new();
    for (scheduler, prefix, tunable, refused, ends) in RANGES {
        for value in refused.iter().chain(ends) {
            let values = globals(&[(*tunable, *value)]);
            let mut kernel = Kernel::boot(object(scheduler, 2), &values, 2);
            let init = format!("{prefix}_init");
            // None: it has reported an error, which the kernel takes for a failure.
            let accepted = caught(|| kernel.call(&init, &[]).1 as i32) == Some(0);
            if accepted == refused.contains(value) {
                wrong.push(format!("{scheduler}:{tunable}={value}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}
