// SPDX-License-Identifier: GPL-2.0-or-later
//! A trace is read back with the official schema (the Python package `perfetto`) and must give what the
//! recorder counted. Skips, and says why, where Python or the package cannot be had.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tiltyard_measure::testing::{Stream, random_stream};
use tiltyard_measure::{Recorder, RecorderSpec, Summary};
use tiltyard_model::{EventSink, TaskInfo, Tid};
use tiltyard_report::perfetto::Writer;

fn python() -> Option<PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(find_python).clone()
}

/// A Python that can import the official schema; a virtual environment is made once where the system's
/// cannot.
fn find_python() -> Option<PathBuf> {
    let can_import = |python: &Path| {
        let mut command = Command::new(python);
        command.args([
            "-c",
            "import perfetto.protos.perfetto.trace.perfetto_trace_pb2",
        ]);
        command.output().is_ok_and(|out| out.status.success())
    };
    let system = PathBuf::from("python3");
    if can_import(&system) {
        return Some(system);
    }
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("perfetto-venv");
    let python = home.join("bin/python");
    if !can_import(&python) {
        let made = Command::new("python3")
            .args(["-m", "venv"])
            .arg(&home)
            .output();
        made.ok().filter(|out| out.status.success())?;
        let pip = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "perfetto",
        ];
        Command::new(&python).args(pip).output().ok()?;
    }
    can_import(&python).then_some(python)
}

fn record(stream: &Stream, nr_cpus: usize, end_ns: u64) -> (Summary, Vec<u8>) {
    let spec = RecorderSpec {
        nr_cpus,
        origin_ns: 0,
        starvation_ns: RecorderSpec::STARVATION_NS,
    };
    let mut sinks = (Recorder::new(spec), Writer::new(Vec::new(), nr_cpus));
    stream.play(&mut sinks);
    (
        sinks.0.finish(end_ns),
        sinks.1.finish().expect("a Vec takes everything"),
    )
}

/// What read_trace.py finds in a trace.
fn read_back(python: &Path, trace: &[u8], end_ns: u64) -> serde_json::Value {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), trace).expect("a temporary file");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/read_trace.py");
    let out = Command::new(python)
        .arg(script)
        .arg(file.path())
        .arg(end_ns.to_string())
        .output()
        .expect("python runs");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    serde_json::from_slice(&out.stdout).expect("JSON")
}

/// Legal and busy, and without a death, so that a tid stands for one task.
fn busy_stream() -> (Stream, u64) {
    let words = (1..4000u32).map(|i| i.wrapping_mul(2_654_435_761).rotate_left(7));
    let words: Vec<u32> = words.collect();
    random_stream(4, 9, &words)
}

#[test]
fn the_official_schema_gives_runtimes_switches_and_wakeups_back() {
    let Some(python) = python() else {
        eprintln!(
            "SKIPPED: no Python with the package `perfetto` (python3, pip and a network needed)"
        );
        return;
    };
    let (stream, end_ns) = busy_stream();
    let (summary, trace) = record(&stream, 4, end_ns + 1000);
    let found = read_back(&python, &trace, end_ns + 1000);
    let mut runtime_ns = std::collections::BTreeMap::new();
    for task in &summary.tasks {
        *runtime_ns.entry(task.tid.to_string()).or_insert(0) += task.runtime_ns;
    }
    runtime_ns.retain(|_, ns| *ns > 0);
    let mut read: std::collections::BTreeMap<String, u64> =
        serde_json::from_value(found["runtime_ns"].clone()).expect("runtimes");
    read.retain(|_, ns| *ns > 0);
    assert_eq!(read, runtime_ns);
    assert!(runtime_ns.len() > 4, "the stream is not trivial");
    assert_eq!(found["events"]["sched_switch"], summary.switches.total());
    let wakeups: u64 = summary.tasks.iter().map(|t| t.wakeups).sum();
    assert_eq!(found["events"]["sched_waking"], wakeups);
    assert_eq!(found["events"]["sched_migrate_task"], summary.migrations);
    // Of one class, made by tasks of several apps.
    let requests: u64 = summary.requests.iter().map(|r| r.latency.count).sum();
    assert_eq!(found["requests"], requests);
    for task in &summary.tasks {
        assert_eq!(found["names"][task.tid.to_string()], *task.name);
    }
    let Some(sql) = found["sql_runtime_ns"].as_object() else {
        eprintln!(
            "SKIPPED: the SQL check (no trace_processor_shell on PATH, TRACE_PROCESSOR unset)"
        );
        return;
    };
    // SQL closes no slice at the end of the run, so it can only see less.
    for (tid, ns) in sql {
        assert!(ns.as_u64() <= runtime_ns.get(tid).copied(), "tid {tid}");
    }
}

#[test]
fn counters_requests_and_depths_of_a_small_stream() {
    let Some(python) = python() else {
        eprintln!(
            "SKIPPED: no Python with the package `perfetto` (python3, pip and a network needed)"
        );
        return;
    };
    let mut s = Stream::new();
    s.class(0, "transaction")
        .probe_name(0, "penalty", false)
        .probe_name(1, "load", true);
    s.task(0, 1, "hog").wake_new(0, 0, 1).start(0, 0, 1);
    s.task(0, 2, "server")
        .wake(50, 0, 2)
        .probe(60, 0, 2, -3)
        .probe(70, 1, 0, 8);
    s.preempt(80, 0, 1, 2)
        .request(120, 2, 0, 50)
        .block(130, 0, 2, 1)
        .exit(200, 0, 1, 0);
    let (_, trace) = record(&s, 1, 300);
    let found = read_back(&python, &trace, 300);
    assert_eq!(found["runtime_ns"], serde_json::json!({"1": 150, "2": 50}));
    assert_eq!(found["events"]["sched_process_exit"], 1);
    assert_eq!(found["events"]["sched_wakeup_new"], 1);
    assert_eq!(found["counters"]["2/penalty"], -3);
    assert_eq!(found["counters"]["-1/load, CPU 0"], 8);
    assert_eq!(found["counters"]["-1/runnable tasks, CPU 0"], 0);
    assert_eq!(
        (&found["requests"], &found["request_ns"]),
        (&1.into(), &70.into())
    );
}

/// Perfetto reads the states of a kernel before 4.14 by default, and calls the children of pid 2 kernel threads.
#[test]
fn readers_learn_the_kernel_and_no_task_passes_for_a_kernel_thread() {
    let Some(python) = python() else {
        eprintln!(
            "SKIPPED: no Python with the package `perfetto` (python3, pip and a network needed)"
        );
        return;
    };
    let mut writer = Writer::new(Vec::new(), 1);
    for (tid, parent) in [(2, 0), (3, 2), (4, 3)] {
        writer.task(&TaskInfo {
            tid: Tid(tid),
            tgid: Tid(tid),
            parent: Tid(parent),
            name: format!("task {tid}"),
            app: "app".to_owned(),
            nice: 0,
            born_ns: 0,
            is_shell: false,
        });
    }
    let trace = writer.finish().expect("a Vec takes everything");
    let found = read_back(&python, &trace, 1);
    assert_eq!(found["release"], serde_json::json!(["6.18.0"]));
    assert_eq!(
        found["parents"],
        serde_json::json!({"2": 0, "3": 0, "4": 3})
    );
}

#[test]
fn an_error_of_the_output_comes_out_at_the_end() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut writer = Writer::new(Full, 1);
    Stream::new().task(0, 1, "a").play(&mut writer);
    let error = writer.finish().err().expect("nothing could be written");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}
