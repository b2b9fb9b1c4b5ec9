// SPDX-License-Identifier: GPL-2.0-or-later
//! What no record shows: places in the queue, and what happens while a task is in nobody's sight.

use crate::bfs::fake::{Given, Machine, Records};
use serde_json::{Value, json};
use tiltyard_schedtest::mutations::Altered;

const NOW_US: i64 = 1_000_000;

/// CPUs in one cache, each of which runs a hog (tids from 20 on) with this deadline; and tasks that wait, in this order.
fn crowd(tunables: &[(&str, i128)], hogs: i64, deadline: i64, waiting: &[i64]) -> Machine {
    let r = json!({ "in": { "topo": "mc2", "hz": 1000, "rr": 6 } });
    let mut m = Records::read().machine(&r, tunables);
    m.set_now(NOW_US * 1000);
    let mut tasks = Vec::new();
    for cpu in 0..hogs {
        tasks.push(json!([
            20 + cpu,
            "N",
            0,
            0,
            6000,
            deadline,
            NOW_US,
            null,
            cpu,
            "r"
        ]));
    }
    for (at, tid) in waiting.iter().enumerate() {
        let deadline = 1100 + at;
        tasks.push(json!([
            tid, "N", 0, 0, 6000, deadline, NOW_US, null, 0, "q"
        ]));
    }
    m.place(&json!({ "kind": "", "in": { "tasks": tasks } }), Given::of);
    m
}

fn queue(m: &mut Machine) -> Vec<i64> {
    m.queues().remove("101").unwrap_or_default()
}

/// Another nice value: to the tail. Another mask: the order stays.
#[test]
pub fn changed_tasks_and_their_places() {
    let mut m = crowd(&[], 2, 1030, &[1, 2, 3]);
    m.set_mask(2, 0b10);
    assert_eq!(queue(&mut m), [1, 2, 3]);
    m.set_mask(1, 0b10);
    assert_eq!(queue(&mut m), [1, 2, 3]);
    m.set_nice(1, 5);
    assert_eq!(queue(&mut m), [2, 3, 1]);
    m.set_nice(3, -5);
    assert_eq!(queue(&mut m), [2, 1, 3]);
}

/// A task that is being changed is in no CPU's sight. One that goes idle meanwhile is woken afterwards, another one is not.
#[test]
pub fn a_cpu_that_goes_idle_during_a_change_looks_again() {
    for goes_idle in [false, true] {
        let mut m = crowd(&[], 1, 1030, &[1]);
        m.marked.clear();
        m.begin_change(1);
        if goes_idle {
            m.sleep(0, 1);
            assert_eq!(m.schedule(0), None);
        }
        m.end_change(1);
        assert_eq!(m.marked.is_empty(), !goes_idle);
        if goes_idle {
            m.settle();
            assert!(m.cpu_of(1).is_some());
        }
    }
}

/// The same of a task that has lost its CPU to another one and is not yet back in the queue.
#[test]
pub fn a_cpu_that_goes_idle_during_a_switch_looks_again() {
    let mut m = crowd(&[], 2, 1200, &[1]);
    // CPU 0 takes task 1; CPU 1 finds nothing before task 20 is back.
    m.mark(0);
    let met = m.schedule_with(0, |m| {
        m.sleep(1, 1);
        assert_eq!(m.schedule(1), None);
    });
    assert_eq!(met, Some(1));
    assert_eq!(m.marked.first(), Some(&1));
    assert_eq!(m.schedule(1), Some(20));
}

/// Two tasks that wake up at once get two idle CPUs.
#[test]
pub fn an_idle_cpu_is_woken_for_one_task() {
    let mut m = crowd(&[], 0, 0, &[]);
    for tid in [1, 2] {
        let task = json!([tid, "N", 0, 0, 6000, 1050, NOW_US, null, 0, "s"]);
        m.add(&Given::of(&task));
    }
    m.wake(1, 0, false);
    m.wake(2, 0, false);
    assert_eq!(m.marked.len(), 2);
    m.settle();
    assert!(m.cpu_of(1).is_some() && m.cpu_of(2).is_some());
}

/// Another CPU is always faster when we claim an odd one. A task that wakes up, one that is changed and one that no longer
/// sticks take the next best.
#[test]
fn who_loses_a_claim_takes_the_next_best_cpu() {
    let lost = "~bit_of(cpu)) & bit_of(cpu) && !(cpu & 1);";
    let altered = Altered::new("bfs", &[("idle.h", "~bit_of(cpu)) & bit_of(cpu);", lost)]);
    let machine = |version| {
        let r = json!({ "in": { "topo": "pkg2x4", "hz": 1000, "rr": 6 } });
        let mut m = Records::read().machine(&r, &[("version", version)]);
        m.set_now(NOW_US * 1000);
        m
    };
    let add = |m: &mut Machine, tid: i64, mask: Value, cpu: i64, place: &str| {
        let deadline = 5_000_000_000 - 1_000_000_000 * tid;
        let task = json!([tid, "N", 0, 0, 6000, deadline, NOW_US, mask, cpu, place]);
        m.add(&Given::of(&task));
    };
    altered.within(|| {
        let mut m = machine(311);
        add(&mut m, 1, json!(null), 1, "s");
        m.wake(1, 0, false);
        assert_eq!(m.marked, [2].into());

        let mut m = machine(311);
        add(&mut m, 1, json!(null), 1, "q");
        m.enqueue(1, 0);
        m.marked.clear();
        m.set_nice(1, -5);
        assert_eq!(m.marked, [2].into());

        // Task 1 loses CPU 0 to task 2, which loses it to task 3.
        let mut m = machine(464);
        for (tid, mask) in [(1, "ff"), (2, "1"), (3, "1")] {
            add(&mut m, tid, json!(mask), 0, "s");
            m.wake(tid, 0, false);
            assert_eq!(m.schedule(0), Some(tid));
        }
        assert_eq!(m.marked, [2, 4].into());
    });
}

/// 0.464: a task that had to leave its CPU sticks to it: for others its deadline is shifted left by their distance, 2 behind
/// the same cache.
#[test]
pub fn a_preempted_task_sticks() {
    let mut m = crowd(&[("version", 464)], 2, 5_000_000_000, &[]);
    let from = |m: &mut Machine, cpu| {
        let words = [m.address(20), cpu];
        m.call("t_deadline_from", &words)[0]
    };
    let task = json!([1, "N", 0, 0, 6000, 1_000_000_000, NOW_US, "1", 0, "s"]);
    m.add(&Given::of(&task));
    m.wake(1, 0, false);
    assert_eq!(m.schedule(0), Some(1), "it preempts");
    assert_eq!(from(&mut m, 0), 5_000_000_000);
    assert_eq!(from(&mut m, 1), 20_000_000_000);
    // When it gets a CPU, it is free.
    m.sleep(0, 1);
    assert_eq!(m.schedule(0), Some(20));
    assert_eq!(from(&mut m, 1), 5_000_000_000);
}

/// Shifts of a sticky deadline by distance, and the idle CPU that each rank prefers.
#[test]
pub fn distances_of_0464() {
    let r = json!({ "in": { "topo": "smt2x2x2", "hz": 1000, "rr": 6 } });
    let mut m = Records::read().machine(&r, &[("version", 464)]);
    let far: Vec<i64> = [0, 1, 2, 4]
        .map(|cpu| m.call("t_sticky_locality", &[0, cpu])[0])
        .to_vec();
    assert_eq!(far, [0, 1, 2, 3]);
    let shifted = far.iter().map(|far| 5_000_000_000_i64 << far);
    let expected = [
        5_000_000_000,
        10_000_000_000,
        20_000_000_000,
        40_000_000_000,
    ];
    assert!(shifted.eq(expected));
}
