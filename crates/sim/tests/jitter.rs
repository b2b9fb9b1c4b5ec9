// SPDX-License-Identifier: GPL-2.0-or-later
//! Seeds differ as runs on real hardware do: in when programs start, how late timers are, how long computations take.

use crate::common::{Lab, Ran, check_books, ideal, object, parse, shipped};
use std::collections::BTreeSet;
use tiltyard_model::Machine;
use tiltyard_model::machine::Jitter;
use tiltyard_workload::Workload;

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;

/// Both come every 20 ms and take the same lock; how long the quick one is held up is a matter of phase alone.
const CONVOY: &str = r#"{ "tasks": {
    "slow": { "loop": 200, "lock": "m", "run": 8000, "unlock": "m", "timer": { "ref": "a", "period": 20000 } },
    "quick": { "loop": 200, "lock": "m", "run": 1000, "unlock": "m", "timer": { "ref": "b", "period": 20000 } } } }"#;

fn machine(jitter: Jitter) -> Machine {
    let mut machine = ideal("core:2 pu:1", 250);
    machine.jitter = jitter;
    machine
}

fn seeded(machine: &Machine, scheduler: &str, workload: &Workload, seed: u64) -> Ran {
    let mut lab = Lab::new(machine, object(scheduler, 2));
    lab.seed = seed;
    let ran = lab.run(workload).unwrap_or_else(|e| panic!("{e}"));
    check_books(&ran);
    ran
}

/// What `name` got of the CPU and how long it lived, ns.
fn times(ran: &Ran, name: &str) -> [u64; 2] {
    let task = ran.summary.tasks.iter().find(|t| t.name == name);
    let task = task.unwrap_or_else(|| panic!("no task {name}"));
    [task.runtime_ns - task.overhead_ns, task.lifetime_ns]
}

#[test]
fn ten_seeds_of_a_convoy_span_a_range() {
    let (workload, machine) = (parse(CONVOY), machine(Jitter::REFERENCE));
    let run = |seed| seeded(&machine, "rr", &workload, seed);
    let all: Vec<Ran> = (1..=10).map(run).collect();
    assert!(all.iter().all(|ran| ran.outcome.left_to_chance));
    // With two CPUs only the lock makes anyone sleep beyond its timer: the first round shows for how long.
    let span = |of: fn(&Ran) -> u64| {
        let values: Vec<u64> = all.iter().map(of).collect();
        values.iter().max().unwrap() - values.iter().min().unwrap()
    };
    let ends = span(|ran| ran.outcome.end_ns);
    assert!(ends > 5 * MS && ends < 40 * MS, "{ends}");
    let switches: BTreeSet<u64> = all.iter().map(|ran| ran.outcome.switches).collect();
    assert!(
        switches.len() > 1,
        "the lock is taken in one way: {switches:?}"
    );
    assert_eq!(run(3), all[2], "the same seed is the same run");
}

#[test]
fn without_jitter_seeds_are_alike() {
    let (workload, machine) = (parse(CONVOY), machine(Jitter::NONE));
    let hash = |seed| {
        let ran = seeded(&machine, "rr", &workload, seed);
        assert!(!ran.outcome.left_to_chance);
        ran.trace_hash
    };
    let hashes: BTreeSet<String> = (1..=10).map(hash).collect();
    assert_eq!(hashes.len(), 1);
}

/// Everything but the phase of the tick grid is off: how long the first of two hogs runs depends on it.
#[test]
fn the_tick_grid_has_a_phase() {
    let mut machine = ideal("pu:1", 250);
    machine.jitter.start_span_ns = 1;
    let workload = parse(r#"{ "tasks": { "hog": { "instance": 2, "loop": 1, "run": 60000 } } }"#);
    let first = |seed| {
        let ran = seeded(&machine, "rr", &workload, seed);
        let second = ran.summary.tasks.iter().find(|t| t.name == "hog-1");
        second.map(|t| t.longest_wait_ns)
    };
    let waits: BTreeSet<Option<u64>> = (1..=20).map(first).collect();
    assert!(waits.len() > 10, "{waits:?}");
}

/// Schedulers that decide differently run the same programs.
#[test]
fn schedulers_see_the_same_draws() {
    let workload = parse(
        r#"{ "tasks": {
            "a": { "loop": 50, "run": 700, "sleep": 300 }, "b": { "loop": 50, "run": 900, "sleep": 50 },
            "c": { "loop": 1, "run": 60000 } } }"#,
    );
    let mut machine = ideal("pu:1", 250);
    machine.jitter = Jitter::REFERENCE;
    for seed in 1..=5 {
        let runs: Vec<Ran> = shipped()
            .iter()
            .map(|scheduler| seeded(&machine, scheduler, &workload, seed))
            .collect();
        let traces: BTreeSet<&str> = runs.iter().map(|ran| ran.trace_hash.as_str()).collect();
        assert!(traces.len() > 2, "{traces:?}");
        for name in ["a", "b", "c"] {
            let worked_ns: BTreeSet<u64> = runs.iter().map(|ran| times(ran, name)[0]).collect();
            assert_eq!(worked_ns.len(), 1, "{name}, seed {seed}: {worked_ns:?}");
        }
    }
}

/// An alone task's life is its work and its sleeps: neither is longer or shorter than written but by the jitter.
#[test]
fn jitter_is_as_large_as_the_machine_says() {
    let workload = parse(r#"{ "tasks": { "a": { "loop": 1000, "run": 1000, "sleep": 1000 } } }"#);
    let machine = machine(Jitter::REFERENCE);
    let [worked_ns, lived_ns] = times(&seeded(&machine, "rr", &workload, 1), "a");
    let (loops, jitter) = (1000, Jitter::REFERENCE);
    // A computation's standard deviation is spread / sqrt(3): five times that of the sum.
    let deviation_ns = jitter.work_spread_ppm * 1000 / 1732 * 32;
    assert!(
        worked_ns.abs_diff(loops * MS) < 5 * deviation_ns,
        "{worked_ns}"
    );
    assert_ne!(worked_ns, loops * MS);
    let late_ns = lived_ns - worked_ns - loops * MS;
    let expected_ns = loops * jitter.timer_late_mean_ns;
    assert!(late_ns.abs_diff(expected_ns) < expected_ns / 5, "{late_ns}");
}
