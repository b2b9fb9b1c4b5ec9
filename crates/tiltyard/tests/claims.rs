// SPDX-License-Identifier: GPL-2.0-or-later
//! The shipped claims: kept results match new ones, and the pages match the results.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const TILTYARD: &str = env!("CARGO_BIN_EXE_tiltyard");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn reproduce(args: &[&str]) -> String {
    let mut command = Command::new(TILTYARD);
    command.current_dir(root()).env_remove("TILTYARD_DATA");
    let output = command.arg("reproduce").args(args).output().unwrap();
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn verdicts(text: &str) -> Vec<Value> {
    serde_json::from_str(text).expect("an array of verdicts")
}

fn ids(verdicts: &[Value]) -> BTreeSet<&str> {
    verdicts.iter().map(|v| v["id"].as_str().unwrap()).collect()
}

#[test]
fn the_pages_are_what_the_kept_results_say() {
    let page = reproduce(&["--page", "experiments/results"]);
    assert!(
        page == read("docs/claims.md"),
        "docs/claims.md is not current; run scripts/claims.sh"
    );
    let board = reproduce(&["--page", "experiments/results", "--scoreboard"]);
    let readme = read("README.md");
    let kept = readme.split("<!-- scoreboard: begin -->\n").nth(1);
    let kept = kept.and_then(|rest| rest.split("<!-- scoreboard: end -->").next());
    assert!(
        kept == Some(&board),
        "README.md's scoreboard is not current; run scripts/claims.sh"
    );
}

/// With the first seed: each value is the first of those that are kept. Nobody changed an experiment, a scheduler or the
/// engine and left the results as they were.
#[test]
fn the_kept_results_are_what_comes_out() {
    let kept = verdicts(&read("experiments/results/sim.json"));
    let now = verdicts(&reproduce(&["--seeds", "1", "--format", "json"]));
    assert_eq!(ids(&kept), ids(&now));
    let mut stale = Vec::new();
    for (old, new) in kept.iter().zip(&now) {
        assert_eq!(old["id"], new["id"], "in another order");
        let first = |values: &Value, name: &str| values[name][0].clone();
        let names = old["values"].as_object().unwrap().keys();
        let same = names
            .into_iter()
            .all(|name| first(&old["values"], name) == first(&new["values"], name));
        if !same || old["check"] != new["check"] || old["expected"] != new["expected"] {
            stale.push(&old["id"]);
        }
        assert_eq!(old["broken"], false, "{}: {}", old["id"], old["reason"]);
    }
    assert!(
        stale.is_empty(),
        "run scripts/claims.sh: kept results are of other experiments: {stale:?}"
    );
}

/// All claims of all sources are there, each with at least ten seeds or the reason why it is not run.
#[test]
fn every_claim_is_judged_with_ten_seeds_or_says_why_not() {
    let kept = verdicts(&read("experiments/results/sim.json"));
    assert_eq!(kept.len(), 288);
    for verdict in &kept {
        match verdict["verdict"].as_str().unwrap() {
            "not-run" => assert!(verdict["reason"].is_string(), "{}", verdict["id"]),
            _ => assert!(verdict["seeds"].as_u64() >= Some(10), "{}", verdict["id"]),
        }
    }
}

/// A miss that nobody explains is half a result.
#[test]
fn misses_are_explained() {
    let page = read("docs/claims.md");
    assert!(!page.contains("not explained yet"), "see docs/claims.md");
}
