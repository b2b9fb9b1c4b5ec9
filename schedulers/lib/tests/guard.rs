// SPDX-License-Identifier: GPL-2.0-or-later
//! The guard against starvation of Linux's fair class (fair/guard.h), in the schedulers that share it.

use tiltyard_measure::TaskSummary;
use tiltyard_schedtest::mutations::{Mutation, caught, must_be_noticed};
use tiltyard_schedtest::races::races;
use tiltyard_schedtest::{Lab, globals, ideal, object, parse, source, telling};

const SECOND: u64 = 1_000_000_000;
const SCHEDULERS: [&str; 2] = ["cfs", "eevdf"];

/// Beside tasks that weigh 5917 times as much.
const NICE: &str = r#"{ "tasks": {
    "hog": { "instance": 2, "loop": -1, "priority": -20, "run": 1000000 },
    "meek": { "instance": 3, "loop": -1, "priority": 19, "run": 1000000 } } }"#;
/// The same with tasks that sleep, and may be placed before all that wait when they wake up.
const WAKERS: &str = r#"{ "tasks": {
    "hog": { "instance": 2, "loop": -1, "priority": -20, "run": 1000000 },
    "waker": { "instance": 4, "loop": -1, "priority": -20, "run": 100, "sleep": 900 },
    "meek": { "loop": -1, "priority": 19, "run": 1000000 } } }"#;
/// Tasks of equal weight in groups of very different weights.
const GROUPS: &str = r#"{ "tasks": {
    "hog": { "loop": -1, "taskgroup": "/rich", "run": 1000000 },
    "meek": { "instance": 8, "loop": -1, "taskgroup": "/poor", "run": 1000000 } },
    "tiltyard": { "groups": { "/rich": { "weight": 10000 }, "/poor": { "weight": 1 } } } }"#;
/// The same with so many that their turns, too, take time.
const CROWD: &str = r#"{ "tasks": {
    "hog": { "loop": -1, "taskgroup": "/rich", "run": 1000000 },
    "meek": { "instance": 150, "loop": -1, "taskgroup": "/poor", "run": 1000000 } },
    "tiltyard": { "groups": { "/rich": { "weight": 10000 }, "/poor": { "weight": 1 } } } }"#;
/// Nobody waits for long. New tasks come all the time, and some have not run yet when the timer looks.
const EQUALS: &str = r#"{ "tasks": {
    "hog": { "instance": 3, "loop": -1, "run": 1000000 },
    "waker": { "instance": 2, "loop": -1, "run": 100, "sleep": 5000000 },
    "make": { "loop": -1, "tiltyard": { "run": 200, "spawn": { "task": "cc", "count": 9 }, "join": true } },
    "cc": { "instance": 0, "loop": 1, "run": 2000 } } }"#;

fn tasks(scheduler: &str, limit_ms: i128, workload: &str) -> Vec<TaskSummary> {
    let machine = ideal("pu:1", 250);
    let set = globals(&[("starve_limit_ms", limit_ms)]);
    let mut lab = Lab::new(&machine, object(scheduler, 2));
    lab.globals = &set;
    lab.duration_ns = Some(60 * SECOND);
    lab.run(&parse(workload)).expect("a run").summary.tasks
}

fn meek(scheduler: &str, limit_ms: i128, workload: &str) -> Vec<TaskSummary> {
    let mut tasks = tasks(scheduler, limit_ms, workload);
    tasks.retain(|task| task.name.starts_with("meek"));
    assert!(!tasks.is_empty(), "{scheduler}");
    tasks
}

/// The limit, two periods of the timer, and the turns of others that starve.
fn waits_are_bounded(scheduler: &str, workload: &str) {
    let unguarded = meek(scheduler, 0, workload);
    let longest = unguarded.iter().map(|task| task.longest_wait_ns).max();
    assert!(longest > Some(10 * SECOND), "{scheduler}: {longest:?}");
    for task in meek(scheduler, 3000, workload) {
        let (name, wait_ns, ran_ns) = (&task.name, task.longest_wait_ns, task.runtime_ns);
        let bounds = 3 * SECOND..=6 * SECOND;
        assert!(bounds.contains(&wait_ns), "{scheduler}, {name}: {wait_ns}");
        // A turn each time, and no more.
        assert!(ran_ns < SECOND, "{scheduler}, {name}: ran for {ran_ns}");
    }
}

fn a_light_task_is_moved_to_the_front(scheduler: &str) {
    waits_are_bounded(scheduler, NICE);
}

fn the_front_is_before_those_that_wake_up(scheduler: &str) {
    waits_are_bounded(scheduler, WAKERS);
}

fn a_light_group_is_moved_to_the_front(scheduler: &str) {
    waits_are_bounded(scheduler, GROUPS);
}

/// A turn each 8 ms: whoever waited longest has the next.
fn in_a_crowd_everybody_has_a_turn(scheduler: &str) {
    for task in meek(scheduler, 1000, CROWD) {
        let wait_ns = task.longest_wait_ns;
        assert!(
            wait_ns < 4 * SECOND,
            "{scheduler}, {}: {wait_ns}",
            task.name
        );
    }
}

/// A limit of 5 s, which nobody here waits for, changes nothing.
fn others_are_left_alone(scheduler: &str) {
    let [unguarded, guarded] =
        [0, 5000].map(|limit_ms| format!("{:?}", tasks(scheduler, limit_ms, EQUALS)));
    assert_eq!(unguarded, guarded, "{scheduler}");
}

/// All waiting tasks are moved all the time.
#[test]
fn the_guard_races_with_nobody() {
    let set = globals(&[("starve_limit_ms", 1)]);
    for scheduler in SCHEDULERS {
        assert_eq!(races(&telling(&source(scheduler)), &set), [], "{scheduler}");
    }
}

/// A test of one scheduler, by its name in the lists of mutations.
type Test = (&'static str, fn(&str));

const TESTS: [Test; 5] = [
    ("light task", a_light_task_is_moved_to_the_front),
    ("wakers", the_front_is_before_those_that_wake_up),
    ("light group", a_light_group_is_moved_to_the_front),
    ("crowd", in_a_crowd_everybody_has_a_turn),
    ("others", others_are_left_alone),
];

#[test]
fn the_guard_bounds_waits_and_changes_nothing_else() {
    for scheduler in SCHEDULERS {
        TESTS.iter().for_each(|(_, test)| test(scheduler));
    }
}

#[rustfmt::skip]
const CFS: &[Mutation] = &[
    ["the front is where a task is", "queue.h", "\te->vruntime = front;\n", "", "light task"],
    ["who wakes up comes before the front", "queue.h", "queue(q)->min_vruntime - lead", "queue(q)->min_vruntime + lead", "wakers"],
];

#[rustfmt::skip]
const EEVDF: &[Mutation] = &[
    ["who is moved is not eligible", "queue.h", "\te->vruntime = now - request_in_vruntime(i);\n", "", "light task"],
    ["who is moved has its old deadline", "queue.h", "\te->turn.deadline = turns->front;\n", "", "light task"],
    ["last come, first served", "queue.h", "turns->front = later_of(now, turns->front);", "turns->front = now;", "crowd"],
    ["groups stay where they are", "../lib/tiltyard/fair/guard.h", "i = parent_of(i);", "break;", "light group"],
    ["a light group has a turn a second", "../lib/tiltyard/fair/guard.h", "NSEC_PER_SEC / (1 + most_starving)", "NSEC_PER_SEC", "light group"],
    ["who has run has waited, too", "../lib/tiltyard/fair/guard.h", " || ran_ns != w->ran_ns", "", "others"],
    ["who is new has waited for ever", "../lib/tiltyard/fair/guard.h", "w->pid != pid || ", "", "others"],
    ["the limit is no matter", "../lib/tiltyard/fair/guard.h", ">= starve_limit_ms * NSEC_PER_MSEC;", ">= starve_limit_ms * 8 * NSEC_PER_MSEC;", "light task"],
];

#[test]
fn a_broken_guard_is_noticed() {
    for (scheduler, mutations) in [("cfs", CFS), ("eevdf", EEVDF)] {
        must_be_noticed(scheduler, mutations, |name| {
            let test = TESTS.iter().find(|(known, _)| *known == name);
            caught(|| test.expect(name).1(scheduler)).is_none()
        });
    }
}
