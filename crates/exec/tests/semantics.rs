// SPDX-License-Identifier: GPL-2.0-or-later
//! What real threads must agree on with the simulated machine, however slow or busy this machine is: order and counts.

use tiltyard_exec::{ExecError, ExecOutcome, Setup, run};
use tiltyard_workload::read;

/// A step costs next to nothing, so that `run` takes no time worth mentioning; no histories; a short patience.
fn setup() -> Setup {
    Setup {
        history_limit_ns: 0,
        calibration_ns: Some(1_000_000),
        stall_ns: 500_000_000,
        // What waits forever in spite of that is not done.
        duration_ns: Some(60_000_000_000),
        ..Setup::default()
    }
}

fn execute(tasks: &str, shared: &str) -> Result<ExecOutcome, ExecError> {
    let text = format!(r#"{{ "tiltyard" : {{ {shared} }}, "tasks" : {{ {tasks} }} }}"#);
    let workload = read(&text, "test.json").unwrap_or_else(|e| panic!("{}: {text}", e[0]));
    run(&workload, &setup(), &mut |_| {})
}

#[track_caller]
fn finishes(tasks: &str, shared: &str) -> ExecOutcome {
    let outcome = execute(tasks, shared).unwrap();
    assert!(outcome.done, "{outcome:?}");
    outcome
}

#[track_caller]
fn fails(tasks: &str, shared: &str, words: &[&str]) -> String {
    match execute(tasks, shared) {
        Err(ExecError::Workload(line)) => {
            let lacks = words.iter().find(|w| !line.contains(**w));
            assert_eq!(lacks, None, "{line}");
            line
        }
        other => panic!("{other:?}"),
    }
}

fn count(outcome: &ExecOutcome, request: &str) -> u64 {
    let found = outcome.requests.iter().find(|r| r.name == request);
    found.map_or(0, |r| r.count)
}

/// Everybody who left the mark `first` did so before anybody left the mark `then`.
#[track_caller]
fn comes_before(outcome: &ExecOutcome, first: &str, then: &str) {
    let mark = |name: &str| outcome.marks.iter().find(|m| m.name == name).unwrap();
    let (first, then) = (mark(first), mark(then));
    assert!(first.last_ns <= then.first_ns, "{first:?} {then:?}");
}

fn ends(outcome: &ExecOutcome) -> Vec<(&str, u32, u32)> {
    let all = outcome.tasks.iter();
    all.map(|t| (t.name.as_str(), t.started, t.ended)).collect()
}

#[test]
fn loops_and_phases_repeat_as_often_as_they_say() {
    let outcome = finishes(
        r#""a" : { "instance" : 3, "loop" : 2, "phases" : {
            "p" : { "loop" : 5, "tiltyard" : { "done" : "p" } },
            "q" : { "tiltyard" : { "repeat" : { "count" : 4, "do" : { "done" : "q" } } } } } }"#,
        "",
    );
    assert_eq!((count(&outcome, "p"), count(&outcome, "q")), (30, 24));
    assert_eq!(ends(&outcome), [("a", 3, 3)]);
}

#[test]
fn a_counter_is_used_up_by_whoever_comes() {
    let outcome = finishes(
        r#""a" : { "instance" : 4, "loop" : 1, "tiltyard" : {
            "countdown" : { "counter" : "n", "do" : { "done" : "pass" } } } }"#,
        r#""counters" : { "n" : { "start" : 1001 } }"#,
    );
    assert_eq!(count(&outcome, "pass"), 1001);
}

/// Between processes too. If two held it, the first to unlock it would not be its owner any more, which is an error.
#[test]
fn a_mutex_is_held_by_one_at_a_time() {
    let outcome = finishes(
        r#""thread" : { "instance" : 3, "loop" : 300, "lock" : "m", "tiltyard" : { "begin" : "held" }, "run" : 1, "yield" : "",
            "tiltyard1" : { "end" : "held" }, "unlock" : "m" },
           "process" : { "instance" : 2, "loop" : 300, "lock" : "m", "tiltyard" : { "process" : true, "begin" : "held" }, "yield" : "",
            "tiltyard1" : { "end" : "held" }, "unlock" : "m" }"#,
        "",
    );
    assert_eq!(count(&outcome, "held"), 1500);
}

#[test]
fn a_barrier_holds_everybody_back_until_the_last_has_come() {
    // In one process and between two; sleeping, and spinning first. Each comes at another time.
    for spin in [0, 50] {
        let outcome = finishes(
            r#""a" : { "instance" : 4, "loop" : 1, "tiltyard" : { "sleep" : { "uniform" : [0, 20000] },
                 "mark" : "before", "barrier" : "b", "mark1" : "after",
                 "sleep1" : { "uniform" : [0, 20000] }, "mark2" : "before2", "barrier1" : "b", "mark3" : "after2",
                 "repeat" : { "count" : 100, "do" : { "barrier" : "b", "done" : "round" } } } },
               "b" : { "instance" : 2, "loop" : 1, "tiltyard" : { "process" : true, "sleep" : { "uniform" : [0, 20000] },
                 "mark" : "before", "barrier" : "b", "mark1" : "after",
                 "sleep1" : { "uniform" : [0, 20000] }, "mark2" : "before2", "barrier1" : "b", "mark3" : "after2",
                 "repeat" : { "count" : 100, "do" : { "barrier" : "b", "done" : "round" } } } }"#,
            &format!(r#""barriers" : {{ "b" : {{ "parties" : 6, "spin" : {spin} }} }}"#),
        );
        assert_eq!(count(&outcome, "round"), 600);
        comes_before(&outcome, "before", "after");
        comes_before(&outcome, "before2", "after2");
    }
}

#[test]
fn semaphores_remember_posts_and_hand_them_on() {
    let outcome = finishes(
        r#""ping" : { "loop" : 500, "sem_post" : "pong", "sem_wait" : "ping", "tiltyard" : { "done" : "round" } },
           "pong" : { "loop" : 500, "sem_wait" : "pong", "sem_post" : "ping" },
           "late" : { "loop" : 1, "delay" : 20000, "tiltyard" : { "process" : true,
             "repeat" : { "count" : 3, "do" : { "sem_wait" : "free" } } } }"#,
        r#""semaphores" : { "free" : { "initial" : 3 } }"#,
    );
    assert_eq!(count(&outcome, "round"), 500);
    fails(
        r#""a" : { "loop" : 1, "tiltyard" : { "repeat" : { "count" : 4, "do" : { "sem_wait" : "free" } } } }"#,
        r#""semaphores" : { "free" : { "initial" : 3 } }"#,
        &["deadlock: a[", "waits for semaphore 'free'"],
    );
}

#[test]
fn a_signal_wakes_one_and_a_broadcast_all() {
    // All wait when the conductor, who needs the mutex, comes late; one signal and one broadcast wake four.
    let outcome = finishes(
        r#""waiter" : { "instance" : 4, "loop" : 1, "lock" : "m", "sem_post" : "ready",
             "wait" : { "ref" : "c", "mutex" : "m" }, "unlock" : "m", "tiltyard" : { "done" : "woken" }, "sem_post1" : "gone" },
           "conductor" : { "loop" : 1, "tiltyard" : { "repeat" : { "count" : 4, "do" : { "sem_wait" : "ready" } } },
             "lock" : "m", "signal" : "c", "unlock" : "m", "sem_wait" : "gone",
             "lock1" : "m", "broad" : "c", "unlock1" : "m" }"#,
        "",
    );
    assert_eq!(count(&outcome, "woken"), 4);
    // Without the broadcast three stay.
    let line = fails(
        r#""waiter" : { "instance" : 4, "loop" : 1, "lock" : "m", "sem_post" : "ready",
             "wait" : { "ref" : "c", "mutex" : "m" }, "unlock" : "m" },
           "conductor" : { "loop" : 1, "tiltyard" : { "repeat" : { "count" : 4, "do" : { "sem_wait" : "ready" } } },
             "lock" : "m", "signal" : "c", "unlock" : "m" }"#,
        "",
        &["deadlock"],
    );
    assert_eq!(line.matches("waits for condition 'c'").count(), 3, "{line}");
}

#[test]
fn pipes_carry_every_byte() {
    let outcome = finishes(
        r#""writer" : { "instance" : 2, "loop" : 1, "tiltyard" : { "process" : true,
             "repeat" : { "count" : 300, "do" : { "write" : { "pipe" : "p[i]", "bytes" : 1000 } } } } },
           "reader" : { "instance" : 2, "loop" : 1, "tiltyard" : {
             "repeat" : { "count" : 200, "do" : { "read" : { "pipe" : "p[i]", "bytes" : 1500 }, "done" : "read" } } } }"#,
        r#""pipes" : { "p" : { "count" : 2, "capacity" : 8192 } }"#,
    );
    assert_eq!(count(&outcome, "read"), 400);
    fails(
        r#""reader" : { "loop" : 1, "tiltyard" : { "read" : { "pipe" : "p", "bytes" : 1 } } }"#,
        r#""pipes" : { "p" : {} }"#,
        &["reader[", "waits for data in pipe 'p'"],
    );
    fails(
        r#""writer" : { "loop" : -1, "tiltyard" : { "write" : { "pipe" : "p", "bytes" : 4096 } } }"#,
        r#""pipes" : { "p" : { "capacity" : 4096 } }"#,
        &["waits for room in pipe 'p'"],
    );
}

#[test]
fn parents_wait_for_the_whole_tree_below_them() {
    let outcome = finishes(
        r#""root" : { "loop" : 1, "tiltyard" : { "process" : true, "spawn" : { "task" : "twig", "count" : 3 }, "join" : true, "done" : "root", "mark" : "joined" } },
           "twig" : { "instance" : 0, "loop" : 1, "fork" : "leaf", "tiltyard" : { "process" : true, "spawn" : { "task" : "leaf", "count" : 2 }, "join" : true, "done" : "twig" } },
           "leaf" : { "instance" : 0, "loop" : 1, "sleep" : 5000, "tiltyard" : { "done" : "leaf", "mark" : "fallen", "exit" : true, "done1" : "never" } }"#,
        "",
    );
    assert_eq!(
        ends(&outcome),
        [("root", 1, 1), ("twig", 3, 3), ("leaf", 9, 9)]
    );
    comes_before(&outcome, "fallen", "joined");
    let counts = ["root", "twig", "leaf", "never"].map(|name| count(&outcome, name));
    assert_eq!(counts, [1, 3, 9, 0]);
}

#[test]
fn the_run_does_not_wait_for_daemons() {
    let outcome = finishes(
        r#""worker" : { "loop" : 3, "sem_wait" : "up", "sleep" : 1000 },
           "server" : { "loop" : -1, "tiltyard" : { "daemon" : true, "repeat" : { "count" : 3, "do" : { "sem_post" : "up" } }, "sem_wait" : "never" } }"#,
        "",
    );
    assert_eq!(ends(&outcome), [("worker", 1, 1), ("server", 1, 0)]);
}

#[test]
fn a_resume_wakes_all_who_are_suspended_there() {
    let outcome = finishes(
        r#""sleeper" : { "instance" : 3, "loop" : 1, "sem_post" : "ready", "suspend" : "sleeper", "tiltyard" : { "done" : "resumed" } },
           "waker" : { "loop" : 1, "tiltyard" : { "repeat" : { "count" : 3, "do" : { "sem_wait" : "ready" } } }, "sleep" : 500000, "resume" : "sleeper" }"#,
        "",
    );
    assert_eq!(count(&outcome, "resumed"), 3);
}

#[test]
fn mistakes_end_the_run_with_the_names_of_those_concerned() {
    fails(
        r#""a" : { "loop" : 1, "lock" : "m", "lock1" : "m" }"#,
        "",
        &["a[", "locks 'm', which it holds already (deadlock)"],
    );
    fails(
        r#""a" : { "loop" : 1, "unlock" : "m" }"#,
        "",
        &["unlocks 'm', which nobody holds"],
    );
    fails(
        r#""a" : { "loop" : 1, "lock" : "m" }"#,
        "",
        &["exits while it holds 'm'"],
    );
    fails(
        r#""a" : { "loop" : 1, "tiltyard" : { "end" : "r" } }"#,
        "",
        &["request 'r' ends but was not begun"],
    );
    fails(
        r#""a" : { "instance" : 3, "loop" : 1, "tiltyard" : { "sem_post" : "s[i]" } }"#,
        r#""semaphores" : { "s" : { "count" : 2 } }"#,
        &["a-2[", "index 2 outside 0..2"],
    );
    fails(
        r#""a" : { "loop" : 1, "tiltyard" : { "write" : { "pipe" : "p", "bytes" : 5000 } } }"#,
        r#""pipes" : { "p" : { "capacity" : 4096 } }"#,
        &["writes 5000 bytes into pipe 'p' of 4096"],
    );
    fails(
        r#""a" : { "loop" : 1, "lock" : "m", "sem_post" : "s", "sem_wait" : "t", "unlock" : "m" },
           "b" : { "loop" : 1, "sem_wait" : "s", "lock" : "m", "unlock" : "m" }"#,
        "",
        &["waits for semaphore 't'", "waits for lock 'm', which a["],
    );
}

#[test]
fn draws_are_those_of_the_simulated_machine() {
    // The same stream by name and number: how often a chance comes does not depend on who runs it.
    let tasks = r#""a" : { "instance" : 2, "loop" : 1000, "tiltyard" : { "chance" : { "p" : 0.25, "do" : { "done" : "lucky" } } } }"#;
    let streams = tiltyard_workload::rng::Streams::new(1);
    let lucky = |instance| {
        let mut rng = streams.stream("a", instance);
        (0..1000).filter(|_| rng.chance(250_000)).count() as u64
    };
    assert_eq!(count(&finishes(tasks, ""), "lucky"), lucky(0) + lucky(1));
}

/// Everything that a file can say, once: what needs rights that tests do not have is left out.
#[test]
fn every_event_is_executed() {
    let outcome = finishes(
        r#""all" : { "loop" : 1, "priority" : 1, "cpus" : [0],
            "run" : 10, "runtime" : 100, "sleep" : 100,
            "timer" : { "ref" : "tick", "period" : 100 }, "timer1" : { "ref" : "unique", "period" : 100, "mode" : "absolute" },
            "lock" : "m", "sem_post" : "go", "wait" : { "ref" : "c", "mutex" : "m" }, "sync" : { "ref" : "c", "mutex" : "m" }, "unlock" : "m",
            "barrier" : "b", "mem" : 100000,
            "memrun1" : { "type" : "read", "size" : 4096, "count" : 100 },
            "memrun2" : { "type" : "write", "size" : 4096, "count" : 100, "ref" : "shared" },
            "memrun3" : { "type" : "chase", "size" : 4096, "count" : 100, "stride" : 128, "pattern" : "random" },
            "iorun" : 65536, "yield" : "", "fork" : "child",
            "tiltyard" : { "working_set" : 65536,
              "set" : { "nice" : 2, "cpus" : "all", "policy" : "SCHED_BATCH" },
              "set_other" : { "task" : "child", "instance" : 0, "nice" : 3 },
              "run1" : { "exp" : 10 }, "run2" : { "lognormal" : { "median" : 10, "sigma" : 0.5 } }, "sleep" : { "uniform" : [1, 9] },
              "io" : { "device" : "disk", "service" : 100 }, "io1" : { "device" : "net", "service" : 100 },
              "begin" : "request", "end" : "request", "mark" : "here",
              "until" : { "time" : 1, "do" : { "run" : 1 } }, "chance" : { "p" : 1, "do" : { "done" : "sure" } },
              "during" : { "time" : 2000, "do" : { "run" : 1 } },
              "repeat" : { "count" : 20, "do" : { "resume" : "child", "sleep" : 5000 } },
              "sem_post" : "end", "join" : true } },
           "partner" : { "loop" : 1, "sem_wait" : "go", "lock" : "m", "signal" : "c", "unlock" : "m",
            "lock1" : "m", "wait" : { "ref" : "d", "mutex" : "m" }, "unlock1" : "m" },
           "caller" : { "loop" : 1, "barrier" : "b", "tiltyard" : { "app" : "other" } },
           "drummer" : { "loop" : -1, "sleep" : 2000, "lock" : "m", "broad" : "c", "broad1" : "d", "unlock" : "m",
             "tiltyard" : { "daemon" : true } },
           "child" : { "instance" : 0, "loop" : 1, "tiltyard" : { "app" : "main" }, "sem_wait" : "end" }"#
            .replace(r#""partner" : { "loop" : 1,"#, r#""partner" : { "loop" : 1, "tiltyard" : { "app" : "main" },"#)
            .replace(r#""daemon" : true"#, r#""daemon" : true, "app" : "main""#)
            .replace(r#""working_set""#, r#""app" : "main", "working_set""#)
            .as_str(),
        r#""apps" : { "main" : {}, "other" : { "history" : 0 } }, "devices" : { "disk" : {}, "net" : { "channels" : "unlimited" } }"#,
    );
    assert_eq!(
        (count(&outcome, "request"), count(&outcome, "sure")),
        (1, 1)
    );
    assert_eq!(outcome.marks[0].count, 1);
    assert!(outcome.tasks.iter().all(|t| t.started == 1), "{outcome:?}");
}

#[test]
fn a_run_ends_with_its_time() {
    let text = r#"{ "tasks" : { "hog" : { "loop" : -1, "run" : 1000 }, "late" : { "loop" : 1, "delay" : 60000000, "run" : 1 } } }"#;
    let workload = read(text, "test.json").unwrap();
    let short = Setup {
        duration_ns: Some(300_000_000),
        ..setup()
    };
    let outcome = run(&workload, &short, &mut |_| {}).unwrap();
    assert!(!outcome.done && outcome.duration_ns >= 300_000_000);
    assert_eq!(ends(&outcome), [("hog", 1, 0), ("late", 0, 0)]);
    assert!(outcome.tasks[0].cpu_ns > 0);
}

#[test]
fn a_pipe_that_cannot_be_so_small_is_noted() {
    let text = r#"{ "tiltyard" : { "pipes" : { "p" : { "capacity" : 100 } } }, "tasks" : { "a" : { "loop" : 1,
        "tiltyard" : { "write" : { "pipe" : "p", "bytes" : 1 } } } } }"#;
    let workload = read(text, "test.json").unwrap();
    let mut notes = Vec::new();
    run(&workload, &setup(), &mut |note| notes.push(note.to_owned())).unwrap();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("pipe 'p'"), "{}", notes[0]);
}

#[test]
fn an_exact_run_lasts_by_the_tasks_own_clock() {
    let text = r#"{ "tasks": { "A": { "instance": 2, "loop": 2, "run": 10000 } } }"#;
    let workload = read(text, "test.json").expect("a workload");
    // The calibration, by which there would be no work to speak of, does not matter.
    let setup = Setup {
        exact: true,
        ..setup()
    };
    let outcome = run(&workload, &setup, &mut |_| {}).expect("it runs");
    assert_eq!(ends(&outcome), [("A", 2, 2)]);
    let cpu_ns = outcome.tasks[0].cpu_ns;
    assert!((40_000_000..80_000_000).contains(&cpu_ns), "{outcome:?}");
}
