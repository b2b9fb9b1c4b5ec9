// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard run --races`: what is printed, the exit code, and usage that makes no sense. Runs need clang-19.

use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;

/// fifo with a counter in ops.enqueue.
fn counting(dir: &Path, count: &str) -> String {
    let fifo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schedulers/fifo/fifo.bpf.c");
    let source = fs::read_to_string(fifo).unwrap();
    let enqueue = "u64 enq_flags)\n{\n";
    assert!(source.contains(enqueue));
    let source = source
        .replacen(enqueue, &format!("{enqueue}\t{count};\n"), 1)
        .replacen(
            "#define SHARED_DSQ",
            "u64 nr_queued;\n#define SHARED_DSQ",
            1,
        );
    let path = dir.join("counting.bpf.c");
    fs::write(&path, source).unwrap();
    path.display().to_string()
}

fn run(args: &[&str]) -> Output {
    Command::cargo_bin("tiltyard")
        .unwrap()
        .env_remove("TILTYARD_DATA")
        .args(["run", "-w", "hackbench", "--duration", "50ms", "--races"])
        .args(args)
        .output()
        .unwrap()
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn races_are_listed_after_the_comparison_and_have_an_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let racy = counting(dir.path(), "nr_queued++");
    let output = run(&["-s", &format!("{racy},fifo"), "-m", "smp2", "--seeds", "2"]);
    let (stdout, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(12), "{stderr}");
    assert!(
        stderr.contains("counting: 2 unprotected pairs of lines"),
        "{stderr}"
    );
    assert!(stdout.contains("in 2 of 2 runs"), "{stdout}");
    assert!(
        stdout.contains("Races   none found in 2 runs of fifo"),
        "{stdout}"
    );
    let row = stdout
        .lines()
        .find(|line| line.contains("nr_queued"))
        .unwrap_or_else(|| panic!("{stdout}"));
    assert!(
        row.contains("counting.bpf.c:") && row.contains("enqueue"),
        "{row}"
    );
    let repeat = stdout.lines().find(|line| line.starts_with("Repeat"));
    assert!(
        repeat.is_some_and(|line| line.contains("--races")),
        "{stdout}"
    );
}

#[test]
fn lines_of_headers_of_one_name_and_variables_on_one_line_are_apart() {
    let dir = tempfile::tempdir().unwrap();
    let includes = ["a", "b"].map(|folder| {
        let header =
            format!("static __always_inline void count_{folder}(void) {{ {folder}++; }}\n");
        fs::create_dir(dir.path().join(folder)).unwrap();
        fs::write(dir.path().join(folder).join("count.h"), header).unwrap();
        format!("#include \"{folder}/count.h\"\n")
    });
    let maps = "u32 k = 0; u64 *x = bpf_map_lookup_elem(&m1, &k), *y = bpf_map_lookup_elem(&m2, &k); if (x && y) { (*x)++; (*y)++; }";
    let path = counting(
        dir.path(),
        &format!("count_a(); count_b(); c++; d++; {maps}"),
    );
    let source = fs::read_to_string(&path).unwrap();
    let map = |name| {
        format!(
            "struct {{ __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u64); }} {name} SEC(\".maps\");\n"
        )
    };
    let begin = format!(
        "u64 a, b, c, d;\n{}{}{}u64 nr_queued;",
        map("m1"),
        map("m2"),
        includes.concat()
    );
    fs::write(&path, source.replacen("u64 nr_queued;", &begin, 1)).unwrap();
    let output = run(&["-s", &path, "-m", "smp2"]);
    let (stdout, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(12), "{stderr}");
    assert!(
        stderr.contains("counting: 12 unprotected pairs of lines"),
        "{stderr}"
    );
    for (variable, place) in [
        ("a", "a/count.h:1"),
        ("b", "b/count.h:1"),
        ("c", "counting.bpf.c:"),
        ("d", "counting.bpf.c:"),
        ("m1[0]", "counting.bpf.c:"),
        ("m2[0]", "counting.bpf.c:"),
    ] {
        let row = |line: &str| line.contains(&format!(" {variable} ")) && line.contains(place);
        assert!(stdout.lines().any(row), "{variable}: {stdout}");
    }
}

#[test]
fn json_has_the_races_of_each_run() {
    let dir = tempfile::tempdir().unwrap();
    let racy = counting(dir.path(), "nr_queued++");
    let output = run(&[
        "-s",
        &format!("{racy},fifo"),
        "-m",
        "smp2",
        "--format",
        "json",
    ]);
    let (stdout, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(12), "{stderr}");
    let result: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let races = |run: usize| &result["runs"][run]["races"];
    let pair = &races(0)["pairs"][0];
    assert_eq!(pair["memory"], "nr_queued");
    assert_eq!(pair["accesses"][0]["callback"], "enqueue");
    assert_eq!(pair["accesses"][0]["plain"], true);
    assert_ne!(pair["accesses"][0]["cpu"], pair["accesses"][1]["cpu"]);
    assert_eq!(races(1)["pairs"], serde_json::json!([]));
    assert_eq!(races(1)["partial"], false);
}

#[test]
fn a_scheduler_without_races_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let mended = counting(dir.path(), "__sync_fetch_and_add(&nr_queued, 1)");
    let output = run(&["-s", &mended, "-m", "smp2"]);
    let (stdout, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stdout.contains("none found in 1 run"), "{stdout}");
}

#[test]
fn what_cannot_race_or_be_shown_is_a_usage_error() {
    let one_cpu = run(&["-s", "fifo", "-m", "opteron1"]);
    assert_eq!(one_cpu.status.code(), Some(2));
    assert!(texts(&one_cpu).1.contains("has one CPU"));
    let csv = run(&["-s", "fifo", "-m", "smp2", "--format", "csv"]);
    assert_eq!(csv.status.code(), Some(2));
    assert!(texts(&csv).1.contains("--format table or json"));
}
