// SPDX-License-Identifier: GPL-2.0-or-later
//! A running task that is pushed away, in whole runs.

use tiltyard_model::machine::Jitter;
use tiltyard_schedtest::{Lab, costed, globals, object, parse};

/// Four hogs of three nice values on four CPUs. The load of the heaviest is never even with that of the others, so each of them
/// has it pushed to its CPU now and then. There it waits, and the CPU that pushed it runs dry and takes it back at once.
#[test]
fn a_pushed_hog_comes_back() {
    let workload = parse(
        r#"{ "tasks": {
            "even": { "instance": 2, "loop": -1, "run": 1000000 },
            "low": { "loop": -1, "priority": 5, "run": 1000000 },
            "high": { "loop": -1, "priority": -5, "run": 1000000 } },
            "global": { "duration": 10 } }"#,
    );
    let machine = costed("package:1 core:4 pu:1", 250);
    let migrations = |tunables: &[(&str, i128)]| {
        let globals = globals(tunables);
        let mut lab = Lab::new(&machine, object("cfs", 2));
        lab.globals = &globals;
        let ran = lab.run(&workload).expect("a run");
        ran.summary.tasks.iter().map(|t| t.migrations).sum::<u64>()
    };
    let without = migrations(&[("active_balance", 0)]);
    let with = migrations(&[]);
    assert!(
        with <= without + 5,
        "{with} migrations, {without} if nobody is pushed"
    );
}

/// A CPU that is asked to push puts its running task back first. If none may go, and the same task goes on, its time counts as
/// before: of two hogs that share the CPU neither runs for longer than its slice.
#[test]
fn the_clock_of_a_task_that_stays_goes_on() {
    let workload = parse(include_str!(
        "../../../workloads/probe/micro-balance-nice.json"
    ));
    let mut machine = costed("package:1 core:4 pu:1", 250);
    machine.jitter = Jitter::REFERENCE;
    for seed in 1..=3 {
        let mut lab = Lab::new(&machine, object("cfs", 2));
        lab.seed = seed;
        let ran = lab.run(&workload).expect("a run");
        let longest = ran.summary.tasks.iter().map(|t| t.longest_wait_ns).max();
        assert!(longest < Some(1_500_000_000), "seed {seed}: {longest:?} ns");
    }
}
