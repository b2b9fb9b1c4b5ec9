// SPDX-License-Identifier: GPL-2.0-or-later
//! What 4BSD is known for, in the simulated machine. Numbers follow from the rules by hand: README.md has the arithmetic.

use tiltyard_model::Machine;
use tiltyard_schedtest::races::races;
use tiltyard_schedtest::{
    Globals, Lab, Ran, globals, ideal, object, parse, presets, source, telling,
};

const S: u64 = 1_000_000_000;

fn run(machine: &Machine, globals: &Globals, workload: &str, seconds: u64) -> Ran {
    let mut lab = Lab::new(machine, object("bsd4", 2));
    lab.globals = globals;
    lab.duration_ns = Some(seconds * S);
    let ran = lab.run(&parse(workload)).expect("it runs");
    assert_eq!(ran.outcome.exit.message, "");
    ran
}

/// Runtime of each task, as a part of a CPU.
fn shares(ran: &Ran, names: &[&str]) -> Vec<f64> {
    let of = |name: &&str| {
        let mut tasks = ran.summary.tasks.iter();
        let task = tasks.find(|task| task.name.starts_with(*name)).expect(name);
        task.runtime_ns as f64 / ran.summary.duration_ns as f64
    };
    names.iter().map(of).collect()
}

fn hogs(nices: &[i8]) -> String {
    let hog = |(i, nice): (usize, &i8)| {
        format!(r#""hog{i}": {{ "loop": -1, "priority": {nice}, "run": 1000000 }}"#)
    };
    let all: Vec<String> = nices.iter().enumerate().map(hog).collect();
    format!(r#"{{ "tasks": {{ {} }} }}"#, all.join(", "))
}

#[test]
fn hogs_share_by_nice() {
    let machine = ideal("pu:1", 1000);
    for preset in ["bsd4", "bsd4_2011"] {
        let globals = &presets("bsd4")[preset];
        let even = run(&machine, globals, &hogs(&[0, 0]), 120);
        for share in shares(&even, &["hog0", "hog1"]) {
            assert!((share - 0.5).abs() < 0.02, "{preset}: {share}");
        }
        // By an independent model of the rules, of turns of 12 ticks: 62.2 and 71.7 %.
        for (nice, expected) in [(10, 0.622), (19, 0.717)] {
            let uneven = run(&machine, globals, &hogs(&[0, nice]), 600);
            let share = shares(&uneven, &["hog0"])[0];
            assert!(
                (share - expected).abs() < 0.02,
                "{preset}, nice {nice}: {share}"
            );
        }
    }
}

/// 18 hogs on 16 CPUs: any CPU takes any task.
#[test]
fn nothing_waits_beside_an_idle_cpu_and_hogs_end_together() {
    let machine = ideal("core:16 pu:1", 1000);
    let work_ns = 120 * 94_488_000u64;
    let workload = format!(
        r#"{{ "tasks": {{ "hog": {{ "instance": 18, "loop": 1, "run": {} }} }} }}"#,
        work_ns / 1000
    );
    let mut lab = Lab::new(&machine, object("bsd4", 2));
    lab.watchdog = true;
    let ran = lab.run(&parse(&workload)).expect("it ends");
    let excess = ran.summary.duration_ns as f64 / (18 * work_ns) as f64 * 16.0;
    assert!((1.0..=1.05).contains(&excess), "{excess}");
    let wasted_ns: u64 = ran
        .summary
        .cpus
        .iter()
        .filter_map(|cpu| cpu.wasted_ns)
        .sum();
    assert_eq!(wasted_ns, 0);
}

/// The longest wait of a hog beside 20 sleepers that want 1.25 CPUs.
fn flooded_ns(nice: i8, set: &[(&str, i128)]) -> u64 {
    let workload = format!(
        r#"{{ "tasks": {{
            "hog": {{ "loop": -1, "priority": {nice}, "run": 1000000 }},
            "sleeper": {{ "instance": 20, "loop": -1, "run": 1000, "sleep": 15000 }} }} }}"#
    );
    let ran = run(&ideal("pu:1", 1000), &globals(set), &workload, 100);
    let mut tasks = ran.summary.tasks.into_iter();
    let hog = tasks.find(|task| task.name.starts_with("hog"));
    hog.expect("it ran").longest_wait_ns
}

#[test]
fn nobody_starves() {
    assert!(flooded_ns(0, &[]) < S);
    assert!(flooded_ns(19, &[]) < S);
}

/// By the formula alone a task of nice 19 waits for long.
#[test]
fn the_guard_bounds_waits() {
    let unguarded = flooded_ns(19, &[("sleep_priority", 0)]);
    assert!(unguarded > 8 * S, "{unguarded}");
    let guarded = flooded_ns(19, &[("sleep_priority", 0), ("starve_limit_ms", 2000)]);
    // It looks once a second.
    assert!((2 * S..=3 * S + S / 2).contains(&guarded), "{guarded}");
}

/// Turns of 12 ticks of 127 Hz, on a machine of 1000 Hz: two hogs at once.
#[test]
fn turns_last_94_ms() {
    let machine = ideal("pu:1", 1000);
    let ran = run(&machine, &globals(&[]), &hogs(&[0, 0]), 60);
    let switches = ran.summary.cpus[0].switches;
    // 635 turns, some of which are cut or doubled when one hog is in another FIFO after a second.
    assert!((300..=700).contains(&switches), "{switches}");
}

#[test]
fn the_guard_and_old_rules_race_with_nobody() {
    let object = telling(&source("bsd4"));
    for set in [
        &[("starve_limit_ms", 200)][..],
        &[("slice_counter", 0), ("head_rule", 0)],
        &[("runq_fuzz", 4), ("ipiwakeup_useloop", 1)],
    ] {
        assert_eq!(races(&object, &globals(set)), [], "{set:?}");
    }
}
