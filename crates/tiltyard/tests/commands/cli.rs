// SPDX-License-Identifier: GPL-2.0-or-later
//! What a user sees: outputs, errors, exit codes. Runs need clang-19.

use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;

fn tiltyard() -> Command {
    let mut command = Command::cargo_bin("tiltyard").unwrap();
    command.env_remove("TILTYARD_DATA");
    command
}

/// A short run that succeeds: add what is to be tested.
fn short_run() -> Command {
    let mut command = tiltyard();
    command.args([
        "run",
        "-w",
        "mix-hog-sleepers",
        "-s",
        "fifo",
        "--duration",
        "200ms",
    ]);
    command
}

/// Runs with these arguments and expects this exit code and one line on stderr with all these words.
#[track_caller]
fn refused(args: &[&str], code: i32, words: &[&str]) {
    let output = tiltyard().args(args).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "no \"{word}\" in: {stderr}");
    }
}

fn files_in(folder: &Path) -> usize {
    folder.read_dir().unwrap().count()
}

#[test]
fn blank_names_are_refused() {
    for (flag, args) in [
        ("--workload", ["run", "-s", "fifo", "-w", ""]),
        ("--workload", ["exec", "--seed", "1", "-w", " "]),
        ("--machine", ["run", "-sfifo", "-wfibo", "-m", " "]),
    ] {
        refused(&args, 2, &[flag, "a name is empty"]);
    }
}

/// Before anything runs, and not once for each scheduler.
#[test]
fn a_task_bound_to_absent_cpus_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bound.json");
    let text = r#"{ "tasks": { "a": { "loop": 1, "run": 1000, "cpus": [1, 2] } } }"#;
    std::fs::write(&file, text).unwrap();
    for (machine, code) in [("uni", 2), ("smp2", 0)] {
        let mut command = tiltyard();
        let run = command.args(["run", "-s", "fifo,rr", "-m", machine, "-w"]);
        let assert = run.arg(&file).assert().code(code);
        if code != 0 {
            let out = assert.get_output().stderr.clone();
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(text.contains("task a is bound to CPUs [1, 2], and uni has 1"));
        }
    }
}

#[test]
fn lists_name_what_is_shipped() {
    tiltyard()
        .args(["list", "machines"])
        .assert()
        .success()
        .stdout(contains("opteron1").and(contains("default")));
    tiltyard()
        .args(["list", "schedulers"])
        .assert()
        .success()
        .stdout(contains("fifo"));
    tiltyard()
        .args(["list", "claims"])
        .assert()
        .success()
        .stdout(contains("atc18.tab2.tps-ratio").and(contains("bfs09.")));
    let workloads = tiltyard()
        .args(["list", "workloads", "--format", "json"])
        .output()
        .unwrap();
    let entries: Vec<serde_json::Value> = serde_json::from_slice(&workloads.stdout).unwrap();
    assert!(
        entries
            .iter()
            .any(|e| e["name"] == "fibo-sysbench-1c" && !e["about"].as_str().unwrap().is_empty())
    );
    assert!(entries.iter().any(|e| e["name"] == "probe/micro-wake"));
}

/// A slip in the command line is not worth the runs of the other schedulers.
#[test]
fn a_tunable_that_is_none_ends_it_before_anything_runs() {
    for (typed, line) in [
        ("fifo,fifo:typo=0", "fifo:typo=0: no tunable typo"),
        (
            "fifo,fifo:slice_ms=-5",
            "does not fit tunable 'slice_ms': it takes 0 to ",
        ),
        // Neither the machine's values nor the switch of the probes.
        ("fifo,rr:typo=0", "no tunable typo; there are slice_ms\n"),
        ("fifo,ule:typo=0", "mode, preempt_thresh, prevcpu"),
        ("fifo,eevdf:next_buddy=2", "it takes true or false"),
        (
            "fifo,ule:nr_rescued=1",
            "tunables are declared const volatile",
        ),
    ] {
        tiltyard()
            .args(["run", "-w", "hackbench", "-s", typed])
            .assert()
            .code(2)
            .stdout("")
            .stderr(contains(line));
    }
}

#[test]
fn applications_say_what_they_are_and_what_they_need() {
    tiltyard()
        .args(["kernel", "--list"])
        .env("PATH", "/nowhere")
        .assert()
        .success()
        .stdout(
            contains("missing here: hackbench; install the packages rt-tests")
                .and(contains(
                    "missing here: schbench; not packaged in Debian: build it from https://",
                ))
                .and(contains(
                    "sizes small, full, full128; prints transactions_per_s",
                )),
        );
    let kernel = |arguments: [&'static str; 4]| [&["kernel"][..], &arguments].concat();
    refused(
        &kernel(["-s", "default", "-a", "hackbnch"]),
        2,
        &["did you mean hackbench?"],
    );
    refused(
        &kernel(["-s", "default", "-a", "gzip:huge"]),
        2,
        &["huge is no size", "small or full"],
    );
    refused(
        &kernel(["-s", "default", "-a", "hackbench:full128"]),
        2,
        &["full128 is no size"],
    );
    // Only what a command line names is in such a guest; an application is a script that calls others.
    let counted = "kernel --vm --icount --cpus 1 -s default -a gzip";
    let counted: Vec<&str> = counted.split(' ').collect();
    refused(&counted, 2, &["--application", "--icount"]);
    tiltyard()
        .args(kernel(["-s", "default", "-a", "rocksdb"]))
        .env("PATH", "/nowhere")
        .assert()
        .code(7)
        .stderr(contains(
            "--application rocksdb needs db_bench: install the packages rocksdb-tools",
        ));
}

#[test]
fn show_explains_all_of_a_kind_or_one() {
    tiltyard()
        .args(["show", "machines", "pack:2 [numa] core:4 pu:2"])
        .assert()
        .success()
        .stdout(contains("16 CPUs"));
    tiltyard()
        .args(["show", "workloads"])
        .assert()
        .success()
        .stdout(contains("hackbench"));
    tiltyard()
        .args(["show", "schedulers", "fifo"])
        .assert()
        .success()
        .stdout(contains("slice_ms"));
    tiltyard()
        .args(["show", "claims", "atc18.tab2.tps-*"])
        .assert()
        .success()
        .stdout(contains("Table 2").and(contains("tiltyard reproduce atc18.tab2.tps-ratio")));
    refused(
        &["show", "claims", "atc18.tab2.tps-ration"],
        2,
        &["atc18.tab2.tps-ratio"],
    );
}

#[test]
fn workloads_in_folders_have_short_names() {
    let shown = |name| {
        let output = tiltyard().args(["show", "workloads", name]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{name}");
        output.stdout
    };
    assert_eq!(shown("micro-wake"), shown("probe/micro-wake"));
    refused(
        &["run", "-w", "micro-wale", "-s", "fifo"],
        2,
        &["did you mean micro-wake?"],
    );
    refused(
        &["run", "-w", "probe/micro-wale", "-s", "fifo"],
        2,
        &["did you mean probe/micro-wake?"],
    );
}

#[test]
fn completions_and_man_page_know_the_subcommands() {
    for shell in ["bash", "zsh", "fish"] {
        tiltyard()
            .args(["completions", shell])
            .assert()
            .success()
            .stdout(contains("workload").and(contains("campaigns")));
    }
    tiltyard()
        .arg("man")
        .assert()
        .success()
        .stdout(contains("tiltyard\\-run(1)").and(contains(".SH SUBCOMMANDS")));
}

#[test]
fn what_is_typed_wrongly_is_named_with_the_way_out() {
    refused(
        &["run", "-w", "mix-hog-sleeper", "-s", "fifo"],
        2,
        &["mix-hog-sleeper", "did you mean mix-hog-sleepers?"],
    );
    refused(
        &["run", "-w", "pingpong", "-s", "fofo"],
        2,
        &["--scheduler fofo", "did you mean fifo?"],
    );
    refused(
        &["run", "-w", "pingpong", "-s", "fifo:slice_s=3"],
        2,
        &["slice_s", "did you mean slice_ms?"],
    );
    refused(
        &["run", "-w", "pingpong", "-s", "fifo:slice_ms=long"],
        2,
        &["slice_ms=long", "not a number"],
    );
    refused(
        &["run", "-w", "pingpong", "-s", "fifo", "-m", "opteron"],
        2,
        &["opteron", "opteron1"],
    );
    refused(
        &["run", "-w", "pingpong", "-s", "fifo", "-m", "pack:2 cave:1"],
        3,
        &["character 8", "cave"],
    );
    refused(
        &["run", "-w", "pingpong", "-s", "fifo", "--duration", "10"],
        2,
        &["--duration", "500ms"],
    );
    refused(
        &[
            "run",
            "-w",
            "pingpong",
            "-s",
            "fifo,rr",
            "--trace",
            "t.pftrace",
        ],
        2,
        &["--trace", "one scheduler"],
    );
    // Said at once, not after ten hours.
    refused(
        &[
            "run",
            "-w",
            "hackbench",
            "-s",
            "fifo",
            "--duration",
            "10h",
            "--report",
            "/nowhere/r.html",
        ],
        1,
        &["/nowhere/r.html"],
    );
    // What is about the guest alone is not ignored where there is none.
    for of_guest in [
        &["--icount"][..],
        &["--cpus", "4"],
        &["--memory", "512"],
        &["--accel", "kvm"],
        &["-m", "opteron32"],
        &["--kernel", "6.1"],
    ] {
        let arguments = [&["kernel", "-s", "fifo"], of_guest, &["--", "true"]].concat();
        refused(&arguments, 2, &["--vm"]);
    }
    refused(
        &["run", "-w", "pingpong", "-s", "fifo:slice_ms=5000000000"],
        2,
        &["5000000000", "slice_ms"],
    );
}

/// The error message cannot be written; the exit code still reports the failure.
#[test]
fn the_exit_code_needs_no_standard_error() {
    for (arguments, code) in [
        (&["run", "-w", "fibo", "-s", "fifo:foo=1"][..], 2),
        (&["run", "-w", "fibo", "-s", "nosuch"], 2),
        (&["run", "-w", "/nowhere.json", "-s", "fifo"], 2),
        (&["--nosuch"], 2),
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tiltyard"));
        let full = std::fs::File::options().write(true).open("/dev/full");
        command.args(arguments).stderr(full.unwrap());
        assert_eq!(
            command.status().unwrap().code(),
            Some(code),
            "{arguments:?}"
        );
    }
}

#[test]
fn help_that_cannot_be_written_is_no_success() {
    for arguments in [&["--help"][..], &["run", "--help"], &["--version"]] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tiltyard"));
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = command.args(arguments).stdout(full.unwrap()).output();
        let output = output.unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {line}");
        assert!(line.starts_with("tiltyard: standard output: cannot write"));
    }
}

#[test]
fn a_reader_that_stops_early_is_no_failure() {
    for arguments in [&["run", "--help"][..], &["list", "workloads"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tiltyard"));
        let output = command.args(arguments).stdout(writer).output().unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), line.as_str()), (Some(0), ""));
    }
}

/// File names are bytes, not text.
#[test]
fn a_name_that_is_no_utf8_is_an_error_and_no_crash() {
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::OsStr::from_bytes(b"w\xff.json");
    let mut command = tiltyard();
    let output = command.args(["run", "-s", "fifo", "-w"]).arg(name).output();
    assert_eq!(output.unwrap().status.code(), Some(2));
}

#[test]
fn bad_files_are_named_with_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    };
    let workload = file(
        "bad.json",
        "{\n \"tasks\" : { \"a\" : { \"ruhn\" : 5 } }\n}\n",
    );
    refused(
        &["run", "-w", &workload, "-s", "fifo"],
        3,
        &["bad.json:2:", "ruhn"],
    );
    let machine = file(
        "bad.toml",
        "description = \"x\"\ntopology = \"pu:1\"\ntick_hz = -3\n",
    );
    refused(
        &["run", "-w", "pingpong", "-s", "fifo", "-m", &machine],
        3,
        &["bad.toml:3:11", "tick_hz"],
    );
    let scheduler = file("bad.bpf.c", "int main(void) { return nothing; }\n");
    refused(
        &["run", "-w", "pingpong", "-s", &scheduler],
        4,
        &["bad.bpf.c", "undeclared"],
    );
}

#[test]
fn data_that_is_not_where_the_user_says_is_an_environment_error() {
    tiltyard()
        .args(["list", "machines"])
        .env("TILTYARD_DATA", "/nowhere")
        .assert()
        .code(7)
        .stderr(contains("TILTYARD_DATA"));
}

#[test]
fn a_run_prints_the_comparison_and_the_command_that_repeats_it() {
    let table = contains("mix-hog-sleepers on opteron1").and(contains(
        "tiltyard run -w mix-hog-sleepers -s fifo --duration 200ms",
    ));
    short_run().assert().success().stdout(table).stderr("");
}

#[test]
fn the_same_seed_gives_the_same_bytes_at_any_number_of_threads() {
    let json = |jobs: &str| {
        let output = short_run()
            .args(["--seeds", "3", "--format", "json", "--jobs", jobs])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    };
    let one = json("1");
    assert_eq!(one, json("3"));
    let all: serde_json::Value = serde_json::from_slice(&one).unwrap();
    let seeds: Vec<u64> = all["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["seed"].as_u64().unwrap())
        .collect();
    assert_eq!(seeds, [1, 2, 3]);
}

/// The walk "Add a scheduler" of CONTRIBUTING.md begins with a copy that decides as its original does.
#[test]
fn a_copy_of_fifo_under_another_name_decides_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("mine.bpf.c");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let fifo = std::fs::read_to_string(root.join("schedulers/fifo/fifo.bpf.c")).unwrap();
    std::fs::write(&source, fifo.replace("fifo", "mine")).unwrap();
    let both = format!("{},fifo", source.display());
    let mut command = tiltyard();
    command.args([
        "run",
        "-w",
        "mix-hog-sleepers",
        "-m",
        "smp2",
        "--duration",
        "1s",
    ]);
    let output = command
        .args(["--format", "json", "-s", &both])
        .output()
        .unwrap();
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(all["runs"][0]["scheduler"], "mine");
    assert_eq!(all["runs"][0]["trace_hash"], all["runs"][1]["trace_hash"]);
}

#[test]
fn twice_compares_two_runs() {
    short_run()
        .arg("--twice")
        .assert()
        .success()
        .stderr(contains("identical events"));
    short_run()
        .assert()
        .success()
        .stderr(contains("twice").not());
}

#[test]
fn outputs_are_written_whole_and_nothing_else_is() {
    let folder = tempfile::tempdir().unwrap();
    let (report, trace) = (
        folder.path().join("r.html"),
        folder.path().join("t.pftrace"),
    );
    short_run()
        .arg("--report")
        .arg(&report)
        .arg("--trace")
        .arg(&trace)
        .assert()
        .success();
    assert!(
        std::fs::read_to_string(&report)
            .unwrap()
            .trim_end()
            .ends_with("</html>")
    );
    assert!(std::fs::metadata(&trace).unwrap().len() > 1000);
    assert_eq!(files_in(folder.path()), 2);
}

/// Never puts a task anywhere: the watchdog must eject it.
const LOSES_TASKS: &str = r#"
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
void BPF_STRUCT_OPS(lose_enqueue, struct task_struct *p, u64 enq_flags) { }
SCX_OPS_DEFINE(lose_ops, .enqueue = (void *)lose_enqueue, .timeout_ms = 1000, .name = "lose");
"#;

#[test]
fn a_scheduler_that_fails_is_told_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("lose.bpf.c");
    std::fs::write(&source, LOSES_TASKS).unwrap();
    let (loser, report) = (source.to_string_lossy(), folder.path().join("r.html"));
    let mut both = tiltyard();
    both.args([
        "run",
        "-w",
        "mix-hog-sleepers",
        "--duration",
        "5s",
        "--seed",
        "7",
        "-s",
        &format!("{loser},fifo"),
    ]);
    let repeat = format!("tiltyard run -w mix-hog-sleepers -s {loser} --duration 5s --seed 7");
    both.assert()
        .code(5)
        .stderr(contains("stall").and(contains(repeat)))
        .stdout(contains("fifo").and(contains("Why: lose failed: ")));
    let mut alone = tiltyard();
    alone
        .args([
            "run",
            "-w",
            "mix-hog-sleepers",
            "--duration",
            "5s",
            "-s",
            &loser,
            "--report",
        ])
        .arg(&report);
    alone.assert().code(5).stdout("");
    assert_eq!(files_in(folder.path()), 1, "the source alone");
}

#[test]
fn a_workload_that_locks_itself_up_is_a_workload_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("twice.json");
    let text = r#"{ "tasks" : { "a" : { "loop" : 1, "lock" : "m", "lock2" : "m", "run" : 10 } } }"#;
    std::fs::write(&path, text.replace("lock2", "lock")).unwrap();
    let output = tiltyard()
        .args(["run", "-s", "fifo", "-w"])
        .arg(&path)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{stderr}");
}

#[test]
fn build_tells_ops_tunables_and_objects() {
    let lines = contains("slice_ms: default 20, set to 7\n")
        .and(contains("select_cpu"))
        .and(contains(".bpf.o"));
    tiltyard()
        .args(["build", "fifo:slice_ms=7"])
        .assert()
        .success()
        .stdout(lines);
}

#[test]
fn interrupted_runs_exit_with_130_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.pftrace");
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("tiltyard"));
    let arguments = "run -w hackbench -s fifo --duration 10h --trace";
    command.args(arguments.split(' ')).arg(&trace);
    command.stdout(std::process::Stdio::null());
    command.stderr(std::process::Stdio::null());
    crate::heed(&mut command, libc::SIGINT);
    let mut child = command.spawn().unwrap();
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while files_in(folder.path()) == 0 && std::time::Instant::now() < limit {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // SAFETY: a signal to the child that was started above.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(files_in(folder.path()), 0);
}

#[test]
fn a_run_without_an_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hog.json");
    std::fs::write(&path, r#"{ "tasks": { "hog": { "run": 1000 } } }"#).unwrap();
    let path = path.to_str().unwrap();
    let words = [
        "never ends",
        "task hog repeats forever",
        "add --duration",
        path,
    ];
    refused(&["run", "-w", path, "-s", "fifo", "-m", "smp2"], 2, &words);
    refused(&["exec", "-w", path], 2, &words);
    refused(&["kernel", "--vm", "-s", "default", "-w", path], 2, &words);
    let ended = ["run", "-w", path, "-s", "fifo", "-m", "smp2", "--duration"];
    let output = tiltyard().args(ended).arg("10ms").output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn arrays_are_set_by_their_first_elements() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("caps.bpf.c");
    let source = r#"// SPDX-License-Identifier: GPL-2.0-or-later
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
const volatile u16 caps[4] = { 7, 7, 7, 7 };
const volatile u32 one = 5;
const volatile struct { u32 a, b; } both;

s32 BPF_STRUCT_OPS_SLEEPABLE(caps_init)
{
	scx_bpf_error("caps %u %u %u %u", caps[0], caps[1], caps[2], both.a + caps[3]);
	return 0;
}

SCX_OPS_DEFINE(caps_ops, .init = (void *)caps_init, .name = "caps");
"#;
    std::fs::write(&path, source).unwrap();
    let run = |settings: &str| {
        let scheduler = format!("{}:{settings}", path.display());
        let arguments = ["-w", "pingpong", "-m", "smp2", "--duration", "10ms", "-s"];
        let mut command = tiltyard();
        command.arg("run").args(arguments).arg(scheduler);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = run("caps=1024/0x200");
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("caps 1024 512 7 7"), "{said}");
    for (settings, words) in [
        (
            "caps=1/2/3/4/5",
            "does not take 5 values: it has fewer elements",
        ),
        (
            "caps=1/70000",
            "does not take 70000: it does not fit an element",
        ),
        ("caps=1/x", "\"x\" is not a number"),
        ("one=1/2", "one is one number, not an array"),
        ("both=1", "both is neither a number nor an array of numbers"),
    ] {
        let (code, said) = run(settings);
        assert_eq!(code, Some(2), "{settings}: {said}");
        assert!(said.contains(words), "{settings}: {said}");
    }
}
