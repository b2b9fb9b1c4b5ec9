// SPDX-License-Identifier: GPL-2.0-or-later
//! Time on a CPU: what is charged, when a slice ends, what happens then.

use crate::arm::{Arm, Case, EndKind, Log, MS};

/// SCX_DSQ_LOCAL_ON | 0
const LOCAL_ON_0: i128 = 3 << 62;

const TWO_JOBS: &str = r#"
    "A": { "loop": 1, "run": 200000 },
    "B": { "loop": 1, "run": 200000 }
"#;

/// Two jobs of 200 ms on one CPU take 400 ms, whoever ends slices how.
fn two_jobs_take_400_ms(log: &Log) {
    assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
    log.assert_about(log.runtime_ns("A"), 200 * MS);
    log.assert_about(log.runtime_ns("B"), 200 * MS);
    let last = log.exited("A").max(log.exited("B"));
    log.assert_about(last.expect("both ended"), 400 * MS);
}

pub fn two_jobs_default_slice(arm: &impl Arm) {
    two_jobs_take_400_ms(&arm.run(&Case::new("shared", TWO_JOBS)));
}

pub fn zeroed_in_tick_charges_elapsed_time(arm: &impl Arm) {
    let log = arm.run(&Case::new("tick_zero", TWO_JOBS));
    two_jobs_take_400_ms(&log);
    // It really preempts: turns of two ticks.
    assert!(
        log.turns(0).starts_with("A 0-8, B 8-16, A 16-24, "),
        "{}",
        log.turns(0)
    );
}

pub fn changed_mid_run_charges_elapsed_time(arm: &impl Arm) {
    let case = Case::new("midrun_slice", TWO_JOBS);
    let logs = arm.run_all(&[case.clone(), case.tunable("grants", 1)]);
    logs.iter().for_each(two_jobs_take_400_ms);
    // 3 ms left after every tick: A goes on until its end.
    assert!(logs[0].turns(0).starts_with("A 0-200, B 200-40"));
    // Cut short once, at the first tick: 3 ms more, to the next one, then turns of 20.
    let turns = logs[1].turns(0);
    assert!(turns.starts_with("A 0-8, B 8-28, A 28-48, "), "{turns}");
}

/// Slices end at ticks, and a task that nobody replaces goes on with the core's slice, not the scheduler's.
pub fn lone_task_goes_on_without_requeue(arm: &impl Arm) {
    let tasks = r#""A": { "loop": 1, "delay": 3000, "run": 60000 }"#;
    let own = Case::new("shared", tasks);
    let short = own.clone().tunable("slice_ns", 4_000_000);
    let logs = arm.run_all(&[own, short]);
    let log = &logs[0];
    assert_eq!(log.calls_at(24 * MS), ["tick A", "dispatch 0 A"]);
    assert_eq!(
        log.calls_in(4 * MS..60 * MS),
        ["dispatch 0 A", "dispatch 0 A"]
    );
    assert_eq!(log.turns(0), "A 3-63");

    let asked = logs[1].times_of("dispatch 0 A");
    assert_eq!(asked[0], 8 * MS);
    // Where it takes the core a moment to set the next slice, 20 ms, another tick passes.
    assert!(asked[1] == 28 * MS || !log.is_exact, "{asked:?}");
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
        r#""A": { "loop": 1, "run": 38000 }"#,
    ));
    assert_eq!(log.turns(0), "A 0-38");
    assert_eq!(
        log.times_of("dispatch 0 A")[..3],
        [20 * MS, 28 * MS, 36 * MS]
    );
    assert!(log.times_of("enqueue A 0x0").is_empty());
    assert_eq!(log.end.kind, EndKind::Unregistered);
}

/// Without ops.yield's help nothing happens; with the slice at 0 the CPU changes hands.
pub fn yield_is_what_the_op_makes_of_it(arm: &impl Arm) {
    let tasks = r#"
        "A": { "loop": 1, "run": 3000, "yield": "", "run1": 2000 },
        "B": { "loop": 1, "run": 5000 }
    "#;
    let logs = arm.run_all(&["shared", "yield_nothing"].map(|trap| Case::new(trap, tasks)));
    let log = &logs[0];
    assert_eq!(log.turns(0), "A 0-3, B 3-8, A 8-10");
    assert_eq!(
        log.calls_at(3 * MS),
        [
            "yield A",
            "dispatch 0 A",
            "stopping A 1",
            "enqueue A 0x0",
            "running B"
        ]
    );
    let log = &logs[1];
    assert_eq!(log.turns(0), "A 0-5, B 5-10");
    assert_eq!(log.calls_at(3 * MS), ["yield A"]);
}

/// SCX_OPS_ENQ_LAST: the last task comes back through ops.enqueue, and the CPU waits for a kick.
pub fn enq_last_brings_the_last_task_back(arm: &impl Arm) {
    let case = Case::new("enq_last", r#""A": { "loop": 1, "run": 70000 }"#)
        .define("OPS_FLAGS=SCX_OPS_ENQ_LAST");
    let log = arm.run(&case);
    // Beside a kernel's own thread that comes with the same tick, A is not the last one.
    let last_ns = log.time_of("enqueue A 0x20000000000");
    assert!([20, 40, 60].contains(&(last_ns / MS)) && (last_ns == 20 * MS || !log.is_exact));
    assert_eq!(
        log.calls_at(last_ns),
        [
            "tick A",
            "dispatch 0 A",
            "stopping A 1",
            "enqueue A 0x20000000000",
            "dispatch 0 -",
            "running A"
        ]
    );
    assert_eq!(log.exited("A"), Some(70 * MS));
}

/// A wakeup refills nothing, and an insert with slice 0 leaves what there is.
pub fn slice_survives_sleep(arm: &impl Arm) {
    let tasks = r#""A": { "loop": 1, "run": 5000, "sleep": 4000, "run1": 20000 }"#;
    let log = arm.run(&Case::new("keep_slice", tasks));
    let slices = log.values("running", "A");
    assert_eq!(slices[0], 18_000_000);
    log.assert_about(slices[1] as u64, 13 * MS);
    // 9 ms and 13 more: the first tick after that.
    assert_eq!(log.times_of("dispatch 0 A"), [5 * MS, 24 * MS, 29 * MS]);
}

/// X is 40 tasks that the scheduler holds. Asked on CPU 1, which H has for a while, it gives them to others.
fn restless(h_us: u64, x_us: u64) -> Case {
    let tasks = format!(
        r#"
        "X": {{ "instance": 40, "loop": 1, "run": {x_us} }},
        "H": {{ "loop": 1, "cpus": [1], "run": {h_us} }},
        "B": {{ "loop": 1, "cpus": [0], "run": 70000 }}
    "#
    );
    Case::new("restless", tasks).on("core:2 pu:1")
}

/// How often ops.dispatch was asked on CPU 1 each time that H had used up a slice.
fn asked_of_h(log: &Log) -> Vec<usize> {
    let calls = log.calls_with_ticks();
    let of_cpu_1 = calls
        .iter()
        .filter(|call| ["tick H", "dispatch 1 H"].contains(&call.as_str()));
    let of_cpu_1: Vec<&String> = of_cpu_1.collect();
    let between_ticks = of_cpu_1.split(|call| *call == "tick H");
    between_ticks
        .map(<[_]>::len)
        .filter(|asked| *asked > 0)
        .collect()
}

/// ops.dispatch that always inserts something and never anything for its CPU: after 32 times the core goes on
/// without, here with the task it has. What the scheduler still holds waits for the next slice end.
pub fn dispatch_is_asked_32_times_at_most(arm: &impl Arm) {
    let places = [0, LOCAL_ON_0];
    let cases = places.map(|give_to| restless(70_000, 100).tunable("give_to", give_to));
    for (log, give_to) in arm.run_all(&cases).iter().zip(places) {
        assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
        assert_eq!(asked_of_h(log)[..2], [32, 8 + 1], "{give_to:#x}");
        assert_eq!(
            log.runs()
                .iter()
                .filter(|r| r.task == "H" && r.cpu == 1)
                .count(),
            1
        );
        assert!((0..40).all(|i| log.exited(&format!("X-{i}")).is_some()));
    }
}

/// A CPU that has no task left kicks itself after the 32nd time: it is idle first, and then asks again.
pub fn idle_cpu_asks_again_after_32_times(arm: &impl Arm) {
    let case = restless(5_000, 100).define("WITH_UPDATE_IDLE");
    let log = arm.run(&case.define("OPS_FLAGS=SCX_OPS_KEEP_BUILTIN_IDLE"));
    let calls = log.calls_in(0..20 * MS);
    let of_cpu_1 = calls
        .iter()
        .filter(|call| call.starts_with("dispatch 1") || call.starts_with("update_idle 1"));
    let of_cpu_1: Vec<&String> = of_cpu_1
        .skip_while(|call| *call != "dispatch 1 H")
        .collect();
    let mut expected = vec!["dispatch 1 H"; 32];
    expected.push("update_idle 1 1");
    expected.extend(["dispatch 1 -"; 8 + 1]);
    assert_eq!(of_cpu_1[..expected.len()], expected);
}

/// An entry for a task that is not the scheduler's to give is dropped, and counts as one all the same.
pub fn dropped_entries_count(arm: &impl Arm) {
    let case = restless(70_000, 70_000).tunable("forever", 1);
    let log = arm.run(&case.for_ms(65));
    let asked = asked_of_h(&log);
    // A kernel's own thread that comes in the meantime ends the asking.
    let whole = asked.iter().filter(|times| **times == 32).count();
    assert!(
        whole > 0 && (whole == asked.len() || !log.is_exact),
        "{asked:?}"
    );
    assert!(asked.iter().all(|times| *times <= 32), "{asked:?}");
}
