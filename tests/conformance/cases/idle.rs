// SPDX-License-Identifier: GPL-2.0-or-later
//! Searches for idle CPUs within a mask or a node.

use crate::arm::{Arm, Case, EndKind, Log};

const ENOENT: i64 = -2;
const EBUSY: i64 = -16;
const EINVAL: i64 = -22;
const EOPNOTSUPP: i64 = -95;
const PICK_IDLE_CORE: i128 = 1;
const PER_NODE: &str = "OPS_FLAGS=SCX_OPS_BUILTIN_IDLE_PER_NODE";
const FOUR_CPUS: &str = "core:4 pu:1";

/// The CPUs returned to X, all of which were claimed.
fn answers(log: &Log) -> Vec<i64> {
    assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
    assert!(log.values("unclaimed", "X").iter().all(|idle| *idle == 0));
    log.values("answer", "X")
}

/// scx_bpf_select_cpu_and() claims a CPU of the mask and stays with the last one while that is idle.
pub fn select_cpu_and_stays_in_the_mask(arm: &impl Arm) {
    let tasks = r#""X": { "loop": 3, "sleep": 1000, "run": 1000 }"#;
    let case = Case::new("select_and", tasks)
        .on(FOUR_CPUS)
        .tunable("mask_bits", 0b1100);
    let log = arm.run(&case);
    let told = answers(&log);
    assert_eq!(told.len(), 4, "once for its birth, once for each sleep");
    assert!((2..4).contains(&told[0]), "{told:?}");
    assert!(told.iter().all(|cpu| *cpu == told[0]), "{told:?}");
    assert_eq!(log.cpus_of("X"), [told[0] as u32]);
}

/// Nothing idle in the mask, or nothing in it that the task may use: -EBUSY, though others are idle.
pub fn select_cpu_and_finds_nothing_outside(arm: &impl Arm) {
    let busy = r#"
        "H": { "loop": 1, "cpus": [2], "run": 50000 },
        "I": { "loop": 1, "cpus": [3], "run": 50000 },
        "X": { "loop": 1, "sleep": 5000, "run": 1000 }
    "#;
    let case = Case::new("select_and", busy)
        .on(FOUR_CPUS)
        .tunable("mask_bits", 0b1100);

    let elsewhere = r#""X": { "loop": 1, "cpus": [0, 1], "sleep": 5000, "run": 1000 }"#;
    let elsewhere = Case {
        tasks: elsewhere.into(),
        ..case.clone()
    };
    for log in arm.run_all(&[case, elsewhere]) {
        assert_eq!(answers(&log).last(), Some(&EBUSY));
    }
}

/// A task with one CPU to run on: the CPU that is said to be its last is tested, against the mask, and no other.
pub fn select_cpu_and_tests_one_cpu_for_a_pinned_task(arm: &impl Arm) {
    let tasks = r#""X": { "loop": 1, "cpus": [1], "sleep": 5000, "run": 1000 }"#;
    let case = Case::new("select_and", tasks).on(FOUR_CPUS);
    let woken = |log: &Log| *answers(log).last().expect("X asked");
    let all = case.clone().tunable("mask_bits", 0b1111);
    let told = all.clone().tunable("told_prev", 2);
    let elsewhere = case.clone().tunable("mask_bits", 0b1100);

    let busy = format!(r#"{tasks}, "H": {{ "loop": 1, "cpus": [1], "run": 50000 }}"#);
    let busy = Case {
        tasks: busy,
        ..all.clone()
    };
    let logs = arm.run_all(&[all, told, elsewhere, busy]);
    let woken: Vec<i64> = logs.iter().map(woken).collect();
    assert_eq!(woken, [1, 2, EBUSY, EBUSY]);
}

/// SCX_PICK_IDLE_CORE: the idle sibling of a busy CPU will not do.
pub fn select_cpu_and_may_want_a_whole_core(arm: &impl Arm) {
    let tasks = r#"
        "H": { "loop": 1, "cpus": [2], "run": 50000 },
        "X": { "loop": 1, "sleep": 5000, "run": 1000 }
    "#;
    let case = Case::new("select_and", tasks)
        .on("core:2 pu:2")
        .tunable("mask_bits", 0b1100);
    let whole = case.clone().tunable("pick_flags", PICK_IDLE_CORE);
    let logs = arm.run_all(&[case, whole]);
    assert_eq!(answers(&logs[0]).last(), Some(&3));
    assert_eq!(answers(&logs[1]).last(), Some(&EBUSY));
}

/// It needs a CPU that exists, and the built-in idle tracking.
pub fn select_cpu_and_wants_sense(arm: &impl Arm) {
    let tasks = r#""X": { "loop": 1, "run": 1000 }"#;
    let case = Case::new("select_and", tasks).tunable("mask_bits", 1);
    let bad_prev = case.clone().tunable("told_prev", 9999);
    let untracked = case.define("WITH_UPDATE_IDLE");
    let logs = arm.run_all(&[bad_prev.on("core:2 pu:1"), untracked.on("core:2 pu:1")]);
    let expected = [
        (EINVAL, "invalid CPU 9999"),
        (EBUSY, "built-in idle tracking is disabled"),
    ];
    for (log, (answer, message)) in logs.iter().zip(expected) {
        assert_eq!(log.end.kind, EndKind::Error, "{message}");
        assert!(log.end.message.contains(message), "{}", log.end.message);
        assert_eq!(log.values("answer", "X"), [answer], "{message}");
    }
}

/// Two nodes of two CPUs.
const TWO_NODES: &str = "package:2 [numa] core:2 pu:1";

/// Each node has its own masks, with its own CPUs and no others, and a search restricted to its node stays there, for
/// busy CPUs too.
pub fn idle_masks_are_per_node(arm: &impl Arm) {
    let tasks = r#"
        "A": { "instance": 4, "loop": 1, "phases": {
            "there": { "loop": 1, "cpus": [0, 1], "run": 100 },
            "all": { "loop": 20, "cpus": [0, 1, 2, 3], "run": 700, "sleep": 500 } } },
        "B": { "instance": 3, "loop": 1, "phases": {
            "there": { "loop": 1, "cpus": [2, 3], "run": 100 },
            "all": { "loop": 20, "cpus": [0, 1, 2, 3], "run": 700, "sleep": 500 } } }
    "#;
    let case = Case::new("nodes", tasks).define(PER_NODE);
    let cases = [TWO_NODES, "package:2 [numa] core:1 pu:2"].map(|on| case.clone().on(on));
    for log in arm.run_all(&cases) {
        assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
        let mut idle = Vec::new();
        for i in 0..7 {
            let (task, node) = match i {
                0..4 => (format!("A-{i}"), 0),
                _ => (format!("B-{}", i - 4), 1),
            };
            let zero = |figure| log.values(figure, &task).iter().all(|value| *value == 0);
            assert!(zero("foreign") && zero("unclaimed"), "{task}");
            let cpus = [2 * node, 2 * node + 1];
            let mut picked = log.values("any_cpu", &task);
            // A birth is on the shell's node, which in the simulated machine is the first.
            let at_birth = picked.remove(0);
            assert!(at_birth < 2 || !log.is_exact);
            assert!(
                picked.iter().all(|cpu| cpus.contains(cpu)),
                "{task}: {picked:?}"
            );
            idle.extend(log.values("idle_cpu", &task));
        }
        assert!(idle.contains(&EBUSY), "no node was ever full");
        let any_of = |cpus: [i64; 2]| cpus.iter().any(|cpu| idle.contains(cpu));
        assert!(any_of([0, 1]) && any_of([2, 3]), "none was ever idle");
    }
}

/// The built-in search looks in the last CPU's node first and then in the others, nearest first.
pub fn default_search_goes_from_node_to_node(arm: &impl Arm) {
    // X sleeps behind the hog of CPU 2, which has a node for itself, as each CPU has.
    let tasks = |hogs: &[u32]| {
        let hogs: String = hogs
            .iter()
            .map(|cpu| format!(r#""H{cpu}": {{ "loop": 1, "cpus": [{cpu}], "run": 50000 }}, "#))
            .collect();
        hogs + r#""X": { "loop": 1, "phases": {
            "there": { "loop": 1, "cpus": [2], "run": 100, "sleep": 5000 },
            "all": { "loop": 1, "cpus": [0, 1, 2, 3], "run": 100, "sleep": 5000, "run1": 1000 } } }"#
    };
    let searches = [(&[][..], 2), (&[2], 3), (&[2, 3], 0), (&[0, 2, 3], 1)];
    let cases = searches.map(|(hogs, _)| {
        Case::new("nodes", tasks(hogs))
            .on("package:2 group:2 [numa] core:1 pu:1")
            .define("DEFAULT_SEARCH")
            .define(PER_NODE)
    });
    for (log, (hogs, cpu)) in arm.run_all(&cases).iter().zip(searches) {
        assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
        let run = log.runs().into_iter().rfind(|r| r.task == "X");
        assert_eq!(run.expect("X ran").cpu, cpu, "{hogs:?}");
    }
}

/// Who asks for one node's CPUs must have asked for nodes, and who has, for a node that exists.
pub fn node_functions_and_their_mistakes(arm: &impl Arm) {
    let disabled = Some("per-node idle tracking is disabled");
    let picks = Some("per-node idle tracking is enabled");
    let masks = Some("SCX_OPS_BUILTIN_IDLE_PER_NODE enabled");
    let bad_node = Some("invalid node 2");
    // X asks when it wakes up, with all four CPUs idle.
    let without = [
        ("ASK=IDLE_CPU_NODE(0)", EOPNOTSUPP, disabled),
        ("ASK=ANY_CPU_NODE(0)", EOPNOTSUPP, disabled),
        ("ASK=MASK_NODE(0)", 0, disabled),
        ("ASK=CORES_NODE(0)", 0, disabled),
        ("ASK=MASK", 4, None),
        ("ASK=CORES", 4, None),
        ("ASK=NODE_OF(3)", 1, None),
        ("ASK=NODE_OF(4)", -1, Some("invalid CPU 4")),
    ];
    let with = [
        ("ASK=IDLE_CPU", EBUSY, picks),
        ("ASK=ANY_CPU", EBUSY, picks),
        ("ASK=MASK", 0, masks),
        ("ASK=CORES", 0, masks),
        ("ASK=IDLE_CPU_NODE(2)", EINVAL, bad_node),
        ("ASK=ANY_CPU_NODE(2)", EINVAL, bad_node),
        ("ASK=MASK_NODE(2)", 0, bad_node),
        ("ASK=CORES_NODE(2)", 0, bad_node),
        ("ASK=IDLE_CPU_NODE(-1)", ENOENT, None),
        ("ASK=ANY_CPU_NODE(-1)", ENOENT, None),
        ("ASK=MASK_NODE(-1)", 0, None),
        ("ASK=CORES_NODE(-1)", 0, None),
        ("ASK=MASK_NODE(1)", 2, None),
        ("ASK=CORES_NODE(1)", 2, None),
        ("ASK=NODE_OF(IDLE_CPU_NODE(1))", 1, None),
        ("ASK=NODE_OF(3)", 1, None),
        ("ASK=CLAIM(3)", 1, None),
    ];
    let asleep = r#""X": { "loop": 1, "sleep": 6000, "run": 1000 }"#;
    let case = Case::new("node_calls", asleep).on(TWO_NODES);
    let per_node = case.clone().define(PER_NODE);
    let calls = without.iter().chain(&with);
    let cases = without.iter().map(|(call, ..)| case.clone().define(call));
    let more = with.iter().map(|(call, ..)| per_node.clone().define(call));
    let cases: Vec<Case> = cases.chain(more).collect();
    for (log, (call, answer, message)) in arm.run_all(&cases).iter().zip(calls) {
        let (kind, message) = match message {
            Some(message) => (EndKind::Error, *message),
            None => (EndKind::Unregistered, ""),
        };
        assert_eq!(log.end.kind, kind, "{call}: {}", log.end.message);
        assert!(
            log.end.message.contains(message),
            "{call}: {}",
            log.end.message
        );
        assert_eq!(log.values("answer", "X"), [*answer], "{call}");
    }
}

/// Masks per node are the built-in ones, so they want these.
pub fn idle_masks_per_node_want_built_in_ones(arm: &impl Arm) {
    let case = Case::new("nodes", r#""X": { "loop": 1, "run": 1000 }"#).define("WITH_UPDATE_IDLE");
    let log = arm.run(&case.define(PER_NODE));
    assert_eq!(log.end.kind, EndKind::Refused);
    assert!(
        log.end.message.contains("SCX_OPS_BUILTIN_IDLE_PER_NODE"),
        "{}",
        log.end.message
    );
}

/// CPU 0 wakes X synchronously, which slept behind the hog of CPU `slept_on`.
fn synchronous_wakeup(slept_on: u32) -> Case {
    let tasks = format!(
        r#"
        "X": {{ "loop": 1, "phases": {{
            "there": {{ "loop": 1, "cpus": [{slept_on}], "run": 100 }},
            "all": {{ "loop": 1, "cpus": [0, 1, 2, 3],
                     "tiltyard": {{ "read": {{ "pipe": "p", "bytes": 10 }} }}, "run": 1000 }} }} }},
        "H": {{ "loop": 1, "cpus": [{slept_on}], "sleep": 2000, "run": 50000 }},
        "A": {{ "loop": 1, "cpus": [0], "run": 10000,
               "tiltyard": {{ "write": {{ "pipe": "p", "bytes": 10 }} }}, "run1": 5000 }}
    "#
    );
    Case::new("nodes", &tasks)
        .on(TWO_NODES)
        .define("DEFAULT_SEARCH")
}

fn last_cpu_of_x(log: &Log) -> u32 {
    let last = log.runs().into_iter().rfind(|run| run.task == "X");
    last.expect("X ran").cpu
}

/// A synchronous wakeup comes to the waker's CPU where another one is idle, even on another node.
pub fn synchronous_wakeup_looks_for_idle_cpus_in_the_machine(arm: &impl Arm) {
    let log = arm.run(&synchronous_wakeup(1));
    assert_eq!(last_cpu_of_x(&log), 0);
}

/// With masks per node, only where one of the waker's node is idle: node 1 does not count.
pub fn synchronous_wakeup_looks_for_idle_cpus_in_the_wakers_node(arm: &impl Arm) {
    let cases = [1, 2].map(|slept_on| synchronous_wakeup(slept_on).define(PER_NODE));
    let logs = arm.run_all(&cases);
    let [far, near] = [0, 1].map(|i| last_cpu_of_x(&logs[i]));
    assert!(far >= 2, "{far}");
    assert_eq!(near, 0);
}
