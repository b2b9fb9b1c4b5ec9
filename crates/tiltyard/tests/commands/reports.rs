// SPDX-License-Identifier: GPL-2.0-or-later
//! Reports as commands write them. Runs need clang-19.

use assert_cmd::Command;

fn tiltyard() -> Command {
    let mut command = Command::cargo_bin("tiltyard").unwrap();
    command.env_remove("TILTYARD_DATA");
    command
}

/// The page that a command with `--report` writes.
#[track_caller]
fn page(args: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.html");
    let mut command = tiltyard();
    command.args(args).arg("--report").arg(&file);
    command.assert().success();
    std::fs::read_to_string(&file).unwrap()
}

/// The JSON in the script element with this id.
fn data(page: &str, id: &str) -> serde_json::Value {
    let begin = page
        .split(&format!("id=\"{id}\">"))
        .nth(1)
        .expect("the data");
    serde_json::from_str(begin.split("</script>").next().unwrap()).unwrap()
}

#[test]
fn the_report_of_a_run_has_the_timeline_that_was_asked_for() {
    let run = [
        "run",
        "-w",
        "mix-hog-sleepers",
        "-s",
        "fifo,rr",
        "--duration",
        "200ms",
        "--seeds",
        "2",
    ];
    let args = [&run[..], &["--timeline", "90ms..150ms"]].concat();
    let page = page(&args);
    let timelines = data(&page, "timeline-data");
    let runs = timelines[0]["runs"].as_array().unwrap();
    let names: Vec<_> = runs
        .iter()
        .map(|r| r["scheduler"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["fifo", "rr"], "the first seed of each");
    for run in runs {
        let recorded = &run["recorded"];
        assert_eq!(
            (&recorded["from_ns"], &recorded["to_ns"]),
            (&90_000_000.into(), &150_000_000.into())
        );
        assert!(recorded["slices"]["cpu"].as_array().unwrap().len() > 1);
        assert_eq!(recorded["full"], false);
    }
    assert!(page.contains("0.09 s to 0.15 s"), "and says which");
    assert_eq!(page, self::page(&args), "the same bytes again");
}

#[test]
fn a_window_that_is_none_is_refused() {
    for (args, words) in [
        (
            &["--timeline", "8s..7s", "--report", "r.html"][..],
            "ends before it begins",
        ),
        (&["--timeline", "8s", "--report", "r.html"], "FROM..TO"),
        (&["--timeline", "7s..8s"], "--report"),
        (
            &[
                "--timeline",
                "60s..70s",
                "--duration",
                "1s",
                "--report",
                "r.html",
            ],
            "the run ends at 1s, before the window",
        ),
    ] {
        let mut command = tiltyard();
        let output = command
            .args(["run", "-w", "hackbench", "-s", "fifo"])
            .args(args)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
    }
}

const EXPERIMENT: &str = r#"
title = "A <small> experiment"
[[run]]
name = "r"
machine = "uni"
workload = "mix-hog-sleepers"
schedulers = { fifo = "fifo" }
duration = "200ms"
[run.measures]
busy = "SELECT sum(runtime_ns) / 1e9 FROM task"
[[figure]]
figure = "Figure 1"
title = "CPU time"
says = "It rises."
kind = "line"
x = "time, s"
y = "CPU time, s"
run = "r"
scheduler = "fifo"
sql = "SELECT app, at_ns / 1e9, runtime_ns / 1e9 FROM runtime ORDER BY app, at_ns"
[[figure]]
figure = "Figure 2"
title = "All seeds"
says = "Nothing."
kind = "bars"
x = "scheduler"
y = "s"
sql = "SELECT 'busy', scheduler, avg(value), min(value), max(value) FROM measure GROUP BY scheduler"
[[figure]]
figure = "Figure 3"
title = "Nothing"
says = "There is none."
kind = "points"
x = "x"
y = "y"
run = "r"
scheduler = "fifo"
sql = "SELECT 'none', 1, 1 WHERE 0"
[[claim]]
id = "test.part.works"
where = "Section 1"
statement = "Tasks <run>."
kind = "number"
tier = "core"
layer = ["sim"]
expected = "> 0"
tolerance = "none"
check = "fifo.busy > 0"
[[claim]]
id = "test.part.misses"
where = "Section 1"
statement = "Tasks do not run."
kind = "number"
tier = "core"
layer = ["sim"]
expected = "0"
tolerance = "none"
check = "fifo.busy == 0"
explanation = "They do."
[[claim]]
id = "test.alone"
where = "Section 2"
statement = "On Mars, too."
kind = "number"
tier = "core"
layer = ["sim"]
expected = "the same"
tolerance = "none"
not_run = "no machine there"
"#;

#[test]
fn the_report_of_reproduce_has_claims_figures_and_slices() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), EXPERIMENT).unwrap();
    let experiments = folder.path().to_string_lossy();
    let args = [
        "reproduce",
        "--seeds",
        "1",
        "--no-cache",
        "--experiments",
        &experiments,
    ];
    let page = page(&args);
    for text in [
        "<h2>3 claims</h2>",
        "\u{2713} 1</b> reproduced",
        "\u{2717} 1</b> not reproduced",
        "\u{25cb} 1</b> not run",
        "Tasks &lt;run&gt;.",
        "<b>Why:</b> They do.",
        "no machine there",
        "tiltyard reproduce test.part.misses",
        "<section id=\"small\"><h2>A &lt;small&gt; experiment</h2>",
        "Figure 1: CPU time",
        "<th scope=\"row\">fifo</th>",
        "No points: the query of this figure returned none",
    ] {
        assert!(page.contains(text), "no {text}");
    }
    let charts = data(&page, "data");
    assert_eq!(charts.as_array().unwrap().len(), 1);
    assert!(charts[0]["x"].as_array().unwrap().len() > 10);
    let timelines = data(&page, "timeline-data");
    assert_eq!(timelines.as_array().unwrap().len(), 1);
    let run = &timelines[0]["runs"][0];
    assert_eq!(run["scheduler"], "fifo, run \"r\"");
    let slices = &run["recorded"]["slices"];
    assert!(slices["cpu"].as_array().unwrap().len() > 10);
    assert_eq!(page, self::page(&args), "the same bytes again");
}
