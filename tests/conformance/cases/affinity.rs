// SPDX-License-Identifier: GPL-2.0-or-later
//! A task never runs where it may not, on whatever path it comes.

use crate::arm::{Arm, Case, EndKind, Log, MS};

const TWO_CPUS: &str = "core:2 pu:1";

fn runs_only_on(log: &Log, task: &str, cpu: u32) {
    assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
    // Real threads are born anywhere and bind themselves when they first run.
    let settled_ns = if log.is_exact { 0 } else { 10 * MS };
    let mut runs = log.runs().into_iter();
    let strays = runs.find(|r| r.task == task && r.from_ns >= settled_ns && r.cpu != cpu);
    assert_eq!(strays, None);
    assert!(log.cpus_of(task).contains(&cpu), "{task}");
}

/// A shared queue: CPUs pass over tasks that may not come to them and take those behind.
pub fn consume_skips_pinned_tasks(arm: &impl Arm) {
    let tasks = r#"
        "A": { "instance": 3, "loop": 30, "cpus": [0], "run": 900, "sleep": 100 },
        "B": { "instance": 3, "loop": 30, "cpus": [1], "run": 900, "sleep": 100 },
        "C": { "instance": 3, "loop": 30, "run": 900, "sleep": 100 }
    "#;
    let log = arm.run(&Case::new("shared", tasks).on(TWO_CPUS));
    for i in 0..3 {
        runs_only_on(&log, &format!("A-{i}"), 0);
        runs_only_on(&log, &format!("B-{i}"), 1);
        assert_eq!(log.cpus_of(&format!("C-{i}")), [0, 1]);
    }
}

const PINNED_X: &str = r#"
    "X": { "loop": 1, "cpus": [0], "run": 100, "sleep": 1000, "run1": 1000 },
    "H": { "loop": 1, "cpus": [0], "run": 30000 }
"#;

/// From ops.dispatch, a local queue that the task may not use is the scheduler's error.
pub fn local_on_refuses_a_forbidden_cpu(arm: &impl Arm) {
    let log = arm.run(&Case::new("dispatch_on", PINNED_X).on(TWO_CPUS));
    assert_eq!(log.end.kind, EndKind::Error);
    assert!(
        log.end.message.contains("target CPU 1 not allowed for X"),
        "{}",
        log.end.message
    );
    assert!(!log.cpus_of("X").contains(&1));
}

/// The same from ops.enqueue, where the insert is put off until the runqueue is free.
pub fn local_on_from_enqueue_refuses_too(arm: &impl Arm) {
    let log = arm.run(&Case::new("local_on", PINNED_X).on(TWO_CPUS));
    assert_eq!(log.end.kind, EndKind::Error);
    assert!(
        log.end.message.contains("target CPU 1 not allowed for X"),
        "{}",
        log.end.message
    );
    assert!(!log.cpus_of("X").contains(&1));
}

/// X may use CPUs 0 and 2 of 3; ops.select_cpu says 1.
const NOT_ONE: &str = r#"
    "X": { "loop": 1, "cpus": [0, 2], "sleep": 1000, "run": 1000 }
"#;

/// An answer that the task may not use is replaced, without an error.
pub fn select_cpu_answer_is_corrected(arm: &impl Arm) {
    let log = arm.run(
        &Case::new("select_fixed", NOT_ONE)
            .on("core:3 pu:1")
            .tunable("answer", 1),
    );
    assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
    assert!(!log.cpus_of("X").contains(&1));
    assert!(log.exited("X").is_some());
}

/// An insert into LOCAL from ops.select_cpu means the CPU that is used in the end.
pub fn direct_dispatch_follows_the_correction(arm: &impl Arm) {
    let case = Case::new("select_fixed", NOT_ONE)
        .on("core:3 pu:1")
        .tunable("answer", 1)
        .tunable("insert_x", 1);
    let log = arm.run(&case);
    assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
    assert!(!log.cpus_of("X").contains(&1));
    assert!(log.exited("X").is_some());
}

/// A waits on CPU 0 while M, which runs there, sends it to CPU 1.
const MOVED_WHILE_QUEUED: &str = r#"
    "M": { "loop": 1, "cpus": [0], "run": 2000,
           "tiltyard": { "set_other": { "task": "A", "cpus": [1] } }, "run1": 2000 },
    "A": { "loop": 1, "cpus": [0], "run": 1000, "sleep": 1000, "run1": 1000 }
"#;

/// In the scheduler's custody: out and in for the change, then out and in for the move, with one runnable.
pub fn change_of_a_held_task(arm: &impl Arm) {
    let log = arm.run(&Case::new("hold", MOVED_WHILE_QUEUED).on(TWO_CPUS));
    let at = log.time_of("set_cpumask A 1");
    assert_eq!(
        log.calls_at(at)[..7],
        [
            "dequeue A 0xa",
            "quiescent A 0xa",
            "set_cpumask A 1",
            "runnable A 0xa",
            "enqueue A 0xa",
            "dequeue A 0x8",
            "enqueue A 0x40"
        ]
    );
    assert!(log.exited("A").is_some());
}

/// In a queue of the scheduler's: the same without ops.dequeue.
pub fn change_of_a_queued_task(arm: &impl Arm) {
    let log = arm.run(&Case::new("shared", MOVED_WHILE_QUEUED).on(TWO_CPUS));
    let at = log.time_of("set_cpumask A 1");
    assert_eq!(
        log.calls_at(at)[..5],
        [
            "quiescent A 0xa",
            "set_cpumask A 1",
            "runnable A 0xa",
            "enqueue A 0xa",
            "enqueue A 0x40"
        ]
    );
    assert!(log.cpus_of("A").contains(&1));
}

/// A running task that may no longer stay: the change around it, then the stopper takes the CPU and moves it.
pub fn change_of_the_running_task(arm: &impl Arm) {
    let tasks = r#"
        "A": { "loop": 1, "cpus": [0], "run": 3000,
               "tiltyard": { "set": { "cpus": [1] } }, "run1": 2000 }
    "#;
    let log = arm.run(&Case::new("shared", tasks).on(TWO_CPUS));
    let at = log.time_of("set_cpumask A 1");
    assert_eq!(
        log.calls_at(at),
        [
            "stopping A 0",
            "quiescent A 0xa",
            "set_cpumask A 1",
            "runnable A 0xa",
            "running A",
            "stopping A 1",
            "cpu_release 0 2",
            "enqueue A 0x40",
            "cpu_acquire 0 0",
            "dispatch 0 -",
            "dispatch 1 -",
            "running A"
        ]
    );
    assert_eq!(log.turns(0), "A 0-3");
    assert_eq!(log.turns(1), "A 3-5");
}

/// Two nodes of two CPUs. X, queued globally on node 0, never goes to a CPU of node 1, though CPU 2 looks for work
/// again and again.
pub fn global_queue_is_per_node(arm: &impl Arm) {
    // A and B have the CPUs of node 0 when X wakes up.
    let tasks = r#"
        "X": { "loop": 1, "phases": {
            "there": { "loop": 1, "cpus": [0], "run": 100 },
            "all": { "loop": 1, "cpus": [0, 1, 2, 3], "sleep": 5000, "run": 1000 } } },
        "C": { "loop": 20, "cpus": [2], "run": 1000, "sleep": 500 },
        "B": { "loop": 1, "cpus": [1], "run": 30000 },
        "A": { "loop": 1, "cpus": [0], "run": 30000 }
    "#;
    let log = arm.run(&Case::new("global", tasks).on("package:2 [numa] core:2 pu:1"));
    assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
    let run = log
        .runs()
        .into_iter()
        .rfind(|r| r.task == "X")
        .expect("X ran");
    assert!(run.cpu < 2 && run.from_ns >= 20 * MS, "{run:?}");
    assert_eq!(log.nr_exited(), 4, "node 1 serves its own");
    // Step 5 of balance takes it before ops.dispatch could be asked.
    let calls = log.calls_at(run.from_ns);
    assert!(
        !calls
            .iter()
            .any(|c| c.starts_with(&format!("dispatch {}", run.cpu))),
        "{calls:?}"
    );
}
