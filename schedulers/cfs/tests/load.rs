// SPDX-License-Identifier: GPL-2.0-or-later
//! Groups, PELT, and the choice of a CPU.

use super::machine::*;
use tiltyard_schedtest::presets;

/// One task in a group of its own beside 80 in another: half of the core each, and fair among the 80.
#[test]
fn two_groups_share_equally() {
    for (cfs, share) in [(Cfs::kernel49(8), 50.02), (Cfs::paper(), 50.0)] {
        cfs.group(1, 0);
        cfs.group(2, 0);
        let one = cfs.hogs(&[0], 1)[0];
        let many = cfs.hogs(&[0; 80], 2);
        cfs.drive(20_000 * MS);
        let ran = |task: &i64| cfs.call("t_sum_exec", &[*task]);
        let got = ran(&one) as f64 * 100.0 / (20_000 * MS) as f64;
        assert!((got - share).abs() <= 0.1, "{got} %");
        let (least, most) = (many.iter().map(ran).min(), many.iter().map(ran).max());
        assert!(
            most.expect("80") - least.expect("80") <= 24 * MS,
            "{least:?}..{most:?}"
        );
    }
}

/// Users first, applications of a user second: a and b of one user get a quarter each, c of the other half.
#[test]
fn groups_nest() {
    let cfs = Cfs::kernel49(8);
    for (group, parent) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)] {
        cfs.group(group, parent);
    }
    let apps = [
        cfs.hogs(&[0; 3], 3),
        cfs.hogs(&[0], 4),
        cfs.hogs(&[0; 2], 5),
    ];
    cfs.drive(20_000 * MS);
    let share = |tasks: &[i64]| {
        tasks
            .iter()
            .map(|t| cfs.call("t_sum_exec", &[*t]))
            .sum::<i64>()
            * 100
            / (20_000 * MS)
    };
    let shares = apps.each_ref().map(|tasks| share(tasks));
    assert!(
        shares
            .iter()
            .zip([25, 25, 50])
            .all(|(got, want)| (got - want).abs() <= 1),
        "{shares:?}"
    );
}

#[test]
fn shares_follow_the_load() {
    for (here, all, weight) in [(80, 80, 1024), (40, 80, 512), (1, 80, 12), (1, 512, 2)] {
        let cfs = Cfs::kernel49(8);
        cfs.group(1, 0);
        assert_eq!(
            cfs.call("t_shares", &[1, 0, here * 1024, all * 1024]),
            weight,
            "{here} of {all}"
        );
    }
}

#[test]
fn a_group_weighs_its_shares_on_one_cpu() {
    let cfs = Cfs::kernel49(8);
    cfs.call("t_group", &[1, 0, 3072]);
    cfs.hogs(&[0; 5], 1);
    assert_eq!(
        cfs.call("t_weight", &[cfs.call("t_group_entity", &[1, 0])]),
        3072
    );
}

#[test]
fn new_shares_count_from_the_next_tick() {
    let cfs = Cfs::kernel49(8);
    cfs.group(1, 0);
    let member = cfs.hogs(&[0], 1)[0];
    let other = cfs.queued(0, 0);
    assert_eq!(
        (cfs.slice(member), cfs.slice(other)),
        (11_999_991, 11_999_994)
    );
    cfs.call("t_set_shares", &[1, 3072]);
    assert_eq!(cfs.switch(0), member);
    cfs.call("t_tick", &[member, MS]);
    // 24 ms * 1024 / 4096.
    assert_eq!(cfs.slice(other), 5_999_994);
}

#[test]
fn pelt_ramp() {
    let table = [
        (1, 21),
        (2, 42),
        (4, 83),
        (8, 159),
        (16, 293),
        (32, 501),
        (64, 751),
        (128, 939),
        (345, 1001),
    ];
    for (segments, average) in table {
        let cfs = Cfs::kernel49(1);
        let (crossed, out) = cfs.call_all("t_pelt", &[segments * SEGMENT, 1024, 1]);
        assert_eq!(
            (crossed, out[0], out[1]),
            (1, average, average),
            "{segments} segments"
        );
    }
    // In steps of one segment the rounding differs.
    let cfs = Cfs::kernel49(1);
    let stepped: Vec<i64> = (1..=345)
        .map(|k| cfs.call_all("t_pelt", &[k * SEGMENT, 1024, 1]).1[1])
        .collect();
    assert_eq!((stepped[63], stepped[127], stepped[344]), (752, 940, 1002));
}

#[test]
fn pelt_decay() {
    let table = [
        (1, 1002),
        (8, 861),
        (16, 724),
        (32, 511),
        (64, 255),
        (96, 127),
        (160, 31),
        (320, 0),
        (5000, 0),
    ];
    for (segments, average) in table {
        let cfs = Cfs::kernel49(1);
        cfs.call("t_pelt_set", &[1]);
        let (_, out) = cfs.call_all("t_pelt", &[segments * SEGMENT, 0, 0]);
        assert_eq!((out[0], out[1]), (average, average), "{segments} segments");
    }
}

#[test]
fn pelt_is_renewed_at_segment_boundaries_only() {
    let cfs = Cfs::kernel49(1);
    assert_eq!(
        cfs.call_all("t_pelt", &[SEGMENT - 1024, 1024, 1]),
        (0, [0, 0, 1, 0, 0, 0, 0, 0])
    );
    assert_eq!(cfs.call_all("t_pelt", &[SEGMENT, 1024, 1]).0, 1);
}

/// Steady state of on/off patterns against the closed form; the averages lag by up to one segment.
#[test]
fn pelt_of_periodic_tasks() {
    let table = [
        (10, 10, 564.7, 459.3),
        (5, 5, 538.4, 485.6),
        (1, 9, 112.2, 93.1),
        (9, 1, 930.9, 911.8),
        (100, 100, 908.8, 115.2),
    ];
    for (on_ms, off_ms, peak, trough) in table {
        let cfs = Cfs::kernel49(1);
        let (mut now, mut high, mut low) = (0, 0, 0);
        for _ in 0..4000 / (on_ms + off_ms) {
            now += on_ms * MS;
            high = cfs.call_all("t_pelt", &[now, 1024, 1]).1[1];
            now += off_ms * MS;
            low = cfs.call_all("t_pelt", &[now, 0, 0]).1[1];
        }
        assert!(
            (high as f64 - peak).abs() <= 22.0,
            "{on_ms}/{off_ms}: peak {high}, not {peak}"
        );
        assert!(
            (low as f64 - trough).abs() <= 22.0,
            "{on_ms}/{off_ms}: trough {low}, not {trough}"
        );
    }
}

#[test]
fn new_tasks_halve_what_is_left_of_util() {
    let cfs = Cfs::kernel49(8);
    let utils: Vec<i64> = (0..4)
        .map(|_| cfs.call_all("t_load", &[cfs.queued(0, 0), 0]).1[0])
        .collect();
    // 512 for the first; then min(what is left / 2, the queue's util by weight).
    assert_eq!(utils, [512, 256, 128, 64]);
    let (load, out) = cfs.call_all("t_queue_load", &[0, 0]);
    assert_eq!((load, out[0]), (4096, 4096));
}

/// Waiting is no use of a CPU: a half-life in the queue halves the util, and the turn that follows does not count it.
#[test]
fn util_counts_running_only() {
    let cfs = Cfs::kernel49(8);
    let tasks = cfs.hogs(&[0, 0], 0);
    let util = |task, now| cfs.call_all("t_load", &[task, now]).1[0];
    assert_eq!(cfs.switch(0), tasks[0]);
    assert_eq!((util(tasks[0], 0), util(tasks[1], 0)), (512, 256));
    let now = 32 * SEGMENT;
    cfs.call("t_dequeue", &[tasks[0], now, SLEEP]);
    assert_eq!(cfs.switch(now), tasks[1]);
    let (ran, waited) = (util(tasks[0], now), util(tasks[1], now));
    assert!(
        (ran - 768).abs() <= 22 && (waited - 128).abs() <= 2,
        "{ran}, {waited}"
    );
}

#[test]
fn blocked_load_stays_in_the_queue_and_decays() {
    let cfs = Cfs::kernel49(8);
    let tasks = cfs.hogs(&[0, 0], 0);
    cfs.call("t_dequeue", &[tasks[0], 0, SLEEP]);
    let (load, out) = cfs.call_all("t_queue_load", &[0, 0]);
    assert_eq!((load, out[0]), (2048, 1024));
    // After a half-life: one whole, one half.
    cfs.call("t_load", &[tasks[1], 32 * SEGMENT]);
    let (load, out) = cfs.call_all("t_queue_load", &[0, 0]);
    assert!((load - 1536).abs() <= 2 * 22, "{load}");
    assert!((out[0] - 1024).abs() <= 22, "{}", out[0]);
}

/// The README's table of tunables, presets.toml and the source name the same things.
#[test]
fn readme_and_presets_know_the_tunables() {
    let readme = include_str!("../README.md");
    let table = readme
        .split("## Tunables")
        .nth(1)
        .expect("a section on tunables");
    // Those of the header layers are not ours to explain.
    let own = |name: &&String| !name.starts_with("__") && !name.starts_with("tilt_");
    for name in vectors().tunables.keys().filter(own) {
        assert!(
            table.contains(&format!("| `{name}` |")),
            "README.md does not explain {name}"
        );
    }
    let presets = presets("cfs");
    assert!(
        ["cfs", "cfs_kernel49", "cfs_flat", "cfs_2009"]
            .iter()
            .all(|name| presets.contains_key(*name))
    );
    for name in presets.keys().filter(|name| *name != "kernel") {
        assert!(
            readme.contains(&format!("| `{name}` |")),
            "README.md does not explain preset {name}"
        );
        Cfs::new(&preset(name), 1, 1);
    }
}

/// The average idle time moves by an eighth, up to twice what a search for tasks costs at most: a CPU that once slept for long does
/// not search at every short pause.
#[test]
fn long_idle_times_are_cut() {
    let cfs = Cfs::kernel49(8);
    for (avg_us, idle_us, cost_us, after_us) in [
        (100, 20, 500, 90),
        (100, 900, 500, 200),
        (100, 8_000_000, 500, 1000),
        (1000, 8_000_000, 500, 1000),
        (1000, 200, 50, 100),
    ] {
        let words = [avg_us, idle_us, cost_us].map(|us| us * 1000);
        let got = cfs.call("t_avg_idle", &words);
        assert_eq!(got, after_us * 1000, "{avg_us} {idle_us} {cost_us}");
    }
}
