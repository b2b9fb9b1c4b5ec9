// SPDX-License-Identifier: GPL-2.0-or-later
//! Whole runs in which tasks are changed while they wait, and realtime tasks take CPUs away.

use tiltyard_model::machine::Jitter;
use tiltyard_schedtest::{Lab, Ran, costed, globals, object, parse};

/// ULE's own settings (`ule_freebsd`), or the port's.
fn ran(topology: &str, freebsd: bool, workload: &str) -> Ran {
    let mut machine = costed(topology, 250);
    machine.jitter = Jitter::REFERENCE;
    let globals = globals(&[("mode", i128::from(freebsd))]);
    let mut lab = Lab::new(&machine, object("ule", 2));
    lab.globals = &globals;
    lab.run(&parse(workload)).expect("a run")
}

fn wasted_ms(ran: &Ran) -> u64 {
    ran.summary
        .cpus
        .iter()
        .filter_map(|cpu| cpu.wasted_ns)
        .sum::<u64>()
        / 1_000_000
}

fn longest_wait_ms(ran: &Ran, name: &str) -> u64 {
    let task = ran.summary.tasks.iter().find(|t| t.name == name);
    task.expect(name).longest_wait_ns / 1_000_000
}

/// Six hogs of CPU 0 may from now on run on the others alone. FreeBSD chooses a CPU for each; Linux puts all on the first.
#[test]
fn tasks_whose_mask_forbids_their_cpu_are_spread() {
    let others: Vec<String> = (0..6)
        .map(|i| {
            format!(r#""set_other{i}": {{ "task": "hog", "instance": {i}, "cpus": [1, 2, 3] }}"#)
        })
        .collect();
    let ran = ran(
        "package:1 core:4 pu:1",
        true,
        &format!(
            r#"{{ "tasks": {{
            "hog": {{ "instance": 6, "loop": -1, "run": 50000, "cpus": [0] }},
            "control": {{ "loop": 1, "cpus": [0], "priority": -20, "tiltyard": {{ "sleep": 1000000, {}, "sleep1": 8000000 }} }} }},
            "global": {{ "duration": 6 }} }}"#,
            others.join(", ")
        ),
    );
    assert!(wasted_ms(&ran) < 400, "{} ms", wasted_ms(&ran));
}

/// A sleeper that wakes up while a realtime task has the CPU of a hog runs before the hog does.
#[test]
fn who_wakes_up_beside_a_realtime_task_comes_before_the_hog() {
    let ran = ran(
        "package:1 core:1 pu:1",
        true,
        r#"{ "tasks": {
            "rt": { "policy": "SCHED_FIFO", "priority": 50, "loop": -1, "run": 20000, "sleep": 47300 },
            "hog": { "loop": -1, "run": 50000 },
            "sleeper": { "loop": -1, "run": 1000, "sleep": 9700 } },
            "global": { "duration": 20 } }"#,
    );
    let sleeper = ran
        .summary
        .tasks
        .iter()
        .find(|t| t.name == "sleeper")
        .expect("sleeper");
    assert!(
        sleeper.wakeup.p99_ns < 40_000_000,
        "{} ns",
        sleeper.wakeup.p99_ns
    );
}

/// The balancer has given a task to a CPU where it has not run yet; then its mask changes, and it is queued on the old CPU,
/// which idles meanwhile.
#[test]
fn an_idle_cpu_takes_a_changed_task() {
    let ran = ran(
        "package:1 core:4 pu:1",
        false,
        r#"{ "tasks": {
            "h1": { "instance": 4, "loop": -1, "run": 50000, "cpus": [1] },
            "h2": { "instance": 3, "loop": -1, "run": 50000, "cpus": [2] },
            "h3": { "loop": -1, "run": 50000, "cpus": [3], "priority": -20 },
            "p": { "loop": -1, "run": 50000, "cpus": [0, 3], "priority": 19 },
            "q": { "loop": -1, "cpus": [0], "run": 500000, "sleep": 900000, "priority": 5 },
            "control": { "loop": -1, "cpus": [2], "priority": -20, "tiltyard": {
                "sleep": 40000, "set_other": { "task": "p", "instance": 0, "cpus": [0, 1, 3] },
                "sleep1": 40000, "set_other1": { "task": "p", "instance": 0, "cpus": [0, 3] } } } },
            "global": { "duration": 60 } }"#,
    );
    let waited_ms = longest_wait_ms(&ran, "p");
    assert!(
        waited_ms < 1_200 && wasted_ms(&ran) < 1_000,
        "{waited_ms} ms, wasted {} ms",
        wasted_ms(&ran)
    );
}

/// A hog whose mask changes a hundred times a second, but never forbids its CPU, gets its turns.
#[test]
fn a_changed_task_keeps_its_place() {
    let ran = ran(
        "package:1 core:4 pu:1",
        true,
        r#"{ "tasks": {
            "a": { "loop": -1, "run": 50000, "cpus": [0] },
            "b": { "instance": 6, "loop": -1, "run": 50000, "cpus": [0] },
            "control": { "loop": -1, "cpus": [2], "tiltyard": {
                "sleep": 10000, "set_other": { "task": "a", "instance": 0, "cpus": [0, 3] },
                "sleep1": 10000, "set_other1": { "task": "a", "instance": 0, "cpus": [0] } } },
            "filler": { "loop": -1, "cpus": [3], "priority": -20, "run": 50000 },
            "filler1": { "loop": -1, "cpus": [1], "run": 50000 } },
            "global": { "duration": 40 } }"#,
    );
    let waited_ms = longest_wait_ms(&ran, "a");
    assert!(waited_ms < 5_000, "{waited_ms} ms");
}
