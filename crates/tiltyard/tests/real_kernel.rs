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

#[test]
fn results_carry_the_commands_scores_and_the_kernels_configuration() {
    let script =
        "echo score: transactions_per_s 532.1; echo score: dropped 7 lower; echo score: nonsense";
    let arguments = ["--no-events", "--", "sh", "-c", script];
    let Some(json) = in_vm(&[&["--format", "json"], &arguments[..]].concat()) else {
        return;
    };
    let all: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let rows = all["comparison"]["rows"].as_array().unwrap();
    let rows: Vec<String> = rows
        .iter()
        .map(|row| {
            format!(
                "{} {} {}",
                row["metric"], row["better"], row["cells"][0]["median"]
            )
        })
        .collect();
    assert_eq!(
        rows[1..],
        [
            r#""transactions" "higher" 532.1"#,
            r#""dropped" "lower" 7.0"#
        ]
    );
    let config = &all["report"]["kernel_config"];
    assert_eq!(config["options"]["SCHED_CLASS_EXT"], "y", "{config}");
    assert_eq!(config["sha256"].as_str().map(str::len), Some(64));
    assert!(all["report"]["load_percent"].is_u64());

    let table = in_vm(&arguments).expect("as before");
    let text = String::from_utf8_lossy(&table.stdout);
    assert!(
        text.contains("transactions") && text.contains("532 /s"),
        "{text}"
    );
    assert!(
        text.contains("not understood: \"score: nonsense\""),
        "{text}"
    );
    assert!(text.contains(", configuration "), "{text}");
}

/// What came of a script in a guest whose kernel has sched_ext; what it prints goes to stderr.
fn in_guest(script: &str) -> Option<Output> {
    in_vm(&["--no-events", "--", "sh", "-c", script])
}

/// What came of one round under the kernel's own scheduler, with these further arguments.
fn in_vm(arguments: &[&str]) -> Option<Output> {
    let check = Command::new(TILTYARD).args(["kernel", "--check"]).output();
    if !check.expect("tiltyard starts").status.success() {
        // Not eprintln!, which the test harness keeps to itself when a test passes.
        let _ = writeln!(std::io::stderr(), "skipped: no guest can be booted here");
        return None;
    }
    let output = Command::new(TILTYARD)
        .args(["kernel", "--vm", "-s", "default", "--rounds", "1"])
        .args(arguments)
        .env("TILTYARD", TILTYARD)
        .output();
    Some(output.expect("tiltyard starts"))
}
