// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard reproduce` as its user sees it, on experiments small enough to be seen through. Runs need clang-19.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

mod changes;

/// A folder of experiments and a cache of runs, both this test's own.
struct Bench {
    folder: TempDir,
}

/// Two hogs share a core under fifo; who runs how much is known to the ns.
const HOGS: &str = r#"
title = "Two hogs"

[[run]]
machine = "ideal1"
workload = "probe/micro-hogs"
schedulers = { fifo = "fifo" }
duration = "1s"
vary = { n = [1, 2] }
patch.tasks.hog.instance = "$n"
events = true
[run.measures]
hogs = "SELECT nullif(count(*), 0) FROM task WHERE name LIKE 'hog%' AND runtime_ns > 0"
slices = "SELECT nullif(count(*), 0) FROM sched_slice"
none = "SELECT NULL"
zero = "SELECT min(0) FROM task"
# Its last bit is lost where numbers are read carelessly.
exact = "SELECT min(0.24620019004281038) FROM task"

[derived]
"all.hogs" = "SELECT sum(value) FROM measure WHERE name = 'hogs'"

[[parameter]]
name = "how long a hog computes before it comes round"
workload = "probe/micro-hogs"
at = ["tasks.hog.run"]
reason = "for the test"
"#;

fn claim(id: &str, check: &str) -> String {
    format!(
        "\n[[claim]]\nid = \"{id}\"\nwhere = \"Section 1\"\nstatement = \"A statement.\"\nkind = \"number\"\ntier = \"core\"\nlayer = [\"sim\"]\n\
         expected = \"a band\"\ntolerance = \"a reason\"\ncheck = \"{check}\"\n"
    )
}

impl Bench {
    fn new(claims: &[(&str, &str)]) -> Bench {
        let bench = Bench {
            folder: TempDir::new().unwrap(),
        };
        fs::create_dir(bench.path("experiments")).unwrap();
        let claims: String = claims.iter().map(|(id, check)| claim(id, check)).collect();
        bench.file("hogs", &format!("{HOGS}{claims}"));
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, text: &str) {
        fs::write(self.path("experiments").join(format!("{name}.toml")), text).unwrap();
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = assert_cmd::Command::cargo_bin("tiltyard").unwrap();
        command.env_remove("TILTYARD_DATA");
        crate::own_cache(&mut command, &self.path("cache"));
        command
            .args(["reproduce", "--experiments"])
            .arg(self.path("experiments"));
        command.args(["--seeds", "2"]).args(args).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> Vec<Value> {
        let output = self.run(&[&["--format", "json"], args].concat());
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}", stderr(&output)))
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

fn verdict<'a>(verdicts: &'a [Value], id: &str) -> &'a Value {
    verdicts.iter().find(|v| v["id"] == id).unwrap()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let folders = folder.read_dir().unwrap().map(|e| e.unwrap().path());
    let mut files: Vec<PathBuf> = folders
        .flat_map(|f| f.read_dir().unwrap().map(|e| e.unwrap().path()))
        .collect();
    files.sort();
    files
}

/// A rule that a tunable changes can be recomputed as it was set; who was judged stays unknown.
#[test]
fn a_measure_knows_how_the_scheduler_was_set_and_not_which_it_is() {
    let bench = Bench::new(&[("s.hogs.turn", "rr.turn_ms_n2 == 2 and rr.names_n2 == 0")]);
    let text = fs::read_to_string(bench.path("experiments/hogs.toml")).unwrap();
    let measures = "[run.measures]
turn_ms = \"SELECT json_extract(tunables, '$.slice_ms') FROM run\"
names = \"SELECT length(scheduler || command || machine || workload) FROM run\"";
    let text = text
        .replace("[run.measures]", measures)
        .replace("{ fifo = \"fifo\" }", "{ rr = \"rr:slice_ms=2\" }");
    bench.file("hogs", &text);
    let verdicts = bench.json(&[]);
    assert_eq!(verdicts[0]["verdict"], "reproduced", "{verdicts:?}");
}

#[test]
fn claims_without_figures_say_so() {
    let bench = Bench::new(&[("s.hogs.two", "fifo.hogs_n2 == 2")]);
    let folder = bench.path("figures");
    let output = bench.run(&["--figures", folder.to_str().unwrap()]);
    let page = String::from_utf8_lossy(&output.stdout);
    let line = "\nFigures none: the experiments of these claims define no figures\n";
    assert!(page.contains(line), "{page}");
    assert!(!folder.exists());
}

#[test]
fn claims_are_judged_by_their_checks() {
    let bench = Bench::new(&[
        ("s.hogs.two", "fifo.hogs_n1 == 1 and fifo.hogs_n2 == 2"),
        ("s.hogs.three", "fifo.hogs_n2 == 3"),
        ("s.hogs.sum", "all.hogs == 3"),
    ]);
    let verdicts = bench.json(&[]);
    let two = verdict(&verdicts, "s.hogs.two");
    assert_eq!(two["verdict"], "reproduced");
    assert_eq!(two["measured"]["fifo.hogs_n2"], 2.0);
    // Nothing is left to chance on this machine: seeds are copies, and copies have no interval.
    assert_eq!(two["identical"], true);
    assert_eq!(two["interval"], serde_json::json!({}));
    assert_eq!((&two["seeds"], &two["holds_with"]), (&2.into(), &2.into()));
    let folder = bench.path("experiments");
    let command = format!(
        "tiltyard reproduce s.hogs.two --seeds 2 --experiments {}",
        folder.display()
    );
    assert_eq!(two["command"], command);
    for (key, value) in [
        ("source", "s"),
        ("where", "Section 1"),
        ("tier", "core"),
        ("statement", "A statement."),
        ("expected", "a band"),
    ] {
        assert_eq!(two[key], value);
    }
    assert_eq!(
        verdict(&verdicts, "s.hogs.three")["verdict"],
        "not-reproduced"
    );
    assert_eq!(verdict(&verdicts, "s.hogs.sum")["verdict"], "reproduced");
    let output = bench.run(&["s.hogs.two"]);
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    for word in [
        "A statement.",
        "Section 1",
        "a reason",
        "fifo.hogs_n2 2",
        "1 reproduced",
    ] {
        assert!(page.contains(word), "no \"{word}\" in: {page}");
    }
}

#[test]
fn a_broken_claim_never_counts_and_stops_no_other() {
    let bench = Bench::new(&[
        ("s.good.one", "fifo.hogs_n1 == 1"),
        ("s.bad.zero", "fifo.hogs_n1 / fifo.zero_n1 > 0"),
        ("s.bad.unknown", "fifo.hgos_n1 == 1"),
        ("s.bad.label", "fufo.hogs_n1 == 1"),
        ("s.bad.nobody", "1 < 2"),
        ("s.bad.null", "fifo.none_n1 < 2"),
        ("s.bad.syntax", "fifo.hogs_n1 = 1"),
    ]);
    let output = bench.run(&["--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("6 of 7 claims could not be judged"), "{text}");
    let verdicts: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(verdict(&verdicts, "s.good.one")["verdict"], "reproduced");
    for (id, reason) in [
        ("s.bad.zero", "division by zero"),
        ("s.bad.unknown", "nothing here measures fifo.hgos_n1"),
        ("s.bad.label", "nothing here measures fufo.hogs_n1"),
        ("s.bad.nobody", "no measure of any scheduler"),
        ("s.bad.null", "no value with 2 of 2 seeds"),
        ("s.bad.syntax", "is not expected here"),
    ] {
        let verdict = verdict(&verdicts, id);
        assert_eq!(
            (&verdict["verdict"], &verdict["broken"]),
            (&"not-run".into(), &true.into()),
            "{id}"
        );
        let told = verdict["reason"].as_str().unwrap();
        assert!(told.contains(reason), "{id}: {told}");
    }
}

#[test]
fn a_page_names_the_results_that_it_lacks() {
    let bench = Bench::new(&[("s.p.c", "fifo.hogs_n1 == 1")]);
    let verdicts = bench.run(&["--format", "json"]).stdout;
    let results = bench.path("results");
    fs::create_dir(&results).unwrap();
    fs::write(results.join("sim.json"), verdicts).unwrap();
    let output = bench.run(&["--page", results.to_str().unwrap()]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("`s.p.c`"), "{page}");
    for name in ["specificity.json", "mutations.json", "sensitivity.json"] {
        assert!(text.contains(&format!("{name}: not there")), "{text}");
    }
}

#[test]
fn what_does_not_exist_is_named_with_its_file() {
    for (from, to, words) in [
        (
            "workload = \"probe/micro-hogs\"",
            "workload = \"probe/micro-hgos\"",
            [
                "hogs.toml: workload = \"probe/micro-hgos\"",
                "",
                "did you mean",
            ],
        ),
        (
            "machine = \"ideal1\"",
            "machine = \"ideal2\"",
            ["hogs.toml: machine = \"ideal2\"", "", "did you mean"],
        ),
        (
            "fifo = \"fifo\"",
            "fifo = \"fofi\"",
            ["hogs.toml: scheduler = \"fofi\"", "", "fifo"],
        ),
        (
            "duration = \"1s\"",
            "duration = \"1x\"",
            ["hogs.toml", "1x", "write a number and a unit"],
        ),
        (
            "duration = \"1s\"",
            "duration = \"1s\"\ntimeline = \"7\"",
            ["hogs.toml", "timeline = \"7\"", "FROM..TO"],
        ),
        (
            "duration = \"1s\"",
            "duration = \"1s\"\naccess_callbacks = [\"tikc\"]",
            ["hogs.toml", "access_callbacks: tikc", "did you mean tick?"],
        ),
        (
            "tasks.hog.instance",
            "tasks.hgo.instance",
            ["hogs.toml", "tasks.hgo", "no such key"],
        ),
    ] {
        let bench = Bench::new(&[("s.p.c", "fifo.hogs_n1 == 1")]);
        let text = fs::read_to_string(bench.path("experiments/hogs.toml")).unwrap();
        assert!(text.contains(from));
        bench.file("hogs", &text.replace(from, to));
        bench.refuses(&[], 3, &words);
    }
}

#[test]
fn a_name_of_no_claim_gets_a_short_way_out() {
    let check = "fifo.hogs_n1 == 1";
    let bench = Bench::new(&[("s.hogs.two", check), ("s.hogs.three-of-nice-19", check)]);
    for (typed, meant) in [
        ("s.hogs.tow", "did you mean s.hogs.two?"),
        ("s.hogs.three", "did you mean s.hogs.three-of-nice-19?"),
        ("nice-19", "did you mean s.hogs.three-of-nice-19?"),
    ] {
        bench.refuses(&[typed], 2, &[typed, meant]);
    }
    bench.refuses(
        &["zebra*"],
        2,
        &["zebra*", "there are hogs, s and their parts"],
    );
}

#[test]
fn files_that_are_none_are_refused() {
    let bench = Bench::new(&[("s.p.c", "fifo.hogs_n1 == 1")]);
    bench.refuses(&["s.p.d"], 2, &["s.p.d", "did you mean s.p.c?"]);
    bench.file(
        "again",
        &format!("title = 'x'\n{}", claim("s.p.c", "a.b < 1")),
    );
    bench.refuses(
        &[],
        3,
        &["claim s.p.c stands in", "again.toml", "remove one"],
    );
    bench.file("again", "title = 'x'\ntitel = 'y'\n");
    bench.refuses(&[], 3, &["again.toml:2", "titel"]);
    let both = claim("s.p.e", "a.b < 1") + "not_run = 'because'\n";
    bench.file("again", &format!("title = 'x'\n{both}"));
    bench.refuses(&[], 3, &["again.toml", "s.p.e", "either check or not_run"]);
    let other = claim("s.p.e", "a.b < 1");
    for (from, to, words) in [
        (
            "\"sim\"",
            "",
            ["again.toml", "s.p.e: layer = []", "\"real\""],
        ),
        ("layer = ", "# ", ["again.toml", "missing field", "layer"]),
        (
            "\"number\"",
            "\"nubmer\"",
            ["again.toml", "nubmer", "ordering"],
        ),
    ] {
        bench.file(
            "again",
            &format!("title = 'x'\n{}", other.replacen(from, to, 1)),
        );
        bench.refuses(&[], 3, &words);
    }
    let twice = HOGS.replace("[derived]", "[[run]]\nmachine = 'uni'\nworkload = 'fibo'\nschedulers = { fifo = 'fifo' }\n[run.measures]\nhogs_n1 = 'SELECT max(id) FROM task'\n[derived]");
    bench.file("again", &twice);
    bench.refuses(&[], 3, &["fifo.hogs_n1 is measured twice"]);
}

#[test]
fn a_bad_query_breaks_what_needs_it() {
    let bench = Bench::new(&[
        ("s.p.c", "fifo.hogs_n1 == 1"),
        ("s.p.d", "fifo.bad_n1 == 1"),
    ]);
    let text = fs::read_to_string(bench.path("experiments/hogs.toml")).unwrap();
    bench.file(
        "hogs",
        &text.replace(
            "zero = \"SELECT min(0) FROM task\"",
            "bad = \"SELECT x FROM nowhere\"",
        ),
    );
    let output = bench.run(&["--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let verdicts: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let told = verdict(&verdicts, "s.p.d")["reason"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        told.contains("fifo.bad_n1: measure bad: no such table: nowhere"),
        "{told}"
    );
    assert_eq!(verdict(&verdicts, "s.p.c")["verdict"], "reproduced");
}

#[test]
fn runs_are_kept_and_damaged_ones_done_again() {
    // Hogs leave nothing to chance: a run with one seed is known with the other.
    let bench = Bench::new(&[("s.p.c", "fifo.hogs_n1 == 1 and fifo.hogs_n2 == 2")]);
    let told = |output: &Output| {
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .last()
            .unwrap()
            .to_owned()
    };
    let first = told(&bench.run(&[]));
    assert!(first.contains("2 runs done, 2 reused"), "{first}");
    let second = told(&bench.run(&[]));
    assert!(second.contains("0 runs done, 4 reused"), "{second}");
    let files = entries(&bench.path("cache/tiltyard/runs"));
    assert_eq!(files.len(), 2);
    let whole = fs::read_to_string(&files[0]).unwrap();
    fs::write(&files[0], &whole[..whole.len() / 2]).unwrap();
    let other = fs::read_to_string(&files[1]).unwrap();
    fs::write(&files[1], other.replacen("\"format\":4", "\"format\":0", 1)).unwrap();
    let output = bench.run(&[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(told(&output).contains("2 runs done, 2 reused"));
    let text = stderr(&output);
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(
        text.contains("not whole") && text.contains("format 0 where this version writes 4"),
        "{text}"
    );
    assert!(told(&bench.run(&[])).contains("0 runs done, 4 reused"));
    assert!(told(&bench.run(&["--no-cache"])).contains("2 runs done, 2 reused"));
    // On a machine with jitter every seed is a run of its own.
    let real = Bench::new(&[("s.p.c", "fifo.hogs_n1 == 1 and fifo.hogs_n2 == 2")]);
    let text = fs::read_to_string(real.path("experiments/hogs.toml")).unwrap();
    let text = text.replacen("\"ideal1\"", "\"uni\"", 1);
    fs::write(real.path("experiments/hogs.toml"), text).unwrap();
    let each = told(&real.run(&[]));
    assert!(each.contains("4 runs done, 0 reused"), "{each}");
    let verdicts = real.json(&[]);
    let of_real = verdict(&verdicts, "s.p.c");
    assert_eq!(of_real["identical"], false);
    assert_eq!(
        of_real["interval"]["fifo.hogs_n2"],
        serde_json::json!([2.0, 2.0])
    );
    let exact = Bench::new(&[("s.p.c", "fifo.exact_n2 < 1")]);
    let (done, known) = (
        exact.run(&["--format", "json"]),
        exact.run(&["--format", "json"]),
    );
    assert_eq!(
        done.stdout, known.stdout,
        "kept results match new ones, to the last bit"
    );
}

#[test]
fn threads_change_nothing() {
    let bench = Bench::new(&[("s.p.c", "fifo.slices_n2 > 2 and all.hogs == 3")]);
    let one = bench.run(&["--format", "json", "--no-cache", "--jobs", "1"]);
    let two = bench.run(&["--format", "json", "--no-cache", "--jobs", "2"]);
    assert_eq!(one.status.code(), Some(0), "{}", stderr(&one));
    assert_eq!(one.stdout, two.stdout);
}

#[test]
fn verdicts_turn_when_something_is_changed() {
    let bench = Bench::new(&[("s.p.c", "fifo.slices_n2 < 60")]);
    let verdicts = bench.json(&[]);
    assert_eq!(verdicts[0]["verdict"], "reproduced", "{verdicts:?}");
    // fifo's slices are 20 ms: 50 a second.
    let shorter = bench.json(&["--instead", "fifo=fifo:slice_ms=5"]);
    assert_eq!(shorter[0]["verdict"], "not-reproduced");
    let command = shorter[0]["command"].as_str().unwrap();
    assert!(
        command.contains(" --instead fifo=fifo:slice_ms=5"),
        "{command}"
    );
}

#[test]
fn a_replaced_scheduler_keeps_what_the_run_sets() {
    let bench = Bench::new(&[("s.p.c", "fifo.slices_n2 < 60")]);
    let text = fs::read_to_string(bench.path("experiments/hogs.toml")).unwrap();
    let tuned = text.replace("fifo = \"fifo\"", "fifo = \"fifo:slice_ms=5\"");
    bench.file("hogs", &tuned);
    let slices = |args: &[&str]| bench.json(args)[0]["measured"]["fifo.slices_n2"].clone();
    let usual = slices(&[]);
    assert!(usual.as_f64() > Some(100.0), "{usual}");
    assert_eq!(slices(&["--instead", "fifo=fifo"]), usual);
}

/// Both workloads have a task of this name.
#[test]
fn a_patch_changes_one_workload() {
    let bench = Bench::new(&[("s.p.c", "fifo.hogs_n2 == 2 and fifo.others == 1")]);
    let more = r#"
[[run]]
name = "others"
machine = "ideal1"
workload = "mix-hog-sleepers"
schedulers = { fifo = "fifo" }
duration = "200ms"
[run.measures]
others = "SELECT nullif(count(*), 0) FROM task WHERE name LIKE 'hog%' AND runtime_ns > 0"
"#;
    let text = fs::read_to_string(bench.path("experiments/hogs.toml")).unwrap();
    let with = text.replace("\n[derived]", &format!("{more}\n[derived]"));
    bench.file("hogs", &with);
    let hogs = |args: &[&str]| {
        let measured = bench.json(args)[0]["measured"].clone();
        ["fifo.hogs_n2", "fifo.others"].map(|name| measured[name].as_f64())
    };
    assert_eq!(hogs(&[]), [Some(2.0), Some(1.0)]);
    let patch = r#"={"tasks":{"hog":{"instance":3}}}"#;
    let argument = format!("probe/micro-hogs{patch}");
    assert_eq!(hogs(&["--patch", &argument]), [Some(3.0), Some(1.0)]);
    let argument = format!("mix-hog-sleepers{patch}");
    assert_eq!(hogs(&["--patch", &argument]), [Some(2.0), Some(3.0)]);
}

#[test]
fn machines_and_workloads_can_be_replaced() {
    let bench = Bench::new(&[("s.p.c", "fifo.slices_n2 < 60")]);
    // On two CPUs, neither of two hogs waits.
    let two = bench.json(&["--instead", "ideal1=package:1 core:2 pu:1"]);
    assert_ne!(two[0]["measured"], bench.json(&[])[0]["measured"]);
    let page = bench.run(&["--instead", "fifo=rr"]);
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(
        page.starts_with("Changed: --instead fifo=rr\nThese verdicts"),
        "{page}"
    );
    assert!(page.contains("reproduce s.p.c --seeds 2"), "{page}");
    for (flag, argument, why) in [
        (
            "--instead",
            "nobody=fifo",
            "--instead nobody=fifo: no run of these claims uses nobody; there are",
        ),
        (
            "--instead",
            "fifo=nosuch",
            "--instead fifo=nosuch: no scheduler or preset has this name",
        ),
        (
            "--instead",
            "fifo=fifo:nosuch=3",
            "--instead fifo=fifo:nosuch=3: no tunable nosuch; there are slice_ms",
        ),
        (
            "--instead",
            "ideal1=ideal9",
            "--instead ideal1=ideal9: no such machine",
        ),
        (
            "--patch",
            "nobody={}",
            "--patch nobody={}: no run of these claims",
        ),
        ("--patch", "probe/micro-hogs={", "not valid JSON: EOF"),
        (
            "--patch",
            r#"probe/micro-hogs={"no":{}}"#,
            "no: there is no such key to patch",
        ),
        // Not one after the other: what fifo becomes is not replaced again.
        (
            "--instead=fifo=rr",
            "--instead=rr=fifo",
            "no run of these claims uses rr; there are",
        ),
        (
            "--instead=fifo=rr",
            "--instead=fifo=scx_simple",
            "--instead fifo=scx_simple: fifo is replaced twice; keep one",
        ),
        (
            "--patch=probe/micro-hogs={}",
            "--patch=probe/micro-hogs={}",
            "probe/micro-hogs is replaced twice; keep one",
        ),
    ] {
        let refused = bench.run(&[flag, argument]);
        assert_ne!(refused.status.code(), Some(0), "{argument}");
        assert!(stderr(&refused).contains(why), "{}", stderr(&refused));
    }
}

/// What a file has instead of its `zero`.
fn with_measure(bench: &Bench, measure: &str) {
    let text = fs::read_to_string(bench.path("experiments/hogs.toml")).unwrap();
    bench.file(
        "hogs",
        &text.replace("zero = \"SELECT min(0) FROM task\"", measure),
    );
}

#[test]
fn a_missing_quantity_is_never_a_pass() {
    // fifo has no probes: neither way to say "none were seen" is a number.
    let bench = Bench::new(&[
        ("s.p.c", "fifo.zero_n1 == 0"),
        ("s.p.d", "fifo.hogs_n1 == 1"),
    ]);
    with_measure(
        &bench,
        "zero = \"SELECT coalesce(sum(value), 0) FROM counter\"",
    );
    bench.refuses(
        &[],
        3,
        &[
            "hogs.toml:16: measure zero: gives 0 of a run in which nothing was recorded",
            "CASE WHEN count(*) > 0",
        ],
    );
    let bench = Bench::new(&[
        ("s.p.c", "fifo.zero_n1 == 0"),
        ("s.p.d", "fifo.hogs_n1 == 1"),
    ]);
    with_measure(
        &bench,
        "zero = \"SELECT CASE WHEN count(*) > 0 THEN (SELECT total(value) FROM counter) END FROM sched_slice\"",
    );
    let verdicts = bench.json(&[]);
    let broken = verdict(&verdicts, "s.p.c");
    assert_eq!(
        (&broken["verdict"], &broken["broken"]),
        (&"not-run".into(), &true.into())
    );
    let reason = broken["reason"].as_str().unwrap();
    assert!(
        reason.contains("gives 0 even of a run without probes"),
        "{reason}"
    );
    assert_eq!(verdict(&verdicts, "s.p.d")["verdict"], "reproduced");
    // On purpose, it may.
    let text = fs::read_to_string(bench.path("experiments/hogs.toml")).unwrap();
    let allowed = text.replace(
        "events = true",
        "events = true\nmay_lack = { zero = [\"probes\"] }",
    );
    bench.file("hogs", &allowed);
    assert_eq!(verdict(&bench.json(&[]), "s.p.c")["verdict"], "reproduced");
    bench.file("hogs", &allowed.replace("[\"probes\"]", "[\"probe\"]"));
    bench.refuses(&[], 3, &["may_lack: probe; write one of probes, requests"]);
    bench.file("hogs", &allowed.replace("{ zero =", "{ null ="));
    bench.refuses(&[], 3, &["may_lack: null is no measure of this run"]);
}
