// SPDX-License-Identifier: GPL-2.0-or-later
//! CFS's arithmetic and decisions, number by number: the C code itself, built for the simulated machine and called a
//! function at a time through schedulers/cfs/tests/vectors.bpf.c. Times are ns unless named otherwise.

mod common;
#[path = "common/vectors.rs"]
mod vectors;

use common::{build, repository, shipped};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use tiltyard_native::{Instance, Object, Value};

const MS: i64 = 1_000_000;
/// A segment of PELT.
const SEGMENT: i64 = 1024 * 1024;
const TICK: i64 = 4 * MS;

/// Ways to leave a queue, as queue.h has them.
const SLEEP: i64 = 1;
const FOR_GOOD: i64 = 0;

/// Buddies, as t_mark takes them.
const NEXT: i64 = 0;
const LAST: i64 = 1;
const SKIP: i64 = 2;

const POLICY_BATCH: i64 = 3;
const POLICY_IDLE: i64 = 5;

fn object() -> &'static Object {
    static OBJECT: OnceLock<Object> = OnceLock::new();
    OBJECT.get_or_init(|| build(&shipped("schedulers/cfs/tests/vectors.bpf.c")))
}

#[derive(Deserialize)]
struct Preset {
    set: BTreeMap<String, toml::Value>,
}

fn preset(name: &str) -> Vec<(String, Value)> {
    let path = repository().join("schedulers/cfs/presets.toml");
    let text = std::fs::read_to_string(path).expect("presets.toml");
    let presets: BTreeMap<String, Preset> = toml::from_str(&text).expect("presets.toml");
    let number = |value: &toml::Value| {
        let of_bool = value.as_bool().map(i64::from);
        Value::Int(
            value
                .as_integer()
                .or(of_bool)
                .expect("a number or a bool")
                .into(),
        )
    };
    presets[name]
        .set
        .iter()
        .map(|(key, value)| (key.clone(), number(value)))
        .collect()
}

/// An empty machine under CFS.
struct Cfs {
    instance: Instance,
}

impl Cfs {
    /// `cpus` possible CPUs, `scale_cpus` that count for the factor of the tunables.
    fn new(globals: &[(String, Value)], cpus: i64, scale_cpus: i64) -> Cfs {
        let instance = vectors::load(object(), globals);
        let cfs = Cfs { instance };
        cfs.call("t_reset", &[cpus, scale_cpus]);
        cfs
    }

    /// One core under the figures of Linux 4.9 for a machine of `scale_cpus`.
    fn kernel49(scale_cpus: i64) -> Cfs {
        Cfs::new(&preset("cfs_kernel49"), 1, scale_cpus)
    }

    fn paper() -> Cfs {
        Cfs::new(&preset("cfs"), 1, 8)
    }

    fn with(name: &str, value: i128) -> Cfs {
        let mut globals = preset("cfs_kernel49");
        globals.retain(|(key, _)| key != name);
        globals.push((name.to_owned(), Value::Int(value)));
        Cfs::new(&globals, 1, 8)
    }

    fn call_all(&self, program: &str, words: &[i64]) -> (i64, [i64; 8]) {
        vectors::call(&self.instance, program, words)
    }

    fn call(&self, program: &str, words: &[i64]) -> i64 {
        self.call_all(program, words).0
    }

    /// A task of root that is not queued yet, vruntime `v`.
    fn task(&self, nice: i64, v: i64) -> i64 {
        self.call("t_task", &[nice, 0, 0, 0, v])
    }

    /// Queued tasks of group `group`, vruntime 0.
    fn hogs(&self, nices: &[i64], group: i64) -> Vec<i64> {
        let tasks: Vec<i64> = nices
            .iter()
            .map(|&nice| self.call("t_task", &[nice, 0, group, 0, 0]))
            .collect();
        for &task in &tasks {
            self.call("t_enqueue", &[task, 0, 0]);
        }
        tasks
    }

    fn queued(&self, nice: i64, v: i64) -> i64 {
        let task = self.task(nice, v);
        self.call("t_enqueue", &[task, 0, 0]);
        task
    }

    fn group(&self, index: i64, parent: i64) {
        self.call("t_group", &[index, parent, 1024]);
    }

    fn slice(&self, task: i64) -> i64 {
        self.call("t_slice", &[task, 0])
    }

    fn vslice(&self, task: i64) -> i64 {
        self.call("t_slice", &[task, 1])
    }

    fn vruntime(&self, entity: i64) -> i64 {
        self.call("t_vruntime", &[entity, 0, 0])
    }

    fn set_min_vruntime(&self, cpu: i64, v: i64) {
        self.call("t_min_vruntime", &[0, cpu, v, 1]);
    }

    fn min_vruntime(&self) -> i64 {
        self.call("t_min_vruntime", &[0, 0, 0, 0])
    }

    /// Who would run; nobody gets the turn.
    fn peek(&self) -> i64 {
        self.call("t_pick", &[0, 0, 0])
    }

    /// Who runs from `now` on.
    fn switch(&self, now: i64) -> i64 {
        self.call("t_pick", &[0, now, 1])
    }

    /// Ticks for `total` ns; each turn is (task, start, end).
    fn drive(&self, total: i64) -> Vec<(i64, i64, i64)> {
        let (mut turns, mut start, mut running) = (Vec::new(), 0, self.switch(0));
        for now in (TICK..=total).step_by(TICK as usize) {
            if self.call("t_tick", &[running, now]) == 0 {
                continue;
            }
            let next = self.switch(now);
            if next != running {
                turns.push((running, start, now));
                (running, start) = (next, now);
            }
        }
        turns
    }
}

#[test]
fn slices_of_equal_tasks() {
    let table = [
        (1, [2_999_998, 1_199_998, 749_998, 749_998, 749_999]),
        (2, [5_999_997, 2_399_997, 1_499_997, 1_499_997, 1_499_998]),
        (4, [8_999_995, 3_599_996, 2_249_995, 2_249_996, 2_249_997]),
        (8, [11_999_994, 4_799_995, 2_999_994, 2_999_994, 2_999_997]),
        (32, [11_999_994, 4_799_995, 2_999_994, 2_999_994, 2_999_997]),
    ];
    for (cpus, slices) in table {
        for (n, slice) in [2, 5, 8, 9, 20].into_iter().zip(slices) {
            let cfs = Cfs::kernel49(cpus);
            let tasks = cfs.hogs(&vec![0; n], 0);
            assert_eq!(cfs.slice(tasks[0]), slice, "{n} tasks, {cpus} CPUs");
        }
    }
    for (n, slice) in [
        (2, 23_999_988),
        (5, 9_599_990),
        (9, 5_999_989),
        (20, 5_999_994),
    ] {
        let cfs = Cfs::paper();
        let tasks = cfs.hogs(&vec![0; n], 0);
        assert_eq!(
            cfs.slice(tasks[0]),
            slice,
            "{n} tasks, figures of the paper"
        );
    }
}

#[test]
fn slices_of_mixed_weights() {
    let table: [(&[i64], i64, i64); 3] = [
        (&[0, 5], 18_083_885, 5_916_114),
        (&[-5, 0, 0], 14_490_991, 4_754_493),
        (&[19, 0, 0, 0, 0], 87_569, 5_978_107),
    ];
    for (nices, first, second) in table {
        let cfs = Cfs::kernel49(8);
        let tasks = cfs.hogs(nices, 0);
        assert_eq!(
            (cfs.slice(tasks[0]), cfs.slice(tasks[1])),
            (first, second),
            "nice {nices:?}"
        );
    }
}

#[test]
fn vslice_of_a_task_that_joins() {
    let table = [
        (0, 23_999_994),
        (1, 11_999_994),
        (2, 7_999_998),
        (7, 2_999_994),
        (8, 2_999_994),
        (19, 2_999_997),
    ];
    for (others, vslice) in table {
        let cfs = Cfs::kernel49(8);
        cfs.hogs(&vec![0; others], 0);
        assert_eq!(cfs.vslice(cfs.task(0, 0)), vslice, "joins {others}");
    }
    let cfs = Cfs::kernel49(8);
    cfs.hogs(&[0, 0], 0);
    let task = cfs.task(5, 0);
    assert_eq!((cfs.slice(task), cfs.vslice(task)), (3_373_897, 10_313_046));
}

#[test]
fn slices_in_groups() {
    for (cpus, fibo, sysbench) in [(8, 11_999_991, 1_499_976), (1, 2_999_997, 374_993)] {
        let cfs = Cfs::kernel49(cpus);
        cfs.group(1, 0);
        cfs.group(2, 0);
        let one = cfs.hogs(&[0], 1);
        let many = cfs.hogs(&[0; 80], 2);
        assert_eq!(
            (cfs.slice(one[0]), cfs.slice(many[0])),
            (fibo, sysbench),
            "{cpus} CPUs"
        );
    }
}

#[test]
fn vruntime_of_a_run() {
    let cfs = Cfs::kernel49(8);
    let table = [
        (-20, 11_536, 115_365),
        (-10, 107_247, 1_072_475),
        (-5, 328_099, 3_280_999),
        (-1, 801_879, 8_018_794),
        (0, 1_000_000, 10_000_000),
        (1, 1_248_780, 12_487_804),
        (5, 3_056_716, 30_567_164),
        (10, 9_309_090, 93_090_908),
        (15, 28_444_444, 284_444_444),
        (19, 68_266_666, 682_666_666),
    ];
    for (nice, one, ten) in table {
        let cost = |ms: i64| cfs.call("t_fair", &[ms * MS, nice]);
        assert_eq!((cost(1), cost(10)), (one, ten), "nice {nice}");
        // Beyond 2^32 ns the product would not fit 64 bits; the cut factor scales, to within its own error.
        let (long, short) = (cost(10_000_000), cost(10) * 1_000_000);
        assert!(
            (long - short).abs() <= 1_000_000,
            "nice {nice}: {long} after 10000 s, {short} by tens of ms"
        );
    }
}

#[test]
fn charges_while_running() {
    let cfs = Cfs::kernel49(8);
    let tasks = cfs.hogs(&[5, 5], 0);
    let running = cfs.switch(0);
    cfs.call("t_tick", &[running, TICK]);
    assert_eq!(running, tasks[0]);
    assert_eq!(cfs.call("t_sum_exec", &[running]), TICK);
    // What 4 ms cost at nice 5.
    assert_eq!(cfs.vruntime(running), 12_226_865);
    assert_eq!(cfs.vruntime(tasks[1]), 0);
}

#[test]
fn wakeup_granularity_is_in_the_wakees_vruntime() {
    let table = [
        (-20, 46_146, 11_536),
        (-10, 428_990, 107_247),
        (-5, 1_312_399, 328_099),
        (0, 4_000_000, 1_000_000),
        (5, 12_226_865, 3_056_716),
        (10, 37_236_363, 9_309_090),
        (19, 273_066_666, 68_266_666),
    ];
    for (nice, on_eight, on_one) in table {
        for (cpus, granularity) in [(8, on_eight), (1, on_one)] {
            let cfs = Cfs::kernel49(cpus);
            let test = |lead| {
                cfs.call(
                    "t_wakeup_test",
                    &[cfs.task(0, 1000 * MS), cfs.task(nice, 1000 * MS - lead)],
                )
            };
            assert_eq!(
                (test(granularity), test(granularity + 1)),
                (0, 1),
                "nice {nice}, {cpus} CPUs"
            );
        }
    }
}

#[test]
fn wakeup_test() {
    let table = [
        (8, 100_000_000, 88_000_000, 0, 1),
        (8, 100_000_000, 96_000_000, 0, 0),
        (8, 100_000_000, 95_999_999, 0, 1),
        (8, 100_000_000, 88_000_000, 5, 0),
        (8, 100_000_000, 87_000_000, 5, 1),
        (8, 100_000_000, 98_000_000, -5, 1),
        (8, 100_000_000, 99_000_000, -5, 0),
        (8, 100_000_000, 88_000_000, 19, 0),
        (8, 100_000_000, 101_000_000, 0, -1),
        (8, 100_000_000, 100_000_000, 0, -1),
        (1, 100_000_000, 96_000_000, 0, 1),
        (1, 100_000_000, 88_000_000, 5, 1),
        (1, 100_000_000, 88_000_000, 19, 0),
        // Across the wrap of vruntime.
        (1, 500_000, -1_000_000, 0, 1),
        (1, i64::MIN + 2 * MS, i64::MAX - MS, 0, 1),
    ];
    for (cpus, curr, wakee, nice, result) in table {
        let cfs = Cfs::kernel49(cpus);
        let pair = [cfs.task(0, curr), cfs.task(nice, wakee)];
        assert_eq!(
            cfs.call("t_wakeup_test", &pair),
            result,
            "({curr}, {wakee}, {nice}), {cpus} CPUs"
        );
    }
}

#[test]
fn place_a_wakee() {
    let table = [
        (8, 40, 88),
        (8, 86, 88),
        (8, 89, 89),
        (8, 95, 95),
        (8, 105, 105),
        (1, 40, 97),
        (1, 95, 97),
        (1, 99, 99),
    ];
    for (cpus, before, after) in table {
        let cfs = Cfs::kernel49(cpus);
        cfs.set_min_vruntime(0, 100 * MS);
        let task = cfs.task(0, 0);
        assert_eq!(
            cfs.call("t_place", &[task, before * MS, 0]),
            after * MS,
            "{before} ms, {cpus} CPUs"
        );
    }
    for (credit, after) in [(0, 100), (1, 88), (2, 76)] {
        let cfs = Cfs::with("sleeper_credit", credit);
        cfs.set_min_vruntime(0, 100 * MS);
        let task = cfs.task(0, 0);
        assert_eq!(
            cfs.call("t_place", &[task, 40 * MS, 0]),
            after * MS,
            "sleeper_credit {credit}"
        );
    }
}

#[test]
fn place_a_newborn() {
    for (debit, after) in [(1, 111_999_994), (0, 100_000_000)] {
        let cfs = Cfs::with("start_debit", debit);
        cfs.set_min_vruntime(0, 100 * MS);
        cfs.queued(0, 100 * MS);
        let child = cfs.task(0, 0);
        assert_eq!(
            cfs.call("t_place", &[child, 100 * MS, 1]),
            after,
            "start_debit {debit}"
        );
    }
}

#[test]
fn a_move_keeps_the_distance_to_min_vruntime() {
    let cfs = Cfs::new(&preset("cfs_kernel49"), 2, 8);
    cfs.set_min_vruntime(1, 5000 * MS);
    cfs.queued(0, 100 * MS);
    let task = cfs.queued(0, 105 * MS);
    cfs.switch(0);
    cfs.set_min_vruntime(0, 100 * MS);
    assert_eq!(cfs.call("t_dequeue", &[task, 0, FOR_GOOD]), 5 * MS);
    cfs.call("t_move", &[task, 1, 0]);
    assert_eq!(cfs.call("t_enqueue", &[task, 0, 0]), 5005 * MS);
    assert_eq!(
        (cfs.call("t_nr_tasks", &[0]), cfs.call("t_nr_tasks", &[1])),
        (1, 1)
    );
}

#[test]
fn min_vruntime_never_goes_back() {
    for (late, after) in [(0, 30), (1, 10)] {
        let cfs = Cfs::with("late_min_vruntime", late);
        let first = cfs.queued(0, 10 * MS);
        cfs.queued(0, 30 * MS);
        cfs.set_min_vruntime(0, 10 * MS);
        cfs.call("t_dequeue", &[first, 0, SLEEP]);
        assert_eq!(cfs.min_vruntime(), after * MS, "late_min_vruntime {late}");
        // A wakee behind all others does not pull it back.
        cfs.call("t_vruntime", &[first, 0, 1]);
        cfs.call("t_enqueue", &[first, 0, 1]);
        assert_eq!(cfs.switch(0), first);
        cfs.call("t_tick", &[first, MS]);
        assert!(cfs.vruntime(first) < after * MS);
        assert_eq!(cfs.min_vruntime(), after * MS);
    }
}

#[test]
fn pick_prefers_a_buddy_that_is_fair() {
    for (kind, v, buddy) in [
        (NEXT, 93, true),
        (NEXT, 95, false),
        (NEXT, 94, true),
        (LAST, 93, true),
        (LAST, 95, false),
    ] {
        let cfs = Cfs::kernel49(8);
        let (left, other) = (cfs.queued(0, 90 * MS), cfs.queued(0, v * MS));
        cfs.call("t_mark", &[other, kind]);
        assert_eq!(cfs.peek() == other, buddy, "kind {kind}, {v} ms");
        // The mark goes with the pick.
        if buddy {
            assert_eq!(cfs.peek(), left);
        }
    }
}

#[test]
fn next_beats_last_and_both_beat_skip() {
    let cfs = Cfs::kernel49(8);
    let tasks: Vec<i64> = [90, 91, 92, 93]
        .iter()
        .map(|v| cfs.queued(0, v * MS))
        .collect();
    cfs.call("t_mark", &[tasks[0], SKIP]);
    assert_eq!(cfs.peek(), tasks[1]);
    cfs.call("t_mark", &[tasks[0], SKIP]);
    cfs.call("t_mark", &[tasks[2], LAST]);
    assert_eq!(cfs.peek(), tasks[2]);
    cfs.call("t_mark", &[tasks[2], LAST]);
    cfs.call("t_mark", &[tasks[3], NEXT]);
    assert_eq!(cfs.peek(), tasks[3]);
}

#[test]
fn skip_gives_way_only_if_that_is_fair() {
    let cfs = Cfs::kernel49(8);
    let left = cfs.queued(0, 90 * MS);
    cfs.queued(0, 95 * MS);
    cfs.call("t_mark", &[left, SKIP]);
    assert_eq!(cfs.peek(), left);
}

#[test]
fn equal_vruntimes_are_first_come_first_served() {
    let cfs = Cfs::kernel49(8);
    let mut tasks = cfs.hogs(&[0; 50], 0);
    // The first goes and comes again: now it is last.
    cfs.call("t_dequeue", &[tasks[0], 0, SLEEP]);
    cfs.call("t_enqueue", &[tasks[0], 0, 0]);
    tasks.rotate_left(1);
    for task in tasks {
        assert_eq!(cfs.peek(), task);
        cfs.call("t_dequeue", &[task, 0, SLEEP]);
    }
    assert_eq!(cfs.peek(), 0);
}

/// Thousands of tasks come and go in no order, with vruntimes around the 64-bit wrap; the pick is always the one that
/// a sorted list would give.
#[test]
fn the_queue_is_in_order_across_the_wrap() {
    // Where the sign changes, and where all 64 bits do.
    for base in [i64::MAX - 400, -400] {
        in_order_from(base);
    }
}

fn in_order_from(base: i64) {
    let cfs = Cfs::kernel49(1);
    let mut state = 1u64;
    let mut random = move |n: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let (mut waiting, mut asleep) = (BTreeMap::new(), Vec::new());
    for step in 0..10_000u64 {
        if waiting.is_empty() || random(100) < 52 {
            let task = asleep.pop().unwrap_or_else(|| cfs.task(0, 0));
            let offset = random(1000);
            cfs.call("t_vruntime", &[task, base.wrapping_add(offset as i64), 1]);
            cfs.call("t_enqueue", &[task, 0, 0]);
            waiting.insert((offset, step), task);
        } else {
            let nth = if random(2) == 0 {
                0
            } else {
                random(waiting.len() as u64)
            };
            let key = *waiting.keys().nth(nth as usize).expect("in range");
            let task = waiting.remove(&key).expect("present");
            cfs.call("t_dequeue", &[task, 0, SLEEP]);
            asleep.push(task);
        }
        let first = waiting.first_key_value().map_or(0, |(_, &task)| task);
        assert_eq!(cfs.peek(), first, "step {step}, {} tasks", waiting.len());
    }
    assert!(waiting.len() > 200);
}

#[test]
fn a_wakee_far_enough_behind_preempts() {
    for (sleeper, preempts) in [(96, 0), (95, 1)] {
        let cfs = Cfs::kernel49(8);
        let hog = cfs.queued(0, 100 * MS);
        cfs.set_min_vruntime(0, 100 * MS);
        assert_eq!(cfs.switch(0), hog);
        let wakee = cfs.task(0, sleeper * MS);
        cfs.call("t_enqueue", &[wakee, 0, 1]);
        assert_eq!(
            cfs.call("t_preempts", &[wakee, 0]),
            preempts,
            "{sleeper} ms"
        );
    }
}

#[test]
fn the_running_tasks_vruntime_counts_as_of_now() {
    let cfs = Cfs::kernel49(8);
    cfs.queued(0, 0);
    cfs.switch(0);
    let wakee = cfs.queued(0, 0);
    assert_eq!(cfs.call("t_preempts", &[wakee, 4 * MS]), 0);
    // A preemption that is on its way is enough.
    assert_eq!(cfs.call("t_preempts", &[wakee, 4 * MS + 1, 1]), 0);
    assert_eq!(cfs.call("t_preempts", &[wakee, 4 * MS + 1]), 1);
}

#[test]
fn policies_and_preemption() {
    // Running, wakee, expected; both at vruntimes that let a normal task preempt.
    for (running, wakee, preempts) in [
        (0, 0, 1),
        (0, POLICY_BATCH, 0),
        (0, POLICY_IDLE, 0),
        (POLICY_BATCH, 0, 1),
        (POLICY_IDLE, 0, 1),
        (POLICY_IDLE, POLICY_BATCH, 1),
    ] {
        let cfs = Cfs::kernel49(8);
        let hog = cfs.call("t_task", &[0, running, 0, 0, 100 * MS]);
        cfs.call("t_enqueue", &[hog, 0, 0]);
        cfs.switch(0);
        let other = cfs.call("t_task", &[0, wakee, 0, 0, 0]);
        cfs.call("t_enqueue", &[other, 0, 0]);
        assert_eq!(
            cfs.call("t_preempts", &[other, 0]),
            preempts,
            "{wakee} wakes over {running}"
        );
    }
    // A task of policy SCHED_IDLE loses the CPU whatever the vruntimes.
    let cfs = Cfs::kernel49(8);
    let idle = cfs.call("t_task", &[0, POLICY_IDLE, 0, 0, 0]);
    cfs.call("t_enqueue", &[idle, 0, 0]);
    cfs.switch(0);
    let other = cfs.queued(0, 100 * MS);
    assert_eq!(cfs.call("t_preempts", &[other, 0]), 1);
    assert_eq!(cfs.call("t_weight", &[idle]), 3);
}

/// Preemption is decided where the two paths meet: a group that slept preempts, its member's own vruntime is nothing.
#[test]
fn groups_preempt_as_groups() {
    let cfs = Cfs::kernel49(8);
    cfs.group(1, 0);
    cfs.group(2, 1);
    let hog = cfs.queued(0, 100 * MS);
    cfs.set_min_vruntime(0, 100 * MS);
    assert_eq!(cfs.switch(0), hog);
    let deep = cfs.call("t_task", &[0, 0, 2, 0, 900 * MS]);
    cfs.call("t_enqueue", &[deep, 0, 0]);
    // Both groups were empty: placed as wakees, half a latency behind, whatever brought their task.
    assert_eq!(cfs.vruntime(cfs.call("t_group_entity", &[1, 0])), 88 * MS);
    assert_eq!(cfs.call("t_preempts", &[deep, 0]), 1);
    assert_eq!(cfs.switch(0), deep);
}

#[test]
fn a_lone_task_does_not_give_way() {
    let cfs = Cfs::kernel49(8);
    let alone = cfs.queued(0, 0);
    cfs.switch(0);
    assert_eq!(cfs.call("t_yield", &[alone, MS]), 0);
    let other = cfs.queued(0, 2 * MS);
    assert_eq!(cfs.call("t_yield", &[alone, MS]), 1);
    assert_eq!(cfs.switch(MS), other);
    // vruntime is what the run cost, no more.
    assert_eq!(cfs.vruntime(alone), MS);
}

#[test]
fn the_turn_of_a_lone_task_never_ends() {
    let cfs = Cfs::kernel49(1);
    let alone = cfs.queued(0, 0);
    cfs.switch(0);
    assert!((1..100).all(|k| cfs.call("t_tick", &[alone, k * TICK]) == 0));
}

#[test]
fn golden_schedules() {
    #[derive(Deserialize)]
    struct Golden {
        schedule: Vec<Schedule>,
    }
    #[derive(Deserialize)]
    struct Schedule {
        preset: String,
        cpus: i64,
        nice: Vec<i64>,
        turns: String,
        share_s: Option<i64>,
        shares_pct: Option<Vec<f64>>,
    }
    let path = repository().join("crates/sim/tests/data/cfs_golden.toml");
    let text = std::fs::read_to_string(path).expect("cfs_golden.toml");
    let golden: Golden = toml::from_str(&text).expect("cfs_golden.toml");
    assert!(golden.schedule.len() >= 10);
    for schedule in golden.schedule {
        let cfs = Cfs::new(&preset(&schedule.preset), 1, schedule.cpus);
        let tasks = cfs.hogs(&schedule.nice, 0);
        let total = schedule.share_s.unwrap_or(1) * 1000 * MS;
        let letter =
            |task| char::from(b'A' + tasks.iter().position(|&t| t == task).expect("known") as u8);
        let turns: Vec<String> = cfs
            .drive(total)
            .into_iter()
            .map(|(task, start, end)| format!("{}{}-{}", letter(task), start / MS, end / MS))
            .collect();
        let expected: Vec<&str> = schedule.turns.split_whitespace().collect();
        assert_eq!(
            turns[..expected.len()],
            expected,
            "{} {:?}",
            schedule.preset,
            schedule.nice
        );
        for (task, share) in tasks.iter().zip(schedule.shares_pct.into_iter().flatten()) {
            let got = cfs.call("t_sum_exec", &[*task]) as f64 * 100.0 / total as f64;
            assert!(
                (got - share).abs() < 0.005,
                "{:?}: {got} instead of {share} %",
                schedule.nice
            );
        }
    }
}

/// One task in a group of its own beside 80 in another: half of the core each, and fair among the 80.
#[test]
fn two_groups_share_equally() {
    for (cfs, share) in [(Cfs::kernel49(8), 50.02), (Cfs::paper(), 50.0)] {
        cfs.group(1, 0);
        cfs.group(2, 0);
        let one = cfs.hogs(&[0], 1)[0];
        let many = cfs.hogs(&[0; 80], 2);
        cfs.drive(20_000 * MS);
        let ran = |task: &i64| cfs.call("t_sum_exec", &[*task]);
        let got = ran(&one) as f64 * 100.0 / (20_000 * MS) as f64;
        assert!((got - share).abs() <= 0.1, "{got} %");
        let (least, most) = (many.iter().map(ran).min(), many.iter().map(ran).max());
        assert!(
            most.expect("80") - least.expect("80") <= 24 * MS,
            "{least:?}..{most:?}"
        );
    }
}

/// Users first, applications of a user second: a and b of one user get a quarter each, c of the other half.
#[test]
fn groups_nest() {
    let cfs = Cfs::kernel49(8);
    for (group, parent) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)] {
        cfs.group(group, parent);
    }
    let apps = [
        cfs.hogs(&[0; 3], 3),
        cfs.hogs(&[0], 4),
        cfs.hogs(&[0; 2], 5),
    ];
    cfs.drive(20_000 * MS);
    let share = |tasks: &[i64]| {
        tasks
            .iter()
            .map(|t| cfs.call("t_sum_exec", &[*t]))
            .sum::<i64>()
            * 100
            / (20_000 * MS)
    };
    let shares = apps.each_ref().map(|tasks| share(tasks));
    assert!(
        shares
            .iter()
            .zip([25, 25, 50])
            .all(|(got, want)| (got - want).abs() <= 1),
        "{shares:?}"
    );
}

#[test]
fn shares_follow_the_load() {
    for (here, all, weight) in [(80, 80, 1024), (40, 80, 512), (1, 80, 12), (1, 512, 2)] {
        let cfs = Cfs::kernel49(8);
        cfs.group(1, 0);
        assert_eq!(
            cfs.call("t_shares", &[1, 0, here * 1024, all * 1024]),
            weight,
            "{here} of {all}"
        );
    }
}

#[test]
fn a_group_weighs_its_shares_on_one_cpu() {
    let cfs = Cfs::kernel49(8);
    cfs.call("t_group", &[1, 0, 3072]);
    cfs.hogs(&[0; 5], 1);
    assert_eq!(
        cfs.call("t_weight", &[cfs.call("t_group_entity", &[1, 0])]),
        3072
    );
}

#[test]
fn new_shares_count_from_the_next_tick() {
    let cfs = Cfs::kernel49(8);
    cfs.group(1, 0);
    let member = cfs.hogs(&[0], 1)[0];
    let other = cfs.queued(0, 0);
    assert_eq!(
        (cfs.slice(member), cfs.slice(other)),
        (11_999_991, 11_999_994)
    );
    cfs.call("t_set_shares", &[1, 3072]);
    assert_eq!(cfs.switch(0), member);
    cfs.call("t_tick", &[member, MS]);
    // 24 ms * 1024 / 4096.
    assert_eq!(cfs.slice(other), 5_999_994);
}

#[test]
fn pelt_ramp() {
    let table = [
        (1, 21),
        (2, 42),
        (4, 83),
        (8, 159),
        (16, 293),
        (32, 501),
        (64, 751),
        (128, 939),
        (345, 1001),
    ];
    for (segments, average) in table {
        let cfs = Cfs::kernel49(1);
        let (crossed, out) = cfs.call_all("t_pelt", &[segments * SEGMENT, 1024, 1]);
        assert_eq!(
            (crossed, out[0], out[1]),
            (1, average, average),
            "{segments} segments"
        );
    }
    // In steps of one segment the rounding differs.
    let cfs = Cfs::kernel49(1);
    let stepped: Vec<i64> = (1..=345)
        .map(|k| cfs.call_all("t_pelt", &[k * SEGMENT, 1024, 1]).1[1])
        .collect();
    assert_eq!((stepped[63], stepped[127], stepped[344]), (752, 940, 1002));
}

#[test]
fn pelt_decay() {
    let table = [
        (1, 1002),
        (8, 861),
        (16, 724),
        (32, 511),
        (64, 255),
        (96, 127),
        (160, 31),
        (320, 0),
        (5000, 0),
    ];
    for (segments, average) in table {
        let cfs = Cfs::kernel49(1);
        cfs.call("t_pelt_set", &[1]);
        let (_, out) = cfs.call_all("t_pelt", &[segments * SEGMENT, 0, 0]);
        assert_eq!((out[0], out[1]), (average, average), "{segments} segments");
    }
}

#[test]
fn pelt_is_renewed_at_segment_boundaries_only() {
    let cfs = Cfs::kernel49(1);
    assert_eq!(
        cfs.call_all("t_pelt", &[SEGMENT - 1024, 1024, 1]),
        (0, [0, 0, 1, 0, 0, 0, 0, 0])
    );
    assert_eq!(cfs.call_all("t_pelt", &[SEGMENT, 1024, 1]).0, 1);
}

/// Steady state of on/off patterns against the closed form; the averages lag by up to one segment.
#[test]
fn pelt_of_periodic_tasks() {
    let table = [
        (10, 10, 564.7, 459.3),
        (5, 5, 538.4, 485.6),
        (1, 9, 112.2, 93.1),
        (9, 1, 930.9, 911.8),
        (100, 100, 908.8, 115.2),
    ];
    for (on_ms, off_ms, peak, trough) in table {
        let cfs = Cfs::kernel49(1);
        let (mut now, mut high, mut low) = (0, 0, 0);
        for _ in 0..4000 / (on_ms + off_ms) {
            now += on_ms * MS;
            high = cfs.call_all("t_pelt", &[now, 1024, 1]).1[1];
            now += off_ms * MS;
            low = cfs.call_all("t_pelt", &[now, 0, 0]).1[1];
        }
        assert!(
            (high as f64 - peak).abs() <= 22.0,
            "{on_ms}/{off_ms}: peak {high}, not {peak}"
        );
        assert!(
            (low as f64 - trough).abs() <= 22.0,
            "{on_ms}/{off_ms}: trough {low}, not {trough}"
        );
    }
}

#[test]
fn new_tasks_halve_what_is_left_of_util() {
    let cfs = Cfs::kernel49(8);
    let utils: Vec<i64> = (0..4)
        .map(|_| cfs.call_all("t_load", &[cfs.queued(0, 0), 0]).1[0])
        .collect();
    // 512 for the first; then min(what is left / 2, the queue's util by weight).
    assert_eq!(utils, [512, 256, 128, 64]);
    let (load, out) = cfs.call_all("t_queue_load", &[0, 0]);
    assert_eq!((load, out[0]), (4096, 4096));
}

/// Waiting is no use of a CPU: a half-life in the queue halves the util, and the turn that follows does not count it.
#[test]
fn util_counts_running_only() {
    let cfs = Cfs::kernel49(8);
    let tasks = cfs.hogs(&[0, 0], 0);
    let util = |task, now| cfs.call_all("t_load", &[task, now]).1[0];
    assert_eq!(cfs.switch(0), tasks[0]);
    assert_eq!((util(tasks[0], 0), util(tasks[1], 0)), (512, 256));
    let now = 32 * SEGMENT;
    cfs.call("t_dequeue", &[tasks[0], now, SLEEP]);
    assert_eq!(cfs.switch(now), tasks[1]);
    let (ran, waited) = (util(tasks[0], now), util(tasks[1], now));
    assert!(
        (ran - 768).abs() <= 22 && (waited - 128).abs() <= 2,
        "{ran}, {waited}"
    );
}

#[test]
fn blocked_load_stays_in_the_queue_and_decays() {
    let cfs = Cfs::kernel49(8);
    let tasks = cfs.hogs(&[0, 0], 0);
    cfs.call("t_dequeue", &[tasks[0], 0, SLEEP]);
    let (load, out) = cfs.call_all("t_queue_load", &[0, 0]);
    assert_eq!((load, out[0]), (2048, 1024));
    // After a half-life: one whole, one half.
    cfs.call("t_load", &[tasks[1], 32 * SEGMENT]);
    let (load, out) = cfs.call_all("t_queue_load", &[0, 0]);
    assert!((load - 1536).abs() <= 2 * 22, "{load}");
    assert!((out[0] - 1024).abs() <= 22, "{}", out[0]);
}

#[test]
fn wakers_of_many_are_wide() {
    let cfs = Cfs::kernel49(8);
    for (waker, wakee, wide) in [(70, 8, 1), (8, 70, 1), (63, 8, 0), (200, 7, 0)] {
        assert_eq!(
            cfs.call("t_wake_wide", &[waker, wakee, 8]),
            wide,
            "({waker}, {wakee})"
        );
    }
}

#[test]
fn wake_affine() {
    let cfs = Cfs::kernel49(8);
    let table = [
        ([2048, 1024, 512, 125], 1),
        ([1024, 1024, 512, 125], 0),
        ([1024, 512, 512, 117], 1),
        ([1024, 600, 512, 117], 0),
        ([0, 0, 1024, 117], 1),
        ([915, 512, 512, 125], 1),
        ([914, 512, 512, 125], 0),
    ];
    for (loads, pulls) in table {
        assert_eq!(cfs.call("t_wake_affine", &loads), pulls, "{loads:?}");
    }
}

/// The README's table of tunables, presets.toml and the source name the same things.
#[test]
fn readme_and_presets_know_the_tunables() {
    let read = |name: &str| {
        let path = repository().join("schedulers/cfs").join(name);
        std::fs::read_to_string(path).expect(name)
    };
    let readme = read("README.md");
    let table = readme
        .split("## Tunables")
        .nth(1)
        .expect("a section on tunables");
    // Those of the header layers are not ours to explain.
    let own = |name: &&String| !name.starts_with("__") && !name.starts_with("tilt_");
    for name in object().tunables.keys().filter(own) {
        assert!(
            table.contains(&format!("| `{name}` |")),
            "README.md does not explain {name}"
        );
    }
    let presets: BTreeMap<String, Preset> =
        toml::from_str(&read("presets.toml")).expect("presets.toml");
    assert!(
        ["cfs", "cfs_kernel49", "cfs_flat", "cfs_2009"]
            .iter()
            .all(|name| presets.contains_key(*name))
    );
    for name in presets.keys() {
        assert!(
            readme.contains(&format!("| `{name}` |")),
            "README.md does not explain preset {name}"
        );
        Cfs::new(&preset(name), 1, 1);
    }
}
