// SPDX-License-Identifier: GPL-2.0-or-later
//! Rotations of tasks that only compute, of SD and of RSDL, against numbers that follow from the rules (one CPU,
//! rr_interval 6, a tick each ms); and what the records do not show: the guard, and RSDL's minor rotations.

use super::recorded::*;
use super::schedules::run;
use serde_json::{Value, json};

/// Hogs of these nice values, all there from the start, until `ms`: who ran on which level from when on, and when the arrays
/// swapped, in ms.
struct Hogs {
    /// Time, task, level.
    turns: Vec<[i64; 3]>,
    swaps: Vec<i64>,
    totals: Vec<i64>,
}

fn hogs(nice: &[i64], ms: i64, tunables: &[(&str, i128)]) -> Hogs {
    let task = |nice: &i64| json!({ "nice": nice, "prog": [["run", 1_000_000_000_000_i64]] });
    let tasks: Vec<Value> = nice.iter().map(task).collect();
    let with =
        json!({ "hz": 1000, "interactive": 1, "rr": 6, "dur_ns": ms * 1_000_000, "tasks": tasks });
    let run = run(&json!({ "topo": "up", "in": with }), tunables);
    let mut hogs = Hogs {
        turns: Vec::new(),
        swaps: Vec::new(),
        totals: (0..nice.len() as i64).map(|id| run.ran_ms(id)).collect(),
    };
    for line in &run.log {
        let at = int(&line[0]) / 1_000_000;
        match line[2].as_i64() {
            Some(task) => hogs.turns.push([at, task, int(&line[3])]),
            None => hogs.swaps.push(at),
        }
    }
    hogs
}

fn first_turn(hogs: &Hogs, task: i64) -> i64 {
    let turn = hogs.turns.iter().find(|turn| turn[1] == task);
    turn.expect("a turn")[0]
}

#[test]
fn nice_0_and_10_take_turns_on_levels_that_are_spread() {
    let hogs = hogs(&[0, 10], 945, &[]);
    let expected = [
        [0, 0, 101],
        [6, 1, 103],
        [9, 0, 103],
        [21, 1, 107],
        [24, 0, 107],
        [36, 1, 111],
        [39, 0, 111],
    ];
    assert_eq!(hogs.turns[..7], expected);
    assert_eq!(hogs.swaps, [150, 309, 468, 627, 786]);
    assert_eq!(hogs.totals, [750, 195]);
}

/// Each expires after what it is entitled to; from the second rotation on it has its first slot twice.
#[test]
fn rotations_last_as_long_as_the_tasks_are_entitled_to() {
    for (nice, swaps) in [
        (vec![0], vec![120, 246, 372]),
        (vec![0, 0], vec![240, 492, 744]),
        (vec![0, 19], vec![123, 255, 387]),
        (vec![-10, 0], vec![570, 1161, 1752]),
    ] {
        let hogs = hogs(&nice, swaps[2] + 1, &[]);
        assert_eq!(hogs.swaps, swaps, "{nice:?}");
    }
}

#[test]
pub fn without_the_first_slot_twice_all_rotations_are_alike() {
    let documented = [("sd_first_slot_twice", 0)];
    let hogs_of = hogs(&[0, 10], 901, &documented);
    assert_eq!(hogs_of.swaps, [150, 300, 450, 600, 750, 900]);
    let hogs_of = hogs(&[0, 19], 493, &documented);
    assert_eq!(hogs_of.swaps, [123, 246, 369, 492]);
}

/// Nice 0 comes first, and last, behind nice -10; nice 19 has one slot, the last.
#[test]
fn bad_nice_values_do_not_wait_for_the_end_in_sd() {
    assert_eq!(first_turn(&hogs(&[-10, 0], 600, &[]), 1), 15);
    assert_eq!(first_turn(&hogs(&[0, 10], 600, &[]), 1), 6);
    assert_eq!(first_turn(&hogs(&[0, 19], 600, &[]), 1), 114);
}

const RSDL: [(&str, i128); 1] = [("mode", 1)];

/// In RSDL a nice value begins where better ones have come down to.
#[test]
pub fn rsdl_walks_down_all_levels() {
    let alone = hogs(&[0, 10], 181, &RSDL);
    let expected = [[0, 0, 120], [60, 0, 130], [66, 1, 130], [72, 0, 131]];
    assert!(
        alone.turns[..4] == expected || alone.turns[1] == [60, 1, 130],
        "{:?}",
        &alone.turns[..4]
    );
    for (nice, last_first, rotation, totals) in [
        (vec![0], 0, 120, vec![120]),
        (vec![0, 0], 6, 240, vec![120, 120]),
        (vec![0, 10], 60, 180, vec![120, 60]),
        (vec![0, 19], 114, 126, vec![120, 6]),
        (vec![0, 0, 5], 60, 330, vec![120, 120, 90]),
        (vec![-10, 0], 150, 570, vec![450, 120]),
    ] {
        let hogs = hogs(&nice, rotation, &RSDL);
        assert_eq!(hogs.totals, totals, "{nice:?}");
        let longer = self::hogs(&nice, 2 * rotation + 1, &RSDL);
        assert_eq!(longer.swaps, [rotation, 2 * rotation], "{nice:?}");
        let last = nice.len() as i64 - 1;
        let first = first_turn(&longer, last);
        assert!(first == last_first, "{nice:?}: {first}");
    }
}

/// A CPU under RSDL that serves level 25; tasks 0, 1 and 2 are there, of which 0 runs, and 3 on another level.
fn serving(level_of_3: i64, expired: bool) -> Sd {
    let mut sd = Sd::boot(1, &[("rr_interval", 6), ("mode", 1)]);
    sd.cpu(0, 1, &Value::Null);
    for (id, level) in [(0, 25), (1, 25), (2, 25), (3, level_of_3)] {
        let is_expired = expired && id == 3;
        let task = json!([id, 0, "normal", 100 + level, 3000, 1, [level]]);
        let i = sd.task(&task, 0, is_expired);
        sd.call("t_queue", &[0, i, i64::from(id == 0)]);
    }
    sd
}

#[test]
pub fn a_level_without_quota_is_pushed_behind_the_next_one() {
    let mut sd = serving(27, false);
    sd.call("t_level_quota", &[0, 25, 1]);
    assert_eq!(sd.call("t_pick", &[0, 0, NOW_NS])[3], 1, "quota is left");
    sd.call("t_level_quota", &[0, 25, -1]);
    assert_eq!(sd.call("t_pick", &[0, 0, NOW_NS])[3], 4);
    assert_eq!(sd.array(0, false), [3, 0, 1, 2]);
    assert_eq!(sd.call("t_task_get", &[1])[4], 127);
    assert_eq!(sd.call("t_cpu_get", &[0])[7], 27, "served");
}

#[test]
pub fn what_is_left_on_the_last_level_goes_behind_the_next_rotation() {
    // Their own first level is 20.
    for level in [20, 22] {
        let mut sd = serving(level, true);
        sd.call("t_level_quota", &[0, 25, -1]);
        assert_eq!(sd.call("t_pick", &[0, 0, NOW_NS])[3], 4);
        assert_eq!(sd.call("t_cpu_get", &[0])[1], 2, "rotation");
        assert_eq!(sd.array(0, false), [3, 0, 1, 2]);
        assert_eq!(sd.array(0, true), Vec::<i64>::new());
    }
}

#[test]
pub fn minor_rotations_can_be_switched_off() {
    let mut sd = Sd::boot(1, &[("rr_interval", 6), ("mode", 1), ("minor_rotation", 0)]);
    sd.cpu(0, 1, &Value::Null);
    for id in [0, 1] {
        let i = sd.task(&json!([id, 0, "normal", 125 + id, 3000, 1, []]), 0, false);
        sd.call("t_queue", &[0, i, 0]);
    }
    sd.call("t_level_quota", &[0, 25, -1]);
    assert_eq!(sd.call("t_pick", &[0, 0, NOW_NS])[3], 1);
}

/// Nobody enters above the level that is served, even with the better part of a quota.
#[test]
pub fn who_wakes_up_in_rsdl_starts_at_the_level_that_is_served() {
    let mut sd = Sd::boot(1, &[("rr_interval", 6), ("mode", 1)]);
    sd.cpu(0, 1, &Value::Null);
    sd.call("t_level_quota", &[0, 30, 1]);
    let i = sd.task(&json!([0, 0, "normal", 125, 3000, 1, [25]]), 0, false);
    sd.call("t_place", &[0, i]);
    sd.task_is(&json!([0, 0, "normal", 130, 6000, 1, [25, 30]]))
        .expect("a new quota");
}

/// The guard: once a rotation is too old, whoever needs a quota expires. One that has just begun may be ahead of the clock.
#[test]
pub fn late_rotations_come_to_their_end() {
    const AGO: i64 = 1_000_000_000;
    for (limit_ms, ago_ns, prio) in [
        (0, AGO, 103),
        (1001, AGO, 103),
        (999, AGO, 101),
        (999, -5_000, 103),
    ] {
        let mut sd = Sd::boot(1, &[("rr_interval", 6), ("rotation_limit_ms", limit_ms)]);
        sd.cpu(0, 1, &Value::Null);
        sd.call("t_rotation_began", &[0, NOW_NS - ago_ns]);
        let i = sd.task(&json!([0, 0, "normal", 101, 0, 1, [1]]), 0, false);
        sd.call("t_place", &[0, i]);
        let w = sd.call("t_task_get", &[i]);
        assert_eq!(w[4], prio, "limit {limit_ms}, began {ago_ns} ns ago");
    }
}
