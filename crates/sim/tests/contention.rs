// SPDX-License-Identifier: GPL-2.0-or-later
//! CPUs that want a lock at the same time wait for each other: for runqueues, for DSQs, for the scheduler's own.

use crate::common::{Lab, check_books, ideal, object, parse};
use tiltyard_model::Machine;
use tiltyard_native::Value;

const LOCKER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../sim/tests/schedulers/locker.bpf.c"
);
/// Four threads that wake in the same instants, each on a CPU of its own.
const AT_ONCE: &str = r#"{ "tasks": {
    "a": { "cpus": [0], "loop": 50, "run": 100, "timer": { "ref": "a", "period": 5000 } },
    "b": { "cpus": [1], "loop": 50, "run": 100, "timer": { "ref": "b", "period": 5000 } },
    "c": { "cpus": [2], "loop": 50, "run": 100, "timer": { "ref": "c", "period": 5000 } },
    "d": { "cpus": [3], "loop": 50, "run": 100, "timer": { "ref": "d", "period": 5000 } } } }"#;
/// Four threads that in the same instants wake one each on another CPU.
const ON_ONE: &str = r#"{ "tasks": {
    "a": { "cpus": [0], "loop": 50, "run": 10, "resume": "e", "timer": { "ref": "a", "period": 5000 } },
    "b": { "cpus": [1], "loop": 50, "run": 10, "resume": "f", "timer": { "ref": "b", "period": 5000 } },
    "c": { "cpus": [2], "loop": 50, "run": 10, "resume": "g", "timer": { "ref": "c", "period": 5000 } },
    "d": { "cpus": [3], "loop": 50, "run": 10, "resume": "h", "timer": { "ref": "d", "period": 5000 } },
    "e": { "cpus": [4], "loop": 40, "suspend": "e", "run": 10 },
    "f": { "cpus": [4], "loop": 40, "suspend": "f", "run": 10 },
    "g": { "cpus": [4], "loop": 40, "suspend": "g", "run": 10 },
    "h": { "cpus": [4], "loop": 40, "suspend": "h", "run": 10 } } }"#;

fn machine(set: impl Fn(&mut Machine)) -> Machine {
    let mut machine = ideal("package:1 [numa] core:5 pu:1", 250);
    set(&mut machine);
    machine
}

/// The overhead of all CPUs.
fn overhead_us(machine: &Machine, workload: &str, globals: &[(&str, i128)]) -> u64 {
    let globals: Vec<_> = globals
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Value::Int(*value)))
        .collect();
    let mut lab = Lab::new(machine, object(LOCKER, 5));
    lab.globals = &globals;
    let ran = lab.run(&parse(workload)).expect("a run");
    check_books(&ran);
    let cpus = &ran.outcome.cpus;
    cpus.iter().map(|cpu| cpu.overhead_ns).sum::<u64>() / 1000
}

/// What the CPUs wait, and what the same costs when nobody waits.
fn waits_and_work_us(machine: &Machine, workload: &str, globals: &[(&str, i128)]) -> (u64, u64) {
    let mut free = machine.clone();
    free.lock_waits = false;
    let work_us = overhead_us(&free, workload, globals);
    (overhead_us(machine, workload, globals) - work_us, work_us)
}

/// Of four that come together one waits for none, one for one, one for two, one for three: six holds for four.
#[track_caller]
fn assert_a_line_of_four((waits_us, work_us): (u64, u64)) {
    let ratio = waits_us as f64 / work_us as f64;
    assert!((1.3..=1.6).contains(&ratio), "{waits_us} {work_us}");
}

#[test]
fn cpus_wait_for_the_schedulers_spin_lock() {
    let machine = machine(|m| m.costs.insn_ps = 100_000);
    let held = waits_and_work_us(&machine, AT_ONCE, &[("passes", 100), ("spin", 1)]);
    assert_a_line_of_four(held);
    let (waits_us, work_us) = waits_and_work_us(&machine, AT_ONCE, &[("passes", 100)]);
    // Each has a runqueue of its own, but one thread creates all four.
    assert!(waits_us * 100 < work_us, "{waits_us} {work_us}");
}

#[test]
fn cpus_wait_for_the_runqueue_on_which_they_wake_something() {
    let machine = machine(|m| m.costs.insn_ps = 100_000);
    let (waits_us, work_us) = waits_and_work_us(&machine, ON_ONE, &[("passes", 100)]);
    assert!(waits_us * 2 > work_us, "{waits_us} {work_us}");
}

#[test]
fn cpus_wait_for_the_queue_that_they_share() {
    let machine = machine(|m| m.costs.visit_near_ns = 10_000);
    assert_a_line_of_four(waits_and_work_us(&machine, AT_ONCE, &[("shared", 1)]));
}

#[test]
fn time_goes_on_while_a_callback_runs() {
    let machine = machine(|m| m.costs.insn_ps = 100_000);
    let limited = [("passes", 10_000), ("enough_ns", 50_000)];
    let overhead_us = overhead_us(&machine, AT_ONCE, &limited);
    // 200 wakeups, and what the other callbacks take.
    assert!((10_000..=12_000).contains(&overhead_us), "{overhead_us}");
}

#[test]
fn an_ideal_machine_has_nothing_to_wait_for() {
    let waits = waits_and_work_us(&machine(|_| ()), AT_ONCE, &[("passes", 100), ("spin", 1)]);
    assert_eq!(waits, (0, 0));
}
