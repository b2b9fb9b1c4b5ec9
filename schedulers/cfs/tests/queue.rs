// SPDX-License-Identifier: GPL-2.0-or-later
//! One queue: slices, vruntime, placement, the pick.

use super::machine::*;
use std::collections::BTreeMap;

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

/// `place_entity()` takes the later of both: a child gains no time by being born.
#[test]
fn a_newborn_keeps_a_later_vruntime() {
    let cfs = Cfs::kernel49(8);
    cfs.set_min_vruntime(0, 100 * MS);
    cfs.queued(0, 100 * MS);
    let child = cfs.task(0, 0);
    let after = cfs.call("t_place", &[child, 150 * MS, 1]);
    assert_eq!(after, 150 * MS);
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

/// `set_next_buddy()` and `set_last_buddy()` pass over tasks of SCHED_IDLE.
#[test]
fn idle_tasks_are_no_buddies() {
    for kind in [NEXT, LAST] {
        for (policy, is_buddy) in [(POLICY_BATCH, true), (POLICY_IDLE, false)] {
            let cfs = Cfs::kernel49(8);
            let left = cfs.queued(0, 90 * MS);
            let other = cfs.call("t_task", &[0, policy, 0, 0, 91 * MS]);
            cfs.call("t_enqueue", &[other, 0, 0]);
            cfs.call("t_mark", &[other, kind]);
            let pick = if is_buddy { other } else { left };
            assert_eq!(cfs.peek(), pick, "kind {kind}, policy {policy}");
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
