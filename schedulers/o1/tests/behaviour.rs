// SPDX-License-Identifier: GPL-2.0-or-later
//! Whole runs in the simulated machine: what no single decision shows.

use tiltyard_model::Machine;
use tiltyard_schedtest::{Lab, Ran, costed, globals, ideal, object, parse};

fn ran(topology: &str, tunables: &[(&str, i128)], workload: &str) -> Ran {
    ran_on(&costed(topology, 1000), tunables, workload)
}

fn ran_on(machine: &Machine, tunables: &[(&str, i128)], workload: &str) -> Ran {
    let globals = globals(tunables);
    let mut lab = Lab::new(machine, object("o1", 2));
    lab.globals = &globals;
    lab.run(&parse(workload)).expect("a run")
}

fn runtime_ms(ran: &Ran, name: &str) -> u64 {
    let task = ran.summary.tasks.iter().find(|t| t.name == name);
    task.expect("a task").runtime_ns / 1_000_000
}

/// Five hogs begin on one CPU of four. Idle CPUs get some within a few ticks, whichever of them it is that is woken to
/// balance for all, and whether a CPU has found a task by itself before.
#[test]
fn no_cpu_idles_while_tasks_wait() {
    for newidle in [1, 0] {
        let ran = ran(
            "package:1 core:4 pu:1",
            &[("newidle_balance", newidle)],
            r#"{ "tasks": { "hog": { "instance": 5, "loop": -1, "run": 100000 } },
                "global": { "duration": 3 } }"#,
        );
        for (cpu, of) in ran.summary.cpus.iter().enumerate() {
            let idle_ms = of.idle_ns / 1_000_000;
            assert!(idle_ms < 100, "CPU {cpu} idles for {idle_ms} ms");
        }
    }
}

/// Slices by nice value: 100 ms and 75 ms, in turns; 100 ms and 5 ms; 800 ms and 100 ms.
#[test]
fn nice_values_share_by_slices() {
    let machine = ideal("package:1 core:1 pu:1", 1000);
    for (high, low, share) in [(0, 5, 57.14), (0, 19, 95.24), (-20, 0, 88.89)] {
        let workload = parse(&format!(
            r#"{{ "tasks": {{
                "high": {{ "loop": -1, "priority": {high}, "run": 100000 }},
                "low": {{ "loop": -1, "priority": {low}, "run": 100000 }} }},
                "global": {{ "duration": 63 }} }}"#
        ));
        let ran = Lab::new(&machine, object("o1", 2)).run(&workload);
        let of_high = runtime_ms(&ran.expect("a run"), "high") as f64 / 630.0;
        assert!(
            (of_high - share).abs() < 0.5,
            "nice {high} and {low}: {of_high} %"
        );
    }
}

/// Five tasks that sleep enough to stay interactive, and compute for more than a CPU has, leave a hog next to nothing.
/// They expire once it has waited for a second per runnable task, which gives it a slice of 100 ms every few seconds.
/// Only decisions take effect on this machine: who is interactive at the end of a slice is a matter of microseconds.
#[test]
fn the_starvation_limit_lets_expired_tasks_run() {
    let workload = r#"{ "tasks": {
            "sly": { "instance": 5, "loop": -1, "run": 3000, "sleep": 7000 },
            "victim": { "loop": -1, "run": 100000 } },
        "global": { "duration": 60 } }"#;
    let run = |tunables: &[(&str, i128)]| {
        let machine = ideal("package:1 core:1 pu:1", 1000);
        runtime_ms(&ran_on(&machine, tunables, workload), "victim")
    };
    let with = run(&[]);
    assert!((900..3000).contains(&with), "{with} ms");
    let without = run(&[("starvation_limit_ms", 0)]);
    assert!(
        2 * without < with,
        "{without} ms without the limit, {with} with it"
    );
    // The guard for real kernels: half a second, however many are runnable.
    let guarded = run(&[("starvation_cap_ms", 500)]);
    assert!(guarded > 2 * with, "{guarded} ms with a cap");
}

/// A hog that a realtime task drives off its CPU for three seconds goes on elsewhere.
#[test]
pub fn a_hog_that_was_driven_off_is_taken_by_an_idle_cpu() {
    let ran = ran(
        "package:1 core:4 pu:1",
        &[],
        r#"{ "tasks": {
            "hog": { "loop": -1, "phases": { "p": { "cpus": [0], "loop": 1, "run": 500000 }, "q": { "loop": -1, "run": 100000 } } },
            "w": { "instance": 3, "loop": -1, "cpus": [1, 2, 3], "run": 2000, "sleep": 8000 },
            "rt": { "loop": -1, "policy": "SCHED_FIFO", "priority": 50, "cpus": [0], "delay": 1500000,
                    "run": 3000000, "sleep": 1000000 } },
            "global": { "duration": 6 } }"#,
    );
    let hog = ran.summary.tasks.iter().find(|t| t.name == "hog");
    let waited_ns = hog.expect("hog").longest_wait_ns;
    assert!(waited_ns < 100_000_000, "{waited_ns} ns");
}
