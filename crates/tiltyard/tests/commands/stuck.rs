// SPDX-License-Identifier: GPL-2.0-or-later
//! A workload that stalls partway, because a wakeup is lost: its metrics look fine, so every command that uses them says so.
//! Runs need clang-19.

use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use tempfile::TempDir;

/// Twenty items; then the producer waits for the consumer, which waits for a signal that came before it. A ticker goes on.
const LOST_WAKEUP: &str = r#"{
    "tiltyard": { "apps": { "app": {} } },
    "global": { "duration": 1 },
    "tasks": {
        "producer": { "loop": 1, "phases": {
            "work": { "loop": 20, "tiltyard": { "begin": "item", "run": 500, "end": "item" } },
            "hand": { "loop": 1, "signal": "ready", "sem_wait": "taken" } } },
        "consumer": { "loop": 1, "run": 25000, "lock": "m", "wait": { "ref": "ready", "mutex": "m" }, "unlock": "m",
            "sem_post": "taken" },
        "ticker": { "loop": -1, "run": 100, "sleep": 900 } } }"#;

const STUCK: &str = "tasks wait forever";

fn tiltyard(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("tiltyard").unwrap();
    command.args(args);
    command
}

/// The workload in a folder, and the same with a consumer that is in time.
fn files() -> (TempDir, [PathBuf; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let files = ["lost", "found"].map(|name| dir.path().join(format!("{name}.json")));
    fs::write(&files[0], LOST_WAKEUP).unwrap();
    fs::write(&files[1], LOST_WAKEUP.replace("25000", "2500")).unwrap();
    (dir, files)
}

fn result(workload: &PathBuf) -> (Value, PathBuf) {
    let args = [
        "run", "-m", "smp2", "-s", "fifo,rr", "--format", "json", "-w",
    ];
    let run = tiltyard(&args).arg(workload).assert().success();
    let out = workload.with_extension("result");
    fs::write(&out, &run.get_output().stdout).unwrap();
    let json = serde_json::from_slice(&run.get_output().stdout).unwrap();
    (json, out)
}

#[test]
fn run_names_them() {
    let (_dir, [lost, found]) = files();
    let args = ["run", "-m", "smp2", "-s", "fifo", "-w"];
    let said = tiltyard(&args).arg(&lost).assert().success();
    said.stdout(contains(
        "Why: Under fifo, 2 tasks wait forever, the first from ",
    ))
    .stdout(contains("'taken'; consumer[3] waits for condition 'ready'"))
    .stdout(contains("the last \"item\" of app ended at "));
    let fine = tiltyard(&args).arg(&found).assert().success();
    fine.stdout(contains(STUCK).not());
}

#[test]
fn results_have_them_and_gates_refuse_such_results() {
    let (_dir, [lost, found]) = files();
    let ((json, lost), (fine, found)) = (result(&lost), result(&found));
    assert_eq!(json["runs"][0]["stuck"]["tasks"], 2, "{json}");
    assert!(fine["runs"][0]["stuck"].is_null());
    let sides = [&lost, &found].map(|file| format!("{}#fifo", file.display()));
    let gate = ["--fail-if", "throughput_per_s < -1%"];
    let both = ["compare", &sides[0], &sides[0]];
    let warned = tiltyard(&both).assert().success();
    warned
        .stderr(contains("in 1 of 1 runs of"))
        .stderr(contains(STUCK));
    let refused = tiltyard(&both).args(gate).assert().code(2);
    refused
        .stderr(contains("not comparable"))
        .stderr(contains(STUCK));
    tiltyard(&both).args(gate).arg("--force").assert().success();
    let fine = ["compare", &sides[1], &sides[1]];
    tiltyard(&fine).args(gate).assert().success();
}

#[test]
fn explanations_and_contests_tell() {
    let (_dir, [lost, found]) = files();
    let (lost, found) = (lost.to_str().unwrap(), found.to_str().unwrap());
    let explain = |workload: &str| {
        let args = [
            "explain",
            "-m",
            "smp2",
            "-s",
            "fifo,rr",
            "--no-cache",
            "--metric",
            "machine.busy_percent",
            "-w",
        ];
        tiltyard(&args).arg(workload).assert().success()
    };
    explain(lost).stdout(contains("Under fifo, 2 tasks wait forever"));
    explain(found).stdout(contains(STUCK).not());
    let several = format!("{lost},{found}");
    let contest = tiltyard(&["run", "-m", "smp2", "-s", "fifo,rr", "-w", &several]).assert();
    let warning = "warning: lost on smp2: Under rr, 2 tasks wait forever";
    contest
        .success()
        .stderr(contains(warning))
        .stderr(contains("found on smp2").not());
}
