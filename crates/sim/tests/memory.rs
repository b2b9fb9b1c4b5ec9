// SPDX-License-Identifier: GPL-2.0-or-later
//! Tasks that wait for memory slow each other down, by as much as the formulas of src/memory.rs say.

use crate::common::{Lab, check_books, ideal, object, parse};
use tiltyard_model::Machine;

const FIFO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../schedulers/fifo/fifo.bpf.c"
);
const TOPOLOGY: &str =
    "package:2 [numa] l3:1(size=8MiB) l2:4(size=512KiB) l1d:1(size=32KiB) core:1 pu:1";

/// Lines take 30, 100 and 200 ns. Refills of working sets are overhead, which is not looked at here.
fn machine(set: impl Fn(&mut Machine)) -> Machine {
    let mut machine = ideal(TOPOLOGY, 250);
    machine.costs.line_l3_ps = 30_000;
    machine.costs.line_mem_ps = 100_000;
    machine.costs.line_far_ps = 200_000;
    machine.costs.refill_overlap_permille = 999;
    set(&mut machine);
    machine
}

/// One that streams (no working set), 10 ms of work on `cpu`.
fn streamer(name: &str, cpu: u32, share: f64) -> String {
    format!(
        r#""{name}": {{ "cpus": [{cpu}], "loop": 1, "run": 10000, "tiltyard": {{ "process": true, "stall_share": {share} }} }}"#
    )
}

/// One with a working set of `mib`.
fn user(name: &str, cpu: u32, mib: u32, share: f64) -> String {
    let bytes = mib << 20;
    streamer(name, cpu, share).replace(
        "\"process\": true",
        &format!("\"process\": true, \"working_set\": {bytes}"),
    )
}

/// How long the CPUs were busy, in us.
fn busy_us(machine: &Machine, tasks: &[String]) -> Vec<u64> {
    let workload = parse(&format!("{{ \"tasks\": {{ {} }} }}", tasks.join(", ")));
    let lab = Lab::new(machine, object(FIFO, 2));
    let ran = lab.run(&workload).expect("a run");
    check_books(&ran);
    let cpus = ran.outcome.cpus.iter();
    cpus.map(|cpu| cpu.busy_ns / 1000).collect()
}

#[test]
fn sets_that_do_not_fit_together_miss() {
    let machine = machine(|_| ());
    // Alone each fits; 6 + 10 MiB are twice the cache: half of the accesses take 100 ns instead of 30.
    let alone = busy_us(&machine, &[user("a", 0, 6, 1.0)]);
    assert_eq!(alone[0], 10_000);
    let together = busy_us(&machine, &[user("a", 0, 6, 1.0), user("b", 1, 10, 0.0)]);
    // b, which waits for nothing, is there for 10 ms, in which a does 10 / (65 / 30) = 4.62 ms; the rest goes as alone.
    assert_eq!(together[1], 10_000);
    assert_within(together[0], 10_000 + 5_385);
    // Behind another cache it disturbs nobody.
    let apart = busy_us(&machine, &[user("a", 0, 6, 1.0), user("b", 4, 10, 0.0)]);
    assert_eq!(apart[0], 10_000);
    // Half as much waiting, half as much to lose.
    let half = busy_us(&machine, &[user("a", 0, 6, 0.5), user("b", 1, 10, 0.0)]);
    assert_within(half[0], 10_000 + 3_684);
}

#[test]
fn threads_of_one_process_share_a_set() {
    let machine = machine(|_| ());
    let thread = |name: &str, cpu| user(name, cpu, 6, 1.0).replace("\"process\": true, ", "");
    let busy = busy_us(&machine, &[thread("a", 0), thread("b", 1)]);
    assert_eq!(busy[..2], [10_000, 10_000]);
    let processes = [user("a", 0, 6, 1.0), user("b", 1, 6, 1.0)];
    assert!(busy_us(&machine, &processes)[0] > 15_000);
}

#[test]
fn memory_far_away_is_slower() {
    let machine = machine(|_| ());
    // It runs first on node 0, where its memory then is, for 5 ms, then on node 1.
    let moved = r#""a": { "loop": 1, "phases": {
        "here": { "cpus": [0], "run": 5000 },
        "there": { "cpus": [4], "run": 5000 } }, "tiltyard": { "stall_share": 1.0 } }"#;
    let busy = busy_us(&machine, &[moved.to_owned()]);
    assert_eq!((busy[0], busy[4]), (5_000, 10_000));
    // In caches it has nothing of it far away.
    let cached = moved.replace(
        "\"stall_share\"",
        "\"working_set\": 1048576, \"stall_share\"",
    );
    let busy = busy_us(&machine, &[cached]);
    assert_eq!((busy[0], busy[4]), (5_000, 5_000));
}

#[test]
fn memory_follows_a_task_that_stays_away() {
    let machine = machine(|_| ());
    let moved = |back| {
        format!(
            r#""a": {{ "loop": 1, "phases": {{
            "here": {{ "cpus": [0], "run": 5000 }},
            "there": {{ "cpus": [4], "run": 900000 }},
            "{back}": {{ "cpus": [{back}], "run": 100000 }},
            "again": {{ "cpus": [4], "run": 900000 }} }}, "tiltyard": {{ "stall_share": 1.0 }} }}"#
        )
    };
    // A second of work is done there in the first two seconds, the rest as alone.
    let busy = busy_us(&machine, &[moved("4")]);
    assert_within(busy[4], 2_000_000 + 900_000);
    // At home in between, the time starts again.
    let busy = busy_us(&machine, &[moved("0")]);
    assert_within(busy[4], 2 * 1_800_000);
}

#[test]
fn memory_is_where_a_task_first_worked() {
    let machine = machine(|_| ());
    assert_eq!(busy_us(&machine, &[streamer("a", 4, 1.0)])[4], 10_000);
}

#[test]
fn on_a_third_node_the_time_away_starts_again() {
    let machine = machine(|m| {
        let text = TOPOLOGY.replace("package:2", "package:3");
        let costs = std::mem::take(&mut m.costs);
        m.clone_from(&ideal(&text, 250));
        m.costs = costs;
    });
    // 1.2 s on each of the others: together longer than it takes memory to follow.
    let wanders = r#""a": { "loop": 1, "phases": {
        "here": { "cpus": [0], "run": 5000 },
        "there": { "cpus": [4], "run": 600000 },
        "beyond": { "cpus": [8], "run": 600000 } }, "tiltyard": { "stall_share": 1.0 } }"#;
    let busy = busy_us(&machine, &[wanders.to_owned()]);
    assert_within(busy[4], 1_200_000);
    assert_within(busy[8], 1_200_000);
}

/// With nothing overlapped a core that only waits draws 64 bytes in 100 ns: 640 MB/s.
#[test]
fn who_streams_shares_what_the_node_delivers() {
    let machine = machine(|m| {
        m.costs.refill_overlap_permille = 0;
        m.costs.node_mb_per_s = Some(960);
    });
    let streamers = |cpus: &[u32]| {
        let names = ["a", "b", "c", "d"];
        let tasks = cpus
            .iter()
            .zip(names)
            .map(|(cpu, n)| streamer(n, *cpu, 1.0));
        busy_us(&machine, &tasks.collect::<Vec<_>>())
    };
    assert_eq!(streamers(&[0])[0], 10_000);
    // 1280 are wanted of 960.
    assert_within(streamers(&[0, 1])[0], 13_333);
    assert_within(streamers(&[0, 1, 2])[0], 20_000);
    // Each node has its own.
    assert_eq!(streamers(&[0, 4])[0], 10_000);
    // Two that wait half of the time, 320 each, fit.
    let halves = [streamer("a", 0, 0.5), streamer("b", 1, 0.5)];
    assert_eq!(busy_us(&machine, &halves)[0], 10_000);
    // Of three that wait for four fifths, each may draw 320: 512 in 1.6 times the time.
    let most = ["a", "b", "c"].map(|n| streamer(n, n.as_bytes()[0] as u32 - 97, 0.8));
    assert_within(busy_us(&machine, &most)[0], 16_000);
}

/// One that runs far from its memory still draws on it, and no longer when it has gone.
#[test]
fn a_node_serves_those_who_are_far_away() {
    let machine = machine(|m| {
        m.costs.refill_overlap_permille = 0;
        m.costs.node_mb_per_s = Some(640);
    });
    let far = r#""far": { "loop": 1, "phases": {
        "here": { "cpus": [1], "run": 1 },
        "there": { "cpus": [4], "run": 2000 } }, "tiltyard": { "stall_share": 1.0 } }"#;
    let busy = busy_us(&machine, &[far.to_owned(), streamer("near", 0, 1.0)]);
    // It wants 320 beside 640: both take 1.5 times as long, until the 2 ms, twice as long from there, are done.
    assert_within(busy[4], 6_000);
    assert_within(busy[0], 12_000);
}

/// Cores of two threads, which halve each other's speed, on a node that delivers so much.
fn pairs(cores: u32, node_mb_per_s: u64) -> Machine {
    machine(|m| {
        let text = format!("package:1 [numa] l3:1(size=8MiB) core:{cores} pu:2");
        m.clone_from(&ideal(&text, 250));
        m.costs.smt_permille = 500;
        m.costs.line_mem_ps = 100_000;
        m.costs.refill_overlap_permille = 0;
        m.costs.node_mb_per_s = Some(node_mb_per_s);
    })
}

#[test]
fn a_slower_core_draws_less() {
    let machine = pairs(1, 640);
    let busy = busy_us(&machine, &[streamer("a", 0, 1.0), streamer("b", 1, 1.0)]);
    assert_eq!(busy, [20_000, 20_000]);
}

/// A task that only computes makes its sibling's core slower, and so leaves more memory to others.
#[test]
fn whose_core_becomes_slower_leaves_memory_to_others() {
    let machine = pairs(2, 960);
    let computes = r#""c": { "cpus": [1], "loop": 1, "sleep": 5000, "run": 30000 }"#;
    let tasks = [
        streamer("a", 0, 1.0),
        streamer("b", 2, 1.0),
        computes.to_owned(),
    ];
    // 1280 are wanted of 960, and after 5 ms 960: b does 3.75 ms of work until then.
    assert_within(busy_us(&machine, &tasks)[2], 11_250);
}

/// At a barrier it spins in its registers, and who still streams has all of the memory.
#[test]
fn who_spins_draws_nothing() {
    let machine = machine(|m| {
        m.costs.refill_overlap_permille = 0;
        m.costs.node_mb_per_s = Some(640);
    });
    let meeting = |name: &str, cpu: u32, us: u32| {
        let task = streamer(name, cpu, 1.0);
        task.replace("10000", &format!("{us}, \"barrier\": \"all\""))
    };
    let tasks = [meeting("a", 0, 2_000), meeting("b", 1, 10_000)].join(", ");
    let text = format!(
        r#"{{ "tiltyard": {{ "barriers": {{ "all": {{ "parties": 2, "spin": 100000 }} }} }}, "tasks": {{ {tasks} }} }}"#
    );
    let ran = Lab::new(&machine, object(FIFO, 2)).run(&parse(&text));
    let ran = ran.expect("a run");
    check_books(&ran);
    // Both 2 ms at half speed, then b alone.
    for cpu in &ran.outcome.cpus[..2] {
        assert_within(cpu.busy_ns / 1000, 12_000);
    }
}

/// That is how explain leaves memory out.
#[test]
fn where_refills_are_hidden_nobody_waits() {
    let machine = machine(|m| {
        m.costs.refill_overlap_permille = 1000;
        m.costs.node_mb_per_s = Some(1);
    });
    let users = [user("a", 0, 6, 1.0), user("b", 1, 10, 1.0)];
    assert_eq!(busy_us(&machine, &users)[..2], [10_000, 10_000]);
}

/// What a task that does not wait for memory does, others cannot slow.
#[test]
fn who_only_computes_is_not_slowed() {
    let machine = machine(|m| {
        m.costs.refill_overlap_permille = 0;
        m.costs.node_mb_per_s = Some(100);
    });
    let busy = busy_us(&machine, &[streamer("a", 0, 0.0), streamer("b", 1, 1.0)]);
    assert_eq!(busy[0], 10_000);
    assert_within(busy[1], 64_000);
}

/// Speeds are whole thousandths.
#[track_caller]
fn assert_within(us: u64, expected_us: u64) {
    let error = us.abs_diff(expected_us);
    assert!(error * 200 <= expected_us, "{us} us, not {expected_us}");
}
