// SPDX-License-Identifier: GPL-2.0-or-later
//! That callbacks call what the other files test on its own, and as they should: each is called itself, on a machine of
//! the records, and what it calls leaves its mark.

use crate::cfs::multicore::RECORDS;
use crate::cfs::recorded::*;
use tiltyard_native::layout::TaskStruct;
use tiltyard_schedtest::kernel::KICK_PREEMPT;
use tiltyard_schedtest::{Lab, costed, globals, object, parse};

/// Flags of select_cpu(), enqueue() and quiescent(), as the kernel has them; a sync waker is about to sleep.
const WAKE: i64 = 8;
const WAKE_SYNC: i64 = 16;
const ENQUEUE_WAKEUP: i64 = 1;
const ENQUEUE_RESTORE: i64 = 2;
const DEQUEUE_SLEEP: i64 = 1;
const PF_EXITING: u32 = 4;

/// Load of one hog of nice 0.
const HOG: i64 = 1024;

/// A task waits on `cpu`, where it has not run for long. Returns its `struct task_struct`.
fn waits(m: &mut Machine, entity: i64, cpu: i64) -> i64 {
    let task = m.known_task(entity);
    let ran_ns = NOW_NS - 100_000_000;
    m.call("t_task", &[entity, cpu, HOG, ran_ns, 0, NOW_NS]);
    task
}

/// The same, but it runs.
fn runs(m: &mut Machine, entity: i64, cpu: i64) -> i64 {
    let task = waits(m, entity, cpu);
    m.call("t_run", &[entity, NOW_NS]);
    task
}

/// An idle CPU finds nothing, and has been woken to balance for all idle ones.
fn balances_for_all(m: &mut Machine, cpu: i64) {
    m.call("t_cpu_balance", &[cpu, 0, 0, 1]);
    m.kernel.state().cpu = cpu as u32;
    m.call("fair_dispatch", &[cpu, 0]);
}

fn has_idle_cores(m: &mut Machine) -> bool {
    m.call("t_cpu_idle_get", &[0])[5] != 0
}

/// Two CPUs, the fewest that can be balanced: hogs that were bound to CPU 0 are let go. CPU 1 does not look for them when
/// it runs dry, so a tick of CPU 0 has to wake it.
#[test]
fn a_tick_balances_two_cpus() {
    let workload = parse(
        r#"{ "tasks": { "hog": { "instance": 4, "loop": 1, "phases": {
            "bound": { "loop": 1, "cpus": [0], "run": 50000 },
            "free": { "loop": -1, "cpus": [0, 1], "run": 100000 } } } },
            "global": { "duration": 3 } }"#,
    );
    let machine = costed("package:1 core:2 pu:1", 250);
    let globals = globals(&[("newidle_balance", 0)]);
    let mut lab = Lab::new(&machine, object("cfs", 2));
    lab.globals = &globals;
    let ran = lab.run(&workload).expect("a run");
    let moved: u64 = ran.summary.tasks.iter().map(|t| t.migrations).sum();
    let idle_ms = ran.summary.cpus[1].idle_ns / 1_000_000;
    // 200 ms of work are bound.
    assert!(moved >= 2 && idle_ms < 400, "{moved}, {idle_ms} ms");
}

/// A task whose hand-over has failed leaves its queue, unless the core has brought it back meanwhile.
#[test]
fn a_task_that_is_back_in_custody_keeps_its_place() {
    let mut m = RECORDS.machine("smp4", &[]);
    waits(&mut m, 1, 0);
    assert_eq!(m.call("t_lost", &[1, NOW_NS, 0])[2], 1);
    // Running, it is in nobody's custody. If that is elsewhere, it stays there.
    m.call("t_run", &[1, NOW_NS]);
    assert_eq!(m.call("t_lost", &[1, NOW_NS, 2])[2], 1);
    assert_eq!(m.call("t_lost", &[1, NOW_NS, 0])[2], 0);
}

/// Exiting tasks go on without dispatch(), and nobody pushes: two of them would preempt each other for ever.
#[test]
fn exiting_tasks_are_preempted_only_once_for_a_push() {
    for (flags, kicks) in [(0, 2), (PF_EXITING, 1)] {
        let mut m = RECORDS.machine("smp4", &[]);
        let tasks = [1, 2].map(|entity| waits(&mut m, entity, 0));
        m.call("t_set_push", &[0, 1]);
        for task in tasks {
            // SAFETY: the address of a task of this kernel.
            unsafe { (*(task as *mut TaskStruct)).flags = flags };
            m.kernel.call("fair_running", &[task]);
        }
        assert_eq!(m.kernel.state().kicks, vec![(0, KICK_PREEMPT); kicks]);
    }
}

/// Who wakes two tasks by turns changes the one that it wakes each time. They wake nobody.
#[test]
fn the_waker_notes_whom_it_wakes() {
    let mut m = RECORDS.machine("smp4", &[]);
    let (waker, wakees) = (1, [2, 3]);
    m.known_task(waker);
    m.set_current(waker);
    let tasks = wakees.map(|wakee| m.known_task(wakee));
    for _ in 0..3 {
        for task in tasks {
            m.call("fair_select_cpu", &[task, 0, WAKE]);
        }
    }
    let flips = |m: &mut Machine, entity| m.call("t_entity_get", &[entity])[2];
    assert_eq!(flips(&mut m, waker), 6);
    assert_eq!(wakees.map(|wakee| flips(&mut m, wakee)), [0, 0]);
    assert_eq!(m.call("t_entity_get", &[waker])[3], wakees[1]);
}

/// A waker that is about to sleep leaves its CPU to the wakee, which comes to an idle CPU beside it; any other is a load
/// there, and the wakee stays in its own cache.
#[test]
fn a_waker_that_is_about_to_sleep_counts_for_nothing() {
    for (flags, chosen) in [(WAKE, 4), (WAKE | WAKE_SYNC, 1)] {
        let mut m = RECORDS.machine("pkg2x4", &[]);
        let (waker, wakee) = (1, 2);
        runs(&mut m, waker, 0);
        m.set_current(waker);
        m.set_idle(!1);
        let task = m.known_task(wakee);
        m.call("t_entity", &[wakee, HOG, 0, 0, 0]);
        let (_, cpu) = m.kernel.call("fair_select_cpu", &[task, 4, flags]);
        assert_eq!(cpu, chosen, "flags {flags}");
    }
}

/// A wakeup on an idle CPU ends a time of idling, by which it knows how long these are; a task that has only been changed
/// does not.
#[test]
fn a_wakeup_ends_the_idle_time() {
    let (avg_ns, idle_ns) = (500_000, 900_000);
    for (flags, after) in [
        (ENQUEUE_WAKEUP, [0, avg_ns + (idle_ns - avg_ns) / 8]),
        (ENQUEUE_RESTORE, [NOW_NS - idle_ns, avg_ns]),
    ] {
        let mut m = RECORDS.machine("smp4", &[("autogroup", 0)]);
        m.call("t_cpu_idle", &[0, NOW_NS - idle_ns, avg_ns, 0, -1, 0]);
        let task = m.known_task(1);
        m.call("fair_enqueue", &[task, flags]);
        let w = m.call("t_cpu_idle_get", &[0]);
        assert_eq!([w[1], w[2]], after, "flags {flags}");
    }
}

/// CPUs 0 and 4 are a core. When the second of them goes idle, too, wakeups may look for an idle core again.
#[test]
fn the_last_of_a_core_to_go_idle_makes_it_an_idle_core() {
    for (idle, is_idle_core) in [(1 << 4, true), (1 << 1 | 1 << 5, false)] {
        let mut m = RECORDS.machine("i7", &[]);
        m.set_idle(idle);
        assert!(!has_idle_cores(&mut m));
        m.call("fair_dispatch", &[0, 0]);
        assert_eq!(has_idle_cores(&mut m), is_idle_core, "{idle:#x} idle");
    }
}

/// No tick comes while a CPU idles, so the load at its last tick would stay that of the hog which has gone to sleep.
#[test]
fn a_cpu_that_goes_idle_forgets_the_load_of_its_last_tick() {
    let mut m = RECORDS.machine("smp4", &[]);
    m.set_idle(!1);
    let hog = runs(&mut m, 1, 0);
    let loads = |m: &mut Machine| {
        let last = m.call("t_history_get", &[0, 0])[2];
        [last, m.call("t_loads", &[0, 0])[2]]
    };
    m.call("fair_tick", &[hog]);
    assert_eq!(loads(&mut m), [HOG, HOG]);
    m.call("fair_quiescent", &[hog, DEQUEUE_SLEEP]);
    assert_eq!(loads(&mut m), [HOG, 0]);
    m.call("fair_dispatch", &[0, 0]);
    assert_eq!(loads(&mut m), [0, 0]);
}

/// CPU 1 gives tasks of CPU 0 to all idle CPUs, to itself last: as soon as it has one it would leave the others alone.
#[test]
fn who_balances_for_all_idle_cpus_comes_last() {
    let mut m = RECORDS.machine("smp4", &[("newidle_balance", 0)]);
    m.set_idle(0b1110);
    runs(&mut m, 1, 0);
    for entity in 2..=8 {
        waits(&mut m, entity, 0);
    }
    // Idle CPUs take from one that has no capacity left.
    m.call("t_queue", &[0, 8 * HOG, 8 * HOG, 1024, 0, 0]);
    balances_for_all(&mut m, 1);
    // Who came last to CPU 0 leaves it first.
    let [second, third, own] = [2, 3, 1].map(|cpu| m.list(cpu));
    assert_eq!([second, third, own], [vec![7, 6], vec![5, 4], vec![3]]);
}

/// An idle CPU has no ticks: the averages of its load follow when it is balanced for.
#[test]
fn who_balances_for_an_idle_cpu_counts_its_ticks() {
    let mut m = RECORDS.machine("smp4", &[]);
    m.set_idle(0b1110);
    for cpu in [2, 3] {
        for n in 0..5 {
            m.call("t_history", &[cpu, n, HOG]);
        }
    }
    // Of CPU 3 it is not time yet.
    m.call("t_cpu_balance", &[3, 0, TICK + 1, 0]);
    balances_for_all(&mut m, 1);
    let mut history = |cpu| [0, 1, 2, 3, 4].map(|n: i64| m.call("t_history_get", &[cpu, n])[2]);
    // What remains after one tick, as the load was known until then.
    assert_eq!(history(2), [0, 512, 768, 896, 960]);
    assert_eq!(history(3), [HOG; 5]);
}
