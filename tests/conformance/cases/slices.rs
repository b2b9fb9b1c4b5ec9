// SPDX-License-Identifier: GPL-2.0-or-later
//! Time on a CPU: what is charged, when a slice ends, what happens then.

use crate::arm::{Arm, Case, EndKind, MS};

/// SCX_DSQ_LOCAL_ON | 0
const LOCAL_ON_0: i128 = 3 << 62;

const TWO_JOBS: &str = r#"
    "A": { "loop": 1, "run": 200000 },
    "B": { "loop": 1, "run": 200000 }
"#;

/// Two jobs of 200 ms on one CPU take 400 ms, whoever ends slices how.
fn two_jobs_take_400_ms(arm: &impl Arm, case: Case) {
    let log = arm.run(&case);
    assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
    assert_eq!(log.runtime_ns("A"), 200 * MS);
    assert_eq!(log.runtime_ns("B"), 200 * MS);
    assert_eq!(log.exited("A").max(log.exited("B")), Some(400 * MS));
}

pub fn two_jobs_default_slice(arm: &impl Arm) {
    two_jobs_take_400_ms(arm, Case::new("shared", TWO_JOBS));
}

pub fn zeroed_in_tick_charges_elapsed_time(arm: &impl Arm) {
    let case = Case::new("tick_zero", TWO_JOBS);
    two_jobs_take_400_ms(arm, case.clone());
    // It really preempts: turns of two ticks.
    let log = arm.run(&case);
    assert!(
        log.turns(0).starts_with("A 0-2, B 2-4, A 4-6, "),
        "{}",
        log.turns(0)
    );
}

pub fn changed_mid_run_charges_elapsed_time(arm: &impl Arm) {
    // Never less than 3 ms left: A goes on until its end.
    let case = Case::new("midrun_slice", TWO_JOBS);
    two_jobs_take_400_ms(arm, case.clone());
    assert_eq!(arm.run(&case).turns(0), "A 0-200, B 200-400");
    // Cut short once, at the first tick: 3 ms more, then turns of 20.
    let case = case.tunable("grants", 1);
    two_jobs_take_400_ms(arm, case.clone());
    let turns = arm.run(&case).turns(0);
    assert!(turns.starts_with("A 0-4, B 4-24, A 24-44, "), "{turns}");
}

/// Slices end at ticks, and a task that nobody replaces goes on with the core's slice, not the scheduler's.
pub fn lone_task_goes_on_without_requeue(arm: &impl Arm) {
    let tasks = r#""A": { "loop": 1, "delay": 300, "run": 60000 }"#;
    let log = arm.run(&Case::new("shared", tasks));
    assert_eq!(log.calls_at(21 * MS), ["tick A", "dispatch 0 A"]);
    assert_eq!(log.calls_in(MS..60 * MS), ["dispatch 0 A", "dispatch 0 A"]);
    assert_eq!(log.times_of("dispatch 0 A")[..2], [21 * MS, 41 * MS]);
    assert_eq!(log.turns(0), "A 0.3-60.3");

    let log = arm.run(&Case::new("shared", tasks).tunable("slice_ns", 5_000_000));
    assert_eq!(
        log.times_of("dispatch 0 A")[..3],
        [6 * MS, 26 * MS, 46 * MS]
    );
}

/// B first: it sleeps when A starts.
const B_WAKES_AT_5_MS: &str = r#"
    "B": { "loop": 1, "sleep": 5000, "run": 10000 },
    "A": { "loop": 1, "run": 30000 }
"#;

/// ops.dispatch comes first; then the previous task is stopped and put back.
pub fn dispatch_comes_before_stopping_and_enqueue(arm: &impl Arm) {
    let log = arm.run(&Case::new("shared", B_WAKES_AT_5_MS));
    assert_eq!(
        log.calls_at(20 * MS),
        [
            "tick A",
            "dispatch 0 A",
            "stopping A 1",
            "enqueue A 0x0",
            "running B"
        ]
    );
    assert_eq!(log.turns(0), "A 0-20, B 20-30, A 30-40");
}

/// The task that leaves is not in the queue while ops.dispatch chooses, whatever its vtime.
pub fn previous_task_does_not_compete(arm: &impl Arm) {
    let log = arm.run(&Case::new("shared_flags", B_WAKES_AT_5_MS).define("VTIME"));
    // B woke up with the larger vtime.
    assert_eq!(log.turns(0), "A 0-20, B 20-30, A 30-40");
}

/// A task in the local queue already is taken without asking.
pub fn local_queue_before_dispatch(arm: &impl Arm) {
    let tasks = r#"
        "B": { "loop": 1, "run": 5000 },
        "C": { "loop": 1, "run": 5000 },
        "A": { "loop": 1, "run": 5000 }
    "#;
    let log = arm.run(&Case::new("hold", tasks));
    // One dispatch released all three; the others follow without another.
    assert_eq!(log.turns(0), "B 0-5, C 5-10, A 10-15");
    assert_eq!(
        log.calls_in(MS..15 * MS)
            .iter()
            .filter(|c| c.starts_with("dispatch"))
            .count(),
        0
    );
}

/// An insert of a task that nobody owns is dropped, but its slice is written at once and keeps it running.
pub fn inserting_the_running_task_only_sets_its_slice(arm: &impl Arm) {
    let log = arm.run(&Case::new(
        "insert_prev",
        r#""A": { "loop": 1, "run": 32000 }"#,
    ));
    assert_eq!(log.turns(0), "A 0-32");
    assert_eq!(
        log.times_of("dispatch 0 A")[..3],
        [20 * MS, 25 * MS, 30 * MS]
    );
    assert!(log.times_of("enqueue A 0x0").is_empty());
    assert_eq!(log.end.kind, EndKind::Unregistered);
}

/// Without ops.yield's help nothing happens; with the slice at 0 the CPU changes hands.
pub fn yield_is_what_the_op_makes_of_it(arm: &impl Arm) {
    let tasks = r#"
        "A": { "loop": 1, "run": 2500, "yield": "", "run1": 2500 },
        "B": { "loop": 1, "run": 5000 }
    "#;
    let log = arm.run(&Case::new("shared", tasks));
    assert_eq!(log.turns(0), "A 0-2.5, B 2.5-7.5, A 7.5-10");
    assert_eq!(
        log.calls_at(2_500_000),
        [
            "yield A",
            "dispatch 0 A",
            "stopping A 1",
            "enqueue A 0x0",
            "running B"
        ]
    );
    let log = arm.run(&Case::new("yield_nothing", tasks));
    assert_eq!(log.turns(0), "A 0-5, B 5-10");
    assert_eq!(log.calls_at(2_500_000), ["yield A"]);
}

/// SCX_OPS_ENQ_LAST: the last task comes back through ops.enqueue, and the CPU waits for a kick.
pub fn enq_last_brings_the_last_task_back(arm: &impl Arm) {
    let case = Case::new("enq_last", r#""A": { "loop": 1, "run": 30000 }"#)
        .define("OPS_FLAGS=SCX_OPS_ENQ_LAST");
    let log = arm.run(&case);
    assert_eq!(
        log.calls_at(20 * MS),
        [
            "tick A",
            "dispatch 0 A",
            "stopping A 1",
            "enqueue A 0x20000000000",
            "dispatch 0 -",
            "running A"
        ]
    );
    assert_eq!(log.exited("A"), Some(30 * MS));
}

/// A wakeup refills nothing, and an insert with slice 0 leaves what there is.
pub fn slice_survives_sleep(arm: &impl Arm) {
    let tasks = r#""A": { "loop": 1, "run": 5000, "sleep": 1500, "run1": 20000 }"#;
    let log = arm.run(&Case::new("keep_slice", tasks));
    assert_eq!(log.values("running", "A"), [20 * MS as i64, 15 * MS as i64]);
    // 6.5 ms and 15 more: the first tick after that.
    assert_eq!(log.times_of("dispatch 0 A").last(), Some(&(26_500_000)));
    assert_eq!(log.times_of("dispatch 0 A")[1], 22 * MS);
}

/// X is 40 tasks that the scheduler holds. Asked on CPU 1, which H has for a while, it gives them to others.
fn restless(run_us: u64) -> Case {
    let tasks = format!(
        r#"
        "X": {{ "instance": 40, "loop": 1, "run": 100 }},
        "H": {{ "loop": 1, "cpus": [1], "run": {run_us} }},
        "B": {{ "loop": 1, "cpus": [0], "run": 70000 }}
    "#
    );
    Case::new("restless", tasks).on("core:2 pu:1")
}

/// ops.dispatch that always inserts something and never anything for its CPU: after 32 times the core goes on
/// without, here with the task it has. What the scheduler still holds waits for the next slice end.
pub fn dispatch_is_asked_32_times_at_most(arm: &impl Arm) {
    for give_to in [0, LOCAL_ON_0] {
        let log = arm.run(&restless(70_000).tunable("give_to", give_to));
        assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
        let asked = log.times_of("dispatch 1 H");
        let at = |time_ns| asked.iter().filter(|at| **at == time_ns).count();
        assert_eq!([at(20 * MS), at(40 * MS)], [32, 8 + 1], "{give_to:#x}");
        assert_eq!(log.turns(1), "H 0-70");
        assert_eq!(log.nr_exited(), 42);
    }
}

/// A CPU that has no task left kicks itself after the 32nd time: it is idle first, and then asks again.
pub fn idle_cpu_asks_again_after_32_times(arm: &impl Arm) {
    let case = restless(5_000).define("WITH_UPDATE_IDLE");
    let log = arm.run(&case.define("OPS_FLAGS=SCX_OPS_KEEP_BUILTIN_IDLE"));
    let mut calls = log.calls_at(5 * MS);
    calls.retain(|call| call.starts_with("dispatch 1") || call.starts_with("update_idle 1"));
    let mut expected = vec!["dispatch 1 H"; 32];
    expected.push("update_idle 1 1");
    expected.extend(["dispatch 1 -"; 8 + 1]);
    assert_eq!(calls, expected);
}

/// An entry for a task that is not the scheduler's to give is dropped, and counts as one all the same.
pub fn dropped_entries_count(arm: &impl Arm) {
    let log = arm.run(&restless(35_000).tunable("forever", 1).for_ms(30));
    assert_eq!(log.times_of("dispatch 1 H"), [20 * MS; 32]);
}
