// SPDX-License-Identifier: GPL-2.0-or-later
//! How turns begin and end, and what is over with them: callbacks in sequences that records do not have.

use super::world::*;
use tiltyard_schedtest::kernel::{KICK_IDLE, KICK_PREEMPT};

const NORMAL: i64 = 0;

/// Nobody has expired on a new CPU, so nobody is worse than those who have.
#[test]
pub fn at_first_nobody_has_expired() {
    let mut w = World::new(2, &[]);
    assert_eq!([0, 1].map(|cpu| w.cpu(cpu).best_expired), [140; 2]);
}

/// Expired tasks that have waited for as long as the guard for real kernels allows starve a tick later, if one task is runnable
/// and the limit without the guard is a second.
#[test]
pub fn a_cap_is_over_a_tick_after_it() {
    // The cap counts with and without the limit of the original.
    for limit_ms in [1000, 0] {
        let starved = [500, 501].map(|waited| {
            let set = [
                ("starvation_cap_ms", 500),
                ("starvation_limit_ms", limit_ms),
            ];
            let mut w = World::new(1, &set);
            let hog = w.task(0);
            w.runs(hog, 0);
            let now = w.now();
            w.m.set_cpu(0, hog, 1, 140, now);
            let over = w.m.call("t_tick", &[0, 1 + waited, now])[3];
            // presets.toml reports them.
            assert_eq!(w.m.kernel.number("nr_capped"), over as u64);
            over
        });
        assert_eq!(starved, [0, 1], "limit {limit_ms}");
    }
}

/// A task that gets the CPU without having been chosen drives off the one that had it: that is charged, and the preemption that
/// was asked for is over.
#[test]
pub fn who_takes_the_cpu_unchosen_begins_a_turn() {
    let mut w = World::new(1, &[]);
    let [hog, wakee] = [0, 1].map(|_| w.task(0));
    w.runs(hog, 0);
    w.later(300 * MS);
    w.wakes(wakee);
    assert!(w.cpu(0).resched);
    assert_eq!(w.seen(wakee).sleep_type, INTERACTIVE);
    w.later(5 * MS);
    w.kicks();
    w.about("linux26_running", wakee, 0);
    assert_eq!((w.cpu(0).curr, w.cpu(0).resched), (wakee, false));
    assert_eq!(w.kicks(), []);
    assert_eq!([hog, wakee].map(|n| w.seen(n).timestamp), [w.now(); 2]);
    assert_eq!(w.seen(wakee).sleep_type, NORMAL);
}

/// The wakee of a waker that is about to sleep waits this time, and preempts the next time.
#[test]
pub fn a_sync_wakeup_counts_once() {
    let mut w = World::new(1, &[]);
    let [hog, wakee] = [0, 1].map(|_| w.task(0));
    w.runs(hog, 0);
    w.later(300 * MS);
    let p = w.address(wakee);
    w.m.kernel.call("linux26_select_cpu", &[p, 0, WAKE_SYNC]);
    w.wakes(wakee);
    assert_eq!(w.kicks(), []);
    w.sleeps(hog, TASK_INTERRUPTIBLE);
    w.dispatch(0, None);
    w.about("linux26_running", wakee, 0);
    w.sleeps(wakee, TASK_INTERRUPTIBLE);
    w.runs(hog, 0);
    w.later(300 * MS);
    w.wakes(wakee);
    assert_eq!(w.kicks(), [(0, KICK_PREEMPT)]);
}

/// Where wakees do not preempt, an idle CPU is called as ever.
#[test]
pub fn an_idle_cpu_is_called_without_preemption() {
    let kicks = [0, 1].map(|preemption| {
        let mut w = World::new(1, &[("wakeup_preemption", preemption)]);
        let task = w.task(0);
        w.wakes(task);
        w.kicks()
    });
    assert_eq!(kicks[0], kicks[1]);
    assert_ne!(kicks[0], []);
}

/// A task that the core brings back although nobody else waits: the CPU has to choose it again.
#[test]
pub fn the_last_task_calls_its_cpu() {
    let mut w = World::new(1, &[]);
    let hog = w.task(0);
    w.runs(hog, 0);
    w.about("linux26_stopping", hog, 1);
    w.about("linux26_enqueue", hog, ENQUEUE_LAST);
    assert_eq!(w.kicks(), [(0, KICK_IDLE)]);
}

/// A preemption that was asked for while the task was out of our hands.
#[test]
pub fn a_changed_task_passes_a_preemption_on() {
    let mut w = World::new(1, &[]);
    let [hog, wakee] = [0, 1].map(|_| w.task(0));
    w.runs(hog, 0);
    w.later(300 * MS);
    w.wakes(wakee);
    w.kicks();
    w.about("linux26_dequeue", wakee, DEQUEUE_SAVE);
    w.about("linux26_enqueue", wakee, ENQUEUE_RESTORE);
    assert_eq!(w.kicks(), [(0, KICK_PREEMPT)]);
}

/// Who yields and does not have the CPU, because a realtime task drove it off, keeps its place.
#[test]
pub fn who_yields_without_the_cpu_does_not_expire() {
    let mut w = World::new(1, &[]);
    let [hog, other] = [0, 1].map(|_| w.task(0));
    w.runs(hog, 0);
    w.wakes(other);
    w.about("linux26_yield", other, 0);
    assert_eq!(w.queued(0), [vec![hog, other], vec![]]);
}

/// A child that sleeps keeps its first slice; only one that exits gives it back.
#[test]
pub fn a_child_that_sleeps_gives_nothing_back() {
    let mut w = World::new(1, &[]);
    let parent = w.task(0);
    w.runs(parent, 0);
    let child = w.fork(parent, 0, false);
    w.about("linux26_enqueue", child, ENQUEUE_NEW);
    w.set_slice(parent, 0);
    w.dispatch(0, Some(parent));
    w.about("linux26_enqueue", parent, 0);
    w.about("linux26_running", child, 0);
    w.sleeps(child, TASK_INTERRUPTIBLE);
    assert_eq!((w.seen(parent).slice, w.seen(child).slice), (50, 50));
}

/// A CPU that has found nothing elsewhere does not look again before it has run a task.
#[test]
pub fn a_dry_cpu_looks_again_after_a_turn() {
    for runs_between in [false, true] {
        let mut w = World::new(2, &[]);
        let [hog, waits] = [0, 1].map(|_| w.task(0));
        let own = w.task(1);
        w.dispatch(1, None);
        w.runs(hog, 0);
        w.wakes(waits);
        if runs_between {
            w.runs(own, 1);
            w.sleeps(own, TASK_INTERRUPTIBLE);
        }
        w.ticks(hog, 20);
        w.m.kernel.state().set_idle(|cpu| cpu == 1);
        w.dispatch(1, None);
        let curr = if runs_between { waits } else { -1 };
        assert_eq!(w.cpu(1).curr, curr);
    }
}
