// SPDX-License-Identifier: GPL-2.0-or-later
//! The check for data races on scheduler code: what it finds, what it leaves alone, and that it changes nothing.

use crate::common::races::races as races_of;
use crate::common::{Lab, costed, object, parse, presets, repository, shipped, source, telling};
use crate::sample::drawn;
use std::sync::LazyLock;
use tiltyard_measure::TraceHash;
use tiltyard_native::{Object, Value};
use tiltyard_sim::{Checked, Race, Setup, run_and_check};
use tiltyard_workload::Workload;

/// As in racer.bpf.c.
#[derive(Clone, Copy)]
enum Scenario {
    Plain,
    Once,
    HalfOnce,
    OneLock,
    TwoLocks,
    Atomic,
    AtomicRead,
    Release,
    PublishRelaxed,
    FullOrder,
    UnusedResult,
    PerCpu,
    OthersCpu,
    Timer,
    TimerUnarmed,
    HandOver,
    BookLate,
    Bytes,
    Freed,
    Updated,
    Meant,
}

fn racer() -> String {
    let path = repository().join("crates/sim/tests/schedulers/racer.bpf.c");
    path.display().to_string()
}

/// A task on each CPU that never sleeps: the CPUs tick side by side, and nothing else orders them.
fn hogs() -> Workload {
    parse(
        r#"{ "tasks": {
            "left": { "loop": -1, "run": 1000000, "cpus": [0] },
            "right": { "loop": -1, "run": 1000000, "cpus": [1] } },
        "global": { "duration": 1 } }"#,
    )
}

/// Tasks that move between the CPUs.
fn crowd() -> Workload {
    parse(
        r#"{ "tasks": { "t": { "instance": 5, "loop": -1, "tiltyard": { "run": { "exp": 700 }, "sleep": 900 } } },
        "global": { "duration": 1 } }"#,
    )
}

fn check(object: &Object, workload: &Workload, globals: &[(String, Value)]) -> (Checked, String) {
    let machine = costed("core:2 pu:1", 1000);
    let setup = Setup {
        machine: &machine,
        workload,
        object,
        globals,
        environment: &tiltyard_environment::EMPTY,
        seed: 1,
        duration_ns: None,
        watchdog: false,
        probes: true,
    };
    let mut hash = TraceHash::new();
    let (outcome, checked) = run_and_check(&setup, &mut hash, &mut |_| {}).unwrap();
    assert!(!outcome.exit.kind.is_error(), "{:?}", outcome.exit);
    (checked, hash.finish())
}

fn races(scenario: Scenario) -> Vec<Race> {
    static RACER: LazyLock<Object> = LazyLock::new(|| telling(&source(&racer())));
    let globals = [("scenario".to_owned(), Value::Int(scenario as i128))];
    let workload = match scenario {
        Scenario::HandOver | Scenario::BookLate => crowd(),
        _ => hogs(),
    };
    let (checked, _) = check(&RACER, &workload, &globals);
    assert!(!checked.is_partial);
    checked.races
}

/// The source at the place of an access.
fn code(place: &str) -> String {
    let line: usize = place.rsplit_once(':').unwrap().1.parse().unwrap();
    let text = std::fs::read_to_string(racer()).unwrap();
    text.lines().nth(line - 1).unwrap().trim().to_owned()
}

/// What each pair does, its code, and what is accessed.
fn words(races: &[Race]) -> Vec<String> {
    let side = |race: &Race, at: usize| {
        let side = &race.sides[at];
        let marked = if side.plain { "" } else { " marked" };
        format!("{}{marked} `{}`", side.action, code(&side.place))
    };
    let both = |race: &Race| {
        let mut sides = [side(race, 0), side(race, 1)];
        sides.sort();
        format!("{} / {} of {}", sides[0], sides[1], race.what)
    };
    races.iter().map(both).collect()
}

#[test]
fn plain_accesses_race_and_marked_ones_do_not() {
    let found = words(&races(Scenario::Plain));
    let increment = [
        "reads `shared++;` / writes `shared++;` of shared",
        "writes `shared++;` / writes `shared++;` of shared",
    ];
    assert_eq!(found, increment);
    assert_eq!(races(Scenario::Once), []);
    let found = words(&races(Scenario::HalfOnce));
    let half = "reads `else if (shared > 1)` / writes marked `WRITE_ONCE(shared, 1);` of shared";
    assert_eq!(found, [half]);
}

#[test]
fn a_read_that_is_meant_to_race_is_left_alone() {
    assert_eq!(races(Scenario::Meant), []);
}

#[test]
fn a_race_names_both_cpus_callbacks_and_tasks() {
    let races = races(Scenario::HalfOnce);
    let [race] = races.as_slice() else {
        panic!("{races:?}")
    };
    let [first, second] = &race.sides;
    assert_eq!((first.cpu, second.cpu), (0, 1));
    assert_eq!((&*first.callback, &*second.callback), ("tick", "tick"));
    let tasks = [first, second].map(|side| side.task.as_deref().unwrap_or(""));
    assert!(
        tasks[0].starts_with("left[") && tasks[1].starts_with("right["),
        "{tasks:?}"
    );
    assert!(race.times > 100 && race.time_ns > 0, "{race:?}");
}

#[test]
fn a_lock_orders_its_holders_and_two_locks_nobody() {
    assert_eq!(races(Scenario::OneLock), []);
    let found = words(&races(Scenario::TwoLocks));
    let value = "`first->value++;`";
    let expected = [
        format!("reads {value} / writes {value} of locks[0], byte 8"),
        format!("writes {value} / writes {value} of locks[0], byte 8"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn atomic_operations_race_with_plain_reads_only() {
    assert_eq!(races(Scenario::Atomic), []);
    let found = words(&races(Scenario::AtomicRead));
    let [pair] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert!(
        pair.starts_with("reads `else if (shared == ~0ULL)` / updates marked"),
        "{pair}"
    );
}

#[test]
fn a_message_needs_a_barrier_on_both_sides() {
    assert_eq!(races(Scenario::Release), []);
    assert_eq!(races(Scenario::FullOrder), []);
    // A volatile store and an addition whose result nobody uses order nothing.
    for relaxed in [Scenario::PublishRelaxed, Scenario::UnusedResult] {
        let found = words(&races(relaxed));
        let [pair] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert!(pair.contains("writes `payload = 1;` of payload"), "{pair}");
    }
}

#[test]
fn a_per_cpu_value_is_its_cpus_own() {
    assert_eq!(races(Scenario::PerCpu), []);
    let found = words(&races(Scenario::OthersCpu));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("per_cpu[0] of CPU 0"), "{found:?}");
}

#[test]
fn a_timer_is_ordered_after_its_start() {
    assert_eq!(races(Scenario::Timer), []);
    let found = words(&races(Scenario::TimerUnarmed));
    assert!(
        found.iter().any(|pair| pair.contains("of payload")),
        "{found:?}"
    );
}

#[test]
fn a_queue_hands_over_what_was_written_before_and_not_afterwards() {
    assert_eq!(races(Scenario::HandOver), []);
    let races = races(Scenario::BookLate);
    assert!(!races.is_empty());
    for race in &races {
        let callbacks = race.sides.each_ref().map(|side| side.callback.as_str());
        assert_eq!(callbacks, ["dispatch", "running"], "{race:?}");
        assert!(race.what.starts_with("bookings of t-"), "{race:?}");
    }
}

/// `try_to_wake_up()` waits for the CPU that the task has left.
#[test]
fn a_wakeup_comes_after_the_turn_before_it() {
    let path = repository().join("crates/sim/tests/schedulers/sleeper.bpf.c");
    let object = telling(&source(&path.display().to_string()));
    let workload = parse(
        r#"{ "tasks": {
            "A": { "loop": 20, "run": 100, "sem_post": "b", "sem_wait": "a" },
            "B": { "loop": 20, "sem_wait": "b", "run": 100, "sem_post": "a" } } }"#,
    );
    let (checked, _) = check(&object, &workload, &[]);
    assert_eq!(checked.races, []);
}

#[test]
fn neighbouring_bytes_and_reused_memory_are_not_shared() {
    assert_eq!(races(Scenario::Bytes), []);
    assert_eq!(races(Scenario::Freed), []);
}

#[test]
fn a_helper_that_overwrites_a_value_writes_it() {
    let found = words(&races(Scenario::Updated));
    let [pair] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert!(
        pair.contains("writes `bpf_map_update_elem(&updated"),
        "{pair}"
    );
}

/// A sample of them, and of their presets.
#[test]
fn the_shipped_schedulers_are_clean() {
    for scheduler in drawn("clean", shipped(), 3) {
        let object = telling(&source(&scheduler));
        assert_eq!(races_of(&object, &[]), [], "{scheduler}");
        let presets = presets(&scheduler);
        for preset in drawn("clean presets", presets.keys().cloned().collect(), 3) {
            let races = races_of(&object, &presets[&preset]);
            assert_eq!(races, [], "{preset} of {scheduler}");
        }
    }
}

#[test]
fn the_check_changes_no_event() {
    let machine = costed("core:2 pu:1", 1000);
    for scheduler in drawn("checked", shipped(), 3) {
        let plain = Lab::new(&machine, object(&scheduler, 2)).run(&crowd());
        let (_, hash) = check(&telling(&source(&scheduler)), &crowd(), &[]);
        assert_eq!(plain.unwrap().trace_hash, hash, "{scheduler}");
    }
}
