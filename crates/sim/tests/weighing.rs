// SPDX-License-Identifier: GPL-2.0-or-later
//! What the scheduler with which machines are calibrated costs in the simulated machine: each cost is charged once for
//! each thing that it is of.

use crate::common::{Lab, check_books, ideal, object, parse};
use tiltyard_model::Machine;
use tiltyard_native::Value;

const COSTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernel/bpf/costs.bpf.c");
const WAKEUPS: &str = r#"{ "tasks": { "A": { "loop": 100, "run": 50, "sleep": 100 } } }"#;
/// Of the workload: its wakeups, and what it takes to start it.
const ENQUEUES: std::ops::RangeInclusive<u64> = 100..=105;

fn overhead_ns(machine: &Machine, tunable: &str, value: i128) -> u64 {
    let globals = [(tunable.to_owned(), Value::Int(value))];
    let mut lab = Lab::new(machine, object(COSTS, 2));
    lab.globals = &globals;
    let ran = lab.run(&parse(WAKEUPS)).expect("a run");
    check_books(&ran);
    ran.outcome.cpus[0].overhead_ns
}

fn charged(set: impl Fn(&mut Machine)) -> Machine {
    let mut machine = ideal("package:1 [numa] core:1 pu:1", 250);
    set(&mut machine);
    machine
}

/// How often 1 us is charged for each repetition in an enqueue, in all.
fn charges(set: impl Fn(&mut Machine), tunable: &str) -> u64 {
    let machine = charged(set);
    // The first repetition may need preparations.
    let [one, two, three] = [1, 2, 3].map(|value| overhead_ns(&machine, tunable, value));
    assert_eq!(three - two, two - one, "{tunable}");
    (two - one) / 1000
}

#[test]
fn each_helper_is_charged_once_a_call() {
    let once = |calls: u64| assert!(ENQUEUES.contains(&calls), "{calls}");
    once(charges(
        |m| m.costs.map_lookup_ns = Some(1000),
        "map_lookups",
    ));
    once(charges(
        |m| m.costs.storage_lookup_ns = Some(1000),
        "storage_lookups",
    ));
    once(charges(|m| m.costs.spin_lock_ns = 1000, "spin_locks"));
    once(charges(|m| m.costs.task_lookup_ns = 1000, "task_lookups"));
}

/// The tasks wake on an idle CPU, so each kick takes effect.
#[test]
fn each_kick_is_charged_once() {
    let machine = charged(|m| m.costs.kick_ns = 1000);
    let [without, with] = [0, 1].map(|value| overhead_ns(&machine, "kick", value));
    assert_eq!(without, 0);
    assert!(ENQUEUES.contains(&(with / 1000)), "{with}");
}

#[test]
fn arrays_cost_nothing_where_lookups_have_a_cost_of_their_own() {
    let with = |m: &mut Machine| (m.costs.kfunc_ns, m.costs.map_lookup_ns) = (0, Some(1000));
    assert_eq!(charges(with, "array_lookups"), 0);
}

#[test]
fn without_costs_of_their_own_lookups_are_kernel_functions_and_the_rest_is_free() {
    let kfunc = |m: &mut Machine| m.costs.kfunc_ns = 1000;
    for tunable in ["array_lookups", "map_lookups"] {
        assert!(ENQUEUES.contains(&charges(kfunc, tunable)), "{tunable}");
    }
    for tunable in ["spin_locks", "task_lookups"] {
        assert_eq!(charges(kfunc, tunable), 0, "{tunable}");
    }
}

/// The calibration divides by this number, which the source names.
#[test]
fn a_pass_has_as_many_instructions_as_its_source_says() {
    let source = std::fs::read_to_string(COSTS).expect("the source");
    let said = source
        .lines()
        .find_map(|line| line.strip_prefix("#define PASS_INSNS "));
    let said: u64 = said.expect("a number").parse().expect("a number");
    let instructions = |m: &mut Machine| m.costs.insn_ps = 1_000_000;
    let counted = charges(instructions, "passes");
    assert_eq!(counted % said, 0, "{counted}");
    assert!(ENQUEUES.contains(&(counted / said)), "{counted}");
}
