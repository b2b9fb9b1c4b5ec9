// SPDX-License-Identifier: GPL-2.0-or-later
//! `run --out` and `kernel --tables`: what the files hold, and when there are none. Runs need clang-19.

#[path = "tables_page/mod.rs"]
mod tables_page;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tiltyard_tables::{NAMES, Table};

const TILTYARD: &str = env!("CARGO_BIN_EXE_tiltyard");

fn tiltyard(words: &str) -> Command {
    let mut command = Command::new(TILTYARD);
    command
        .env_remove("TILTYARD_DATA")
        .args(words.split_whitespace());
    command
}

fn run(words: &str, out: &Path) -> Output {
    tiltyard(words).arg("--out").arg(out).output().unwrap()
}

fn read(dir: &Path, name: &'static str) -> Table {
    let file = File::open(dir.join(format!("{name}.parquet"))).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let batches = reader.build().unwrap().map(Result::unwrap).collect();
    Table { name, batches }
}

/// A column of numbers; what is null is 0.
fn ints(table: &Table, column: &str) -> Vec<i64> {
    let cells = table.batches.iter().flat_map(|batch| {
        let column = batch.column_by_name(column).expect(column);
        let cells = column.as_primitive::<Int64Type>().iter();
        cells.map(Option::unwrap_or_default).collect::<Vec<i64>>()
    });
    cells.collect()
}

fn texts(table: &Table, column: &str) -> Vec<String> {
    let cells = table.batches.iter().flat_map(|batch| {
        let column = batch.column_by_name(column).expect(column);
        let cells = column.as_string::<i32>().iter();
        cells
            .map(|c| c.unwrap_or("-").to_owned())
            .collect::<Vec<_>>()
    });
    cells.collect()
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let files = folder.read_dir().unwrap();
    files.map(|entry| entry.unwrap().path()).collect()
}

const SHORT: &str =
    "run -w mix-hog-sleepers -s fifo,rr:slice_ms=20 -m smp2 --seeds 2 --duration 400ms";

#[test]
fn the_same_runs_give_the_same_bytes_at_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let out = |name| folder.path().join(name);
    for (name, jobs) in [("one", 1), ("two", 2)] {
        let output = run(&format!("{SHORT} --jobs {jobs}"), &out(name));
        let page = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        assert!(
            page.contains(&format!("Tables  {}\n", out(name).display())),
            "{page}"
        );
    }
    assert_eq!(files_in(&out("one")).len(), NAMES.len());
    for name in NAMES {
        let bytes = |folder| fs::read(out(folder).join(format!("{name}.parquet"))).unwrap();
        assert!(bytes("one") == bytes("two"), "{name}");
    }
    assert_eq!(files_in(folder.path()).len(), 2, "leftovers");
}

#[test]
fn tables_say_what_was_run() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let output = run(&format!("{SHORT} --format json"), &out);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = read(&out, "run");
    assert_eq!(ints(&runs, "run"), [0, 1, 2, 3]);
    assert_eq!(
        texts(&runs, "scheduler"),
        ["fifo", "fifo", "rr:slice_ms=20", "rr:slice_ms=20"]
    );
    assert_eq!(texts(&runs, "tunables")[1..3], ["{}", r#"{"slice_ms":20}"#]);
    let seeds: Vec<u64> = runs.batches[0]
        .column_by_name("seed")
        .unwrap()
        .as_primitive::<arrow_array::types::UInt64Type>()
        .values()
        .to_vec();
    assert_eq!(seeds, [1, 2, 1, 2]);
    let hashes = json["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["trace_hash"].as_str());
    assert!(
        hashes.eq(texts(&runs, "trace_hash")
            .iter()
            .map(|hash| Some(hash.as_str())))
    );
    let workload =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/mix-hog-sleepers.json");
    let sum = Command::new("sha256sum").arg(workload).output().unwrap();
    let sum = String::from_utf8_lossy(&sum.stdout);
    assert!(
        sum.starts_with(&texts(&runs, "workload_sha256")[0]),
        "{sum}"
    );
    assert_eq!(
        texts(&runs, "command")[3],
        "tiltyard run -w mix-hog-sleepers -s rr:slice_ms=20 -m smp2 --duration 400ms --seed 2"
    );
}

/// The engine's events and its figures: times by run and app, to the nanosecond.
#[test]
fn states_add_up_to_the_figures() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    run(SHORT, &out);
    let (states, threads) = (read(&out, "thread_state"), read(&out, "thread"));
    assert!(ints(&threads, "start_ts")[0] < 0, "shells are older");
    let keys = ints(&threads, "run")
        .into_iter()
        .zip(ints(&threads, "utid"));
    let app_of: BTreeMap<_, _> = keys.zip(texts(&threads, "app")).collect();
    let mut sums: BTreeMap<(i64, &str, &str), i64> = BTreeMap::new();
    let names = texts(&states, "state");
    let tasks = ints(&states, "run").into_iter().zip(ints(&states, "utid"));
    let spans = ints(&states, "ts").into_iter().zip(ints(&states, "dur"));
    for ((task, (ts, dur)), name) in tasks.zip(spans).zip(&names) {
        let column = match name.as_str() {
            "Running" => "runtime_ns",
            "R" | "R+" => "wait_ns",
            "S" => "sleep_ns",
            _ => continue,
        };
        let end = (ts + dur).max(0);
        *sums.entry((task.0, &app_of[&task], column)).or_default() += end - ts.clamp(0, end);
    }
    let apps = read(&out, "app");
    let names = texts(&apps, "app");
    let mut figures = BTreeMap::new();
    for column in ["runtime_ns", "wait_ns", "sleep_ns"] {
        let of = ints(&apps, "run").into_iter().zip(&names);
        let rows = of.zip(ints(&apps, column));
        figures.extend(rows.map(|((run, app), ns)| ((run, app.as_str(), column), ns)));
    }
    sums.retain(|_, ns| *ns > 0);
    figures.retain(|_, ns| *ns > 0);
    assert!(sums.len() >= 12);
    assert_eq!(sums, figures);
}

#[test]
fn a_folder_that_is_taken_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.tex"), "").unwrap();
    let output = run(SHORT, folder.path());
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert!(
        line.contains("holds thesis.tex") && line.contains("new or empty"),
        "{line}"
    );
    let output = run(SHORT, Path::new("/nowhere/at/all"));
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(line.contains("/nowhere/at/all: cannot write"), "{line}");
}

/// Never puts a task anywhere: the watchdog must eject it.
const LOSES_TASKS: &str = r#"
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
void BPF_STRUCT_OPS(lose_enqueue, struct task_struct *p, u64 enq_flags) { }
SCX_OPS_DEFINE(lose_ops, .enqueue = (void *)lose_enqueue, .timeout_ms = 1000, .name = "lose");
"#;

#[test]
fn a_run_that_fails_has_no_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (folder.path().join("lose.bpf.c"), folder.path().join("out"));
    fs::write(&source, LOSES_TASKS).unwrap();
    let words = format!(
        "run -w mix-hog-sleepers --duration 3s -s {}",
        source.display()
    );
    assert_eq!(run(&words, &out).status.code(), Some(5));
    assert_eq!(files_in(folder.path()), [source]);
    assert_eq!(run(&format!("{words},fifo"), &out).status.code(), Some(5));
    assert_eq!(ints(&read(&out, "run"), "run"), [1]);
    assert!(
        ints(&read(&out, "sched_slice"), "run")
            .iter()
            .all(|run| *run == 1)
    );
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = tiltyard("run -w hackbench -s fifo --seeds 4 --duration 10h --out");
    let mut child = command.arg(folder.path().join("out")).spawn().unwrap();
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
    // The folder may be there before that of its parts.
    let parts = |folder: &Path| {
        let inner = files_in(folder).pop();
        let parts = inner.and_then(|dir| dir.join("parts").read_dir().ok());
        parts.map_or(0, Iterator::count)
    };
    std::thread::sleep(std::time::Duration::from_millis(50));
    while parts(folder.path()) == 0 && std::time::Instant::now() < limit {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // SAFETY: a signal to the child that was started above.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(files_in(folder.path()).is_empty());
}

/// Whether all outputs can be made again from the event files in a folder.
fn events_give_the_same(folder: &Path) {
    let mut command = tiltyard("measure events --timeline ..10m --tables out2 --report page2.html");
    command.args(["--out", "measured.json"]).current_dir(folder);
    assert!(command.output().unwrap().status.success());
    let same = |a: &str, b: &str| {
        assert!(
            fs::read(folder.join(a)).unwrap() == fs::read(folder.join(b)).unwrap(),
            "{a}"
        );
    };
    same("run.json", "measured.json");
    same("page.html", "page2.html");
    for name in NAMES {
        same(
            &format!("out/{name}.parquet"),
            &format!("out2/{name}.parquet"),
        );
    }
}

#[test]
fn runs_in_a_real_kernel_have_the_same_tables_and_a_timeline() {
    let check = tiltyard("kernel --check").output().unwrap();
    if !check.status.success() {
        // Not eprintln!, which the test harness keeps to itself when a test passes.
        let _ = writeln!(std::io::stderr(), "skipped: no guest can be booted here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (out, page) = (folder.path().join("out"), folder.path().join("page.html"));
    let mut command = tiltyard("kernel --vm -s default,fifo --rounds 1 --timeline ..10m --tables");
    let output = command
        .arg(&out)
        .arg("--report")
        .arg(&page)
        .arg("--events")
        .arg(folder.path().join("events"))
        .arg("--out")
        .arg(folder.path().join("run.json"))
        .args(["--", "sleep", "2"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(files_in(&out).len(), NAMES.len());
    events_give_the_same(folder.path());
    let runs = read(&out, "run");
    assert_eq!(texts(&runs, "arena"), ["kernel", "kernel"]);
    assert_eq!(texts(&runs, "workload")[0], "sleep 2");
    assert_eq!(texts(&runs, "scheduler")[1], "fifo");
    assert_eq!(texts(&runs, "object_sha256")[1].len(), 64);
    assert!(texts(&runs, "kernel")[0].starts_with("6."));
    let apps = texts(&read(&out, "thread"), "app");
    assert!(apps.iter().any(|app| app == "sleep"), "{apps:?}");
    for run in [0, 1] {
        let slices = ints(&read(&out, "sched_slice"), "run").into_iter();
        assert!(slices.filter(|r| *r == run).count() > 2);
    }
    let page = std::fs::read_to_string(&page).unwrap();
    let (_, timeline) = page.split_once("id=\"timeline-data\">").unwrap();
    let (timeline, _) = timeline.split_once("</script>").unwrap();
    let timeline: serde_json::Value = serde_json::from_str(timeline).unwrap();
    for (run, name) in ["default (EEVDF)", "fifo"].iter().enumerate() {
        let run = &timeline[0]["runs"][run];
        assert_eq!(run["scheduler"], *name);
        // To the end of the run, which is before that of the timeline.
        assert!(run["recorded"]["to_ns"].as_u64().unwrap() >= 2_000_000_000);
        let tasks = run["recorded"]["tasks"].as_array().unwrap();
        assert!(
            tasks.iter().any(|task| task["name"] == "sleep"),
            "{tasks:?}"
        );
    }
}
