// SPDX-License-Identifier: GPL-2.0-or-later
//! The fidelity set, its kept results, and the way to repeat them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use tiltyard_fidelity::set::{Results, Set};
use tiltyard_model::Machine;

use super::sample;

const TILTYARD: &str = env!("CARGO_BIN_EXE_tiltyard");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn set() -> Set {
    Set::parse(&read("fidelity/set.toml")).expect("the set")
}

fn results(setting: &str) -> Results {
    serde_json::from_str(&read(&format!("fidelity/results/{setting}.json"))).expect("results")
}

#[test]
fn the_page_is_what_the_kept_results_say() {
    let output = Command::new(TILTYARD)
        .args(["fidelity", "--page"])
        .arg(root().join("fidelity/results"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(
        page == read("docs/fidelity.md"),
        "docs/fidelity.md is not what `tiltyard fidelity --page fidelity/results` prints"
    );
}

/// Nobody changed a tolerance, a scheduler or a workload after the results were there.
#[test]
fn the_kept_results_are_of_the_set_as_it_is() {
    let set = set();
    let mut workloads: Vec<String> = std::fs::read_dir(root().join("fidelity/workloads"))
        .unwrap()
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    workloads.sort();
    for setting in &set.settings {
        let results = results(&setting.name);
        assert_eq!(results.setting, *setting);
        assert_eq!(
            (results.tolerance, results.least),
            (set.tolerance, set.least)
        );
        for (simulated, real) in &setting.pairs {
            let of_pair = results.comparisons.iter();
            let of_pair = of_pair.filter(|c| c.simulated == *simulated && c.real == *real);
            let done: Vec<&str> = of_pair.map(|c| c.workload.as_str()).collect();
            assert_eq!(done, workloads, "{} under {simulated}", setting.name);
        }
        for row in results.comparisons.iter().flat_map(|c| &c.rows) {
            let difference = row.simulated - row.real;
            let error = match row.figure.is_points() || difference == 0.0 {
                true => difference,
                false => difference / row.real * 100.0,
            };
            let is_same = row.error == error || (row.error - error).abs() < 1e-6;
            assert!(is_same, "{row:?}");
        }
    }
}

#[test]
fn the_kept_machines_are_machines_of_the_settings() {
    for setting in set().settings {
        let file = format!("fidelity/results/{}.toml", setting.name);
        let machine = Machine::parse_toml(&read(&file), &file).unwrap_or_else(|e| panic!("{e}"));
        let booted = Machine::parse_hwloc_synthetic(&setting.machine).unwrap();
        assert_eq!(machine.nr_cpus(), booted.nr_cpus(), "{file}");
    }
}

#[test]
fn what_is_not_in_the_set_is_refused_before_anything_runs() {
    let run = |arguments: &[&str]| {
        assert_cmd::Command::new(TILTYARD)
            .arg("fidelity")
            .args(arguments)
            .assert()
    };
    run(&["--setting", "exact-6.2"]).code(2).stderr(contains(
        "--setting exact-6.2: not in the set; did you mean",
    ));
    run(&["-w", "burst"])
        .code(2)
        .stderr(contains("--workload burst: not in the set").and(contains("bursts")));
    run(&["-w", "bursts", "-s", "fifo="])
        .code(2)
        .stderr(contains("--scheduler fifo=: no scheduler"));
    let empty = tempfile::tempdir().unwrap();
    let endless = empty.path().join("endless.json");
    std::fs::write(&endless, r#"{ "tasks": { "hog": { "run": 1000 } } }"#).unwrap();
    run(&["-w", endless.to_str().unwrap()]).code(2).stderr(
        contains(r#"never ends: task hog repeats forever; the file needs "global": { "duration": SECONDS }"#)
            .and(contains("--duration").not()),
    );
    std::fs::remove_file(&endless).unwrap();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for kept in ["json", "toml"] {
        let name = format!("exact-own-6.18.{kept}");
        let from = format!("{root}/fidelity/results/{name}");
        std::fs::copy(from, empty.path().join(name)).unwrap();
    }
    let settings = ["exact-own-6.18", "two-own-6.18"].map(|name| ["--setting", name]);
    run(&[
        &["--again", empty.path().to_str().unwrap()],
        settings.as_flattened(),
    ]
    .concat())
    .code(3)
    .stderr(contains("no results of setting two-own-6.18"));
    for kept in ["json", "toml"] {
        std::fs::remove_file(empty.path().join(format!("exact-own-6.18.{kept}"))).unwrap();
    }
    run(&["--page", empty.path().to_str().unwrap()])
        .code(3)
        .stderr(contains(
            "no results there; tiltyard fidelity --out makes them",
        ));
}

#[test]
fn what_is_about_the_guest_needs_one() {
    for flag in [&["--cpus", "2"][..], &["--kernel", "6.1"], &["--icount"]] {
        let mut calibrate = assert_cmd::Command::new(TILTYARD);
        calibrate.arg("calibrate").args(flag);
        calibrate.assert().code(2).stderr(contains("--vm"));
    }
}

/// None where no guest can be booted.
fn in_vm(arguments: &[&str]) -> Option<Output> {
    let check = Command::new(TILTYARD).args(["kernel", "--check"]).output();
    if !check.expect("tiltyard starts").status.success() {
        // Not eprintln!, which the test harness keeps to itself when a test passes.
        let _ = writeln!(std::io::stderr(), "skipped: no guest can be booted here");
        return None;
    }
    let output = Command::new(TILTYARD).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(output)
}

/// Where an instruction is a nanosecond, one of BPF is about two, and a callback some dozens.
#[test]
fn an_exact_machine_is_measured() {
    if !sample::includes(0, 5) {
        return;
    }
    let Some(output) = in_vm(&["calibrate", "--vm", "--icount", "--cpus", "1"]) else {
        return;
    };
    let file = String::from_utf8(output.stdout).unwrap();
    let machine = Machine::parse_toml(&file, "measured").unwrap_or_else(|e| panic!("{e}\n{file}"));
    let costs = machine.costs;
    assert_eq!((machine.nr_cpus(), machine.tick_hz), (1, 250));
    assert!((1500..4000).contains(&costs.insn_ps), "{file}");
    assert!((20..500).contains(&costs.callback_ns), "{file}");
    assert!((100..3000).contains(&costs.kfunc_ns), "{file}");
    assert!((1000..10_000).contains(&costs.switch_ns), "{file}");
    assert!((500..10_000).contains(&costs.wakeup_ns), "{file}");
    assert!((500..20_000).contains(&costs.tick_ns), "{file}");
}

/// One CPU and the real CFS: weights of nice values have no costs in them, so this comes out whatever built the
/// program.
#[test]
fn the_real_cfs_shares_the_cpu_as_ours_does() {
    if !sample::includes(1, 5) {
        return;
    }
    let arguments = [
        "fidelity",
        "--setting",
        "exact-6.1",
        "-w",
        "shares",
        "--format",
        "json",
    ];
    let Some(output) = in_vm(&arguments) else {
        return;
    };
    let all: Vec<Results> = serde_json::from_slice(&output.stdout).unwrap();
    let rows = &all[0].comparisons[0].rows;
    let shares: Vec<_> = rows.iter().filter(|row| row.figure.is_points()).collect();
    assert_eq!(shares.len(), 3, "{rows:?}");
    assert!(
        shares.iter().all(|row| row.within == Some(true)),
        "{shares:?}"
    );
    // 2 x 1024, 335 and 3121 of 5504.
    assert!((shares[0].real - 37.2).abs() < 1.0, "{shares:?}");
}
