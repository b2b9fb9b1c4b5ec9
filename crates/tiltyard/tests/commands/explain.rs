// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard explain`: known causes of published differences are found, and bytes do not depend on threads or the cache.
//! Runs need clang-19.

use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

use crate::sample;

fn explain(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("tiltyard").unwrap();
    command.arg("explain").args(args);
    command
}

fn answer(args: &[&str]) -> Value {
    let all = [args, &["--no-cache", "--format", "json"]].concat();
    let output = explain(&all).assert().success().get_output().stdout.clone();
    serde_json::from_slice(&output).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

/// The share of each mechanism, as a part of the difference; they add up to it with the remainder.
fn parts(answer: &Value) -> Vec<(&str, f64)> {
    let shares = answer["shares"].as_array().unwrap();
    let whole = number(&answer["difference"]["value"]);
    let values = shares.iter().map(|share| number(&share["share"]["value"]));
    let sum = values.sum::<f64>() + number(&answer["remainder"]["value"]);
    assert!((sum - whole).abs() <= 1e-9 * whole.abs(), "{sum}: {answer}");
    let part = |share: &'_ Value| number(&share["share"]["part"]);
    let named = shares
        .iter()
        .map(|share| (share["mechanism"].as_str().unwrap(), part(share)));
    named.collect()
}

/// Neither slice ever ends, so all runs would be the same.
#[test]
fn what_does_not_differ_has_no_causes() {
    let folder = tempfile::tempdir().unwrap();
    let workload = folder.path().join("sleeper.json");
    let text = r#"{"tasks": {"sleeper": {"loop": 20, "run": 1000, "sleep": 1000}}}"#;
    std::fs::write(&workload, text).unwrap();
    let workload = workload.to_str().unwrap();
    let args = ["-w", workload, "-s", "fifo:slice_ms=20,fifo:slice_ms=30"];
    let args = [&args[..], &["--seeds", "3", "-m", "smp4"]].concat();
    explain(&args)
        .assert()
        .success()
        .stdout(contains(", 6 runs\n").and(contains("do not differ in")))
        .stdout(contains("all together").not());
    assert_eq!(answer(&args)["shares"], serde_json::json!([]));
}

#[test]
fn cores_of_several_threads_are_a_mechanism() {
    let folder = tempfile::tempdir().unwrap();
    let workload = folder.path().join("crowd.json");
    let text = r#"{"tasks": {"t": {"instance": 5, "loop": 20, "run": 3000, "sleep": 1000}}}"#;
    std::fs::write(&workload, text).unwrap();
    let on = |machine| {
        let workload = workload.to_str().unwrap();
        let said = explain(&["-w", workload, "-s", "fifo,rr", "-m", machine]);
        let said = { said }.assert().success().get_output().stdout.clone();
        String::from_utf8(said).unwrap()
    };
    let shared = on("core:2 pu:2");
    assert!(shared.contains("\ncore-sharing "), "{shared}");
    let apart = on("core:4 pu:1");
    assert!(!apart.contains("\ncore-sharing "), "{apart}");
    assert!(apart.contains("has no SMT: core-sharing"), "{apart}");
}

/// A published difference with a published cause.
struct Published {
    /// Workload, machine, schedulers, and whatever makes runs short.
    args: &'static [&'static str],
    metric: &'static str,
    /// How much lower the second scheduler's metric is, as a part of the first's.
    lower_by: std::ops::Range<f64>,
    /// The largest part.
    main: &'static str,
    /// What the source gives as the reason.
    cause: &'static str,
    /// At least this part of the difference.
    part: f64,
}

/// Those that take long are one of three similar tests.
fn is_found_if_chosen(number: u64, published: &Published) {
    if sample::includes(number, 3) {
        is_found(published);
    }
}

fn is_found(published: &Published) {
    let answer = answer(published.args);
    assert_eq!(answer["metric"], published.metric);
    let [first, second] = [0, 1].map(|side| number(&answer["values"][side]));
    let lower_by = 1.0 - second / first;
    assert!(published.lower_by.contains(&lower_by), "{lower_by}");
    assert_eq!(answer["main_cause"], published.main, "{answer}");
    let shares = answer["shares"].as_array().unwrap().iter();
    for share in shares.filter(|share| share["mechanism"] == published.cause) {
        let ends = share["share"]["interval"].as_array();
        let ends = ends.map(|ends| ends.iter().map(number).collect::<Vec<f64>>());
        assert!(ends.is_none_or(|ends| ends[1] < 0.0), "{answer}");
    }
    let parts = parts(&answer);
    let (_, part) = parts
        .iter()
        .find(|(name, _)| *name == published.cause)
        .unwrap();
    assert!(*part >= published.part, "{parts:?}");
}

/// "The Battle of the Schedulers", section 5.3: ab is preempted at each wakeup under CFS, and ULE serves 40 % more. Every
/// preemption costs two switches, so their costs have the rest. Less than a half would mean that the preemption is not what
/// makes the switches.
#[test]
fn apache_is_slower_under_cfs_because_of_wakeup_preemption() {
    let published = Published {
        args: &["-w", "apache", "-s", "ule,cfs", "-m", "opteron1"],
        metric: "apache.throughput_per_s",
        lower_by: 0.25..0.45,
        main: "wakeup-preemption",
        cause: "wakeup-preemption",
        part: 0.5,
    };
    is_found_if_chosen(0, &published);
}

/// Section 6.3: on 32 cores, ULE looks at all of them for a core at most wakeups of sysbench. The search is what its scheduler
/// takes more CPU time for than CFS. Unlike in the paper, it costs no throughput: at a seventeenth of the CPU time busy, locks
/// limit sysbench, and ULE is the faster one (docs/how-to/explain-a-difference.md).
#[test]
fn sysbench_on_32_cores_pays_for_the_search_at_wakeups() {
    let published = Published {
        args: &[
            "-w",
            "sysbench-mc",
            "-s",
            "ule,cfs",
            "-m",
            "opteron32",
            "--metric",
            "scheduler_percent",
            "--mechanisms",
            "wakeup-placement,queue-visits,lock-waits",
        ],
        metric: "machine.scheduler_percent",
        lower_by: 0.4..0.8,
        main: "wakeup-placement",
        cause: "wakeup-placement",
        part: 0.5,
    };
    is_found_if_chosen(1, &published);
}

/// The same with locks that are held for a shorter time, so that CPUs are busy: what the search takes, and where it puts threads, now
/// costs throughput.
#[test]
fn sysbench_with_short_locks_is_slower_under_ule_because_of_the_search() {
    is_found(&Published {
        args: &[
            "-w",
            "sysbench-mc",
            "--patch",
            r#"{"tasks":{"server":{"tiltyard":{"repeat":{"do":{"run_hot":{"exp":1}}},"run_hot":{"exp":1},
                "run_log":{"exp":5},"io":{"service":{"exp":600}}}}}}"#,
            "-s",
            "cfs,ule",
            "-m",
            "opteron32",
            "--mechanisms",
            "wakeup-placement,queue-visits",
        ],
        metric: "sysbench.transaction.throughput_per_s",
        lower_by: 0.1..0.3,
        main: "wakeup-placement",
        cause: "wakeup-placement",
        part: 0.5,
    });
}

/// Section 6.4: beside fibo, a thread of sysbench that gets a lock preempts fibo under CFS and waits under ULE. Where woken
/// threads go contributes about as much: the intervals of the two overlap, and either may come first after a small change.
#[test]
fn sysbench_beside_fibo_is_slower_under_ule_for_want_of_wakeup_preemption() {
    let published = Published {
        args: &[
            "-w",
            "fibo-sysbench",
            "-s",
            "cfs,ule",
            "-m",
            "opteron32",
            "--seeds",
            "10",
            "--mechanisms",
            "wakeup-preemption,wakeup-placement",
        ],
        metric: "sysbench.throughput_per_s",
        lower_by: 0.1..0.35,
        main: "wakeup-preemption",
        cause: "wakeup-preemption",
        part: 0.25,
    };
    is_found_if_chosen(2, &published);
}

/// Half of MG's cycles, as experiments/atc18-s63.toml has it.
const TEN_CYCLES: &str = r#"{"tasks":{"worker":{"tiltyard":{"repeat":{"count":10}}}}}"#;

/// Section 6.3: MG is 73 % faster under ULE, because CFS reacts to kernel noise and puts two threads on a core. That is not
/// reproduced: after the start, no two threads share a core here. ULE is a little faster, and noise does not make the
/// difference but reduces it: CFS, which begins with several threads on a core, separates them sooner.
#[test]
fn kernel_noise_does_not_make_mg_slower_under_cfs() {
    let answer = answer(&[
        "-w",
        "nas-mg",
        "--patch",
        TEN_CYCLES,
        "-s",
        "ule,cfs",
        "-m",
        "opteron32",
        "--seeds",
        "5",
        "--mechanisms",
        "kernel-noise",
    ]);
    assert_eq!(answer["metric"], "nas-mg.throughput_per_s");
    let [ule, cfs] = [0, 1].map(|side| number(&answer["values"][side]));
    assert!((0.95..0.99).contains(&(cfs / ule)), "{answer}");
    let [(noise, part)] = parts(&answer)[..] else {
        panic!("{answer}");
    };
    assert_eq!(noise, "kernel-noise");
    assert!(part < -0.2, "{answer}");
    assert!(answer["main_cause"].is_null(), "{answer}");
    let conclusion = answer["conclusion"].as_str().unwrap();
    assert!(
        conclusion.starts_with("Its cause is not among these"),
        "{conclusion}"
    );
}

/// The same with workers of the kernel at nice -20, whose load counts 87 times, and barriers that spin for 10 ms: CFS moves MG's
/// threads away from the workers, onto cores with another one.
#[test]
fn kernel_noise_of_high_priority_makes_mg_slower_under_cfs() {
    is_found(&Published {
        args: &[
            "-w",
            "nas-mg",
            "--patch",
            r#"{"tasks":{"worker":{"tiltyard":{"repeat":{"count":5}}}},"tiltyard":{"barriers":{"region":{"spin":10000}}}}"#,
            "-s",
            "ule,cfs",
            "-m",
            "opteron32-highpri",
            "--seeds",
            "3",
            "--mechanisms",
            "kernel-noise",
        ],
        metric: "nas-mg.throughput_per_s",
        lower_by: 0.3..0.6,
        main: "kernel-noise",
        cause: "kernel-noise",
        part: 0.7,
    });
}

/// The runs would be long.
#[test]
fn a_metric_that_no_run_can_have_is_refused_before_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = explain(&["-w", "mix-hog-sleepers", "-s", "fifo,cfs"]);
    command.args(["--metric", "share_percent"]);
    crate::own_cache(&mut command, folder.path());
    let refused = command.assert().code(2).stdout("");
    refused.stderr(contains(
        "no such metric; the nearest are rt-app.cpu_share_percent",
    ));
    let runs = std::fs::read_dir(folder.path().join("tiltyard/runs"));
    assert_eq!(runs.map_or(0, |files| files.count()), 0, "it ran");
}

/// A workload file of this text, which lives as long as what is returned.
fn workload(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

/// Under the one, make has most of the CPU and is done; under the other it has half of it and is not.
#[test]
fn a_metric_that_one_side_lacks_is_refused_with_the_way_out() {
    let file = workload(
        r#"{"tiltyard": {"apps": {"hog": {}, "make": {}}}, "tasks": {
        "hog": {"loop": -1, "run": 1000, "tiltyard": {"app": "hog", "daemon": true}},
        "make": {"loop": 1, "priority": -15, "run": 100000, "tiltyard": {"app": "make"}}}}"#,
    );
    let args = ["-w", file.path().to_str().unwrap(), "-s", "cfs_flat,rr"];
    let mut command = explain(&args);
    command.args(["--duration", "170ms", "--metric", "make.completion_us"]);
    let line = "^tiltyard: --metric make.completion_us: no run of rr has it: the work was not done when the run ended, \
                and a longer --duration may help; both have make\\.longest_wait_us, .*\n$";
    let refused = command.assert().code(2).stdout("");
    refused.stderr(predicate::str::is_match(line).unwrap());
}

/// The same workload, whose file names a metric.
#[test]
fn the_metric_of_the_workloads_file_is_explained() {
    let explained = |metric: &str| {
        let file = workload(&format!(
            r#"{{"tiltyard": {{"metric": "{metric}", "apps": {{"hog": {{}}, "make": {{}}}}}}, "tasks": {{
            "hog": {{"loop": -1, "run": 1000, "tiltyard": {{"app": "hog", "daemon": true}}}},
            "make": {{"loop": 1, "priority": -15, "run": 100000, "tiltyard": {{"app": "make"}}}}}}}}"#
        ));
        let args = ["-w", file.path().to_str().unwrap(), "-s", "cfs_flat,rr"];
        let mut command = explain(&args);
        command.args(["--duration", "170ms", "--mechanisms", "switch-cost"]);
        command.assert()
    };
    let first = |metric: &str| predicate::str::is_match(format!("\n\n{metric}\n")).unwrap();
    let named = "make.longest_wait_us";
    explained(named).success().stdout(first(named));
    let lacking = explained("make.completion_us").success();
    lacking.stdout(contains(
        "make.completion_us would be the metric, but no run of rr",
    ));
    let wrong = explained("make.completion_ms").code(3).stdout("");
    wrong.stderr(contains(
        "tiltyard.metric = \"make.completion_ms\": no such metric; the nearest are make.completion_us",
    ));
}

/// A nice task loses the CPU to a hog while it holds what the third one needs, for long where weights count.
#[test]
fn a_preempted_lock_holder_is_found() {
    let file = workload(
        r#"{"tiltyard": {"apps": {"others": {}, "victim": {}}}, "tasks": {
        "hog": {"loop": -1, "run": 1000, "tiltyard": {"app": "others", "daemon": true}},
        "holder": {"loop": -1, "priority": 19, "lock": "m", "run": 4000, "unlock": "m", "run1": 500,
            "tiltyard": {"app": "others", "daemon": true}},
        "victim": {"loop": 20, "lock": "m", "run": 100, "unlock": "m", "sleep": 2000, "tiltyard": {"app": "victim"}}}}"#,
    );
    let args = [
        "-w",
        file.path().to_str().unwrap(),
        "-s",
        "rr,cfs_flat",
        "-m",
        "uni",
    ];
    let answer = answer(&[&args[..], &["--metric", "victim.completion_us"]].concat());
    let (largest, part) = parts(&answer)[0];
    assert_eq!(largest, "mutex-waits", "{answer}");
    assert!(part > 0.5, "{answer}");
}

/// Free mutexes would change nothing there, or lose signals.
#[test]
fn mutexes_are_not_switched_off_where_there_are_none_or_conditions() {
    let signal = workload(
        r#"{"tasks": {
        "waiter": {"loop": 1, "lock": "m", "run": 5000, "wait": {"ref": "c", "mutex": "m"}, "unlock": "m"},
        "waker": {"loop": 1, "run": 1000, "lock": "m", "signal": "c", "unlock": "m"}}}"#,
    );
    for (workload, why) in [
        ("pingpong", "the workload has no mutex"),
        (signal.path().to_str().unwrap(), "guard condition variables"),
    ] {
        let mut command = explain(&["-w", workload, "-s", "fifo,rr", "-m", "smp2"]);
        command.args(["--mechanisms", "mutex-waits"]);
        let refused = command.assert().code(2).stdout("");
        refused.stderr(contains(why));
    }
}

const SMALL: [&str; 6] = [
    "-w",
    "mix-hog-sleepers",
    "-s",
    "fifo,cfs",
    "--duration",
    "300ms",
];

#[test]
fn bytes_depend_neither_on_threads_nor_on_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let said_of = |duration, more: &[&str]| {
        let mut args = [
            &SMALL[..],
            &["--metric", "machine.switches_per_s", "--seeds", "3"],
            more,
        ]
        .concat();
        let own = args.iter_mut().find(|arg| **arg == "300ms");
        *own.unwrap() = duration;
        let mut command = explain(&args);
        crate::own_cache(&mut command, folder.path());
        command.assert().success().get_output().stdout.clone()
    };
    let said = |more: &[&str]| said_of("300ms", more);
    let first = said(&["--jobs", "1"]);
    let is_kept = folder.path().join("tiltyard/runs").is_dir();
    assert!(is_kept, "nothing was cached");
    assert_eq!(said(&["--jobs", "2"]), first, "from the cache");
    assert_eq!(said(&["--jobs", "3", "--no-cache"]), first, "without it");
    let longer = said_of("400ms", &[]);
    assert_eq!(longer, said_of("400ms", &["--no-cache"]), "longer");
    let text = String::from_utf8(first).unwrap();
    assert!(text.contains("75.0 %") && text.contains("[+"), "{text}");
}

/// 4 CPUs and kernel threads: more mechanisms than are switched off in all combinations.
#[test]
fn many_mechanisms_are_sampled_and_six_are_exact() {
    let args = [
        "-w",
        "mix-hog-sleepers",
        "-s",
        "ule,cfs",
        "-m",
        "smp4",
        "--duration",
        "50ms",
    ];
    let metric = ["--metric", "switches_per_s"];
    let sampled = answer(&[&args[..], &metric].concat());
    let names: Vec<&str> = parts(&sampled).into_iter().map(|(name, _)| name).collect();
    assert!(names.len() > 6, "{names:?}");
    assert_eq!(sampled["sampled_orders"], 32);
    assert!(sampled["shares"][0]["share"]["interval"].is_array());
    let six = names[..6].join(",");
    let exact = answer(&[&args[..], &metric, &["--mechanisms", &six]].concat());
    assert_eq!(parts(&exact).len(), 6);
    assert!(exact["sampled_orders"].is_null());
    assert!(exact["shares"][0]["share"]["interval"].is_null());
}

#[test]
fn pages_and_figures_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (report, figures) = (file("why.html"), file("figures"));
    let args = [&SMALL[..], &["--report", &report, "--figures", &figures]].concat();
    let page = explain(&args).assert().success().stdout(contains("Report"));
    page.stdout(contains(
        "fifo declares no mechanisms of its own, so only the machine",
    ));
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap();
    assert!(read(&report).contains("<section id=\"causes\">"));
    assert!(read(&file("figures/causes.svg")).contains("none of these"));
}

#[test]
fn what_makes_no_sense_is_refused_in_a_line() {
    let refused = |args: &[&str], code: i32, words: &[&str]| {
        let mut said = explain(args).assert().code(code);
        said = said
            .stdout("")
            .stderr(predicate::str::is_match("^tiltyard: .*\n$").unwrap());
        for word in words {
            said = said.stderr(contains(*word));
        }
    };
    let of = |schedulers: &'static str| ["-w", "mix-hog-sleepers", "-s", schedulers];
    refused(&of("fifo"), 2, &["of two schedulers, not of 1", "-s A,B"]);
    refused(&of("fifo,rr,cfs"), 2, &["not of 3"]);
    refused(&of("fifo,fifo"), 2, &["given twice"]);
    refused(&of("fifo,nothing"), 2, &["no scheduler"]);
    let with = |more: &[&'static str]| [&SMALL[..], more].concat();
    let metric = with(&["--metric", "switches"]);
    refused(&metric, 2, &["no such metric", "machine.switches_per_s"]);
    let apps = [
        "-w",
        "fibo-sysbench-1c",
        "-s",
        "fifo,rr",
        "--duration",
        "50ms",
    ];
    let metric = [&apps[..], &["--metric", "runtime_us"]].concat();
    refused(&metric, 2, &["several metrics end like this", " or "]);
    let mechanisms = with(&["--mechanisms", "switch-costs"]);
    refused(&mechanisms, 2, &["did you mean switch-cost?"]);
    let mechanisms = with(&["--mechanisms", "kernel-noise"]);
    refused(
        &mechanisms,
        2,
        &["nothing to switch off here", "opteron1 has none"],
    );
    let folder = tempfile::tempdir().unwrap();
    let endless = folder.path().join("endless.json");
    std::fs::write(&endless, r#"{"tasks": {"hog": {"loop": -1, "run": 1000}}}"#).unwrap();
    let endless = ["-w", endless.to_str().unwrap(), "-s", "fifo,rr"];
    refused(&endless, 2, &["never ends", "--duration"]);
}
