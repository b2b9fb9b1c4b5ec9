// SPDX-License-Identifier: GPL-2.0-or-later
//! What no record shows: callbacks in orders that come from sched_ext, and rules of which there are few records or none.

use crate::bfs::fake::{Given, Machine, Records};
use serde_json::{Value, json};
use tiltyard_native::layout::TaskStruct;

const NOW_US: i64 = 1_000_000;
const LOCAL_WAKE: i64 = 0x401;
const SLICE: i64 = 6000;

fn machine(topology: &str, tunables: &[(&str, i128)]) -> Machine {
    let r = json!({ "in": { "topo": topology, "hz": 1000, "rr": 6 } });
    let mut m = Records::read().machine(&r, tunables);
    m.set_now(NOW_US * 1000);
    m
}

/// A task of nice 0 that sleeps, and ran last on this CPU.
fn add(m: &mut Machine, tid: i64, deadline: i64, cpu: i64, mask: Value) {
    let task = json!([tid, "N", 0, 0, SLICE, deadline, NOW_US, mask, cpu, "s"]);
    m.add(&Given::of(&task));
}

/// Hogs on the first CPUs, from task 20 on, with this deadline.
fn hogs(m: &mut Machine, nr: i64, deadline: i64) {
    for cpu in 0..nr {
        add(m, 20 + cpu, deadline, cpu, Value::Null);
        m.run(20 + cpu, cpu);
    }
    m.marked.clear();
}

fn deadline_from(m: &mut Machine, tid: i64, cpu: i64) -> i64 {
    let words = [m.address(tid), cpu];
    m.call("t_deadline_from", &words)[0]
}

/// A realtime task takes a CPU: that is neither idle nor preempted, and the task that ran there comes back by enqueue().
#[test]
fn a_realtime_task_takes_the_cpu() {
    let mut m = machine("mc2", &[]);
    hogs(&mut m, 1, 1200);
    let p = m.address(20);
    m.callback("bfs_stopping", &[p, 1]);
    assert_eq!(m.copied(0).prio, 0);
    m.enqueue(20, 0);
    assert_eq!(m.marked, [1].into(), "it looks for an idle CPU");
}

/// Without a slice, or the core would keep it for that CPU.
#[test]
fn who_is_driven_off_has_no_slice_of_the_core() {
    let mut m = machine("mc2", &[]);
    hogs(&mut m, 1, 1200);
    let p = m.address(20);
    m.callback("bfs_stopping", &[p, 1]);
    assert_eq!(m.core_slice(20), 0);
}

/// A task has claimed an idle CPU and runs without having been queued. It does not count as provided for when it comes back.
#[test]
fn a_claim_ends_when_the_task_runs() {
    let mut m = machine("mc4", &[("version", 350)]);
    add(&mut m, 1, 1_050_000_000, 0, Value::Null);
    let p = m.address(1);
    assert_eq!(m.callback("bfs_select_cpu", &[p, 0, 8]), 0);
    m.run(1, 1);
    m.callback("bfs_stopping", &[p, 1]);
    m.marked.clear();
    m.enqueue(1, 0);
    assert_eq!(m.marked.len(), 1, "another idle CPU looks");
}

/// The CPU that a task has claimed has found another one before the task is queued.
#[test]
fn a_claimed_cpu_may_have_looked_already() {
    let mut m = machine("mc2", &[]);
    for tid in [1, 2] {
        add(&mut m, tid, 1050, 0, Value::Null);
    }
    let p = m.address(1);
    assert_eq!(m.callback("bfs_select_cpu", &[p, 0, 8]), 0);
    m.run(2, 0);
    m.marked.clear();
    m.enqueue(1, LOCAL_WAKE);
    assert_eq!(m.marked, [1].into());
}

/// The core wakes the CPU on whose runqueue a wakee is; another one needs a kick.
#[test]
fn an_idle_cpu_elsewhere_is_kicked() {
    for (near, marked) in [(0, vec![1]), (1, vec![])] {
        let mut m = machine("mc2", &[]);
        hogs(&mut m, 1, 1200);
        add(&mut m, 1, 1100, near, Value::Null);
        m.set_rq(1, near);
        m.enqueue(1, LOCAL_WAKE);
        assert_eq!(m.marked, marked.into_iter().collect(), "CPU {near}");
    }
}

/// All CPUs run hogs that are equal. Of equals the task's last CPU makes way: the one that it ran on since, not the one that
/// it had to leave before.
#[test]
fn a_cpu_that_had_to_be_left_is_forgotten() {
    let mut m = machine("pkg2x2", &[]);
    add(&mut m, 1, 1300, 0, Value::Null);
    hogs(&mut m, 4, 1200);
    m.enqueue(1, 0);
    m.set_mask(1, 0b1110);
    m.sleep(3, 1);
    m.marked.clear();
    m.run(1, 3);
    m.sleep(3, 1);
    m.run(23, 3);
    m.marked.clear();
    let p = m.address(1);
    m.call("t_task", &[p, SLICE, 1100, NOW_US * 1000, 0, 3, 0]);
    m.wake(1, 0, false);
    assert_eq!(m.marked, [3].into());
}

/// A sleeper that may no longer run on its last CPU is near the one that it is given.
#[test]
fn a_sleeper_with_another_mask_is_near_its_new_cpu() {
    let mut m = machine("pkg2x2", &[]);
    hogs(&mut m, 4, 1200);
    add(&mut m, 1, 1180, 0, Value::Null);
    m.set_mask(1, 0b1100);
    m.marked.clear();
    m.wake(1, 0, false);
    assert_eq!(m.marked, [2].into(), "the distance to CPU 0 does not count");
}

/// The guard lets a task run only where it may.
#[test]
fn a_rescued_task_stays_where_it_may_run() {
    let mut m = machine("mc2", &[("starve_limit_ms", 10)]);
    hogs(&mut m, 2, 1200);
    add(&mut m, 1, 9000, 0, json!("1"));
    m.enqueue(1, LOCAL_WAKE);
    m.set_now(NOW_US * 1000 + 10_000_000);
    m.mark(1);
    assert_eq!(m.schedule(1), Some(21));
    m.mark(0);
    assert_eq!(m.schedule(0), Some(1));
}

/// 0.350: the task that a CPU ran last is near to it, even if the CPU has idled since.
#[test]
fn an_idle_cpu_remembers_its_last_task() {
    let mut m = machine("sep2", &[("version", 350)]);
    hogs(&mut m, 1, 1_200_000_000);
    m.sleep(0, 1);
    assert_eq!(m.schedule(0), None);
    m.run(20, 1);
    assert_eq!(deadline_from(&mut m, 20, 0), m.told(20).deadline);
}

/// 0.464: a task that has stuck to a CPU and sticks to another one since is not freed by the next one of the first CPU; nor
/// does a task free itself.
#[test]
fn a_task_is_freed_by_its_successor_only() {
    let mut m = machine("mc2", &[("version", 464)]);
    hogs(&mut m, 2, 5_000_000_000);
    let wake = |m: &mut Machine, tid: i64, cpu: i64| {
        add(
            m,
            tid,
            1_000_000_000 - tid,
            cpu,
            json!((1 << cpu).to_string()),
        );
        m.wake(tid, cpu, false);
        assert_eq!(m.schedule(cpu), Some(tid));
    };
    let shift =
        |m: &mut Machine, tid: i64, cpu: i64| deadline_from(m, tid, cpu) / m.told(tid).deadline;
    // Task 20 sticks to CPU 0, runs there once more, and sticks to it again.
    wake(&mut m, 1, 0);
    assert_eq!(shift(&mut m, 20, 1), 4);
    m.sleep(0, 1);
    assert_eq!(m.schedule(0), Some(20));
    wake(&mut m, 2, 0);
    assert_eq!(shift(&mut m, 20, 1), 4);
    // It runs on CPU 1 and sticks to that one. Then task 2 sticks to CPU 0.
    m.sleep(1, 1);
    assert_eq!(m.schedule(1), Some(20));
    wake(&mut m, 3, 1);
    assert_eq!(shift(&mut m, 20, 0), 4);
    wake(&mut m, 4, 0);
    assert_eq!(shift(&mut m, 20, 0), 4);
}

/// 0.464 compares deadlines as they are: a CPU far away makes way even if its deadline is later by next to nothing.
#[test]
fn no_distance_shields_a_victim_in_0464() {
    let mut m = machine("pkg2x2", &[("version", 464)]);
    for cpu in 0..4 {
        let later = if cpu == 2 { 10 } else { 0 };
        add(&mut m, 20 + cpu, 5_000_000_000 + later, cpu, Value::Null);
        m.run(20 + cpu, cpu);
    }
    add(&mut m, 1, 1_000_000_000, 0, Value::Null);
    let p = m.address(1);
    m.marked.clear();
    m.enqueue(1, 0);
    assert_eq!(m.call("t_find_cpu", &[p, 0])[..2], [2, 1]);
}

/// 0.350: a slice ends at the tick that is nearer to its end, if it began in the first half of a tick.
#[test]
fn slices_of_0350_end_at_the_nearer_tick() {
    // A jiffy is 976 units; the first sample costs one.
    for (began_us, left, over) in [(300, 450, true), (300, 500, false), (700, 450, false)] {
        let mut m = machine("up1", &[("version", 350)]);
        hogs(&mut m, 1, 5_000_000_000);
        m.tick(0);
        add(&mut m, 1, 1_000_000_000, 0, Value::Null);
        let p = m.address(1);
        m.call("t_task", &[p, 976 + left, 1_000_000_000, 0, 0, 0, 0]);
        m.set_now((NOW_US + began_us) * 1000);
        m.wake(1, 0, false);
        assert_eq!(m.schedule(0), Some(1));
        m.set_now((NOW_US + 1000) * 1000);
        m.marked.clear();
        m.tick(0);
        assert_eq!(!m.marked.is_empty(), over, "{began_us} us, {left} units");
    }
}

/// A parent that has just lost its CPU shares its slice all the same.
#[test]
fn a_parent_that_waits_shares_its_slice() {
    let mut m = machine("up1", &[]);
    hogs(&mut m, 1, 1200);
    add(&mut m, 1, 1300, 0, Value::Null);
    m.enqueue(1, 0);
    let child = json!([2, "N", 0, 0, 0, 0, 0, null, 0, "s"]);
    m.fork(1, &Given::of(&child), false, 0);
    assert_eq!([1, 2].map(|tid| m.told(tid).slice), [SLICE / 2; 2]);
}

/// Usage below which a throttled task is isochronous again: 90 % of the limit, 115/128 of it since 0.350.
#[test]
fn the_throttle_ends() {
    let period = 5 * 1000 + 1;
    for (version, percent, off) in [
        (311, 62, true),
        (311, 63, false),
        (350, 61, true),
        (350, 62, false),
    ] {
        let mut m = machine("up1", &[("version", version)]);
        m.call("t_iso", &[percent * period + 1000, 1]);
        m.call("t_iso_tick", &[0]);
        assert_eq!(
            m.call("t_iso_get", &[])[1] == 0,
            off,
            "{version}: {percent} %"
        );
    }
}

/// A task is gone at the moment when its CPU hands it over: the next one runs.
#[test]
pub fn who_cannot_be_handed_over_leaves_the_cpu_to_the_next() {
    let mut m = machine("up1", &[]);
    for (tid, deadline) in [(1, 1100), (2, 1200)] {
        add(&mut m, tid, deadline, 0, Value::Null);
        m.enqueue(tid, LOCAL_WAKE);
    }
    let gone = m.address(1) as *mut TaskStruct;
    // SAFETY: the address of a task of this kernel.
    unsafe { (*gone).pid = i32::MAX };
    m.mark(0);
    assert_eq!(m.schedule(0), Some(2));
}

/// 0.464: the idle CPU that is woken for a task which sticks no more is woken once.
#[test]
pub fn an_idle_cpu_is_woken_once_for_a_freed_task() {
    let mut m = machine("pkg2x4", &[("version", 464)]);
    for (tid, mask) in [(1, "ff"), (2, "1"), (3, "1")] {
        add(
            &mut m,
            tid,
            5_000_000_000 - 1_000_000_000 * tid,
            0,
            json!(mask),
        );
        m.wake(tid, 0, false);
        assert_eq!(m.schedule(0), Some(tid));
    }
    assert!(!m.marked.is_empty());
    m.marked.clear();
    m.mark(0);
    m.schedule(0);
    assert!(m.marked.is_empty(), "{:?}", m.marked);
}

/// Slices end in tick(): the core's is far beyond any.
#[test]
pub fn the_core_has_no_say_in_slices() {
    let mut m = machine("up1", &[("rr_interval", 5000)]);
    add(&mut m, 1, 1100, 0, Value::Null);
    m.enqueue(1, LOCAL_WAKE);
    m.mark(0);
    assert_eq!(m.schedule(0), Some(1));
    assert!(m.core_slice(1) > 100_000_000_000, "{} ns", m.core_slice(1));
}

/// Custody ends with the wait, even if the core leaves out dequeue(): else a CPU that has chosen the task takes it for handed
/// over.
#[test]
pub fn custody_ends_without_dequeue() {
    let mut m = machine("up1", &[]);
    add(&mut m, 1, 1100, 0, Value::Null);
    let p = m.address(1);
    let held = |m: &mut Machine| m.call("t_held", &[p])[0] != 0;
    m.enqueue(1, LOCAL_WAKE);
    assert!(held(&mut m));
    m.callback("bfs_quiescent", &[p, 1]);
    assert!(!held(&mut m), "asleep");
    m.enqueue(1, LOCAL_WAKE);
    m.run(1, 0);
    assert!(!held(&mut m), "it runs");
}

/// A task that is being changed is passed over and keeps its place, also if it has waited for too long.
#[test]
pub fn a_choice_passes_over_who_is_being_changed() {
    for tunables in [&[][..], &[("starve_limit_ms", 10)]] {
        let mut m = machine("up1", tunables);
        for tid in [1, 2, 3] {
            add(&mut m, tid, 1100 + tid, 0, Value::Null);
            m.enqueue(tid, LOCAL_WAKE);
        }
        m.begin_change(1);
        m.set_now(NOW_US * 1000 + 20_000_000);
        m.mark(0);
        assert_eq!(m.schedule(0), Some(2));
        m.end_change(1);
        assert_eq!(m.queues()["101"], [1, 3], "{tunables:?}");
    }
}

/// Who goes to sleep while it waits, who is gone and who runs without having been chosen is in no queue.
#[test]
pub fn the_queue_forgets_who_does_not_wait() {
    for leaves in ["bfs_quiescent", "bfs_exit_task", "bfs_running"] {
        let mut m = machine("up1", &[]);
        add(&mut m, 1, 1100, 0, Value::Null);
        m.run(1, 0);
        let p = m.address(1);
        if leaves != "bfs_running" {
            m.callback("bfs_stopping", &[p, 1]);
        }
        m.enqueue(1, 0);
        m.callback(leaves, &[p, 1]);
        assert!(m.queues().is_empty(), "{leaves}");
    }
}
