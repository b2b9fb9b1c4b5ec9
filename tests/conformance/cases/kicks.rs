// SPDX-License-Identifier: GPL-2.0-or-later
//! Timers, kicks, and the flags of an insert.

use crate::arm::{Arm, Case, EndKind, Log, MS};

const SLICE_INF: i128 = u64::MAX as i128;
const PREEMPT: i128 = 1 << 32;
const HEAD: i128 = 0x10;
const KICK_IDLE: i128 = 1;

/// A scheduler that lives on its timer: endless slices, and a kick every 5 ms.
pub fn timers_fire_and_preempt(arm: &impl Arm) {
    let tasks = r#""A": { "loop": 1, "run": 12000 }, "B": { "loop": 1, "run": 12000 }"#;
    let log = arm.run(&Case::new("timer_kick", tasks).tunable("slice_ns", SLICE_INF));
    assert_eq!(log.times_of("timer 0 1"), [5 * MS]);
    assert_eq!(log.times_of("timer 0 4"), [20 * MS]);
    assert_eq!(
        log.turns(0),
        "A 0-5, B 5-10, A 10-15, B 15-20, A 20-22, B 22-24"
    );
}

/// A kick of a CPU whose task has slice left does nothing at all.
pub fn kick_without_preempt_changes_nothing(arm: &impl Arm) {
    let tasks = r#""A": { "loop": 1, "run": 15000 }, "B": { "loop": 1, "run": 5000 }"#;
    let case = Case::new("timer_kick", tasks)
        .tunable("period_ns", 6_000_000)
        .tunable("kick_flags", 0)
        .tunable("fires", 1);
    let log = arm.run(&case);
    assert_eq!(log.calls_at(6_000_000), ["timer 0 1"]);
    assert_eq!(log.turns(0), "A 0-15, B 15-20");
}

/// The slice ends, nobody else is there, and the task goes on with a longer one than it had left.
pub fn preempting_kick_with_nothing_queued(arm: &impl Arm) {
    let case = Case::new("timer_kick", r#""A": { "loop": 1, "run": 40000 }"#)
        .tunable("period_ns", 6_000_000)
        .tunable("fires", 1);
    let log = arm.run(&case);
    assert_eq!(log.calls_at(6_000_000), ["timer 0 1", "dispatch 0 A"]);
    assert_eq!(log.times_of("dispatch 0 A")[..2], [6 * MS, 28 * MS]);
    assert_eq!(log.turns(0), "A 0-40");
}

/// KICK_IDLE: an idle CPU goes through a whole dispatch; a busy one is not affected.
pub fn idle_kick_makes_an_idle_cpu_look(arm: &impl Arm) {
    let tasks = r#""A": { "loop": 1, "cpus": [0], "run": 15000 }"#;
    let case = Case::new("timer_kick", tasks)
        .on("core:2 pu:1")
        .tunable("period_ns", 6_000_000)
        .tunable("kick_flags", KICK_IDLE)
        .tunable("fires", 1);
    let logs = arm.run_all(&[1, 0].map(|cpu| case.clone().tunable("kick_cpu", cpu)));
    assert_eq!(logs[0].calls_at(6_000_000), ["timer 1 1", "dispatch 1 -"]);
    assert_eq!(logs[1].calls_at(6_000_000), ["timer 0 1"]);
}

/// SCX_ENQ_HEAD of an insert puts the task before those that waited longer.
pub fn head_arrives(arm: &impl Arm) {
    let tasks = r#"
        "X": { "loop": 1, "sleep": 5000, "run": 1000 },
        "A": { "loop": 1, "run": 10000 },
        "B": { "loop": 1, "run": 1000 }
    "#;
    let tail = Case::new("shared_flags", tasks);
    let head = tail.clone().tunable("insert_flags", HEAD);
    let logs = arm.run_all(&[tail, head]);
    let order = |log: &Log| -> String { log.runs().into_iter().map(|r| r.task).collect() };
    assert_eq!(logs.iter().map(order).collect::<Vec<_>>(), ["ABX", "AXB"]);
}

/// All that one ops.dispatch inserts gets its turn.
pub fn several_inserts_from_one_dispatch(arm: &impl Arm) {
    let tasks = r#""A": { "instance": 4, "loop": 1, "run": 1000 }"#;
    let log = arm.run(&Case::new("hold", tasks));
    assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
    assert_eq!(log.turns(0), "A-0 0-1, A-1 1-2, A-2 2-3, A-3 3-4");
    // It was asked once, when the shell left; the others followed without another.
    assert!(
        !log.calls_in(1..4 * MS)
            .iter()
            .any(|c| c.starts_with("dispatch"))
    );
}

/// An insert with PREEMPT into the local queue of the task's own CPU takes it at once.
pub fn preempt_on_the_same_runqueue(arm: &impl Arm) {
    let tasks = r#"
        "X": { "loop": 1, "cpus": [1], "sleep": 6000, "run": 1000 },
        "Y": { "loop": 1, "cpus": [1], "run": 10000 }
    "#;
    let case = Case::new("local_on", tasks)
        .on("core:2 pu:1")
        .tunable("insert_flags", PREEMPT);
    let log = arm.run(&case);
    let woken_ns = log.time_of("runnable X 0x9");
    assert_eq!(
        log.calls_at(woken_ns),
        [
            "runnable X 0x9",
            "enqueue X 0x9",
            "stopping Y 1",
            "enqueue Y 0x0",
            "running X"
        ]
    );
}

/// In the reference kernel the flag does not survive a move between runqueues: X waits at the end of CPU 1's queue.
pub fn preempt_is_lost_on_the_way_to_another_cpu(arm: &impl Arm) {
    let tasks = r#"
        "X": { "loop": 1, "phases": {
            "here": { "loop": 1, "cpus": [0], "run": 100 },
            "there": { "loop": 1, "cpus": [0, 1], "sleep": 5400, "run": 1000 } } },
        "Y": { "loop": 1, "cpus": [1], "run": 50000 },
        "H": { "loop": 1, "cpus": [0], "run": 50000 }
    "#;
    let case = Case::new("local_on", tasks)
        .on("core:2 pu:1")
        .tunable("insert_flags", PREEMPT);
    let log = arm.run(&case);
    let woken_ns = *log.times_of("runnable X 0x409").last().expect("X woke up");
    assert_eq!(
        log.calls_at(woken_ns),
        ["select_cpu X 0x8", "runnable X 0x409", "enqueue X 0x409"]
    );
    let run = log
        .runs()
        .into_iter()
        .rfind(|r| r.task == "X")
        .expect("X ran");
    assert_eq!(run.cpu, 1);
    assert!(run.from_ns > woken_ns + 5 * MS, "preempted: {run:?}");
    let mut calls = log.calls_at(run.from_ns);
    // CPU 0 and its H have a tick then, too.
    calls.retain(|call| call.contains(" X") || call.contains(" Y"));
    assert_eq!(
        calls,
        ["tick Y", "stopping Y 1", "enqueue Y 0x0", "running X"]
    );
}

/// A queue is seen in its order, from either end, and a task can be taken out of it on the way.
pub fn iteration_and_move(arm: &impl Arm) {
    let tasks = r#"
        "A": { "loop": 1, "run": 1000 }, "B": { "loop": 1, "run": 1000 }, "C": { "loop": 1, "run": 1000 }
    "#;
    let case = Case::new("iterate", tasks);
    let logs = arm.run_all(&[case.clone(), case.define("REVERSE")]);
    let log = &logs[0];
    assert_eq!(log.turns(0), "A 0-1, B 1-2, C 2-3");
    let calls = log.calls_at(MS);
    let asked = calls.iter().position(|call| call == "dispatch 0 A");
    assert_eq!(
        calls[asked.expect("A left")..][..4],
        ["dispatch 0 A", "queued 0 2", "seen B 0", "seen C 0"]
    );
    assert_eq!(
        log.values("running", "B")[0],
        3_000_000,
        "the slice that the move set"
    );
    let log = &logs[1];
    assert_eq!(log.turns(0), "C 0-1, B 1-2, A 2-3");
}

/// The dispatch buffer: how much is left, taking back, and what goes too far.
pub fn dispatch_buffer(arm: &impl Arm) {
    let tasks = r#""X": { "loop": 1, "run": 1000 }"#;
    let tries = ["TRY=CANCEL", "TRY=OVERFLOW", "TRY=UNDERFLOW"];
    let logs = arm.run_all(&tries.map(|define| Case::new("buffer", tasks).define(define)));
    let log = &logs[0];
    assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
    for (figure, slots) in [
        ("slots_before", 32),
        ("slots_between", 31),
        ("slots_after", 32),
    ] {
        assert_eq!(log.values(figure, "0"), [slots], "{figure}");
    }
    assert_eq!(log.exited("X"), Some(MS));
    for (log, message) in logs[1..].iter().zip(["overflow", "underflow"]) {
        assert_eq!(log.end.kind, EndKind::Error, "{message}");
        let said = &log.end.message;
        assert!(said.contains(message), "{message}: {said}");
    }
}

/// Smallest vtime first, equals in the order in which they came, and 2^64 is no wall.
pub fn vtime_order(arm: &impl Arm) {
    let tasks = r#"
        "B": { "loop": 1, "run": 1000 }, "C": { "loop": 1, "run": 1000 }, "A": { "loop": 1, "run": 1000 }
    "#;
    let case = Case::new("vtime", tasks);
    // Z - C is 23: C comes before the wrap, B and A after it.
    let wrap = case.clone().tunable("base", i128::from(u64::MAX - 23));
    let equal = case.clone().tunable("all_equal", 1);
    let logs = arm.run_all(&[case, wrap, equal]);
    assert_eq!(logs[0].turns(0), "C 0-1, B 1-2, A 2-3");
    assert_eq!(logs[1].turns(0), "C 0-1, B 1-2, A 2-3");
    assert_eq!(logs[2].turns(0), "B 0-1, C 1-2, A 2-3");
}
