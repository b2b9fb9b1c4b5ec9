// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard reproduce --sensitivity`, on an experiment small enough to be worked out by hand. Runs need clang-19.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

/// Two hogs take turns under fifo: turns end at the first tick of 4 ms after their 20 ms, 41 a second; a switch costs 2 us.
const HOGS: &str = r#"
title = "Two hogs"

[[run]]
machine = "opteron1"
workload = "probe/micro-hogs"
schedulers = { fifo = "fifo" }
duration = "1s"
patch.tasks.hog.instance = 2
[run.measures]
slices = "SELECT sum(switches_slice_end) FROM task"
used_ns = "SELECT sum(runtime_ns - overhead_ns) FROM task WHERE name LIKE 'hog%'"

[[claim]]
id = "s.p.slices"
where = "Section 1"
statement = "A second has 41 turns of 24 ms."
kind = "number"
tier = "core"
layer = ["sim"]
expected = "38 to 44"
tolerance = "a reason"
check = "38 <= fifo.slices <= 44"

[[claim]]
id = "s.p.used"
where = "Section 1"
statement = "Hogs have nearly all of the CPU."
kind = "number"
tier = "core"
layer = ["sim"]
expected = "0.9 s"
tolerance = "a reason"
check = "fifo.used_ns >= 900e6"
"#;

const FITTED: &str = r#"
[[parameter]]
name = "length of a slice"
scheduler = "fifo"
at = ["slice_ms"]
is = [20]
values = [10, 25]
reason = "for the test"
fitted_to = "nothing"

[[parameter]]
name = "cost of a switch"
machine = ["opteron1", "opteron32"]
at = ["costs.switch_ns"]
is = [2000]
values = [1000, 4_000_000]
reason = "for the test"
fitted_to = "nothing"

[[parameter]]
name = "number of hogs, which the experiment sets itself"
workload = "probe/micro-hogs"
at = ["tasks.hog.instance"]
is = [4]
values = [9]
reason = "for the test"
fitted_to = "nothing"
"#;

struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new(experiment: &str, fitted: &str) -> Bench {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("hogs.toml"), experiment).unwrap();
        fs::write(folder.path().join("fitted.toml"), fitted).unwrap();
        Bench { folder }
    }

    fn run(&self, args: &[&str]) -> std::process::Output {
        let mut command = assert_cmd::Command::cargo_bin("tiltyard").unwrap();
        command.env_remove("TILTYARD_DATA");
        command
            .args(["reproduce", "--seeds", "1", "--no-cache", "--experiments"])
            .arg(self.folder.path());
        command.args(args).output().unwrap()
    }

    /// Each variation: of what, what it was tried as, and claims that turned.
    fn variations(&self) -> Vec<(String, String, Vec<String>)> {
        let output = self.run(&["--sensitivity", "--format", "json"]);
        let text = String::from_utf8_lossy(&output.stderr);
        let all: Vec<Value> =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {text}"));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let one = |v: &Value| {
            let changes = v["changes"].as_array().unwrap();
            let turned = changes.iter().map(|c| text(&c["id"])).collect();
            (text(&v["place"]), text(&v["to"]), turned)
        };
        all.iter().map(one).collect()
    }

    /// Expects one line on stderr with these words.
    #[track_caller]
    fn refuses(&self, words: &[&str]) {
        let output = self.run(&["--sensitivity"]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_ne!(output.status.code(), Some(0), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        for word in words {
            assert!(text.contains(word), "no \"{word}\" in: {text}");
        }
    }
}

fn row(place: &str, to: &str, turned: &[&str]) -> (String, String, Vec<String>) {
    let turned = turned.iter().map(|id| (*id).to_owned()).collect();
    (place.to_owned(), to.to_owned(), turned)
}

#[test]
fn numbers_of_machines_presets_and_workloads_are_tried_one_at_a_time() {
    let experiment = HOGS.replace(
        "[[claim]]\nid = \"s.p.slices\"",
        "[[parameter]]\nname = \"cost of a tick\"\nmachine = \"opteron1\"\nat = [\"costs.tick_ns\"]\nreason = \"for the test\"\n\n\
         [[claim]]\nid = \"s.p.slices\"",
    );
    let machine = "machine opteron1, opteron32";
    let expected = [
        row("scheduler fifo", "= 10", &["s.p.slices"]),
        row("scheduler fifo", "= 25", &["s.p.slices"]),
        row(machine, "= 1000", &[]),
        // 41 switches of 4 ms are 0.16 s.
        row(machine, "= 4000000", &["s.p.used"]),
        row("workload probe/micro-hogs", "= 9", &[]),
        row("machine opteron1", "x 0.5", &[]),
        row("machine opteron1", "x 2", &[]),
    ];
    assert_eq!(Bench::new(&experiment, FITTED).variations(), expected);
}

#[test]
fn what_cannot_be_tried_is_named_with_its_file() {
    let with = |old: &str, new: &str| {
        assert!(FITTED.contains(old));
        Bench::new(HOGS, &FITTED.replacen(old, new, 1))
    };
    for (old, new, words) in [
        (
            "costs.switch_ns",
            "costs.swich_ns",
            vec!["machines/opteron1.toml", "costs.swich_ns", "no such key"],
        ),
        (
            "costs.switch_ns",
            "cost.switch_ns",
            vec!["cost.switch_ns", "no table cost"],
        ),
        ("4_000_000]", "-1]", vec!["opteron1.toml", "switch_ns"]),
        ("slice_ms", "slice_m", vec!["slice_m", "slice_ms"]),
        (
            "tasks.hog.instance",
            "tasks.hug.instance",
            vec!["tasks.hug", "no such key"],
        ),
        (
            "values = [10, 25]",
            "",
            vec!["fitted.toml:", "\"length of a slice\"", "write values"],
        ),
        (
            "values = [10, 25]",
            "values = [20]",
            vec!["20 is what it is already"],
        ),
        (
            "values = [10, 25]",
            "values = [\"10\"]",
            vec!["neither a number nor true or false"],
        ),
        ("is = [20]", "is = []", vec!["0 values for 1 places"]),
        (
            "is = [20]\n",
            "is = [20]\nworkload = \"fibo\"\n",
            vec!["one of workload, machine and scheduler"],
        ),
        ("fitted_to = \"nothing\"", "", vec!["fitted_to: write"]),
        (
            "cost of a switch",
            "length of a slice",
            vec!["two of this name"],
        ),
        (
            "reason =",
            "reasons =",
            vec!["fitted.toml:", "unknown field `reasons`"],
        ),
    ] {
        with(old, new).refuses(&words);
    }
}

#[test]
fn a_parameter_of_an_experiment_is_one_of_its_runs_and_not_fitted() {
    let own = |lines: &str| {
        let text =
            format!("{HOGS}\n[[parameter]]\nname = \"a\"\nreason = \"for the test\"\n{lines}\n");
        Bench::new(&text, FITTED)
    };
    own("workload = \"fibo\"\nat = [\"tasks.fibo.run\"]").refuses(&[
        "hogs.toml:",
        "\"a\"",
        "no run has the workload fibo",
    ]);
    own("machine = \"uni\"\nat = []").refuses(&["no run has the machine uni"]);
    own("machine = \"opteron1\"\nat = []").refuses(&["at: write where"]);
    own("machine = \"opteron1\"\nat = [\"costs.tick_ns\"]\nfitted_to = \"x\"")
        .refuses(&["belong into fitted.toml"]);
    let twice = HOGS.to_owned()
        + "\n[[parameter]]\nname = \"cost of a switch\"\nmachine = \"opteron1\"\nat = [\"costs.tick_ns\"]\nreason = \"for the test\"\n";
    Bench::new(&twice, FITTED).refuses(&[
        "hogs.toml",
        "\"cost of a switch\"",
        "fitted.toml has one",
    ]);
}
