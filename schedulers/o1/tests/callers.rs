// SPDX-License-Identifier: GPL-2.0-or-later
//! That callbacks call what the records test on its own, and as they should: each is called itself, and what it calls
//! leaves its mark.

use super::recorded::FIRST;
use super::world::*;
use tiltyard_schedtest::kernel::{KICK_IDLE, KICK_PREEMPT};

/// What the task has slept, by when it wakes up; not what it slept before O(1) was there.
#[test]
fn a_wakeup_counts_the_sleep() {
    let mut w = World::new(1, &[]);
    let sleeper = w.task(0);
    w.later(250 * MS);
    w.wakes(sleeper);
    assert_eq!(w.seen(sleeper).savg, 250 * MS);
    assert_eq!(
        (w.seen(sleeper).prio, w.seen(sleeper).timestamp),
        (123, w.now())
    );
    w.dispatch(0, None);
    w.later(30 * MS);
    w.sleeps(sleeper, TASK_INTERRUPTIBLE);
    assert_eq!(w.seen(sleeper).savg, 235 * MS, "30 ms at bonus 2");
    assert_eq!(w.seen(sleeper).array, NO_ARRAY);
    assert_eq!(
        (w.cpu(0).curr, w.cpu(0).nr_running, w.cpu(0).load),
        (-1, 0, 0)
    );
    w.later(10 * MS);
    w.wakes(sleeper);
    assert_eq!(w.seen(sleeper).savg, 245 * MS);
}

/// A CPU on which none of our tasks runs is interrupted; a task wakes others itself.
#[test]
fn who_wakes_it_decides_what_a_wait_counts() {
    let mut w = World::new(1, &[]);
    let [first, second] = [0, 1].map(|_| w.task(0));
    w.later(MS);
    w.runs(first, 0);
    w.later(MS);
    w.wakes(second);
    assert_eq!(w.seen(second).sleep_type, INTERACTIVE);
    let mut w = World::new(1, &[]);
    let first = w.task(0);
    w.later(MS);
    w.wakes(first);
    assert_eq!(w.seen(first).sleep_type, INTERRUPTED);
}

#[test]
fn sleep_that_no_signal_ends_is_not_interactive() {
    for (state, sleep_type) in [
        (TASK_INTERRUPTIBLE, INTERRUPTED),
        (TASK_UNINTERRUPTIBLE, NONINT),
        (TASK_IDLE, INTERRUPTED),
    ] {
        let mut w = World::new(1, &[]);
        let sleeper = w.task(0);
        w.runs(sleeper, 0);
        w.sleeps(sleeper, state);
        w.later(MS);
        w.wakes(sleeper);
        assert_eq!(w.seen(sleeper).sleep_type, sleep_type, "state {state:#x}");
    }
}

/// A wakee of better priority preempts, unless its waker is about to leave the CPU to it.
#[test]
fn better_wakees_preempt() {
    for (slept_ms, sync, preempts) in [(300, false, true), (50, false, false), (300, true, false)] {
        let mut w = World::new(1, &[]);
        let [hog, wakee] = [0, 1].map(|_| w.task(0));
        w.runs(hog, 0);
        w.later(slept_ms * MS);
        let flags = if sync { WAKE_SYNC } else { 0 };
        let p = w.address(wakee);
        w.m.kernel.call("linux26_select_cpu", &[p, 0, 8 | flags]);
        w.wakes(wakee);
        let kicks = if preempts {
            vec![(0, KICK_PREEMPT)]
        } else {
            vec![]
        };
        assert_eq!(w.kicks(), kicks, "{slept_ms} ms, sync {sync}");
        assert_eq!(w.cpu(0).resched, preempts);
    }
}

/// The choice is handed to the kernel; the one that loses the CPU is charged, and comes back by enqueue() without losing
/// its place.
#[test]
fn the_best_task_is_handed_over() {
    let mut w = World::new(1, &[]);
    let [hog, wakee] = [0, 1].map(|_| w.task(0));
    w.runs(hog, 0);
    w.later(300 * MS);
    w.wakes(wakee);
    w.set_slice(hog, 0);
    w.dispatch(0, Some(hog));
    assert_eq!(w.local(0), [hog, wakee]);
    assert_eq!(w.seen(hog).timestamp, w.now());
    w.about("linux26_stopping", hog, 1);
    w.about("linux26_enqueue", hog, 0);
    w.about("linux26_running", wakee, 0);
    assert_eq!(w.queued(0), [vec![wakee, hog], vec![]]);
    assert_eq!(w.cpu(0).curr, wakee);
}

/// If the running task is the choice, it goes on, and nothing is handed over.
#[test]
fn the_running_task_goes_on_if_it_is_the_best() {
    let mut w = World::new(1, &[]);
    let [hog, other] = [0, 1].map(|_| w.task(0));
    w.runs(hog, 0);
    w.wakes(other);
    w.set_slice(hog, 0);
    w.later(5 * MS);
    w.dispatch(0, Some(hog));
    assert_eq!(w.local(0), [hog]);
    assert!(w.slice(hog) > 1_000_000_000);
    assert_eq!(w.seen(hog).timestamp, w.now(), "charged all the same");
}

/// A hundred ticks of 1 ms, then it expires; the tick that does it ends the core's slice.
#[test]
pub fn ticks_end_slices() {
    let mut w = World::new(1, &[]);
    let [hog, other] = [0, 1].map(|_| w.task(0));
    w.runs(hog, 0);
    w.wakes(other);
    w.ticks(hog, 99);
    assert!(w.slice(hog) > 0);
    assert_eq!(w.seen(hog).slice, 1);
    w.ticks(hog, 1);
    assert_eq!(w.slice(hog), 0);
    assert_eq!(w.queued(0), [vec![other], vec![hog]]);
    w.dispatch(0, Some(hog));
    assert_eq!(w.cpu(0).curr, other);
    w.about("linux26_stopping", hog, 1);
    w.about("linux26_enqueue", hog, 0);
    // Alone in its array: the arrays swap.
    w.sleeps(other, TASK_INTERRUPTIBLE);
    w.dispatch(0, Some(other));
    assert_eq!(w.queued(0), [vec![hog], vec![]]);
}

#[test]
pub fn batch_tasks_wake_up_expired() {
    for (policy, array) in [(POLICY_BATCH, EXPIRED), (POLICY_IDLE, EXPIRED), (0, 0)] {
        let mut w = World::new(1, &[]);
        let [hog, wakee] = [0, 1].map(|_| w.task(0));
        w.runs(hog, 0);
        w.struct_of(wakee, |p| p.policy = policy);
        w.about("o1_set_weight", wakee, 100);
        w.later(500 * MS);
        w.wakes(wakee);
        assert_eq!(w.seen(wakee).array, array, "policy {policy}");
        let savg = if array == EXPIRED { 0 } else { 500 * MS };
        assert_eq!(w.seen(wakee).savg, savg, "policy {policy}");
        let worst = if policy == POLICY_IDLE { 6 } else { 128 };
        assert_eq!(w.seen(wakee).weight, worst, "policy {policy}");
    }
}

/// A process takes half of its parent's slice and runs before it; a thread waits for its turn. Either begins with less
/// credit, and the parent keeps whole bonuses.
#[test]
pub fn forks_share_slice_and_place() {
    for thread in [false, true] {
        let mut w = World::new(1, &[]);
        let parent = w.task(0);
        w.later(850 * MS);
        w.runs(parent, 0);
        let before = w.seen(parent);
        assert_eq!((before.savg, before.slice), (799 * MS, 100), "of one sleep");
        w.ticks(parent, 1);
        let child = w.fork(parent, 0, thread);
        assert_eq!((w.seen(parent).slice, w.seen(child).slice), (49, 50));
        let p = w.address(child);
        assert_eq!(w.m.kernel.call("linux26_select_cpu", &[p, 0, 4]).1, 0);
        w.about("linux26_enqueue", child, ENQUEUE_NEW);
        let (kicks, order) = match thread {
            false => (vec![(0, KICK_PREEMPT)], [child, parent]),
            true => (vec![], [parent, child]),
        };
        assert_eq!(w.kicks(), kicks, "thread {thread}");
        assert_eq!(w.queued(0), [order.to_vec(), vec![]], "thread {thread}");
        assert_eq!(w.seen(parent).savg, 700 * MS);
        assert_eq!(w.seen(child).savg, 600 * MS, "95 % of bonus 7 is 6");
        assert!(w.seen(child).first);
    }
}

/// A new process waits like a thread if it is not to run first.
#[test]
fn a_child_may_wait_for_its_parent() {
    let mut w = World::new(1, &[("child_runs_first", 0)]);
    let parent = w.task(0);
    w.runs(parent, 0);
    let child = w.fork(parent, 0, false);
    w.about("linux26_enqueue", child, ENQUEUE_NEW);
    assert_eq!(w.kicks(), []);
    assert_eq!(w.queued(0), [vec![parent, child], vec![]]);
}

/// The last tick of a parent is its child's: it expires.
#[test]
pub fn a_fork_with_one_tick_left_costs_the_turn() {
    let mut w = World::new(1, &[]);
    let parent = w.task(0);
    w.runs(parent, 0);
    w.ticks(parent, 99);
    let child = w.fork(parent, 0, true);
    assert_eq!((w.seen(parent).slice, w.seen(child).slice), (100, 1));
    assert_eq!(w.seen(parent).array, EXPIRED);
    assert_eq!(w.kicks(), [(0, KICK_PREEMPT)]);
}

/// What a child has not used of its first slice returns; that it computed costs the parent sleep_avg.
#[test]
pub fn a_child_that_exits_gives_back_its_slice() {
    let mut w = World::new(1, &[]);
    let parent = w.task(0);
    w.later(850 * MS);
    w.runs(parent, 0);
    let child = w.fork(parent, 0, false);
    w.about("linux26_enqueue", child, ENQUEUE_NEW);
    w.set_slice(parent, 0);
    w.dispatch(0, Some(parent));
    w.about("linux26_enqueue", parent, 0);
    w.about("linux26_running", child, 0);
    w.ticks(child, 10);
    w.struct_of(child, |p| p.exit_state = 16);
    w.sleeps(child, TASK_INTERRUPTIBLE);
    assert_eq!(w.seen(parent).slice, 90);
    // The parent has 700 ms; the child 600 ms less 10 ms at bonus 6.
    let child_ns = 600 * MS - 10 * MS / 6;
    assert_eq!(w.seen(child).savg, child_ns);
    assert_eq!(w.seen(parent).savg, 700 * MS / 4 * 3 + child_ns / 4);
}

#[test]
pub fn who_yields_waits_for_the_next_round() {
    let mut w = World::new(1, &[]);
    let [hog, other] = [0, 1].map(|_| w.task(0));
    w.runs(hog, 0);
    w.wakes(other);
    w.ticks(hog, 10);
    let words = [w.address(hog), 0];
    w.m.kernel.call("linux26_yield", &words);
    assert_eq!(w.slice(hog), 0);
    assert_eq!(w.queued(0), [vec![other], vec![hog]]);
    assert_eq!(w.seen(hog).slice, 90);
}

/// Another nice value: the task keeps its array and its slice, and goes to the tail of its new priority. Who gets better
/// than what runs preempts; who runs and gets worse is preempted.
#[test]
pub fn nice_values_move_tasks_within_their_array() {
    let mut w = World::new(1, &[]);
    let [hog, first, second] = [0, 1, 2].map(|_| w.task(0));
    w.runs(hog, 0);
    w.wakes(first);
    w.wakes(second);
    assert_eq!(w.queued(0)[0], [hog, first, second]);
    w.about("linux26_dequeue", first, DEQUEUE_SAVE);
    w.about("linux26_quiescent", first, DEQUEUE_SAVE);
    assert_eq!(w.queued(0)[0], [hog, first, second], "it keeps its place");
    w.struct_of(first, |p| p.static_prio = 120);
    w.about("o1_set_weight", first, 100);
    assert_eq!(w.queued(0)[0], [hog, first, second], "nothing has changed");
    w.struct_of(first, |p| p.static_prio = 123);
    w.about("o1_set_weight", first, 50);
    w.about("linux26_enqueue", first, ENQUEUE_RESTORE);
    assert_eq!(w.queued(0)[0], [hog, second, first]);
    assert_eq!((w.seen(first).prio, w.seen(first).slice), (128, 100));
    assert_eq!(w.kicks(), []);
    w.struct_of(second, |p| p.static_prio = 110);
    w.about("o1_set_weight", second, 900);
    assert_eq!(w.kicks(), [(0, KICK_PREEMPT)]);
    assert_eq!(w.queued(0)[0], [second, hog, first]);
}

/// A realtime task takes the CPU: the one that ran comes back by enqueue(), first in its list, and others may be chosen
/// meanwhile. A task that gets the CPU without having been chosen has it.
#[test]
pub fn tasks_of_higher_classes_come_and_go() {
    let mut w = World::new(1, &[]);
    let [hog, other, pinned] = [0, 1, 2].map(|_| w.task(0));
    w.runs(hog, 0);
    w.wakes(other);
    w.later(20 * MS);
    w.about("linux26_stopping", hog, 1);
    assert_eq!(w.slice(hog), 0);
    w.about("linux26_enqueue", hog, 0);
    assert_eq!(w.cpu(0).curr, -1);
    assert_eq!(w.seen(hog).timestamp, w.now(), "charged");
    assert_eq!(w.queued(0)[0], [hog, other]);
    w.about("linux26_running", pinned, 0);
    assert_eq!(w.cpu(0).curr, pinned);
    assert_eq!(w.cpu(0).nr_running, 3);
}

/// A preemption that was asked for while a realtime task ran.
#[test]
pub fn a_lost_kick_is_made_up_for() {
    let mut w = World::new(1, &[]);
    let [hog, wakee] = [0, 1].map(|_| w.task(0));
    w.wakes(hog);
    w.dispatch(0, None);
    w.later(300 * MS);
    w.wakes(wakee);
    w.kicks();
    w.about("linux26_running", hog, 0);
    assert_eq!(w.kicks(), [(0, KICK_PREEMPT)]);
}

/// The kernel moves a task whose CPU is forbidden: it leaves its queue and joins the one of its new CPU.
#[test]
fn a_task_follows_its_affinity() {
    let mut w = World::new(2, &[]);
    let task = w.task(1);
    w.m.call("t_on_cpu", &[task + FIRST, 0]);
    w.m.enqueue(&[task], false);
    assert_eq!(w.cpu(0).nr_running, 1);
    w.about("linux26_dequeue", task, 8);
    w.about("linux26_enqueue", task, ENQUEUE_MIGRATED);
    assert_eq!((w.cpu(0).nr_running, w.cpu(1).nr_running), (0, 1));
    assert_eq!(w.queued(1)[0], [task]);
}

/// A task leaves the class, or is gone.
#[test]
pub fn tasks_leave() {
    for callback in ["linux26_disable", "linux26_exit_task"] {
        let mut w = World::new(1, &[]);
        let [hog, other] = [0, 1].map(|_| w.task(0));
        w.runs(hog, 0);
        w.wakes(other);
        w.about(callback, other, 0);
        assert_eq!(w.queued(0), [vec![hog], vec![]], "{callback}");
        assert_eq!((w.cpu(0).nr_running, w.cpu(0).load), (1, 128), "{callback}");
    }
}

/// A CPU that runs dry takes a task from another before it idles; one that is allowed here.
#[test]
pub fn a_cpu_that_runs_dry_looks_elsewhere() {
    for (allowed, taken) in [(!0, true), (1, false)] {
        let mut w = World::new(2, &[]);
        let [hog, waits] = [0, 1].map(|_| w.task(0));
        let id = w.ids[waits as usize];
        w.m.kernel
            .state()
            .allow(id, |cpu| cpu < 2 && allowed & 1 << cpu != 0);
        let mask = w.m.kernel.state().task(id).cpus_ptr as i64;
        w.about("o1_set_cpumask", waits, mask);
        w.runs(hog, 0);
        w.wakes(waits);
        w.ticks(hog, 20);
        w.m.kernel.state().set_idle(|cpu| cpu == 1);
        w.dispatch(1, None);
        let at = if taken { 1 } else { 0 };
        assert_eq!(w.seen(waits).cpu, at, "allowed {allowed:x}");
        assert_eq!(w.cpu(1).curr, if taken { waits } else { -1 });
        let local = if taken { vec![waits] } else { vec![] };
        assert_eq!(w.local(1), local);
    }
}

/// Who has expired and sleeps before the arrays swap leaves nobody who waits for that.
#[test]
pub fn an_idle_cpu_has_no_expired_task() {
    let mut w = World::new(1, &[]);
    let task = w.task(0);
    w.runs(task, 0);
    w.ticks(task, 100);
    assert_ne!(w.cpu(0).expired_timestamp, 0);
    w.sleeps(task, TASK_INTERRUPTIBLE);
    w.dispatch(0, None);
    assert_eq!(w.cpu(0).expired_timestamp, 0);
}

/// A waker that is about to sleep leaves its own CPU to its wakee, and no other: there the wakee preempts.
#[test]
pub fn a_sync_waker_leaves_its_own_cpu_only() {
    for (here, kicks) in [(0, vec![]), (1, vec![(0, KICK_PREEMPT)])] {
        let mut w = World::new(2, &[("wake_placement", 0)]);
        let [hog, wakee] = [0, 1].map(|_| w.task(0));
        w.runs(hog, 0);
        w.later(300 * MS);
        w.m.kernel.state().cpu = here;
        let p = w.address(wakee);
        assert_eq!(
            w.m.kernel.call("linux26_select_cpu", &[p, 0, WAKE_SYNC]).1,
            0
        );
        w.wakes(wakee);
        let kicked = w.kicks();
        let preempts: Vec<(u32, u64)> = kicked
            .into_iter()
            .filter(|kick| kick.1 == KICK_PREEMPT)
            .collect();
        assert_eq!(preempts, kicks, "woken on CPU {here}");
    }
}

/// A CPU with one task has none to spare: its ticks wake nobody.
#[test]
fn ticks_of_a_single_task_wake_nobody() {
    let mut w = World::new(2, &[("newidle_balance", 0)]);
    let hog = w.task(0);
    w.runs(hog, 0);
    w.m.kernel.state().set_idle(|cpu| cpu == 1);
    w.ticks(hog, 20);
    assert_eq!(w.kicks(), []);
}

/// The CPU that balances for all idle ones stops when it has got a task itself.
#[test]
pub fn an_idle_cpu_that_gets_a_task_balances_for_no_other() {
    let mut w = World::new(3, &[("newidle_balance", 0)]);
    let tasks = [0; 6].map(|_| w.task(0));
    w.runs(tasks[0], 0);
    for task in &tasks[1..] {
        w.wakes(*task);
    }
    w.m.kernel.state().set_idle(|cpu| cpu > 0);
    w.ticks(tasks[0], 20);
    w.dispatch(1, None);
    assert!(w.cpu(1).nr_running > 0);
    assert_eq!(w.cpu(2).nr_running, 0);
}

/// Ticks of a busy CPU wake an idle one, once its next balancing is due, and that balances for itself.
#[test]
fn ticks_wake_an_idle_cpu_to_balance() {
    let mut w = World::new(2, &[("newidle_balance", 0)]);
    let [hog, waits] = [0, 1].map(|_| w.task(0));
    w.runs(hog, 0);
    w.wakes(waits);
    w.m.kernel.state().set_idle(|cpu| cpu == 1);
    w.ticks(hog, 20);
    assert!(w.kicks().contains(&(1, 1)), "SCX_KICK_IDLE");
    w.dispatch(1, None);
    assert_eq!(w.cpu(1).curr, waits);
}

/// A CPU that is asked to push a task pushes the one that runs there, if no other can go; that comes by enqueue() to where
/// it goes.
#[test]
pub fn a_running_task_is_pushed() {
    let mut w = World::new(2, &[]);
    let hog = w.task(0);
    w.runs(hog, 0);
    w.later(20 * MS);
    // It is asked for after several failures, when a warm cache no longer counts.
    w.m.call("t_domain", &[1, 0, 2, 1, 0]);
    w.m.call("t_push_to", &[0, 1]);
    w.dispatch(0, Some(hog));
    assert_eq!((w.cpu(0).nr_running, w.cpu(0).curr), (0, -1));
    w.about("linux26_stopping", hog, 1);
    w.about("linux26_enqueue", hog, ENQUEUE_LAST);
    assert_eq!(w.seen(hog).cpu, 1);
    assert_eq!(w.queued(1)[0], [hog]);
    let kicks = w.kicks();
    assert!(kicks.iter().any(|kick| kick.0 == 1));
    assert!(kicks.contains(&(0, KICK_IDLE)), "it has nothing to run now");
    w.dispatch(1, None);
    assert_eq!(w.cpu(1).curr, hog);
}

/// Exiting tasks, and those whose migration is disabled, go on without dispatch(), and nobody pushes: two of them would
/// preempt each other for ever.
#[test]
pub fn exiting_tasks_are_preempted_only_once_for_a_push() {
    for (flags, disabled, kicks) in [(0, 0, 2), (PF_EXITING, 0, 1), (0, 2, 1)] {
        let mut w = World::new(2, &[]);
        let tasks = [0, 1].map(|_| w.task(0));
        w.m.call("t_push_to", &[0, 1]);
        for n in tasks {
            w.struct_of(n, |p| (p.flags, p.migration_disabled) = (flags, disabled));
            w.about("linux26_running", n, 0);
        }
        assert_eq!(w.kicks(), vec![(0, KICK_PREEMPT); kicks]);
    }
}

/// A CPU whose ticks nobody has counted, because it idled: its averages fall before its load changes, and guesses of its
/// load know of that.
#[test]
pub fn idle_ticks_are_made_up_for() {
    let mut w = World::new(1, &[]);
    let [hog, other] = [0, 1].map(|_| w.task(0));
    w.runs(hog, 0);
    w.ticks(hog, 40);
    assert_eq!(w.m.call("t_load_get", &[0])[1..4], [128; 3]);
    let tick = w.now() / MS;
    assert_eq!(w.m.call("t_guess", &[0, 2, tick + 3])[3..5], [128, 128]);
    w.sleeps(hog, TASK_INTERRUPTIBLE);
    assert_eq!(w.m.call("t_guess", &[0, 2, tick + 3])[3..5], [0, 16]);
    w.later(3 * MS);
    w.wakes(other);
    assert_eq!(w.m.call("t_load_get", &[0])[1..4], [0, 16, 54]);
}

/// Masks of tasks: any CPU, one, some. A mask has nothing left of the task that had it before.
#[test]
fn masks_are_read_whole() {
    let mut w = World::new(5, &[]);
    let may = |w: &mut World, n: i64, cpus: &[usize]| -> Vec<i64> {
        let id = w.ids[n as usize];
        let state = w.m.kernel.state();
        state.allow(id, |cpu| cpu < 5 && cpus.contains(&cpu));
        let mask = state.task(id).cpus_ptr as i64;
        w.about("o1_set_cpumask", n, mask);
        let slot = n + FIRST;
        let may = |cpu: &i64| w.m.call("t_may_run", &[slot, *cpu])[2] != 0;
        (0..5).filter(may).collect()
    };
    let first = w.task(0);
    assert_eq!(may(&mut w, first, &[0, 1, 2, 3, 4]), [0, 1, 2, 3, 4]);
    assert_eq!(may(&mut w, first, &[3]), [3]);
    assert_eq!(may(&mut w, first, &[0, 1]), [0, 1]);
    assert_eq!(may(&mut w, first, &[3]), [3]);
    assert_eq!(
        may(&mut w, first, &[2, 4]),
        [2, 4],
        "the mask is used once more"
    );
}

/// Without preemption by wakees a better one waits, unless the CPU idles.
#[test]
fn wakees_may_have_to_wait() {
    let mut w = World::new(1, &[("wakeup_preemption", 0)]);
    let [hog, wakee] = [0, 1].map(|_| w.task(0));
    w.runs(hog, 0);
    w.later(300 * MS);
    w.wakes(wakee);
    assert_eq!(w.kicks(), []);
    assert!(!w.cpu(0).resched);
}

/// A child is a task like any once it has been queued: it preempts its parent when it wakes up.
#[test]
pub fn a_child_preempts_its_parent_later() {
    let mut w = World::new(1, &[]);
    let parent = w.task(0);
    w.runs(parent, 0);
    let child = w.fork(parent, 0, true);
    w.about("linux26_enqueue", child, ENQUEUE_NEW);
    w.set_slice(parent, 0);
    w.about("linux26_yield", parent, 0);
    w.dispatch(0, Some(parent));
    w.about("linux26_enqueue", parent, 0);
    w.about("linux26_running", child, 0);
    w.sleeps(child, TASK_INTERRUPTIBLE);
    w.dispatch(0, None);
    w.about("linux26_running", parent, 0);
    assert_eq!(w.cpu(0).curr, parent);
    w.kicks();
    w.later(300 * MS);
    w.wakes(child);
    assert_eq!(w.kicks(), [(0, KICK_PREEMPT)]);
}

/// Kernel threads of one CPU have the best priority where they are served first; other tasks never have it so.
#[test]
pub fn kernel_threads_of_a_cpu_may_come_first() {
    for (first, flags, cpus, prio) in [
        (1, 0x20_0000, 1, 100),
        (1, 0x20_0000, 2, 125),
        (1, 0, 1, 125),
        (0, 0x20_0000, 1, 125),
    ] {
        let mut w = World::new(2, &[("kthreads_first", first)]);
        let task = w.task(0);
        w.struct_of(task, |p| p.flags = flags);
        let id = w.ids[task as usize];
        w.m.kernel.state().allow(id, |cpu| cpu < cpus);
        let mask = w.m.kernel.state().task(id).cpus_ptr as i64;
        w.about("o1_set_cpumask", task, mask);
        w.wakes(task);
        assert_eq!(w.seen(task).prio, prio, "{first} {flags:#x} {cpus}");
    }
}

/// Without a bonus nobody is interactive, not even at nice -20, which needs the least.
#[test]
fn without_a_bonus_nobody_is_interactive() {
    for bonus in [0, 1] {
        let mut w = World::new(1, &[("sleep_bonus", bonus)]);
        let task = w.task(0);
        w.struct_of(task, |p| p.static_prio = 100);
        w.about("o1_set_weight", task, 1);
        w.later(2000 * MS);
        w.wakes(task);
        let interactive = w.m.call("t_numbers", &[task + FIRST])[6];
        assert_eq!(i128::from(interactive), bonus);
    }
}
