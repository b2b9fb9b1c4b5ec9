// SPDX-License-Identifier: GPL-2.0-or-later
//! The realtime class above, and changes of class and nice value at run time.

use crate::arm::{Arm, Case, MS};

/// R sleeps when A starts, and runs from 9 to 14 ms.
const RT_PREEMPTS: &str = r#"
    "R": { "loop": 1, "policy": "SCHED_FIFO", "priority": 10, "sleep": 9000, "run": 5000, "sleep1": 100000 },
    "A": { "loop": 1, "run": 40000 }
"#;

/// The ext task goes back to the head of its local queue and comes on with the slice it had.
pub fn realtime_preempts_and_gives_back(arm: &impl Arm) {
    let log = arm.run(&Case::new("shared", RT_PREEMPTS));
    assert_eq!(log.calls_at(9 * MS), ["stopping A 1", "cpu_release 0 0"]);
    assert_eq!(log.calls_at(14 * MS), ["cpu_acquire 0 0", "running A"]);
    // 9 ms used of 18, so 9 are left: to 23, and the next tick.
    log.assert_about(log.values("running", "A")[1] as u64, 9 * MS);
    assert_eq!(log.times_of("dispatch 0 A")[0], 24 * MS);
    assert_eq!(log.turns(0), "A 0-9, R 9-14, A 14-45");
}

/// A used-up slice: ops.dispatch is asked although a realtime task takes the CPU, and the task is put back.
pub fn realtime_preempts_a_used_up_slice(arm: &impl Arm) {
    let log = arm.run(&Case::new("shared", RT_PREEMPTS).tunable("slice_ns", 8_500_000));
    assert_eq!(
        log.calls_at(9 * MS),
        [
            "dispatch 0 A",
            "stopping A 1",
            "enqueue A 0x0",
            "cpu_release 0 0"
        ]
    );
    assert_eq!(
        log.calls_at(14 * MS),
        ["cpu_acquire 0 0", "dispatch 0 -", "running A"]
    );
}

/// scx_bpf_reenqueue_local() in ops.cpu_release sends those who wait through ops.enqueue with REENQ. The preempted
/// task is still current, so the op itself disables its migration: it stays, with the core's slice, unless
/// SCX_OPS_ENQ_MIGRATION_DISABLED asks for it.
pub fn released_cpu_reenqueues(arm: &impl Arm) {
    let tasks = format!(r#"{RT_PREEMPTS}, "B": {{ "loop": 1, "run": 1000 }}"#);
    let case = Case::new("reenqueue", tasks);
    let asked = case
        .clone()
        .define("OPS_FLAGS=SCX_OPS_ENQ_MIGRATION_DISABLED");
    let logs = arm.run_all(&[case, asked]);
    let (a, b) = ("enqueue A 0x10000000000", "enqueue B 0x10000000000");
    let expected = [(&[b][..], 20), (&[a, b], 18)];
    for (log, (enqueued, slice_ms)) in logs.iter().zip(expected) {
        let calls = log.calls_at(9 * MS);
        assert_eq!(
            calls,
            [&["stopping A 1", "cpu_release 0 0"], enqueued].concat()
        );
        assert_eq!(log.calls_at(14 * MS), ["cpu_acquire 0 0", "running A"]);
        assert_eq!(log.values("running", "A")[1], slice_ms * MS as i64);
    }
}

/// FIFO: no slice among equals, the higher priority at once, and nothing below until they sleep.
pub fn fifo_runs_to_its_end(arm: &impl Arm) {
    let tasks = r#"
        "H": { "loop": 1, "policy": "SCHED_FIFO", "priority": 20, "sleep": 5000, "run": 2000 },
        "F": { "loop": 1, "policy": "SCHED_FIFO", "priority": 10, "sleep": 1000, "run": 300000 },
        "G": { "loop": 1, "policy": "SCHED_FIFO", "priority": 10, "sleep": 2000, "run": 300000 },
        "A": { "loop": 1, "run": 2000 }
    "#;
    let log = arm.run(&Case::new("shared", tasks));
    let turns = "A 0-1, F 1-5, H 5-7, F 7-303, G 303-603, A 603-60";
    assert!(log.turns(0).starts_with(turns), "{}", log.turns(0));
}

/// RR: equals take turns of 100 ms.
pub fn rr_takes_turns(arm: &impl Arm) {
    let tasks = r#"
        "F": { "loop": 1, "policy": "SCHED_RR", "priority": 10, "sleep": 1000, "run": 150000 },
        "G": { "loop": 1, "policy": "SCHED_RR", "priority": 10, "sleep": 1000, "run": 150000 }
    "#;
    let log = arm.run(&Case::new("shared", tasks));
    let turns = log.turns(0);
    assert_eq!(turns.matches("F ").count(), 2, "{turns}");
    assert_eq!(turns.matches("G ").count(), 2, "{turns}");
    log.assert_about(log.runtime_ns("F"), 150 * MS);
    log.assert_about(log.runtime_ns("G"), 150 * MS);
    // Turns end at ticks.
    assert!(turns.starts_with("F 1-100, G 100-200, F 200-25"), "{turns}");
}

/// Out of ext and back while it runs. Its weight is set once more before it leaves, and it comes back with HEAD,
/// as every task whose priority sched_setattr() lowers.
pub fn class_changes_at_run_time(arm: &impl Arm) {
    let tasks = r#"
        "A": { "loop": 1, "run": 3000,
               "tiltyard": { "set": { "policy": "SCHED_FIFO", "rt_priority": 5 } }, "run1": 2000,
               "tiltyard1": { "set": { "policy": "SCHED_OTHER" } }, "run2": 2000 }
    "#;
    let log = arm.run(&Case::new("shared", tasks));
    assert_eq!(
        log.calls_at(3 * MS),
        [
            "stopping A 0",
            "quiescent A 0xe",
            "set_weight A 100",
            "disable A"
        ]
    );
    assert_eq!(
        log.calls_at(5 * MS),
        [
            "enable A",
            "set_weight A 100",
            "set_cpumask A 0",
            "runnable A 0x1e",
            "running A"
        ]
    );
    assert_eq!(log.turns(0), "A 0-7");
}

/// A waits in the scheduler's custody while M changes its nice value.
const RENICED_WHILE_QUEUED: &str = r#"
    "A": { "loop": 1, "run": 1000, "sleep": 1000, "run1": 1000 },
    "M": { "loop": 1, "run": 4000,
           "tiltyard": { "set_other": { "task": "A", "nice": 5 } }, "run1": 2000 }
"#;

pub fn nice_change_of_a_queued_task(arm: &impl Arm) {
    let log = arm.run(&Case::new("hold", RENICED_WHILE_QUEUED).tunable("batch", 1));
    assert_eq!(
        log.calls_at(5 * MS),
        [
            "dequeue A 0xa",
            "quiescent A 0xa",
            "set_weight A 33",
            "runnable A 0xa",
            "enqueue A 0xa"
        ]
    );
}

/// No dequeue and no enqueue, and the slice stays.
pub fn nice_change_of_the_running_task(arm: &impl Arm) {
    let tasks = r#"
        "A": { "loop": 1, "run": 3000, "tiltyard": { "set": { "nice": -20 } }, "run1": 2000 }
    "#;
    let log = arm.run(&Case::new("shared", tasks));
    assert_eq!(
        log.calls_at(3 * MS),
        [
            "stopping A 0",
            "quiescent A 0xa",
            "set_weight A 8668",
            "runnable A 0xa",
            "running A"
        ]
    );
    log.assert_about(log.values("running", "A")[1] as u64, 15 * MS);
}

pub fn nice_change_of_a_sleeper(arm: &impl Arm) {
    let tasks = r#"
        "A": { "loop": 1, "sleep": 5000, "run": 1000 },
        "M": { "loop": 1, "run": 3000,
               "tiltyard": { "set_other": { "task": "A", "nice": 19 } }, "run1": 2000 }
    "#;
    let log = arm.run(&Case::new("shared", tasks));
    assert_eq!(log.calls_at(3 * MS), ["set_weight A 1"]);
}

/// A call that changes nothing does not reach the scheduler.
pub fn unchanged_attributes_are_no_change(arm: &impl Arm) {
    let tasks = r#"
        "A": { "loop": 1, "run": 3000,
               "tiltyard": { "set": { "nice": 0 }, "set1": { "cpus": "all" } },
               "run1": 2000 }
    "#;
    let log = arm.run(&Case::new("shared", tasks));
    assert_eq!(log.calls_at(3 * MS), Vec::<String>::new());
    assert_eq!(log.turns(0), "A 0-5");
}

/// Two nice values may share a weight; the scheduler is notified of each change nevertheless.
pub fn nice_change_within_a_weight(arm: &impl Arm) {
    let tasks = r#"
        "A": { "loop": 1, "priority": 17, "run": 3000, "tiltyard": { "set": { "nice": 18 } }, "run1": 2000 }
    "#;
    let log = arm.run(&Case::new("shared", tasks));
    assert_eq!(
        log.calls_at(3 * MS),
        [
            "stopping A 0",
            "quiescent A 0xa",
            "set_weight A 2",
            "runnable A 0xa",
            "running A"
        ]
    );
}

/// Cgroups from the root down before any task; a move is a change with the new group in the middle.
pub fn cgroup_order(arm: &impl Arm) {
    let tasks = r#"
        "A": { "loop": 1, "run": 3000, "tiltyard": { "set": { "taskgroup": "/g" } }, "run1": 2000 }
    "#;
    let log = arm.run(&Case::new("shared", tasks).define("WITH_CGROUPS"));
    let calls: Vec<String> = log.calls().into_iter().map(|(_, call)| call).collect();
    assert_eq!(calls[..2], ["init 0 0", "cgroup_init 0 100"]);
    // Where the workload's root is a group itself, /g is one level further down.
    let groups: Vec<&String> = calls
        .iter()
        .filter(|c| c.starts_with("cgroup_init"))
        .collect();
    let deepest = groups.len() - 1;
    let levels: Vec<String> = (0..=deepest)
        .map(|i| format!("cgroup_init {i} 100"))
        .collect();
    assert!(deepest > 0 && groups.into_iter().eq(&levels), "{calls:?}");
    let at = |call: &str| calls.iter().position(|c| c == call);
    assert!(at(&levels[deepest]) < at("init_task A 1"), "{calls:?}");

    let moved = format!("cgroup_prep_move A {deepest}");
    let at = at(&moved).unwrap_or_else(|| panic!("no '{moved}' in {calls:?}"));
    assert_eq!(
        calls[at + 1..][..5],
        [
            "stopping A 0",
            "quiescent A 0xe",
            &format!("cgroup_move A {deepest}"),
            "runnable A 0xe",
            "running A"
        ]
    );
}

/// An idle CPU asks the scheduler even when a realtime task woke it.
pub fn idle_cpu_asks_before_realtime(arm: &impl Arm) {
    let tasks = r#"
        "R": { "loop": 1, "policy": "SCHED_FIFO", "priority": 10, "sleep": 2000, "run": 1000 }
    "#;
    let log = arm.run(&Case::new("shared", tasks));
    assert_eq!(log.calls_at(2 * MS), ["dispatch 0 -"]);
    assert_eq!(log.turns(0), "R 2-3");
}

/// The CPU is released once, however many realtime tasks follow each other.
pub fn released_once_until_acquired(arm: &impl Arm) {
    let tasks = r#"
        "R": { "loop": 1, "policy": "SCHED_FIFO", "priority": 10, "sleep": 9000, "run": 5000 },
        "S": { "loop": 1, "policy": "SCHED_FIFO", "priority": 5, "sleep": 10000, "run": 1000 },
        "A": { "loop": 1, "run": 40000 }
    "#;
    let log = arm.run(&Case::new("shared", tasks));
    for (call, at) in [("cpu_release 0 0", 9 * MS), ("cpu_acquire 0 0", 15 * MS)] {
        let mut times = log.times_of(call);
        // In a kernel there are other realtime tasks.
        times.retain(|at| *at < 20 * MS);
        assert_eq!(times, [at], "{call}");
    }
    assert_eq!(log.turns(0), "A 0-9, R 9-14, S 14-15, A 15-46");
}
