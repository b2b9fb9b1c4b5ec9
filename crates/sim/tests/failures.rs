// SPDX-License-Identifier: GPL-2.0-or-later
//! Schedulers and workloads that cannot go on: each ends its own run with one error that names what failed.

use crate::common::{Lab, Ran, costed, ideal, object, parse, repository, shipped, source};
use tiltyard_build::{Builder, BuilderOptions, Source};
use tiltyard_model::Machine;
use tiltyard_native::{Crash, Value};
use tiltyard_sim::{ExitKind, RunError};

const BROKEN: &str = "crates/sim/tests/schedulers/broken.bpf.c";

const ONE_TASK: &str = r#"{
    "tiltyard": { "apps": { "app": { "history": 0 } } },
    "tasks": { "victim": { "loop": 3, "run": 30000, "sleep": 1000 } }
}"#;

fn break_by(define: &str) -> Result<Ran, RunError> {
    break_on(define, &ideal("pu:1", 1000), 60_000_000_000, ONE_TASK)
}

/// The scheduler that `define` breaks, with the watchdog on; its own timeout is 4 s.
fn break_on(
    define: &str,
    machine: &Machine,
    duration_ns: u64,
    json: &str,
) -> Result<Ran, RunError> {
    let mut source = Source::new(repository().join(BROKEN));
    source.defines.push(define.to_owned());
    let object = Builder::default().native(&source).expect("it compiles");
    let mut lab = Lab::new(machine, &object);
    lab.watchdog = true;
    lab.duration_ns = Some(duration_ns);
    lab.run(&parse(json))
}

/// The error of a workload under fifo, which is one line and says what it is about.
fn workload_error(json: &str, words: &[&str]) {
    let machine = ideal("core:2 pu:1", 1000);
    let mut lab = Lab::new(&machine, object("fifo", 2));
    lab.duration_ns = Some(5_000_000_000);
    let error = lab
        .run(&parse(json))
        .expect_err("the workload cannot end well");
    assert!(matches!(error, RunError::Workload(_)), "{error:?}");
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    for word in words {
        assert!(text.contains(word), "no '{word}' in: {text}");
    }
}

fn expect_crash(define: &str, wanted_op: &str) -> Crash {
    match break_by(define) {
        Err(RunError::Crash {
            op, task, crash, ..
        }) => {
            assert_eq!(op, format!("ops.{wanted_op}()"));
            assert!(task.contains('['), "{task} names a task and its pid");
            crash
        }
        other => panic!("{define}: {other:?}"),
    }
}

#[test]
fn null_pointer() {
    assert_eq!(
        expect_crash("BREAK=NULL_READ", "enqueue"),
        Crash::Fault { address: 0 }
    );
}

#[test]
fn wild_pointer() {
    let crash = expect_crash("BREAK=WILD_WRITE", "running");
    let Crash::Outside { offset, .. } = crash else {
        panic!("{crash}")
    };
    assert_eq!(offset, 0xdead_0000_0000_0000);
}

#[test]
fn endless_loop() {
    for (mode, loops) in [
        ("SPIN", "while (forever)"),
        // Of the inner callback.
        ("NESTED_LOOPS", "return 0;"),
    ] {
        match break_by(&format!("BREAK={mode}")) {
            Err(RunError::Crash {
                op, crash, place, ..
            }) => {
                assert_eq!(op, "ops.dispatch()");
                assert!(matches!(crash, Crash::Runaway { .. }), "{mode}: {crash}");
                assert_eq!(place, Some(line_of(loops)), "{mode}");
            }
            other => panic!("{mode}: {other:?}"),
        }
    }
}

/// After a crash the process goes on: the next run is a good one.
#[test]
fn a_crash_leaves_the_process_whole() {
    for _ in 0..3 {
        break_by("BREAK=NULL_READ").expect_err("it crashes");
        let machine = ideal("pu:1", 1000);
        let ran = Lab::new(&machine, object("fifo", 2)).run(&parse(ONE_TASK));
        assert_eq!(
            ran.expect("fifo is whole").outcome.exit.kind,
            ExitKind::Unreg
        );
    }
}

/// The watchdog names the task; the dump shows where it stands.
#[test]
fn stall() {
    let exit = break_by("BREAK=NEVER_DISPATCH")
        .expect("an orderly end")
        .outcome
        .exit;
    assert_eq!(exit.kind, ExitKind::ErrorStall);
    assert!(
        exit.message.contains("failed to run for"),
        "{}",
        exit.message
    );
    // The watchdog checks every 2 s, half of its timeout, so it ejects after 4 to 6 s.
    let waited_s = exit.time_ns / 1_000_000_000;
    assert!((4..=6).contains(&waited_s), "{waited_s} s");
    assert!(exit.dump.contains("CPU 0"), "{}", exit.dump);
    assert!(exit.dump.contains("ops_state=QUEUED"), "{}", exit.dump);
}

/// Without a watchdog and without an end, a run whose clock has nothing left must not look like a good one.
#[test]
fn stall_without_a_watchdog() {
    let path = repository().join("tests/conformance/schedulers/never.bpf.c");
    let machine = ideal("pu:1", 1000);
    let lab = Lab::new(&machine, object(&path.display().to_string(), 2));
    let workload = parse(&ONE_TASK.replace("victim", "X"));
    let ran = lab.run(&workload).expect("an orderly end");
    let exit = ran.outcome.exit;
    assert_eq!(exit.kind, ExitKind::ErrorStall);
    assert!(
        exit.message.contains("X[2] waits to run"),
        "{}",
        exit.message
    );
}

#[test]
fn bogus_queue() {
    let exit = break_by("BREAK=BOGUS_DSQ")
        .expect("an orderly end")
        .outcome
        .exit;
    assert_eq!(exit.kind, ExitKind::Error);
    assert!(
        exit.message.contains("non-existent DSQ 0xbeef for sh-app"),
        "{}",
        exit.message
    );
}

#[test]
fn a_name_that_the_kernel_refuses() {
    for (define, wanted) in [
        (
            r#"OPS_NAME="my sched""#,
            r#"ops.name is "my sched", but may contain only letters, digits, '_' and '.' (-EINVAL)"#,
        ),
        (r#"OPS_NAME="""#, "ops.name is not set (-EINVAL)"),
    ] {
        match break_by(define) {
            Err(RunError::Scheduler(message)) => assert_eq!(message, wanted),
            other => panic!("{define}: {other:?}"),
        }
    }
}

#[test]
fn a_kind_of_map_that_is_missing_is_no_failure_of_the_scheduler() {
    match break_by("BREAK=ARENA") {
        Err(RunError::NotModelled(what)) => {
            assert!(
                what.starts_with("map 'arena': BPF_MAP_TYPE_ARENA"),
                "{what}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn init_returns_an_error() {
    for (mistake, wanted) in [
        ("INIT_ERROR", "(-28), ENOSPC"),
        (
            "SAME_DSQ",
            "(-17), EEXIST; scx_bpf_create_dsq(0x0, -1): a DSQ with this id already exists",
        ),
        (
            "NO_NODE",
            "(-22), EINVAL; scx_bpf_create_dsq(0x0, 1): node 1 does not exist; number of nodes: 1; -1 means any node",
        ),
        (
            "BUILTIN_DSQ",
            "(-22), EINVAL; scx_bpf_create_dsq(0x8000000000000001, -1): ids with bit 63 set are reserved for built-in DSQs",
        ),
    ] {
        let run = break_by(&format!("BREAK={mistake}")).expect("an orderly end");
        let exit = run.outcome.exit;
        assert_eq!(exit.kind, ExitKind::Error);
        assert_eq!(exit.message, format!("ops.init() failed {wanted}"));
    }
}

#[test]
fn init_task_returns_an_error() {
    let exit = break_by("BREAK=INIT_TASK_ERROR")
        .expect("an orderly end")
        .outcome
        .exit;
    assert_eq!(exit.kind, ExitKind::Error);
    assert!(
        exit.message
            .contains("ops.init_task() failed (-12) for sh-app"),
        "{}",
        exit.message
    );
}

/// A fork that the scheduler refuses fails; no workload says what to do then, so it ends the run.
#[test]
fn init_task_refuses_a_fork() {
    let text = break_by("BREAK=FORK_ERROR")
        .expect_err("no child")
        .to_string();
    assert!(
        text.contains("ops.init_task() failed (-12) for victim"),
        "{text}"
    );
}

#[test]
fn unknown_kernel_function() {
    let path = repository().join("crates/sim/tests/schedulers/unknown_kfunc.bpf.c");
    let machine = ideal("pu:1", 1000);
    let text = match Builder::default().native(&Source::new(path)) {
        Err(error) => error.to_string(),
        Ok(object) => Lab::new(&machine, &object)
            .run(&parse(ONE_TASK))
            .expect_err("it cannot be loaded")
            .to_string(),
    };
    assert!(text.contains("scx_bpf_read_minds"), "{text}");
}

#[test]
fn unlock_of_a_lock_of_another() {
    workload_error(
        r#"{ "tasks": {
            "holder": { "loop": 1, "lock": "m", "run": 50000, "unlock": "m" },
            "thief": { "loop": 1, "run": 1000, "unlock": "m" } } }"#,
        &["thief[", "unlocks 'm'", "holder["],
    );
}

#[test]
fn unlock_of_a_free_lock() {
    workload_error(
        r#"{ "tasks": { "thief": { "loop": 1, "run": 1000, "unlock": "m" } } }"#,
        &["thief[", "unlocks 'm'", "nobody"],
    );
}

#[test]
fn deadlock_of_two() {
    workload_error(
        r#"{ "tasks": {
            "a": { "loop": 1, "lock": "m", "run": 1000, "lock1": "n", "unlock": "n", "unlock1": "m" },
            "b": { "loop": 1, "lock": "n", "run": 1000, "lock1": "m", "unlock": "m", "unlock1": "n" } } }"#,
        &["deadlock", "a[", "b[", "lock 'm'", "lock 'n'"],
    );
}

#[test]
fn deadlock_of_one() {
    workload_error(
        r#"{ "tasks": { "a": { "loop": 1, "lock": "m", "run": 1000, "lock1": "m" } } }"#,
        &["deadlock", "a[", "'m'"],
    );
}

#[test]
fn semaphore_that_nobody_posts() {
    workload_error(
        r#"{ "tasks": { "a": { "loop": 1, "run": 1000, "sem_wait": "s" } } }"#,
        &["deadlock", "a[", "semaphore 's'"],
    );
}

/// Two that wait for each other while a third works on are found when the third has ended.
#[test]
fn deadlock_beside_a_worker() {
    workload_error(
        r#"{ "tasks": {
            "a": { "loop": 1, "lock": "m", "run": 1000, "lock1": "n" },
            "b": { "loop": 1, "lock": "n", "run": 1000, "lock1": "m" },
            "worker": { "loop": 10, "run": 1000, "sleep": 1000 } } }"#,
        &["deadlock", "a[", "b["],
    );
}

#[test]
fn exit_with_a_lock() {
    workload_error(
        r#"{ "tasks": { "a": { "loop": 1, "lock": "m", "run": 1000 } } }"#,
        &["a[", "'m'"],
    );
}

/// Bounded by a chance, so the reader lets it pass; the engine stops it.
#[test]
fn fork_bomb() {
    workload_error(
        r#"{ "tasks": {
            "bomb": { "loop": -1, "tiltyard": { "spawn": { "task": "child", "count": 1000 } } },
            "child": { "instance": 0, "loop": 1, "sleep": 4000000 } } }"#,
        &["bomb[", "fork bomb"],
    );
}

#[test]
fn affinity_to_no_cpu() {
    workload_error(
        r#"{ "tasks": { "a": { "loop": 1, "cpus": [7, 9], "run": 1000 } } }"#,
        &["a[", "[7, 9]", "CPUs 0-1"],
    );
}

#[test]
fn loop_that_takes_no_time() {
    workload_error(
        r#"{ "tasks": { "a": { "loop": -1, "run": 0 } } }"#,
        &["a[", "never takes any time"],
    );
}

#[test]
fn index_outside_its_array() {
    workload_error(
        r#"{ "tiltyard": { "semaphores": { "s": { "count": 2 } } },
             "tasks": { "a": { "instance": 3, "loop": 1, "tiltyard": { "run": 10, "sem_post": "s[i]" } } } }"#,
        &["a-2[", "index 2 outside 0..2"],
    );
}

/// Nobody may think that a deadline took effect.
#[test]
fn what_is_not_modelled_is_named() {
    let machine = ideal("pu:1", 1000);
    let lab = Lab::new(&machine, object("fifo", 2));
    for (attributes, name) in [
        (
            r#""policy": "SCHED_DEADLINE", "dl-runtime": 1000, "dl-period": 10000"#,
            "SCHED_DEADLINE",
        ),
        (r#""util_min": 100"#, "util_min"),
        (r#""nodes_membind": [0]"#, "nodes_membind"),
    ] {
        let json =
            format!(r#"{{ "tasks": {{ "a": {{ "loop": 1, {attributes}, "run": 1000 }} }} }}"#);
        match lab.run(&parse(&json)) {
            Err(RunError::NotModelled(text)) => assert!(text.contains(name), "{text}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// A CPU with nothing to run for which dispatch claims success again and again: in a kernel it would spin.
#[test]
fn dispatch_that_never_settles() {
    let path = repository().join("tests/conformance/schedulers/restless.bpf.c");
    let forever = [("forever".to_owned(), Value::Int(1))];
    let machine = ideal("core:2 pu:1", 1000);
    let mut lab = Lab::new(&machine, object(&path.display().to_string(), 2));
    lab.globals = &forever;
    let tasks = r#"{ "tasks": {
        "X": { "loop": 1, "run": 1000 },
        "H": { "loop": 1, "cpus": [1], "run": 1000 } } }"#;
    match lab.run(&parse(tasks)) {
        Err(RunError::Scheduler(text)) => assert!(text.contains("CPU 1 reschedules"), "{text}"),
        other => panic!("{other:?}"),
    }
}

/// One that unloads itself is no run of the whole workload: kind, code and message say so.
#[test]
fn leaves_by_itself() {
    let ran = break_by("BREAK=LEAVES").expect("an orderly end");
    let exit = ran.outcome.exit;
    assert_eq!((exit.kind, exit.code), (ExitKind::UnregBpf, 42));
    assert_eq!(exit.message, "had enough of victim");
    assert_eq!(exit.name, "broken");
}

/// A run that is shorter than the watchdog's patience still shows that nothing ever ran.
#[test]
fn tasks_that_never_run_are_named() {
    let machine = ideal("pu:1", 1000);
    for (define, place) in [
        ("BREAK=NEVER_CONSUME", "DSQ 0 was filled and never consumed"),
        ("BREAK=NEVER_DISPATCH", "inserted it into no DSQ"),
    ] {
        let ran = break_on(define, &machine, 1_000_000_000, ONE_TASK).expect("an orderly end");
        assert_eq!(ran.outcome.exit.kind, ExitKind::Unreg, "{define}");
        let stranded = ran.outcome.stranded.expect("it is lost");
        assert_eq!(stranded.tasks, ["sh-app[1]"], "{define}");
        assert_eq!(stranded.never_ran, 1);
        assert!(stranded.places[0].contains(place), "{stranded:?}");
        assert_eq!(stranded.idle_cpu, Some(0));
    }
}

/// A DSQ that nobody consumes is found although others, which wake up to an idle CPU, run now and then on all of them.
#[test]
fn a_task_that_nobody_takes_is_named_beside_others_that_run() {
    let machine = ideal("core:2 pu:1", 1000);
    let tasks = r#"{ "tasks": {
        "a": { "loop": -1, "delay": 1000, "run": 500, "sleep": 9500 },
        "b": { "loop": -1, "delay": 2000, "run": 500, "sleep": 8750 },
        "late": { "loop": 1, "delay": 11400, "run": 300000 } } }"#;
    let ran = break_on("BREAK=NEVER_CONSUME", &machine, 1_000_000_000, tasks).expect("an end");
    let stranded = ran.outcome.stranded.expect("it is lost");
    // The program's own task, which wants to start `late` when both CPUs are busy.
    assert_eq!(stranded.tasks, ["sh-rt-app[1]"]);
    let place = "DSQ 0 was filled and never consumed";
    assert_eq!(stranded.places, [place]);
}

/// ops.enqueue never inserts one of the tasks, while others keep all CPUs busy. Under a scheduler with code that inserts tasks
/// later, that is no defect: it may keep the task in a queue of its own, even if nothing has come from there yet.
#[test]
fn a_task_that_is_lost_is_named_beside_busy_cpus() {
    let machine = ideal("pu:1", 1000);
    let tasks = r#"{ "tasks": {
        "hog": { "instance": 2, "loop": 1, "run": 3000000 },
        "dropped": { "loop": 1, "delay": 850000, "run": 1000 } } }"#;
    let ran = break_on("BREAK=LOSES_ONE", &machine, 1_000_000_000, tasks).expect("an end");
    let stranded = ran.outcome.stranded.expect("it is lost");
    assert_eq!(stranded.tasks, ["dropped[4]"]);
    assert_eq!(stranded.idle_cpu, None);
    let place = "ops.enqueue inserted it into no DSQ, and nothing dispatched it later";
    assert_eq!(stranded.places, [place]);

    for define in ["BREAK=KEEPS_ONE", "BREAK=KEEPS_FOR_LATER"] {
        let ran = break_on(define, &machine, 1_000_000_000, tasks).expect("an end");
        let dropped = ran.summary.tasks.iter().find(|t| t.name == "dropped");
        assert_eq!(dropped.expect("it is there").runtime_ns, 0, "{define}");
        assert_eq!(ran.outcome.stranded, None, "{define}");
    }
}

/// Many new tasks that get their first turn one after the other are late, not stranded, even beside an idle CPU.
#[test]
fn the_end_of_a_backlog_that_moves_is_not_a_failure() {
    let machine = ideal("core:2 pu:1", 1000);
    let tasks = r#"{ "tasks": { "many": { "instance": 30, "loop": 1, "run": 20000 } } }"#;
    let ran = break_on("BREAK=FIRST_CPU_ONLY", &machine, 250_000_000, tasks).expect("an end");
    let never_ran = ran.summary.tasks.iter().filter(|t| t.runtime_ns == 0);
    assert!(never_ran.count() >= 5, "there is a backlog");
    assert_eq!(ran.outcome.stranded, None);
}

/// A task that starves because another one keeps the only CPU that both may use is the scheduler's decision, not a defect.
#[test]
fn starvation_by_design_is_not_a_failure() {
    let machine = ideal("core:2 pu:1", 1000);
    let tasks = r#"{ "tasks": {
        "one": { "loop": 1, "cpus": [0], "run": 3000000 },
        "other": { "loop": 1, "cpus": [0], "run": 3000000 } } }"#;
    let ran = break_on("BREAK=NEVER_PREEMPT", &machine, 1_000_000_000, tasks).expect("an end");
    assert_eq!(ran.outcome.exit.kind, ExitKind::Unreg);
    assert_eq!(ran.outcome.stranded, None);
    let hogs = ["one", "other"];
    let tasks = ran.summary.tasks.iter();
    let starved = tasks.filter(|t| hogs.contains(&&*t.name) && t.runtime_ns == 0);
    assert_eq!(starved.count(), 1, "whoever comes second");
}

/// CPU 1 was idle for most of the run, but until `release` nobody who waits might use it.
#[test]
fn idle_cpus_count_from_when_a_task_may_use_them() {
    let machine = ideal("core:2 pu:1", 1000);
    let tasks = r#"{ "tasks": {
        "parent": { "loop": 1, "cpus": [0], "tiltyard": { "spawn": { "task": "hog", "count": 3 } } },
        "hog": { "instance": 0, "loop": 1, "run": 3000000 },
        "release": { "loop": 1, "cpus": [1],
            "tiltyard": { "sleep": 600000, "set_other": { "task": "hog", "cpus": "all" } } } } }"#;
    let ran = break_on("BREAK=NEVER_PREEMPT", &machine, 1_000_000_000, tasks).expect("an end");
    let never_ran = ran.summary.tasks.iter();
    let never_ran = never_ran.filter(|t| t.name.starts_with("hog") && t.runtime_ns == 0);
    assert_eq!(never_ran.count(), 1, "one on each CPU");
    assert_eq!(ran.outcome.stranded, None);
}

/// A CPU that is preempted forever before its task has done anything: the kernel's watchdog would not come by either.
#[test]
fn livelock() {
    let machine = costed("pu:1", 1000);
    for (duration_ns, least_ms) in [(60_000_000_000, 4000), (1_000_000_000, 500)] {
        let exit = break_on("BREAK=KICK_FOR_EVER", &machine, duration_ns, ONE_TASK)
            .expect("an orderly end")
            .outcome
            .exit;
        assert_eq!(exit.kind, ExitKind::ErrorStall);
        for words in [
            "watchdog failed to check in for",
            "CPU 0",
            "ops.running kicked a CPU",
        ] {
            assert!(
                exit.message.contains(words),
                "no '{words}' in: {}",
                exit.message
            );
        }
        assert!(exit.time_ns / 1_000_000 >= least_ms, "{exit:?}");
    }
}

/// A task that only yields spends all its time in the scheduler, yet it makes progress.
#[test]
fn a_task_that_only_yields_is_no_livelock() {
    let machine = costed("pu:1", 1000);
    let workload = r#"{ "tasks": { "yields": { "loop": -1, "yield": "" } } }"#;
    let mut lab = Lab::new(&machine, object("fifo", 2));
    (lab.watchdog, lab.duration_ns) = (true, Some(500_000_000));
    let ran = lab.run(&parse(workload)).expect("an orderly end");
    assert_ne!(
        ran.outcome.exit.kind,
        ExitKind::ErrorStall,
        "{:?}",
        ran.outcome.exit
    );
}

/// A timer that is started for this very moment again and again: no simulated time passes, and yet the run ends.
#[test]
fn time_that_does_not_advance() {
    match break_by("BREAK=TIMER_FOR_NOW") {
        Err(RunError::Scheduler(text)) => {
            assert!(text.contains("simulated time does not advance"), "{text}");
            assert!(
                text.contains("the callback of a timer was called"),
                "{text}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// PF_IDLE, PF_KTHREAD and PF_NO_SETAFFINITY of include/linux/sched.h.
#[test]
fn the_idle_task_is_one() {
    let exit = break_by("BREAK=IDLE_FLAGS")
        .expect("an orderly end")
        .outcome
        .exit;
    assert_eq!(exit.code, 0x2 | 0x20_0000 | 0x400_0000);
}

/// Who called what from where, by name.
#[test]
fn misplaced_call() {
    let exit = break_by("BREAK=MISPLACED")
        .expect("an orderly end")
        .outcome
        .exit;
    assert!(
        exit.message.starts_with(
            "scx_bpf_dsq_insert() called from an operation that does not allow it, ops.running()"
        ),
        "{}",
        exit.message
    );
    let place = exit.place.expect("the line is known");
    assert!(place.starts_with("broken.bpf.c:"), "{place}");
}

/// Limits come from the scheduler's own arrays.
#[test]
fn more_cpus_than_an_array_has() {
    let machine = ideal("pu:8", 1000);
    let text = break_on("BREAK=FEW_CPUS", &machine, 1_000_000_000, ONE_TASK)
        .expect_err("too many CPUs")
        .to_string();
    assert!(text.contains("broken supports 4 CPUs"), "{text}");
    assert!(text.contains("this machine has 8"), "{text}");
}

/// Limits of tasks are found by reaching them.
#[test]
fn more_tasks_than_a_scheduler_has_room_for() {
    let machine = ideal("pu:1", 1000);
    let crowd = r#"{ "tasks": { "crowd": { "instance": 8, "loop": 3, "run": 1000 } } }"#;
    let text = break_on("BREAK=FULL", &machine, 1_000_000_000, crowd)
        .expect_err("too many tasks")
        .to_string();
    assert!(text.contains("ops.init_task() failed (-12"), "{text}");
    assert!(text.contains("; broken supports 3 tasks"), "{text}");
}

/// Where the broken scheduler has this line first.
fn line_of(code: &str) -> String {
    let source = std::fs::read_to_string(repository().join(BROKEN)).expect("it is there");
    let line = source.lines().position(|line| line.trim() == code);
    format!("broken.bpf.c:{}", line.expect(code) + 1)
}

/// Every way out of a scheduler's own memory ends its run alone, and names what it was and the line.
#[test]
fn accesses_outside_of_own_memory() {
    for (mode, what, code) in [
        (
            "ARRAY_WRITE",
            "outside of counters, at offset 800",
            "counters[far]++;",
        ),
        (
            "ARRAY_READ",
            "reads outside of counters, at offset 800",
            "sum = counters[far];",
        ),
        (
            "VALUE_WRITE",
            "writes outside of a value of map bells",
            "words[far] = 1;",
        ),
        ("STACK_WRITE", "writes memory, which is", "to[i] = i;"),
        ("HEAP_WRITE", "writes memory, which is", "to[i] = i;"),
        (
            "TASK_WRITE",
            "of the task_struct of sh-app[",
            "p->flags = 0;",
        ),
        ("NULL_WRITE", "writes through a NULL pointer", "*none = 1;"),
        ("NULL_PREV", "through a NULL pointer", "sum = prev->pid;"),
        (
            "NULL_TASK",
            "through a NULL pointer",
            "sum = bpf_task_from_pid(0x7fffffff)->pid;",
        ),
    ] {
        match break_by(&format!("BREAK={mode}")) {
            Err(RunError::Crash {
                what: words, place, ..
            }) => {
                assert!(words.contains(what), "{mode}: no '{what}' in: {words}");
                assert_eq!(place, Some(line_of(code)), "{mode}: {words}");
            }
            other => panic!("{mode}: {other:?}"),
        }
    }
}

/// The kernel's verifier lets nobody do that.
#[test]
fn spin_locks_that_are_misused() {
    for (mode, words, code) in [
        (
            "TWO_LOCKS",
            "takes a spin lock while it holds one",
            "bpf_spin_lock(&g->lock); /* again */",
        ),
        (
            "KEPT_LOCK",
            "returns while it holds a spin lock",
            "bpf_spin_lock(&g->lock);",
        ),
        (
            "LOOSE_LOCK",
            "releases a spin lock that it does not hold",
            "bpf_spin_unlock(&g->lock);",
        ),
    ] {
        let at = line_of(code);
        let wanted = format!("ops.running() {words} at {at}; kernels do not load that");
        match break_by(&format!("BREAK={mode}")) {
            Err(RunError::Scheduler(text)) => assert_eq!(text, wanted),
            other => panic!("{mode}: {other:?}"),
        }
    }
}

/// Kernel functions trust no pointer.
#[test]
fn arguments_that_are_no_kernel_objects() {
    for (mode, words) in [
        ("NO_TASK", "which is no task"),
        ("NOT_OWN_MASK", "bpf_cpumask_set_cpu"),
    ] {
        match break_by(&format!("BREAK={mode}")) {
            Err(RunError::Scheduler(text)) => assert!(text.contains(words), "{mode}: {text}"),
            other => panic!("{mode}: {other:?}"),
        }
    }
}

/// Checks are no work of the scheduler's: the run is the same to the last event. Of a third of the schedulers.
#[test]
fn checks_take_no_simulated_time() {
    let machine = costed("core:2 pu:1", 1000);
    let tasks = r#"{ "tasks": {
        "hog": { "instance": 3, "loop": 20, "run": 5000 },
        "sleeper": { "instance": 3, "loop": 50, "run": 300, "sleep": 700 } } }"#;
    for scheduler in crate::sample::drawn("guards", shipped(), 3) {
        let hash = |guard| {
            let options = BuilderOptions {
                guard,
                ..BuilderOptions::default()
            };
            let object = Builder::new(options).native(&source(&scheduler));
            let ran = Lab::new(&machine, &object.expect("it builds")).run(&parse(tasks));
            ran.expect("it runs").trace_hash
        };
        assert_eq!(hash(true), hash(false), "{scheduler}");
    }
}

/// Tasks that only wake each other compute nothing, and the CPU does nothing but scheduling.
#[test]
fn tasks_that_only_wait_for_each_other_make_progress() {
    let json = r#"{ "tiltyard": { "semaphores": { "a": { "initial": 1 } } }, "tasks": {
        "ping": { "loop": -1, "sem_wait": "a", "sem_post": "b" },
        "pong": { "loop": -1, "sem_wait": "b", "sem_post": "a" } } }"#;
    let machine = costed("pu:1", 1000);
    let mut lab = Lab::new(&machine, object("fifo", 1));
    lab.watchdog = true;
    lab.duration_ns = Some(400_000_000);
    lab.run(&parse(json)).expect("nothing fails");
}

#[test]
fn maps_of_maps_and_the_limit_of_a_batch() {
    let machine = ideal("pu:1", 1000);
    let path = repository().join("crates/sim/tests/schedulers/nested.bpf.c");
    let run = |define: &str| {
        let mut source = Source::new(path.clone());
        source.defines.push(define.to_owned());
        let object = Builder::default().native(&source).expect("it compiles");
        Lab::new(&machine, &object).run(&parse(ONE_TASK))
    };
    // A batch that is large, but allowed, takes no memory before it is used.
    for define in ["MAX_BATCH=0", "MAX_BATCH=0x7fffffff"] {
        run(define).expect("the inner maps need no variable");
    }
    let text = run("MAX_BATCH=0xffffffff")
        .expect_err("too large")
        .to_string();
    assert!(text.contains("dispatch_max_batch is 4294967295"), "{text}");
}
