// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard campaign` and `tiltyard league` as their users see them, on campaigns small enough to be seen through. Runs need
//! clang-19.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

mod failures;
mod kept;
mod own_metric;

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
    assert!(page.contains("<code>tiltyard campaign c.toml -w slow -m two</code>"));
    assert!(
        !page.contains("uPlot draws") && page.len() < 100_000,
        "no curves, no credit"
    );
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
        again.contains("0 runs done in") && again.contains(", 36 reused"),
        "{again}"
    );
}

/// Numbers of the document and of the CSV agree with each other and with the values of the seeds.
#[test]
fn numbers_agree_with_the_seeds() {
    let bench = Bench::new();
    let document = bench.json(&["-m", "two"]);
    let csv = stdout(&bench.run(&["-m", "two", "--format", "csv"]));
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let lines: Vec<Vec<&str>> = lines.collect();
    let field = |line: &[&str], name: &str| -> f64 {
        let at = header.iter().position(|known| *known == name).unwrap();
        line[at].parse().unwrap()
    };
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        (values[2] + values[3]) / 2.0
    };
    let seeds = |entry: &Value| -> Vec<f64> {
        let values = entry["values"].as_array().unwrap().iter();
        values.map(|value| value.as_f64().unwrap()).collect()
    };
    for (contest, workload) in document["contests"]
        .as_array()
        .unwrap()
        .iter()
        .zip(["clicks", "slow"])
    {
        let best = seeds(entry(contest, "fifo:slice_ms=10"));
        let expect = if workload == "slow" {
            1.0..101.0
        } else {
            1000.0..100_000.0
        };
        for scheduler in ["fifo:slice_ms=40", "fifo:slice_ms=10"] {
            let entry = entry(contest, scheduler);
            let own = seeds(entry);
            let is = |line: &&Vec<&str>| line[0] == workload && line.contains(&scheduler);
            let line = lines.iter().find(is).unwrap();
            let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-6 * b.abs().max(1.0), "{a} {b}");
            near(
                entry["value"]["median"].as_f64().unwrap(),
                middle(own.clone()),
            );
            near(field(line, "median"), middle(own.clone()));
            near(
                field(line, "low"),
                own.iter().copied().fold(f64::MAX, f64::min),
            );
            near(
                field(line, "high"),
                own.iter().copied().fold(f64::MIN, f64::max),
            );
            let by = middle(own.iter().zip(&best).map(|(a, b)| a - b).collect());
            near(entry["behind"]["by"]["median"].as_f64().unwrap(), by);
            near(field(line, "behind"), by);
            if workload == "clicks" {
                let times = middle(own.iter().zip(&best).map(|(a, b)| a / b).collect());
                near(field(line, "times"), times);
                assert!(expect.contains(&own[0]), "us: {own:?}");
            } else if scheduler == "fifo:slice_ms=40" {
                assert!(expect.contains(&own[0]), "percent: {own:?}");
            }
            let overhead = entry["overhead_percent"]["median"].as_f64().unwrap();
            assert!((0.001..50.0).contains(&overhead), "{overhead}");
        }
    }
    let decided = &document["contests"][0]["decision"];
    let margin = entry(&document["contests"][0], "fifo:slice_ms=40");
    assert_eq!(decided["margin"], margin["behind"]);
    let tally = &document["tallies"][0];
    assert_eq!(tally["worst"], "clicks on two");
    assert_eq!(tally["worst_by_difference"], "slow on two");
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
    assert!(table.contains("Runs    tiltyard run -w "), "{table}");
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
        .command(&[&failing[..], &["-m", "uni", "--seeds", "2"]].concat())
        .output()
        .unwrap();
    let lines = stderr(&output);
    assert_eq!(output.status.code(), Some(5), "{lines}");
    for workload in ["w", "v"] {
        // Once, not for each seed.
        let name = format!("tiltyard: {workload} on uni under bfs:rr_interval=0, seed ");
        assert_eq!(lines.matches(&name).count(), 1, "{lines}");
        assert!(lines.contains(&format!("{name}1: ")), "{lines}");
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
    for (workloads, wrong) in [
        ("w.json,w.json", "w.json appears twice"),
        ("w.json,./w.json", "w.json and ./w.json are the same"),
    ] {
        let output = bench
            .command(&["run", "-w", workloads, "-s", "fifo", "-m", "uni"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(wrong), "{}", stderr(&output));
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
