// SPDX-License-Identifier: GPL-2.0-or-later
//! A fault of Linux 6.18 that README.md describes, and its switch.

use tiltyard_schedtest::{Lab, costed, globals, object, parse};

/// Share of four CPUs that a hog on each gets beside twelve sleepers of another app.
fn share_of_hogs(place_current: bool) -> f64 {
    let workload = include_str!("../../../workloads/starved-group-4c.json");
    let machine = costed("pack:1 core:4 pu:1", 250);
    let globals = globals(&[("place_current", i128::from(place_current))]);
    let mut lab = Lab::new(&machine, object("eevdf", 4));
    lab.globals = &globals;
    let ran = lab.run(&parse(workload)).expect("a run");
    let hogs = ran.summary.apps.iter().find(|app| app.app == "hogs");
    let runtime_ns = hogs.expect("hogs").runtime_ns;
    runtime_ns as f64 / (4 * ran.summary.duration_ns) as f64
}

#[test]
fn a_group_of_sleepers_starves_its_equal_unless_its_lag_stays_as_it_is() {
    let (as_in_linux, repaired) = (share_of_hogs(true), share_of_hogs(false));
    assert!(as_in_linux < 0.35, "{as_in_linux}");
    assert!((0.48..0.52).contains(&repaired), "{repaired}");
}
