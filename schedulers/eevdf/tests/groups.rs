// SPDX-License-Identifier: GPL-2.0-or-later
//! How Linux 6.18 compares groups of CPUs: their types, which is the busiest, which is the idlest for a new task; and the
//! averages by which it does. Expected values are those of `kernel/sched/fair.c` of 6.18.2, worked out by hand for made-up
//! machines.

use super::cpus::*;

/// `enum busyness`.
const SPARE: i64 = 0;
const FULLY_BUSY: i64 = 1;
const REDUCED: i64 = 2;
const SIBLINGS: i64 = 3;
const IMBALANCED: i64 = 4;
const OVERLOADED: i64 = 5;

impl Machine {
    /// Type of the second group of CPU 0's domain.
    fn kind(&mut self, level: i64) -> i64 {
        let group = self.group(0, level, 1);
        self.call("t_count", &[group, 0, 117])[0]
    }

    /// The busiest group that CPU 0 finds, counted from its own: 0, there is none.
    fn candidate(&mut self, level: i64, state: i64) -> i64 {
        self.pass(0, level, state);
        let found = self.call("t_candidate", &[])[0];
        let nr = self.call("t_level", &[0, level])[4];
        let of = |n: &i64| self.group(0, level, *n) == found;
        (0..nr).find(of).unwrap_or(0)
    }

    /// To which group of CPU 0's domain a new task goes, counted from its own.
    fn idlest(&mut self, task: i64, level: i64) -> i64 {
        let found = self.call("t_idlest_group", &[task, 0, level])[3];
        let nr = self.call("t_level", &[0, level])[4];
        let of = |n: &i64| self.group(0, level, *n) == found;
        (0..nr).find(of).unwrap_or(0)
    }

    /// The same of a task that may run anywhere.
    fn idlest_of_all(&mut self, level: i64) -> i64 {
        let task = self.task(1, |_| true);
        self.idlest(task, level)
    }
}

// Types ------------------------------------------------------------------------------------

#[test]
pub fn only_a_group_with_more_tasks_than_cpus_is_overloaded() {
    let mut m = two_caches();
    let lasting = hogs(1).runnable(3000);
    m.set(4..8, lasting);
    assert_eq!(m.kind(1), FULLY_BUSY);
    // Of whatever class, and asleep without having left.
    for more in [lasting.tasks(2), lasting.other(1), lasting.delayed(1)] {
        m.set([5], more);
        assert_eq!(m.kind(1), OVERLOADED);
    }
}

#[test]
pub fn a_group_is_overloaded_if_it_is_used_or_waited_for() {
    let mut m = two_caches();
    // 100 * 4096 < 117 * utilisation, or 117 * 4096 < 100 * runnable.
    for (util, runnable, kind) in [
        (3500, 0, SPARE),
        (3501, 0, OVERLOADED),
        (0, 4792, SPARE),
        (0, 4793, OVERLOADED),
    ] {
        for cpu in 4..8 {
            let part = |of: i64| of / 4 + i64::from(cpu as i64 - 4 < of % 4);
            let of = NONE.tasks(1 + i64::from(cpu == 4));
            let of = of.util(part(util)).runnable(part(runnable));
            m.set([cpu], of);
        }
        assert_eq!(m.kind(1), kind, "{util}, {runnable}");
    }
}

#[test]
pub fn a_group_that_is_used_or_waited_for_is_fully_busy() {
    let mut m = two_caches();
    for (util, runnable, kind) in [
        (875, 0, SPARE),
        (876, 0, FULLY_BUSY),
        (0, 1198, SPARE),
        (0, 1199, FULLY_BUSY),
    ] {
        let of = NONE.tasks(1).util(util).runnable(runnable);
        m.set(4..8, of);
        assert_eq!(m.kind(1), kind, "{util}, {runnable}");
        // With fewer tasks than CPUs it never is.
        m.set([4], of.tasks(0));
        assert_eq!(m.kind(1), SPARE);
    }
}

#[test]
pub fn what_other_classes_take_is_no_room() {
    let mut m = two_caches();
    let half = light(1).util(600).taken(512);
    m.set(4..8, half);
    m.set([4], half.tasks(2));
    assert_eq!(m.kind(1), OVERLOADED);
    let group = m.group(0, 1, 1);
    assert_eq!(m.call("t_count", &[group, 0, 117])[5], 2048);
}

/// The utilisation of a CPU is at least what its tasks are expected to need, at most all of it.
#[test]
pub fn utilisation_looks_ahead() {
    let mut m = two_caches();
    for (util, expected, of_cpu) in [(300, 700, 700), (700, 300, 700), (1500, 0, 1024)] {
        m.set([4], NONE.tasks(1).util(util));
        assert_eq!(m.call("t_expected", &[4, expected])[2], of_cpu);
        let group = m.group(0, 1, 1);
        assert_eq!(m.call("t_count", &[group, 0, 117])[3], of_cpu);
    }
}

#[test]
pub fn two_tasks_on_a_core_share_it_for_an_idle_cpu() {
    let mut m = siblings();
    m.set(2..4, light(1));
    for (state, kind) in [(IDLE, SIBLINGS), (NEWIDLE, SIBLINGS), (BUSY, SPARE)] {
        m.pass(0, 1, state);
        assert_eq!(m.kind(1), kind);
    }
    // Not in the own group.
    m.pass(0, 1, IDLE);
    let group = m.group(0, 1, 1);
    assert_eq!(m.call("t_count", &[group, 1, 117])[0], SPARE);
    // One of them alone can be moved.
    for beside in [NONE.other(1), NONE.delayed(1), NONE] {
        m.set([3], beside);
        assert_eq!(m.kind(1), SPARE);
    }
}

#[test]
pub fn only_a_core_has_siblings() {
    // A CPU of a core of its own.
    let mut m = Machine::even(1, 1, 4, 1);
    m.pass(0, 0, IDLE);
    m.set([1], light(2));
    assert_eq!(m.kind(0), SPARE);
    // A cache of two cores.
    let mut m = Machine::even(1, 2, 2, 2);
    m.pass(0, 2, IDLE);
    m.set(4..8, light(1));
    assert_eq!(m.kind(2), SPARE);
}

#[test]
pub fn a_group_whose_tasks_are_pinned_is_imbalanced() {
    let mut m = siblings();
    let group = m.group(0, 1, 1);
    m.call("t_set_imbalance", &[group, 1]);
    m.set([2], light(1));
    assert_eq!(m.kind(1), IMBALANCED);
    // That its tasks share a core matters less, that it is overloaded more.
    m.set([3], light(1));
    assert_eq!(m.kind(1), IMBALANCED);
    m.set(2..4, hogs(2));
    assert_eq!(m.kind(1), OVERLOADED);
}

#[test]
pub fn a_task_alone_on_a_reduced_cpu_is_worth_moving() {
    let mut m = two_caches();
    let group = m.group(0, 1, 1);
    let lone = |taken| hogs(1).taken(taken);
    for (taken, kind) in [(148, SPARE), (149, REDUCED)] {
        m.set([5], lone(taken));
        assert_eq!(m.kind(1), kind, "{taken}");
    }
    // The most load of such a task.
    m.set([6], lone(500).load(3000));
    m.set([7], lone(500).load(2000));
    assert_eq!(m.call("t_count", &[group, 0, 117])[6], 3000);
    // Not for the own group, nor for a busy CPU.
    assert_eq!(m.call("t_count", &[group, 1, 117])[0], SPARE);
    m.pass(0, 1, BUSY);
    assert_eq!(m.kind(1), SPARE);
    // Of two tasks one may leave without that.
    m.pass(0, 1, IDLE);
    m.set(5..8, light(0).taken(500));
    m.set([5], light(2).taken(500));
    assert_eq!(m.kind(1), SPARE);
}

#[test]
pub fn tasks_that_share_a_core_come_before_reduced_cpus() {
    let mut m = siblings();
    m.set(2..4, light(1).taken(300));
    assert_eq!(m.kind(1), SIBLINGS);
}

#[test]
pub fn cpus_that_are_left_out_have_room_but_no_tasks() {
    let mut m = two_caches();
    m.set(4..8, hogs(2));
    m.call("t_leave_out", &[4]);
    let group = m.group(0, 1, 1);
    let w = m.call("t_count", &[group, 0, 117]);
    assert_eq!(w[2..6], [6144, 3072, 6144, 4096]);
    assert_eq!(w[7], 6 | 6 << 8 | 4 << 24);
}

#[test]
pub fn only_overloaded_groups_have_an_average() {
    let mut m = two_caches();
    m.set(4..8, hogs(1));
    let group = m.group(0, 1, 1);
    assert_eq!(m.call("t_count", &[group, 0, 117])[..2], [FULLY_BUSY, 0]);
    let half = hogs(2).taken(512);
    m.set(4..8, half);
    let w = m.call("t_count", &[group, 0, 117]);
    assert_eq!(w[..2], [OVERLOADED, 4096]);
}

// The busiest --------------------------------------------------------------------------------

/// Sets the second and the third group, then the other way round: which of the two is busier.
fn busier(m: &mut Machine, two: [[Cpu; 4]; 2], state: i64) -> [i64; 2] {
    [[0, 1], [1, 0]].map(|order| {
        for (n, which) in order.into_iter().enumerate() {
            for (cpu, to) in two[which].into_iter().enumerate() {
                m.set([4 + 4 * n + cpu], to);
            }
        }
        match m.candidate(1, state) {
            0 => -1,
            n => order[n as usize - 1] as i64,
        }
    })
}

#[test]
pub fn a_group_without_fair_tasks_is_not_taken_from() {
    let mut m = three_caches();
    let other = NONE.other(3);
    assert_eq!(busier(&mut m, [[other; 4], [NONE; 4]], IDLE), [-1, -1]);
    let one = [light(1), NONE, NONE, NONE];
    assert_eq!(busier(&mut m, [[other; 4], one], IDLE), [1, 1]);
}

#[test]
pub fn the_type_decides_first() {
    let mut m = three_caches();
    let overloaded = [hogs(2), hogs(1), hogs(1), hogs(1)];
    let heavy = hogs(1).load(9000);
    assert_eq!(busier(&mut m, [[heavy; 4], overloaded], IDLE), [1, 1]);
    let spare = [light(9), NONE, NONE, NONE];
    assert_eq!(busier(&mut m, [spare, [hogs(1); 4]], BUSY), [1, 1]);
    let reduced = hogs(1).taken(300);
    let reduced = [reduced, NONE, NONE, NONE];
    assert_eq!(busier(&mut m, [reduced, [hogs(1); 4]], IDLE), [0, 0]);
}

#[test]
pub fn of_overloaded_groups_the_one_with_the_most_load_per_capacity() {
    let mut m = three_caches();
    let half = hogs(2).load(1500).taken(512);
    assert_eq!(busier(&mut m, [[hogs(2); 4], [half; 4]], IDLE), [1, 1]);
    // The first of equals.
    assert_eq!(busier(&mut m, [[hogs(2); 4]; 2], IDLE), [0, 1]);
}

#[test]
pub fn of_imbalanced_groups_the_first() {
    let mut m = three_caches();
    for n in 1..3 {
        let group = m.group(0, 1, n);
        m.call("t_set_imbalance", &[group, 1]);
    }
    let (few, many) = ([light(1), NONE, NONE, NONE], [light(1); 4]);
    assert_eq!(busier(&mut m, [few, many], IDLE), [0, 1]);
}

#[test]
pub fn of_reduced_groups_the_one_with_the_heavier_task() {
    let mut m = three_caches();
    let reduced = |load| {
        let cpu = hogs(1).load(load).taken(300);
        [cpu, NONE, NONE, NONE]
    };
    assert_eq!(busier(&mut m, [reduced(1000), reduced(1001)], IDLE), [1, 1]);
    assert_eq!(busier(&mut m, [reduced(1000), reduced(1000)], IDLE), [0, 1]);
}

#[test]
pub fn of_fully_busy_groups_the_last_of_cores_the_first() {
    let mut m = three_caches();
    let heavy = hogs(1).load(5000);
    assert_eq!(busier(&mut m, [[hogs(1); 4], [heavy; 4]], IDLE), [1, 0]);
    let mut m = siblings();
    let cores = [[hogs(1); 2], [heavy; 2]];
    assert_eq!(busiest_core(&mut m, &cores, BUSY), 1);
}

#[test]
pub fn of_groups_with_room_the_one_with_fewer_idle_cpus_then_more_tasks() {
    let mut m = three_caches();
    let two = [light(1), light(1), NONE, NONE];
    let many = [light(5), NONE, NONE, NONE];
    assert_eq!(busier(&mut m, [two, many], BUSY), [0, 0]);
    let other = light(1).other(1);
    let three = [light(1), other, NONE, NONE];
    assert_eq!(busier(&mut m, [two, three], BUSY), [1, 1]);
    assert_eq!(busier(&mut m, [two, two], BUSY), [0, 1]);
}

/// Sets cores of a cache as they come, all others idle: which CPU 0 takes for the busiest.
fn busiest_core(m: &mut Machine, cores: &[[Cpu; 2]], state: i64) -> i64 {
    for (n, threads) in cores.iter().enumerate() {
        m.set([2 + 2 * n], threads[0]);
        m.set([3 + 2 * n], threads[1]);
    }
    m.candidate(1, state)
}

#[test]
pub fn of_cores_that_are_shared_the_first_unless_a_cpu_idles() {
    let mut m = siblings();
    let (full, more) = ([light(1); 2], [light(2), light(1)]);
    assert_eq!(busiest_core(&mut m, &[full, more], IDLE), 1);
    let (half, half_more) = ([light(2), NONE], [light(3), NONE]);
    assert_eq!(busiest_core(&mut m, &[half, full], IDLE), 2);
    assert_eq!(busiest_core(&mut m, &[full, half], IDLE), 1);
    assert_eq!(busiest_core(&mut m, &[half, half_more], IDLE), 2);
}

/// A cache of CPUs with and without siblings, in this order; CPU 0 has none.
fn hybrid(cores: &[i64]) -> Machine {
    let mut all = vec![1];
    all.extend(cores);
    Machine::new(&[vec![all]], &[], &[])
}

#[test]
pub fn the_only_task_of_a_core_with_siblings_stays() {
    for (cores, first, second, busiest) in [
        // CPUs 1 and 2 are a core, 3 is one.
        ([2, 1], [light(1), NONE], light(1), 2),
        ([2, 1], [light(1); 2], light(1), 2),
    ] {
        let mut m = hybrid(&cores);
        m.set([1], first[0]);
        m.set([2], first[1]);
        m.set([3], second);
        assert_eq!(m.candidate(0, BUSY), busiest);
    }
    for (second, busiest) in [([light(1), NONE], 1), ([light(1); 2], 2)] {
        let mut m = hybrid(&[1, 2]);
        m.set([1], light(1));
        m.set([2], second[0]);
        m.set([3], second[1]);
        assert_eq!(m.candidate(0, BUSY), busiest);
    }
}

#[test]
pub fn busy_siblings_need_help_more_than_a_busy_cpu() {
    let mut m = hybrid(&[1, 2]);
    m.set(1..4, hogs(1));
    assert_eq!(m.candidate(0, BUSY), 2);
    let mut m = hybrid(&[2, 1]);
    m.set(1..4, hogs(1));
    assert_eq!(m.candidate(0, BUSY), 1);
}

/// Two tasks on a CPU, the own group's included, are what CPUs that run dry may find; the highest level says so.
#[test]
pub fn the_whole_machine_is_known_to_have_waiting_tasks() {
    let mut m = two_caches();
    let overload = |m: &mut Machine, level| {
        m.pass(0, level, IDLE);
        m.call("t_candidate", &[])[2]
    };
    let delayed = light(1).delayed(1);
    for (to, waits) in [(light(1), 0), (light(2), 1), (delayed, 1)] {
        m.set([1], to);
        assert_eq!(overload(&mut m, 1), waits);
    }
    m.set([1], NONE);
    assert_eq!(overload(&mut m, 0), 1);
    assert_eq!(overload(&mut m, 1), 0);
}

// New tasks ----------------------------------------------------------------------------------

#[test]
pub fn a_new_task_stays_if_its_group_has_as_many_idle_cpus() {
    let mut m = two_caches();
    m.set([0], light(1));
    assert_eq!(m.idlest_of_all(1), 1);
    m.set([4], light(1));
    assert_eq!(m.idlest_of_all(1), 0);
}

#[test]
pub fn a_new_task_goes_where_most_cpus_idle_then_where_least_is_used() {
    let mut m = three_caches();
    m.set(0..2, light(1));
    for (used, idlest) in [([8], 1), ([4], 2)] {
        m.set([4, 8], NONE);
        m.set(used, light(1));
        assert_eq!(m.idlest_of_all(1), idlest);
    }
    m.set([4], NONE.util(500));
    m.set([8], light(1));
    assert_eq!(m.idlest_of_all(1), 1);
    for (util, idlest) in [([100, 99], 2), ([99, 100], 1), ([99, 99], 1)] {
        m.set([4], light(1).util(util[0]));
        m.set([8], light(1).util(util[1]));
        assert_eq!(m.idlest_of_all(1), idlest);
    }
}

#[test]
pub fn a_new_task_goes_to_a_better_type_of_group() {
    let mut m = two_caches();
    m.set(0..4, hogs(1));
    m.set(4..8, light(1));
    assert_eq!(m.idlest_of_all(1), 1);
    m.set([0], light(1));
    m.set([1], NONE);
    m.set(4..8, hogs(1));
    assert_eq!(m.idlest_of_all(1), 0);
    let mut m = three_caches();
    m.set(0..8, hogs(2));
    m.set(8..12, hogs(1));
    assert_eq!(m.idlest_of_all(1), 2);
}

/// A core whose CPUs have a task each has room for another if they are seldom used.
#[test]
pub fn sharing_a_core_is_no_matter_to_a_new_task() {
    let mut m = siblings();
    m.set(0..8, hogs(1));
    m.set(4..6, light(1));
    assert_eq!(m.idlest_of_all(1), 2);
}

#[test]
pub fn a_new_task_leaves_a_busy_group_for_one_with_much_less_load() {
    let mut m = two_caches();
    for tasks in [1, 2] {
        for (here, there, idlest) in [(1170, 1000, 0), (1171, 1000, 1), (1000, 1171, 0)] {
            m.set_load(0..4, hogs(tasks), 4 * here);
            m.set_load(4..8, hogs(tasks), 4 * there);
            assert_eq!(m.idlest_of_all(1), idlest, "{here}, {there}");
        }
        // On another node it must be less by 17 percent of a task, too.
        let mut m = Machine::even(2, 1, 4, 1);
        for (here, idlest) in [(274, 0), (275, 1)] {
            m.set_load(0..4, hogs(tasks), 4 * here);
            m.set_load(4..8, hogs(tasks), 4 * 100);
            assert_eq!(m.idlest_of_all(1), idlest, "{here}");
        }
    }
    m.set_load(0..4, hogs(1), 4 * 274);
    m.set_load(4..8, hogs(1), 4 * 100);
    assert_eq!(m.idlest_of_all(1), 1);
}

#[test]
pub fn of_busy_groups_a_new_task_chooses_the_one_with_the_least_load() {
    let mut m = three_caches();
    for tasks in [1, 2] {
        m.set_load(0..4, hogs(tasks), 20000);
        for (loads, idlest) in [([4000, 4004], 1), ([4004, 4000], 2), ([4000, 4000], 1)] {
            m.set_load(4..8, hogs(tasks), loads[0]);
            m.set_load(8..12, hogs(tasks), loads[1]);
            assert_eq!(m.idlest_of_all(1), idlest);
        }
    }
}

/// Two nodes of two caches of four CPUs: up to two tasks, one for each cache, may be there.
#[test]
pub fn a_new_task_stays_on_a_node_with_few_tasks() {
    let mut m = Machine::even(2, 2, 4, 1);
    m.set([0], light(1));
    assert_eq!(m.idlest_of_all(2), 0);
    m.set([1], light(1));
    assert_eq!(m.idlest_of_all(2), 1);
    // Three idle CPUs more are too many.
    for (busy, idlest) in [(1..2, 0), (1..3, 1)] {
        m.set(0..8, NONE);
        m.set([0], light(1));
        for cpu in busy {
            m.kernel.state().set_busy(cpu);
        }
        assert_eq!(m.idlest_of_all(2), idlest);
    }
    // No more tasks than it may have CPUs.
    m.set([0], light(1));
    let pinned = m.task(2, |cpu| cpu == 0 || cpu >= 8);
    assert_eq!(m.idlest(pinned, 2), 1);
    let pinned = m.task(2, |cpu| !(2..8).contains(&cpu));
    assert_eq!(m.idlest(pinned, 2), 0);
}

#[test]
pub fn a_new_task_goes_only_where_it_may_run() {
    let mut m = three_caches();
    m.set(0..8, light(1));
    let task = m.task(1, |cpu| cpu < 8);
    assert_eq!(m.idlest(task, 1), 0);
    m.set([0], NONE);
    let task = m.task(1, |cpu| (4..8).contains(&cpu));
    assert_eq!(m.idlest(task, 1), 1);
}

#[test]
pub fn a_new_task_stays_in_an_imbalanced_group_if_the_others_are_too() {
    let mut m = three_caches();
    m.set([0], light(1));
    for n in 0..3 {
        let group = m.group(0, 1, n);
        m.call("t_set_imbalance", &[group, 1]);
    }
    assert_eq!(m.idlest_of_all(1), 0);
    // Of the others the first.
    m.set(0..4, hogs(2));
    m.set([4], light(1));
    assert_eq!(m.idlest_of_all(1), 1);
}

#[test]
pub fn a_new_task_was_on_its_parents_cpu() {
    let mut m = three_caches();
    assert_eq!(m.call("t_recent", &[1, 3])[2], 3);
}

/// Caches of a node; more at higher levels, in proportion to the CPUs. With one cache, an eighth of its CPUs.
#[test]
pub fn nodes_may_have_a_task_for_each_cache() {
    let allowed = |mut m: Machine, level| m.call("t_level", &[0, level])[6];
    assert_eq!(allowed(four_nodes(), 2), 2);
    assert_eq!(allowed(four_nodes(), 3), 4);
    assert_eq!(allowed(Machine::even(2, 1, 32, 1), 1), 4);
    assert_eq!(allowed(Machine::even(2, 1, 4, 1), 1), 1);
}

// Averages -----------------------------------------------------------------------------------

#[test]
pub fn what_a_task_needs_rises_at_once_and_falls_slowly() {
    let mut m = three_caches();
    for (util, was, now) in [
        (500, 400, 500),
        (400, 400, 400),
        (391, 400, 400),
        // A quarter of the way, rounded down.
        (388, 400, 397),
        (330, 400, 382),
        (0, 400, 300),
    ] {
        // Its load: it has been runnable no more than it ran.
        m.call("t_entity", &[1, 4, util, util, was, 0]);
        assert_eq!(m.call("t_estimate", &[1, NOW_NS])[2], now, "{util}");
    }
    // If it had to wait for more than a hundredth, it may need as much as before.
    for (runnable, now) in [(210, 350), (211, 400)] {
        m.call("t_entity", &[1, 4, runnable, 200, 400, 0]);
        assert_eq!(m.call("t_estimate", &[1, NOW_NS])[2], now, "{runnable}");
    }
}

#[test]
pub fn what_is_needed_of_a_cpu_is_what_its_runnable_tasks_need() {
    let mut m = three_caches();
    m.call("t_entity", &[1, 4, 0, 0, 300, 0]);
    m.call("t_entity", &[2, 4, 0, 0, 200, 0]);
    let mut expect = |entity, comes| m.call("t_expect", &[entity, 4, comes])[3];
    let sums = [expect(1, 1), expect(2, 1), expect(1, 0), expect(1, 0)];
    assert_eq!(sums, [300, 500, 200, 0]);
}

/// Of a task that weighs 2048 a load of 1024 is a half. A new one begins with its utilisation, and what that is less than
/// 1024 halves in 32 ms.
#[test]
pub fn a_task_has_been_runnable_as_its_load_says() {
    let mut m = three_caches();
    m.call("t_entity", &[1, 4, 1024, 0, 0, 2048]);
    let half_life = 32 << 20;
    for (gap, age, runnable) in [
        (0, 0, 512),
        (300, 0, 212),
        (300, half_life, 363),
        (600, 0, 0),
    ] {
        let w = m.call("t_runnable", &[1, gap, NOW_NS - age, NOW_NS]);
        assert_eq!(w[4], runnable);
    }
}

#[test]
pub fn a_task_takes_its_part_of_the_averages_along() {
    let mut m = three_caches();
    m.set([4], hogs(1).runnable(300));
    let runnable = |m: &mut Machine| m.call("t_averages", &[4, NOW_NS])[2];
    m.call("t_entity", &[1, 4, 400, 250, 0, 0]);
    m.call("t_carry", &[1, 1, 0, NOW_NS]);
    assert_eq!(runnable(&mut m), 700);
    m.call("t_carry", &[1, 0, 0, NOW_NS]);
    assert_eq!(runnable(&mut m), 300);
    // A new task as much as it is used: a load of 1024 notwithstanding.
    m.call("t_entity", &[2, 4, 1024, 250, 0, 0]);
    m.call("t_carry", &[2, 1, 1, NOW_NS]);
    assert_eq!(runnable(&mut m), 550);
}

/// As much as the group weighs, of what its tasks' load is of theirs; no more than if they always ran.
#[test]
pub fn the_load_of_a_task_is_carried_to_the_groups_above() {
    let mut m = three_caches();
    m.set([4], hogs(1).load(2000));
    m.call("t_entity", &[1, 4, 256, 100, 0, 0]);
    m.call("t_task_group", &[1, 4, 700, 300, 1, 256]);
    let load = |m: &mut Machine, weight, new| {
        let w = m.call("t_group_load", &[1, 4, weight, new]);
        [w[4], w[5]]
    };
    assert_eq!(load(&mut m, 1024, 0), [300, 2000]);
    // A quarter of the time.
    m.call("t_carry", &[1, 1, 0, NOW_NS]);
    assert_eq!(load(&mut m, 1024, 0), [556, 2256]);
    m.call("t_carry", &[1, 1, 0, NOW_NS]);
    m.call("t_carry", &[1, 1, 0, NOW_NS]);
    assert_eq!(load(&mut m, 1024, 0), [1024, 2724]);
    // When it leaves, no more than those that stay: 700 less 256, of 1024.
    m.call("t_carry", &[1, 0, 0, NOW_NS]);
    assert_eq!(load(&mut m, 1024, 0), [444, 2144]);
    // Half of the weight.
    assert_eq!(load(&mut m, 0, 512), [222, 1922]);
    // Nobody stays: what it was decays.
    m.call("t_carry", &[1, 0, 0, NOW_NS]);
    assert_eq!(load(&mut m, 0, 0), [222, 1922]);
}

/// So that a CPU that has always idled is chosen.
#[test]
pub fn idle_times_begin_with_the_scheduler() {
    let mut m = three_caches();
    m.call("t_begin", &[]);
    assert_eq!(m.call("t_cache_get", &[4])[4], NOW_NS);
}

#[test]
pub fn of_equally_loaded_cpus_a_new_task_takes_the_first() {
    let mut m = three_caches();
    m.set(0..12, hogs(1));
    let (task, group) = (m.task(1, |_| true), m.group(0, 1, 0));
    assert_eq!(m.call("t_idlest_cpu", &[task, group, 2])[3], 0);
    m.set([3], hogs(1).load(900));
    assert_eq!(m.call("t_idlest_cpu", &[task, group, 2])[3], 3);
}

/// 12 ms are 3 ticks of 4 ms; 32 times as long if busy, less one tick.
#[test]
pub fn a_busy_cpu_balances_a_tick_earlier() {
    let mut m = three_caches();
    assert_eq!(m.call("t_interval", &[0, 1, 0])[3], 3);
    assert_eq!(m.call("t_interval", &[0, 1, 1])[3], 95);
}

#[test]
pub fn no_task_is_too_hot_for_a_sibling() {
    let mut m = siblings();
    m.call("t_entity", &[1, 1, 100, 100, 0, 0]);
    assert_eq!(m.call("t_hot", &[1, NOW_NS - 1000])[2], 1);
    assert_eq!(m.call("t_hot", &[1, NOW_NS - 1_000_000])[2], 0);
    m.pass(0, 0, IDLE);
    assert_eq!(m.call("t_hot", &[1, NOW_NS - 1000])[2], 0);
}

#[test]
pub fn a_cpu_that_runs_dry_does_not_lengthen_the_interval() {
    let mut m = three_caches();
    assert_eq!(m.call("t_balance", &[0, 1, NEWIDLE, NOW_NS])[4], 12);
    assert_eq!(m.call("t_balance", &[0, 1, IDLE, NOW_NS])[4], 24);
}
