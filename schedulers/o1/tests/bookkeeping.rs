// SPDX-License-Identifier: GPL-2.0-or-later
//! What the scheduler keeps about tasks and CPUs beside its queues: masks, policies, pids, realtime tasks.

use super::recorded::FIRST;
use super::world::*;

/// `MAX_MASKS` of affinity.h.
const MAX_MASKS: usize = 8192;
const ENQUEUE_MOVE: i64 = 4;
const PF_KTHREAD: u32 = 0x20_0000;

/// The address of the mask with only these CPUs, which is the task's now.
fn restrict(w: &mut World, n: i64, cpus: &[usize]) -> i64 {
    let id = w.ids[n as usize];
    let state = w.m.kernel.state();
    state.allow(id, |cpu| cpus.contains(&cpu));
    state.task(id).cpus_ptr as i64
}

/// More masks, one after the other, than there is room for: of a task that is restricted again and again, and of tasks
/// that exit.
#[test]
pub fn masks_return() {
    for exits in [false, true] {
        let mut w = World::new(3, &[]);
        let task = w.task(0);
        let mask = restrict(&mut w, task, &[0, 1]);
        for _ in 0..=MAX_MASKS {
            if exits {
                w.about("linux26_exit_task", task, 0);
                w.init(task, false);
            } else {
                w.about("o1_set_cpumask", task, mask);
            }
        }
        let may = [0, 1, 2].map(|cpu| w.m.call("t_may_run", &[task + FIRST, cpu])[2]);
        assert_eq!(may, [1, 1, 0], "exits: {exits}");
    }
}

/// A task that balancing has moved stays where that has put it, if it is only changed; it goes where the core has it, if it may no
/// longer run there, and if more than its nice value or its CPUs change.
#[test]
pub fn a_changed_task_stays_only_where_it_may() {
    for (cpus, flags, stays) in [
        (&[0, 1][..], ENQUEUE_RESTORE, true),
        (&[1], ENQUEUE_RESTORE, false),
        (&[0, 1], ENQUEUE_RESTORE | ENQUEUE_MOVE, false),
    ] {
        let mut w = World::new(2, &[]);
        let task = w.task(1);
        w.m.call("t_on_cpu", &[task + FIRST, 0]);
        w.m.enqueue(&[task], false);
        w.about("linux26_dequeue", task, DEQUEUE_SAVE);
        w.about("linux26_quiescent", task, DEQUEUE_SAVE);
        let mask = restrict(&mut w, task, cpus);
        w.about("o1_set_cpumask", task, mask);
        w.about("linux26_enqueue", task, flags);
        let (on, off) = if stays { (0, 1) } else { (1, 0) };
        assert_eq!(w.queued(on)[0], [task], "{cpus:?}, {flags}");
        assert_eq!(w.cpu(off).nr_running, 0, "{cpus:?}, {flags}");
    }
}

/// What a task is when it comes under O(1): of batch policy, or a kernel thread of one CPU.
#[test]
pub fn a_task_is_what_it_was_before() {
    for (policy, flags, array, prio) in [
        (0, 0, 0, 120),
        (POLICY_BATCH, 0, EXPIRED, 125),
        (POLICY_IDLE, 0, EXPIRED, 139),
        (0, PF_KTHREAD, 0, 100),
    ] {
        let mut w = World::new(2, &[("kthreads_first", 1)]);
        let [hog, other] = [0, 1].map(|_| w.task(0));
        w.about("linux26_exit_task", other, 0);
        restrict(&mut w, other, &[0]);
        w.struct_of(other, |p| (p.policy, p.flags) = (policy, flags));
        w.init(other, false);
        w.runs(hog, 0);
        w.later(500 * MS);
        w.wakes(other);
        let seen = w.seen(other);
        assert_eq!(
            (seen.array, seen.prio),
            (array, prio),
            "{policy} {flags:#x}"
        );
    }
}

/// A realtime task counts as a load from when it takes the CPU until that chooses again, or one of ours runs there.
#[test]
pub fn a_realtime_task_is_gone_when_the_cpu_chooses() {
    let load = |w: &mut World| w.m.call("t_guess", &[0, 0, 0])[3];
    for runs in [false, true] {
        let mut w = World::new(1, &[]);
        let [hog, other] = [0, 1].map(|_| w.task(0));
        let idle = load(&mut w);
        w.runs(hog, 0);
        let alone = load(&mut w);
        w.about("linux26_stopping", hog, 1);
        assert!(load(&mut w) > alone);
        if runs {
            // One that exits skips dispatch().
            w.about("linux26_enqueue", hog, 0);
            w.about("linux26_running", other, 0);
            assert_eq!(load(&mut w), 2 * alone);
        } else {
            w.about("linux26_disable", hog, 0);
            w.dispatch(0, None);
            assert_eq!(load(&mut w), idle);
        }
    }
}

/// The core moves a task that waits: that is no sleep.
#[test]
pub fn a_wait_on_another_cpu_is_no_sleep() {
    let mut w = World::new(2, &[]);
    let task = w.task(0);
    w.wakes(task);
    let before = w.seen(task).savg;
    w.later(500 * MS);
    w.about("linux26_dequeue", task, 8);
    let id = w.ids[task as usize];
    w.m.kernel.state().set_cpu(id, 1);
    w.about("linux26_enqueue", task, ENQUEUE_MIGRATED);
    assert_eq!((w.seen(task).savg, w.seen(task).cpu), (before, 1));
}

/// A thread that does not lead its process calls execve() and has another pid from then on.
#[test]
pub fn a_task_with_another_pid_is_handed_over() {
    let mut w = World::new(1, &[]);
    let task = w.task(0);
    w.struct_of(task, |p| p.pid = 5000);
    w.wakes(task);
    w.dispatch(0, None);
    assert_eq!(w.local(0), [task]);
}

/// A task that the core has taken away keeps its place in the queue, and is not handed over until it is back.
#[test]
pub fn a_task_that_is_being_changed_is_not_handed_over() {
    let mut w = World::new(1, &[]);
    let task = w.task(0);
    w.wakes(task);
    w.about("linux26_dequeue", task, DEQUEUE_SAVE);
    w.dispatch(0, None);
    assert!(w.local(0).is_empty());
    w.about("linux26_enqueue", task, ENQUEUE_RESTORE);
    w.dispatch(0, None);
    assert_eq!(w.local(0), [task]);
}

/// The kernel leaves CPUs that are offline in a mask: as many CPUs as are online are not all that are.
#[test]
pub fn offline_cpus_of_a_mask_do_not_count() {
    let mut w = World::new(2, &[]);
    let task = w.task(0);
    for (cpus, may) in [(&[1, 2, 3][..], [0, 1]), (&[0, 1, 2], [1, 1])] {
        let mask = restrict(&mut w, task, cpus);
        w.about("o1_set_cpumask", task, mask);
        let got = [0, 1].map(|cpu| w.m.call("t_may_run", &[task + FIRST, cpu])[2]);
        assert_eq!(got, may, "{cpus:?}");
    }
}

/// A mask belongs to one task.
#[test]
pub fn each_task_has_its_own_mask() {
    let mut w = World::new(4, &[]);
    let tasks = [0, 1].map(|_| w.task(0));
    for (task, cpus) in [(tasks[0], [0, 1]), (tasks[1], [2, 3])] {
        let mask = restrict(&mut w, task, &cpus);
        w.about("o1_set_cpumask", task, mask);
    }
    for (task, cpus) in [(tasks[0], [1, 1, 0, 0]), (tasks[1], [0, 0, 1, 1])] {
        let may = [0, 1, 2, 3].map(|cpu| w.m.call("t_may_run", &[task + FIRST, cpu])[2]);
        assert_eq!(may, cpus);
    }
}
