// SPDX-License-Identifier: GPL-2.0-or-later
//! `--events` and `tiltyard measure`: what is measured from files is what the runs themselves gave. Runs need clang-19.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tiltyard_model::{Event, EventKind, EventSink, OverheadCause, TaskInfo};
use tiltyard_trace::{Reader, Recording};

const TILTYARD: &str = env!("CARGO_BIN_EXE_tiltyard");

/// Two schedulers with two seeds each.
const RUNS: &str =
    "run -w mix-hog-sleepers -s fifo,rr:slice_ms=20 -m smp2 --seeds 2 --duration 400ms";

/// A folder in which commands run, so that they name files in it without their path.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn output(&self, words: &str) -> Output {
        let mut command = Command::new(TILTYARD);
        command.env_remove("TILTYARD_DATA").current_dir(&self.0);
        command.args(words.split_whitespace()).output().unwrap()
    }

    /// Standard output of a command that succeeds.
    #[track_caller]
    fn ok(&self, words: &str) -> String {
        let output = self.output(words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The one line of a command that fails.
    #[track_caller]
    fn fails(&self, words: &str, code: i32) -> String {
        let output = self.output(words);
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words}: {line}");
        assert_eq!(line.lines().count(), 1, "{line}");
        assert_eq!(output.stdout, b"");
        line
    }

    #[track_caller]
    fn same(&self, a: &str, b: &str) {
        assert!(differing(&self.at(a), &self.at(b)).is_empty(), "{a}, {b}");
    }

    fn names(&self, dir: &str) -> Vec<String> {
        names(&self.at(dir))
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = dir.read_dir().unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The names of files that are not the same in two folders, or the two files themselves.
fn differing(a: &Path, b: &Path) -> Vec<String> {
    let same = |a: &Path, b: &Path| fs::read(a).unwrap() == fs::read(b).unwrap();
    if a.is_file() {
        return Vec::from_iter((!same(a, b)).then(|| a.display().to_string()));
    }
    assert_eq!(names(a), names(b));
    let mut all = names(a);
    assert!(!all.is_empty());
    all.retain(|name| !same(&a.join(name), &b.join(name)));
    all
}

#[test]
fn everything_that_a_run_gives_its_events_give_again() {
    let folder = Folder::new();
    let outputs = "--timeline 100ms..300ms --format json";
    let run = folder.ok(&format!(
        "{RUNS} --events events --out tables --report r.html --figures figures {outputs}"
    ));
    let measured = folder.ok(&format!(
        "measure events --tables tables2 --report r2.html --figures figures2 --out out.json {outputs}"
    ));
    assert!(run == measured);
    assert!(fs::read_to_string(folder.at("out.json")).unwrap() == run);
    folder.same("tables", "tables2");
    folder.same("figures", "figures2");
    folder.same("r.html", "r2.html");
    // The default timeline, and another grouping.
    let run = folder.ok(&format!("{RUNS} --by task --report r.html --format csv"));
    let measured = folder.ok("measure events --by task --report r2.html --format csv");
    assert!(run == measured);
    // The command in a report is the one that was typed, with its --by.
    let report = |name: &str| {
        let page = fs::read_to_string(folder.at(name)).unwrap();
        page.replace(" --by task", "")
    };
    assert!(report("r.html") == report("r2.html"));
    let page = folder.ok("measure events");
    assert!(page.contains("4 runs, 1.60 s simulated in all"), "{page}");
    assert!(
        page.contains("Repeat  tiltyard run -w mix-hog-sleepers"),
        "{page}"
    );
}

#[test]
fn the_same_runs_give_the_same_files_and_a_trace() {
    let folder = Folder::new();
    folder.ok(&format!("{RUNS} --events one --jobs 1"));
    folder.ok(&format!("{RUNS} --events two --jobs 2"));
    folder.same("one", "two");
    let files = folder.names("one");
    assert_eq!(files[0], "000-fifo-seed1.events");
    assert_eq!(files[3], "003-rr-slice_ms=20-seed2.events");
    folder.ok(
        "run -w mix-hog-sleepers -s fifo -m smp2 --seed 2 --duration 400ms --trace a.pftrace --no-probes",
    );
    folder.ok("measure one/001-fifo-seed2.events --trace b.pftrace");
    folder.same("a.pftrace", "b.pftrace");
    // An earlier folder is replaced as a whole.
    folder.ok("run -w pingpong -s fifo --duration 10ms --events one");
    assert_eq!(folder.names("one"), ["000-fifo-seed1.events"]);
    assert_eq!(folder.names("").len(), 4, "leftovers");
}

#[test]
fn probes_requests_and_accesses_are_in_the_events() {
    let folder = Folder::new();
    for (number, words) in [
        "run -w fibo-sysbench-1c -s ule --duration 7100ms",
        "run -w probe/micro-api -s ule -m smp2 --accesses --duration 1s",
    ]
    .iter()
    .enumerate()
    {
        let (a, b) = (format!("a{number}"), format!("b{number}"));
        let outputs = "--report r.html --format json";
        let run = folder.ok(&format!("{words} --events events --out {a} {outputs}"));
        fs::rename(folder.at("r.html"), folder.at("first.html")).unwrap();
        let measured = folder.ok(&format!("measure events --tables {b} {outputs}"));
        folder.same("first.html", "r.html");
        assert!(run == measured, "{words}");
        folder.same(&a, &b);
    }
    let rows = |name: &str| fs::metadata(folder.at(name)).unwrap().len();
    assert!(rows("a0/counter.parquet") > 1000 && rows("a1/access.parquet") > 1000);
    let output = folder.output("run -w pingpong -s fifo --accesses");
    let line = String::from_utf8_lossy(&output.stderr);
    assert!(line.contains("<--out <DIR>|--events <DIR>>"), "{line}");
}

#[test]
fn runs_of_several_commands_are_measured_together_and_a_part_by_itself() {
    let folder = Folder::new();
    let run = "run -w mix-hog-sleepers -m smp2 --duration 400ms";
    folder.ok(&format!("{run} -s fifo --seeds 2 --events a"));
    folder.ok(&format!("{run} -s rr:slice_ms=20 --seeds 2 --events b"));
    let together = folder.ok(&format!("{RUNS} --format json"));
    assert!(folder.ok("measure a b --format json") == together);
    // The first one named is the baseline.
    let turned: Value = serde_json::from_str(&folder.ok("measure b a --format json")).unwrap();
    assert_eq!(turned["comparison"]["schedulers"][0], "rr:slice_ms=20");
    let page =
        folder.ok("measure b/001-rr-slice_ms=20-seed2.events a/001-fifo-seed2.events --tables t");
    assert!(
        page.contains("2 runs") && page.contains("Repeat  tiltyard measure b/001"),
        "{page}"
    );
    let line = folder.fails("compare a/000-fifo-seed1.events b.json", 3);
    assert!(
        line.contains("tiltyard measure a/000-fifo-seed1.events --out FILE.json"),
        "{line}"
    );
    // What was measured is a result like any other.
    fs::write(folder.at("a.json"), folder.ok("measure a --format json")).unwrap();
    fs::write(folder.at("b.json"), folder.ok("measure b --format json")).unwrap();
    let compared = folder.ok("compare a.json b.json");
    assert!(compared.contains("mix-hog-sleepers"), "{compared}");
}

#[test]
fn files_that_cannot_be_measured_are_named_with_the_way_out() {
    let folder = Folder::new();
    folder.ok(&format!("{RUNS} --events events"));
    let file = fs::read(folder.at("events/000-fifo-seed1.events")).unwrap();
    let broken = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut file = file.clone();
        change(&mut file);
        fs::write(folder.at("broken.events"), &file).unwrap();
        let measured = "measure broken.events --report page.html --tables tables --out out.json";
        let line = folder.fails(measured, 3);
        assert!(line.starts_with("tiltyard: broken.events: "), "{line}");
        let left = [".events", "events"];
        let names = folder.names("");
        assert!(
            names
                .iter()
                .all(|name| left.iter().any(|l| name.ends_with(l))),
            "{names:?}"
        );
        line
    };
    let half = broken(&|file| file.truncate(file.len() / 2));
    assert!(half.contains("is incomplete: copy it again"), "{half}");
    let last = broken(&|file| file.truncate(file.len() - 1));
    assert!(last.contains("is incomplete"), "{last}");
    let flipped = broken(&|file| {
        let middle = file.len() - 100;
        file[middle] ^= 4;
    });
    assert!(flipped.contains("is damaged before byte"), "{flipped}");
    let newer = broken(&|file| file[8] = 9);
    assert!(
        newer.contains("has format 9, and this tiltyard reads formats 1 to 3"),
        "{newer}"
    );
    let other = broken(&|file| file.clear());
    assert!(
        other.contains("is not an event file") && other.contains("--events DIR"),
        "{other}"
    );
    for (words, code, says) in [
        ("measure nowhere.events", 3, "nowhere.events: no such file"),
        (
            "measure events/000-fifo-seed1.events events/000-fifo-seed1.events",
            2,
            "are of the same run; name one",
        ),
        ("measure events --trace t.pftrace", 2, "name one event file"),
        ("measure events --by group", 2, "use --by app or --by task"),
        (
            "measure events --report r.html --timeline 400ms..500ms",
            2,
            "the run ends at 400ms, before the window",
        ),
    ] {
        let line = folder.fails(words, code);
        assert!(line.contains(says), "{line}");
    }
    fs::create_dir(folder.at("empty")).unwrap();
    let line = folder.fails("measure empty", 3);
    assert!(
        line.starts_with("tiltyard: empty: has no event files"),
        "{line}"
    );
}

/// A file whose head is that of another run, as no command writes one.
#[test]
fn a_head_that_does_not_fit_the_events_is_found() {
    let folder = Folder::new();
    folder.ok("run -w pingpong -s fifo --duration 10ms --events events");
    let path = folder.at("events/000-fifo-seed1.events");
    let reader = Reader::open(fs::File::open(&path).unwrap()).unwrap();
    let mut about = reader.about().clone();
    about.result["trace_hash"] = json!("0".repeat(64));
    let mut recording = Recording::new(Vec::new());
    reader.replay(&mut recording).unwrap();
    let (blocks, ended) = recording.end().unwrap();
    let mut file = Vec::new();
    ended
        .write(&about, &mut blocks.as_slice(), &mut file)
        .unwrap();
    fs::write(&path, file).unwrap();
    let line = folder.fails("measure events", 3);
    assert!(
        line.contains("its events are not those of the run"),
        "{line}"
    );
    about.result = json!({});
    let mut file = Vec::new();
    ended
        .write(&about, &mut blocks.as_slice(), &mut file)
        .unwrap();
    fs::write(&path, file).unwrap();
    let line = folder.fails("measure events", 3);
    assert!(
        line.contains("has a head that this tiltyard does not understand: missing field"),
        "{line}"
    );
}

#[test]
fn runs_that_are_not_comparable_are_not_put_side_by_side() {
    let folder = Folder::new();
    let run = |words: &str, dir: &str| folder.ok(&format!("run {words} --events {dir}"));
    run("-w mix-hog-sleepers -s fifo --duration 50ms", "base");
    run("-w pingpong -s rr --duration 50ms", "workload");
    run(
        "-w mix-hog-sleepers -s rr -m smp2 --duration 50ms",
        "machine",
    );
    run("-w mix-hog-sleepers -s rr --duration 60ms", "duration");
    for (other, why) in [
        ("workload", "different workloads"),
        ("machine", "different machines"),
        ("duration", "different durations"),
    ] {
        let line = folder.fails(&format!("measure base {other}"), 2);
        let files = "base/000-fifo-seed1.events and ";
        assert!(line.contains(files) && line.contains(why), "{line}");
        assert!(
            line.contains("compare the results with tiltyard compare"),
            "{line}"
        );
    }
    // Two versions of a scheduler that have one name.
    let source = folder.at("own.bpf.c");
    for (dir, slice) in [("first", 1), ("second", 2)] {
        let text = format!(
            "#include <scx/common.bpf.h>\nchar _license[] SEC(\"license\") = \"GPL\";\n\
             void BPF_STRUCT_OPS(own_enqueue, struct task_struct *p, u64 enq_flags)\n\
             {{ scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, {slice}000000, enq_flags); }}\n\
             SCX_OPS_DEFINE(own_ops, .enqueue = (void *)own_enqueue, .name = \"own\");\n"
        );
        fs::write(&source, text).unwrap();
        run("-w mix-hog-sleepers -s ./own.bpf.c --duration 50ms", dir);
    }
    let line = folder.fails("measure first second", 2);
    assert!(line.contains("two schedulers have the name own"), "{line}");
}

#[test]
fn a_folder_that_holds_something_else_is_refused_before_anything_runs() {
    let folder = Folder::new();
    fs::create_dir(folder.at("taken")).unwrap();
    fs::write(folder.at("taken/thesis.tex"), "").unwrap();
    fs::write(folder.at("file"), "").unwrap();
    let line = folder.fails(&format!("{RUNS} --events taken"), 2);
    assert!(
        line.contains("taken: holds thesis.tex, which is not an event file"),
        "{line}"
    );
    let line = folder.fails(&format!("{RUNS} --events file"), 2);
    assert!(line.contains("file: is not a folder"), "{line}");
    let line = folder.fails(&format!("{RUNS} --events /nowhere/at/all"), 1);
    assert!(line.contains("/nowhere/at/all: cannot write"), "{line}");
    let output = folder.output("kernel --vm -s default --no-events --events x -- true");
    assert_eq!(output.status.code(), Some(2));
}

/// Events of two rounds under two schedulers in a guest, and the result that the command wrote at the time, except the
/// version. If metrics change, this writes it again:
/// `tiltyard measure crates/tiltyard/tests/commands/guest_events --format json | zstd -19`
const GUEST_EVENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/commands/guest_events");

fn kept_result() -> Value {
    let file = fs::File::open(Path::new(GUEST_EVENTS).join("result.json.zst")).unwrap();
    serde_json::from_slice(&zstd::decode_all(file).unwrap()).unwrap()
}

/// Without what the version of Tiltyard changes.
fn result(text: &str) -> Value {
    let mut result: Value = serde_json::from_str(text).unwrap();
    result["tiltyard"] = kept_result()["tiltyard"].clone();
    result
}

#[test]
fn runs_of_a_real_kernel_are_measured_where_there_is_none() {
    let folder = Folder::new();
    let measured = folder.ok(&format!(
        "measure {GUEST_EVENTS} --format json --report r.html --tables tables"
    ));
    let (measured, kept) = (result(&measured), kept_result());
    // The warm-ups are in the report, although they left no events.
    assert_eq!(measured["report"]["runs"].as_array().unwrap().len(), 6);
    assert_eq!(measured["recorded"].as_array().unwrap().len(), 4);
    let summary = &measured["recorded"][1]["summary"];
    assert_eq!(summary["requests"][0]["class"], "burst");
    assert_eq!(summary["probes"][1]["probe"], "penalty");
    assert!(measured == kept);
    let page = fs::read_to_string(folder.at("r.html")).unwrap();
    assert!(page.contains("timeline-data") && page.contains("probe/burst-exp"));
    assert!(
        folder
            .names("tables")
            .contains(&"counter.parquet".to_owned())
    );
    let page = folder.ok(&format!("measure {GUEST_EVENTS} --out kernel.json"));
    assert!(
        page.starts_with("Linux 6.18.") && page.contains("Result  kernel.json"),
        "{page}"
    );
    // As a result among others.
    let compared = folder.ok("compare kernel.json");
    assert!(compared.contains("kernel.json#ule"), "{compared}");
}

#[test]
fn some_runs_of_a_kernels_job_can_be_measured_alone() {
    let folder = Folder::new();
    let file = |name: &str| format!("{GUEST_EVENTS}/{name}.events");
    let (first, second) = (file("003-ule-round1"), file("005-ule-round2"));
    let part = result(&folder.ok(&format!("measure {second} {first} --format json")));
    let kept = kept_result();
    // The two and the warm-ups, in their order.
    let rounds = part["report"]["runs"].as_array().unwrap().iter();
    let rounds: Vec<u64> = rounds.map(|run| run["round"].as_u64().unwrap()).collect();
    assert_eq!(rounds, [0, 0, 1, 2]);
    assert_eq!(part["recorded"][0], kept["recorded"][1]);
    assert_eq!(part["recorded"][1], kept["recorded"][3]);
    folder.ok(&format!("measure {first} --trace t.pftrace"));
    assert!(fs::metadata(folder.at("t.pftrace")).unwrap().len() > 10_000);
    let refused = |words: &str, why: &str| {
        let line = folder.fails(words, 2);
        assert!(line.contains(why), "{line}");
    };
    refused(&format!("measure {first} {first}"), "are of the same run");
    refused(
        &format!("measure {first} --by task"),
        "--by: is for simulated runs",
    );
    refused(
        &format!("measure {first} --figures f"),
        "--figures: is for simulated runs",
    );
    folder.ok("run -w pingpong -s fifo --duration 10ms --events sim");
    refused(&format!("measure {first} sim"), "different workloads");
}

#[test]
fn simulated_runs_stand_beside_those_of_a_kernel() {
    let folder = Folder::new();
    let real = format!("{GUEST_EVENTS}/003-ule-round1.events");
    folder.ok("run -w probe/burst-exp -s ule -m smp2 --duration 150ms --events sim");
    let both = format!("measure sim {real}");
    let page = folder.ok(&format!("{both} --report both.html --figures figures"));
    for words in ["ule, simulated", "ule, Linux 6.18", "Report  both.html"] {
        assert!(page.contains(words), "no \"{words}\" in {page}");
    }
    // Unknown in a kernel, not 0.
    let overhead = page.lines().find(|line| line.contains("overhead"));
    assert!(overhead.unwrap().contains("none"), "{page}");
    // Counted by its threads: not in the events.
    let bursts = page.lines().find(|line| line.contains("throughput"));
    assert!(!bursts.unwrap().contains("none"), "{page}");
    let report = fs::read_to_string(folder.at("both.html")).unwrap();
    let (_, section) = report.split_once("<section id=\"overhead\"").unwrap();
    let (bars, _) = section.split_once("</section>").unwrap();
    assert!(bars.contains("ule, simulated") && !bars.contains("Linux"));
    let figures = folder.names("figures");
    for map in ["ule-simulated", "ule-linux-6-18"] {
        let name = format!("threads-per-cpu-{map}.svg");
        assert!(figures.contains(&name), "no {name} in {figures:?}");
    }
    let refused = |words: &str, why: &str| {
        let line = folder.fails(words, 2);
        assert!(line.contains(why), "{line}");
    };
    refused(
        &format!("{both} --tables t"),
        "--tables: not available for simulated",
    );
    refused(&format!("{both} {real}"), "are of the same run");
    refused(&format!("{both} sim"), "are of the same run");
    folder.ok("run -w probe/burst-exp -s ule -m smp4 --duration 150ms --events four");
    refused(&format!("measure four {real}"), "different machines");
}

/// A run that fails has no file, and none is left of a command all of whose runs fail.
#[test]
fn runs_that_fail_have_no_file() {
    let folder = Folder::new();
    let text = "#include <scx/common.bpf.h>\nchar _license[] SEC(\"license\") = \"GPL\";\n\
                void BPF_STRUCT_OPS(lose_enqueue, struct task_struct *p, u64 enq_flags) { }\n\
                SCX_OPS_DEFINE(lose_ops, .enqueue = (void *)lose_enqueue, .timeout_ms = 1000, .name = \"lose\");\n";
    fs::write(folder.at("lose.bpf.c"), text).unwrap();
    let run = "run -w mix-hog-sleepers --duration 3s --events events -s ./lose.bpf.c";
    assert_eq!(folder.output(run).status.code(), Some(5));
    assert_eq!(folder.names(""), ["lose.bpf.c"]);
    let run = format!("{run},fifo --out tables");
    assert_eq!(folder.output(&run).status.code(), Some(5));
    assert_eq!(folder.names("events"), ["001-fifo-seed1.events"]);
    // Runs keep their numbers.
    folder.ok("measure events --tables measured");
    folder.same("tables", "measured");
}

#[test]
fn an_interrupted_run_leaves_no_files() {
    let folder = Folder::new();
    let mut command = Command::new(TILTYARD);
    command.env_remove("TILTYARD_DATA").current_dir(&folder.0);
    let words = "run -w hackbench -s fifo --seeds 4 --duration 10h --events events";
    let mut child = command.args(words.split(' ')).spawn().unwrap();
    let limit = Instant::now() + Duration::from_secs(60);
    let has_blocks = || {
        let temporary = folder.names("").pop();
        let blocks = temporary.map(|dir| folder.at(&dir).join("blocks"));
        blocks.is_some_and(|blocks| blocks.is_dir() && !names(&blocks).is_empty())
    };
    while !has_blocks() && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(has_blocks());
    // SAFETY: a signal to the child that was started above.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(folder.names("").is_empty());
}

/// Counts the records of a file by their tags.
#[derive(Default)]
struct Count(BTreeMap<String, u64>, u64);

impl Count {
    fn add(&mut self, tag: u8) {
        *self.0.entry(tag.to_string()).or_default() += 1;
    }
}

impl EventSink for Count {
    fn task(&mut self, _: &TaskInfo) {
        self.add(0x80);
    }
    fn event(&mut self, event: &Event) {
        self.1 = event.time_ns;
        self.add(match event.kind {
            EventKind::Switch { .. } => 0,
            EventKind::Wakeup { .. } => 1,
            EventKind::WakeupNew { .. } => 2,
            EventKind::Migrate { .. } => 3,
            EventKind::Fork { .. } => 4,
            EventKind::Exit { .. } => 5,
            EventKind::Nice { .. } => 6,
            EventKind::Request { .. } => 7,
            EventKind::Mark { .. } => 8,
            EventKind::Probe { .. } => 9,
            EventKind::Overhead(overhead) if overhead.ns(OverheadCause::SelectCpu) > 0 => 14,
            EventKind::Overhead(_) => 10,
            EventKind::Access { .. } => 11,
            EventKind::RunqueueLock { .. } => 12,
            EventKind::Affinity { .. } => 13,
        });
    }
    fn cpu_set(&mut self, _: u32, _: &[Range<u32>]) {
        self.add(0x85);
    }
    fn request_class(&mut self, _: u16, _: &str) {
        self.add(0x81);
    }
    fn probe_name(&mut self, _: u16, _: &str, _: bool) {
        self.add(0x82);
    }
    fn callback_name(&mut self, _: u16, _: &str) {
        self.add(0x83);
    }
    fn place_name(&mut self, _: u16, _: &str) {
        self.add(0x84);
    }
}

/// The page defines the format so well that its own reader, in another language, finds the same.
#[test]
fn the_reader_of_the_page_reads_files() {
    let has = |program| Command::new(program).arg("--version").output().is_ok();
    if !has("python3") || !has("zstd") {
        let _ = writeln!(std::io::stderr(), "skipped: needs python3 and zstd");
        return;
    }
    let page = include_str!("../../../../docs/reference/event-files.md");
    let (_, program) = page.split_once("```python\n").unwrap();
    let (program, _) = program.split_once("```").unwrap();
    let folder = Folder::new();
    fs::write(folder.at("reader.py"), program).unwrap();
    let run = "run -w probe/micro-api -s ule -m smp2 --accesses --duration 1s --events events";
    folder.ok(run);
    let files = [
        folder.at("events/000-ule-seed1.events"),
        Path::new(GUEST_EVENTS).join("003-ule-round1.events"),
    ];
    for file in &files {
        let read = |file: &Path| {
            let mut python = Command::new("python3");
            python
                .arg(folder.at("reader.py"))
                .arg(file)
                .output()
                .unwrap()
        };
        let printed: Value = serde_json::from_slice(&read(file).stdout).unwrap();
        let reader = Reader::open(fs::File::open(file).unwrap()).unwrap();
        let scheduler = reader.about().scheduler.clone();
        let mut count = Count::default();
        reader.replay(&mut count).unwrap();
        assert!(count.0.len() > 7, "{:?}", count.0);
        let expected = json!({ "scheduler": scheduler, "last_ns": count.1, "records": count.0 });
        assert_eq!(printed, expected);
        let mut damaged = fs::read(file).unwrap();
        let last = damaged.len() - 40;
        damaged[last] ^= 1;
        fs::write(folder.at("damaged"), damaged).unwrap();
        assert!(!read(&folder.at("damaged")).status.success());
    }
}
