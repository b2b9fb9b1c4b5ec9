// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard kernel` on the machine at hand, which here is a guest that it boots itself: what is loaded goes with the
//! process that loaded it, however that ends. Skips, with a word why, where no guest can be booted.

use std::io::Write;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::sample;

const TILTYARD: &str = env!("CARGO_BIN_EXE_tiltyard");

/// Ends Tiltyard by each signal while fifo is loaded for the second time, and checks what is left: how it ended, the
/// state of sched_ext, how many of the command's processes (a dead one that nobody has asked after is none), and the
/// result file. A shell's background job would not hear SIGINT; a lone SIGSEGV is taken by Rust's handler.
const SCRIPT: &str = r#"
await() { n=0; until eval "$1" || [ $n = 300 ]; do n=$((n+1)); sleep 0.1; done; }
state() { cat /sys/kernel/sched_ext/state; }
sleeps() { cat /proc/[0-9]*/stat | grep -c '(sleep) [^Z]'; }
for signal in KILL TERM INT ABRT SEGV; do
    rm -f /tmp/out.json /tmp/second
    env --default-signal=INT $TILTYARD kernel -s fifo --rounds 5 --no-events --out /tmp/out.json -- \
        sh -c 'test -e /tmp/second && { sleep 1234 & wait; }; touch /tmp/second' &
    await 'grep -qs state_after /tmp/out.json && [ "$(sleeps)" = 1 ]'
    echo $signal before: $(state)
    kill -$signal $!
    [ $signal = SEGV ] && sleep 0.3 && kill -$signal $! 2>/dev/null
    wait $!
    echo $signal code $?
    await '[ "$(state)" = disabled ] && [ "$(sleeps)" = 0 ]'
    echo $signal after: $(state) $(sleeps)
    echo $signal says: $(grep -m1 cut_short /tmp/out.json) $(grep -c state_after /tmp/out.json)
done
"#;

#[test]
fn however_tiltyard_ends_the_kernels_own_scheduler_is_back_and_the_result_says_so() {
    let Some(output) = in_guest(SCRIPT) else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stderr);
    let still = r#""cut_short": "still running when this was written", 1"#;
    // If it could still act, the interrupted run is reported, too.
    let interrupted = |signal| format!(r#""cut_short": "interrupted by {signal}", 2"#);
    for (signal, code, says) in [
        ("KILL", 137, still.to_owned()),
        ("TERM", 130, interrupted("SIGTERM")),
        ("INT", 130, interrupted("SIGINT")),
        ("ABRT", 134, still.to_owned()),
        ("SEGV", 139, still.to_owned()),
    ] {
        for line in [
            "before: enabled".to_owned(),
            format!("code {code}"),
            "after: disabled 0".to_owned(),
            format!("says: {says}"),
        ] {
            assert!(
                text.contains(&format!("{signal} {line}\n")),
                "{line}\n{text}"
            );
        }
    }
}

/// Two runs in a guest, of which the second does not end by itself.
struct Unfinished {
    tiltyard: Child,
    qemu: libc::pid_t,
    out: tempfile::NamedTempFile,
}

impl Unfinished {
    /// When the first run is reported. `second` is what the command does there.
    fn start(second: &str) -> Option<Unfinished> {
        let script = format!("[ $(cat /sys/kernel/sched_ext/state) = disabled ] || {second}");
        let out = tempfile::NamedTempFile::new().unwrap();
        let mut command = vm(&["-s", "default,fifo"])?;
        command.arg("--out").arg(out.path());
        command.args(["--", "sh", "-c", &script]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let tiltyard = command.spawn().unwrap();
        let mut this = Unfinished {
            tiltyard,
            qemu: 0,
            out,
        };
        let give_up = Instant::now() + Duration::from_secs(180);
        while this.runs() == 0 {
            assert!(Instant::now() < give_up, "no run was reported");
            assert!(this.tiltyard.try_wait().unwrap().is_none(), "it runs");
            std::thread::sleep(Duration::from_millis(50));
        }
        let threads = format!("/proc/{}/task", this.tiltyard.id());
        let children = std::fs::read_dir(threads).unwrap().map(|thread| {
            std::fs::read_to_string(thread.unwrap().path().join("children")).unwrap_or_default()
        });
        this.qemu = children.collect::<String>().trim().parse().unwrap();
        Some(this)
    }

    /// The result file; it is whole whenever it is read.
    fn result(&self) -> serde_json::Value {
        let text = std::fs::read_to_string(self.out.path()).unwrap();
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn runs(&self) -> usize {
        let result = self.result();
        result["report"]["runs"].as_array().map_or(0, Vec::len)
    }

    fn send(&self, signal: libc::c_int, to_qemu: bool) {
        let tiltyard = self.tiltyard.id() as libc::pid_t;
        let pid = if to_qemu { self.qemu } else { tiltyard };
        // SAFETY: a system call without pointers.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    /// Waits for the end. The exit code (none after a signal), why it was cut short, what it printed, and what is
    /// left of the events. QEMU is gone, and the first run is reported.
    fn end(self) -> (Option<i32>, String, String, usize) {
        let (out, qemu) = (self.out, self.qemu);
        let output = self.tiltyard.wait_with_output().unwrap();
        let qemu = format!("/proc/{qemu}/cmdline");
        let is_there = || std::fs::read(&qemu).is_ok_and(|line| !line.is_empty());
        for _ in 0..100 {
            if is_there() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        assert!(!is_there(), "QEMU is left");
        let text = std::fs::read_to_string(out.path()).unwrap();
        let result: serde_json::Value = serde_json::from_str(&text).unwrap();
        let runs = result["report"]["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 1, "{runs:#?}");
        assert_eq!(runs[0]["state_after"], "disabled");
        let why = result["cut_short"].as_str().unwrap().to_owned();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let recorded = result["recorded"].as_array().unwrap().len();
        (output.status.code(), why, printed, recorded)
    }
}

#[test]
fn what_was_whole_is_kept_when_a_guest_is_interrupted() {
    if !sample::includes(2, 5) {
        return;
    }
    let Some(unfinished) = Unfinished::start("exec sleep 1234") else {
        return;
    };
    unfinished.send(libc::SIGINT, false);
    let (code, why, printed, recorded) = unfinished.end();
    assert_eq!(code, Some(130), "{printed}");
    assert_eq!(why, "interrupted by SIGINT");
    assert_eq!(recorded, 1, "the events of the first run");
    assert!(
        printed.contains("Cut short  interrupted by SIGINT\n"),
        "{printed}"
    );
}

#[test]
fn what_was_whole_is_kept_when_a_guest_ends_suddenly() {
    if !sample::includes(3, 5) {
        return;
    }
    let Some(unfinished) = Unfinished::start("exec sleep 1234") else {
        return;
    };
    unfinished.send(libc::SIGKILL, true);
    let (code, why, printed, recorded) = unfinished.end();
    assert_eq!(code, Some(7), "{printed}");
    // The first run is reported before the second begins, so the signal may arrive between the two.
    let during = why.strip_prefix("QEMU ended (signal: 9 (SIGKILL)) ");
    let during = during.unwrap_or_else(|| panic!("{why}"));
    assert!(
        during.starts_with("under fifo") || during.starts_with("after default"),
        "{why}"
    );
    assert!(printed.contains("Cut short  QEMU ended"), "{printed}");
    assert_eq!(recorded, 1, "the events of the first run");

    let panic = "echo c > /proc/sysrq-trigger";
    let Some(unfinished) = Unfinished::start(panic) else {
        return;
    };
    let (code, why, printed, recorded) = unfinished.end();
    assert_eq!((code, recorded), (Some(7), 1), "{printed}");
    assert!(
        why.contains("Kernel panic - not syncing: sysrq triggered crash"),
        "{why}"
    );
}

#[test]
fn what_was_whole_is_kept_when_tiltyard_is_killed() {
    if !sample::includes(4, 5) {
        return;
    }
    let Some(unfinished) = Unfinished::start("exec sleep 1234") else {
        return;
    };
    unfinished.send(libc::SIGKILL, false);
    let (code, why, ..) = unfinished.end();
    assert_eq!(code, None);
    assert_eq!(why, "still running when this was written");
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
    let out = tempfile::NamedTempFile::new().unwrap();
    let Some(mut command) = vm(&["-s", "default", "--no-events", "--out"]) else {
        return;
    };
    let table = command.arg(out.path()).args(["--", "sh", "-c", script]);
    let table = table.output().unwrap();
    let json = std::fs::read(out.path()).unwrap();
    let all: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
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

/// On the machine at hand, which is a guest that has limits, too.
#[test]
fn a_command_takes_no_more_than_it_may() {
    let script = r#"
        echo outside: $(nproc) CPUs
        $TILTYARD kernel -s fifo --rounds 1 --no-events --limit-cpus 1 --limit-memory 50 -- sh -c '
            echo inside: $(nproc) CPU
            head -c 100M /dev/zero | tail > /dev/null
            echo survived inside'
        echo code $?, groups: $(ls -d /sys/fs/cgroup/tiltyard-*)
        head -c 100M /dev/zero | tail > /dev/null
        echo survived outside"#;
    let limits = ["--limit-cpus", "2", "--limit-memory", "400"];
    let Some(mut command) = vm(&["--cpus", "3", "-s", "default", "--no-events"]) else {
        return;
    };
    command.args(limits).args(["--", "sh", "-c", script]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    for line in [
        "outside: 2 CPUs",
        "inside: 1 CPU",
        "tiltyard: fifo: command killed: over the limit of 50 MiB of memory",
        "code 6, groups: /sys/fs/cgroup/tiltyard-1",
        "survived outside",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line}\n{text}");
    }
    assert!(!text.contains("\nsurvived inside\n"), "{text}");
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
    // What a kernel gets by default.
    assert!(default.contains(" ule starve_limit_ms=20000\n"), "{table}");
    assert!(!deviation(default), "{table}");
}

/// `tiltyard kernel --vm` with these arguments, one round; none where no guest can be booted.
pub fn vm(arguments: &[&str]) -> Option<Command> {
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

/// The result of a script in a guest whose kernel has sched_ext; its output goes to stderr.
fn in_guest(script: &str) -> Option<Output> {
    let mut command = vm(&["-s", "default", "--no-events", "--", "sh", "-c", script])?;
    Some(command.output().expect("tiltyard starts"))
}
