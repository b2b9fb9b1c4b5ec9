// SPDX-License-Identifier: GPL-2.0-or-later
//! Data races that the check of all shipped schedulers does not reach.

use tiltyard_schedtest::mutations::Altered;
use tiltyard_schedtest::races::races;
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
            "s32 old = READ_ONCE(t->book);",
            "s32 old = t->book;",
        ),
        (
            "runq.h",
            "old = __sync_lock_test_and_set(&t->book, book);",
            "t->book = book;",
        ),
        (
            "take.h",
            "booked = book_set(t, to << 1);",
            "booked = t->book;",
        ),
        (
            "take.h",
            "found = pri;",
            "found = pri;\n\t\t\tbook_set(t, to << 1);",
        ),
    ];
    let altered = Altered::new("ule", &replacements);
    let races = altered.within(|| races(&telling(&source("ule")), &[]));
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
