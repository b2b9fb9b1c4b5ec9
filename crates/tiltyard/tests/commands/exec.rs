// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard exec`: what a user sees, and that real threads and simulated ones do the same.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

fn tiltyard(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_tiltyard");
    let mut command = Command::new(program);
    command.args(args).env_remove("TILTYARD_DATA");
    command.output().unwrap()
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = tiltyard(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn file(text: &str) -> NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

/// Tasks that were started, and requests by class.
type Counts = (u64, BTreeMap<String, u64>);

fn simulated(workload: &str) -> Counts {
    let all = json(&["run", "-w", workload, "-s", "fifo", "--format", "json"]);
    let run = &all["runs"][0];
    let requests = run["summary"]["requests"].as_array().unwrap().iter();
    let count = |r: &serde_json::Value| {
        let class = r["class"].as_str().unwrap().to_owned();
        (class, r["latency"]["count"].as_u64().unwrap())
    };
    (
        run["tasks"].as_u64().unwrap(),
        requests.map(count).collect(),
    )
}

fn real(workload: &str) -> Counts {
    let all = json(&[
        "exec",
        "-w",
        workload,
        "--history",
        "0s",
        "--format",
        "json",
    ]);
    let outcome = &all["outcome"];
    assert_eq!(outcome["done"], true, "{outcome}");
    let started = |t: &serde_json::Value| t["started"].as_u64().unwrap();
    let count = |r: &serde_json::Value| {
        let name = r["name"].as_str().unwrap().to_owned();
        (name, r["count"].as_u64().unwrap())
    };
    (
        outcome["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(started)
            .sum(),
        outcome["requests"]
            .as_array()
            .unwrap()
            .iter()
            .map(count)
            .collect(),
    )
}

#[test]
fn hackbench_does_the_same_for_real() {
    let counts = simulated("hackbench");
    assert_eq!(counts.1["message"], 400_000);
    assert_eq!(counts, real("hackbench"));
}

/// Shipped files that go on for long, in short: fewer rounds, less work.
#[test]
fn shortened_files_do_the_same_for_real() {
    let shorten = |name: &str, changes: &[(&str, &str)]| {
        let path = format!("{}/../../workloads/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let mut text = std::fs::read_to_string(path).unwrap();
        for (from, to) in changes {
            assert!(text.contains(from), "{name}: {from}");
            text = text.replace(from, to);
        }
        file(&text)
    };
    let rounds = r#""loop" : 2000, "tiltyard" : { "done" : "round" }"#;
    let files = [
        shorten("pingpong", &[(r#""loop" : -1"#, rounds)]),
        shorten(
            "fibo",
            &[(
                r#""run" : 158000000"#,
                r#""run" : 100000, "tiltyard1" : { "done" : "fibo" }"#,
            )],
        ),
        shorten(
            "sysbench-1c",
            &[
                (r#""delay" : 7000000"#, r#""delay" : 700000"#),
                (r#""sleep" : 20000"#, r#""sleep" : 2000"#),
                (r#""time" : 33000000"#, r#""time" : 1"#),
                (r#""start" : 58650"#, r#""start" : 500"#),
            ],
        ),
    ];
    for file in files {
        let path = file.path().to_str().unwrap();
        let counts = simulated(path);
        assert!(!counts.1.is_empty());
        assert_eq!(counts, real(path));
    }
}

#[test]
fn the_page_names_tasks_and_requests() {
    let file = file(
        r#"{ "tasks" : { "worker" : { "instance" : 3, "loop" : 4, "tiltyard" : { "begin" : "job", "sleep" : 100, "end" : "job" } } } }"#,
    );
    let path = file.path().to_str().unwrap();
    let output = tiltyard(&[
        "exec",
        "-w",
        path,
        "--history",
        "0s",
        "--calibration",
        "5000",
    ]);
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    for words in [
        "all tasks have ended; calibration 5000 ns",
        "worker        3      3",
        "job         12",
    ] {
        assert!(page.contains(words), "no \"{words}\" in:\n{page}");
    }
}

#[test]
fn what_goes_wrong_is_one_line_with_its_exit_code() {
    let deaf = r#"{ "tasks" : { "a" : { "loop" : 1, "lock" : "m", "lock1" : "m" } } }"#;
    let device = r#"{ "tasks" : { "a" : { "loop" : 1, "iorun" : 1 } }, "global" : { "io_device" : "/nowhere/at/all" } }"#;
    for (text, code, words) in [
        (deaf, 6, "locks 'm', which it holds already"),
        (device, 7, "global.io_device /nowhere/at/all: cannot open"),
        ("{", 3, "json:1:"),
    ] {
        let file = file(text);
        let path = file.path().to_str().unwrap();
        let output = tiltyard(&["exec", "-w", path, "--history", "0s"]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(
            stderr.contains(words) && stderr.lines().count() == 1,
            "{stderr}"
        );
    }
}

#[test]
fn what_real_threads_leave_out_is_said() {
    let stall = r#"{ "tasks" : { "a" : { "loop" : 1, "run" : 1, "tiltyard" : { "stall_share" : 0.5 } } } }"#;
    let file = file(stall);
    let path = file.path().to_str().unwrap();
    let output = tiltyard(&["exec", "-w", path, "--history", "0s"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains("stall_share of task 'a' is left out"),
        "{stderr}"
    );
}

/// Whoever ends it, by whichever signal: nothing of the run is left.
#[test]
fn nothing_is_left_when_it_is_killed() {
    for (number, signal) in [libc::SIGTERM, libc::SIGINT, libc::SIGKILL]
        .into_iter()
        .enumerate()
    {
        // A name by which to find the processes, whose parents are gone.
        let name = format!("left{number}-{}", std::process::id() % 100_000);
        let file = file(&format!(
            r#"{{ "tasks" : {{ "{name}" : {{ "loop" : 1, "sleep" : 60000000, "tiltyard" : {{ "process" : true }} }} }} }}"#
        ));
        let mut child = Command::new(env!("CARGO_BIN_EXE_tiltyard"))
            .args(["exec", "--history", "0s", "-w"])
            .arg(file.path())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until(|| processes(&name) == 1);
        // SAFETY: our own child, which has not been waited for.
        unsafe { libc::kill(child.id() as i32, signal) };
        let code = child.wait().unwrap().code();
        assert_eq!(code, (signal != libc::SIGKILL).then_some(130));
        until(|| processes(&name) == 0);
    }
}

/// Waits for something that takes a moment.
#[track_caller]
fn until(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it never came");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn processes(name: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let comms = all.filter_map(|p| std::fs::read_to_string(p.path().join("comm")).ok());
    comms.filter(|comm| comm.trim_end() == name).count()
}
