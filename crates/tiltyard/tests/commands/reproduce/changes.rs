// SPDX-License-Identifier: GPL-2.0-or-later
//! Claims with something changed: another scheduler, a variant, a broken rule.

use std::fs;

use serde_json::Value;

use super::{Bench, stderr, verdict};

/// Two hogs, with schedulers that take fifo's place. fifo and rr have slices of 20 ms, CFS has none so long.
fn bench_with_substitutes(claims: &[(&str, &str)]) -> Bench {
    let bench = Bench::new(claims);
    let text = fs::read_to_string(bench.path("experiments/hogs.toml")).unwrap();
    let title = "title = \"Two hogs\"\n";
    bench.file(
        "hogs",
        &text.replace(
            title,
            &format!("{title}substitutes = {{ fifo = [\"rr\", \"cfs\"] }}\n"),
        ),
    );
    bench
}

#[test]
fn substitutes_take_the_schedulers_place() {
    let bench = bench_with_substitutes(&[
        ("s.p.shared", "45 <= fifo.slices_n2 <= 55"),
        ("s.p.vacuous", "all.hogs == 3"),
        ("s.p.missed", "fifo.slices_n2 > 1000"),
    ]);
    let trials = bench.json(&["--specificity"]);
    let with = |id: &str| -> Vec<String> {
        let of_claim = verdict(&trials, id)["trials"].as_array().unwrap();
        let name = |t: &Value| {
            format!(
                "{} {}",
                t["by"].as_str().unwrap(),
                t["verdict"].as_str().unwrap()
            )
        };
        of_claim.iter().map(name).collect()
    };
    assert_eq!(with("s.p.shared"), ["rr reproduced", "cfs not-reproduced"]);
    assert_eq!(with("s.p.vacuous"), ["rr reproduced", "cfs reproduced"]);
    assert_eq!(
        with("s.p.missed"),
        ["rr not-reproduced", "cfs not-reproduced"]
    );
    let page = bench.run(&["--specificity", "s.p.shared"]);
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(
        page.contains("rr for fifo") && page.contains("cfs for fifo"),
        "{page}"
    );
    let text = fs::read_to_string(bench.path("experiments/hogs.toml")).unwrap();
    for (from, to, words) in [
        ("\"cfs\"", "\"csf\"", ["hogs.toml", "csf", "did you mean"]),
        (
            "{ fifo = [",
            "{ rr = [",
            ["hogs.toml", "substitutes.rr", "no run has"],
        ),
    ] {
        bench.file("hogs", &text.replacen(from, to, 1));
        bench.refuses(&["--specificity"], 3, &words);
    }
}

#[test]
fn misses_are_tried_with_variants() {
    let bench = Bench::new(&[
        ("s.p.c", "fifo.slices_n2 > 100"),
        ("s.p.d", "fifo.slices_n2 > 2"),
    ]);
    let text = fs::read_to_string(bench.path("experiments/hogs.toml")).unwrap();
    let variants = "variants = [\"fifo:slice_ms=5\", \"fifo:slice_ms=10\"]\n";
    bench.file(
        "hogs",
        &text.replace("id = \"s.p.c\"\n", &format!("id = \"s.p.c\"\n{variants}")),
    );
    let trials = bench.json(&["--presets"]);
    assert_eq!(trials.len(), 1, "only what is not reproduced");
    let verdicts: Vec<&Value> = trials[0]["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| &t["verdict"])
        .collect();
    assert_eq!(verdicts, ["reproduced", "not-reproduced"]);
}

const MUTATIONS: &str = r#"
scheduler = "fifo"
[[rule]]
id = "slice"
text = "A slice is 20 ms."
where = "README"
paper = true
[[mutation]]
id = "slice-5"
rule = "slice"
what = "slices of 5 ms"
tunable = "slice_ms=5"
turns = ["s.p.c"]
[[mutation]]
id = "slice-twice"
rule = "slice"
what = "slices of 40 ms"
file = "fifo.bpf.c"
from = "return (u64)slice_ms * 1000000;"
to = "return (u64)slice_ms * 2000000;"
turns = ["s.p.d"]
"#;

#[test]
fn a_broken_rule_turns_the_claims_that_speak_of_it() {
    let bench = Bench::new(&[
        ("s.p.c", "fifo.slices_n2 < 60"),
        ("s.p.d", "40 < fifo.slices_n2"),
        ("s.p.e", "all.hogs == 3"),
    ]);
    let mutations = bench.path("experiments/mutations");
    fs::create_dir(&mutations).unwrap();
    let write = |text: &str| fs::write(mutations.join("fifo.toml"), text).unwrap();
    write(MUTATIONS);
    let tried = bench.json(&["--mutations"]);
    let turned: Vec<&Value> = tried.iter().map(|t| &t["turned"]).collect();
    assert_eq!(
        turned,
        [&serde_json::json!(["s.p.c"]), &serde_json::json!(["s.p.d"])]
    );
    assert_eq!(tried[0]["judged"], 2, "those that some mutation names");
    assert_eq!(bench.json(&["--mutations=fifo.slice-5"]).len(), 1);
    assert_eq!(
        bench.json(&["--mutations=fifo.slice-5", "s.p.d"])[0]["judged"],
        1
    );
    bench.refuses(
        &["--mutations=fifo.none"],
        2,
        &["--mutations=fifo.none: no mutation", "SCHEDULER.ID"],
    );
    bench.refuses(
        &["--mutations", "fifo.*"],
        2,
        &["fifo.*: no claim", "write --mutations=GLOB"],
    );
    write(&MUTATIONS.replace("return (u64)slice_ms * 1000000;", "return slice_ms;"));
    bench.refuses(
        &["--mutations=fifo.slice-twice"],
        3,
        &[
            "fifo.toml: slice-twice: ",
            "fifo.bpf.c: from must be there once and is there 0 times",
        ],
    );
    write(&MUTATIONS.replace("slice_ms=5", "slice_mus=5"));
    bench.refuses(
        &["--mutations=*-5"],
        2,
        &["fifo.toml: slice-5: ", "slice_mus"],
    );
    write(&MUTATIONS.replace("[\"s.p.d\"]", "[\"s.p.x\"]"));
    bench.refuses(
        &["--mutations"],
        3,
        &["fifo.toml:15: slice-twice: turns: there is no claim s.p.x"],
    );
}

/// There would be nothing to compare with.
#[test]
fn changes_are_not_tried_on_a_broken_claim() {
    let bench = bench_with_substitutes(&[
        ("s.good.one", "fifo.hogs_n1 == 1"),
        ("s.bad.null", "fifo.none_n1 < 2"),
    ]);
    for flag in ["--specificity", "--presets", "--sensitivity"] {
        bench.refuses(
            &[flag],
            1,
            &[
                "1 of 2 claims could not be judged",
                "s.bad.null",
                "no value",
            ],
        );
        let output = bench.run(&[flag, "s.good.one"]);
        assert_eq!(output.status.code(), Some(0), "{flag}: {}", stderr(&output));
    }
}
