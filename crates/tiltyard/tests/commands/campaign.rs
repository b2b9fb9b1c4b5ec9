// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard campaign` and `tiltyard league` as their users see them, on campaigns small enough to be seen through. Runs need
//! clang-19.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Clicks at random, which a thread answers beside others that never sleep: under fifo it waits for the rest of their slices.
/// The hand that clicks is of another class, so clicks begin when they happen.
const WORKLOAD: &str = r#"{
	"tiltyard" : { "apps" : { "ui" : {}, "hog" : {} } },
	"tasks" : {
		"hand" : { "loop" : -1, "policy" : "SCHED_FIFO", "tiltyard" : { "app" : "ui", "sleep" : { "exp" : 30000 },
			"begin" : "click", "sem_post" : "event", "sem_wait" : "answer", "end" : "click" } },
		"window" : { "loop" : -1, "tiltyard" : { "app" : "ui", "sem_wait" : "event", "run" : 500, "sem_post" : "answer" } },
		"hog" : { "instance" : 1, "loop" : -1, "tiltyard" : { "app" : "hog" }, "run" : 1000000 },
		"job" : { "loop" : 1, "delay" : 100000, "run" : 300000, "tiltyard" : { "app" : "hog", "begin" : "job", "run" : 1, "end" : "job" } }
	},
	"global" : { "duration" : 8 }
}"#;

const CAMPAIGN: &str = r#"
title = "Slices"
schedulers = ["fifo:slice_ms=40", "fifo:slice_ms=10", "fifo:slice_ms=40:slice_ms2=0"]

[[machine]]
machine = "uni"

[[machine]]
name = "two"
machine = "smp2"

[[workload]]
name = "clicks"
workload = "WORKLOAD"
metric = "ui.wakeup_latency_us_p99"
better = "lower"
reason = "The slowest reaction is noticed."
patch.tasks.hog.instance = "2*$cpus"

[[workload]]
name = "slow"
workload = "WORKLOAD"
metric = "slow clicks"
sql = "SELECT 100.0 * avg(dur > 25e6) FROM slice WHERE name = 'click'"
unit = "percent"
better = "lower"
tie = "1points"
reason = "A click that takes longer than 25 ms is noticed."
machines = ["two"]
patch.tasks.hog.instance = "2*$cpus"
"#;

/// A folder with a campaign, a workload and a cache of runs.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(&CAMPAIGN.replace(", \"fifo:slice_ms=40:slice_ms2=0\"", ""))
    }

    fn with(campaign: &str) -> Bench {
        let bench = Bench {
            folder: TempDir::new().unwrap(),
        };
        let workload = bench.path("w.json");
        fs::write(&workload, WORKLOAD).unwrap();
        let text = campaign.replace("WORKLOAD", workload.to_str().unwrap());
        fs::write(bench.path("c.toml"), text).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> assert_cmd::Command {
        let mut command = assert_cmd::Command::cargo_bin("tiltyard").unwrap();
        command.env_remove("TILTYARD_DATA");
        crate::own_cache(&mut command, &self.path("cache"));
        command.current_dir(self.folder.path()).args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(&[&["campaign", "c.toml"], args].concat())
            .output()
            .unwrap()
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[&["--format", "json"], args].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Expects this exit code and one line on stderr with these words.
    #[track_caller]
    fn refuses(&self, args: &[&str], code: i32, words: &[&str]) {
        let output = self.run(args);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        for word in words {
            assert!(text.contains(word), "no \"{word}\" in: {text}");
        }
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn contest<'a>(document: &'a Value, workload: &str, machine: &str) -> &'a Value {
    let contests = document["contests"].as_array().unwrap();
    let is = |c: &&Value| c["workload"] == workload && c["machine"] == machine;
    contests.iter().find(is).unwrap()
}

fn entry<'a>(contest: &'a Value, scheduler: &str) -> &'a Value {
    let entries = contest["entries"].as_array().unwrap();
    entries
        .iter()
        .find(|e| e["scheduler"] == scheduler)
        .unwrap()
}

/// Files of runs, which lie in folders named by the first letters of their hashes.
fn results(folder: &Path) -> Vec<PathBuf> {
    let Ok(folders) = folder.read_dir() else {
        return Vec::new();
    };
    let folders = folders.map(|e| e.unwrap().path()).filter(|p| p.is_dir());
    let mut files: Vec<PathBuf> = folders
        .flat_map(|f| f.read_dir().unwrap().map(|e| e.unwrap().path()))
        .filter(|file| file.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    files
}

/// A random moment of a slice of 40 ms is up to 40 ms before its end, of one of 10 ms up to 10 ms; ticks are 4 ms apart.
#[test]
fn the_shorter_slice_wins_by_the_factor_that_can_be_computed() {
    let bench = Bench::new();
    let document = bench.json(&[]);
    let contest = contest(&document, "clicks", "uni");
    let decision = &contest["decision"];
    assert_eq!(decision["kind"], "winner");
    assert_eq!(decision["who"], serde_json::json!(["fifo:slice_ms=10"]));
    assert_eq!(decision["next"], "fifo:slice_ms=40");
    // Two hogs and up to one job wait in the same queue: two or three slices.
    let times = decision["margin"]["times"]["median"].as_f64().unwrap();
    assert!((2.5..5.0).contains(&times), "{times}");
    let slow = entry(contest, "fifo:slice_ms=40");
    assert_eq!(
        (&slow["place"], contest["unit"].as_str()),
        (&"beaten".into(), Some("us"))
    );
    assert_eq!(
        slow["values"].as_array().unwrap().len(),
        6,
        "seeds by default"
    );
    assert!(slow["value"]["median"].as_f64().unwrap() > 40_000.0);
    // The query's contest has only the machine that it names, and its share is in percent.
    let contests = document["contests"].as_array().unwrap();
    assert_eq!(contests.len(), 3);
    let tally = &document["tallies"][1];
    assert_eq!(
        (&tally["scheduler"], &tally["won"]),
        (&"fifo:slice_ms=10".into(), &3.into())
    );
}

/// The rows of the table say what the document says, and the page has a chart for each contest.
#[test]
fn table_csv_and_page_agree() {
    let bench = Bench::new();
    let args = ["--report", "page.html", "--figures", "charts"];
    let table = bench.run(&args);
    assert!(table.status.success(), "{}", stderr(&table));
    let text = stdout(&table);
    assert!(
        text.contains("2 workloads x 2 machines x 2 schedulers x 6 seeds: 36 runs done"),
        "{text}"
    );
    assert!(
        text.contains(
            "clicks on uni: fifo:slice_ms=10 wins; next fifo:slice_ms=40: worse by a factor of "
        ),
        "{text}"
    );
    assert!(
        text.contains("fifo:slice_ms=10 wins 3 of 3 contests; no other scheduler wins any. No scheduler fails."),
        "{text}"
    );
    assert!(text.contains("tie: up to 1.0 points; "), "{text}");
    let slow = text.lines().find(|line| line.starts_with("slow on two: "));
    let slow = slow.expect("a verdict");
    assert!(
        slow.contains("worse by ") && slow.contains(" points"),
        "{slow}"
    );
    assert!(
        text.contains("Repeat  tiltyard campaign c.toml\n"),
        "{text}"
    );
    let page = fs::read_to_string(bench.path("page.html")).unwrap();
    assert_eq!(page.matches("<svg class=\"panel\"").count(), 3);
    assert!(page.contains("3 of 3 contests have a winner"));
    assert_eq!(bench.path("charts").read_dir().unwrap().count(), 3);
    let csv = stdout(&bench.run(&["--format", "csv"]));
    assert_eq!(csv.lines().count(), 1 + 3 * 2, "{csv}");
    let won = csv
        .lines()
        .filter(|line| line.contains(",fifo:slice_ms=10,won,"));
    assert_eq!(won.count(), 3, "{csv}");
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let values = lines[0].iter().position(|name| *name == "values").unwrap();
    // Fields before it hold no commas.
    let seeds = lines[1][values].split(' ').map(str::parse::<f64>);
    assert_eq!(seeds.filter(Result::is_ok).count(), 6, "{csv}");
    assert!(csv.contains("fifo:slice_ms=10 wins; next "), "{csv}");
    let again = stdout(&bench.run(&[]));
    assert!(
        again.contains("0 runs done in") && again.contains(", 36 known"),
        "{again}"
    );
}

/// The same scheduler under another name is as good as itself, and a single seed decides nothing.
#[test]
fn equals_tie_and_a_single_seed_decides_nothing() {
    let bench = Bench::new();
    let args = ["-w", "clicks", "-m", "uni", "-s", "fifo:slice_ms=10"];
    let with = ["--with", "fifo:slice_ms=0xa"];
    let document = bench.json(&[&args[..], &with].concat());
    let decision = &contest(&document, "clicks", "uni")["decision"];
    assert_eq!(decision["kind"], "tie");
    assert_eq!(decision["who"].as_array().unwrap().len(), 2);
    let document = bench.json(&["--seeds", "1", "-m", "uni"]);
    assert_eq!(
        contest(&document, "clicks", "uni")["decision"]["kind"],
        "too_few_runs"
    );
    let text = stdout(&bench.run(&["--seeds", "5", "-m", "uni"]));
    assert!(
        text.contains("undecided: too few seeds") && text.contains("add --seeds 6"),
        "{text}"
    );
    let header = text.lines().find(|line| line.starts_with("scheduler "));
    assert!(
        header.is_some_and(|line| line.ends_with(" undecided")),
        "{text}"
    );
}

#[test]
fn parts_give_the_same_bytes_as_the_whole() {
    let bench = Bench::new();
    let whole = bench.run(&["--format", "json", "--report", "whole.html"]);
    assert!(whole.status.success(), "{}", stderr(&whole));
    let mut runs = 0;
    for part in ["1/3", "2/3", "3/3"] {
        let folder = if part == "2/3" { "b" } else { "a" };
        let args = ["--shard", part, "--results", folder, "--format", "json"];
        let document: Value = serde_json::from_slice(&bench.run(&args).stdout).unwrap();
        assert_eq!(
            (&document["all"], &document["known"]),
            (&36.into(), &0.into())
        );
        runs += document["done"].as_u64().unwrap();
    }
    assert_eq!((runs, results(&bench.path("a")).len()), (36, 24));
    bench.refuses(
        &["--results", "a", "--no-runs"],
        1,
        &["--no-runs: 12 of 36 results are not in a: clicks on uni under fifo:slice_ms=40, seed 2; ", "leave --no-runs out"],
    );
    let copied = Command::new("cp")
        .args(["-R", "b/.", "a"])
        .current_dir(bench.folder.path())
        .status();
    assert!(copied.unwrap().success());
    let args = [
        "--results",
        "a",
        "--no-runs",
        "--format",
        "json",
        "--report",
        "merged.html",
    ];
    let merged = bench.run(&args);
    assert!(merged.status.success(), "{}", stderr(&merged));
    assert!(!merged.stdout.is_empty() && merged.stdout == whole.stdout);
    let page = |name: &str| fs::read(bench.path(name)).unwrap();
    assert!(page("merged.html") == page("whole.html"));
}

/// Nothing of what was done is lost, and nothing of it is done again.
#[test]
fn a_killed_campaign_goes_on() {
    let bench = Bench::new();
    bench.run(&["--seeds", "1"]); // the build, and six results in the cache
    let results_of = || results(&bench.path("out"));
    let program = assert_cmd::cargo::cargo_bin("tiltyard");
    let mut child = Command::new(program)
        .args([
            "campaign",
            "c.toml",
            "--jobs",
            "1",
            "--seeds",
            "40",
            "--results",
            "out",
        ])
        .current_dir(bench.folder.path())
        .env_remove("TILTYARD_DATA")
        .env("XDG_CACHE_HOME", bench.path("cache"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while results_of().len() < 5 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    let ended = child.wait().unwrap();
    assert!(!ended.success(), "it was over before it was killed");
    let kept = results_of().len() as u64;
    assert!((5..240).contains(&kept), "{kept}");
    let document = |args: &[&str]| {
        bench
            .run(&[&["--format", "json", "--seeds", "40"], args].concat())
            .stdout
    };
    let rest = document(&["--results", "out", "--shard", "1/1"]);
    let rest: Value = serde_json::from_slice(&rest).unwrap();
    assert_eq!(
        (&rest["known"], &rest["done"]),
        (&kept.into(), &(240 - kept).into())
    );
    let resumed = document(&["--results", "out", "--no-runs"]);
    assert!(!resumed.is_empty() && resumed == document(&[]));
}

#[test]
fn a_damaged_result_is_reported_and_made_again() {
    let bench = Bench::new();
    let args = ["-m", "uni", "--results", "out", "--format", "json"];
    let before = bench.run(&args);
    let files = results(&bench.path("out"));
    assert_eq!(files.len(), 12);
    fs::write(&files[0], "{").unwrap();
    // Another run's result is none of this one.
    fs::copy(&files[2], &files[1]).unwrap();
    // A digit that is another one is still JSON.
    let text = fs::read_to_string(&files[3]).unwrap();
    let (head, digits) = text.split_once('\n').unwrap();
    let changed = digits.replacen('1', "2", 1);
    fs::write(&files[3], format!("{head}\n{changed}")).unwrap();
    let after = bench.run(&args);
    let said = stderr(&after);
    for words in ["not whole;", "another run's results", "or changed since"] {
        assert!(said.contains(words), "no \"{words}\" in: {said}");
    }
    assert_eq!(said.matches("it does not count").count(), 3, "{said}");
    assert!(before.stdout == after.stdout);
    assert!(stderr(&bench.run(&args)).is_empty());
}

/// How schedulers fail is a result: it is shown, wins nothing, and the others go on.
#[test]
fn failures_are_results() {
    let mine = "#include <scx/common.bpf.h>\nchar _license[] SEC(\"license\") = \"GPL\";\nUEI_DEFINE(uei);\nstatic u64 count;\n\
        void BPF_STRUCT_OPS(mine_enqueue, struct task_struct *p, u64 enq_flags)\n{\n\tif (++count > 50)\n\t\tscx_bpf_error(\"fifty\");\n\
        \tscx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);\n}\n\
        void BPF_STRUCT_OPS(mine_exit, struct scx_exit_info *ei)\n{\n\tUEI_RECORD(uei, ei);\n}\n\
        SCX_OPS_DEFINE(mine_ops, .enqueue = (void *)mine_enqueue, .exit = (void *)mine_exit, .name = \"mine\");\n";
    let bench =
        Bench::with(&CAMPAIGN.replace("fifo:slice_ms=40:slice_ms2=0", "fifo:slice_ms=1200"));
    fs::write(bench.path("mine.bpf.c"), mine).unwrap();
    let args = ["-w", "clicks", "-m", "uni", "--with", "./mine.bpf.c"];
    let document = bench.json(&args);
    let contest = contest(&document, "clicks", "uni");
    assert_eq!(
        contest["decision"]["who"],
        serde_json::json!(["fifo:slice_ms=10"])
    );
    let ejected = entry(contest, "mine");
    assert_eq!(
        (&ejected["place"], &ejected["failure"]["how"]),
        (&"failed".into(), &"ejected".into())
    );
    assert_eq!(
        (&ejected["failure"]["seeds"], &ejected["value"]),
        (&6.into(), &Value::Null)
    );
    let what = ejected["failure"]["what"].as_str().unwrap();
    assert!(what.contains("fifty"), "{what}");
    // Slices of 1.2 s let the sleeper wait for longer than a second.
    let starved = entry(contest, "fifo:slice_ms=1200");
    assert_eq!(starved["place"], "failed");
    let how = starved["failure"]["how"].as_str().unwrap();
    assert!(how.starts_with("starved "), "{how}");
    let output = bench.run(&[&args[..], &["--report", "p.html"]].concat());
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "failures are results");
    assert!(
        text.contains("mine failed: clicks on uni (6 of 6 seeds): scheduler mine ejected"),
        "{text}"
    );
    let page = fs::read_to_string(bench.path("p.html")).unwrap();
    assert!(page.contains("\u{2717} ejected") && page.contains("\u{2717} starved "));
    // Where the campaign allows it, waiting is no failure.
    let text = fs::read_to_string(bench.path("c.toml")).unwrap();
    let text = text.replace(
        "reason = \"The",
        "starved_after = \"never\"\nreason = \"The",
    );
    fs::write(bench.path("c.toml"), text).unwrap();
    let document = bench.json(&args);
    let waited = entry(
        self::contest(&document, "clicks", "uni"),
        "fifo:slice_ms=1200",
    );
    assert_eq!(
        (&waited["place"], &waited["failure"]),
        (&"beaten".into(), &Value::Null)
    );
}

/// A metric that only some runs have is no win for anybody who lacks it, however few rivals remain.
#[test]
fn work_that_is_not_done_wins_nothing() {
    let campaign = CAMPAIGN
        .replace(", \"fifo:slice_ms=40:slice_ms2=0\"", "")
        .replace("ui.wakeup_latency_us_p99", "hog.job.latency_us_mean")
        .replace(
            "reason = \"The",
            "duration = \"700ms\"\nstarved_after = \"never\"\nreason = \"The",
        )
        .replace("slice_ms=40", "slice_ms=500");
    let bench = Bench::with(&campaign);
    let document = bench.json(&["-w", "clicks", "-m", "uni"]);
    let contest = contest(&document, "clicks", "uni");
    // The job is behind two slices of 500 ms, so it has not run once after 700 ms; nobody's request has ended.
    for scheduler in ["fifo:slice_ms=500", "fifo:slice_ms=10"] {
        let entry = entry(contest, scheduler);
        assert_eq!(
            (&entry["place"], &entry["failure"]["how"]),
            (&"failed".into(), &"no value".into())
        );
    }
    assert_eq!(contest["decision"]["kind"], "nobody");
    assert_eq!(document["tallies"][0]["won"], 0);
}

#[test]
fn wrong_files_are_refused_with_file_line_key_and_a_way_out() {
    let good = CAMPAIGN.replace(", \"fifo:slice_ms=40:slice_ms2=0\"", "");
    for (from, to, words) in [
        (
            "title",
            "titel",
            ["c.toml:2: unknown field `titel`", "campaign-files.md"],
        ),
        (
            "[\"fifo:slice_ms=40\"",
            "[\"fofi\"",
            ["c.toml:3: schedulers = \"fofi\"", "did you mean fifo?"],
        ),
        (
            "machine = \"uni\"",
            "machine = \"unix\"",
            ["c.toml:6: machine = \"unix\"", "did you mean uni"],
        ),
        (
            "metric = \"ui.w",
            "metric = \"ui.v",
            [
                "c.toml:15: metric = \"ui.vakeup",
                "the nearest are ui.wakeup_latency_us_p99",
            ],
        ),
        (
            "tie = \"1points\"",
            "tie = \"1ms\"",
            [
                "c.toml:27: tie of metric \"slow clicks\"",
                "a share: points",
            ],
        ),
        (
            "\"ui.wakeup_latency_us_p99\"\nbetter = \"lower\"",
            "\"ui.wakeup_latency_us_p99\"\nbetter = \"higher\"",
            [
                "c.toml:16: better = \"higher\", but of ui.wakeup_latency_us_p99 lower is better",
                "write \"lower\"",
            ],
        ),
        (
            "\"ui.wakeup_latency_us_p99\"",
            "\"latency_us_p99\"",
            [
                "c.toml:15: metric = \"latency_us_p99\": several metrics",
                "ui.latency_us_p99 or hog.latency_us_p99",
            ],
        ),
        (
            "\"2*$cpus\"",
            "\"2*$core\"",
            [
                "c.toml:18: patch: \"2*$core\": unknown name $core",
                "use $cpus or $cores",
            ],
        ),
        (
            "\"ui.wakeup_latency_us_p99\"",
            "\"hog.completion_us\"",
            [
                "c.toml:15: metric = \"hog.completion_us\"",
                "hog never completes: task hog repeats",
            ],
        ),
        (
            "machines = [\"two\"]",
            "machines = [\"three\"]",
            [
                "c.toml:29: machines: no [[machine]] has the name \"three\"",
                "two",
            ],
        ),
        (
            "hog.instance = ",
            "hogs.instance = ",
            ["c.toml: w.json: tasks.hogs", "no such key to patch"],
        ),
        (
            "\"fifo:slice_ms=10\"",
            "\"fifo:slice_ms=-5\"",
            [
                "c.toml:3: schedulers = \"fifo:slice_ms=-5\"",
                "does not fit",
            ],
        ),
        (
            "\"fifo:slice_ms=10\"",
            "\"fifo:slice_m=5\"",
            [
                "c.toml:3: schedulers = \"fifo:slice_m=5\"",
                "did you mean slice_ms?",
            ],
        ),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        Bench::with(&text).refuses(&["--seeds", "1"], 3, &words);
    }
    let bench = Bench::new();
    bench.refuses(
        &["-w", "click"],
        2,
        &[
            "--workload click: not in this campaign (a campaign file of your own takes others); ",
            "did you mean clicks?",
        ],
    );
    bench.refuses(
        &["-s", "rr"],
        2,
        &["rr: not in this campaign; --with rr adds it"],
    );
    bench.refuses(
        &["-w", "slow", "-m", "uni"],
        2,
        &["--machine uni: no selected workload runs there: slow is for two"],
    );
    bench.refuses(
        &["-m", "smp44"],
        2,
        &["smp44", "this campaign's are uni, two"],
    );
    bench.refuses(
        &["--with", "fifo:slice_ms=40"],
        2,
        &["already in the campaign"],
    );
    bench.refuses(
        &["--results", "c.toml/out"],
        1,
        &["c.toml/out: cannot create"],
    );
    bench.refuses(
        &["--report", "nowhere/p.html"],
        1,
        &["nowhere/p.html: cannot write"],
    );
    let output = bench.command(&["campaign", "leage"]).output().unwrap();
    let line = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert!(
        line.contains("leage: no such campaign") && line.contains("did you mean league?"),
        "{line}"
    );
    for shard in ["0/3", "4/3", "x"] {
        let output = bench.run(&["--shard", shard]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("write K/N"), "{}", stderr(&output));
    }
}

/// A machine of one's own, beside one of the campaign's; a workload that names its machines leaves it out.
#[test]
fn a_machine_that_the_campaign_does_not_have() {
    let document = Bench::new().json(&["-m", "two,smp4,smp4"]);
    let contests = document["contests"].as_array().unwrap().iter();
    let places: Vec<[&str; 2]> = contests
        .map(|c| ["workload", "machine"].map(|key| c[key].as_str().unwrap()))
        .collect();
    assert_eq!(
        places,
        [["clicks", "two"], ["clicks", "smp4"], ["slow", "two"]]
    );
}

/// By its name in the campaign's tables, or as for `tiltyard run`: then it is in all contests that it decides.
#[test]
fn a_workload_may_be_named_as_elsewhere() {
    let bench = Bench::new();
    let file = bench.path("w.json").display().to_string();
    let args = ["-w", &file, "-m", "two", "--seeds", "1"];
    let document = bench.json(&args);
    let names = document["contests"].as_array().unwrap().iter();
    let names: Vec<&str> = names.map(|c| c["workload"].as_str().unwrap()).collect();
    assert_eq!(names, ["clicks", "slow"]);
    let table = stdout(&bench.run(&["-w", "slow", "--seeds", "1", "--results", "my out"]));
    assert!(
        table.contains("Repeat  tiltyard campaign c.toml -w slow --seeds 1 --results 'my out'\n"),
        "{table}"
    );
    assert!(table.contains("Contest tiltyard run -w "), "{table}");
}

#[test]
fn a_mistyped_machine_is_no_machine_of_so_many_cpus() {
    let words = [
        "--machine 2",
        "none of this campaign's machines (uni, two)",
        "pu:2",
    ];
    Bench::new().refuses(&["-m", "2"], 2, &words);
}

/// The small case: no file, the default metric of each workload.
#[test]
fn run_takes_several_workloads() {
    let bench = Bench::new();
    fs::copy(bench.path("w.json"), bench.path("v.json")).unwrap();
    let args = [
        "run",
        "-w",
        "w.json,v.json",
        "-s",
        "fifo:slice_ms=40,fifo:slice_ms=10",
        "-m",
        "uni",
        "--seeds",
        "6",
    ];
    let output = bench
        .command(&[&args[..], &["--format", "json"]].concat())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["workloads"][0]["metric"], "ui throughput");
    assert_eq!(document["workloads"][0]["better"], "higher");
    assert_eq!(
        contest(&document, "v", "uni")["decision"]["who"],
        serde_json::json!(["fifo:slice_ms=10"])
    );
    assert_eq!(
        document["command"],
        "tiltyard run -w w.json,v.json -s fifo:slice_ms=40,fifo:slice_ms=10 -m uni --seeds 6"
    );
    let table = stdout(&bench.command(&args).output().unwrap());
    assert!(
        table.contains("2 workloads x 1 machine x 2 schedulers x 6 seeds: 0 runs done"),
        "{table}"
    );
    let failing = ["run", "-w", "w.json,v.json", "-s", "fifo,bfs:rr_interval=0"];
    let output = bench
        .command(&[&failing[..], &["-m", "uni"]].concat())
        .output()
        .unwrap();
    let lines = stderr(&output);
    assert_eq!(output.status.code(), Some(5), "{lines}");
    for workload in ["w", "v"] {
        let name = format!("tiltyard: {workload} on uni under bfs:rr_interval=0, seed 1: ");
        assert!(lines.contains(&name), "{lines}");
    }
    for flag in [
        &["--trace", "t"][..],
        &["--out", "o"],
        &["--twice"],
        &["--by", "task"],
        &["--patch", "{}"],
    ] {
        let output = bench.command(&[&args[..], flag].concat()).output().unwrap();
        let line = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(
            line.starts_with(&format!("tiltyard: {}: only with one workload", flag[0])),
            "{line}"
        );
    }
}

/// The shipped campaign names what is shipped, and each of its cells can be run.
#[test]
fn the_league_has_every_scheduler_and_runs() {
    let bench = Bench::new();
    let list = stdout(&bench.command(&["list", "campaigns"]).output().unwrap());
    assert!(list.contains("league"), "{list}");
    let shown = stdout(
        &bench
            .command(&["show", "campaigns", "league"])
            .output()
            .unwrap(),
    );
    let line = shown
        .lines()
        .find(|line| line.contains("schedulers: "))
        .unwrap();
    let entrants: Vec<&str> = line.split([' ', ',']).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for folder in root.join("schedulers").read_dir().unwrap() {
        let name = folder.unwrap().file_name().into_string().unwrap();
        let source = root.join(format!("schedulers/{name}/{name}.bpf.c"));
        assert!(
            !source.is_file() || entrants.contains(&name.as_str()),
            "{name} is not in campaigns/league.toml: {line}"
        );
    }
    let args = [
        "league", "-m", "2009", "-s", "fifo,rr", "--seeds", "1", "--format", "json",
    ];
    let output = bench.command(&args).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        document["command"],
        "tiltyard league -m 2009 -s fifo,rr --seeds 1"
    );
    for contest in document["contests"].as_array().unwrap() {
        for entry in contest["entries"].as_array().unwrap() {
            assert_eq!(
                entry["failure"],
                Value::Null,
                "{} {entry}",
                contest["workload"]
            );
            assert!(entry["value"]["median"].as_f64().unwrap() >= 0.0, "{entry}");
        }
    }
}
