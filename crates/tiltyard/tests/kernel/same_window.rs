// SPDX-License-Identifier: GPL-2.0-or-later
//! A workload in a real kernel and in the simulated machine: results of the same window with the same metrics, and what
//! only one can measure says so. Skips, with the reason, where no guest can be booted.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// A hundred requests of 1 ms in about 300 ms, after a shell has slept for 2 s.
const WORKLOAD: &str = r#"{
    "tiltyard": { "apps": { "server": { "history": 2000000 } } },
    "tasks": { "serve": { "loop": 100, "tiltyard": {
        "app": "server", "begin": "query", "run": 1000, "end": "query", "sleep": 2000 } } }
}"#;

fn tiltyard(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiltyard"));
    command.current_dir(folder).args(arguments.split(' '));
    command.output().expect("tiltyard starts")
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_kernels_result_is_compared_with_a_simulated_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("w.json"), WORKLOAD).unwrap();
    // Two CPUs that take turns, each run the same: what else this machine does changes nothing.
    let kernel =
        "kernel --vm --icount --cpus 2 -s default -w ./w.json --rounds 1 --out kernel.json";
    let output = tiltyard(folder, kernel);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(7) {
        let test = "a_kernels_result_is_compared_with_a_simulated_one";
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    let simulated = tiltyard(folder, "run -w ./w.json -s fifo -m smp2 --format json");
    assert!(simulated.status.success());
    std::fs::write(folder.join("sim.json"), &simulated.stdout).unwrap();

    let result = json(&folder.join("kernel.json"));
    let summary = &result["recorded"][0]["summary"];
    let request = &summary["requests"][0];
    assert_eq!(request["class"], "query");
    assert_eq!(request["app"], "server");
    assert_eq!(request["latency"]["count"], 100);
    // Neither the shell's sleep nor the measurement of the machine's speed is in the window.
    let duration_ns = summary["duration_ns"].as_u64().unwrap();
    assert!(
        (290_000_000..1_500_000_000).contains(&duration_ns),
        "{duration_ns}"
    );
    let names: Vec<&str> = result["comparison"]["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"server.latency_us_p99"), "{names:?}");
    for absent in ["machine.overhead_percent", "machine.scheduler_percent"] {
        assert!(!names.contains(&absent), "{names:?}");
    }

    let compared = tiltyard(folder, "compare sim.json kernel.json --all");
    let page = String::from_utf8_lossy(&compared.stdout).into_owned();
    assert!(compared.status.success(), "{page}");
    let line = |metric: &str| {
        let lines = page.lines().filter(|line| line.contains(metric));
        lines.map(str::to_owned).collect::<Vec<String>>().join("\n")
    };
    assert!(line("latency p99").contains("1.0"), "{page}");
    assert!(line("overhead").contains("not measured"), "{page}");
}
