// SPDX-License-Identifier: GPL-2.0-or-later
//! Data races that the check of all shipped schedulers does not reach.

use tiltyard_schedtest::races::races;
use tiltyard_schedtest::sources::altered;
use tiltyard_schedtest::{globals, source, telling};

/// The guard lets tasks run early all the time.
#[test]
fn the_guard_races_with_nobody() {
    let set = globals(&[("starve_limit_ms", 200)]);
    assert_eq!(races(&telling(&source("ule")), &set), []);
}

/// ULE as it was: the balancer moved a task, and so published it, before it booked it on its new CPU, where running() may
/// book it at the same time.
#[test]
fn a_late_booking_is_found() {
    let replacements = [
        (
            "runq.h",
            "s32 old = READ_ONCE(t->cpu);",
            "s32 old = t->cpu;",
        ),
        (
            "runq.h",
            "old = __sync_lock_test_and_set(&t->cpu, cpu);",
            "t->cpu = cpu;",
        ),
        (
            "balance.h",
            "booked = moves(t, to);\n\t\tscx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, key);",
            "booked = t->cpu;\n\t\tscx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, key);",
        ),
        (
            "balance.h",
            "pri = first;",
            "pri = first;\n\t\t\tmoves(t, to);",
        ),
    ];
    let (_folder, source) = altered("ule", &replacements);
    let races = races(&telling(&source), &[]);
    let booked_twice = races.iter().find(|race| {
        let mut callbacks = race.sides.each_ref().map(|side| side.callback.as_str());
        callbacks.sort_unstable();
        callbacks == ["running", "timer"]
            && race.sides.iter().all(|s| s.place.starts_with("runq.h:"))
    });
    let race = booked_twice.unwrap_or_else(|| panic!("{races:#?}"));
    assert!(race.what.starts_with("tasks of "), "{race:?}");
    assert!(
        race.sides.iter().any(|s| s.action == "writes" && s.plain),
        "{race:?}"
    );
}
