// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard compare`: results in, a table or an exit code out.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::{Value, json};
use tempfile::TempDir;
use tiltyard_measure::testing::Stream;
use tiltyard_measure::{Recorder, RecorderSpec, Summary};

const MS: u64 = 1_000_000;

/// One CPU, one server, which answers ten requests after so many us each.
fn summary(latency_us: u64) -> Summary {
    let mut s = Stream::new();
    s.class(0, "request").task(0, 1, "server");
    s.wake_new(0, 0, 1).start(0, 0, 1);
    for request in 1..=10 {
        let end_ns = request * 100 * MS;
        s.request(end_ns, 1, 0, end_ns - latency_us * 1000);
    }
    s.exit(1001 * MS, 0, 1, 0);
    let mut recorder = Recorder::new(RecorderSpec {
        nr_cpus: 1,
        origin_ns: 0,
        starvation_ns: RecorderSpec::STARVATION_NS,
    });
    s.play(&mut recorder);
    recorder.finish(1002 * MS)
}

/// What `tiltyard run --format json` prints: schedulers with the latency of each of their seeds, from 1.
fn simulated(schedulers: &[(&str, &[u64])]) -> Value {
    let of_one = |(name, latencies): &(&str, &[u64])| {
        let runs = latencies.iter().zip(1_u64..);
        let run = |(us, seed): (&u64, u64)| json!({ "scheduler": name, "seed": seed, "summary": summary(*us) });
        runs.map(run).collect::<Vec<Value>>()
    };
    let runs: Vec<Value> = schedulers.iter().flat_map(of_one).collect();
    json!({ "workload": "web", "duration_ns": null, "machine": "smp2", "comparison": null, "runs": runs })
}

/// What `tiltyard kernel --out` writes: one scheduler whose command took so many ms and printed a score; round 0 warms up.
fn real(took_ms: &[u64]) -> Value {
    let run = |(round, ms): (usize, &u64)| {
        json!({
            "scheduler": "default (EEVDF)", "round": round, "tunables": [], "complaints": [], "state_after": "disabled",
            "outcome": {
                "outcome": "ran", "ops_name": null, "command": { "status": "exited", "code": 0 }, "exit": null,
                "scores": [format!("transactions_per_s {}", 100_000 / ms)], "deviations": [],
                "load_ms": 0, "command_ms": ms, "unload_ms": 0
            }
        })
    };
    let runs: Vec<Value> = took_ms.iter().enumerate().map(run).collect();
    json!({
        "cut_short": null, "workload": "hackbench", "duration_ns": null, "recorded": [], "comparison": null,
        "report": {
            "kernel_release": "6.18.1", "kernel_config": null, "cpus": 2, "host_cpu": "a CPU", "accel": null,
            "load_percent": 0, "boot_ms": 0, "total_ms": 0, "cut_short": null, "runs": runs
        }
    })
}

const LOW: &[u64] = &[500, 501, 502, 503, 504];
const HIGH: &[u64] = &[600, 601, 602, 603, 604];

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// `base.json` with low latencies and `new.json` with higher ones, of one scheduler each.
    fn with_pair() -> Folder {
        let folder = Folder::new();
        folder.write("base.json", &simulated(&[("fifo", LOW)]).to_string());
        folder.write("new.json", &simulated(&[("fifo", HIGH)]).to_string());
        folder
    }

    fn compare(&self, args: &[&str]) -> assert_cmd::assert::Assert {
        let mut command = Command::cargo_bin("tiltyard").unwrap();
        command.current_dir(self.path()).arg("compare").args(args);
        command.assert()
    }

    /// Expects this exit code, nothing on stdout, and one line on stderr with all these words.
    #[track_caller]
    fn refused(&self, args: &[&str], code: i32, words: &[&str]) {
        let output = self
            .compare(args)
            .code(code)
            .stdout("")
            .get_output()
            .clone();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        for word in words {
            assert!(stderr.contains(word), "no \"{word}\" in: {stderr}");
        }
    }
}

/// The whole way, with runs of the simulated machine.
#[test]
fn results_of_runs_are_compared() {
    let folder = Folder::new();
    let mut run = Command::cargo_bin("tiltyard").unwrap();
    run.env_remove("TILTYARD_DATA");
    run.args([
        "run",
        "-w",
        "mix-hog-sleepers",
        "-s",
        "fifo,rr",
        "-m",
        "smp2",
    ]);
    run.args(["--duration", "1s", "--seeds", "5", "--format", "json"]);
    let output = run.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    folder.write("both.json", &String::from_utf8(output.stdout).unwrap());
    let table = contains("A  both.json#fifo\nB  both.json#rr\n")
        .and(contains(
            "both: mix-hog-sleepers for 1s on simulated machine smp2, 5 runs",
        ))
        .and(contains("longest wait"))
        .and(contains("5 and 5 runs"));
    folder
        .compare(&["both.json"])
        .success()
        .stdout(table)
        .stderr("");
    let same = folder
        .compare(&["both.json#fifo", "both.json#fifo"])
        .success();
    same.stderr(contains("warning: A and B are the same runs"))
        .stdout(contains("worse").not());
}

#[test]
fn changes_have_interval_probability_and_mark() {
    let folder = Folder::with_pair();
    let output = folder
        .compare(&["base.json", "new.json"])
        .success()
        .get_output()
        .clone();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text
        .lines()
        .find(|line| line.contains("latency p50"))
        .unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let expect = "latency p50 502 us 602 us +19.9 % [+19.3, +20.6] 1.00 0.008 worse";
    assert_eq!(words.join(" "), expect, "{text}");
    let again = folder.compare(&["base.json", "new.json"]).success();
    again.stdout(text);
}

#[test]
fn a_scheduler_is_chosen_behind_a_hash() {
    let folder = Folder::new();
    let name = "ule:slice=1"; // labels have colons and blanks, file names may have hashes
    folder.write(
        "a#b.json",
        &simulated(&[("fifo", LOW), (name, HIGH)]).to_string(),
    );
    let there = folder
        .compare(&["a#b.json#fifo", "a#b.json#ule:slice=1"])
        .success();
    there.stdout(contains("A  a#b.json#fifo\nB  a#b.json#ule:slice=1\n").and(contains("worse")));
    let back = folder.compare(&["a#b.json#ule:slice=1"]).success();
    back.stdout(contains("B  a#b.json#fifo\n").and(contains("better")));
    folder.refused(
        &["a#b.json", "a#b.json#fifo"],
        2,
        &["a#b.json: has runs of fifo, ule:slice=1: name one, as in 'a#b.json#fifo'"],
    );
    folder.refused(
        &["a#b.json#fofo"],
        2,
        &["has no runs of fofo; did you mean fifo?"],
    );
    folder.write("one.json", &simulated(&[("fifo", LOW)]).to_string());
    folder.refused(
        &["one.json"],
        2,
        &["has runs of fifo: name a second result"],
    );
    folder.write(
        "three.json",
        &simulated(&[("a", LOW), ("b", LOW), ("c", LOW)]).to_string(),
    );
    folder.refused(&["three.json"], 2, &["runs of a, b, c: name two"]);
}

#[test]
fn a_gate_fires_with_a_code_of_its_own() {
    let folder = Folder::with_pair();
    let gate = |limit: &'static str| ["base.json", "new.json", "--fail-if", limit];
    folder
        .compare(&gate("latency_us_p99 > +10%"))
        .code(9)
        .stdout(contains("FIRED  server.latency_us_p99  +19.9 % [+19.3, +20.6], p 0.008"))
        .stderr("tiltyard: gate fired: latency_us_p99 > +10%: server.latency_us_p99 +19.9 % [+19.3, +20.6], p 0.008\n");
    let holds = folder
        .compare(&gate("server.latency_us_p99 > +25%"))
        .success();
    holds
        .stdout(contains("holds  server.latency_us_p99"))
        .stderr("");
    folder.compare(&gate("latency_us_mean > +99us")).code(9);
    folder.compare(&gate("latency_us_mean > +101us")).success();
    folder
        .compare(&[
            "new.json",
            "base.json",
            "--fail-if",
            "latency_us_p50 < -10%",
        ])
        .code(9);
    let mut both = gate("latency_us_p50 > 50%").to_vec();
    both.extend(["--fail-if", "latency_us_p50 > 1%", "--format", "json"]);
    let output = folder.compare(&both).code(9).get_output().clone();
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let fired = |at: usize| all["gates"][at]["fired"].as_bool();
    assert_eq!([fired(0), fired(1)], [Some(false), Some(true)]);
}

#[test]
fn a_gate_that_cannot_be_judged_is_an_error() {
    let folder = Folder::with_pair();
    let gate = |limit: &'static str| ["base.json", "new.json", "--fail-if", limit];
    folder.refused(
        &gate("latency_p99 > 1%"),
        2,
        &[
            "unknown metric latency_p99; the nearest are latency_us_p99",
            "--list-metrics",
        ],
    );
    folder.refused(
        &gate("latency_us_p99 > 1"),
        2,
        &["is a time: ns, us, ms or s"],
    );
    folder.refused(&gate("latency_us_p99"), 2, &["neither > nor <"]);
    folder.refused(&gate("latency_us_p99 > -1%"), 2, &["0 or more"]);
    for name in ["three.json", "also_three.json"] {
        folder.write(name, &simulated(&[("fifo", &[1, 2, 3])]).to_string());
    }
    folder.refused(
        &[
            "three.json",
            "also_three.json",
            "--fail-if",
            "throughput_per_s < 0%",
        ],
        3,
        &["server.throughput_per_s has 3 and 3 runs, too few"],
    );
    let mut silent = simulated(&[("fifo", HIGH)]);
    for run in silent["runs"].as_array_mut().unwrap() {
        run["summary"]["requests"] = json!([]);
    }
    folder.write("silent.json", &silent.to_string());
    folder.refused(
        &[
            "base.json",
            "silent.json",
            "--fail-if",
            "latency_us_p99 > 1%",
        ],
        3,
        &["no run of silent.json#fifo has server.latency_us_p99"],
    );
    let force = folder.compare(&["base.json", "new.json", "--force"]);
    force.code(2).stderr(contains("--fail-if"));
}

/// One of many that changes alone may be chance; a gate on that one need not ask the others.
#[test]
fn too_many_gates_for_so_few_runs_are_warned_of() {
    let folder = Folder::with_pair();
    let mut args = vec!["base.json", "new.json"];
    let limits: Vec<String> = ["mean", "p50", "p99", "p999", "max"]
        .iter()
        .map(|which| format!("latency_us_{which} > 50%"))
        .collect();
    for limit in &limits {
        args.extend(["--fail-if", limit]);
    }
    args.extend(["--fail-if", "requests > 50%"]); // ten in each run: nothing is tested there
    folder.compare(&args).success().stderr("");
    folder.write("four.json", &simulated(&[("fifo", &LOW[..4])]).to_string());
    args[0] = "four.json";
    let warning = "with 4 and 5 runs, one of these 5 metrics that changes alone counts as chance; name fewer metrics, or \
                   take 5 runs of each";
    folder.compare(&args).success().stderr(contains(warning));
}

#[test]
fn single_runs_of_one_seed_are_exact() {
    let folder = Folder::new();
    folder.write("a.json", &simulated(&[("fifo", &[500])]).to_string());
    folder.write("b.json", &simulated(&[("fifo", &[600])]).to_string());
    let gate = ["a.json", "b.json", "--fail-if", "latency_us_p99 > 10%"];
    let note = contains("no interval and no test")
        .and(contains("[").not())
        .and(contains("worse"));
    folder.compare(&gate).code(9).stdout(note);
    let mut other_seed = simulated(&[("fifo", &[600])]);
    other_seed["runs"][0]["seed"] = json!(2);
    folder.write("b.json", &other_seed.to_string());
    let too_few = contains("1 and 1 runs are too few").and(contains("worse").not());
    folder.compare(&gate[..2]).success().stdout(too_few);
    folder.refused(&gate, 3, &["would not come out the same again"]);
}

/// Where a workload draws nothing, ten seeds are one run ten times: no evidence that would grow with their number.
#[test]
fn runs_that_are_all_alike_count_as_one() {
    let folder = Folder::new();
    folder.write("a.json", &simulated(&[("fifo", &[500; 10])]).to_string());
    folder.write("b.json", &simulated(&[("fifo", &[600; 10])]).to_string());
    let note = contains("All 10 runs of A are identical and all 10 runs of B are identical, so each side counts as one run")
        .and(contains("[").not())
        .and(contains("worse"));
    folder.compare(&["a.json", "b.json"]).success().stdout(note);
    folder.write(
        "c.json",
        &simulated(&[("fifo", &[600, 600, 600, 600, 601])]).to_string(),
    );
    let tested = contains("Medians of 10 and 5 runs").and(contains("worse"));
    folder
        .compare(&["a.json", "c.json"])
        .success()
        .stdout(tested);
    // A clock with whole ms makes runs of a real kernel alike, and they are runs for all that.
    folder.write("d.json", &real(&[1, 70, 70, 70, 70]).to_string());
    folder.write("e.json", &real(&[1, 80, 80, 80, 80]).to_string());
    folder
        .compare(&["d.json", "e.json"])
        .success()
        .stdout(contains("Medians of 4 and 4 runs"));
}

#[test]
fn different_workloads_are_told_and_not_judged() {
    let folder = Folder::with_pair();
    let mut other = simulated(&[("fifo", HIGH)]);
    other["workload"] = json!("mail");
    other["machine"] = json!("smp4");
    other["duration_ns"] = json!(2_000 * MS);
    folder.write("new.json", &other.to_string());
    let told = contains("warning: different workloads: A has web, B has mail")
        .and(contains(
            "warning: different machines: A has smp2, simulated, B has smp4, simulated",
        ))
        .and(contains(
            "warning: different durations: A has the workload's own, B has 2s",
        ));
    folder
        .compare(&["base.json", "new.json"])
        .success()
        .stderr(told);
    let gate = ["base.json", "new.json", "--fail-if", "latency_us_p99 > 10%"];
    folder
        .compare(&gate)
        .code(2)
        .stdout("")
        .stderr(contains("--force judges nevertheless"));
    folder.compare(&[&gate[..], &["--force"]].concat()).code(9);
}

/// Those that are left may be the lucky ones.
#[test]
fn failed_runs_are_not_judged_in_silence() {
    let folder = Folder::with_pair();
    let mut new = simulated(&[("fifo", LOW)]);
    new["failures"] = json!([
        { "scheduler": "fifo", "seed": 9, "how": null },
        { "scheduler": "rr", "seed": 1, "how": null }
    ]);
    folder.write("new.json", &new.to_string());
    let told = contains("runs of new.json#fifo failed, and do not count");
    folder
        .compare(&["base.json", "new.json#fifo"])
        .success()
        .stderr(contains("1 of ").and(told));
    let gate = [
        "base.json",
        "new.json#fifo",
        "--fail-if",
        "latency_us_p99 > 10%",
    ];
    folder
        .compare(&gate)
        .code(2)
        .stdout("")
        .stderr(contains("failed, and do not count"));
    folder.compare(&[&gate[..], &["--force"]].concat()).code(0);
    folder
        .compare(&["base.json", "new.json#rr"])
        .code(3)
        .stderr(contains("has no run that counts: 1 failed"));
}

/// A name says little: a workload that was edited between two runs has the same one.
#[test]
fn edited_workloads_and_machines_are_told_apart() {
    let folder = Folder::new();
    let workload =
        |us: u32| format!("{{ \"tasks\": {{ \"hog\": {{ \"loop\": 9, \"run\": {us} }} }} }}");
    let result = |name: &str| {
        let mut run = Command::cargo_bin("tiltyard").unwrap();
        run.current_dir(folder.path());
        run.args([
            "run", "-w", "web.json", "-s", "fifo", "--format", "json", "-m", "box.toml",
        ]);
        let output = run.assert().success().get_output().stdout.clone();
        folder.write(name, &String::from_utf8(output).unwrap());
    };
    let machine = include_str!("../../../../machines/uni.toml");
    folder.write("box.toml", machine);
    folder.write("web.json", &workload(1000));
    result("a.json");
    result("same.json");
    folder.write("web.json", &workload(2000));
    result("b.json");
    folder.write("box.toml", &format!("{machine}\n# edited\n"));
    result("c.json");
    let warned = |files: [&str; 2]| {
        let output = folder.compare(&files).success().get_output().stderr.clone();
        String::from_utf8(output).unwrap()
    };
    assert_eq!(warned(["a.json", "same.json"]), "");
    let edited = warned(["a.json", "b.json"]);
    assert!(
        edited.contains("different workloads: both are called web"),
        "{edited}"
    );
    let edited = warned(["b.json", "c.json"]);
    assert!(
        edited.contains("different machines: both are called"),
        "{edited}"
    );
    assert!(!edited.contains("workloads"), "{edited}");
    // No gate judges such a change, and results of earlier versions have no hashes.
    let gate = ["a.json", "b.json", "--fail-if", "runtime_us > 10%"];
    folder.compare(&gate).code(2).stdout("");
    let mut old: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("a.json")).unwrap()).unwrap();
    old["workload_sha256"] = Value::Null;
    old.as_object_mut().unwrap().remove("machine_sha256");
    folder.write("old.json", &old.to_string());
    assert_eq!(warned(["old.json", "c.json"]), "");
}

#[test]
fn results_of_real_kernels_are_compared() {
    let folder = Folder::new();
    folder.write("a.json", &real(&[9999, 100, 101, 102, 103]).to_string());
    let mut slow = real(&[9999, 200, 201, 202, 203, 204]);
    slow["report"]["runs"][5]["outcome"]["command"]["code"] = json!(1);
    slow["report"]["cut_short"] = json!("interrupted by SIGINT");
    folder.write("b.json", &slow.to_string());
    let output = folder
        .compare(&[
            "a.json#default",
            "b.json",
            "--fail-if",
            "took_s > +95ms",
            "--fail-if",
            "transactions_per_s < -1%",
            "--force",
        ])
        .code(9)
        .stdout(contains(
            "hackbench on Linux 6.18.1, 2 CPUs, this machine, a CPU, 4 runs",
        ))
        .stderr(
            contains("b.json#default (EEVDF) was cut short: interrupted by SIGINT").and(contains(
                "1 of 5 runs of b.json#default (EEVDF) failed, and do not count",
            )),
        )
        .get_output()
        .clone();
    let text = String::from_utf8(output.stdout).unwrap();
    let took = text.lines().find(|line| line.contains("took")).unwrap();
    let words: Vec<&str> = took.split_whitespace().collect();
    assert_eq!(
        words.join(" "),
        "command took 102 ms ± 1.5 % 202 ms ± 0.7 % +98.5 % [+94.2, +103] 1.00 0.029 worse",
        "the warm-up does not count: {text}"
    );
    assert!(text.contains("FIRED  command.transactions_per_s"), "{text}");
    folder.write("sim.json", &simulated(&[("fifo", LOW)]).to_string());
    folder
        .compare(&["a.json", "sim.json"])
        .success()
        .stderr(contains("different machines"));
}

/// Figures that come from events belong to the run in which they were recorded.
#[test]
fn recorded_runs_of_a_kernel_find_their_scheduler() {
    let folder = Folder::new();
    let mut both = real(&[50, 51, 52, 53, 54]);
    let mut of_ule = both["report"]["runs"].clone();
    for run in of_ule.as_array_mut().unwrap() {
        run["scheduler"] = json!("ule");
    }
    let runs = both["report"]["runs"].as_array_mut().unwrap();
    runs.append(of_ule.as_array_mut().unwrap());
    let recorded = |scheduler: &'static str, latencies: &'static [u64]| {
        latencies.iter().zip(0..).map(move |(us, round)| {
            json!({ "scheduler": scheduler, "round": round, "lost_events": round + 1, "summary": summary(*us) })
        })
    };
    let default = recorded("default (EEVDF)", &[9000, 500, 501, 502, 503]);
    let all: Vec<Value> = default
        .chain(recorded("ule", &[9000, 700, 701, 702, 703]))
        .collect();
    both["recorded"] = json!(all);
    folder.write("both.json", &both.to_string());
    let output = folder
        .compare(&["both.json", "--format", "json"])
        .success()
        .stderr(contains("both.json#ule lost 14 events"))
        .get_output()
        .clone();
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let metrics = all["metrics"].as_array().unwrap();
    let p99 = metrics
        .iter()
        .find(|m| m["name"] == "server.latency_us_p99");
    let medians = ["a", "b"].map(|side| p99.unwrap()[side]["median"].as_f64().unwrap().round());
    assert_eq!(medians, [502.0, 702.0]);
    let groups: Vec<&str> = metrics
        .iter()
        .map(|m| m["group"].as_str().unwrap())
        .collect();
    assert_eq!(
        (groups[0], groups[groups.len() - 1]),
        ("command", "machine")
    );
}

#[test]
fn what_is_no_result_is_said_in_one_line() {
    let folder = Folder::with_pair();
    let whole = simulated(&[("fifo", LOW)]).to_string();
    let edited = |edit: &dyn Fn(&mut Value)| {
        let mut document = simulated(&[("fifo", LOW)]);
        edit(&mut document);
        document.to_string()
    };
    let cases: [(&str, String, &str); 13] = [
        (
            "words",
            "no JSON at all".to_owned(),
            "is not JSON: expected",
        ),
        ("empty", "\n".to_owned(), "is empty"),
        (
            "half",
            whole[..whole.len() / 2].to_owned(),
            "is cut off at line 1",
        ),
        (
            "number",
            "17".to_owned(),
            "is no result: invalid type: integer",
        ),
        ("object", "{}".to_owned(), "is no result: it has no runs"),
        (
            "several",
            r#"{ "contests": [] }"#.to_owned(),
            "holds the standings of several contests",
        ),
        ("none", edited(&|d| d["runs"] = json!([])), "has no runs"),
        (
            "newer",
            edited(&|d| d["runs"][3]["summary"]["format"] = json!(99)),
            "have format 99, and this tiltyard reads 1",
        ),
        (
            "strange",
            edited(&|d| d["runs"][0]["summary"] = json!({ "format": 1 })),
            "is no result: missing field `duration_ns`",
        ),
        (
            "nobody",
            edited(&|d| d["machine"] = json!(3)),
            "is no result: invalid type: integer `3`, expected a string",
        ),
        (
            "running",
            json!({ "cut_short": "still running when this was written" }).to_string(),
            "has no runs: still running",
        ),
        ("warming", real(&[]).to_string(), "has no runs"),
        (
            "twice",
            edited(&|d| d["runs"][1]["seed"] = d["runs"][0]["seed"].clone()),
            "has two runs of fifo with seed 1, which are the same run",
        ),
    ];
    for (name, text, what) in &cases {
        let file = format!("{name}.json");
        folder.write(&file, text);
        folder.refused(&["base.json", &file], 3, &[&format!("{file}: "), what]);
        folder.refused(&[&file, "base.json"], 3, &[&format!("{file}: "), what]);
    }
    folder.refused(
        &["base.json", "nowhere.json#fifo"],
        3,
        &["nowhere.json: cannot read"],
    );
    folder.write("warm.json", &real(&[10]).to_string());
    folder.refused(
        &["base.json", "warm.json"],
        3,
        &["warm.json#default (EEVDF): has no run that counts"],
    );
}

#[test]
fn metrics_are_listed_with_unit_and_direction() {
    let folder = Folder::with_pair();
    let listed = contains("server.latency_us_p99").and(contains("machine.busy_percent"));
    folder
        .compare(&["base.json", "--list-metrics"])
        .success()
        .stdout(listed);
    let output = folder
        .compare(&[
            "base.json",
            "new.json",
            "--list-metrics",
            "--format",
            "json",
        ])
        .success();
    let all: Vec<Value> = serde_json::from_slice(&output.get_output().stdout).unwrap();
    let throughput = all
        .iter()
        .find(|m| m["name"] == "server.throughput_per_s")
        .unwrap();
    assert_eq!(
        (&throughput["unit"], &throughput["better"]),
        (&json!("per_s"), &json!("higher"))
    );
}

/// What scripts read: values in the unit of the name, everything that the table is made of.
#[test]
fn json_has_every_figure_in_the_unit_of_its_name() {
    let folder = Folder::with_pair();
    let output = folder
        .compare(&["base.json", "new.json", "--format", "json"])
        .success();
    let all: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
    let metrics = all["metrics"].as_array().unwrap();
    let p99 = metrics
        .iter()
        .find(|m| m["name"] == "server.latency_us_p99")
        .unwrap();
    let near = |value: &Value, expect: f64| (value.as_f64().unwrap() - expect).abs() < 0.5;
    assert!(
        near(&p99["a"]["median"], 502.0) && near(&p99["b"]["median"], 602.0),
        "{p99}"
    );
    assert!(
        near(&p99["change"]["median"], 100.0) && near(&p99["change_percent"]["median"], 19.9),
        "{p99}"
    );
    assert_eq!(
        (&p99["unit"], &p99["mark"], &p99["delta"]),
        (&json!("us"), &json!("worse"), &json!(1.0))
    );
    let p = [&p99["p"], &p99["p_adjusted"]].map(|p| p.as_f64().unwrap());
    assert!((p[0] - 2.0 / 252.0).abs() < 1e-12 && p[1] >= p[0], "{p:?}");
    assert_eq!(
        (&all["trial"], &all["correction"]),
        (&json!("tested"), &json!("benjamini-hochberg"))
    );
    assert_eq!(all["a"]["runs"], 5);
}
