// SPDX-License-Identifier: GPL-2.0-or-later
//! Idle CPUs beside waiting tasks: under a scheduler that keeps CPUs busy, under one that does not, and which
//! affinities the sink receives.

#![allow(
    clippy::single_range_in_vec_init,
    reason = "a set of CPUs is a list of ranges, often of one"
)]

use std::collections::BTreeMap;
use std::ops::Range;

use crate::common::{Lab, Ran, check_books, costed, object, parse};
use tiltyard_model::machine::{Noise, Per};
use tiltyard_model::{Event, EventKind, EventSink, Machine, TaskInfo};
use tiltyard_native::Object;

const NR_CPUS: u64 = 4;

fn machine() -> Machine {
    costed("package:1 core:4 pu:1", 250)
}

fn hoarder() -> &'static Object {
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../sim/tests/schedulers/hoarder.bpf.c"
    );
    object(source, 2)
}

fn run(object: &Object, workload: &str) -> Ran {
    let machine = machine();
    let mut lab = Lab::new(&machine, object);
    lab.duration_ns = Some(1_000_000_000);
    let ran = lab.run(&parse(workload)).expect("a run");
    check_books(&ran);
    ran
}

/// Wasted CPUs, on average over the run, in thousandths.
fn wasted_milli(ran: &Ran) -> u64 {
    let wasted_ns = ran.summary.wasted_ns().expect("affinities are known");
    wasted_ns * 1000 / ran.summary.duration_ns
}

/// More tasks than CPUs, some of which sleep.
const HOGS: &str = r#"{ "tasks": {
    "hog": { "instance": 6, "loop": -1, "run": 1000000 },
    "sleeper": { "instance": 6, "loop": -1, "run": 700, "sleep": 3000 } } }"#;

/// Bound to CPU 0 from birth, as their parent is.
const BOUND: &str = r#"{ "tasks": {
    "main": { "loop": 1, "cpus": [0], "tiltyard": { "spawn": { "task": "hog", "count": 6 }, "join": true } },
    "hog": { "instance": 0, "loop": -1, "run": 1000000 } } }"#;

#[test]
fn one_queue_for_all_cpus_wastes_next_to_nothing() {
    let wasted = wasted_milli(&run(object("fifo", 2), HOGS));
    assert!(wasted <= 1, "{wasted} thousandths of a CPU");
}

#[test]
fn all_tasks_on_one_cpu_waste_the_others() {
    let wasted = wasted_milli(&run(hoarder(), HOGS));
    let all = (NR_CPUS - 1) * 1000;
    assert!((all - 20..=all).contains(&wasted), "{wasted} of {all}");
}

#[test]
fn tasks_that_may_run_nowhere_else_waste_nothing() {
    let bound = run(hoarder(), BOUND);
    let wait_ns: u64 = bound.summary.tasks.iter().map(|t| t.wait_ns).sum();
    assert!(wait_ns > 4 * bound.summary.duration_ns, "five wait");
    let wasted = wasted_milli(&bound);
    assert!(wasted <= 1, "{wasted} thousandths of a CPU");
}

/// The CPUs of each task, by name, in the order of the events.
#[derive(Default)]
struct Told {
    names: BTreeMap<u32, String>,
    sets: Vec<Vec<Range<u32>>>,
    cpus: Vec<(String, Vec<Range<u32>>)>,
}

impl EventSink for Told {
    fn task(&mut self, info: &TaskInfo) {
        assert!(!self.sets.is_empty(), "set 0 comes before the first task");
        self.names.insert(info.tid.0, info.name.clone());
    }
    fn cpu_set(&mut self, set: u32, cpus: &[Range<u32>]) {
        assert_eq!(set as usize, self.sets.len());
        self.sets.push(cpus.to_vec());
    }
    fn event(&mut self, event: &Event) {
        if let EventKind::Affinity { task, set } = event.kind {
            let (name, cpus) = (&self.names[&task.0], &self.sets[set as usize]);
            self.cpus.push((name.clone(), cpus.clone()));
        }
    }
}

#[test]
fn the_sink_receives_each_affinity() {
    let mut machine = machine();
    machine.noise = vec![Noise {
        name: "kworker".to_owned(),
        per: Per::Cpu,
        sleep_mean_ns: 10_000_000,
        run_mean_ns: 100_000,
        per_exit_permille: None,
        nice: 0,
    }];
    let workload = parse(
        r#"{ "tasks": {
            "main": { "loop": 1, "cpus": [0, 1, 3], "run": 10, "tiltyard": { "spawn": "child", "join": true },
                      "tiltyard1": { "set": { "cpus": "all" } }, "run1": 10 },
            "child": { "instance": 0, "loop": 1, "run": 10 } } }"#,
    );
    let mut told = Told::default();
    let lab = Lab::new(&machine, object("fifo", 2));
    tiltyard_sim::run(&lab.setup(&workload), &mut told, &mut |_| {}).expect("a run");
    assert_eq!(told.sets[0], [0..4]);
    let kworker = |cpu: u32| (format!("kworker/{cpu}:0"), vec![cpu..cpu + 1]);
    let mut expected: Vec<_> = (0..4).map(kworker).collect();
    for (name, cpus) in [
        ("main", vec![0..2, 3..4]),
        ("child-0", vec![0..2, 3..4]),
        ("main", vec![0..4]),
    ] {
        expected.push((name.to_owned(), cpus));
    }
    assert_eq!(told.cpus, expected);
}
