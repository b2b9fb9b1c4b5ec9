// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard kernel` on the machine at hand, which here is a guest that it boots itself: what is loaded goes with the
//! process that loaded it, however that ends. Skips, with a word why, where no guest can be booted.

use std::io::Write;
use std::process::{Command, Output};

const TILTYARD: &str = env!("CARGO_BIN_EXE_tiltyard");

/// Loads fifo for a long command, ends Tiltyard by the signal named, and tells what is left: the state of sched_ext,
/// and how many of the command's processes (a dead one that nobody has asked after is none).
const SCRIPT: &str = r#"
state() { cat /sys/kernel/sched_ext/state; }
await() { n=0; until [ "$(state)" = $1 ] || [ $n = 300 ]; do n=$((n+1)); sleep 0.1; done; }
for signal in KILL TERM; do
    $TILTYARD kernel -s fifo --rounds 1 --no-events -- sleep 1234 &
    await enabled
    echo $signal $(state)
    kill -$signal $!
    await disabled
    echo $signal $(state) $(cat /proc/[0-9]*/stat | grep -c '(sleep) [^Z]')
done
"#;

#[test]
fn however_tiltyard_ends_the_kernels_own_scheduler_is_back() {
    let Some(output) = in_guest(SCRIPT) else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stderr);
    for signal in ["KILL", "TERM"] {
        assert!(text.contains(&format!("{signal} enabled")), "{text}");
        assert!(text.contains(&format!("{signal} disabled 0")), "{text}");
    }
}

#[test]
fn a_second_scheduler_is_refused_and_the_first_stays() {
    let script = r#"
        $TILTYARD kernel -s fifo --rounds 1 --no-events -- sh -c "
            $TILTYARD kernel -s rr --rounds 1 --no-events -- true; echo code $?; cat /sys/kernel/sched_ext/root/ops"
    "#;
    let script = script.replace("code $?", r"code \$?");
    let Some(output) = in_guest(&script) else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("a sched_ext scheduler is loaded already"),
        "{text}"
    );
    assert!(text.contains("code 7\nfifo"), "{text}");
    assert!(output.status.success(), "{text}");
}

/// 20 tasks that run 1 ms each 9 ms are more than one CPU can do; the hog turns batch after 0.3 s.
const FLOOD: &str = r#"{ "tasks": {
    "hog": { "run": 60000000 },
    "sleeper": { "instance": 20, "loop": -1, "run": 1000, "sleep": 8000 } } }"#;

#[test]
fn a_starving_task_runs_in_time_and_the_run_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let workload = folder.path().join("flood.json");
    std::fs::write(&workload, FLOOD).unwrap();
    let schedulers = "ule_source:starve_limit_ms=1000,ule_source:starve_limit_ms=0,ule_source";
    let arguments = ["--cpus", "1", "--no-events", "--duration", "6s", "-w"];
    let Some(mut command) = vm(&["-s", schedulers]) else {
        return;
    };
    command.args(arguments).arg(&workload);
    let table = command.output().unwrap();
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let [guarded, free, default] = &table.split("\nule_source").collect::<Vec<_>>()[1..] else {
        panic!("{table}");
    };
    let deviation = |part: &str| part.contains(": starving tasks were run early (nr_rescued)");
    assert!(deviation(guarded), "{table}");
    assert!(!deviation(free), "{table}");
    assert!(free.contains(" ule starve_limit_ms=0\n"), "{table}");
    // What a kernel gets without being told.
    assert!(default.contains(" ule starve_limit_ms=20000\n"), "{table}");
    assert!(!deviation(default), "{table}");
}

/// `tiltyard kernel --vm` with these arguments, one round; none where no guest can be booted.
fn vm(arguments: &[&str]) -> Option<Command> {
    let check = Command::new(TILTYARD).args(["kernel", "--check"]).output();
    if !check.expect("tiltyard starts").status.success() {
        // Not eprintln!, which the test harness keeps to itself when a test passes.
        let _ = writeln!(std::io::stderr(), "skipped: no guest can be booted here");
        return None;
    }
    let mut command = Command::new(TILTYARD);
    command.args(["kernel", "--vm", "--rounds", "1"]);
    command.args(arguments).env("TILTYARD", TILTYARD);
    Some(command)
}

/// What came of a script in a guest whose kernel has sched_ext; what it prints goes to stderr.
fn in_guest(script: &str) -> Option<Output> {
    let mut command = vm(&["-s", "default", "--no-events", "--", "sh", "-c", script])?;
    Some(command.output().expect("tiltyard starts"))
}
