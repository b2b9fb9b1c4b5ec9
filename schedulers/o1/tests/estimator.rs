// SPDX-License-Identifier: GPL-2.0-or-later
//! The estimate of who is interactive as Linux 2.6.11 has it, of which there are no records: values computed by hand. And
//! which spans of the bonus there are.

use super::recorded::*;
use tiltyard_schedtest::presets;

const MS: i64 = 1_000_000;

/// HZ is 1000, as in Linux 2.6.11.
fn machine_2611() -> Machine {
    let mut values = presets("o1")["o1_2611"].clone();
    values.extend(tiltyard_schedtest::globals(&[("tick_hz", 1000)]));
    let mut m = Machine::with(&values, 1);
    m.build(0);
    m.clear();
    m
}

/// nice / 4, rounded towards 0, and 2.
#[test]
fn bonus_that_2611_asks_for() {
    let mut m = machine_2611();
    let of = |nice: i64| 2 + nice / 4;
    assert_eq!([-20, -19, -1, 0, 19].map(of), [-3, -2, 2, 2, 6]);
    for nice in -20..20 {
        m.add(&Task {
            nice,
            ..Task::new(0)
        });
        let delta = m.call("t_numbers", &[FIRST])[2];
        assert_eq!(delta, of(nice), "nice {nice}");
    }
}

/// sleep_avg before, sleep and how it slept; sleep_avg and priority after it. In ms, of a task of nice 0, for which a sleep
/// of more than 799 ms is a long one.
#[test]
fn sleep_in_2611() {
    const NORMAL: i64 = 0;
    const FOR_A_DISK: i64 = 1;
    for (before, sleep, how, after, prio) in [
        // Counts ten times without a bonus, seven times with a bonus of 3, once with 9 or 10.
        (0, 50, NORMAL, 500, 120),
        (300, 40, NORMAL, 580, 120),
        (300, 20, NORMAL, 440, 121),
        (940, 20, NORMAL, 960, 116),
        (1000, 20, NORMAL, 1000, 115),
        (0, 101, NORMAL, 1000, 115),
        (0, 799, NORMAL, 1000, 115),
        // A long one: 900 ms, whatever it was before.
        (0, 800, NORMAL, 900, 116),
        (0, 5000, NORMAL, 900, 116),
        (1000, 5000, NORMAL, 900, 116),
        // For a disk: no further than just interactive, however long.
        (0, 50, FOR_A_DISK, 500, 120),
        (0, 80, FOR_A_DISK, 799, 118),
        (0, 5000, FOR_A_DISK, 799, 118),
        (850, 5000, FOR_A_DISK, 850, 117),
    ] {
        let mut m = machine_2611();
        m.add(&Task {
            savg: before * MS,
            sleep_type: how,
            ..Task::new(0)
        });
        let got = m.call("t_recalc", &[FIRST, sleep * MS])[2];
        let seen = m.seen(0);
        assert_eq!(
            (seen.savg, got, seen.sleep_type),
            (after * MS, prio, how),
            "{before} ms, then a sleep of {sleep} ms"
        );
    }
}

/// Of a kernel thread no sleep is long; one counts a second at most.
#[test]
fn sleep_of_kernel_threads_in_2611() {
    for (before, after) in [(0, 1000), (940, 1000)] {
        let mut m = machine_2611();
        m.add(&Task {
            savg: before * MS,
            user: false,
            ..Task::new(0)
        });
        m.call("t_recalc", &[FIRST, 5000 * MS]);
        assert_eq!(m.seen(0).savg, after * MS);
    }
}

/// Without any bonus the largest sleep_avg would be 0, by which Linux divides.
#[test]
fn a_bonus_spans_1_to_40_priorities() {
    for (max_bonus, error) in [(0, -22), (1, 0), (40, 0), (41, -22)] {
        let mut m = Machine::boot("up", 1000, &[("max_bonus", max_bonus)]);
        let built = m.kernel.try_call("t_build", &[0]).0[0];
        assert_eq!(built, error, "{max_bonus}");
    }
}
