// SPDX-License-Identifier: GPL-2.0-or-later
//! What a workload's blocks do.

use crate::common::{Lab, check_books, ideal, object, parse};

/// `during` restarts each time it is reached, nests, and counts time that is slept or waited as well.
#[test]
fn during_lasts_from_its_own_beginning() {
    let machine = ideal("package:1 [numa] core:1 pu:1", 250);
    let workload = parse(
        r#"{ "tiltyard": { "apps": { "a": {} } }, "tasks": { "worker": { "loop": 1, "tiltyard": {
            "repeat": { "count": 2, "do": {
                "during": { "time": 10000, "do": { "run": 1000, "during": { "time": 1900, "do": { "run": 500 } } } },
                "sleep": 5000,
                "during1": { "time": 10000, "do": { "run": 100, "sleep": 2900 } } } },
            "during": { "time": 0, "do": { "run": 1000000 } } } } } }"#,
    );
    let ran = Lab::new(&machine, object("fifo", 2)).run(&workload);
    let ran = ran.expect("a run");
    check_books(&ran);
    let worker = ran.summary.tasks.iter().find(|t| t.name == "worker");
    let worker = worker.expect("worker");
    // Four passes of 1 ms and 4 x 0.5 ms; four of 0.1 ms.
    assert_eq!(worker.runtime_ns, 2 * (4 * 3_000_000 + 4 * 100_000));
    assert_eq!(worker.sleep_ns, 2 * (5_000_000 + 4 * 2_900_000));
}

/// A period that a task overruns moves all later ones of a relative timer, and none of an absolute one.
#[test]
fn a_missed_timer_starts_again_now_or_keeps_its_grid() {
    let machine = ideal("package:1 [numa] core:1 pu:1", 250);
    let ends_ms = |mode: &str| {
        let timer = format!(r#""timer": {{ "ref": "t", "period": 10000, "mode": "{mode}" }}"#);
        let workload = parse(&format!(
            r#"{{ "tasks": {{ "worker": {{ "loop": 1, "phases": {{
                "before": {{ "loop": 2, "run": 3000, {timer} }},
                "long": {{ "run": 25000, {timer} }},
                "after": {{ "loop": 3, "run": 3000, {timer} }} }} }} }} }}"#
        ));
        let ran = Lab::new(&machine, object("fifo", 2)).run(&workload);
        let summary = ran.expect("a run").summary;
        let worker = summary.tasks.iter().find(|t| t.name == "worker");
        worker.expect("worker").lifetime_ns / 1_000_000
    };
    // 10, 20, missed at 45; then 55, 65, 75.
    assert_eq!(ends_ms("relative"), 75);
    // 10, 20, missed at 45, at 48 and at 51; then 60.
    assert_eq!(ends_ms("absolute"), 60);
}

/// A task that yields to another is not preempted.
#[test]
fn a_yield_is_the_cause_of_its_switch() {
    let machine = ideal("package:1 [numa] core:1 pu:1", 250);
    let workload =
        parse(r#"{ "tasks": { "A": { "instance": 2, "loop": 50, "run": 100, "yield": "" } } }"#);
    let ran = Lab::new(&machine, object("fifo", 2)).run(&workload);
    let switches = ran.expect("a run").summary.switches;
    assert!(switches.r#yield >= 50, "{switches:?}");
    assert_eq!(switches.preempt, 0, "{switches:?}");
}

/// Whoever takes a mutex that is free does not know of those who wait for it, and its unlock wakes nobody: C is woken by
/// B, which has waited, and runs at once. If each unlock woke a waiter, C would wait while B runs.
#[test]
fn an_unlock_wakes_only_for_whoever_has_waited() {
    let machine = ideal("package:1 [numa] core:1 pu:1", 250);
    let workload = parse(
        r#"{ "tasks": {
            "A": { "loop": 1, "tiltyard": { "lock": "m", "sleep": 5000, "run": 1000, "unlock": "m",
                                            "lock1": "m", "run1": 1000, "unlock1": "m" } },
            "B": { "loop": 1, "delay": 1000, "tiltyard": { "lock": "m", "run": 10000, "unlock": "m" } },
            "C": { "loop": 1, "delay": 2000, "tiltyard": { "lock": "m", "run": 10000, "unlock": "m" } } } }"#,
    );
    let ran = Lab::new(&machine, object("fifo", 2)).run(&workload);
    let ran = ran.expect("a run");
    check_books(&ran);
    let task = |name: &str| ran.summary.tasks.iter().find(|t| t.name == name);
    let (b, c) = (task("B").expect("B"), task("C").expect("C"));
    // B was woken by the first unlock, and waits while A has the mutex again.
    assert_eq!((b.wakeups, b.wakeup.max_ns / 1000), (1, 1000));
    assert_eq!((c.wakeups, c.wakeup.max_ns / 1000), (1, 0));
}

/// As in the kernel's trace: a new task that begins on another CPU than its parent's comes from nowhere.
#[test]
fn a_new_task_has_not_migrated() {
    let machine = ideal("package:1 [numa] core:2 pu:1", 250);
    let workload = parse(
        r#"{ "tasks": {
            "make": { "loop": 20, "run": 1000, "tiltyard": { "spawn": "cc", "run1": 3000, "join": true } },
            "cc": { "instance": 0, "loop": 1, "run": 2000 } } }"#,
    );
    let ran = Lab::new(&machine, object("fifo", 2)).run(&workload);
    let ran = ran.expect("a run");
    check_books(&ran);
    let busy = ran
        .summary
        .cpus
        .iter()
        .filter(|cpu| cpu.busy_ns > 10_000_000);
    assert_eq!(busy.count(), 2, "children run beside their parent");
    assert_eq!(ran.summary.migrations, 0);
}

/// A has stopped spinning and sleeps when B opens the first barrier: at the second it waits like anybody else.
#[test]
fn who_no_longer_spins_at_a_barrier_is_woken_and_no_more() {
    let machine = ideal("package:1 [numa] core:2 pu:1", 250);
    let workload = parse(
        r#"{ "tiltyard": { "barriers": { "first": { "parties": 2, "spin": 1000 }, "second": { "parties": 2 } } },
             "tasks": {
            "A": { "loop": 1, "cpus": [0], "barrier": "first", "barrier1": "second", "run": 1000 },
            "B": { "loop": 1, "cpus": [1], "run": 5000, "barrier": "first", "run1": 3000, "barrier1": "second" } } }"#,
    );
    let ran = Lab::new(&machine, object("fifo", 2)).run(&workload);
    let ran = ran.expect("a run");
    check_books(&ran);
    let a = ran.summary.tasks.iter().find(|t| t.name == "A").expect("A");
    // Spins for 1 ms, sleeps from 1 to 5 and from 5 to 8, and computes.
    assert_eq!((a.runtime_ns, a.sleep_ns), (2_000_000, 7_000_000));
}

/// A resume lets go whoever is suspended at its place, and nobody who comes later.
#[test]
fn a_resume_is_for_all_who_are_there() {
    let machine = ideal("package:1 [numa] core:4 pu:1", 250);
    let workload = parse(
        r#"{ "tasks": {
            "X": { "instance": 2, "loop": 1, "suspend": "p", "run": 1000 },
            "late": { "loop": 1, "run": 6000, "suspend": "p", "run1": 1000 },
            "R": { "loop": 1, "run": 5000, "resume": "p", "run1": 4000, "resume1": "p" } } }"#,
    );
    let ran = Lab::new(&machine, object("fifo", 2)).run(&workload);
    let ran = ran.expect("a run");
    check_books(&ran);
    let ended_us = |name: &str| {
        let task = ran.summary.tasks.iter().find(|t| t.name == name);
        task.and_then(|t| t.ended_ns).expect(name) / 1000
    };
    assert_eq!(["X-0", "X-1", "late"].map(ended_us), [6_000, 6_000, 10_000]);
}

#[test]
fn a_machine_without_mutex_waits_has_free_mutexes() {
    let mut machine = ideal("package:1 [numa] core:3 pu:1", 250);
    let workload = parse(
        r#"{ "tasks": {
            "a": { "cpus": [0], "loop": 10, "lock": "m", "run": 1000, "unlock": "m" },
            "b": { "cpus": [1], "loop": 10, "lock": "m", "run": 1000, "unlock": "m" },
            "c": { "cpus": [2], "loop": 1, "lock": "n", "wait": { "ref": "ready", "mutex": "n" }, "unlock": "n" },
            "d": { "cpus": [2], "loop": 1, "sleep": 5000, "lock": "n", "signal": "ready", "unlock": "n" } } }"#,
    );
    let mut took_ms = |waits| {
        machine.mutex_waits = waits;
        let ran = Lab::new(&machine, object("fifo", 2)).run(&workload);
        let ran = ran.expect("a run");
        check_books(&ran);
        (ran.outcome.end_ns - ran.outcome.origin_ns) / 1_000_000
    };
    assert_eq!([took_ms(true), took_ms(false)], [20, 10]);
}
