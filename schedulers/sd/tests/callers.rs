// SPDX-License-Identifier: GPL-2.0-or-later
//! That callbacks call what the records test on its own, and as they should; and rules of which there are no records.

use super::recorded::Sd;
use std::ptr::without_provenance;
use tiltyard_native::layout::{InitTaskArgs, TaskStruct};
use tiltyard_schedtest::globals;
use tiltyard_schedtest::kernel::{KICK_PREEMPT, Kernel, TaskId};

/// Flags of callbacks, as the kernel has them.
const WAKE_SYNC: i64 = 16;
const ENQUEUE_WAKEUP: i64 = 1;
const ENQUEUE_RESTORE: i64 = 2;
const ENQUEUE_MOVE: i64 = 4;
const ENQUEUE_NEW: i64 = 0x88;
const DEQUEUE_SLEEP: i64 = 1;
const DEQUEUE_SAVE: i64 = 2;
const TASK_QUEUED: u32 = 1;
const PF_EXITING: u32 = 4;
const TASK_INTERRUPTIBLE: u32 = 1;
const TASK_UNINTERRUPTIBLE: u32 = 2;
const POLICY_IDLE: u32 = 5;

/// `MAX_MASKS` of affinity.h.
const MAX_MASKS: usize = 8192;

const US: i64 = 1000;
const MS: i64 = 1_000_000;
/// `MAX_RT_PRIO`, and the level of tasks that only run when no others do.
const FIRST_LEVEL: i64 = 100;
const IDLE_LEVEL: i64 = 140;

/// What SD knows of a task.
#[derive(Debug, PartialEq)]
struct Seen {
    slice_us: i64,
    prio: i64,
    /// The array in which it is queued; 2: none.
    array: i64,
    first_slice: bool,
}

/// SD in charge of tasks: the first is number 0.
struct World {
    sd: Sd,
    ids: Vec<TaskId>,
}

impl World {
    /// As many CPUs, each with a cache of its own.
    fn new(nr_cpus: i64, tunables: &[(&str, i128)]) -> World {
        let mut values = globals(&[("tick_hz", 1000), ("rr_interval", 6)]);
        values.extend(globals(tunables));
        let mut sd = Sd::with(nr_cpus, &values);
        sd.kernel.state().now_ns = 1000 * MS as u64;
        assert_eq!(sd.kernel.call("sd_init", &[]).1 as i32, 0);
        World { sd, ids: vec![] }
    }

    fn kernel(&mut self) -> &mut Kernel {
        &mut self.sd.kernel
    }

    fn add(&mut self, parent: Option<i64>, change: impl FnOnce(&mut TaskStruct)) -> i64 {
        let pid = 1000 + self.ids.len() as i32;
        let id = self.kernel().state().add_task(pid, 0);
        self.ids.push(id);
        let n = self.ids.len() as i64 - 1;
        let current = parent.map(|n| self.ids[n as usize]);
        let state = self.kernel().state();
        state.current = current;
        state.task(id).mm = without_provenance(8);
        change(state.task(id));
        // SAFETY: numbers and raw pointers, for which zero is a value.
        let mut args: InitTaskArgs = unsafe { std::mem::zeroed() };
        args.fork = parent.is_some();
        let words = [self.address(n), &raw const args as i64];
        assert_eq!(self.kernel().call("sd_init_task", &words).1 as i32, 0);
        n
    }

    /// A task that is there already, on CPU 0.
    fn task(&mut self) -> i64 {
        self.add(None, |_| ())
    }

    fn address(&mut self, n: i64) -> i64 {
        let id = self.ids[n as usize];
        self.kernel().state().address(id)
    }

    fn struct_of(&mut self, n: i64, change: impl FnOnce(&mut TaskStruct)) {
        let id = self.ids[n as usize];
        change(self.kernel().state().task(id));
    }

    /// A callback about a task, with one more argument.
    fn about(&mut self, callback: &str, n: i64, argument: i64) -> i64 {
        let p = self.address(n);
        self.kernel().call(callback, &[p, argument]).1
    }

    fn wakes(&mut self, n: i64) {
        self.about("linux26_enqueue", n, ENQUEUE_WAKEUP);
    }

    fn dispatch(&mut self) {
        self.kernel().state().cpu = 0;
        self.kernel().call("linux26_dispatch", &[0, 0]);
    }

    /// A task wakes up and gets CPU 0.
    fn runs(&mut self, n: i64) {
        self.wakes(n);
        self.dispatch();
        self.about("linux26_running", n, 0);
        self.struct_of(n, |p| {
            p.scx.flags |= TASK_QUEUED;
            p.scx.slice = 1;
        });
        self.kicks();
    }

    fn sleeps(&mut self, n: i64, state: u32) {
        self.struct_of(n, |p| p.state = state);
        self.about("linux26_stopping", n, 0);
        self.about("linux26_quiescent", n, DEQUEUE_SLEEP);
    }

    fn later(&mut self, ns: i64) {
        self.kernel().state().now_ns += ns as u64;
    }

    fn ticks(&mut self, n: i64, ticks: i64) {
        for _ in 0..ticks {
            self.later(MS);
            self.about("linux26_tick", n, 0);
        }
    }

    fn kicks(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.kernel().state().kicks)
    }

    fn seen(&mut self, n: i64) -> Seen {
        let w = self.sd.call("t_task_get", &[n + 1]);
        Seen {
            slice_us: w[3],
            prio: w[4],
            array: w[5],
            first_slice: w[7] != 0,
        }
    }

    /// Rotation, running task (-1: none) and whether it is to choose again.
    fn cpu(&mut self) -> (i64, i64, bool) {
        let w = self.sd.call("t_cpu_get", &[0]);
        (w[1], w[4] - 1, w[5] != 0)
    }
}

/// A waker that is about to sleep leaves its own CPU to its wakee, and no other: there the wakee preempts.
#[test]
pub fn a_sync_waker_leaves_its_own_cpu_only() {
    for (here, kicks) in [(0, vec![]), (1, vec![(0, KICK_PREEMPT)])] {
        let mut w = World::new(2, &[("wake_placement", 0)]);
        let [hog, wakee] = [0, 1].map(|_| w.task());
        w.runs(hog);
        w.ticks(hog, 6);
        assert_eq!(w.seen(hog).prio, FIRST_LEVEL + 3);
        w.dispatch();
        w.kicks();
        w.kernel().state().cpu = here;
        let p = w.address(wakee);
        assert_eq!(
            w.kernel().call("linux26_select_cpu", &[p, 0, WAKE_SYNC]).1,
            0
        );
        w.wakes(wakee);
        assert_eq!(w.kicks(), kicks, "woken on CPU {here}");
    }
}

/// A running task that is changed goes on: it is charged from where it was.
#[test]
pub fn a_change_does_not_begin_a_run() {
    let mut w = World::new(1, &[]);
    let task = w.task();
    w.runs(task);
    w.later(700 * US);
    w.about("linux26_running", task, 0);
    w.later(300 * US);
    w.about("linux26_tick", task, 0);
    assert_eq!(w.seen(task).slice_us, 5000);
}

/// A realtime task takes the CPU: ours is charged, has the CPU no more, and comes back without a slice of the core's.
#[test]
fn a_realtime_task_takes_the_cpu() {
    let mut w = World::new(1, &[]);
    let task = w.task();
    w.runs(task);
    w.later(500 * US);
    w.about("linux26_stopping", task, 1);
    let mut slice = 1;
    w.struct_of(task, |p| slice = p.scx.slice);
    assert_eq!(slice, 0);
    w.about("linux26_enqueue", task, 0);
    assert_eq!(w.cpu().1, -1);
    assert_eq!(w.seen(task).slice_us, 5500);
}

/// An idle task that may hold what others wait for is a normal one on the last level, with no more than a quota.
#[test]
pub fn idle_tasks_that_others_may_wait_for() {
    for (state, prio, array) in [
        (TASK_INTERRUPTIBLE, IDLE_LEVEL, 0),
        (TASK_UNINTERRUPTIBLE, FIRST_LEVEL + 39, 1),
    ] {
        let mut w = World::new(1, &[]);
        let task = w.add(None, |p| p.policy = POLICY_IDLE);
        w.runs(task);
        w.sleeps(task, state);
        w.wakes(task);
        let seen = w.seen(task);
        assert_eq!((seen.prio, seen.array), (prio, array), "state {state}");
    }
    let mut w = World::new(1, &[]);
    let task = w.add(None, |p| p.static_prio = 100);
    w.runs(task);
    assert_eq!(w.seen(task).slice_us, 60_000);
    w.struct_of(task, |p| {
        p.static_prio = 139;
        p.policy = POLICY_IDLE;
    });
    w.about("sd_set_weight", task, 1);
    w.sleeps(task, TASK_UNINTERRUPTIBLE);
    w.wakes(task);
    assert_eq!(w.seen(task).slice_us, 3000);
}

/// The core gives an idle task a CPU that has not chosen it: that does not hold up worse ones of normal policy.
#[test]
pub fn idle_tasks_are_in_no_rotation() {
    let mut w = World::new(1, &[]);
    let task = w.add(None, |p| p.policy = POLICY_IDLE);
    w.about("linux26_running", task, 0);
    assert_eq!(w.cpu().1, task);
    let seen = w.sd.call("t_cpu_get", &[0]);
    assert_eq!((seen[2], seen[3], seen[7]), (39, 39, 0));
    assert_eq!(w.sd.call("t_reached_get", &[0, 20])[2], 0);
}

/// They hardly count in the load: 20 quotas of 6 ms, not times 40.
#[test]
pub fn idle_tasks_weigh_little() {
    let mut w = World::new(1, &[]);
    for (policy, weight) in [(0, 4800), (POLICY_IDLE, 120)] {
        let task = w.add(None, |p| p.policy = policy);
        assert_eq!(w.sd.call("t_weight_get", &[task + 1])[1], weight);
    }
}

/// A new process makes its creator's CPU choose again. A new thread waits, and so does a new kernel thread.
#[test]
fn who_is_created_and_waits() {
    for (mm, tgid, preempts) in [(8, 1001, true), (8, 1000, false), (0, 1001, false)] {
        let mut w = World::new(1, &[]);
        let parent = w.task();
        w.runs(parent);
        let child = w.add(Some(parent), |p| {
            p.mm = without_provenance(mm);
            p.tgid = tgid;
        });
        w.about("linux26_enqueue", child, ENQUEUE_NEW);
        let kicks: &[(u32, u64)] = if preempts { &[(0, KICK_PREEMPT)] } else { &[] };
        assert_eq!(w.kicks(), kicks, "mm {mm}, tgid {tgid}");
        let halves = [parent, child].map(|n| w.seen(n).slice_us);
        assert_eq!(halves, [3000; 2]);
    }
}

/// When the first quota, which the parent gave, has been used up, the next one is the child's own.
#[test]
pub fn a_used_first_quota_is_not_the_parents_any_more() {
    let mut w = World::new(1, &[]);
    let parent = w.task();
    w.runs(parent);
    let child = w.add(Some(parent), |p| p.tgid = 1000);
    w.about("linux26_enqueue", child, ENQUEUE_NEW);
    assert!(w.seen(child).first_slice);
    w.sleeps(parent, TASK_INTERRUPTIBLE);
    w.dispatch();
    w.about("linux26_running", child, 0);
    w.ticks(child, 3);
    let seen = w.seen(child);
    assert_eq!((seen.prio, seen.slice_us), (FIRST_LEVEL + 3, 6000));
    assert!(!seen.first_slice);
}

/// A CPU that goes idle begins a rotation.
#[test]
pub fn idling_begins_a_rotation() {
    let mut w = World::new(1, &[]);
    let task = w.task();
    w.runs(task);
    let before = w.cpu().0;
    w.sleeps(task, TASK_INTERRUPTIBLE);
    w.dispatch();
    assert_eq!(w.cpu().0, before + 1);
}

/// Ticks of an idle CPU, which nobody has counted, make its averages fall before its load changes.
#[test]
fn idle_ticks_are_made_up_for() {
    let mut w = World::new(1, &[]);
    let [hog, other] = [0, 1].map(|_| w.task());
    w.runs(hog);
    w.ticks(hog, 200);
    assert_eq!(w.sd.call("t_load_get", &[0])[1..4], [4800; 3]);
    w.sleeps(hog, TASK_INTERRUPTIBLE);
    w.later(3 * MS);
    w.wakes(other);
    assert_eq!(w.sd.call("t_load_get", &[0])[1..4], [0, 600, 2025]);
}

/// Arrays have numbers, and which of the two is active differs from CPU to CPU: a task that moves within its rotation comes
/// to the array of the same kind.
#[test]
pub fn a_moved_task_comes_to_the_array_of_the_same_kind() {
    for expired in [0, 1] {
        let mut sd = Sd::boot(2, &[("rr_interval", 6)]);
        let none = 39;
        for cpu in [0, 1] {
            sd.call("t_cpu", &[cpu, 5, none, none, super::recorded::NOW_NS]);
        }
        // CPU 1 has swapped its arrays once: for a task that had expired.
        sd.call("t_task", &[1, 20, 0, 0, 5, 1, 1, 6000]);
        sd.call("t_task_more", &[1, 101, 0, 0, 0, -1, 0, 1]);
        sd.call("t_queue", &[1, 1, 0]);
        assert_eq!(sd.call("t_pick", &[1, 0, super::recorded::NOW_NS])[3], 1);
        sd.call("t_task", &[2, 20, 0, 1 << 3, 5, 0, expired, 6000]);
        sd.call("t_task_more", &[2, 103, 0, 0, 0, -1, 0, 1]);
        sd.call("t_place", &[1, 2]);
        sd.call("t_queue", &[1, 2, 0]);
        assert!(sd.array(1, expired != 0).contains(&1));
        assert!(!sd.array(1, expired == 0).contains(&1));
    }
}

/// Exiting tasks go on without dispatch(), and nobody pushes: two of them would preempt each other for ever.
#[test]
pub fn exiting_tasks_are_preempted_only_once_for_a_push() {
    for (flags, kicks) in [(0, 2), (PF_EXITING, 1)] {
        let mut w = World::new(2, &[]);
        let tasks = [0, 1].map(|_| w.task());
        w.sd.call("t_push_to", &[0, 1]);
        for n in tasks {
            w.struct_of(n, |p| p.flags = flags);
            w.about("linux26_running", n, 0);
        }
        assert_eq!(w.kicks(), vec![(0, KICK_PREEMPT); kicks]);
    }
}

/// RSDL: who comes back with what is left of a quota stays where it was, but not above the level that is served.
#[test]
pub fn nobody_stays_above_the_level_that_is_served() {
    for (served, prio, slice_us) in [(15, 120, 2000), (20, 120, 2000), (30, 130, 6000)] {
        let mut sd = Sd::boot(1, &[("rr_interval", 6), ("mode", 1)]);
        sd.call("t_cpu", &[0, 5, 39, 39, 0]);
        for level in [20, served] {
            sd.call("t_level_quota", &[0, level, 5000]);
        }
        sd.call("t_task", &[1, 20, 0, 1 << 20, 5, 0, 0, 2000]);
        sd.call("t_task_more", &[1, 120, 0, 0, 0, -1, 0, 1]);
        sd.call("t_place", &[0, 1]);
        let w = sd.call("t_task_get", &[1]);
        assert_eq!((w[4], w[3]), (prio, slice_us), "level {served} is served");
    }
}

/// RSDL: a level whose quota is used up to the microsecond is not pushed behind the next one yet.
#[test]
pub fn a_level_has_all_of_its_quota() {
    for (left_us, pushed) in [(1000, false), (999, true)] {
        let mut sd = Sd::boot(1, &[("rr_interval", 6), ("mode", 1), ("tick_hz", 1000)]);
        sd.call("t_cpu", &[0, 5, 39, 39, 0]);
        sd.call("t_task", &[1, 20, 0, 1 << 20, 5, 0, 0, 6000]);
        sd.call("t_task_more", &[1, 120, 0, 5 * MS, 0, -1, 0, 1]);
        sd.call("t_queue", &[0, 1, 1]);
        sd.call("t_level_quota", &[0, 20, left_us]);
        sd.call("t_tick", &[0, 1, 6 * MS]);
        assert_eq!(sd.call("t_cpu_get", &[0])[5] != 0, pushed, "{left_us} us");
    }
}

/// The address of the mask with only these CPUs, which is the task's now.
fn restrict(w: &mut World, n: i64, cpus: &[usize]) -> i64 {
    let id = w.ids[n as usize];
    let state = w.kernel().state();
    state.allow(id, |cpu| cpus.contains(&cpu));
    state.task(id).cpus_ptr as i64
}

/// More masks, one after the other, than there is room for: of a task that is restricted again and again, and of tasks
/// that exit.
#[test]
fn masks_return() {
    for exits in [false, true] {
        let mut w = World::new(3, &[]);
        let task = w.task();
        let mask = restrict(&mut w, task, &[0, 1]);
        // SAFETY: numbers and raw pointers, for which zero is a value.
        let args: InitTaskArgs = unsafe { std::mem::zeroed() };
        for _ in 0..=MAX_MASKS {
            if exits {
                w.about("linux26_exit_task", task, 0);
                assert_eq!(
                    w.about("sd_init_task", task, &raw const args as i64) as i32,
                    0
                );
            } else {
                w.about("sd_set_cpumask", task, mask);
            }
        }
        let may = [0, 1, 2].map(|cpu| w.sd.call("t_may_run", &[task + 1, cpu])[2]);
        assert_eq!(may, [1, 1, 0], "exits: {exits}");
    }
}

/// A task that balancing has moved stays there if it is only changed and may; else it goes where the core has it.
#[test]
fn a_changed_task_stays_where_it_was_moved_if_it_may() {
    for (cpus, flags, at) in [
        (&[0, 1][..], ENQUEUE_RESTORE, 0),
        (&[1], ENQUEUE_RESTORE, 1),
        (&[0, 1], ENQUEUE_RESTORE | ENQUEUE_MOVE, 1),
    ] {
        let mut w = World::new(2, &[]);
        let task = w.task();
        w.wakes(task);
        w.about("linux26_dequeue", task, DEQUEUE_SAVE);
        w.about("linux26_quiescent", task, DEQUEUE_SAVE);
        let mask = restrict(&mut w, task, cpus);
        w.about("sd_set_cpumask", task, mask);
        // As after balancing: the core has it elsewhere.
        let id = w.ids[task as usize];
        w.kernel().state().set_cpu(id, 1);
        w.about("linux26_enqueue", task, flags);
        assert_eq!(
            w.sd.call("t_task_get", &[task + 1])[6],
            at,
            "{cpus:?}, {flags}"
        );
    }
}

/// A realtime task counts as a load from when it takes the CPU until that chooses again, or one of ours runs there.
#[test]
fn a_realtime_task_is_gone_when_the_cpu_chooses() {
    let load = |w: &mut World| w.sd.call("t_may_run", &[1, 0])[3];
    for runs in [false, true] {
        let mut w = World::new(1, &[]);
        let [hog, other] = [0, 1].map(|_| w.task());
        let idle = load(&mut w);
        w.runs(hog);
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
            w.dispatch();
            assert_eq!(load(&mut w), idle);
        }
    }
}
