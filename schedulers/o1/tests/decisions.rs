// SPDX-License-Identifier: GPL-2.0-or-later
//! What O(1) decides on one CPU, record by record (see recorded.rs), through the handles of decisions.bpf.c.

use super::recorded::*;
use serde_json::Value;

/// Slices, weights, and what makes a task interactive, by nice value. Rows about realtime priorities are left out.
#[test]
fn numbers_of_nice_values() {
    RECORDS.check("static", 165, 5, |machines, r| {
        let (with, out) = (&r["in"], &r["out"]);
        if !with["rtprio"].is_null() {
            return None;
        }
        let m = machines.up(int(&with["hz"]));
        m.add(&Task {
            nice: int(&with["nice"]),
            ..Task::new(0)
        });
        let w = m.call("t_numbers", &[FIRST]);
        let of = |key: &str| int(&out[key]);
        Some(differs(
            "slice, weight, delta, ceiling",
            &[w[0], w[1], w[2], w[3]],
            &[of("slice"), of("weight"), of("delta"), of("isleep")],
        ))
    });
}

#[test]
pub fn priorities() {
    RECORDS.check("prio", 220, 0, |machines, r| {
        let (with, out) = (&r["in"], &r["out"]);
        let m = machines.get("up", int(&with["hz"]), int(&with["ncpu"]));
        m.add(&Task {
            nice: int(&with["nice"]),
            savg: int(&with["savg"]),
            prio: int(&with["have"]),
            ..Task::new(0)
        });
        let w = m.call("t_numbers", &[FIRST]);
        let of = |key: &str| int(&out[key]);
        Some(differs(
            "bonus, prio, interactive, granularity",
            &[w[4], w[5], w[6], w[7]],
            &[of("bonus"), of("prio"), of("inter"), of("gran")],
        ))
    });
}

#[test]
fn sleep() {
    RECORDS.check("recalc", 240, 0, |machines, r| {
        let (with, out) = (&r["in"], &r["out"]);
        let m = machines.up(int(&with["hz"]));
        m.add(&Task {
            nice: int(&with["nice"]),
            savg: int(&with["savg"]),
            sleep_type: sleep_type(&with["type"]),
            user: int(&with["mm"]) != 0,
            batch: with["pol"] == "batch",
            ..Task::new(0)
        });
        let prio = m.call("t_recalc", &[FIRST, int(&with["sleep"])])[2];
        let seen = m.seen(0);
        Some(differs(
            "sleep_avg, type, prio",
            &(seen.savg, seen.sleep_type, prio),
            &(
                int(&out["savg"]),
                sleep_type(&out["type"]),
                int(&out["prio"]),
            ),
        ))
    });
}

/// The running task is charged when its CPU chooses, or when it blocks.
#[test]
fn run_time() {
    RECORDS.check("charge", 170, 0, |machines, r| {
        let (with, out) = (&r["in"], &r["out"]);
        let m = machines.up(int(&with["hz"]));
        m.add(&Task {
            nice: int(&with["nice"]),
            savg: int(&with["savg"]),
            timestamp: NOW - int(&with["ran"]),
            ..Task::new(0)
        });
        m.enqueue(&[0], false);
        m.set_cpu(0, 0, 0, 140, NOW);
        if int(&with["block"]) != 0 {
            m.call("t_block", &[FIRST, NOW, 0]);
        }
        let next = m.call("t_schedule", &[0, NOW])[2] - FIRST;
        let seen = m.seen(0);
        Some(differs(
            "next, sleep_avg, prio",
            &(next, seen.savg, seen.prio),
            &(or_none(&out["next"]), int(&out["savg"]), int(&out["prio"])),
        ))
    });
}

/// One tick of task 0. Those of realtime tasks are left out.
#[test]
pub fn ticks() {
    RECORDS.check("tick", 265, 27, |machines, r| {
        let (with, out) = (&r["in"], &r["out"]);
        if is_realtime(&with["pol"]) {
            return None;
        }
        let m = machines.get("up", int(&with["hz"]), int(&with["ncpu"]));
        m.add(&Task {
            nice: int(&with["nice"]),
            prio: int(&with["prio"]),
            slice: int(&with["slice"]),
            savg: int(&with["savg"]),
            batch: with["pol"] == "batch",
            first: int(&with["first"]) != 0,
            ..Task::new(0)
        });
        m.enqueue(&[0], int(&with["cur_on_expired"]) != 0);
        for other in list(&with["queued"]) {
            let (id, prio) = (int(&other[0]), int(&other[1]));
            m.add(&Task {
                prio,
                ..Task::new(id)
            });
            m.enqueue(&[id], int(&other[2]) != 0);
        }
        m.set_cpu(0, 0, int(&with["exp_ts"]), int(&with["best_exp"]), NOW);
        let starving = m.call("t_tick", &[0, int(&with["jiffies"]), NOW])[3];
        Some(after_tick(m, out, starving))
    });
}

fn after_tick(m: &mut Machine, out: &Value, starving: i64) -> Result<(), String> {
    let (seen, cpu) = (m.seen(0), m.seen_cpu(0));
    let of = |key: &str| int(&out[key]);
    differs("starving", &starving, &of("starving"))?;
    differs(
        "slice, prio, first, resched",
        &[seen.slice, seen.prio, seen.first.into(), cpu.resched.into()],
        &[of("slice"), of("prio"), of("first"), of("resched")],
    )?;
    differs(
        "expired since, best",
        &[cpu.expired_timestamp, cpu.best_expired],
        &[of("exp_ts"), of("best_exp")],
    )?;
    m.arrays_differ(0, &out["active"], &out["expired"])
}

/// The choice of a CPU: swap, credit for the wait, charge. Records with realtime tasks are left out.
#[test]
pub fn choices() {
    RECORDS.check("pick", 165, 29, |machines, r| {
        let (with, out) = (&r["in"], &r["out"]);
        if list(&with["tasks"])
            .iter()
            .any(|task| is_realtime(&task[2]))
        {
            return None;
        }
        let m = machines.up(1000);
        for task in list(&with["tasks"]) {
            m.add(&Task {
                nice: int(&task[1]),
                batch: task[2] == "batch",
                prio: int(&task[3]),
                slice: int(&task[4]),
                savg: int(&task[5]),
                timestamp: NOW - int(&task[6]),
                sleep_type: sleep_type(&task[7]),
                user: int(&task[8]) != 0,
                ..Task::new(int(&task[0]))
            });
        }
        m.enqueue(&ints(&with["active"]), false);
        m.enqueue(&ints(&with["expired"]), true);
        let curr = or_none(&with["curr"]);
        m.set_cpu(0, curr, int(&with["exp_ts"]), int(&with["best_exp"]), NOW);
        let before = m.seen_cpu(0).which_active;
        let block = int(&with["block"]);
        if block != 0 {
            m.call("t_block", &[curr + FIRST, NOW, i64::from(block == 2)]);
        }
        let next = m.call("t_schedule", &[0, NOW])[2] - FIRST;
        if next < 0 {
            m.call("t_idles", &[0]);
        }
        let swapped = m.seen_cpu(0).which_active != before;
        Some(after_choice(m, out, next, swapped))
    });
}

fn after_choice(m: &mut Machine, out: &Value, next: i64, swapped: bool) -> Result<(), String> {
    let cpu = m.seen_cpu(0);
    let of = |key: &str| int(&out[key]);
    differs(
        "next, swapped",
        &(next, swapped),
        &(or_none(&out["next"]), of("swapped") != 0),
    )?;
    differs(
        "expired since, best",
        &[cpu.expired_timestamp, cpu.best_expired],
        &[of("exp_ts"), of("best_exp")],
    )?;
    m.arrays_differ(0, &out["active"], &out["expired"])?;
    for task in list(&out["tasks"]) {
        let id = int(&task[0]);
        let seen = m.seen(id);
        differs(
            &format!("task {id}: prio, sleep_avg, since its timestamp, type"),
            &(seen.prio, seen.savg, NOW - seen.timestamp, seen.sleep_type),
            &(
                int(&task[1]),
                int(&task[2]),
                int(&task[3]),
                sleep_type(&task[4]),
            ),
        )?;
    }
    Ok(())
}

/// Task 0, which runs, creates task 9. The sleep type of the child is that of its parent, of which the record does not
/// say what it was: it is taken from the result.
#[test]
pub fn forks() {
    const CHILD: i64 = 9;
    RECORDS.check("fork", 155, 0, |machines, r| {
        let (with, out) = (&r["in"], &r["out"]);
        let m = machines.up(1000);
        let nice = int(&with["nice"]);
        m.add(&Task {
            nice,
            savg: int(&with["savg"]),
            prio: int(&with["prio"]),
            slice: int(&with["slice"]),
            first: int(&with["first"]) != 0,
            sleep_type: sleep_type(&out["child"]["type"]),
            ..Task::new(0)
        });
        m.add(&Task {
            nice,
            ..Task::new(CHILD)
        });
        for other in list(&with["others"]) {
            m.add(&Task {
                prio: int(&other[1]),
                ..Task::new(int(&other[0]))
            });
        }
        m.enqueue(&ints(&with["active"]), false);
        m.enqueue(&ints(&with["expired"]), true);
        m.set_cpu(0, 0, int(&with["exp_ts"]), 140, NOW);
        let now = int(&with["jiffies"]) * 1_000_000;
        let (parent, child) = (FIRST, CHILD + FIRST);
        m.call("t_fork", &[child, parent, now, int(&with["vm"]), 0]);
        let split = after_split(m, &out["after_split"], CHILD);
        m.call("t_wake_new", &[child, now]);
        Some(split.and_then(|()| after_fork(m, out, CHILD)))
    });
}

fn after_split(m: &mut Machine, out: &Value, child: i64) -> Result<(), String> {
    let (parent, resched) = (m.seen(0), m.seen_cpu(0).resched);
    let of = |key: &str| int(&out[key]);
    differs(
        "slices of parent and child, resched, prio",
        &[
            parent.slice,
            m.seen(child).slice,
            resched.into(),
            parent.prio,
        ],
        &[
            of("parent_slice"),
            of("child_slice"),
            of("resched"),
            of("parent_prio"),
        ],
    )?;
    m.arrays_differ(0, &out["active"], &out["expired"])
}

fn after_fork(m: &mut Machine, out: &Value, child: i64) -> Result<(), String> {
    for (id, name) in [(child, "child"), (0, "parent")] {
        let (seen, should) = (m.seen(id), &out[name]);
        differs(
            &format!("{name}: sleep_avg, prio, slice, first"),
            &[seen.savg, seen.prio, seen.slice, seen.first.into()],
            &["savg", "prio", "slice", "first"].map(|key| int(&should[key])),
        )?;
    }
    differs(
        "type",
        &m.seen(child).sleep_type,
        &sleep_type(&out["child"]["type"]),
    )?;
    let resched = i64::from(m.seen_cpu(0).resched);
    differs("resched", &resched, &int(&out["resched"]))?;
    m.arrays_differ(0, &out["active"], &out["expired"])
}

#[test]
pub fn exits() {
    RECORDS.check("exit", 160, 0, |machines, r| {
        let (with, out) = (&r["in"], &r["out"]);
        let m = machines.up(1000);
        for (id, name) in [(0, "parent"), (1, "child")] {
            let of = ints(&with[name]);
            let elsewhere = id == 1 && int(&with["same_cpu"]) == 0;
            m.add(&Task {
                nice: of[0],
                slice: of[1],
                savg: of[2],
                first: id == 1 && int(&with["first"]) != 0,
                cpu: elsewhere.into(),
                ..Task::new(id)
            });
        }
        m.call("t_exit", &[FIRST, 1 + FIRST]);
        let seen = m.seen(0);
        Some(differs(
            "slice, sleep_avg",
            &[seen.slice, seen.savg],
            &[int(&out["slice"]), int(&out["savg"])],
        ))
    });
}

/// Wakeups on one CPU. Those of realtime tasks are left out.
#[test]
fn wakeups() {
    RECORDS.check("wake", 165, 8, |machines, r| {
        let (with, out) = (&r["in"], &r["out"]);
        if is_realtime(&with["pol"]) {
            return None;
        }
        let m = machines.up(1000);
        let running = or_none(&with["cur_prio"]);
        if running >= 0 {
            m.add(&Task {
                prio: running,
                ..Task::new(0)
            });
            m.enqueue(&[0], false);
            m.set_cpu(0, 0, 0, 140, NOW);
        }
        m.add(&Task {
            nice: int(&with["nice"]),
            savg: int(&with["savg"]),
            timestamp: NOW - int(&with["sleep"]),
            sleep_type: sleep_type(&with["type"]),
            batch: with["pol"] == "batch",
            ..Task::new(1)
        });
        // A sleep for a pipe counts as one for a disk; sched_ext does not say what a task sleeps for.
        let noninteractive = int(&with["state"]) != 1;
        let words = [1 + FIRST, 1, noninteractive.into(), int(&with["sync"])];
        m.call("t_sleeps", &words);
        let resched = m.call("t_wake", &[1 + FIRST, 0, int(&with["irq"]), NOW])[4];
        let seen = m.seen(1);
        let array = i64::from(out["array"] == "expired");
        Some(differs(
            "sleep_avg, prio, type, array, resched",
            &[seen.savg, seen.prio, seen.sleep_type, seen.array, resched],
            &[
                int(&out["savg"]),
                int(&out["prio"]),
                sleep_type(&out["type"]),
                array,
                int(&out["resched"]),
            ],
        ))
    });
}

/// Records with realtime tasks are left out.
#[test]
fn yields() {
    RECORDS.check("yield", 160, 37, |machines, r| {
        let (with, out) = (&r["in"], &r["out"]);
        if list(&with["tasks"]).iter().any(|task| int(&task[1]) < 100) {
            return None;
        }
        let m = machines.up(1000);
        for task in list(&with["tasks"]) {
            m.add(&Task {
                prio: int(&task[1]),
                slice: int(&task[2]),
                ..Task::new(int(&task[0]))
            });
        }
        m.enqueue(&ints(&with["active"]), false);
        m.enqueue(&ints(&with["expired"]), true);
        m.set_cpu(0, 0, int(&with["exp_ts"]), int(&with["best_exp"]), NOW);
        let before = m.seen_cpu(0).which_active;
        m.call("t_yield", &[0]);
        let next = m.call("t_schedule", &[0, NOW])[2] - FIRST;
        let (seen, cpu) = (m.seen(0), m.seen_cpu(0));
        let is = [
            next,
            i64::from(cpu.which_active != before),
            seen.slice,
            cpu.expired_timestamp,
            cpu.best_expired,
        ];
        let should = ["next", "swapped", "slice0", "exp_ts", "best_exp"].map(|key| int(&out[key]));
        let same = differs("next, swapped, slice, expired since, best", &is, &should);
        Some(same.and_then(|()| m.arrays_differ(0, &out["active"], &out["expired"])))
    });
}

/// Task 1 gets another nice value while task 0 or itself runs.
#[test]
fn nice_changes() {
    RECORDS.check("nice", 155, 0, |machines, r| {
        let (with, out) = (&r["in"], &r["out"]);
        let m = machines.up(1000);
        m.add(&Task {
            prio: 120,
            ..Task::new(0)
        });
        m.add(&Task {
            nice: int(&with["nice"]),
            savg: int(&with["savg"]),
            prio: int(&with["prio"]),
            slice: int(&with["slice"]),
            ..Task::new(1)
        });
        m.enqueue(&[0], false);
        let runs = with["state"] == "run";
        if with["state"] != "sleep" {
            m.enqueue(&[1], with["state"] == "expired");
        }
        m.set_cpu(0, i64::from(runs), 0, 140, NOW);
        m.call("t_nice", &[1 + FIRST, int(&with["new"])]);
        let (seen, cpu) = (m.seen(1), m.seen_cpu(0));
        let same = differs(
            "prio, slice, weight, load, resched",
            &[
                seen.prio,
                seen.slice,
                seen.weight,
                cpu.load,
                cpu.resched.into(),
            ],
            &["prio", "slice", "weight", "raw", "resched"].map(|key| int(&out[key])),
        );
        Some(same.and_then(|()| m.arrays_differ(0, &out["active"], &out["expired"])))
    });
}

#[test]
fn load_averages() {
    RECORDS.check("cpuload", 160, 0, |machines, r| {
        let m = machines.up(1000);
        let start = ints(&r["in"]["start"]);
        m.call("t_load", &[0, start[0], start[1], start[2], TICK_0, -1, -1]);
        for (tick, raw) in ints(&r["in"]["raw"]).into_iter().enumerate() {
            let get = m.call("t_load_get", &[0]);
            let before = TICK_0 + tick as i64;
            m.call("t_load", &[0, get[1], get[2], get[3], before, 1, raw]);
            m.call("t_tick", &[0, before + 1, NOW]);
            let is = m.call("t_load_get", &[0])[1..4].to_vec();
            let same = differs("averages", &is, &ints(&r["out"]["load"][tick]));
            if same.is_err() {
                return Some(same);
            }
        }
        Some(Ok(()))
    });
}
