// SPDX-License-Identifier: GPL-2.0-or-later
//! Who gives way to whom, at wakeups and at ticks; whole schedules.

use super::machine::*;
use serde::Deserialize;

#[test]
fn a_wakee_far_enough_behind_preempts() {
    for (sleeper, preempts) in [(96, 0), (95, 1)] {
        let cfs = Cfs::kernel49(8);
        let hog = cfs.queued(0, 100 * MS);
        cfs.set_min_vruntime(0, 100 * MS);
        assert_eq!(cfs.switch(0), hog);
        let wakee = cfs.task(0, sleeper * MS);
        cfs.call("t_enqueue", &[wakee, 0, 1]);
        assert_eq!(
            cfs.call("t_preempts", &[wakee, 0]),
            preempts,
            "{sleeper} ms"
        );
    }
}

#[test]
fn the_running_tasks_vruntime_counts_as_of_now() {
    let cfs = Cfs::kernel49(8);
    cfs.queued(0, 0);
    cfs.switch(0);
    let wakee = cfs.queued(0, 0);
    assert_eq!(cfs.call("t_preempts", &[wakee, 4 * MS]), 0);
    // A preemption that is on its way is enough.
    assert_eq!(cfs.call("t_preempts", &[wakee, 4 * MS + 1, 1]), 0);
    assert_eq!(cfs.call("t_preempts", &[wakee, 4 * MS + 1]), 1);
}

#[test]
fn policies_and_preemption() {
    // Running, wakee, expected; both at vruntimes that let a normal task preempt.
    for (running, wakee, preempts) in [
        (0, 0, 1),
        (0, POLICY_BATCH, 0),
        (0, POLICY_IDLE, 0),
        (POLICY_BATCH, 0, 1),
        (POLICY_IDLE, 0, 1),
        (POLICY_IDLE, POLICY_BATCH, 1),
    ] {
        let cfs = Cfs::kernel49(8);
        let hog = cfs.call("t_task", &[0, running, 0, 0, 100 * MS]);
        cfs.call("t_enqueue", &[hog, 0, 0]);
        cfs.switch(0);
        let other = cfs.call("t_task", &[0, wakee, 0, 0, 0]);
        cfs.call("t_enqueue", &[other, 0, 0]);
        assert_eq!(
            cfs.call("t_preempts", &[other, 0]),
            preempts,
            "{wakee} wakes over {running}"
        );
    }
    // A task of policy SCHED_IDLE loses the CPU whatever the vruntimes.
    let cfs = Cfs::kernel49(8);
    let idle = cfs.call("t_task", &[0, POLICY_IDLE, 0, 0, 0]);
    cfs.call("t_enqueue", &[idle, 0, 0]);
    cfs.switch(0);
    let other = cfs.queued(0, 100 * MS);
    assert_eq!(cfs.call("t_preempts", &[other, 0]), 1);
    assert_eq!(cfs.call("t_weight", &[idle]), 3);
}

/// Preemption is decided where the two paths meet: a group that slept preempts, its member's own vruntime is nothing.
#[test]
fn groups_preempt_as_groups() {
    let cfs = Cfs::kernel49(8);
    cfs.group(1, 0);
    cfs.group(2, 1);
    let hog = cfs.queued(0, 100 * MS);
    cfs.set_min_vruntime(0, 100 * MS);
    assert_eq!(cfs.switch(0), hog);
    let deep = cfs.call("t_task", &[0, 0, 2, 0, 900 * MS]);
    cfs.call("t_enqueue", &[deep, 0, 0]);
    // Both groups were empty: placed as wakees, half a latency behind, whatever brought their task.
    assert_eq!(cfs.vruntime(cfs.call("t_group_entity", &[1, 0])), 88 * MS);
    assert_eq!(cfs.call("t_preempts", &[deep, 0]), 1);
    assert_eq!(cfs.switch(0), deep);
}

#[test]
fn a_lone_task_does_not_give_way() {
    let cfs = Cfs::kernel49(8);
    let alone = cfs.queued(0, 0);
    cfs.switch(0);
    assert_eq!(cfs.call("t_yield", &[alone, MS]), 0);
    let other = cfs.queued(0, 2 * MS);
    assert_eq!(cfs.call("t_yield", &[alone, MS]), 1);
    assert_eq!(cfs.switch(MS), other);
    // vruntime is what the run cost, no more.
    assert_eq!(cfs.vruntime(alone), MS);
}

#[test]
fn the_turn_of_a_lone_task_never_ends() {
    let cfs = Cfs::kernel49(1);
    let alone = cfs.queued(0, 0);
    cfs.switch(0);
    assert!((1..100).all(|k| cfs.call("t_tick", &[alone, k * TICK]) == 0));
}

#[test]
fn golden_schedules() {
    #[derive(Deserialize)]
    struct Golden {
        schedule: Vec<Schedule>,
    }
    #[derive(Deserialize)]
    struct Schedule {
        preset: String,
        cpus: i64,
        nice: Vec<i64>,
        turns: String,
        share_s: Option<i64>,
        shares_pct: Option<Vec<f64>>,
    }
    let golden: Golden = toml::from_str(include_str!("golden.toml")).expect("golden.toml");
    assert!(golden.schedule.len() >= 10);
    for schedule in golden.schedule {
        let cfs = Cfs::new(&preset(&schedule.preset), 1, schedule.cpus);
        let tasks = cfs.hogs(&schedule.nice, 0);
        let total = schedule.share_s.unwrap_or(1) * 1000 * MS;
        let letter =
            |task| char::from(b'A' + tasks.iter().position(|&t| t == task).expect("known") as u8);
        let turns: Vec<String> = cfs
            .drive(total)
            .into_iter()
            .map(|(task, start, end)| format!("{}{}-{}", letter(task), start / MS, end / MS))
            .collect();
        let expected: Vec<&str> = schedule.turns.split_whitespace().collect();
        assert_eq!(
            turns[..expected.len()],
            expected,
            "{} {:?}",
            schedule.preset,
            schedule.nice
        );
        for (task, share) in tasks.iter().zip(schedule.shares_pct.into_iter().flatten()) {
            let got = cfs.call("t_sum_exec", &[*task]) as f64 * 100.0 / total as f64;
            assert!(
                (got - share).abs() < 0.005,
                "{:?}: {got} instead of {share} %",
                schedule.nice
            );
        }
    }
}
