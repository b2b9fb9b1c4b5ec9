// SPDX-License-Identifier: GPL-2.0-or-later
//! Whole runs beside realtime tasks, which take CPUs away without a word, and beside tasks that have gone.

use tiltyard_model::machine::Jitter;
use tiltyard_schedtest::{Lab, Ran, costed, object, parse};

fn ran(topology: &str, workload: &str) -> Ran {
    let mut machine = costed(topology, 250);
    machine.jitter = Jitter::REFERENCE;
    let ran = Lab::new(&machine, object("cfs", 2)).run(&parse(workload));
    ran.expect("a run")
}

/// A realtime task has most of CPU 0 for two seconds. Later the hogs share all CPUs evenly again, because what it has used counts
/// for less and less, although it never comes back to tell.
#[test]
fn capacity_returns_when_a_realtime_task_is_gone() {
    let ran = ran(
        "package:1 core:4 pu:1",
        r#"{ "tasks": {
            "hog": { "instance": 8, "loop": -1, "run": 100000 },
            "rt": { "loop": 1, "policy": "SCHED_FIFO", "priority": 50, "cpus": [0], "delay": 500000,
                    "phases": { "p": { "loop": 200, "run": 9000, "sleep": 1000 } } } },
            "global": { "duration": 20 } }"#,
    );
    let hogs = ran
        .summary
        .tasks
        .iter()
        .filter(|t| t.name.starts_with("hog"));
    let runtimes: Vec<u64> = hogs.map(|t| t.runtime_ns).collect();
    let (least, most) = (runtimes.iter().min(), runtimes.iter().max());
    assert_eq!(runtimes.len(), 8);
    assert!(most.unwrap() * 10 < least.unwrap() * 13, "{runtimes:?}");
}

/// A hog that a realtime task drives off its CPU for three seconds goes on elsewhere: the other CPUs are mostly idle.
#[test]
fn a_hog_that_was_driven_off_is_taken_by_an_idle_cpu() {
    let ran = ran(
        "package:1 core:4 pu:1",
        r#"{ "tasks": {
            "hog": { "loop": -1, "phases": { "p": { "cpus": [0], "loop": 1, "run": 500000 }, "q": { "loop": -1, "run": 100000 } } },
            "w": { "instance": 3, "loop": -1, "cpus": [1, 2, 3], "run": 2000, "sleep": 8000 },
            "rt": { "loop": -1, "policy": "SCHED_FIFO", "priority": 50, "cpus": [0], "delay": 1500000,
                    "run": 3000000, "sleep": 1000000 } },
            "global": { "duration": 6 } }"#,
    );
    let hog = ran
        .summary
        .tasks
        .iter()
        .find(|t| t.name == "hog")
        .expect("hog");
    assert!(
        hog.longest_wait_ns < 100_000_000,
        "{} ns",
        hog.longest_wait_ns
    );
}

/// Wakees that come while a realtime task has the CPU of a hog preempt the hog afterwards.
#[test]
fn wakees_preempt_after_a_realtime_task() {
    let ran = ran(
        "package:1 core:1 pu:1",
        r#"{ "tasks": {
            "hog": { "loop": -1, "run": 100000 },
            "b": { "loop": -1, "run": 100, "timer": { "ref": "tb", "period": 10000, "mode": "absolute" } },
            "c": { "loop": -1, "run": 100, "timer": { "ref": "tc", "period": 7000, "mode": "absolute" } },
            "rt": { "loop": -1, "policy": "SCHED_FIFO", "priority": 50, "delay": 9500, "run": 800,
                    "timer": { "ref": "tr", "period": 3370, "mode": "absolute" } } },
            "global": { "duration": 10 } }"#,
    );
    let b = ran.summary.tasks.iter().find(|t| t.name == "b").expect("b");
    let p99_ns = b.wakeup.p99_ns;
    assert!(p99_ns < 2_000_000, "{p99_ns} ns");
}

/// Two groups of equal weight have a hog each on CPU 0. Three more tasks of one group ran elsewhere and sleep: their load decays
/// there, too, and soon each group has half of CPU 0.
#[test]
fn what_a_group_has_run_elsewhere_is_forgotten() {
    let ran = ran(
        "package:1 core:4 pu:1",
        r#"{ "tiltyard": { "apps": { "g": { "group": "/g" }, "h": { "group": "/h" } },
                           "groups": { "/g": { "weight": 100 }, "/h": { "weight": 100 } } },
            "tasks": {
            "gstay": { "loop": -1, "cpus": [0], "run": 100000, "tiltyard": { "app": "g" } },
            "ggo": { "instance": 3, "loop": 1, "cpus": [1, 2, 3], "tiltyard": { "app": "g", "daemon": true },
                     "phases": { "a": { "loop": 1, "run": 1000000 }, "b": { "loop": -1, "sleep": 30000000 } } },
            "hog": { "loop": -1, "cpus": [0], "run": 100000, "tiltyard": { "app": "h" } } },
            "global": { "duration": 30 } }"#,
    );
    let of = |name: &str| {
        ran.summary
            .tasks
            .iter()
            .find(|t| t.name == name)
            .expect(name)
            .runtime_ns
    };
    let permille = of("gstay") * 1000 / (of("gstay") + of("hog"));
    assert!((460..=520).contains(&permille), "{permille} of 1000");
}
