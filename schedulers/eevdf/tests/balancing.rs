// SPDX-License-Identifier: GPL-2.0-or-later
//! What Linux 6.18 makes of groups that have been compared: how much is moved, from which CPU, who balances, when a running
//! task is pushed, whether a CPU that runs dry looks for a task, and where a task wakes up. Expected values are those of
//! `kernel/sched/fair.c` of 6.18.2, worked out by hand for made-up machines.

use super::cpus::*;

/// `enum move_what`.
const LOAD: i64 = 0;
const UTIL: i64 = 1;
pub const MOVED_TASKS: i64 = 2;

/// What CPU 0 takes from the second group, and how much of it.
fn moved(m: &mut Machine, level: i64, state: i64) -> Option<(i64, i64)> {
    m.pass(0, level, state);
    let [found, what, imbalance, ..] = m.call("t_busiest", &[]);
    let second = m.group(0, level, 1);
    assert!(found == second || found == -1);
    (found == second).then_some((what, imbalance))
}

fn tasks(nr: i64) -> Option<(i64, i64)> {
    Some((MOVED_TASKS, nr))
}

/// Balancing looks at a CPU's tasks in the order in which they came; who leaves the middle takes no neighbour along.
#[test]
pub fn tasks_are_listed_as_they_come() {
    let mut m = Machine::even(1, 1, 2, 1);
    assert_eq!(m.call("t_lists", &[]), [2, 2, 0, 0, 1, 3, 3, 1]);
}

// How much ---------------------------------------------------------------------------------

#[test]
pub fn an_idle_cpu_takes_half_of_what_a_cpu_has_more() {
    let mut m = Machine::even(1, 1, 2, 1);
    for (there, amount) in [
        (hogs(1), None),
        (hogs(2), tasks(1)),
        (hogs(3), tasks(1)),
        (hogs(4), tasks(2)),
    ] {
        m.set([1], there);
        assert_eq!(moved(&mut m, 0, IDLE), amount);
        assert_eq!(moved(&mut m, 0, NEWIDLE), amount);
    }
    // What other classes have here is less to take.
    m.set([0], NONE.other(1));
    assert_eq!(moved(&mut m, 0, IDLE), tasks(1));
    // A busy one leaves them to others, if it could run more itself.
    m.set([0], light(1));
    assert_eq!(moved(&mut m, 0, BUSY), None);
}

#[test]
pub fn room_beyond_the_cache_is_filled_up() {
    let mut m = three_caches();
    m.set(4..8, hogs(2));
    m.set([0], light(1).util(600));
    assert_eq!(moved(&mut m, 1, IDLE), Some((UTIL, 3496)));
    assert_eq!(moved(&mut m, 1, BUSY), Some((UTIL, 3496)));
    // Used up of late, but an idle CPU takes one.
    m.set(0..4, hogs(1));
    m.set([0], hogs(1).tasks(0));
    assert_eq!(moved(&mut m, 1, IDLE), tasks(1));
    assert_eq!(moved(&mut m, 1, BUSY), None);
}

#[test]
pub fn tasks_are_spread_over_caches() {
    let mut m = three_caches();
    for (here, there, amount) in [
        (0, 1, None),
        (0, 2, tasks(1)),
        (1, 2, None),
        (1, 3, tasks(1)),
        (0, 4, tasks(2)),
    ] {
        m.set(0..12, NONE);
        m.set(0..here, light(1));
        m.set(4..4 + there, light(1));
        assert_eq!(moved(&mut m, 1, IDLE), amount, "{here}, {there}");
        assert_eq!(moved(&mut m, 1, BUSY), None);
    }
    // They may be on one CPU.
    m.set(0..12, NONE);
    m.set([4], light(2));
    assert_eq!(moved(&mut m, 1, IDLE), tasks(1));
    // From a group without room, too.
    m.set(0..2, light(1));
    m.set(4..8, hogs(1));
    assert_eq!(moved(&mut m, 1, IDLE), tasks(1));
}

#[test]
pub fn cores_have_equally_many_tasks() {
    // Here four cores, there two with two CPUs each; and the other way round.
    let (plain, shared) = (vec![1; 4], vec![2; 2]);
    let mut m = Machine::new(&[vec![plain.clone(), shared.clone()]], &[], &[]);
    for (here, there, amount) in [(0, 2, tasks(1)), (2, 2, tasks(1)), (3, 2, None)] {
        m.set(0..8, NONE);
        m.set(0..here, light(1));
        m.set(4..4 + there, light(1));
        assert_eq!(moved(&mut m, 1, IDLE), amount, "{here}, {there}");
    }
    let mut m = Machine::new(&[vec![shared, plain]], &[], &[]);
    let level = m.call("t_level", &[0, 0])[5] - 1;
    for (there, amount) in [(1, None), (2, tasks(1)), (3, tasks(1)), (4, tasks(1))] {
        m.set(4..4 + there, light(1));
        assert_eq!(moved(&mut m, level, IDLE), amount, "{there}");
    }
}

/// One core of two CPUs is an eighth of the machine, and gets nothing by that: but it is empty.
#[test]
pub fn an_empty_core_takes_one_of_two() {
    let mut m = Machine::new(&[vec![vec![2], vec![1; 7]]], &[], &[]);
    m.set(2..4, light(1));
    assert_eq!(moved(&mut m, 1, IDLE), tasks(1));
    m.set([3], NONE);
    assert_eq!(moved(&mut m, 1, IDLE), None);
}

#[test]
pub fn between_pairs_of_nodes_idle_cpus_are_evened_out() {
    let mut m = four_nodes();
    for (here, there, amount) in [
        // Two idle CPUs more do not matter as long as up to four tasks are here then.
        (0, 1, None),
        (0, 2, None),
        (0, 3, tasks(1)),
        (0, 8, tasks(4)),
        (3, 5, None),
        (4, 6, tasks(1)),
        (4, 5, None),
    ] {
        m.set(0..32, NONE);
        m.set(0..here, light(1));
        m.set(16..16 + there, light(1));
        assert_eq!(moved(&mut m, 3, IDLE), amount, "{here}, {there}");
        assert_eq!(moved(&mut m, 3, BUSY), None);
    }
    // The only task stays.
    let other = NONE.other(1);
    m.set(0..32, NONE);
    m.set(16..22, other);
    m.set([22], light(1));
    assert_eq!(moved(&mut m, 3, IDLE), None);
    m.set([22], light(2));
    assert_eq!(moved(&mut m, 3, IDLE), tasks(3));
}

#[test]
pub fn nodes_with_few_tasks_are_left_uneven() {
    // Between two nodes tasks are spread, but for up to two, one for each cache.
    let mut m = Machine::even(2, 2, 4, 1);
    for (here, there, amount) in [
        (0, 2, None),
        (1, 3, None),
        (2, 4, tasks(1)),
        (0, 3, tasks(1)),
    ] {
        m.set(0..16, NONE);
        m.set(0..here, light(1));
        m.set(8..8 + there, light(1));
        assert_eq!(moved(&mut m, 2, IDLE), amount, "{here}, {there}");
    }
}

#[test]
pub fn load_is_moved_until_either_group_has_the_average() {
    let mut m = three_caches();
    let mut check = |loads: [i64; 3], here: i64, amount| {
        m.set_load(0..4, hogs(here), loads[0]);
        m.set_load(4..8, hogs(2), loads[1]);
        m.set_load(8..12, hogs(1), loads[2]);
        for state in [IDLE, BUSY] {
            assert_eq!(moved(&mut m, 1, state), amount, "{loads:?}");
        }
    };
    let load = |of| Some((LOAD, of));
    // Averages: a fourth. That of all: 1365, 801.
    check([4096, 8192, 4096], 1, load(1364));
    check([400, 5120, 4096], 1, load(1916));
    // Not if it has more already, or more than the average of all.
    check([9000, 8192, 400], 1, None);
    check([8192, 8192, 9000], 1, None);
    check([6000, 8192, 2000], 1, None);
    // Also overloaded: not if the other one is that by 17 percent less.
    check([5120, 5988, 5000], 2, None);
    check([5120, 5992, 5000], 2, load(248));
    check([5120, 5992, 4000], 2, None);
    check([5992, 5120, 9000], 2, None);
    // If the busiest has less than the average of all, what the own group lacks.
    check([400, 2000, 9000], 1, load(3400));
}

#[test]
pub fn between_groups_of_one_type_or_a_busier_own_one_all_is_well() {
    let mut m = three_caches();
    m.set(0..8, hogs(1));
    m.set([4], hogs(1).load(9000));
    assert_eq!(moved(&mut m, 1, IDLE), None);
    m.set(0..4, hogs(2));
    assert_eq!(moved(&mut m, 1, IDLE), None);
    let mut m = Machine::even(1, 1, 2, 1);
    m.set(0..2, hogs(1));
    assert_eq!(moved(&mut m, 0, IDLE), None);
}

#[test]
pub fn whoever_is_imbalanced_gives_one_task() {
    let mut m = three_caches();
    let group = m.group(0, 1, 1);
    m.call("t_set_imbalance", &[group, 1]);
    m.set([4], light(1));
    for here in [NONE, hogs(1), hogs(2)] {
        m.set(0..4, here);
        for state in [IDLE, BUSY] {
            assert_eq!(moved(&mut m, 1, state), tasks(1));
        }
    }
}

#[test]
pub fn the_task_of_a_reduced_cpu_is_moved_whole() {
    let mut m = three_caches();
    let reduced = hogs(1).load(777).taken(300);
    m.set([4], reduced);
    for here in [NONE, hogs(1), hogs(2)] {
        m.set(0..4, here);
        assert_eq!(moved(&mut m, 1, IDLE), Some((LOAD, 777)));
    }
}

#[test]
pub fn siblings_give_one_task() {
    let mut m = siblings();
    m.set(2..4, light(1));
    assert_eq!(moved(&mut m, 1, IDLE), tasks(1));
    m.set(2..4, light(2));
    assert_eq!(moved(&mut m, 1, IDLE), tasks(1));
    // Not to a core that has one, too.
    m.set(2..4, light(1));
    m.set([0], light(1));
    assert_eq!(moved(&mut m, 1, IDLE), None);
    // Nor to one where tasks are pinned.
    m.set([0], NONE);
    let own = m.group(0, 1, 0);
    m.call("t_set_imbalance", &[own, 1]);
    assert_eq!(moved(&mut m, 1, IDLE), None);
    // To a CPU that is a core of its own.
    let mut m = Machine::new(&[vec![vec![1, 2]]], &[], &[]);
    m.set(1..3, light(1));
    assert_eq!(moved(&mut m, 0, IDLE), tasks(1));
}

// From which CPU -----------------------------------------------------------------------------

fn busiest_cpu(m: &mut Machine, what: i64, imbalance: i64) -> i64 {
    let group = m.group(0, 1, 1);
    m.call("t_busiest_cpu", &[group, what, imbalance, 117])[4]
}

#[test]
pub fn tasks_are_taken_where_most_are_runnable() {
    let mut m = three_caches();
    m.pass(0, 1, IDLE);
    assert_eq!(busiest_cpu(&mut m, MOVED_TASKS, 1), -1);
    m.set([4], hogs(1));
    m.set([5], light(2));
    let more = hogs(1).other(1).delayed(1);
    m.set([6], more);
    m.set([7], light(2));
    assert_eq!(busiest_cpu(&mut m, MOVED_TASKS, 1), 5);
    m.call("t_leave_out", &[5]);
    assert_eq!(busiest_cpu(&mut m, MOVED_TASKS, 1), 7);
}

/// If it would have to wait there, too.
#[test]
pub fn a_task_that_has_had_more_than_its_share_stays_at_first() {
    let mut m = three_caches();
    m.pass(0, 1, IDLE);
    m.call("t_entity", &[1, 4, 100, 100, 0, 0]);
    let mut stays = |tasks, failed, ahead| m.call("t_stays_behind", &[1, tasks, failed, ahead])[4];
    assert_eq!(stays(1, 0, 1), 1);
    assert_eq!(stays(1, 0, 0), 0);
    assert_eq!(stays(0, 0, 1), 0);
    assert_eq!(stays(1, 1, 1), 0);
}

#[test]
pub fn utilisation_is_taken_where_most_is_used_by_several_tasks() {
    let mut m = three_caches();
    m.pass(0, 1, IDLE);
    m.set([4], hogs(1));
    let used = |util| light(2).util(util).runnable(util);
    m.set([5], used(300));
    m.set([6], used(400));
    m.set([7], used(400));
    assert_eq!(busiest_cpu(&mut m, UTIL, 1), 6);
    m.call("t_expected", &[5, 500]);
    assert_eq!(busiest_cpu(&mut m, UTIL, 1), 5);
    // Those that wait would use more.
    m.set([7], used(400).runnable(600));
    assert_eq!(busiest_cpu(&mut m, UTIL, 1), 7);
    // No more than a CPU can do.
    m.set([6], used(1024));
    m.set([7], used(400).runnable(2000));
    assert_eq!(busiest_cpu(&mut m, UTIL, 1), 6);
}

#[test]
pub fn load_is_taken_where_it_is_most_for_what_is_left() {
    let mut m = three_caches();
    m.pass(0, 1, IDLE);
    m.set([5], hogs(2));
    let half = hogs(2).load(1500).taken(512);
    m.set([6], half);
    m.set([7], half);
    assert_eq!(busiest_cpu(&mut m, LOAD, 1), 6);
    // A task alone goes whole, or because its CPU has little left for it.
    let alone = hogs(1).load(5000);
    m.set([4], alone);
    assert_eq!(busiest_cpu(&mut m, LOAD, 4999), 6);
    assert_eq!(busiest_cpu(&mut m, LOAD, 5000), 4);
    for (taken, busiest) in [(148, 6), (149, 4)] {
        m.set([4], alone.taken(taken));
        assert_eq!(busiest_cpu(&mut m, LOAD, 1), busiest);
    }
}

// Which tasks --------------------------------------------------------------------------------

/// Whether task 1 is moved for an imbalance, and how much of it that is.
fn fits(m: &mut Machine, what: i64, imbalance: i64) -> (bool, i64) {
    let w = m.call("t_fits", &[1, what, imbalance]);
    (w[3] != 0, w[4])
}

#[test]
pub fn a_task_is_moved_that_does_not_make_up_for_more() {
    let mut m = three_caches();
    m.pass(0, 1, IDLE);
    m.set([4], hogs(3));
    m.call("t_entity", &[1, 4, 1024, 300, 500, 0]);
    // 1024 * 3072 / 3073.
    assert_eq!(fits(&mut m, LOAD, 1022), (false, 1023));
    assert_eq!(fits(&mut m, LOAD, 1023), (true, 1023));
    assert_eq!(fits(&mut m, UTIL, 499), (false, 500));
    assert_eq!(fits(&mut m, UTIL, 500), (true, 500));
    m.call("t_entity", &[1, 4, 1024, 600, 500, 0]);
    assert_eq!(fits(&mut m, UTIL, 600), (true, 600));
    assert_eq!(fits(&mut m, MOVED_TASKS, 1), (true, 1));
    // Without load, too, there is an end to it.
    m.call("t_entity", &[1, 4, 0, 600, 500, 0]);
    assert_eq!(fits(&mut m, LOAD, 10), (true, 1));
}

#[test]
pub fn failed_passes_let_larger_tasks_move() {
    let mut m = three_caches();
    m.pass(0, 1, IDLE);
    m.set([4], hogs(3));
    m.call("t_entity", &[1, 4, 1024, 600, 0, 0]);
    m.call("t_domain", &[0, 1, 2, 0]);
    assert_eq!(fits(&mut m, LOAD, 254), (false, 1023));
    assert_eq!(fits(&mut m, LOAD, 255), (true, 1023));
    assert_eq!(fits(&mut m, UTIL, 149), (false, 600));
    assert_eq!(fits(&mut m, UTIL, 150), (true, 600));
    // Not further than a word is long.
    m.call("t_domain", &[0, 1, 64, 0]);
    assert_eq!(fits(&mut m, LOAD, 1), (true, 1023));
}

// Who ----------------------------------------------------------------------------------------

/// Who balances for the group that these CPUs are.
fn who(m: &mut Machine, level: i64, cpus: std::ops::Range<i64>) -> Vec<i64> {
    let balances = |cpu: &i64| {
        m.pass(*cpu, level, IDLE);
        m.call("t_should_balance", &[])[0] != 0
    };
    cpus.filter(balances).collect()
}

#[test]
pub fn one_cpu_balances_for_a_group() {
    let mut m = Machine::even(1, 2, 2, 2);
    // The first of an idle core, the first idle one, the first.
    for (busy, balances) in [
        (vec![], 0),
        (vec![0], 2),
        (vec![1], 2),
        (vec![0, 2], 1),
        (vec![1, 3], 0),
        (vec![0, 1, 2], 3),
        (vec![0, 1, 2, 3], 0),
    ] {
        m.set(0..8, NONE);
        m.set(busy.clone(), light(1));
        assert_eq!(who(&mut m, 2, 0..4), [balances], "{busy:?}");
    }
    // What sleeps without having left keeps a CPU busy.
    m.set(0..8, NONE);
    let delayed = NONE.delayed(1);
    m.set([0], delayed);
    assert_eq!(who(&mut m, 2, 0..4), [2]);
    m.set([0], NONE);
    m.pass(2, 2, IDLE);
    m.call("t_leave_out", &[0]);
    m.call("t_leave_out", &[1]);
    assert_eq!(m.call("t_should_balance", &[])[0], 1);
}

#[test]
pub fn who_runs_dry_balances_for_itself_unless_it_has_got_a_task() {
    let mut m = siblings();
    let delayed = NONE.delayed(1);
    for (here, balances) in [(NONE, 1), (light(1), 0), (delayed, 0)] {
        m.set([3], here);
        m.pass(3, 1, NEWIDLE);
        assert_eq!(m.call("t_should_balance", &[])[0], balances);
    }
}

#[test]
pub fn a_running_task_is_pushed_after_passes_for_tasks_have_failed() {
    let mut m = three_caches();
    m.set([4], hogs(2));
    // Two more than after which no cache is warm: one within a cache and a node.
    for (level, failed, pushes) in [(0, 3, 0), (0, 4, 1), (1, 3, 0), (1, 4, 1)] {
        m.pass(0, level, BUSY);
        m.call("t_domain", &[0, level, failed, 0]);
        let push = |what| m.call("t_needs_push", &[4, 0, what])[3];
        assert_eq!([MOVED_TASKS, LOAD, UTIL].map(push), [pushes, 0, 0]);
    }
    let mut m = siblings();
    for (failed, pushes) in [(2, 0), (3, 1)] {
        m.pass(0, 0, BUSY);
        m.call("t_domain", &[0, 0, failed, 0]);
        assert_eq!(m.call("t_needs_push", &[1, 0, MOVED_TASKS])[3], pushes);
    }
}

#[test]
pub fn the_task_of_a_reduced_cpu_is_pushed_to_where_more_is_left() {
    let mut m = three_caches();
    let reduced = |tasks, taken| hogs(tasks).taken(taken);
    for (state, there, here, pushes) in [
        (IDLE, reduced(1, 149), 0, 1),
        (NEWIDLE, reduced(1, 149), 0, 1),
        (BUSY, reduced(1, 149), 0, 0),
        (IDLE, reduced(1, 148), 0, 0),
        (IDLE, reduced(2, 149), 0, 0),
        // 117 * 424 is 49608.
        (IDLE, reduced(1, 600), 527, 1),
        (IDLE, reduced(1, 600), 528, 0),
    ] {
        m.set([4], there);
        m.set([0], reduced(0, here));
        m.pass(0, 1, state);
        let w = m.call("t_needs_push", &[4, 0, LOAD]);
        assert_eq!(w[3], pushes, "{state}, {here}");
    }
    // A sibling has less than a CPU without, but all of it.
    let mut m = Machine::new(&[vec![vec![1, 2]]], &[], &[]);
    m.set([1], hogs(1));
    m.pass(0, 0, IDLE);
    assert_eq!(m.call("t_needs_push", &[1, 0, LOAD])[3], 0);
}

// Running dry --------------------------------------------------------------------------------

#[test]
pub fn who_idles_for_too_short_does_not_look() {
    let mut m = three_caches();
    m.call("t_domain", &[0, 0, 0, 5000]);
    for (idle_ns, looks) in [(4999, 0), (5000, 1)] {
        m.call("t_cache", &[0, idle_ns, 0, 0]);
        assert_eq!(m.call("t_pays", &[0])[1], looks);
    }
}

/// Calls, those that found something, and of 1024 so many will be.
fn record(m: &mut Machine) -> [i64; 3] {
    let w = m.call("t_record", &[0, 0]);
    [w[2], w[3], w[4]]
}

#[test]
pub fn who_seldom_finds_a_task_seldom_looks() {
    let mut m = Machine::new(&[vec![vec![1; 4]]], &[], &[("newidle_random", 1)]);
    assert_eq!(record(&mut m), [512, 256, 512]);
    for (random, looks) in [(513, 1), (514, 0), (1023, 0), (1024, 1), (0, 1)] {
        m.kernel.state().random = random;
        assert_eq!(m.call("t_tries", &[0, 0])[2], looks, "{random}");
    }
    assert_eq!(record(&mut m), [514, 256, 512]);
    // What is found counts for those left out, too: 1024 / 513, rounded.
    m.call("t_tried", &[0, 0, 0]);
    m.call("t_tried", &[0, 0, 3]);
    assert_eq!(record(&mut m), [516, 258, 512]);
    for _ in 516..1023 {
        m.call("t_tried", &[0, 0, 0]);
    }
    assert_eq!(record(&mut m), [1023, 258, 512]);
    m.call("t_tried", &[0, 0, 0]);
    assert_eq!(record(&mut m), [512, 129, 258]);
    m.kernel.state().random = 260;
    assert_eq!(m.call("t_tries", &[0, 0])[2], 0);
    // 1024 / 259 is 3.95. Of other levels nothing is known.
    m.call("t_tried", &[0, 0, 1]);
    assert_eq!(record(&mut m), [514, 133, 258]);
    assert_eq!(m.call("t_record", &[1, 0])[2..5], [512, 256, 512]);
}

#[test]
pub fn until_later_versions_who_runs_dry_always_looks() {
    let mut m = Machine::new(&[vec![vec![1; 4]]], &[], &[("newidle_random", 0)]);
    m.kernel.state().random = 1023;
    assert_eq!(m.call("t_tries", &[0, 0])[2], 1);
    m.call("t_tried", &[0, 0, 1]);
    assert_eq!(record(&mut m), [512, 256, 512]);
}

// Wakeups ------------------------------------------------------------------------------------

/// Whether task 1 is pulled from CPU `prev` to CPU 0, where task 2 runs.
fn pulled(m: &mut Machine, prev: i64, sync: i64) -> bool {
    m.call("t_affine", &[1, 2, prev, 0, sync, 117])[6] != 0
}

#[test]
pub fn an_interrupt_pulls_within_a_cache_from_a_busy_cpu() {
    let mut m = three_caches();
    assert!(!pulled(&mut m, 1, 0));
    m.set([1, 4], hogs(1));
    m.call("t_entity", &[1, 1, 1024, 0, 0, 0]);
    assert!(pulled(&mut m, 1, 0));
    // From another cache it is the load that decides: alike.
    assert!(!pulled(&mut m, 4, 0));
}

#[test]
pub fn a_waker_that_is_about_to_sleep_and_alone_leaves_its_cpu() {
    let mut m = three_caches();
    let delayed = hogs(1).delayed(1);
    // The last CPU is idle, so that nothing else pulls.
    for (here, pulls) in [(hogs(1), true), (delayed, true), (hogs(2), false)] {
        m.set([0], here);
        assert_eq!(pulled(&mut m, 4, 1), pulls);
        assert!(!pulled(&mut m, 4, 0));
    }
}

#[test]
pub fn the_wakee_stays_on_an_idle_cpu() {
    let mut m = three_caches();
    m.set([0], hogs(2));
    // Tasks that sleep there are a load.
    m.set([4], NONE.load(9000));
    assert!(!pulled(&mut m, 4, 0));
}

#[test]
pub fn the_wakee_goes_where_less_load_is() {
    let mut m = three_caches();
    let busy = |load, taken| hogs(2).load(load).taken(taken);
    let mut check = |here: Cpu, prev: Cpu, [wakee, waker]: [i64; 2], plain, sync| {
        m.set([0], here);
        m.set([4], prev);
        m.call("t_entity", &[1, 4, wakee, 0, 0, 0]);
        m.call("t_entity", &[2, 0, waker, 0, 0, 0]);
        let is = [pulled(&mut m, 4, 0), pulled(&mut m, 4, 1)];
        assert_eq!(is, [plain, sync]);
    };
    // 100 times the load here with the wakee, 108 times that there without.
    check(busy(979, 0), busy(1100, 0), [100, 0], true, true);
    check(busy(980, 0), busy(1100, 0), [100, 0], false, true);
    check(busy(981, 0), busy(1100, 0), [100, 0], false, false);
    check(busy(439, 512), busy(1100, 0), [100, 0], true, true);
    check(busy(441, 512), busy(1100, 0), [100, 0], false, false);
    check(busy(2058, 0), busy(1100, 512), [100, 0], true, true);
    check(busy(2061, 0), busy(1100, 512), [100, 0], false, false);
    // A waker that leaves takes its load with it; it may be more than is known of the CPU.
    check(busy(1979, 0), busy(1100, 0), [100, 1000], false, true);
    check(busy(1981, 0), busy(1100, 0), [100, 1000], false, false);
    check(busy(500, 0), busy(0, 0), [100, 501], false, true);
    check(busy(500, 0), busy(0, 0), [100, 500], false, false);
}

#[test]
pub fn the_load_of_a_wakee_is_what_it_is_beside_other_groups() {
    let mut m = three_caches();
    m.set([0], hogs(2).load(1000));
    m.set([4], hogs(2).load(1100));
    // Of its group's queue a tenth, and that is 1000 in the root queue.
    m.call("t_task_group", &[1, 4, 9999, 1000, 1, 1000]);
    // 1100 * 100 here, 108 * 1000 there.
    assert!(!pulled(&mut m, 4, 0));
    m.set([0], hogs(2).load(979));
    assert!(pulled(&mut m, 4, 0));
}

/// Where task 1 wakes up that was on `prev`.
fn wakes(m: &mut Machine, target: i64, prev: i64) -> i64 {
    let task = m.task(1, |_| true);
    m.call("t_idle_sibling", &[task, target, prev])[3]
}

#[test]
pub fn a_wakee_prefers_its_target_then_its_last_cpu() {
    let mut m = three_caches();
    assert_eq!(wakes(&mut m, 2, 1), 2);
    m.set([2], hogs(1));
    assert_eq!(wakes(&mut m, 2, 1), 1);
    // Not in another cache.
    m.call("t_set_recent", &[1, 2]);
    assert_eq!(wakes(&mut m, 2, 5), 3);
}

#[test]
pub fn then_the_cpu_before_the_last_one() {
    let mut m = Machine::even(1, 2, 8, 1);
    m.set([4], hogs(1));
    let mut check = |recent: i64, target, prev, chosen| {
        m.call("t_set_recent", &[1, recent]);
        assert_eq!(wakes(&mut m, target, prev), chosen, "{recent}");
        let now = m.call("t_recent", &[1, -1])[2];
        assert_eq!(now, prev);
    };
    check(3, 4, 9, 3);
    // Of another cache; busy.
    check(12, 4, 9, 5);
    check(4, 4, 9, 5);
    m.set([3], hogs(1));
    m.call("t_set_recent", &[1, 3]);
    assert_eq!(wakes(&mut m, 4, 9), 5);
    // Where it may not run.
    m.call("t_set_recent", &[1, 6]);
    let task = m.task(1, |cpu| cpu != 6);
    assert_eq!(m.call("t_idle_sibling", &[task, 4, 9])[3], 5);
}

/// CPUs 2 and 3 are a core.
#[test]
pub fn then_a_cpu_beside_the_last_one_or_a_whole_core() {
    let mut m = siblings();
    for (cores, prev, chosen) in [(0, 2, 3), (1, 2, 6)] {
        m.set(0..8, NONE);
        m.set([0, 2, 4], hogs(1));
        m.call("t_set_recent", &[1, 0]);
        m.call("t_cache", &[0, 0, cores, 0]);
        assert_eq!(wakes(&mut m, 0, prev), chosen);
    }
    // Beside a CPU of another cache is far away.
    let mut m = Machine::even(1, 2, 4, 2);
    m.set([0, 8], hogs(1));
    assert_eq!(wakes(&mut m, 0, 8), 1);
}

#[test]
pub fn without_an_idle_core_one_idle_cpu_will_do_and_none_is_looked_for_again() {
    let mut m = siblings();
    m.set([0, 2, 4, 6], hogs(1));
    m.set([1], hogs(1));
    m.call("t_cache", &[0, 0, 1, 0]);
    assert_eq!(wakes(&mut m, 0, 0), 3);
    assert_eq!(m.call("t_cache_get", &[0])[2], 0);
    m.set([5], hogs(1));
    let task = m.task(1, |cpu| cpu != 3);
    m.call("t_cache", &[0, 0, 1, 0]);
    assert_eq!(m.call("t_idle_sibling", &[task, 0, 0])[3], 7);
    // A core that is found may be looked for again.
    m.set(6..8, NONE);
    m.call("t_cache", &[0, 0, 1, 0]);
    assert_eq!(wakes(&mut m, 0, 0), 6);
    assert_eq!(m.call("t_cache_get", &[0])[2], 1);
    // But not in a cache that is so busy that looking is vain.
    m.call("t_cache", &[0, 0, 1, 8]);
    assert_eq!(wakes(&mut m, 0, 0), 0);
}

/// CPUs where the task may not run do not count.
#[test]
pub fn so_many_cpus_of_the_cache_are_looked_at() {
    let mut m = Machine::even(1, 2, 8, 1);
    m.set(0..16, hogs(1));
    m.set([4], NONE);
    for (skipped, allowed, chosen) in [
        (4, 0..8, 4),
        (5, 0..8, 0),
        (6, 3..8, 4),
        (7, 3..8, 0),
        (8, 0..8, 0),
    ] {
        m.call("t_cache", &[0, 0, 0, skipped]);
        m.call("t_set_recent", &[1, 0]);
        let task = m.task(1, |cpu| allowed.contains(&cpu));
        let w = m.call("t_idle_sibling", &[task, 0, 8]);
        assert_eq!(w[3], chosen, "{skipped}");
    }
}

#[test]
pub fn the_more_a_cache_is_used_the_less_is_looked_at() {
    let mut m = Machine::even(1, 1, 16, 1);
    // 16 less 16 * (1024 - utilisation squared * 117 squared / 10240000) / 1024.
    for (util, pct, skipped) in [
        (0, 117, 0),
        (100, 117, 1),
        (512, 117, 6),
        (512, 110, 5),
        (850, 117, 16),
        (1024, 117, 16),
    ] {
        assert_eq!(m.call("t_limit_scan", &[0, util, pct])[3], skipped);
    }
    // A pass over the cache finds out, but not one of a CPU that runs dry, nor one over more.
    let mut m = Machine::even(1, 2, 8, 1);
    m.set(0..16, light(1).util(512));
    for (level, state, skipped) in [(0, NEWIDLE, 0), (1, IDLE, 0), (0, IDLE, 3)] {
        m.call("t_cache", &[0, 0, 0, 0]);
        m.pass(0, level, state);
        m.call("t_candidate", &[]);
        assert_eq!(m.call("t_cache_get", &[0])[3], skipped, "{level}");
    }
}
