// SPDX-License-Identifier: GPL-2.0-or-later
//! What schedulers tell of their own code when they are built to, and which runqueues are locked meanwhile.

use crate::common::{Lab, costed, object, parse, shipped, source, telling};
use crate::sample::drawn;
use std::collections::{BTreeMap, BTreeSet};
use tiltyard_build::{Builder, BuilderOptions};
use tiltyard_model::{Cpu, Event, EventKind, EventSink, TaskInfo};
use tiltyard_native::Object;
use tiltyard_sim::{Setup, run};
use tiltyard_workload::Workload;

/// Callback, place, index, `w` or `r`.
type Access = (String, String, u64, char);

#[derive(Default)]
struct Recorded {
    callbacks: BTreeMap<u16, String>,
    places: BTreeMap<u16, String>,
    /// By the CPU that ran the code.
    accesses: BTreeMap<u32, BTreeSet<Access>>,
    /// The CPU of each call, and the elements of the array `cpus` that it read, in order.
    cpus_read: BTreeMap<u64, (u32, Vec<u64>)>,
    told: usize,
    /// The runqueues that each CPU holds, and the most that one held at once.
    locked: BTreeMap<Cpu, Vec<Cpu>>,
    most_locked: usize,
    /// Moves of tasks with the runqueues that the moving CPU held just then.
    moves: Vec<(Cpu, Cpu, Vec<Cpu>)>,
}

impl EventSink for Recorded {
    fn task(&mut self, _: &TaskInfo) {}

    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Access {
                call,
                callback,
                place,
                index,
                write,
            } => {
                if self.places[&place] == "cpus" && !write {
                    let read = self.cpus_read.entry(call).or_default();
                    read.0 = event.cpu.0;
                    read.1.push(index);
                }
                let names = (
                    self.callbacks[&callback].clone(),
                    self.places[&place].clone(),
                );
                let access = (names.0, names.1, index, if write { 'w' } else { 'r' });
                self.accesses.entry(event.cpu.0).or_default().insert(access);
                self.told += 1;
            }
            EventKind::RunqueueLock { of, taken } => {
                let locked = self.locked.entry(event.cpu).or_default();
                if taken {
                    locked.push(of);
                } else {
                    locked.retain(|held| *held != of);
                }
                self.most_locked = self.most_locked.max(locked.len());
            }
            EventKind::Migrate { from, to, .. } => {
                let locked = self.locked.get(&event.cpu).cloned().unwrap_or_default();
                self.moves.push((from, to, locked));
            }
            _ => {}
        }
    }

    fn callback_name(&mut self, callback: u16, name: &str) {
        self.callbacks.insert(callback, name.to_owned());
    }

    fn place_name(&mut self, place: u16, name: &str) {
        self.places.insert(place, name.to_owned());
    }
}

fn recorded(object: &Object, workload: &Workload) -> Recorded {
    let mut record = Recorded::default();
    run_into(object, workload, &mut record);
    record
}

fn run_into(object: &Object, workload: &Workload, sink: &mut dyn EventSink) {
    let machine = costed("core:2 pu:1", 1000);
    let setup = Setup {
        machine: &machine,
        workload,
        object,
        globals: &[],
        environment: &tiltyard_environment::EMPTY,
        seed: 1,
        duration_ns: None,
        watchdog: false,
        probes: false,
    };
    run(&setup, sink, &mut |_| {}).unwrap();
}

/// Receives all accesses, and says that it uses only those of one callback to one place.
#[derive(Default)]
struct OnlyUsed(Recorded);

impl EventSink for OnlyUsed {
    fn task(&mut self, _: &TaskInfo) {}

    fn event(&mut self, event: &Event) {
        self.0.event(event);
    }

    fn callback_name(&mut self, callback: u16, name: &str) {
        self.0.callback_name(callback, name);
    }

    fn place_name(&mut self, place: u16, name: &str) {
        self.0.place_name(place, name);
    }

    fn uses_access(&self, callback: &str, place: &str) -> bool {
        callback == "dispatch" && place == "dsq"
    }
}

fn hogs_and_sleepers() -> Workload {
    parse(
        r#"{ "tasks": {
            "hog": { "instance": 3, "loop": -1, "run": 100000 },
            "sleeper": { "instance": 3, "loop": -1, "run": 700, "sleep": 900 } },
        "global": { "duration": 1 } }"#,
    )
}

/// Other tests compile without optimisation, users with it.
#[test]
fn accesses_are_the_same_at_every_level() {
    let source = source("crates/sim/tests/schedulers/toucher.bpf.c");
    let recorded_at = |level| {
        let options = BuilderOptions {
            accesses: true,
            level,
            ..BuilderOptions::default()
        };
        let object = Builder::new(options).native(&source).unwrap();
        let record = recorded(&object, &hogs_and_sleepers());
        (record.accesses, record.cpus_read, record.told)
    };
    let plain = recorded_at(0);
    assert!(plain.2 > 0);
    assert_eq!(plain, recorded_at(2));
}

#[test]
fn only_accesses_that_are_used_are_told() {
    let toucher = telling(&source("crates/sim/tests/schedulers/toucher.bpf.c"));
    let workload = hogs_and_sleepers();
    let all = recorded(&toucher, &workload);
    let mut some = OnlyUsed::default();
    run_into(&toucher, &workload, &mut some);
    let used = |(callback, place, ..): &Access| callback == "dispatch" && place == "dsq";
    for (cpu, accesses) in &all.accesses {
        let used: BTreeSet<Access> = accesses.iter().filter(|a| used(a)).cloned().collect();
        assert!(!used.is_empty() && used.len() < accesses.len());
        assert_eq!(some.0.accesses[cpu], used, "CPU {cpu}");
    }
    assert_eq!(some.0.moves, all.moves);
}

#[test]
fn every_kind_of_access_is_told_with_its_place() {
    let toucher = source("crates/sim/tests/schedulers/toucher.bpf.c");
    let record = recorded(&telling(&toucher), &hogs_and_sleepers());
    for cpu in [0, 1] {
        let told: BTreeSet<(&str, u64, char)> = record.accesses[&cpu]
            .iter()
            .filter(|(callback, ..)| callback == "dispatch")
            .map(|(_, place, index, write)| (place.as_str(), *index, *write))
            .collect();
        let expected = BTreeSet::from([
            ("cpus", u64::from(cpu), 'w'),
            ("cpus", u64::from(cpu) + 1, 'r'),
            ("cpus", u64::from(cpu) + 2, 'r'),
            ("total", 0, 'w'),
            ("scratch", 0, 'w'),
            ("scratch", 1, 'w'),
            ("scratch", 2, 'w'),
            ("scratch", 3, 'w'),
            ("table", 2, 'w'),
            ("dsq", 7, 'r'),
            ("dsq", 7, 'w'),
            ("local_dsq", 1, 'r'),
            ("rq", 1, 'r'),
        ]);
        assert_eq!(told, expected, "CPU {cpu}");
    }
    let inserts = |(callback, place, index, write): &Access| {
        (callback.as_str(), place.as_str(), *index, *write) == ("enqueue", "dsq", 7, 'w')
    };
    assert!(record.accesses[&0].iter().any(inserts));
}

#[test]
fn an_element_is_told_once_for_each_visit() {
    let toucher = source("crates/sim/tests/schedulers/toucher.bpf.c");
    let record = recorded(&telling(&toucher), &hogs_and_sleepers());
    assert!(record.cpus_read.len() > 100);
    for (call, (cpu, read)) in &record.cpus_read {
        let cpu = u64::from(*cpu);
        assert_eq!(read, &[cpu + 1, cpu + 2, cpu + 1], "call {call}");
    }
}

#[test]
fn to_tell_changes_nothing_else() {
    let machine = costed("core:2 pu:1", 1000);
    let workload = hogs_and_sleepers();
    for scheduler in drawn("reporting", shipped(), 3) {
        let telling = telling(&source(&scheduler));
        let plain = Lab::new(&machine, object(&scheduler, 2)).run(&workload);
        let told = Lab::new(&machine, &telling).run(&workload);
        let (plain, told) = (plain.unwrap(), told.unwrap());
        assert_eq!(plain.trace_hash, told.trace_hash, "{scheduler}");
        assert_eq!(plain.outcome, told.outcome, "{scheduler}");
        assert!(recorded(&telling, &workload).told > 100, "{scheduler}");
        assert_eq!(
            recorded(object(&scheduler, 2), &workload).told,
            0,
            "{scheduler}"
        );
    }
}

/// As in the kernel: a task leaves under the lock of its runqueue, which is then given back for the other one.
#[test]
fn tasks_move_under_one_lock_at_a_time() {
    // Queues that are empty now and then, and for long enough to be worth a search, while others are not: CPUs steal.
    let crowd = parse(
        r#"{ "tasks": { "t": { "instance": 5, "loop": -1, "tiltyard": { "run": { "exp": 7000 }, "sleep": 9000 } } },
        "global": { "duration": 5 } }"#,
    );
    for scheduler in drawn("locks", shipped(), 3) {
        let record = recorded(&telling(&source(&scheduler)), &crowd);
        assert_eq!(record.most_locked, 1, "{scheduler}");
        // Without a lock: a woken task, which is on no runqueue.
        let detached = record.moves.iter().filter(|(_, _, held)| !held.is_empty());
        let (mut count, mut by_another) = (0, 0);
        for (from, to, held) in detached {
            assert_eq!(held, &[*from], "{scheduler}: to {to:?}");
            count += 1;
            by_another += usize::from(from != to);
        }
        assert!(count > 20 && by_another == count, "{scheduler}: {count}");
        let left: usize = record.locked.values().map(Vec::len).sum();
        assert_eq!(left, 0, "{scheduler}: locks left behind");
    }
}

#[test]
fn a_run_that_draws_nothing_is_left_to_no_chance() {
    let machine = costed("core:2 pu:1", 1000);
    let with = |run: &str| {
        let workload = parse(&format!(
            r#"{{ "tasks": {{ "t": {{ "instance": 3, "loop": 40, "tiltyard": {{ {run}, "sleep": 900 }} }} }} }}"#
        ));
        [1, 2].map(|seed| {
            let mut lab = Lab::new(&machine, object("rr", 2));
            lab.seed = seed;
            let ran = lab.run(&workload).unwrap();
            (ran.outcome.left_to_chance, ran.trace_hash)
        })
    };
    let [one, other] = with(r#""run": 700"#);
    assert_eq!(one, other);
    assert!(!one.0);
    let [one, other] = with(r#""run": { "exp": 700 }"#);
    assert!(one.0 && other.0);
    assert_ne!(one.1, other.1);
}
