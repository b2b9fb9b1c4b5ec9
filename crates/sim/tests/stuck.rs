// SPDX-License-Identifier: GPL-2.0-or-later
//! Tasks that wait forever while others go on.

use crate::common::{Lab, ideal, object, parse};
use tiltyard_sim::{Outcome, RunError, Stuck};

fn run(tasks: &str) -> Result<Outcome, RunError> {
    run_json(&format!(
        r#"{{ "tiltyard": {{ "apps": {{}}, "pipes": {{ "p": {{}} }} }}, "tasks": {{ {tasks} }} }}"#
    ))
}

/// 0.2 s under fifo.
fn run_json(json: &str) -> Result<Outcome, RunError> {
    let machine = ideal("core:2 pu:1", 1000);
    let mut lab = Lab::new(&machine, object("fifo", 2));
    lab.duration_ns = Some(200_000_000);
    lab.run(&parse(json)).map(|ran| ran.outcome)
}

fn stuck(tasks: &str) -> Option<Stuck> {
    run(tasks).expect("a run").stuck
}

/// A task that would go on forever.
const TICKER: &str = r#""ticker": { "loop": -1, "run": 100, "sleep": 900 }"#;

/// The signal comes before anybody waits for it.
const LOST_WAKEUP: &str = r#"
    "producer": { "loop": 1, "run": 1000, "signal": "ready", "sem_wait": "taken" },
    "consumer": { "loop": 1, "run": 5000, "lock": "m", "wait": { "ref": "ready", "mutex": "m" }, "unlock": "m",
        "sem_post": "taken" }"#;

#[test]
fn a_lost_wakeup_beside_a_worker() {
    let stuck = stuck(&format!("{LOST_WAKEUP}, {TICKER}")).expect("two wait forever");
    assert_eq!(stuck.tasks, 2);
    assert!(stuck.waits[0].starts_with("producer["), "{stuck:?}");
    assert!(
        stuck.waits[0].ends_with("waits for semaphore 'taken'"),
        "{stuck:?}"
    );
    assert!(
        stuck.waits[1].ends_with("waits for condition 'ready'"),
        "{stuck:?}"
    );
}

#[test]
fn it_began_when_the_first_began_to_wait() {
    let outcome = run(&format!("{LOST_WAKEUP}, {TICKER}")).expect("a run");
    let since_ns = outcome.stuck.expect("two wait forever").since_ns - outcome.origin_ns;
    assert_eq!(since_ns / 1_000_000, 1);
}

/// Each pair: who posts while nothing forbids it, and who will never post again.
#[test]
fn where_programs_are_counts() {
    let counter = |at: u32| {
        format!(
            r#""poster": {{ "loop": -1, "sleep": 1000, "tiltyard": {{ "countdown": {{ "counter": "n{at}", "do": {{ "sleep": 1000, "sem_post": "s" }} }} }} }}"#
        )
    };
    let (left, used_up) = (counter(0), counter(1));
    let cases = [
        (
            r#""poster": { "phases": { "a": { "loop": 3, "sleep": 1000 }, "b": { "loop": -1, "sleep": 1000, "sem_post": "s" } } }"#,
            r#""poster": { "phases": { "a": { "loop": 3, "sleep": 1000, "sem_post": "s" }, "b": { "loop": -1, "sleep": 1000 } } }"#,
        ),
        (
            r#""poster": { "phases": { "a": { "loop": 1000000, "sleep": 1000 }, "b": { "loop": 1, "sem_post": "s" } } }"#,
            r#""poster": { "phases": { "a": { "loop": -1, "sleep": 1000 }, "b": { "loop": 1, "sem_post": "s" } } }"#,
        ),
        (
            r#""poster": { "loop": -1, "sleep": 1000, "tiltyard": { "until": { "time": 9000000, "do": { "sleep": 1000000, "sem_post": "s" } } } }"#,
            r#""poster": { "loop": -1, "sleep": 1000, "tiltyard": { "until": { "time": 1000, "do": { "sleep": 1000, "sem_post": "s" } } } }"#,
        ),
        (
            r#""poster": { "loop": -1, "sleep": 1000000, "fork": "child" }, "child": { "instance": 0, "loop": 1, "sem_post": "s" }"#,
            r#""poster": { "phases": { "a": { "loop": 1, "fork": "child" }, "b": { "loop": -1, "sleep": 1000 } } },
                "child": { "instance": 0, "loop": 1, "sem_post": "s" }"#,
        ),
        (left.as_str(), used_up.as_str()),
        (
            r#""holder": { "loop": 1, "lock": "m", "sleep": 1000000, "unlock": "m" },
                "poster": { "loop": -1, "sleep": 500, "lock": "m", "unlock": "m", "sem_post": "s" }"#,
            r#""holder": { "phases": { "a": { "loop": 1, "lock": "m" }, "b": { "loop": -1, "sleep": 1000 } } },
                "poster": { "loop": -1, "sleep": 500, "lock": "m", "unlock": "m", "sem_post": "s" }"#,
        ),
    ];
    let run = |poster: &str| {
        let json = format!(
            r#"{{ "tiltyard": {{ "counters": {{ "n0": {{ "start": 1000000 }}, "n1": {{ "start": 3 }} }} }},
                "tasks": {{ "waiter": {{ "loop": -1, "sem_wait": "s", "run": 10 }}, {poster} }} }}"#
        );
        run_json(&json).expect("a run").stuck
    };
    for (may, may_not) in cases {
        assert_eq!(run(may), None, "{may}");
        let stuck = run(may_not).unwrap_or_else(|| panic!("nothing is stuck: {may_not}"));
        assert!(
            stuck.waits.iter().any(|wait| wait.starts_with("waiter[")),
            "{stuck:?}"
        );
    }
}

/// Who waits for what one of these will do is not stuck; without them, it is.
#[test]
fn whatever_may_still_wake_somebody_counts() {
    let waiter = r#""waiter": { "loop": -1, "sem_wait": "s", "run": 10 }"#;
    let conditional = r#""waiter": { "loop": -1, "lock": "m", "wait": { "ref": "c", "mutex": "m" }, "unlock": "m", "run": 10 }"#;
    let second_reader = r#""waiter": { "loop": 1, "sleep": 1000, "tiltyard": { "read": { "pipe": "p", "bytes": 4 } } },
        "writer": { "loop": 1, "tiltyard": { "write": { "pipe": "p", "bytes": 1 } }, "sleep": 1000 }"#;
    let cases = [
        (
            waiter,
            r#""poster": { "loop": 1, "delay": 1000000, "sem_post": "s" }"#,
        ),
        (
            waiter,
            r#""poster": { "loop": 1, "sleep": 1000000, "tiltyard": { "spawn": "child" } },
            "child": { "instance": 0, "loop": 1, "sem_post": "s" }"#,
        ),
        (
            conditional,
            r#""poster": { "loop": 1, "sleep": 1000000, "broad": "c" }"#,
        ),
        (
            conditional,
            r#""poster": { "loop": 1, "sleep": 1000000, "signal": "c" }"#,
        ),
        (
            conditional,
            r#""poster": { "loop": 1, "sleep": 1000000, "lock": "m", "sync": { "ref": "c", "mutex": "m" }, "unlock": "m" }"#,
        ),
        (
            second_reader,
            r#""poster": { "loop": 1, "sleep": 1000000, "tiltyard": { "write": { "pipe": "p", "bytes": 4 } } }"#,
        ),
    ];
    for (waiter, poster) in cases {
        assert_eq!(
            stuck(&format!("{waiter}, {TICKER}, {poster}")),
            None,
            "{poster}"
        );
        let alone = stuck(&format!("{waiter}, {TICKER}"));
        assert_eq!(alone.map(|stuck| stuck.tasks), Some(1), "{waiter}");
    }
}

#[test]
fn a_lock_is_free_once_its_holder_runs_on() {
    let holder = |then: &str| {
        format!(
            r#""holder": {{ "loop": 1, "lock": "m", "run": 1000000, {then} "run1": 10 }}, "waiter": {{ "loop": 1, "sleep": 500, "lock": "m", "unlock": "m" }}"#
        )
    };
    assert_eq!(
        stuck(&holder(r#""unlock": "m","#)),
        None,
        "the holder runs to the end of the run"
    );
    assert_eq!(stuck(&holder("")).map(|stuck| stuck.tasks), Some(1));
}

/// A parent whose one child has ended waits for the other.
#[test]
fn children_that_have_ended_do_not_count() {
    let family = r#""parent": { "loop": 1, "tiltyard": { "spawn": "brief", "spawn1": "stuck", "join": true } },
        "brief": { "instance": 0, "loop": 1, "run": 10 }, "stuck": { "instance": 0, "loop": 1, "sem_wait": "s" }"#;
    let stuck = stuck(&format!("{family}, {TICKER}"));
    assert_eq!(stuck.map(|stuck| stuck.tasks), Some(2));
}

/// An instance's own element of an array.
#[test]
fn an_instance_posts_to_its_own_element() {
    let stuck_beside = |servers: u32| {
        let json = format!(
            r#"{{ "tiltyard": {{ "semaphores": {{ "asked": {{ "count": 4 }}, "answered": {{ "count": 4 }} }} }}, "tasks": {{
                "client": {{ "instance": 4, "loop": -1, "tiltyard": {{ "sem_post": "asked[i]", "sem_wait": "answered[i]", "sleep": 1000 }} }},
                "server": {{ "instance": {servers}, "loop": -1, "tiltyard": {{ "sem_wait": "asked[i]", "run": 50, "sem_post": "answered[i]" }} }}
            }} }}"#
        );
        let stuck = run_json(&json).expect("a run").stuck;
        stuck.map_or(0, |stuck| stuck.tasks)
    };
    assert_eq!([4, 3, 2].map(stuck_beside), [0, 1, 2]);
}

/// A run without a duration would never end.
#[test]
fn where_only_daemons_go_on_it_is_a_deadlock() {
    let run = |beat: &str| {
        let machine = ideal("core:2 pu:1", 1000);
        let json = format!(
            r#"{{ "tiltyard": {{ "apps": {{}} }}, "tasks": {{ "waiter": {{ "loop": 3, "sem_wait": "s", "run": 100 }},
                "beat": {{ "loop": -1, "tiltyard": {{ "daemon": true, "run": 10, "sleep": 1000 {beat} }} }} }} }}"#
        );
        Lab::new(&machine, object("fifo", 2)).run(&parse(&json))
    };
    assert!(run(r#", "sem_post": "s""#).is_ok());
    let error = run("").err().map(|error| error.to_string());
    let error = error.expect("nobody posts");
    assert!(
        error.contains("deadlock: waiter[") && error.ends_with("; only daemons go on"),
        "{error}"
    );
}

#[test]
fn who_may_still_be_woken_is_not_stuck() {
    let late = r#""late": { "loop": 1, "sleep": 1000000, "signal": "ready" }"#;
    assert_eq!(stuck(&format!("{LOST_WAKEUP}, {late}")), None);
    // One that starts such a task.
    let starter = r#""starter": { "loop": -1, "sleep": 1000000, "fork": "late" },
        "late": { "instance": 0, "loop": 1, "signal": "ready", "sleep": 1000 }"#;
    let waiter = r#""waiter": { "loop": 1, "run": 10, "sem_wait": "s" }"#;
    let poster = r#""poster": { "loop": 1, "sleep": 1000000, "sem_post": "s" }"#;
    assert!(stuck(&format!("{LOST_WAKEUP}, {starter}")).is_none());
    assert_eq!(stuck(&format!("{waiter}, {poster}")), None);
}

#[test]
fn of_an_array_the_element_counts() {
    let posts = |which: u32| {
        format!(
            r#""waiter": {{ "loop": 1, "run": 10, "tiltyard": {{ "sem_wait": "s[0]" }} }},
               "poster": {{ "loop": 1, "sleep": 1000000, "tiltyard": {{ "sem_post": "s[{which}]" }} }}"#
        )
    };
    let with = |which: u32| {
        let machine = ideal("core:2 pu:1", 1000);
        let mut lab = Lab::new(&machine, object("fifo", 2));
        lab.duration_ns = Some(200_000_000);
        let json = format!(
            r#"{{ "tiltyard": {{ "apps": {{}}, "semaphores": {{ "s": {{ "count": 2 }} }} }},
               "tasks": {{ {} }} }}"#,
            posts(which)
        );
        lab.run(&parse(&json)).expect("a run").outcome.stuck
    };
    assert_eq!(with(0), None);
    assert_eq!(with(1).expect("nobody posts it").tasks, 1);
}

/// A waiter of each kind, what its wait is called, and an event that ends it.
#[test]
fn each_kind_of_wait_has_its_own_waker() {
    let of_pipe = |event: &str, pipe: &str| {
        format!(r#""tiltyard": {{ "{event}": {{ "pipe": "{pipe}", "bytes": 20 }} }}"#)
    };
    let kinds = [
        (
            r#""barrier": "b""#.to_owned(),
            "barrier 'b' (1 of 2 came)",
            r#""sem_post": "s""#.to_owned(),
        ),
        (
            of_pipe("read", "empty"),
            "data in pipe 'empty'",
            of_pipe("write", "empty"),
        ),
        (
            of_pipe("write", "full"),
            "room in pipe 'full'",
            of_pipe("read", "full"),
        ),
        (
            r#""suspend": "here""#.to_owned(),
            "a resume of 'here'",
            r#""resume": "here""#.to_owned(),
        ),
    ];
    // The barrier's second task waits for a semaphore.
    let run = |waiter: &str, other: &str| {
        let machine = ideal("core:2 pu:1", 1000);
        let mut lab = Lab::new(&machine, object("fifo", 2));
        lab.duration_ns = Some(200_000_000);
        let fill = of_pipe("write", "full");
        let meets = if waiter.contains("barrier") {
            format!(", {waiter}")
        } else {
            String::new()
        };
        let json = format!(
            r#"{{ "tiltyard": {{ "apps": {{}}, "barriers": {{ "b": {{ "parties": 2 }} }},
                "pipes": {{ "empty": {{}}, "full": {{ "capacity": 30 }} }} }}, "tasks": {{
                "filler": {{ "loop": 1, {fill} }},
                "waiter": {{ "loop": 1, "run": 1000, {waiter} }},
                "second": {{ "loop": 1, "sem_wait": "s"{meets} }}, {other} }} }}"#
        );
        lab.run(&parse(&json)).expect("a run").outcome.stuck
    };
    for (wait, called, end) in &kinds {
        let stuck = run(wait, TICKER).unwrap_or_else(|| panic!("{wait}"));
        assert_eq!(stuck.tasks, 2, "{stuck:?}");
        assert!(
            stuck.waits.iter().any(|wait| wait.ends_with(called)),
            "{stuck:?}"
        );
        let ender = format!(r#""ender": {{ "loop": 1, "sleep": 1000000, {end} }}"#);
        let stuck = run(wait, &ender);
        let waits = stuck.map(|stuck| stuck.waits.join("; "));
        assert!(!waits.unwrap_or_default().contains(called), "{wait}");
    }
}

#[test]
fn who_waits_for_a_stuck_task_is_stuck() {
    let tasks = format!(
        r#""holder": {{ "loop": 1, "lock": "m", "run": 1000, "sem_wait": "never", "unlock": "m" }},
           "second": {{ "loop": 1, "sleep": 5000, "lock": "m", "unlock": "m" }},
           "parent": {{ "loop": 1, "run": 100, "tiltyard": {{ "spawn": "child", "join": true }} }},
           "child": {{ "instance": 0, "loop": 1, "run": 100, "sem_wait": "never" }}, {TICKER}"#
    );
    let stuck = stuck(&tasks).expect("four wait forever");
    assert_eq!(stuck.tasks, 4, "{stuck:?}");
    let waits = stuck.waits.join("; ");
    assert!(
        waits.contains("lock 'm', which holder[") && waits.contains("its children"),
        "{waits}"
    );
}

#[test]
fn a_daemon_may_wait_for_ever() {
    let daemon =
        r#""server": { "loop": -1, "tiltyard": { "daemon": true, "sem_wait": "request" } }"#;
    assert_eq!(stuck(&format!("{daemon}, {TICKER}")), None);
}

/// Locks in a circle are an error at once, whatever others do.
#[test]
fn a_circle_of_locks_beside_a_worker() {
    let task = |name: &str, first: &str, second: &str| {
        format!(
            r#""{name}": {{ "loop": 1, "lock": "{first}", "sleep": 1000, "lock1": "{second}" }}"#
        )
    };
    let circle = [
        task("a", "l", "m"),
        task("b", "m", "n"),
        task("c", "n", "l"),
    ];
    let error = run(&format!("{}, {TICKER}", circle.join(", "))).expect_err("a deadlock");
    let text = error.to_string();
    for word in [
        "deadlock: ",
        "lock 'l', which a[",
        "lock 'm', which b[",
        "lock 'n', which c[",
    ] {
        assert!(text.contains(word), "no '{word}' in {text}");
    }
    assert!(!text.contains("more"), "{text}");
}
