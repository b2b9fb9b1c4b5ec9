// SPDX-License-Identifier: GPL-2.0-or-later
//! The books of CPUs that stand still in a kick.

mod common;

use common::{Arena, check_books, costed, ideal, object, parse, repository};
use tiltyard_native::Value;

/// CPU 0 kicks CPU 1 every 2 ms and waits for it. What wakes, ticks and ends meanwhile is lost nowhere.
#[test]
fn books_close_when_kicks_wait() {
    let path = repository().join("tests/conformance/schedulers/timer_kick.bpf.c");
    let tunables = [("kick_flags", 6), ("kick_cpu", 1), ("period_ns", 2_000_000)]
        .map(|(name, value)| (name.to_owned(), Value::Int(value)));
    let workload = parse(
        r#"{
        "tiltyard": { "devices": { "disk": { "channels": 1 } }, "apps": { "rt-app": { "history": 0 } } },
        "tasks": {
            "a": { "instance": 3, "loop": 40, "run": 900, "sleep": 400,
                   "tiltyard": { "io": { "device": "disk", "service": 250 } } },
            "b": { "loop": -1, "cpus": [1], "run": 300, "sleep": 500, "tiltyard": { "daemon": true } },
            "A": { "loop": 20, "cpus": [0], "run": 200, "sleep": 100 }
        } }"#,
    );
    for machine in [ideal("core:2 pu:1", 1000), costed("core:1 pu:2", 1000)] {
        let mut arena = Arena::new(&machine, object(&path.display().to_string(), 2));
        arena.globals = &tunables;
        let ran = arena.run(&workload).expect("an orderly end");
        check_books(&ran);
        assert_eq!(ran.outcome.tasks_left, 1, "b alone: {:?}", ran.outcome);
        let again = arena.run(&workload).expect("an orderly end");
        assert_eq!(ran.outcome, again.outcome);
        // Where the target takes a moment to pick, the CPU that waits for it loses as much.
        let unwaited = [("kick_flags", 2), ("kick_cpu", 1), ("period_ns", 2_000_000)]
            .map(|(name, value)| (name.to_owned(), Value::Int(value)));
        arena.globals = &unwaited;
        let unwaited = arena.run(&workload).expect("an orderly end");
        let [with, without] = [&ran, &unwaited].map(|r| r.outcome.cpus[0].overhead_ns);
        assert_eq!(
            with > without,
            machine.costs.switch_ns > 0,
            "{with} {without}"
        );
    }
}
