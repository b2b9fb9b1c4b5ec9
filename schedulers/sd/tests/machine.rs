// SPDX-License-Identifier: GPL-2.0-or-later
//! Whole runs in the simulated machine: SD as sched_ext calls it.

use super::recorded::{RECORDS, int};
use serde_json::{Value, json};
use tiltyard_schedtest::races::races;
use tiltyard_schedtest::{Lab, Ran, costed, globals, ideal, object, parse, source, telling};

const RR: (&str, i128) = ("rr_interval", 6);

fn ran(workload: &Value, ms: u64, tunables: &[(&str, i128)]) -> Ran {
    let machine = ideal("package:1 core:1 pu:1", 1000);
    let globals = globals(&[&[RR], tunables].concat());
    let mut lab = Lab::new(&machine, object("sd", 2));
    lab.globals = &globals;
    lab.duration_ns = Some(ms * 1_000_000);
    lab.run(&parse(&workload.to_string())).expect("a run")
}

fn runtime_ms(ran: &Ran, name: &str) -> f64 {
    let tasks = ran.summary.tasks.iter().filter(|t| t.name == name);
    tasks.map(|t| t.runtime_ns as f64 / 1e6).sum()
}

/// The recorded schedules of tasks that only compute, or compute and sleep, under the callbacks: all get what they got in the
/// original, but for a quota or two: here they do not begin at the very same moment.
#[test]
fn recorded_schedules_in_the_simulated_machine() {
    let mut nr = 0;
    let plain = |r: &&Value| {
        let tasks = r["in"]["tasks"].as_array().expect("tasks");
        let takes_time = |op: &Value| op[0] == "run" || op[0] == "sleep" && op[2] == 1;
        let plain = |t: &Value| {
            let normal = t["pol"].is_null() || t["pol"] == "batch";
            normal
                && t["prog"]
                    .as_array()
                    .expect("operations")
                    .iter()
                    .all(takes_time)
        };
        r["topo"] == "up" && r["in"]["hz"] == 1000 && tasks.iter().all(plain)
    };
    for r in RECORDS
        .iter()
        .filter(|r| r["kind"] == "trace")
        .filter(plain)
    {
        let mut tasks = serde_json::Map::new();
        for (i, t) in r["in"]["tasks"]
            .as_array()
            .expect("tasks")
            .iter()
            .enumerate()
        {
            let mut phase = serde_json::Map::new();
            for (at, op) in t["prog"].as_array().expect("operations").iter().enumerate() {
                let us = (int(&op[1]) / 1000).min(1_000_000);
                phase.insert(
                    format!("{}{at}", op[0].as_str().expect("a name")),
                    us.into(),
                );
            }
            let policy = match t["pol"] == "batch" {
                true => "SCHED_BATCH",
                false => "SCHED_OTHER",
            };
            let mut task = json!({
                "loop": -1, "policy": policy, "priority": t["nice"],
                "delay": t["start"].as_i64().unwrap_or(0) / 1000 });
            task.as_object_mut().expect("a task").extend(phase);
            tasks.insert(format!("t{i}"), task);
        }
        let workload = json!({ "tasks": tasks, "global": { "duration": 100 } });
        let interactive = ("interactive", int(&r["in"]["interactive"]).into());
        let ms = int(&r["in"]["dur_ns"]) as u64 / 1_000_000;
        let ran = ran(&workload, ms, &[interactive]);
        for last in r["out"]["final"].as_array().expect("tasks") {
            let (name, should) = (format!("t{}", last[0]), int(&last[1]) as f64 / 1e6);
            let is = runtime_ms(&ran, &name);
            assert!(
                (is - should).abs() <= 12.0,
                "{} {name}: {is} ms, not {should}",
                r["id"]
            );
        }
        nr += 1;
    }
    assert_eq!(nr, 21);
}

/// A task that sleeps most of the time runs at once beside ten hogs, except at the beginning of a rotation, when they are on its
/// first level, too: two quotas of each, which is the first slot twice, in a rotation of 21.
#[test]
fn sleepers_do_not_wait_for_hogs_on_worse_levels() {
    let workload = json!({ "tasks": {
        "hog": { "instance": 10, "loop": -1, "run": 1000000 },
        "sleeper": { "loop": -1, "run": 500, "sleep": 30000 } } });
    let ran = ran(&workload, 20_000, &[]);
    let sleeper = ran.summary.tasks.iter().find(|t| t.name == "sleeper");
    let wakeup = &sleeper.expect("sleeper").wakeup;
    let [p50_ms, max_ms] = [wakeup.p50_ns, wakeup.max_ns].map(|ns| ns as f64 / 1e6);
    assert!(p50_ms < 0.1, "{p50_ms} ms");
    assert!((30.0..=127.0).contains(&max_ms), "{max_ms} ms");
}

/// SCHED_IDLE tasks get nothing beside a hog; with the guard of real kernels, a turn in each rotation.
#[test]
fn idle_tasks_run_when_nobody_else_does() {
    let workload = json!({ "tasks": {
        "hog": { "loop": 1, "run": 5000000 },
        "idle": { "loop": -1, "policy": "SCHED_IDLE", "run": 100000 } } });
    let with = ran(&workload, 4_000, &[("rotation_limit_ms", 8000)]);
    assert!(runtime_ms(&with, "idle") > 20.0);
    assert!(runtime_ms(&with, "idle") < 80.0);
    let without = ran(&workload, 4_000, &[]);
    assert!(
        runtime_ms(&without, "idle") < 7.0,
        "{}",
        runtime_ms(&without, "idle")
    );
    let then = ran(&workload, 6_000, &[]);
    assert!(runtime_ms(&then, "idle") > 990.0, "when the hog is gone");
}

/// Whoever yields waits until all others have expired.
#[test]
fn who_yields_waits_for_the_next_rotation() {
    let workload = json!({ "tasks": {
        "hog": { "loop": -1, "run": 1000000 },
        "polite": { "loop": -1, "run": 2000, "yield": "" } } });
    let ran = ran(&workload, 4_000, &[]);
    // 2 ms of 128 in each rotation.
    let share = runtime_ms(&ran, "polite") / 40.0;
    assert!((1.2..2.2).contains(&share), "{share} %");
}

/// A build of short-lived processes gets no more than the hog beside it: children have half of what their parent has left.
#[test]
fn forks_create_no_time() {
    let workload = json!({ "tasks": {
        "hog": { "loop": -1, "run": 1000000 },
        "make": { "loop": -1, "tiltyard": { "run": 200, "spawn": { "task": "cc", "count": 1 }, "join": true } },
        "cc": { "instance": 0, "loop": 1, "run": 2000 } } });
    let ran = ran(&workload, 10_000, &[]);
    let hog = runtime_ms(&ran, "hog") / 100.0;
    assert!((40.0..60.0).contains(&hog), "{hog} %");
}

/// The other mode and the guard; the check of all shipped schedulers has the rest.
#[test]
fn no_mode_has_data_races() {
    let object = telling(&source("sd"));
    for set in [
        &[("mode", 1)][..],
        &[("rotation_limit_ms", 50)],
        &[("interactive", 0)],
    ] {
        assert_eq!(races(&object, &globals(set)), []);
    }
}

/// A hog on each CPU and one more: all get the same within a few rotations.
#[test]
fn five_hogs_share_four_cpus() {
    let machine = costed("package:1 core:4 pu:1", 250);
    let mut lab = Lab::new(&machine, object("sd", 2));
    lab.duration_ns = Some(20_000_000_000);
    let workload = json!({ "tasks": { "hog": { "instance": 5, "loop": -1, "run": 1000000 } } });
    let ran = lab.run(&parse(&workload.to_string())).expect("a run");
    let wasted_ns: u64 = ran.summary.cpus.iter().filter_map(|c| c.wasted_ns).sum();
    assert!(wasted_ns < 100_000_000, "{wasted_ns} ns wasted");
}
