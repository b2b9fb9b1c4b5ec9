// SPDX-License-Identifier: GPL-2.0-or-later
//! fifo's slices.

use tiltyard_schedtest::{Lab, globals, ideal, object, parse};

/// A task that goes straight to an idle CPU has the same slice as one from the queue: whoever wakes 1 ms later waits for the rest
/// of it.
#[test]
fn the_slice_is_that_of_the_tunable_on_an_idle_cpu_too() {
    let workload = parse(
        r#"{ "tasks": {
            "first": { "instance": 2, "phases": { "idle": { "sleep": 5000 }, "busy": { "run": 1000000 } } },
            "second": { "phases": { "idle": { "sleep": 6000 }, "busy": { "run": 1000000 } } } },
            "global": { "duration": 1 } }"#,
    );
    let machine = ideal("package:1 core:2 pu:1", 1000);
    for slice_ms in [5, 60] {
        let globals = globals(&[("slice_ms", slice_ms)]);
        let mut lab = Lab::new(&machine, object("fifo", 2));
        lab.globals = &globals;
        let ran = lab.run(&workload).expect("a run");
        let second = ran.summary.tasks.iter().find(|t| t.name == "second");
        let waited_ms = second.expect("second").wakeup.max_ns as f64 / 1e6;
        // A tick ends the slice.
        let rest_ms = slice_ms as f64 - 1.0;
        assert!((rest_ms..rest_ms + 1.1).contains(&waited_ms), "{waited_ms}");
    }
}
