// SPDX-License-Identifier: GPL-2.0-or-later
//! The rules of mlfq, callback by callback, and the exploit in whole runs.

use tiltyard_native::layout::InitTaskArgs;
use tiltyard_schedtest::kernel::{KICK_IDLE, KICK_PREEMPT, Kernel, TaskId};
use tiltyard_schedtest::{Lab, globals, ideal, object, parse, presets};

/// Flags of callbacks, as the kernel has them.
const ENQUEUE_WAKEUP: i64 = 1;
const ENQUEUE_NEW: i64 = 0x88;
const DEQUEUE_SLEEP: i64 = 1;
const RESTORE: i64 = 2;
const TASK_QUEUED: u32 = 1;
const PF_KTHREAD: u32 = 0x20_0000;
const MS: u64 = 1_000_000;
const MIDDLE: u64 = 2;
const TOP: u64 = 4;

/// One CPU under mlfq.
struct World {
    kernel: Kernel,
}

impl World {
    fn new(tunables: &[(&str, i128)]) -> World {
        let mut kernel = Kernel::boot(object("mlfq", 2), &globals(tunables), 1);
        kernel.state().now_ns = 1000 * MS;
        assert_eq!(kernel.call("mlfq_init", &[]).1 as i32, 0);
        World { kernel }
    }

    /// A task that does not run yet.
    fn task(&mut self) -> TaskId {
        self.task_on(0)
    }

    fn task_on(&mut self, cpu: u32) -> TaskId {
        let id = self.kernel.state().add_task(1, cpu);
        // SAFETY: numbers and raw pointers, for which zero is a value.
        let args: InitTaskArgs = unsafe { std::mem::zeroed() };
        let words = [self.kernel.state().address(id), &raw const args as i64];
        assert_eq!(self.kernel.call("mlfq_init_task", &words).1 as i32, 0);
        id
    }

    fn about(&mut self, callback: &str, id: TaskId, argument: i64) {
        let p = self.kernel.state().address(id);
        self.kernel.call(callback, &[p, argument]);
    }

    fn dispatch(&mut self, prev: Option<TaskId>) {
        let p = prev.map_or(0, |id| self.kernel.state().address(id));
        self.kernel.call("mlfq_dispatch", &[0, p]);
    }

    /// A task gets the CPU.
    fn runs(&mut self, id: TaskId) {
        self.kernel.state().set_busy(0);
        self.kernel.state().task(id).scx.flags |= TASK_QUEUED;
        self.about("mlfq_running", id, 0);
    }

    /// A task computes for a while, then loses the CPU to another.
    fn loses(&mut self, id: TaskId, ms: u64) {
        self.runs(id);
        self.kernel.state().now_ns += ms * MS;
        self.about("mlfq_stopping", id, 1);
        self.about("mlfq_enqueue", id, 0);
    }

    /// A task computes for a while, then sleeps.
    fn sleeps(&mut self, id: TaskId, ms: u64) {
        self.runs(id);
        self.kernel.state().now_ns += ms * MS;
        self.about("mlfq_stopping", id, 0);
        self.about("mlfq_quiescent", id, DEQUEUE_SLEEP);
    }

    /// The level at which a task waits, its place there, and its slice in ms. It leaves the queue.
    fn waits(&mut self, id: TaskId) -> (u64, usize, u64) {
        let state = self.kernel.state();
        let slice_ms = state.task(id).scx.slice / MS;
        for level in 0..64 {
            if let Some(place) = state.queued(level).iter().position(|queued| *queued == id) {
                state.unqueue(level, id);
                return (level, place, slice_ms);
            }
        }
        panic!("it waits nowhere");
    }

    /// Wakes a task: where it waits.
    fn wakes(&mut self, id: TaskId) -> (u64, usize, u64) {
        self.about("mlfq_enqueue", id, ENQUEUE_WAKEUP);
        self.waits(id)
    }
}

#[test]
fn new_tasks_begin_in_the_middle() {
    for (levels, middle) in [(5, 2), (4, 2), (9, 4), (1, 0)] {
        let mut w = World::new(&[("nr_levels", levels)]);
        let task = w.task();
        w.about("mlfq_enqueue", task, ENQUEUE_NEW);
        assert_eq!(w.waits(task).0, middle, "{levels} levels");
    }
}

/// Level by level to the lowest, at the tail each time, with a new slice.
#[test]
fn a_whole_slice_leads_down() {
    let mut w = World::new(&[]);
    let task = w.task();
    for level in [1, 0, 0] {
        let other = w.task();
        for _ in level..MIDDLE {
            w.loses(other, 20);
            w.waits(other);
        }
        w.about("mlfq_enqueue", other, ENQUEUE_WAKEUP);
        w.loses(task, 20);
        assert_eq!(w.waits(task), (level, 1, 20));
        w.waits(other);
    }
}

/// Level by level to the highest.
#[test]
fn a_block_before_the_end_leads_up() {
    let mut w = World::new(&[]);
    let task = w.task();
    for level in [3, TOP, TOP] {
        w.sleeps(task, 19);
        assert_eq!(w.wakes(task), (level, 0, 20));
    }
    w.sleeps(task, 20);
    assert_eq!(w.wakes(task).0, TOP);
}

#[test]
fn a_block_at_the_very_end_leads_nowhere() {
    let mut w = World::new(&[]);
    let task = w.task();
    w.sleeps(task, 20);
    assert_eq!(w.wakes(task).0, MIDDLE);
}

/// It keeps its level, is the first there, and has the rest of its slice; then that counts as whole.
#[test]
fn who_is_preempted_returns_to_the_head() {
    let mut w = World::new(&[]);
    let [task, other] = [0, 1].map(|_| w.task());
    w.about("mlfq_enqueue", other, ENQUEUE_WAKEUP);
    w.loses(task, 5);
    assert_eq!(w.waits(task), (MIDDLE, 0, 15));
    w.loses(task, 15);
    assert_eq!(w.waits(task), (1, 0, 20));
}

/// The second half of the exploit: what it has used before it blocked is forgotten.
#[test]
fn a_sleep_renews_the_slice() {
    let mut w = World::new(&[]);
    let task = w.task();
    w.loses(task, 15);
    w.waits(task);
    w.sleeps(task, 4);
    assert_eq!(w.wakes(task), (3, 0, 20));
}

#[test]
fn higher_levels_go_first() {
    let mut w = World::new(&[]);
    let [low, high, middle] = [0, 1, 2].map(|_| w.task());
    w.sleeps(high, 1);
    w.loses(low, 20);
    for task in [middle, high] {
        w.about("mlfq_enqueue", task, ENQUEUE_WAKEUP);
    }
    for _ in 0..3 {
        w.dispatch(None);
    }
    assert_eq!(w.kernel.state().local(0), [high, middle, low]);
}

/// Preempted by a kick, it makes way for higher levels only; with its slice used up, for those of the level to which it
/// goes, too.
#[test]
fn the_running_task_takes_part_in_the_choice() {
    for (ms, goes_on) in [(5, true), (20, false)] {
        let mut w = World::new(&[]);
        let [task, other] = [0, 1].map(|_| w.task());
        w.loses(other, 20);
        w.runs(task);
        w.kernel.state().now_ns += ms * MS;
        w.kernel.state().task(task).scx.slice = 0;
        w.dispatch(Some(task));
        let local: &[TaskId] = if goes_on { &[] } else { &[other] };
        assert_eq!(w.kernel.state().local(0), local, "{ms} ms");
        let slice = w.kernel.state().task(task).scx.slice;
        assert_eq!(slice, if goes_on { 15 * MS } else { 0 }, "{ms} ms");
    }
}

/// Preempted for nothing: an equal waits behind it.
#[test]
fn equals_wait_until_the_slice_is_used_up() {
    let mut w = World::new(&[]);
    let [task, equal] = [0, 1].map(|_| w.task());
    w.about("mlfq_enqueue", equal, ENQUEUE_WAKEUP);
    w.runs(task);
    w.kernel.state().now_ns += 5 * MS;
    w.dispatch(Some(task));
    assert_eq!(w.kernel.state().local(0), []);
}

/// Nobody else waits: it has a new slice all the same, a level further down.
#[test]
fn alone_it_sinks_and_goes_on() {
    let mut w = World::new(&[("slice_bottom_ms", 10), ("slice_top_ms", 50)]);
    let task = w.task();
    w.runs(task);
    for (ran_ms, next_ms) in [(30, 20), (20, 10), (10, 10)] {
        w.kernel.state().now_ns += ran_ms * MS;
        w.dispatch(Some(task));
        assert_eq!(w.kernel.state().task(task).scx.slice, next_ms * MS);
    }
}

/// It has been charged for what it ran before the last choice.
#[test]
fn a_choice_charges_the_running_task_once() {
    let mut w = World::new(&[]);
    let task = w.task();
    w.runs(task);
    for left_ms in [15, 10, 5, 20] {
        w.kernel.state().now_ns += 5 * MS;
        w.dispatch(Some(task));
        assert_eq!(w.kernel.state().task(task).scx.slice, left_ms * MS);
    }
}

/// It has sunk while it went on: a wakee that was its equal preempts it.
#[test]
fn who_sinks_alone_is_preempted_by_its_equals_of_before() {
    let mut w = World::new(&[]);
    let [hog, wakee] = [0, 1].map(|_| w.task());
    w.runs(hog);
    w.kernel.state().now_ns += 20 * MS;
    w.dispatch(Some(hog));
    w.about("mlfq_enqueue", wakee, ENQUEUE_WAKEUP);
    assert_eq!(w.kernel.state().kicks, [(0, KICK_PREEMPT)]);
}

/// A change of a property is no block.
#[test]
fn who_is_changed_keeps_level_and_slice() {
    let mut w = World::new(&[]);
    let task = w.task();
    w.loses(task, 5);
    w.waits(task);
    w.about("mlfq_quiescent", task, RESTORE);
    w.about("mlfq_enqueue", task, RESTORE);
    assert_eq!(w.waits(task), (MIDDLE, 0, 15));
}

/// Kernel threads of a CPU wait in no level, and preempt; others are tasks like any.
#[test]
fn kernel_threads_of_a_cpu_go_first() {
    for (flags, nr_cpus, first) in [(PF_KTHREAD, 1, true), (PF_KTHREAD, 2, false), (0, 1, false)] {
        let mut w = World::new(&[("slice_bottom_ms", 10), ("slice_top_ms", 50)]);
        let [hog, task] = [0, 1].map(|_| w.task());
        w.runs(hog);
        let p = w.kernel.state().task(task);
        p.flags = flags;
        p.nr_cpus_allowed = nr_cpus;
        w.about("mlfq_enqueue", task, ENQUEUE_WAKEUP);
        let state = w.kernel.state();
        let preempts: &[(u32, u64)] = if first { &[(0, KICK_PREEMPT)] } else { &[] };
        let local: &[TaskId] = if first { &[task] } else { &[] };
        assert_eq!((state.local(0), &state.kicks[..]), (local, preempts));
        if first {
            assert_eq!(state.task(task).scx.slice, 50 * MS);
        }
    }
}

/// Before, the core kept it for its CPU, where nobody could take it, and did not ask when that was free.
#[test]
fn a_higher_class_sends_the_task_to_its_queue() {
    let mut w = World::new(&[]);
    let task = w.task();
    w.runs(task);
    w.kernel.state().task(task).scx.slice = 20 * MS;
    w.kernel.state().now_ns += 5 * MS;
    w.about("mlfq_stopping", task, 1);
    assert_eq!(w.kernel.state().task(task).scx.slice, 0);
    w.about("mlfq_enqueue", task, 0);
    assert_eq!(w.waits(task), (MIDDLE, 0, 15));
}

/// sched_yield(): behind its equals, with the rest of its slice; alone, it goes on with that.
#[test]
fn who_yields_lets_its_equals_go_first() {
    let mut w = World::new(&[]);
    let [task, equal, lower] = [0, 1, 2].map(|_| w.task());
    w.loses(lower, 20);
    let yields = |w: &mut World| {
        w.runs(task);
        w.kernel.state().now_ns += 5 * MS;
        w.kernel.state().task(task).scx.slice = 15 * MS;
        w.about("mlfq_yield", task, 0);
        assert_eq!(w.kernel.state().task(task).scx.slice, 0);
        w.dispatch(Some(task));
    };
    yields(&mut w);
    assert_eq!(w.kernel.state().task(task).scx.slice, 15 * MS, "it goes on");
    w.about("mlfq_stopping", task, 1);
    w.about("mlfq_enqueue", equal, ENQUEUE_WAKEUP);
    yields(&mut w);
    assert!(
        w.kernel.state().queued(MIDDLE).is_empty(),
        "its equal has the CPU"
    );
    w.about("mlfq_stopping", task, 1);
    w.about("mlfq_enqueue", equal, ENQUEUE_WAKEUP);
    w.about("mlfq_enqueue", task, 0);
    assert_eq!(w.waits(task).1, 1, "behind its equal");
}

/// A wakee that preempts leaves idle CPUs alone; one that does not calls one, also the first.
#[test]
fn one_cpu_is_called() {
    for (blocks, running, idle, kick) in [
        (1, 0, 1, (0, KICK_PREEMPT)),
        (0, 0, 1, (1, KICK_IDLE)),
        (0, 1, 0, (0, KICK_IDLE)),
    ] {
        let mut kernel = Kernel::boot(object("mlfq", 2), &globals(&[]), 2);
        assert_eq!(kernel.call("mlfq_init", &[]).1 as i32, 0);
        let mut w = World { kernel };
        let [hog, wakee] = [0, 1].map(|_| w.task_on(running));
        for _ in 0..blocks {
            w.sleeps(wakee, 1);
        }
        w.about("mlfq_running", hog, 0);
        w.kernel.state().set_idle(|cpu| cpu == idle);
        w.about("mlfq_enqueue", wakee, ENQUEUE_WAKEUP);
        assert_eq!(w.kernel.state().kicks, [kick], "{blocks} {running}");
    }
}

/// A wakee preempts a running task of a lower level.
#[test]
fn only_higher_levels_preempt() {
    for (blocks, preempts) in [(1, true), (0, false)] {
        let mut w = World::new(&[]);
        let [hog, wakee] = [0, 1].map(|_| w.task());
        for _ in 0..blocks {
            w.sleeps(wakee, 1);
        }
        w.runs(hog);
        w.about("mlfq_enqueue", wakee, ENQUEUE_WAKEUP);
        let kicks = &w.kernel.state().kicks;
        let expected: &[(u32, u64)] = if preempts { &[(0, KICK_PREEMPT)] } else { &[] };
        assert_eq!(kicks, expected);
    }
}

#[test]
fn slices_rise_or_fall_with_the_level() {
    let presets = presets("mlfq");
    for (preset, slices) in [
        ("mlfq", [20, 20, 20, 20, 20]),
        ("mlfq_rising", [10, 20, 30, 40, 50]),
        ("mlfq_falling", [50, 40, 30, 20, 10]),
    ] {
        let kernel = Kernel::boot(object("mlfq", 2), &presets[preset], 1);
        let mut w = World { kernel };
        assert_eq!(w.kernel.call("mlfq_init", &[]).1 as i32, 0);
        for (level, slice_ms) in slices.into_iter().enumerate() {
            let task = w.task();
            for _ in MIDDLE as usize..level {
                w.sleeps(task, 1);
            }
            for _ in level..MIDDLE as usize {
                w.loses(task, 50);
                w.waits(task);
            }
            assert_eq!(w.wakes(task), (level as u64, 0, slice_ms), "{preset}");
        }
    }
}

/// Every so often all waiting tasks go to the highest level.
#[test]
fn a_boost_lifts_all_who_wait() {
    let mut w = World::new(&[("boost_ms", 1000)]);
    let [first, second, top] = [0, 1, 2].map(|_| w.task());
    for task in [first, second] {
        w.loses(task, 20);
    }
    w.kernel.state().now_ns += 900 * MS;
    w.dispatch(None);
    assert_eq!(w.kernel.state().local(0), [first], "it is too early");
    w.about("mlfq_enqueue", top, ENQUEUE_WAKEUP);
    w.kernel.state().now_ns += 100 * MS;
    w.dispatch(None);
    assert_eq!(w.kernel.state().local(0), [first, second]);
    assert_eq!(w.kernel.state().queued(TOP), [top]);
    w.loses(second, 5);
    assert_eq!(w.waits(second).0, TOP, "that is its level now");
}

/// Not a moment too early, once each time, from the lowest level on.
#[test]
fn a_boost_comes_when_it_is_due() {
    let mut w = World::new(&[("boost_ms", 1000)]);
    let [low, other] = [0, 1].map(|_| w.task());
    w.loses(low, 20);
    w.waits(low);
    w.loses(low, 20);
    w.kernel.state().now_ns += 959 * MS;
    for (later_ms, level, boosted) in [(0, 0, 0), (1, TOP, 1)] {
        w.kernel.state().now_ns += later_ms * MS;
        w.about("mlfq_enqueue", other, ENQUEUE_WAKEUP);
        w.dispatch(None);
        assert_eq!(
            w.kernel.state().take_local(0),
            Some(if boosted == 0 { other } else { low })
        );
        assert_eq!(w.kernel.number("nr_boosted"), boosted * 2);
        if boosted == 0 {
            assert_eq!(w.kernel.state().queued(level), [low]);
        }
    }
    // The next one is a second away, also for a CPU whose clock is a little behind.
    w.loses(low, 20);
    w.dispatch(None);
    w.kernel.state().now_ns -= 21 * MS;
    w.about("mlfq_enqueue", other, ENQUEUE_WAKEUP);
    w.dispatch(None);
    assert_eq!(w.kernel.number("nr_boosted"), 2);
}

/// Lifted to a level where slices are shorter than what it has used, and changed there: it has the shortest of slices left,
/// and not the kernel's own.
#[test]
fn a_slice_that_a_boost_has_used_up_is_short() {
    let mut w = World::new(&[
        ("boost_ms", 1000),
        ("slice_bottom_ms", 50),
        ("slice_top_ms", 10),
    ]);
    let [task, other] = [0, 1].map(|_| w.task());
    w.loses(task, 20);
    w.about("mlfq_enqueue", other, ENQUEUE_WAKEUP);
    w.kernel.state().now_ns += 1000 * MS;
    w.dispatch(None);
    let state = w.kernel.state();
    assert_eq!(state.take_local(0), Some(task));
    w.about("mlfq_enqueue", task, RESTORE);
    assert_eq!(w.waits(task).0, TOP);
    assert_eq!(w.kernel.state().task(task).scx.slice, 1);
}

#[test]
fn levels_and_slices_have_limits() {
    for (set, error) in [
        (("nr_levels", 0), -22),
        (("nr_levels", 1), 0),
        (("nr_levels", 64), 0),
        (("nr_levels", 65), -22),
        (("slice_bottom_ms", 0), -22),
        (("slice_top_ms", 0), -22),
    ] {
        let mut kernel = Kernel::boot(object("mlfq", 2), &globals(&[set]), 1);
        assert_eq!(kernel.try_call("mlfq_init", &[]).1 as i32, error, "{set:?}");
    }
}

/// Hogs wake up at the same level, two of them on idle CPUs and then a third one: it waits until a slice of that level is over.
#[test]
fn who_finds_an_idle_cpu_has_the_slice_of_its_level() {
    let machine = ideal("package:1 core:2 pu:1", 1000);
    let presets = presets("mlfq");
    let mut lab = Lab::new(&machine, object("mlfq", 2));
    lab.globals = &presets["mlfq_falling"];
    let workload = parse(
        r#"{ "tasks": {
            "first": { "instance": 2, "loop": 1, "sleep": 10000, "run": 200000 },
            "third": { "loop": 1, "sleep": 12000, "run": 1000 } }, "global": { "duration": 1 } }"#,
    );
    let ran = lab.run(&workload).expect("a run");
    let third = ran.summary.tasks.iter().find(|t| t.name == "third");
    let waited_ms = third.expect("the third").longest_wait_ns / 1_000_000;
    assert!((17..=19).contains(&waited_ms), "{waited_ms} ms");
}

/// A CPU that finds only tasks that may not run there falls idle, until one comes that may.
#[test]
fn who_loses_a_cpu_wakes_an_idle_one() {
    let machine = ideal("package:1 core:2 pu:1", 1000);
    let lab = Lab::new(&machine, object("mlfq", 2));
    let workload = parse(
        r#"{ "tasks": {
            "short": { "loop": 1, "cpus": [1], "run": 5000 },
            "free": { "loop": 1, "run": 200000 },
            "pinned": { "loop": 1, "cpus": [0], "run": 200000 } }, "global": { "duration": 1 } }"#,
    );
    let ran = lab.run(&workload).expect("a run");
    let task = |name: &str| {
        let mut tasks = ran.summary.tasks.iter();
        tasks.find(|t| t.name == name).expect("a task")
    };
    let waited_ms = ["free", "pinned"].map(|name| task(name).longest_wait_ns / 1_000_000);
    assert_eq!(waited_ms, [0, 15], "the rest of the other's slice");
}

/// Who computes for 99 % of each slice and then sleeps for a moment has most of the CPU, beside a hog that does not
/// sleep; without the sleep it has half.
#[test]
fn the_exploit() {
    let machine = ideal("package:1 core:1 pu:1", 1000);
    for slice_ms in [10, 20, 50, 100] {
        let globals = globals(&[("slice_bottom_ms", slice_ms), ("slice_top_ms", slice_ms)]);
        let mut lab = Lab::new(&machine, object("mlfq", 2));
        lab.globals = &globals;
        let share = |sleep_us: i128| {
            let run_us = slice_ms * 990;
            let workload = parse(&format!(
                r#"{{ "tasks": {{
                    "gamer": {{ "loop": -1, "run": {run_us}, "sleep": {sleep_us} }},
                    "hog": {{ "loop": -1, "run": 100000 }} }}, "global": {{ "duration": 20 }} }}"#
            ));
            let ran = lab.run(&workload).expect("a run");
            let gamer = ran.summary.tasks.iter().find(|t| t.name == "gamer");
            gamer.expect("the gamer").runtime_ns / 200_000_000
        };
        let (gamer, honest) = (share(1000), share(0));
        assert!(gamer >= 80, "slices of {slice_ms} ms: {gamer} %");
        assert!(
            (45..=55).contains(&honest),
            "slices of {slice_ms} ms: {honest} %"
        );
    }
}
