// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard reproduce --arena kernel`: a claim judged by real threads under a real kernel, and what is refused. Guests
//! need QEMU and a kernel; without, their test says so and is skipped.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const TILTYARD: &str = env!("CARGO_BIN_EXE_tiltyard");

/// The hog sets its nice value itself; the sleeper preempts it under FreeBSD's ULE, which loads in a twentieth of the
/// time that cfs takes.
const WORKLOAD: &str = r#"{ "tasks": {
    "hog": { "loop": -1, "priority": 0, "run": 1000000 },
    "sleeper": { "loop": -1, "sleep": 49000, "run": 1000, "tiltyard": { "done": "turn" } } } }"#;

const EXPERIMENT: &str = r#"
title = "A hog and a sleeper"

[[run]]
machine = "uni"
workload = "FOLDER/wake.json"
schedulers = { freebsd = "ule_freebsd" }
duration = "2s"
patch.tasks.hog.priority = 5
events = true
[[run.kernel]]
duration = "500ms"
reason = "ten wakeups are enough"
[run.measures]
duration_s = "SELECT duration_ns / 1e9 FROM summary"
hog_share = "SELECT runtime_ns / 0.5e9 FROM task WHERE name = 'hog' AND nice = 5"
preemptions = "SELECT count FROM preemption WHERE by = 'rt-app' AND of = 'rt-app'"
slices = "SELECT nullif(count(*), 0) FROM sched_slice JOIN thread USING (utid) WHERE name = 'sleeper'"
turns = "SELECT latency_count FROM request WHERE class = 'turn' AND app = 'rt-app'"

[[run]]
name = "two"
machine = "smp2"
workload = "FOLDER/wake.json"
schedulers = { two = "fifo" }
duration = "1s"
[run.measures]
any = "SELECT min(1) FROM task"

[[run]]
name = "counted"
machine = "smp2"
workload = "FOLDER/pair.json"
schedulers = { counted = "fifo" }
duration = "500ms"
events = true
[[run.kernel]]
several_cpus = true
reason = "cores are counted"
[run.measures]
cores = "SELECT nullif(count(DISTINCT cpu), 0) FROM sched_slice JOIN thread USING (utid) WHERE thread.name LIKE 'hog%'"
depths = "SELECT nullif(count(DISTINCT cpu), 0) FROM depth"
"#;

const PAIR: &str = r#"{ "tasks": { "hog": { "instance": 2, "loop": -1, "run": 1000000 } } }"#;

fn claim(name: &str, layer: &str, check: &str) -> String {
    format!(
        "\n[[claim]]\nid = \"s.wake.{name}\"\nwhere = \"Section 1\"\nstatement = \"A statement.\"\nkind = \"number\"\ntier = \"core\"\n\
         layer = [{layer}]\nexpected = \"a band\"\ntolerance = \"a reason\"\ncheck = \"{check}\"\n"
    )
}

fn experiments() -> TempDir {
    let folder = TempDir::new().unwrap();
    let judged = "freebsd.preemptions >= 8 and abs(freebsd.preemptions - freebsd.slices) <= 2 and abs(freebsd.turns - freebsd.slices) <= 1 and \
        0.85 <= freebsd.hog_share <= 0.99 and abs(freebsd.duration_s - 0.5) <= 0.001";
    let claims = [
        claim("real", "'sim', 'real'", judged),
        claim("sim", "'sim'", "freebsd.slices > 30"),
        claim("smp", "'sim', 'real'", "two.any == 1"),
        claim(
            "counts",
            "'sim', 'real'",
            "counted.cores == 2 and counted.depths == 2",
        ),
    ];
    let text = format!("{EXPERIMENT}{}", claims.concat());
    let text = text.replace("FOLDER", &folder.path().display().to_string());
    fs::write(folder.path().join("wake.toml"), text).unwrap();
    fs::write(folder.path().join("wake.json"), WORKLOAD).unwrap();
    fs::write(folder.path().join("pair.json"), PAIR).unwrap();
    folder
}

fn reproduce(experiments: &Path, arguments: &str) -> Command {
    let mut command = Command::new(TILTYARD);
    command.args(["reproduce", "--no-cache", "--experiments"]);
    command.arg(experiments).args(arguments.split_whitespace());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn can_boot() -> bool {
    let check = Command::new(TILTYARD).args(["kernel", "--check"]).output();
    let can = check.expect("tiltyard starts").status.success();
    if !can {
        // Not eprintln!, which the test harness keeps to itself when a test passes.
        let _ = writeln!(std::io::stderr(), "skipped: no guest can be booted here");
    }
    can
}

#[test]
fn one_claim_is_judged_in_a_kernel_and_the_others_say_why_not() {
    if !can_boot() {
        return;
    }
    let folder = experiments();
    let arguments = "--arena both --vm --seeds 1 --format json";
    let output = reproduce(folder.path(), arguments).output().unwrap();
    let verdicts: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let of = |name: &str| {
        let id = format!("s.wake.{name}");
        verdicts.iter().find(|v| v["id"] == *id).unwrap()
    };
    let real = &of("real")["kernel"];
    assert_eq!(real["verdict"], "reproduced", "{real}\n{}", said(&output));
    assert!(
        real["kernel_release"]
            .as_str()
            .unwrap()
            .starts_with("6.18.")
    );
    assert_eq!(real["shortened"][0], "ten wakeups are enough");
    assert_eq!(real["deviations"], Value::Array(Vec::new()));
    let counts = &of("counts")["kernel"];
    assert_eq!(counts["verdict"], "reproduced", "{counts}");
    let deviation = counts["deviations"][0].as_str().unwrap();
    for words in [
        "2 emulated CPUs take turns",
        "times and throughput are not",
        "rcu_cpu_stall_timeout=300",
    ] {
        assert!(deviation.contains(words), "no \"{words}\" in {deviation}");
    }
    // The same check on the whole two seconds.
    assert_eq!(of("real")["arena"], "sim");
    assert_eq!(of("real")["verdict"], "not-reproduced");
    assert_eq!(of("real")["measured"]["freebsd.duration_s"], 2.0);
    assert_eq!(of("sim")["verdict"], "reproduced");
    for (name, reason) in [
        ("sim", "simulator only: \"real\" is not among its layers"),
        (
            "smp",
            "simulator only: smp2 has 2 CPUs, and a kernel is exact on one",
        ),
    ] {
        let other = &of(name)["kernel"];
        assert_eq!(other["verdict"], "not-run");
        assert_eq!(other["reason"], reason);
    }
}

#[test]
fn what_a_kernel_cannot_do_is_refused_in_one_line() {
    let folder = experiments();
    let refused = |arguments: &str, code: i32, words: &[&str]| {
        let output = reproduce(folder.path(), arguments).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        for word in words {
            assert!(text.contains(word), "no \"{word}\" in: {text}");
        }
    };
    refused("--arena kernel", 2, &["--arena kernel", "add --vm"]);
    refused("--arena both", 2, &["--arena both", "add --vm"]);
    let varied = "--arena kernel --vm --sensitivity";
    refused(varied, 2, &["--sensitivity", "simulated machine"]);
    let nowhere = "--arena kernel --vm --kernel /nowhere/bzImage";
    refused(nowhere, 7, &["/nowhere/bzImage: cannot read"]);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn without_qemu_its_package_is_named_before_anything_is_built() {
    let folder = experiments();
    let mut command = reproduce(folder.path(), "--arena kernel --vm");
    let output = command.env("PATH", "/nowhere").output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert!(
        text.contains("install the package qemu-system-x86"),
        "{text}"
    );
    // No claim needs one: nothing is missing.
    let mut command = reproduce(folder.path(), "--arena kernel --vm s.wake.sim");
    let output = command.env("PATH", "/nowhere").output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}
