// SPDX-License-Identifier: GPL-2.0-or-later
//! What a scheduler has to pass before it ships: the verifiers of the oldest and the newest kernel for which there are
//! packages, with the tables that it has in the simulated machine, and load that changes all the time, on eight CPUs in two
//! nodes. One more test is about custody.h. A test whose guest, kernel or command is missing reports that and passes.
//!
//! `TILTYARD_GATE_S=60 cargo test -p tiltyard --test kernel gates` is the whole gate: all tests under both kernels, a minute of each
//! kind of load, all presets. Without the variable, each load lasts a second and each test boots only one of the kernels. A sixth of
//! the schedulers get the load; a sixth of the others and a fortieth of the presets are only verified. A hash of what
//! is tested decides which.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{environment, sample};

const TILTYARD: &str = env!("CARGO_BIN_EXE_tiltyard");

/// Of the kernels with sched_ext that Debian's packages offer, the oldest whose verifier can be trusted and the newest into
/// which anything can be loaded. docs/how-to/real-kernel.md says what is wrong with the others.
const KERNELS: [&str; 2] = ["6.17", "6.18"];

/// Seconds are its argument. CPU affinity changed by the tasks themselves; affinity and nice values changed from
/// outside, of tasks that compute, sleep and wait for each other, while kernel threads are needed; and tasks that come and
/// go; and messages.
const STRESS: &str = r#"
set -e
cd /tmp
load() { stress-ng --quiet --timeout ${0}s "$@"; }
load --affinity 10 --affinity-rand
# Longer: each change is three processes, which takes a while in an emulated guest.
stress-ng --quiet --timeout $(($0 + 4))s --cpu 6 --switch 3 --nanosleep 1 &
n=0
while kill -0 $! 2>/dev/null; do
    for file in /proc/[0-9]*/task/*/comm; do
        read -r name <"$file" || continue
        case $name in stress-ng*) ;; *) continue ;; esac
        task=${file%/comm}
        task=${task##*/}
        n=$((n + 7))
        taskset -cp $((n % 8)) $task
        taskset -cp 0-7 $task
        renice -n $((n % 40 - 20)) -p $task
    done >/dev/null 2>&1 || true
    # Waits for a kernel thread of each CPU.
    echo 1 > /proc/sys/vm/stat_refresh
done
wait $!
load --fork 4 --vfork 2
# Messages through sockets, where it is installed.
! command -v hackbench >/dev/null || hackbench -g 1 -l 100 >/dev/null
echo changed: $n
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Under which kernels this test is done.
fn kernels(test: &str) -> Vec<String> {
    sampled(test, KERNELS.map(str::to_owned).to_vec(), KERNELS.len())
}

fn is_whole() -> bool {
    std::env::var_os("TILTYARD_GATE_S").is_some()
}

/// One in so many of them for this purpose, or all.
pub fn sampled(what: &str, names: Vec<String>, of: usize) -> Vec<String> {
    match is_whole() {
        true => names,
        false => sample::drawn(what, names, of),
    }
}

/// Folders that hold a source of their own name.
pub fn schedulers() -> Vec<String> {
    let folders = std::fs::read_dir(root().join("schedulers")).unwrap();
    let names = folders.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names
        .filter(|n| root().join(format!("schedulers/{n}/{n}.bpf.c")).is_file())
        .collect();
    names.sort();
    names
}

/// Their presets: values decide which code the verifier sees.
fn presets(scheduler: &str) -> Vec<String> {
    let file = root().join(format!("schedulers/{scheduler}/presets.toml"));
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let tables: toml::Table = toml::from_str(&text).unwrap();
    let presets = tables.into_iter().filter(|(_, table)| {
        let description = table.get("description");
        description.is_some()
    });
    presets.map(|(name, _)| name).collect()
}

fn under_load() -> Vec<String> {
    sampled("load", schedulers(), 6)
}

/// Those under load pass them there.
#[test]
fn every_scheduler_passes_the_verifiers() {
    let presets = schedulers().iter().flat_map(|name| presets(name)).collect();
    let mut others = schedulers();
    others.retain(|name| is_whole() || !under_load().contains(name));
    let mut all = sampled("verify", others, 6);
    all.extend(sampled("presets", presets, 40));
    all.sort();
    all.dedup();
    for kernel in kernels("verifiers") {
        let passed = pass(&kernel, environment::MACHINE, &all, &["true"]);
        let tables: usize = passed.runs.iter().map(environment::same_tables).sum();
        // A sample may hold only schedulers that know nothing of the topology.
        assert!(passed.runs.is_empty() || tables > 0 || !is_whole());
    }
}

#[test]
fn every_scheduler_survives_changing_load() {
    if let Err(error) = Command::new("stress-ng").arg("--version").output() {
        return skip(&format!("stress-ng: {error}"));
    }
    let seconds = std::env::var("TILTYARD_GATE_S").unwrap_or("1".to_owned());
    for kernel in kernels("load") {
        let command = ["sh", "-c", STRESS, &seconds];
        let passed = pass(&kernel, environment::MACHINE, &under_load(), &command);
        for line in passed
            .said
            .lines()
            .filter(|line| line.starts_with("changed: "))
        {
            assert_ne!(line, "changed: 0", "{}", passed.said);
        }
    }
}

/// If hand_over() in custody.h does not wait, the kernel ejects the scheduler: "cannot move migration disabled".
#[test]
fn a_hand_over_waits_until_the_task_has_left_its_cpu() {
    if let Err(error) = Command::new("stress-ng").arg("--version").output() {
        return skip(&format!("stress-ng: {error}"));
    }
    let lingers = root().join("schedulers/lib/tests/lingers.bpf.c");
    let command = ["stress-ng", "--quiet", "--yield", "3", "--timeout", "2s"];
    for kernel in kernels("hand-over") {
        let schedulers = [lingers.display().to_string()];
        pass(&kernel, "package:1 core:2 pu:1", &schedulers, &command);
    }
}

/// What the command printed, and the run under each scheduler. Nothing where there is no guest.
#[derive(Default)]
struct Passed {
    said: String,
    runs: Vec<Value>,
}

/// Runs the command under each scheduler, in one guest: all of it succeeds, each scheduler stays until it is taken out,
/// and the kernel has nothing to complain about.
fn pass(kernel: &str, machine: &str, schedulers: &[String], command: &[&str]) -> Passed {
    let mut tiltyard = Command::new(TILTYARD);
    tiltyard.args(["kernel", "--vm", "--kernel", kernel, "--rounds", "1"]);
    // The limit is a cgroup's, so schedulers that have groups get one.
    tiltyard.args(["-m", machine, "--no-events", "--limit", "900"]);
    tiltyard.args(["--limit-memory", "400"]);
    tiltyard.args(["--format", "json"]);
    let out = tempfile::NamedTempFile::new().unwrap();
    tiltyard.args(["-s", &schedulers.join(","), "--out"]);
    let output = tiltyard.arg(out.path()).arg("--").args(command).output();
    let output = output.expect("tiltyard starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let result: Value = serde_json::from_slice(&std::fs::read(out.path()).unwrap()).unwrap();
    let report = &result["report"];
    // No guest, or no package: what went wrong inside of a guest has a report.
    if output.status.code() == Some(7) && report.is_null() {
        skip(&said);
        return Passed::default();
    }
    let runs = report["runs"].as_array().unwrap().clone();
    assert_eq!(runs.len(), schedulers.len(), "{said}");
    for run in &runs {
        let about = format!("Linux {}, {run:#}\n{said}", report["kernel_release"]);
        let outcome = &run["outcome"];
        assert_eq!(outcome["outcome"], "ran", "{about}");
        // What the kernel called it while it was loaded. Presets are of a scheduler.
        let named = run["scheduler"].as_str().unwrap_or_default().to_owned();
        let mut all = self::schedulers().into_iter();
        let of_it = all.find(|s| presets(s).contains(&named)).unwrap_or(named);
        assert_eq!(outcome["ops_name"].as_str(), Some(&*of_it), "{about}");
        assert_eq!(outcome["command"]["status"], "exited", "{about}");
        assert_eq!(outcome["command"]["code"], 0, "{about}");
        assert_eq!(outcome["exit"]["kind_name"], "SCX_EXIT_UNREG", "{about}");
        assert_eq!(run["state_after"], "disabled", "{about}");
        assert_eq!(run["complaints"], Value::Array(Vec::new()), "{about}");
    }
    Passed { said, runs }
}

/// Not eprintln!, which the test harness keeps to itself when a test passes.
fn skip(why: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(std::io::stderr(), "skipped {test}: {why}");
}
