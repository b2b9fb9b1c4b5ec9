// SPDX-License-Identifier: GPL-2.0-or-later
//! Tasks that come and go beside one that stays.

use tiltyard_schedtest::{Lab, costed, object, parse, presets};

/// A build of short-lived threads gets as much as the hog beside it. If each exit advanced min_vruntime to the hog's vruntime, new
/// threads and woken ones would be placed behind it: 56 % for the hog (under Linux 6.1's own CFS, it gets 49 %).
#[test]
fn exits_do_not_favour_who_stays() {
    let machine = costed("package:1 core:1 pu:1", 250);
    let presets = presets("cfs");
    let mut lab = Lab::new(&machine, object("cfs", 2));
    lab.globals = &presets["cfs_kernel61"];
    let workload = parse(
        r#"{ "tasks": {
            "hog": { "loop": -1, "run": 1000000 },
            "make": { "loop": -1, "tiltyard": {
                "run": { "exp": 200 }, "spawn": { "task": "cc", "count": 3 }, "join": true } },
            "cc": { "instance": 0, "loop": 1, "tiltyard": { "run": { "exp": 2000 }, "sleep": { "exp": 500 } } } },
            "global": { "duration": 60 } }"#,
    );
    let ran = lab.run(&workload).expect("a run");
    let hog = ran.summary.tasks.iter().find(|t| t.name == "hog");
    let share = hog.expect("hog").runtime_ns / 600_000_000;
    assert!((47..=53).contains(&share), "{share} %");
}
