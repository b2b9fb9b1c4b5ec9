// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;

const GOOD: &str = r#"description = "two nodes"
topology = "numa:2 core:2 pu:1"
tick_hz = 250
[costs]
switch_ns = 1
wakeup_ns = 2
ipi_ns = 3
tick_ns = 4
callback_ns = 5
insn_ps = 6
kfunc_ns = 7
visit_near_ns = 8
visit_far_ns = 9
line_l2_ps = 10
line_l3_ps = 11
line_mem_ps = 12
line_far_ps = 13
refill_overlap_permille = 14
smt_permille = 15
[noise]
sleep_mean_ns = 16
run_mean_ns = 17
[jitter]
start_span_ns = 18
timer_late_mean_ns = 19
work_spread_ppm = 20
"#;

fn with_line(line: &str) -> String {
    GOOD.replace("tick_hz = 250", &format!("tick_hz = 250\n{line}"))
}

#[track_caller]
fn refused(text: &str, place: &str, what: &str) {
    let error = parse(text, "dir/m.toml").expect_err(text).to_string();
    assert!(
        error.starts_with(&format!("dir/m.toml:{place}: ")),
        "{error}"
    );
    assert!(error.contains(what), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn every_number_arrives_at_its_place() {
    let machine = parse(GOOD, "dir/m.toml").unwrap();
    assert_eq!(
        (machine.name.as_str(), machine.description.as_str()),
        ("m", "two nodes")
    );
    assert_eq!(
        (machine.nr_cpus(), machine.nr_nodes(), machine.tick_hz),
        (4, 2, 250)
    );
    assert_eq!(machine.node_distance, [[10, 16], [16, 10]]);
    let c = machine.costs;
    assert_eq!(
        (c.switch_ns, c.wakeup_ns, c.ipi_ns, c.tick_ns, c.callback_ns),
        (1, 2, 3, 4, 5)
    );
    assert_eq!(
        (c.insn_ps, c.kfunc_ns, c.visit_near_ns, c.visit_far_ns),
        (6, 7, 8, 9)
    );
    assert_eq!(
        (c.line_l2_ps, c.line_l3_ps, c.line_mem_ps, c.line_far_ps),
        (10, 11, 12, 13)
    );
    assert_eq!((c.refill_overlap_permille, c.smt_permille), (14, 15));
    assert_eq!(machine.noise, [Noise::workers(16, 17)]);
    assert_eq!(
        machine.jitter,
        Jitter {
            start_span_ns: 18,
            timer_late_mean_ns: 19,
            work_spread_ppm: 20
        }
    );
}

#[test]
fn noise_may_be_absent() {
    let quiet = GOOD.split("[noise]").next().unwrap();
    assert_eq!(parse(quiet, "m.toml").unwrap().noise, []);
}

#[test]
fn a_file_without_jitter_has_the_reference_one() {
    let bare = GOOD.split("[jitter]").next().unwrap();
    assert_eq!(parse(bare, "m.toml").unwrap().jitter, Jitter::REFERENCE);
}

#[test]
fn distances_and_capacities_are_taken_as_written() {
    let machine = parse(&with_line("distances = [[10, 21], [20, 10]]"), "m.toml").unwrap();
    assert_eq!(machine.node_distance, [[10, 21], [20, 10]]);
    let machine = parse(&with_line("capacity = [1024, 512, 512, 1]"), "m.toml").unwrap();
    assert_eq!(
        machine.cpus.iter().map(|c| c.capacity).collect::<Vec<_>>(),
        [1024, 512, 512, 1]
    );
}

#[test]
fn errors_name_file_key_and_value() {
    refused(
        &with_line("colour = 1"),
        "4:1",
        "colour: unknown field `colour`",
    );
    refused(
        &GOOD.replace("switch_ns = 1\n", ""),
        "4:1",
        "missing field `switch_ns`",
    );
    refused(
        &GOOD.replace("switch_ns = 1", "switch_ns = -1"),
        "5:13",
        "switch_ns: ",
    );
    refused(
        &GOOD.replace("switch_ns = 1", "switch_ns = 1.5"),
        "5:13",
        "switch_ns: ",
    );
    refused(
        &GOOD.replace("switch_ns = 1", "switch_ns = 2000000000"),
        "5:13",
        "2000000000 is out of range",
    );
    refused(
        &GOOD.replace("smt_permille = 15", "smt_permille = 0"),
        "19:16",
        "smt_permille: 0 is out of range",
    );
    refused(
        &GOOD.replace("tick_hz = 250", "tick_hz = 0"),
        "3:11",
        "tick_hz: 0 is out of range",
    );
    refused(
        &GOOD.replace("tick_ns = 4", "tick_ns = 2000001"),
        "8:11",
        "tick_ns: 2000001 is out of range; write 0 to 2000000",
    );
    refused(
        &GOOD.replace("core:2", "cave:2"),
        "2:20",
        "topology: unknown type \"cave\"",
    );
    refused(
        &with_line("distances = [[10]]"),
        "4:13",
        "distances: these are no distances between 2 nodes",
    );
    refused(
        &with_line("distances = [[10, 9], [20, 10]]"),
        "4:13",
        "distances",
    );
    refused(
        &with_line("capacity = [1024]"),
        "4:12",
        "capacity: 1 values for 4 CPUs",
    );
    refused(&with_line("capacity = [1, 1, 1, 1]"), "4:12", "capacity");
    refused(
        &GOOD.replace("sleep_mean_ns = 16", "sleep_mean_ns = 0"),
        "21:17",
        "sleep_mean_ns: 0",
    );
    refused(
        &GOOD.replace("work_spread_ppm = 20", "work_spread_ppm = 500001"),
        "26:19",
        "work_spread_ppm: 500001 is out of range",
    );
    refused(
        &GOOD.replace("start_span_ns = 18\n", ""),
        "23:1",
        "missing field `start_span_ns`",
    );
    refused("", "1:1", "missing field");
}

#[test]
fn kernel_threads_are_of_several_kinds() {
    let noise = "[[noise]]\nsleep_mean_ns = 16\nrun_mean_ns = 17\n\
        [[noise]]\nname = \"rcu_preempt\"\nper = \"machine\"\nsleep_mean_ns = 1\nrun_mean_ns = 2\nper_exit_permille = 530\nnice = -20\n";
    let with = |noise: &str| GOOD.replace("[noise]\nsleep_mean_ns = 16\nrun_mean_ns = 17\n", noise);
    let rcu = Noise {
        name: "rcu_preempt".to_owned(),
        per: Per::Machine,
        sleep_mean_ns: 1,
        run_mean_ns: 2,
        per_exit_permille: Some(530),
        nice: -20,
    };
    let read = |noise: &str| parse(&with(noise), "m.toml").unwrap().noise;
    assert_eq!(read(noise), [Noise::workers(16, 17), rcu]);
    assert_eq!(read(""), []);
    let bad = |from: &str, to: &str, place: &str, what: &str| {
        refused(&with(&noise.replace(from, to)), place, what);
    };
    bad(
        r#""rcu_preempt""#,
        r#""a/0""#,
        "24:8",
        "name: \"a/0\" is no name of a kernel thread; write 1 to 15",
    );
    bad(
        r#""machine""#,
        r#""node""#,
        "25:7",
        "unknown variant `node`, expected `cpu` or `machine`",
    );
    bad(
        "= 530",
        "= 0",
        "28:21",
        "per_exit_permille: 0 is out of range; write 1 to 100000",
    );
    bad(
        "nice = -20",
        "nice = 200",
        "29:8",
        "nice: 200 is out of range; write -20 to 19",
    );
    bad(
        "sleep_mean_ns = 1\n",
        "",
        "23:1",
        "missing field `sleep_mean_ns`",
    );
    bad(
        "run_mean_ns = 17",
        "run_mean_ns = 0",
        "22:15",
        "run_mean_ns: 0 is out of range",
    );
    refused(&with("noise = 5\n"), "20:1", "unknown field");
}

#[test]
fn costs_of_helpers_may_be_absent() {
    let costs = parse(GOOD, "m.toml").unwrap().costs;
    assert_eq!((costs.map_lookup_ns, costs.storage_lookup_ns), (None, None));
    assert_eq!(
        (costs.spin_lock_ns, costs.task_lookup_ns, costs.kick_ns),
        (0, 0, 0)
    );
    let more = "kfunc_ns = 7\nmap_lookup_ns = 21\nstorage_lookup_ns = 22\nspin_lock_ns = 23\ntask_lookup_ns = 24\nkick_ns = 25";
    let costs = parse(&GOOD.replace("kfunc_ns = 7", more), "m.toml")
        .unwrap()
        .costs;
    assert_eq!(
        (costs.map_lookup_ns, costs.storage_lookup_ns),
        (Some(21), Some(22))
    );
    assert_eq!(
        (costs.spin_lock_ns, costs.task_lookup_ns, costs.kick_ns),
        (23, 24, 25)
    );
}
