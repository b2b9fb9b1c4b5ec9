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
        // 84 ticks of 127.
        let uneven = run(&machine, globals, &hogs(&[0, 10]), 240);
        let share = shares(&uneven, &["hog0"])[0];
        assert!((share - 0.66).abs() < 0.03, "{preset}: {share}");
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

/// Tasks that sleep keep the CPU busy: with the kernel's priority they starve a hog, as in FreeBSD, unless they have none.
#[test]
fn sleepers_starve_hogs_unless_they_are_guarded() {
    const FLOOD: &str = r#"{ "tasks": {
        "hog": { "loop": -1, "run": 1000000 },
        "sleeper": { "instance": 20, "loop": -1, "run": 1000, "sleep": 15000 } } }"#;
    let machine = ideal("pu:1", 1000);
    let wait_ns = |set: &[(&str, i128)]| {
        let ran = run(&machine, &globals(set), FLOOD, 60);
        let mut tasks = ran.summary.tasks.into_iter();
        tasks
            .find(|task| task.name.starts_with("hog"))
            .expect("hog")
            .longest_wait_ns
    };
    assert!(wait_ns(&[]) > 30 * S);
    assert!(wait_ns(&[("sleep_priority", 0)]) < 10 * S);
    let guarded = wait_ns(&[("starve_limit_ms", 5000)]);
    assert!((4 * S..=7 * S).contains(&guarded), "{guarded}");
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
