// SPDX-License-Identifier: GPL-2.0-or-later
//! Kicks that wait. In the reference kernel a wait is for a CPU that runs an ext task, and ends when that CPU has put
//! or picked one, to which the kick drives it at once. CPU 0, on which A runs, kicks CPU 1 at 6 ms.

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

/// Y goes on, picked again, or with a new slice if the kick ended its own; A loses next to nothing.
pub fn picking_the_same_task_ends_a_wait(arm: &impl Arm) {
    let case = kick_once(r#""Y": { "loop": 1, "cpus": [1], "run": 11000 },"#);
    let flags = [WAIT, WAIT | PREEMPT];
    let cases = flags.map(|flags| case.clone().tunable("kick_flags", flags));
    for log in arm.run_all(&cases) {
        assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
        assert_eq!(log.turns(0), "A 0-20");
        assert_eq!(log.turns(1), "Y 0-11");
        assert_eq!(log.times_of("tick A")[..3], [4 * MS, 8 * MS, 12 * MS]);
    }
}

/// So does the next ext task.
pub fn the_next_task_ends_a_wait(arm: &impl Arm) {
    let two = r#"
        "Y": { "loop": 1, "cpus": [1], "run": 7000 },
        "Z": { "loop": 1, "cpus": [1], "run": 5000 },
    "#;
    let log = arm.run(&kick_once(two).tunable("kick_flags", WAIT | PREEMPT));
    assert_eq!(log.turns(1), "Y 0-6, Z 6-11, Y 11-12");
    assert_eq!(log.turns(0), "A 0-20");
}

/// A realtime task is no reason to wait, and its CPU is not even kicked: Y keeps its slice.
pub fn higher_class_is_not_waited_for(arm: &impl Arm) {
    let realtime = r#"
        "Y": { "loop": 1, "cpus": [1], "run": 10000 },
        "R": { "loop": 1, "cpus": [1], "policy": "SCHED_FIFO", "priority": 5, "sleep": 5000, "run": 3000 },
    "#;
    let log = arm.run(&kick_once(realtime));
    assert_eq!(log.turns(1), "Y 0-5, R 5-8, Y 8-13");
    assert_eq!(log.turns(0), "A 0-20");
}

/// Neither is an idle CPU, though it looks for work.
pub fn idle_target_is_not_waited_for(arm: &impl Arm) {
    let log = arm.run(&kick_once(
        r#""Y": { "loop": 1, "cpus": [1], "sleep": 9000, "run": 2000 },"#,
    ));
    assert_eq!(log.calls_at(KICK_AT_NS), ["timer 1 1", "dispatch 1 -"]);
    assert_eq!(log.turns(1), "Y 9-11");
    assert_eq!(log.turns(0), "A 0-20");
}

/// A CPU that kicks itself has nobody to wait for.
pub fn no_wait_for_oneself(arm: &impl Arm) {
    let log = arm.run(&kick_once("").tunable("kick_cpu", 0));
    assert_eq!(log.turns(0), "A 0-20");
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
