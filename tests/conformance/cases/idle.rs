// SPDX-License-Identifier: GPL-2.0-or-later
//! Searches for idle CPUs that the scheduler narrows itself.

use crate::arm::{Arm, Case, EndKind, Log};

const EBUSY: i64 = -16;
const EINVAL: i64 = -22;
const PICK_IDLE_CORE: i128 = 1;
const FOUR_CPUS: &str = "core:4 pu:1";

/// What X was told, and that nothing it got was left unclaimed.
fn answers(log: &Log) -> Vec<i64> {
    assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
    assert!(log.values("unclaimed", "X").iter().all(|idle| *idle == 0));
    log.values("answer", "X")
}

/// scx_bpf_select_cpu_and() claims a CPU of the mask and stays with the last one while that is idle.
pub fn select_cpu_and_stays_in_the_mask(arm: &impl Arm) {
    let tasks = r#""X": { "loop": 3, "sleep": 1000, "run": 1000 }"#;
    let case = Case::new("select_and", tasks)
        .on(FOUR_CPUS)
        .tunable("mask_bits", 0b1100);
    let log = arm.run(&case);
    let told = answers(&log);
    assert_eq!(told.len(), 4, "once for its birth, once for each sleep");
    assert!((2..4).contains(&told[0]), "{told:?}");
    assert!(told.iter().all(|cpu| *cpu == told[0]), "{told:?}");
    assert_eq!(log.cpus_of("X"), [told[0] as u32]);
}

/// Nothing idle in the mask, or nothing in it that the task may use: -EBUSY, though others are idle.
pub fn select_cpu_and_finds_nothing_outside(arm: &impl Arm) {
    let busy = r#"
        "H": { "loop": 1, "cpus": [2], "run": 50000 },
        "I": { "loop": 1, "cpus": [3], "run": 50000 },
        "X": { "loop": 1, "sleep": 5000, "run": 1000 }
    "#;
    let case = Case::new("select_and", busy)
        .on(FOUR_CPUS)
        .tunable("mask_bits", 0b1100);
    assert_eq!(answers(&arm.run(&case)).last(), Some(&EBUSY));

    let elsewhere = r#""X": { "loop": 1, "cpus": [0, 1], "sleep": 5000, "run": 1000 }"#;
    let log = arm.run(&Case {
        tasks: elsewhere.into(),
        ..case
    });
    assert_eq!(answers(&log).last(), Some(&EBUSY));
}

/// A task with one CPU to run on: the CPU that is said to be its last is tested, against the mask, and no other.
pub fn select_cpu_and_tests_one_cpu_for_a_pinned_task(arm: &impl Arm) {
    let tasks = r#""X": { "loop": 1, "cpus": [1], "sleep": 5000, "run": 1000 }"#;
    let case = Case::new("select_and", tasks).on(FOUR_CPUS);
    let woken = |case: Case| *answers(&arm.run(&case)).last().expect("X asked");
    let all = case.clone().tunable("mask_bits", 0b1111);
    assert_eq!(woken(all.clone()), 1);
    assert_eq!(woken(all.tunable("told_prev", 2)), 2);
    assert_eq!(woken(case.clone().tunable("mask_bits", 0b1100)), EBUSY);

    let busy = format!(r#"{tasks}, "H": {{ "loop": 1, "cpus": [1], "run": 50000 }}"#);
    let case = Case {
        tasks: busy,
        ..case
    };
    assert_eq!(woken(case.tunable("mask_bits", 0b1111)), EBUSY);
}

/// SCX_PICK_IDLE_CORE: the idle sibling of a busy CPU will not do.
pub fn select_cpu_and_may_want_a_whole_core(arm: &impl Arm) {
    let tasks = r#"
        "H": { "loop": 1, "cpus": [2], "run": 50000 },
        "X": { "loop": 1, "sleep": 5000, "run": 1000 }
    "#;
    let case = Case::new("select_and", tasks)
        .on("core:2 pu:2")
        .tunable("mask_bits", 0b1100);
    assert_eq!(answers(&arm.run(&case)).last(), Some(&3));
    let whole = case.tunable("pick_flags", PICK_IDLE_CORE);
    assert_eq!(answers(&arm.run(&whole)).last(), Some(&EBUSY));
}

/// It needs a CPU that exists, and the built-in idle tracking.
pub fn select_cpu_and_wants_sense(arm: &impl Arm) {
    let tasks = r#""X": { "loop": 1, "run": 1000 }"#;
    let case = Case::new("select_and", tasks).tunable("mask_bits", 1);
    let bad_prev = case.clone().tunable("told_prev", 9999);
    let untracked = case.define("WITH_UPDATE_IDLE");
    for (case, answer, message) in [
        (bad_prev, EINVAL, "invalid CPU 9999"),
        (untracked, EBUSY, "built-in idle tracking is disabled"),
    ] {
        let log = arm.run(&case.on("core:2 pu:1"));
        assert_eq!(log.end.kind, EndKind::Error, "{message}");
        assert!(log.end.message.contains(message), "{}", log.end.message);
        assert_eq!(log.values("answer", "X"), [answer], "{message}");
    }
}
