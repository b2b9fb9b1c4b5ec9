// SPDX-License-Identifier: GPL-2.0-or-later
//! The shipped claims: kept results match new ones, and the pages match the results.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tiltyard_claims::parameter::FITTED_FILE;
use tiltyard_claims::{Attempts, ClaimOutcome, Class, Experiment, Trials, Verdict};

use super::sample;

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

/// With the first seed, for one or two of the 24 experiments (see `sample`): each value equals the first kept one. Fails if somebody
/// changed an experiment, a scheduler or the engine and left the results as they were.
#[test]
fn the_kept_results_are_what_comes_out() {
    let kept = verdicts(&read("experiments/results/sim.json"));
    let mut parts: [Vec<String>; 16] = Default::default();
    for (at, experiment) in experiments().into_iter().enumerate() {
        for claim in experiment.claims {
            // For all claims, because this needs no run.
            let own = kept.iter().find(|kept| kept["id"] == *claim.id);
            let check = own.map(|kept| kept["check"].clone());
            assert_eq!(
                check,
                Some(claim.check.unwrap_or_default().into()),
                "{}",
                claim.id
            );
            parts[at % 16].push(claim.id);
        }
    }
    let all: BTreeSet<&str> = parts.iter().flatten().map(String::as_str).collect();
    assert_eq!(ids(&kept), all);
    for part in sample::some(&parts) {
        let args = ["--seeds", "1", "--format", "json"].into_iter();
        let args: Vec<&str> = args.chain(part.iter().map(String::as_str)).collect();
        let now = verdicts(&reproduce(&args));
        assert_eq!(now.len(), part.len());
        let stale: Vec<&str> = now.iter().filter_map(|new| stale(&kept, new)).collect();
        assert!(
            stale.is_empty(),
            "run scripts/claims.sh: kept results are of other experiments: {stale:?}"
        );
    }
}

/// The claim's id if the kept result differs from what the first seed gives now.
fn stale<'a>(kept: &[Value], new: &'a Value) -> Option<&'a str> {
    let id = new["id"].as_str().unwrap();
    let old = kept.iter().find(|old| old["id"] == id).unwrap();
    assert_eq!(old["broken"], false, "{id}: {}", old["reason"]);
    let first = |values: &Value, name: &str| values[name][0].clone();
    let same = old["values"]
        .as_object()
        .unwrap()
        .keys()
        .all(|name| first(&old["values"], name) == first(&new["values"], name));
    let is_stale = !same || old["check"] != new["check"] || old["expected"] != new["expected"];
    is_stale.then_some(id)
}

/// All claims of all sources are there, each with at least ten seeds or the reason why it is not run.
#[test]
fn every_claim_is_judged_with_ten_seeds_or_says_why_not() {
    let kept = verdicts(&read("experiments/results/sim.json"));
    assert_eq!(kept.len(), 296);
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

fn kept<T: serde::de::DeserializeOwned>(name: &str) -> Vec<T> {
    serde_json::from_str(&read(&format!("experiments/results/{name}"))).unwrap()
}

fn experiments() -> Vec<Experiment> {
    let folder = root().join("experiments");
    let paths = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_experiment = |path: &PathBuf| {
        path.extension() == Some("toml".as_ref()) && path.file_stem() != Some(FITTED_FILE.as_ref())
    };
    let mut paths: Vec<PathBuf> = paths.filter(is_experiment).collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let file = path.display().to_string();
        Experiment::read(&std::fs::read_to_string(path).unwrap(), &file, &file).unwrap()
    };
    paths.iter().map(read).collect()
}

/// No check holds whatever is done to schedulers, and each that holds for other schedulers, too, has the reason beside it.
#[test]
fn no_claim_is_vacuous() {
    let (specificity, mutations) = (kept::<Trials>("specificity.json"), kept("mutations.json"));
    let sensitivity = kept("sensitivity.json");
    let attempts = Attempts::new(&mutations, &sensitivity);
    let reproduced = kept::<Verdict>("sim.json")
        .into_iter()
        .filter(|v| v.verdict == ClaimOutcome::Reproduced);
    let reproduced: BTreeSet<String> = reproduced.map(|v| v.id).collect();
    let mut wrong = Vec::new();
    for experiment in experiments() {
        let with_substitutes = !experiment.substitutes.is_empty();
        for claim in experiment
            .claims
            .iter()
            .filter(|c| reproduced.contains(&c.id))
        {
            let trials = specificity
                .iter()
                .find(|t| t.id == claim.id && Some(&t.check) == claim.check.as_ref());
            let Some(trials) = trials else {
                wrong.push(format!("{}: not tried with its check as it is", claim.id));
                continue;
            };
            // With fewer seeds than the page has, its own scheduler may fail.
            if trials.verdict != ClaimOutcome::Reproduced {
                wrong.push(format!(
                    "{}: not reproduced where it was tried with others",
                    claim.id
                ));
            }
            let with: Vec<String> = trials.holds_in();
            match attempts.class(claim, trials) {
                Some(Class::Vacuous) => {
                    wrong.push(format!("{}: holds with {}", claim.id, with.join(", ")))
                }
                Some(Class::Specific) if claim.shared.is_some() => {
                    wrong.push(format!(
                        "{}: `shared` has a reason for what is not so",
                        claim.id
                    ));
                }
                _ => {}
            }
        }
        let judged = experiment.claims.iter().any(|c| reproduced.contains(&c.id));
        assert!(
            with_substitutes || !judged,
            "{}: no substitutes",
            experiment.file
        );
    }
    assert!(
        wrong.is_empty(),
        "{} claims:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// A claim of one file, another one after each change (see `sample`): its trials now are those that are kept.
#[test]
fn a_sample_of_trials_is_what_comes_out() {
    let files = [
        ("specificity.json", "--specificity"),
        ("presets.json", "--presets"),
    ];
    for (file, flag) in sample::some(&files) {
        let kept = kept::<Trials>(file);
        let ids: Vec<String> = kept.iter().map(|trials| trials.id.clone()).collect();
        let [id] = &sample::drawn(file, ids.clone(), ids.len())[..] else {
            panic!("{file} is empty");
        };
        let old = kept.iter().find(|trials| trials.id == *id).unwrap();
        let seeds = old.seeds.to_string();
        let args = [*flag, "--format", "json", "--seeds", &seeds, &old.id];
        let now: Vec<Trials> = serde_json::from_str(&reproduce(&args)).unwrap();
        let new = now.iter().find(|new| new.id == old.id);
        assert_eq!(new, Some(old), "run scripts/claims.sh");
    }
}

/// Whoever reads that a statement is not reproduced sees in which variants of its scheduler it is.
#[test]
fn misses_were_tried_with_presets() {
    let tried = kept::<Trials>("presets.json");
    for verdict in kept::<Verdict>("sim.json") {
        if verdict.verdict == ClaimOutcome::NotReproduced {
            let own = tried
                .iter()
                .find(|t| t.id == verdict.id && t.check == verdict.check);
            assert!(
                own.is_some_and(|t| !t.trials.is_empty()),
                "{}: run scripts/claims.sh",
                verdict.id
            );
        }
    }
}
