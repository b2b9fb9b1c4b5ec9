// SPDX-License-Identifier: GPL-2.0-or-later
//! Sleeping, waking, being born, and which CPU looks for work.

use crate::arm::{Arm, Case, EndKind, Log, MS, What};

/// ops.stopping and ops.quiescent come before the CPU looks for something else; ops.dispatch still gets the sleeper.
pub fn sleep_order(arm: &impl Arm) {
    let tasks = r#"
        "B": { "loop": 1, "sleep": 1000, "run": 6000 },
        "A": { "loop": 1, "run": 7000, "sleep": 50000, "run1": 100 }
    "#;
    let log = arm.run(
        &Case::new("shared", tasks)
            .define("WITH_UPDATE_IDLE")
            .define("OPS_FLAGS=SCX_OPS_KEEP_BUILTIN_IDLE"),
    );
    assert_eq!(
        log.calls_at(7 * MS),
        [
            "stopping A 0",
            "quiescent A 0x9",
            "dispatch 0 A",
            "running B"
        ]
    );
    // Nothing left: the CPU falls idle. An exiting task goes through a change of its group that changes nothing.
    assert_eq!(
        log.calls_at(13 * MS)[..8],
        [
            "stopping B 0",
            "quiescent B 0xe",
            "runnable B 0xe",
            "running B",
            "stopping B 0",
            "quiescent B 0x19",
            "dispatch 0 B",
            "update_idle 0 1",
        ]
    );
    // When the last reference to the task goes.
    let calls = log.calls_in(13 * MS..50 * MS);
    let last = calls.iter().rev().filter(|call| call.ends_with(" B"));
    let last: Vec<&String> = last.take(2).collect();
    assert_eq!(last, ["exit_task B", "disable B"]);
}

/// C last ran on CPU 1, which is idle; A on CPU 0 wakes it.
const WAKE_ACROSS: &str = r#"
    "X": { "loop": 1, "phases": {
        "there": { "loop": 1, "cpus": [1], "run": 1000 },
        "wait": { "loop": 1, "cpus": [0, 1], "sem_wait": "s", "run": 1000 } } },
    "A": { "loop": 1, "cpus": [0], "run": 10000, "sem_post": "s", "run1": 5000 }
"#;
const TWO_CPUS: &str = "core:2 pu:1";

pub fn wake_to_idle_cpu(arm: &impl Arm) {
    let case = Case::new("shared", WAKE_ACROSS)
        .on(TWO_CPUS)
        .define("WITH_UPDATE_IDLE")
        .define("OPS_FLAGS=SCX_OPS_KEEP_BUILTIN_IDLE");
    let log = arm.run(&case);
    let woken_ns = log.time_of("runnable X 0x409");
    // No enqueue, because it was inserted; no dispatch, because the local queue has it.
    assert_eq!(
        log.calls_at(woken_ns),
        [
            "select_cpu X 0x8",
            "runnable X 0x409",
            "update_idle 1 0",
            "running X"
        ]
    );
}

/// The CPU that ops.select_cpu names wakes up even when the task was not put in its local queue.
pub fn selected_idle_cpu_looks_for_work(arm: &impl Arm) {
    let log = arm.run(
        &Case::new("select_fixed", WAKE_ACROSS)
            .on(TWO_CPUS)
            .tunable("answer", 1),
    );
    let woken_ns = log.time_of("runnable X 0x409");
    assert_eq!(
        log.calls_at(woken_ns),
        [
            "select_cpu X 0x8",
            "runnable X 0x409",
            "enqueue X 0x409",
            "dispatch 1 -",
            "running X"
        ]
    );
}

/// An idle CPU that was neither selected nor kicked sleeps on: X waits for CPU 0 with CPU 1 idle.
pub fn other_idle_cpus_sleep_on(arm: &impl Arm) {
    let log = arm.run(
        &Case::new("select_fixed", WAKE_ACROSS)
            .on(TWO_CPUS)
            .tunable("answer", 0),
    );
    // Chosen CPU 0 is not X's last one.
    let woken_ns = log.time_of("runnable X 0x449");
    assert_eq!(
        log.calls_at(woken_ns),
        ["select_cpu X 0x8", "runnable X 0x449", "enqueue X 0x449"]
    );
    let later = log.calls_in(woken_ns + 1..woken_ns + 5 * MS);
    assert!(
        !later.iter().any(|call| call.starts_with("dispatch 1")),
        "{later:?}"
    );
    let last_run = log
        .runs()
        .into_iter()
        .rfind(|r| r.task == "X")
        .expect("X ran");
    assert_eq!((last_run.cpu, last_run.from_ns), (0, woken_ns + 5 * MS));
}

/// A pinned task is never asked about: no ops.select_cpu, no CPU_SELECTED.
pub fn pinned_task_skips_select_cpu(arm: &impl Arm) {
    let tasks = r#""A": { "loop": 1, "cpus": [1], "run": 1000, "sleep": 1000, "run1": 1000 }"#;
    let log = arm.run(&Case::new("shared", tasks).on(TWO_CPUS));
    let woken_ns = log.time_of("runnable A 0x9");
    assert_eq!(
        log.calls_at(woken_ns),
        [
            "runnable A 0x9",
            "enqueue A 0x9",
            "dispatch 1 -",
            "running A"
        ]
    );
}

/// A newborn: init_task, enable, set_weight, select_cpu with FORK, and flags that say neither wakeup nor selected.
pub fn fork_order(arm: &impl Arm) {
    let tasks = r#"
        "A": { "loop": 1, "run": 2000, "fork": "X", "run1": 1000 },
        "X": { "instance": 0, "loop": 1, "run": 1000 }
    "#;
    let case = Case::new("select_fixed", tasks)
        .on("core:3 pu:1")
        .tunable("answer", 2);
    let log = arm.run(&case);
    // The last two happen on another CPU, a little later where CPUs are real.
    let born_ns = log.time_of("init_task X-0 1");
    let mut calls = log.calls_in(born_ns..born_ns + 2 * MS);
    calls.retain(|call| call.contains("X-0") || call.starts_with("dispatch 2"));
    calls.truncate(8);
    assert_eq!(
        calls,
        [
            "init_task X-0 1",
            "enable X-0",
            "set_weight X-0 100",
            "select_cpu X-0 0x4",
            "runnable X-0 0x88",
            "enqueue X-0 0x88",
            "dispatch 2 -",
            "running X-0"
        ]
    );
}

/// ops.init, then every task: first all init_task with fork = 0, then enable, weight and mask of each.
pub fn load_order(arm: &impl Arm) {
    let log = arm.run(&Case::new("shared", r#""A": { "loop": 1, "run": 1000 }"#));
    // The only task that is there before the scheduler is the shell.
    let calls: Vec<(&str, i64)> = log
        .entries
        .iter()
        .filter_map(|e| match &e.what {
            What::Call { name, value, .. } => Some((name.as_str(), *value)),
            _ => None,
        })
        .take(5)
        .collect();
    assert_eq!(
        calls,
        [
            ("init", 0),
            ("init_task", 0),
            ("enable", 100),
            ("set_weight", 100),
            ("set_cpumask", 0)
        ]
    );
}

/// Without KEEP_BUILTIN_IDLE an ops.update_idle turns the built-in tracking off, and asking it is an error.
pub fn keep_builtin_idle_counts(arm: &impl Arm) {
    let case = Case::new("shared", r#""A": { "loop": 1, "run": 1000 }"#)
        .on(TWO_CPUS)
        .define("WITH_UPDATE_IDLE");
    let keep = case.clone().define("OPS_FLAGS=SCX_OPS_KEEP_BUILTIN_IDLE");
    let logs = arm.run_all(&[case, keep]);
    let log = &logs[0];
    // A kernel may have a task that asks before the scheduler counts as loaded.
    let refused = log.end.kind == EndKind::Refused && !log.is_exact;
    assert!(log.end.kind == EndKind::Error || refused, "{log:?}");
    assert!(log.end.message.contains("idle"), "{}", log.end.message);
    let log = &logs[1];
    assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
}

/// Without ops.select_cpu the core finds the idle CPU and inserts: ops.enqueue is not called.
pub fn default_select_cpu_inserts(arm: &impl Arm) {
    let case = Case::new("shared", WAKE_ACROSS)
        .on(TWO_CPUS)
        .define("WITHOUT_SELECT_CPU");
    let log = arm.run(&case);
    let woken_ns = log.time_of("runnable X 0x409");
    assert_eq!(log.calls_at(woken_ns), ["runnable X 0x409", "running X"]);
}

/// Without ops.enqueue tasks go to the global queue, which comes before ops.dispatch.
pub fn default_enqueue_is_global(arm: &impl Arm) {
    let tasks = r#"
        "A": { "loop": 1, "delay": 1000, "run": 30000 },
        "B": { "loop": 1, "sleep": 2000, "run": 10000 }
    "#;
    let log = arm.run(&Case::new("shared", tasks).define("WITHOUT_ENQUEUE"));
    // The core's slice is 20 ms.
    let turns = log.turns(0);
    assert!(turns.starts_with("A 1-24, B 24-34, A 34-4"), "{turns}");
    assert_eq!(
        log.calls_at(24 * MS),
        ["tick A", "stopping A 1", "running B"]
    );
}

/// The idle search is allowed in ops.enqueue as well, and LOCAL_ON wakes the CPU it found.
pub fn select_cpu_dfl_in_enqueue(arm: &impl Arm) {
    let log = arm.run(&Case::new("enq_select_cpu", WAKE_ACROSS).on(TWO_CPUS));
    assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
    let woken_ns = log.time_of("runnable X 0x409");
    assert!(log.times_of("running X").contains(&woken_ns));
}

/// The built-in mask changes first, then the scheduler is notified.
pub fn idle_mask_changes_before_the_op(arm: &impl Arm) {
    let case = Case::new(
        "shared",
        r#""A": { "loop": 2, "run": 1500, "sleep": 1000 }"#,
    )
    .define("WITH_UPDATE_IDLE")
    .define("WATCH_IDLE_MASK")
    .define("OPS_FLAGS=SCX_OPS_KEEP_BUILTIN_IDLE");
    let log = arm.run(&case);
    let (told, seen) = (
        log.values("update_idle", "0"),
        log.values("in_idle_mask", "0"),
    );
    assert!(told.contains(&0) && told.contains(&1), "{told:?}");
    assert_eq!(told, seen);
}

/// A writer that wakes its reader says so: WAKE_SYNC.
pub fn pipes_wake_synchronously(arm: &impl Arm) {
    let tasks = r#"
        "X": { "loop": 1, "tiltyard": { "read": { "pipe": "p", "bytes": 10 } }, "run": 1000 },
        "A": { "loop": 1, "run": 2500, "tiltyard": { "write": { "pipe": "p", "bytes": 10 } }, "run1": 1000 }
    "#;
    let log = arm.run(&Case::new("select_fixed", tasks).on(TWO_CPUS));
    assert_eq!(log.times_of("select_cpu X 0x18").len(), 1);
}

/// On an SMT machine a wholly idle core comes before the idle sibling of a busy CPU.
pub fn idle_cores_come_first(arm: &impl Arm) {
    let tasks = r#""A": { "instance": 3, "loop": 1, "run": 10000 }"#;
    let log = arm.run(&Case::new("shared", tasks).on("core:4 pu:2"));
    // The shell has the fourth core while it starts them. Siblings are (0, 1), (2, 3), ...
    let cores: Vec<u32> = log.runs().into_iter().map(|r| r.cpu / 2).collect();
    assert_eq!(cores.len(), 3);
    assert!(
        (0..4).filter(|core| cores.contains(core)).count() == 3,
        "{cores:?}"
    );
}

/// With its own CPU busy, a task goes to an idle one behind the same cache.
pub fn idle_search_stays_in_the_cache(arm: &impl Arm) {
    let tasks = r#"
        "X": { "loop": 1, "phases": {
            "there": { "loop": 1, "cpus": [2], "run": 1000 },
            "wait": { "loop": 1, "sem_wait": "s", "run": 1000 } } },
        "H": { "loop": 1, "cpus": [2], "sleep": 2000, "run": 50000 },
        "A": { "loop": 1, "cpus": [0], "run": 10000, "sem_post": "s", "run1": 5000 }
    "#;
    let log = arm.run(&Case::new("shared", tasks).on("package:1 [numa] l3:2 core:2 pu:1"));
    let run = log
        .runs()
        .into_iter()
        .rfind(|r| r.task == "X")
        .expect("X ran");
    assert_eq!(run.cpu, 3);
}

/// Claiming a CPU does not wake it: its bit stays clear, and later searches miss it, until a kick makes it look for work.
pub fn claimed_cpu_is_lost_until_kicked(arm: &impl Arm) {
    const EBUSY: i64 = -16;
    // When H ends, CPU 1 falls idle whatever was claimed before. A wakes X and Y at 9 ms, Z at 10.
    let waits = |task: &str| {
        format!(
            r#""{task}": {{ "loop": 1, "phases": {{
                "there": {{ "loop": 1, "cpus": [0], "run": 100 }},
                "wait": {{ "loop": 1, "cpus": [0, 1], "sem_wait": "{task}", "run": 100 }} }} }},"#
        )
    };
    let tasks = ["X", "Y", "Z"].map(waits).concat()
        + r#"
        "H": { "loop": 1, "cpus": [1], "run": 5000 },
        "A": { "loop": 1, "cpus": [0], "sleep": 2000, "run": 7000,
               "sem_post": "X", "sem_post1": "Y", "run1": 1000, "sem_post2": "Z", "run2": 5000 }
    "#;
    let case = Case::new("claim", tasks).on(TWO_CPUS);
    let logs = arm.run_all(&[case.clone(), case.define("KICK")]);
    let picked = |log: &Log| ["X", "Y", "Z"].map(|task| log.values("picked", task)[1]);
    let looked = |log: &Log| {
        let calls = log.calls_in(9 * MS..11 * MS);
        calls.iter().any(|call| call.starts_with("dispatch 1"))
    };
    assert_eq!(picked(&logs[0]), [1, EBUSY, EBUSY]);
    assert!(!looked(&logs[0]));
    assert_eq!(picked(&logs[1])[2], 1);
    assert!(looked(&logs[1]));
}

/// A task that loses the CPU while it exits goes to the local queue behind the scheduler's back, unless
/// SCX_OPS_ENQ_EXITING asks for it.
pub fn exiting_tasks_pass_the_scheduler_by(arm: &impl Arm) {
    let case = Case::new("exiting", r#""X": { "loop": 1, "run": 1000 }"#);
    let of_x = |log: &Log| {
        let calls = log.calls_at(MS);
        calls
            .into_iter()
            .filter(|call| call.contains(" X"))
            .collect::<Vec<_>>()
    };
    let log = arm.run(&case);
    let preempted = ["dispatch 0 X", "stopping X 1"];
    let gone = ["running X", "stopping X 0", "quiescent X 0x19"];
    let ungrouped = [
        "stopping X 0",
        "quiescent X 0xe",
        "runnable X 0xe",
        "running X",
    ];
    assert_eq!(
        of_x(&log)[..9],
        [&ungrouped[..], &preempted, &gone].concat()
    );
    let log = arm.run(&case.define("OPS_FLAGS=SCX_OPS_ENQ_EXITING"));
    assert_eq!(
        of_x(&log)[..10],
        [&ungrouped[..], &preempted, &["enqueue X 0x0"], &gone].concat()
    );
}
