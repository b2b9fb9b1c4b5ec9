// SPDX-License-Identifier: GPL-2.0-or-later
//! Schedulers as a beginner writes them: each mistake ends its own run with a line that names it, an exit code of its
//! own, and no figures; the others of the command are compared as ever. Runs need clang-19.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use assert_cmd::Command;
use tempfile::TempDir;

/// A whole scheduler but for what a test breaks.
const SOURCE: &str = r#"// SPDX-License-Identifier: GPL-2.0-or-later
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

DECLARATIONS

void BPF_STRUCT_OPS(mine_enqueue, struct task_struct *p, u64 enq_flags)
{
	ENQUEUE
	scx_bpf_dsq_insert(p, 0, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(mine_dispatch, s32 cpu, struct task_struct *prev)
{
	DISPATCH
	scx_bpf_dsq_move_to_local(0, 0);
}

void BPF_STRUCT_OPS(mine_running, struct task_struct *p)
{
	RUNNING
}

s32 BPF_STRUCT_OPS_SLEEPABLE(mine_init)
{
	return scx_bpf_create_dsq(0, -1);
}

void BPF_STRUCT_OPS(mine_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(mine_ops, .enqueue = (void *)mine_enqueue, .dispatch = (void *)mine_dispatch,
	       .running = (void *)mine_running, .init = (void *)mine_init,
	       .exit = (void *)mine_exit, .name = "mine");
"#;

struct Mine {
    _folder: TempDir,
    path: PathBuf,
}

/// `SOURCE` with code in the places that are named.
fn mine(places: &[(&str, &str)]) -> Mine {
    let mut source = SOURCE.to_owned();
    for place in ["DECLARATIONS", "ENQUEUE", "DISPATCH", "RUNNING"] {
        let code = places.iter().find(|(p, _)| *p == place);
        source = source.replacen(place, code.map_or("", |(_, code)| code), 1);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.bpf.c");
    fs::write(&path, source).unwrap();
    Mine {
        _folder: folder,
        path,
    }
}

impl Mine {
    /// Beside fifo, for a second; more arguments may follow.
    fn run(&self, more: &[&str]) -> Output {
        self.run_beside(",fifo", more)
    }

    /// The same beside others.
    fn run_beside(&self, others: &str, more: &[&str]) -> Output {
        let schedulers = format!("{}{others}", self.path.display());
        Command::cargo_bin("tiltyard")
            .unwrap()
            .env_remove("TILTYARD_DATA")
            .args([
                "run",
                "-w",
                "mix-hog-sleepers",
                "-m",
                "smp2",
                "--duration",
                "1s",
            ])
            .args(["-s", &schedulers])
            .args(more)
            .output()
            .unwrap()
    }

    /// Fails with this code, whose line has these words; fifo's figures are there, and nothing of this one's.
    #[track_caller]
    fn fails(&self, code: i32, words: &[&str]) {
        let output = self.run(&[]);
        let (stdout, stderr) = texts(&output);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        for word in words {
            assert!(stderr.contains(word), "no \"{word}\" in: {stderr}");
        }
        assert!(stdout.contains("fifo"), "{stdout}");
        assert!(
            !stdout.contains("mine.bpf.c ") && stdout.contains("1 run,"),
            "{stdout}"
        );
    }
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn one_that_unloads_itself_is_not_compared() {
    let leaver = mine(&[(
        "RUNNING",
        r#"scx_bpf_exit(0xdeadbeefULL, "%s is\nenough", p->comm);"#,
    )]);
    leaver.fails(
        10,
        &[
            "scheduler mine exited by itself",
            "unregistered from BPF",
            "0xdeadbeef",
            r"is\nenough",
            "of the run",
        ],
    );
}

#[test]
fn one_that_never_dispatches_has_no_figures() {
    let never = mine(&[("DISPATCH", "return;")]);
    never.fails(
        11,
        &[
            "never ran",
            "DSQ 0 was filled and never consumed",
            "was idle",
        ],
    );
}

/// Hogs keep all CPUs busy.
#[test]
fn one_that_loses_a_task_has_no_figures() {
    let loses = mine(&[("ENQUEUE", "if (p->comm[1] == 'l')\n\t\treturn;")]);
    let hogs = r#"{"tasks":{"hog":{"instance":4}}}"#;
    let output = loses.run(&["--patch", hogs]);
    let (_, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(11), "{stderr}");
    let words = "never ran: sleeper-0";
    assert!(
        stderr.contains(words) && stderr.contains("into no DSQ"),
        "{stderr}"
    );
    assert!(!stderr.contains("was idle"), "{stderr}");
}

/// A terminal would obey what a message has in it.
#[test]
fn control_characters_in_messages_are_shown() {
    let loud = mine(&[("RUNNING", r#"scx_bpf_error("\x1b[31mred");"#)]);
    loud.fails(5, &[r"\u{1b}[31mred"]);
}

#[test]
fn one_that_only_schedules_is_ejected() {
    let livelock = mine(&[(
        "RUNNING",
        "scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);",
    )]);
    livelock.fails(
        5,
        &["watchdog failed to check in", "ops.running kicked a CPU"],
    );
}

/// A wild write ends its own run, with the line; the process, and fifo's run in it, go on.
#[test]
fn one_that_writes_out_of_bounds_fails_alone() {
    let wild = mine(&[
        (
            "DECLARATIONS",
            "u64 seen[4];\nvolatile u64 far = 1ULL << 30;",
        ),
        ("RUNNING", "seen[far] = 1;"),
    ]);
    wild.fails(
        5,
        &[
            "crashed in ops.running()",
            "writes outside of seen",
            "(mine.bpf.c:",
        ],
    );
    let of_the_kernel = mine(&[("RUNNING", "*(u64 *)((u64)p + 4096) = 1;")]);
    of_the_kernel.fails(5, &["crashed in ops.running()", "which is not its own"]);
}

/// The kernel's words, the function by name, and in JSON everything else.
#[test]
fn failures_are_in_the_json_too() {
    let misplaced = mine(&[("RUNNING", "scx_bpf_dsq_insert(p, 0, SCX_SLICE_DFL, 0);")]);
    let output = misplaced.run(&["--format", "json"]);
    assert_eq!(output.status.code(), Some(5));
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(all["runs"].as_array().unwrap().len(), 1);
    let how = &all["failures"][0]["how"];
    assert_eq!(how["exit_code"], 5);
    assert_eq!(how["kind"], "runtime error");
    assert_eq!(how["scheduler_name"], "mine");
    let message = how["message"].as_str().unwrap();
    assert!(
        message.contains(
            "scx_bpf_dsq_insert() called from an operation that does not allow it, ops.running()"
        ),
        "{message}"
    );
    assert!(how["dump"].as_str().unwrap().contains("scx_state=ENABLED"));
}

/// Beside one that runs; and alone.
#[test]
fn a_scheduler_that_does_not_build_is_in_the_json_too() {
    let broken = mine(&[("RUNNING", "no_such_function();")]);
    for (others, runs) in [("", 0), (",fifo", 1)] {
        let output = broken.run_beside(others, &["--format", "json"]);
        assert_eq!(output.status.code(), Some(4));
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(all["runs"].as_array().unwrap().len(), runs);
        let failure = &all["failures"][0];
        assert_eq!(failure["scheduler"], "mine");
        assert_eq!(failure["how"]["exit_code"], 4);
        let message = failure["how"]["message"].as_str().unwrap();
        assert!(message.contains("no_such_function"), "{message}");
    }
}

/// JSON has each of them.
#[test]
fn failures_that_differ_in_numbers_only_are_told_once() {
    let misplaced = mine(&[(
        "RUNNING",
        r#"if (p->comm[0] != 'h')
		scx_bpf_error("at %llu", scx_bpf_now());"#,
    )]);
    let output = misplaced.run(&["--seeds", "3", "--format", "json"]);
    let (stdout, stderr) = texts(&output);
    assert_eq!(stderr.matches("Repeat").count(), 1, "{stderr}");
    assert!(
        stderr.contains("mine: the same with seeds 2, 3\n"),
        "{stderr}"
    );
    let all: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(all["failures"].as_array().unwrap().len(), 3);
}

#[test]
fn what_user_space_would_have_done_is_missing() {
    let unset = mine(&[(
        "DECLARATIONS",
        "const volatile u32 nr_online_cpus = 1;\n\
         const volatile bool smt_enabled = false;\n\
         u32 seen;\n\
         SEC(\"syscall\")\n\
         int set_up(void *ctx)\n{\n\tseen = nr_online_cpus + smt_enabled;\n\treturn 0;\n}\n",
    )]);
    let (_, stderr) = texts(&unset.run(&[]));
    for words in [
        "programs never called: set_up (SEC(\"syscall\"))",
        "nr_online_cpus = 1, but smp2 has 2: set it with -s",
    ] {
        assert!(stderr.contains(words), "no \"{words}\" in: {stderr}");
    }
    assert!(!stderr.contains("smt_enabled"), "smp2 has no SMT: {stderr}");
    let (_, quiet) = texts(&mine(&[]).run(&[]));
    // A hint about the verifier is no warning about this scheduler.
    let hint = |line: &str| line.contains("never verified by a kernel");
    assert!(quiet.lines().all(hint), "{quiet}");
}

#[test]
fn warnings_of_the_compiler_are_passed_on() {
    let untidy = mine(&[("RUNNING", "int left_over;")]);
    let mut build = Command::cargo_bin("tiltyard").unwrap();
    let built = build.arg("build").arg(&untidy.path).output().unwrap();
    let mut several = Command::cargo_bin("tiltyard").unwrap();
    let several = several.args(["run", "-w", "pingpong,fibo", "--duration", "20ms", "-s"]);
    let several = several.arg(&untidy.path).output().unwrap();
    for output in [untidy.run(&[]), built, several] {
        let (_, stderr) = texts(&output);
        let told = "mine.bpf.c:24:6: warning: unused variable 'left_over'";
        assert_eq!(stderr.matches(told).count(), 1, "{stderr}");
    }
}

/// A shipped scheduler with values that mean nothing to it.
#[test]
fn tunables_out_of_range_are_named() {
    for (scheduler, says) in [
        ("eevdf:scaling=9", "base_slice_ns=700000 scaling=9; use"),
        ("eevdf:base_slice_ns=0", "base_slice_ns=0 scaling=1; use"),
        (
            "cfs:min_granularity_ns=0",
            "min_granularity_ns=0 wakeup_granularity_ns=1000000; use",
        ),
        (
            "cfs:scaling=3",
            "nr_latency=8 scaling=3 sleeper_credit=1; use",
        ),
        ("cfs:tick_hz=0", "tick_hz=0 busy_factor=32; use"),
        ("bfs:iso_cpu=101", "version=311 iso_cpu=101; use"),
        ("bfs:rr_interval=0", "rr_interval=0 ms; use"),
    ] {
        let mut command = Command::cargo_bin("tiltyard").unwrap();
        let output = command
            .args(["run", "-w", "hackbench", "-s", scheduler])
            .output();
        let (_, stderr) = texts(&output.unwrap());
        assert!(stderr.contains(says), "{stderr}");
    }
}

/// Files that show a comparison need a successful run; without one, the command says that they were not written.
#[test]
fn files_that_a_failed_command_does_not_write_are_named() {
    let leaver = mine(&[("RUNNING", "scx_bpf_exit(1, \"bye\");")]);
    let events = leaver.path.with_file_name("events");
    let mut command = Command::cargo_bin("tiltyard").unwrap();
    command.env_remove("TILTYARD_DATA");
    command
        .args(["run", "-w", "mix-hog-sleepers", "-s"])
        .arg(&leaver.path);
    let output = command.arg("--events").arg(&events).output().unwrap();
    assert_eq!(output.status.code(), Some(10));
    let (_, stderr) = texts(&output);
    let line = format!(
        "{}: not written, because no run succeeded",
        events.display()
    );
    assert!(stderr.contains(&line), "{stderr}");
    assert!(!events.exists());
}

/// The failed run may have mechanisms switched off, which `tiltyard run` cannot repeat, so the whole command is printed.
#[test]
fn an_explanation_that_fails_names_the_run_and_the_command() {
    let leaver = mine(&[("RUNNING", "scx_bpf_exit(1, \"bye\");")]);
    let schedulers = format!("{},fifo", leaver.path.display());
    let mut command = Command::cargo_bin("tiltyard").unwrap();
    command.env_remove("TILTYARD_DATA");
    command.args(["explain", "-w", "mix-hog-sleepers", "--duration", "1s"]);
    let output = command.args(["-s", &schedulers]).output().unwrap();
    assert_eq!(output.status.code(), Some(10));
    let (_, stderr) = texts(&output);
    assert!(
        stderr.contains("mine, seed 1: scheduler mine exited"),
        "{stderr}"
    );
    let repeat = format!("\nRepeat  tiltyard explain -w mix-hog-sleepers -s {schedulers}");
    assert!(stderr.contains(&repeat), "{stderr}");
}

/// Both files have all up to the failure, where people look for its cause.
#[test]
fn a_run_that_fails_leaves_its_trace_and_what_was_printed() {
    let talker = mine(&[
        ("DECLARATIONS", "u32 count;"),
        (
            "ENQUEUE",
            "bpf_printk(\"task %d: %s\\n\", p->pid, \"queued\");\n\tif (++count == 4)\n\t\tscx_bpf_error(\"four\");",
        ),
    ]);
    let folder = talker.path.parent().unwrap();
    let (trace, printk) = (folder.join("t.pftrace"), folder.join("p.txt"));
    let run = |more: &[&std::ffi::OsStr]| {
        let mut command = Command::cargo_bin("tiltyard").unwrap();
        command.env_remove("TILTYARD_DATA");
        command.args(["run", "-w", "mix-hog-sleepers", "-s"]);
        command.arg(&talker.path).args(more).output().unwrap()
    };
    let hinted = run(&[]);
    let (_, stderr) = texts(&hinted);
    assert!(stderr.contains("printed with bpf_printk(): 4;"), "{stderr}");
    let output = run(&[
        "--trace".as_ref(),
        trace.as_ref(),
        "--printk".as_ref(),
        printk.as_ref(),
    ]);
    assert_eq!(output.status.code(), Some(5));
    let (_, stderr) = texts(&output);
    assert!(!stderr.contains("printed with bpf_printk()"), "{stderr}");
    for (name, file) in [("Trace", &trace), ("Printk", &printk)] {
        let line = format!("\n{name:<8}{}\n", file.display());
        assert!(stderr.contains(&line), "no {line:?} in: {stderr}");
    }
    let lines = fs::read_to_string(printk).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(
        lines[1].starts_with("[000] 0.") && lines[1].ends_with(": task 2: queued"),
        "{lines:?}"
    );
    let trace = fs::read(trace).unwrap();
    let written = |words: &str| trace.windows(words.len()).any(|w| w == words.as_bytes());
    assert!(written("bpf_printk, CPU 0") && written("task 2: queued"));
}
