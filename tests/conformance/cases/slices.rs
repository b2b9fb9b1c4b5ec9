// SPDX-License-Identifier: GPL-2.0-or-later
//! Time on a CPU: what is charged, when a slice ends, what happens then.

use crate::arm::{Arm, Case, EndKind, MS};

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
