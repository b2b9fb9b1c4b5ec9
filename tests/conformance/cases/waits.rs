// SPDX-License-Identifier: GPL-2.0-or-later
//! Kicks that wait. In the reference kernel a wait ends when its target goes from an ext task to another class or to
//! idle, and only then. CPU 0, on which A runs, kicks CPU 1 at 6 ms.

use crate::arm::{Arm, Case, EndKind, MS};

const KICK_AT_NS: u64 = 6 * MS;
const PREEMPT: i128 = 2;
const WAIT: i128 = 4;

fn kick_once(others: &str) -> Case {
    let tasks = format!(r#"{others} "A": {{ "loop": 1, "cpus": [0], "run": 20000 }}"#);
    Case::new("timer_kick", tasks)
        .on("core:2 pu:1")
        .tunable("period_ns", i128::from(KICK_AT_NS))
        .tunable("kick_flags", WAIT)
        .tunable("kick_cpu", 1)
        .tunable("fires", 1)
}

/// Y has CPU 1 until 11 ms: until then A stands still, hears no tick, and is that much later done.
pub fn kicking_cpu_stands_still(arm: &impl Arm) {
    let case = kick_once(r#""Y": { "loop": 1, "cpus": [1], "run": 11000 },"#);
    let flags = [WAIT, WAIT | PREEMPT];
    let cases = flags.map(|flags| case.clone().tunable("kick_flags", flags));
    for log in arm.run_all(&cases) {
        assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
        assert_eq!(log.turns(0), "A 0-25");
        assert_eq!(log.turns(1), "Y 0-11");
        // The second came late.
        let ticks = log.times_of("tick A");
        assert_eq!(ticks[..4], [4 * MS, 11 * MS, 12 * MS, 16 * MS]);
    }
}

/// From one ext task to the next is no end; the realtime class is.
pub fn only_another_class_ends_a_wait(arm: &impl Arm) {
    let two = r#"
        "Y": { "loop": 1, "cpus": [1], "run": 7000 },
        "Z": { "loop": 1, "cpus": [1], "run": 5000 },
    "#;
    let log = arm.run(&kick_once(two));
    assert_eq!(log.turns(1), "Y 0-7, Z 7-12");
    assert_eq!(log.turns(0), "A 0-26", "waited for both");

    let realtime = r#"
        "Y": { "loop": 1, "cpus": [1], "run": 10000 },
        "R": { "loop": 1, "cpus": [1], "policy": "SCHED_FIFO", "priority": 5, "sleep": 9000, "run": 1000 },
    "#;
    let log = arm.run(&kick_once(realtime));
    assert_eq!(log.turns(1), "Y 0-9, R 9-10, Y 10-11");
    assert_eq!(log.turns(0), "A 0-23", "waited for R to come");
}

/// An idle CPU is waited for as well: until it has had an ext task and is done with it.
pub fn idle_target_is_waited_for(arm: &impl Arm) {
    let log = arm.run(&kick_once(
        r#""Y": { "loop": 1, "cpus": [1], "sleep": 9000, "run": 2000 },"#,
    ));
    assert_eq!(log.calls_at(KICK_AT_NS), ["timer 1 1", "dispatch 1 -"]);
    assert_eq!(log.turns(1), "Y 9-11");
    assert_eq!(log.turns(0), "A 0-25");
}

/// A CPU that kicks itself has nobody to wait for.
pub fn no_wait_for_oneself(arm: &impl Arm) {
    let log = arm.run(&kick_once("").tunable("kick_cpu", 0));
    assert_eq!(log.turns(0), "A 0-20");
}

/// Interrupts that come meanwhile come in at its end: X sleeps on CPU 0, for 6.5 ms from 0 or from the first tick.
pub fn interrupts_wait_as_well(arm: &impl Arm) {
    let case = kick_once(
        r#"
        "X": { "loop": 1, "cpus": [0], "sleep": 6500, "run": 1000 },
        "Y": { "loop": 1, "cpus": [1], "run": 11000 },
    "#,
    );
    let log = arm.run(&case.tunable("slice_ns", i128::from(MS)));
    assert_eq!(log.times_of("runnable X 0x9"), [11 * MS]);
}

/// So does what others send to the CPU: X, a realtime task, is woken from CPU 2 at 7 ms.
pub fn preemption_waits_as_well(arm: &impl Arm) {
    let case = kick_once(
        r#"
        "X": { "loop": 1, "cpus": [0], "policy": "SCHED_FIFO", "priority": 5, "sem_wait": "s", "run": 1000 },
        "Y": { "loop": 1, "cpus": [1], "run": 11000 },
        "M": { "loop": 1, "cpus": [2], "run": 7000, "sem_post": "s" },
    "#,
    );
    let log = arm.run(&case.on("core:3 pu:1"));
    assert_eq!(log.turns(2), "M 0-7");
    assert_eq!(log.turns(0), "A 0-11, X 11-12, A 12-26");
}

/// CPUs that wait for each other: in the reference kernel they never go on.
pub fn ring_of_waits_is_an_error(arm: &impl Arm) {
    let tasks = r#"
        "A": { "loop": 1, "cpus": [0], "run": 20000 },
        "B": { "loop": 1, "cpus": [1], "run": 20000 },
        "C": { "loop": 1, "cpus": [2], "run": 20000 }
    "#;
    let log = arm.run(&Case::new("ring_kick", tasks).on("core:3 pu:1"));
    assert_eq!(log.end.kind, EndKind::Error);
    assert!(
        log.end.message.contains("wait for each other"),
        "{}",
        log.end.message
    );
    assert_eq!(log.end.time_ns, 4 * MS, "at the first tick");
}

/// A wait without end in sight is an RCU stall after 21 s.
pub fn long_wait_is_a_stall(arm: &impl Arm) {
    let case = kick_once(r#""Y": { "loop": 1, "cpus": [1], "run": 30000000 },"#);
    let log = arm.run(&case);
    assert_eq!(log.end.kind, EndKind::Error);
    assert!(
        log.end.message.contains("RCU CPU stall"),
        "{}",
        log.end.message
    );
    assert_eq!(log.end.time_ns, 21_000 * MS + KICK_AT_NS);
}
