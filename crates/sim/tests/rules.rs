// SPDX-License-Identifier: GPL-2.0-or-later
//! Rules of the kernel's that no scheduler that ships relies on.

use crate::common::{Lab, check_books, ideal, object, parse, repository, shipped};
use std::collections::BTreeMap;
use tiltyard_model::machine::Noise;
use tiltyard_model::{Event, EventKind, EventSink, TaskInfo};
use tiltyard_native::Value;

const MOVER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../sim/tests/schedulers/mover.bpf.c"
);

/// What scx_bpf_dsq_move_set_vtime() says is of the next move only (`scx_dsq_move()`).
#[test]
fn a_vtime_that_is_set_for_a_move_is_for_one_move() {
    let machine = ideal("package:1 [numa] core:1 pu:1", 1000);
    let task = |name: &str| {
        format!(r#""{name}": {{ "loop": 1, "run": 10000, "tiltyard": {{ "app": "a" }} }}"#)
    };
    let tasks = ["A", "B", "C", "D"].map(task).join(", ");
    let workload = parse(&format!(
        r#"{{ "tiltyard": {{ "apps": {{ "a": {{}} }} }}, "tasks": {{ {tasks} }} }}"#
    ));
    let ran = Lab::new(&machine, object(MOVER, 2)).run(&workload);
    let ran = ran.expect("a run");
    check_books(&ran);
    let task = |name: &str| ran.summary.tasks.iter().find(|t| t.name == name);
    // A is first in the queue and the only one with a vtime above 0.
    let ends = ["B", "C", "D", "A"].map(|name| task(name).and_then(|t| t.ended_ns));
    assert!(ends.is_sorted(), "{ends:?}");
}

/// `select_fallback_rq()`: instead of a CPU that it may not use, a task gets one of the node that it comes from.
#[test]
fn a_forbidden_answer_is_replaced_within_the_node() {
    let machine = ideal("package:2 [numa] core:2 pu:1", 250);
    let fixed = repository().join("tests/conformance/schedulers/select_fixed.bpf.c");
    let workload = parse(
        r#"{ "tasks": { "X": { "loop": 1, "phases": {
            "there": { "cpus": [3], "run": 1000 },
            "free": { "cpus": [0, 2, 3], "sleep": 5000, "run": 2000 } } } } }"#,
    );
    let globals = ["answer", "insert_x"].map(|name| (name.to_owned(), Value::Int(1)));
    let mut lab = Lab::new(&machine, object(&fixed.display().to_string(), 2));
    lab.globals = &globals;
    let ran = lab.run(&workload).expect("a run");
    check_books(&ran);
    let busy_us: Vec<u64> = ran.summary.cpus.iter().map(|c| c.busy_ns / 1000).collect();
    assert_eq!(busy_us, [0, 0, 2000, 1000]);
}

/// `scx_select_cpu_dfl()`: the reader of a pipe waits for its writer's CPU, except in kernels that look for idle CPUs where
/// nobody keeps any.
#[test]
fn a_sync_wakeup_goes_to_the_waker_where_the_kernel_does_that() {
    let workload = parse(
        r#"{ "tiltyard": { "pipes": { "p": { "capacity": 4096 } } }, "tasks": {
            "reader": { "loop": 1, "phases": {
                "there": { "cpus": [0], "run": 1000 },
                "free": { "cpus": [0, 1], "run": 1000, "tiltyard": { "read": { "pipe": "p", "bytes": 1 }, "run": 3000 } } } },
            "writer": { "loop": 1, "cpus": [0], "sleep": 5000, "run": 1000,
                "tiltyard": { "write": { "pipe": "p", "bytes": 1 }, "run": 4000 } } } }"#,
    );
    let mut machine = ideal("package:1 [numa] core:2 pu:1", 250);
    for (sync_to_waker, busy_us) in [(true, [10_000, 0]), (false, [7_000, 3_000])] {
        machine.sync_to_waker = sync_to_waker;
        let ran = Lab::new(&machine, object("fifo", 2)).run(&workload);
        let ran = ran.expect("a run");
        check_books(&ran);
        let busy = ran.summary.cpus.iter().map(|c| c.busy_ns / 1000);
        assert_eq!(busy.collect::<Vec<_>>(), busy_us, "{sync_to_waker}");
    }
}

/// `check_preempt_curr_rt()`: a realtime task of the same priority does not even make the CPU look for another task.
#[test]
fn an_equal_does_not_disturb_a_realtime_task() {
    let mut machine = ideal("package:1 [numa] core:1 pu:1", 250);
    machine.costs.switch_ns = 1_000;
    let overhead_ns = |priority: u32| {
        let workload = format!(
            r#"{{ "tasks": {{
            "F": {{ "loop": 1, "policy": "SCHED_FIFO", "priority": 10, "sleep": 1000, "run": 20000 }},
            "G": {{ "loop": 1, "policy": "SCHED_FIFO", "priority": {priority}, "sleep": 5000, "run": 1000 }} }} }}"#
        );
        let ran = Lab::new(&machine, object("fifo", 2)).run(&parse(&workload));
        let ran = ran.expect("a run");
        check_books(&ran);
        ran.summary.overhead.switch_ns
    };
    assert_eq!(overhead_ns(10), overhead_ns(9));
}

/// The parent that each task has, and the leader of its process, by name.
#[derive(Default)]
struct Families {
    names: BTreeMap<u32, String>,
    probes: BTreeMap<u16, String>,
    told: BTreeMap<(String, String), String>,
}

impl EventSink for Families {
    fn task(&mut self, info: &TaskInfo) {
        self.names.insert(info.tid.0, info.name.clone());
    }

    fn probe_name(&mut self, probe: u16, name: &str, _: bool) {
        self.probes.insert(probe, name.to_owned());
    }

    fn event(&mut self, event: &Event) {
        if let EventKind::Probe { probe, key, value } = event.kind {
            let name = |tid: &u32| self.names.get(tid).cloned().unwrap_or_default();
            let (who, of) = (name(&key), name(&(value as u32)));
            self.told.insert((who, self.probes[&probe].clone()), of);
        }
    }
}

/// `copy_process()` with CLONE_THREAD: a thread is a child of its process's parent, whichever thread created it.
#[test]
fn a_thread_is_a_child_of_its_processs_parent() {
    let machine = ideal("package:1 [numa] core:1 pu:1", 250);
    let workload = parse(
        r#"{ "tiltyard": { "apps": { "a": {} } }, "tasks": {
            "main": { "loop": 1, "tiltyard": { "app": "a", "spawn": "helper", "spawn1": "other", "join": true } },
            "helper": { "instance": 0, "loop": 1, "tiltyard": { "app": "a" }, "run": 1000 },
            "other": { "instance": 0, "loop": 1, "tiltyard": { "app": "a", "process": true }, "run": 1000 } } }"#,
    );
    let parents = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../sim/tests/schedulers/parents.bpf.c"
    );
    let mut families = Families::default();
    let lab = Lab::new(&machine, object(parents, 2));
    tiltyard_sim::run(&lab.setup(&workload), &mut families, &mut |_| {}).expect("a run");
    for (who, parent, leader) in [
        ("main", "sh-a", "main"),
        ("helper-0", "sh-a", "main"),
        ("other-0", "main", "other-0"),
    ] {
        let told = |probe: &str| families.told[&(who.to_owned(), probe.to_owned())].clone();
        assert_eq!(
            (&*told("parent"), &*told("leader")),
            (parent, leader),
            "{who}"
        );
    }
}

/// A key with padding is the same key wherever it is made.
#[test]
fn padding_of_local_variables_is_zero() {
    let source = repository().join("crates/sim/tests/schedulers/padded.bpf.c");
    let machine = ideal("core:2 pu:1", 1000);
    let workload = parse(
        r#"{ "tasks": { "a": { "instance": 3, "loop": -1, "run": 2000, "sleep": 3000 } }, "global": { "duration": 1 } }"#,
    );
    let ran = Lab::new(&machine, object(source.to_str().unwrap(), 2)).run(&workload);
    let exit = ran.expect("a run").outcome.exit;
    assert_eq!(exit.message, "", "{exit:?}");
}

/// The largest machine that is shipped, for longer than the time to the first pass of a balancer that works once a second or
/// so, beside the kernel's own threads, which may not move.
#[test]
fn every_scheduler_runs_four_thousand_cpus() {
    let text = "package:16 [numa] l3:16 l2:16 core:1 pu:1";
    let mut machine = ideal(text, 250);
    machine.noise = vec![Noise::workers(8_000_000_000, 200_000)];
    let workload = parse(
        r#"{ "tasks": {
            "hog": { "instance": 40, "loop": 1, "run": 1600000 },
            "pinned": { "cpus": [7], "instance": 3, "loop": 1, "run": 60000 },
            "sleeper": { "instance": 20, "loop": 20, "run": 2000, "sleep": 8000 } } }"#,
    );
    for scheduler in shipped() {
        let ran = Lab::new(&machine, object(&scheduler, 2)).run(&workload);
        let ran = ran.unwrap_or_else(|error| panic!("{scheduler}: {error}"));
        check_books(&ran);
        assert_eq!(ran.outcome.tasks_left, 0, "{scheduler}");
    }
}
