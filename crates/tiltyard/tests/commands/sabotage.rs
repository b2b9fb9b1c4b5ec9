// SPDX-License-Identifier: GPL-2.0-or-later
//! A scoreboard that cannot fail proves nothing: `experiments/mutations` breaks the rules of schedulers, each in one place, and the
//! claims named there must turn. What is kept of that is of the mutations as they are; a sample is done now, the whole with
//! TILTYARD_ALL_MUTATIONS=1. Runs need clang-19.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use tiltyard_claims::mutation::{
    Edit, Mutation, Mutations, SHARED, Score, Tried, is_covered, result_of, scores,
};
use tiltyard_claims::parameter::FITTED_FILE;
use tiltyard_claims::{ClaimOutcome, Experiment, Verdict};

/// Mutations that every run of the tests tries.
const SAMPLE: usize = 6;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files with this suffix in a folder, by name.
fn texts(folder: &str, suffix: &str) -> Vec<(String, String)> {
    let entries = root().join(folder).read_dir().unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut texts: Vec<(String, String)> = paths
        .filter(|path| path.is_file() && path.to_string_lossy().ends_with(suffix))
        .map(|path| {
            (
                path.display().to_string(),
                fs::read_to_string(&path).unwrap(),
            )
        })
        .collect();
    texts.sort();
    texts
}

fn all_mutations() -> Vec<Mutations> {
    let mut experiments = texts("experiments", ".toml");
    experiments.retain(|(file, _)| !file.ends_with(&format!("/{FITTED_FILE}.toml")));
    let read = |(file, text): &(String, String)| Experiment::read(text, file, file).unwrap();
    let experiments: Vec<Experiment> = experiments.iter().map(read).collect();
    let claims = experiments.iter().flat_map(|e| &e.claims);
    let claims: BTreeSet<&str> = claims.map(|claim| claim.id.as_str()).collect();
    let files = texts("experiments/mutations", ".toml");
    let read = |(file, text): &(String, String)| Mutations::read(text, file, &claims).unwrap();
    files.iter().map(read).collect()
}

fn kept<T: serde::de::DeserializeOwned>(name: &str) -> Vec<T> {
    let path = root().join("experiments/results").join(name);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Another sample whenever a mutation or its scheduler changes.
fn order(scheduler: &str, mutation: &Mutation) -> u64 {
    let mut hasher = DefaultHasher::new();
    mutation.definition().hash(&mut hasher);
    for folder in [
        &format!("schedulers/{scheduler}"),
        "schedulers/lib/tiltyard",
    ] {
        for suffix in [".c", ".h"] {
            texts(folder, suffix)
                .iter()
                .for_each(|(_, text)| text.hash(&mut hasher));
        }
    }
    hasher.finish()
}

/// What a mutation does to the claims that it names.
fn tried(scheduler: &str, mutation: &Mutation, seeds: u64) -> Tried {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiltyard"));
    command.current_dir(root()).env_remove("TILTYARD_DATA");
    command.args([
        "reproduce",
        "--format",
        "json",
        "--seeds",
        &seeds.to_string(),
    ]);
    command.arg(format!("--mutations={scheduler}.{}", mutation.id));
    let output = command.args(&mutation.turns).output().unwrap();
    let fault = || String::from_utf8_lossy(&output.stderr).into_owned();
    let all: Vec<Tried> =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", fault()));
    let is_it = |tried: &Tried| tried.mutation == mutation.id;
    all.into_iter().find(is_it).unwrap()
}

#[test]
fn named_claims_turn_when_a_rule_is_broken() {
    let files = all_mutations();
    let each = files
        .iter()
        .flat_map(|file| file.mutations.iter().map(|m| (file.scheduler.as_str(), m)));
    let mut chosen: Vec<(&str, &Mutation)> = each.filter(|(_, m)| !m.turns.is_empty()).collect();
    assert!(chosen.len() >= 40, "{} mutations", chosen.len());
    if std::env::var_os("TILTYARD_ALL_MUTATIONS").is_none() {
        chosen.sort_by_key(|(scheduler, mutation)| order(scheduler, mutation));
        chosen.truncate(SAMPLE);
    }
    let results = kept::<Tried>("mutations.json");
    let mut survived = Vec::new();
    for (scheduler, mutation) in chosen {
        let is_its = |t: &&Tried| t.scheduler == scheduler && t.mutation == mutation.id;
        let seeds = results.iter().find(is_its).map_or(1, |t| t.seeds);
        let unturned = tried(scheduler, mutation, seeds);
        for id in unturned.unturned(mutation) {
            survived.push(format!(
                "{scheduler}.{} ({}): {id} did not turn",
                mutation.id, mutation.what
            ));
        }
    }
    assert!(survived.is_empty(), "\n{}", survived.join("\n"));
}

/// Each mutation as it is now has a result, in which the claims turned that it names; and no result is of another.
#[test]
fn what_is_kept_is_of_the_mutations_that_there_are() {
    let (files, tried) = (all_mutations(), kept::<Tried>("mutations.json"));
    let mut wrong = Vec::new();
    let mut count = 0;
    for file in &files {
        for mutation in &file.mutations {
            count += 1;
            let name = format!("{}.{}", file.scheduler, mutation.id);
            match result_of(file, mutation, &tried) {
                None => wrong.push(format!("{name} was not tried")),
                Some(tried) => {
                    let unturned = tried.unturned(mutation);
                    wrong.extend(
                        unturned
                            .iter()
                            .map(|id| format!("{name}: {id} did not turn")),
                    );
                    if mutation.survives.is_some() && !tried.turned.is_empty() {
                        wrong.push(format!(
                            "{name} is said to survive and turned {:?}",
                            tried.turned
                        ));
                    }
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "run scripts/claims.sh:\n{}",
        wrong.join("\n")
    );
    assert_eq!(
        count,
        tried.len(),
        "results of mutations that are gone; run scripts/claims.sh"
    );
}

/// A text that moved or changed with its scheduler is found without trying the mutation.
#[test]
fn texts_to_replace_are_there_once() {
    let mut wrong = Vec::new();
    for all in all_mutations() {
        for mutation in &all.mutations {
            let Some(Edit::Source { file, from, .. }) = mutation.edit() else {
                continue;
            };
            let own = if file.starts_with(SHARED) {
                "lib"
            } else {
                &all.scheduler
            };
            let path = root().join("schedulers").join(own).join(file);
            let text = fs::read_to_string(&path).unwrap_or_default();
            let count = text.matches(from).count();
            if count != 1 {
                wrong.push(format!("{}: {count} times in {file}", mutation.id));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Rules of several cores that no claim sees, only the recorded decisions of the original sources. The list may only shrink.
const UNSEEN: [&str; 12] = [
    "cfs.capacity",
    "cfs.group-types",
    "cfs.idle-sibling-smt",
    "cfs.idlest-core",
    "cfs.load-index",
    "cfs.newidle-cost",
    "cfs.wide-wakers",
    "ule.freebsd-affinity",
    "ule.freebsd-warm-search",
    "ule.previous-core",
    "ule.received-kick",
    "ule.steal-threshold",
];

/// All rules that the paper relies on, nine of ten of those that one core can show, and all of several cores but those above.
#[test]
fn rules_are_covered() {
    let tried = kept::<Tried>("mutations.json");
    for file in all_mutations() {
        let all = scores(&file, &tried);
        let reaches = |score: Score, percent: usize| 100 * score.covered >= percent * score.all;
        assert!(
            all.paper.all + all.multicore.all > 0 && reaches(all.paper, 100),
            "{}: {all:?}",
            file.scheduler
        );
        assert!(reaches(all.single_core, 90), "{}: {all:?}", file.scheduler);
    }
    let mut unseen: Vec<String> = all_mutations()
        .iter()
        .flat_map(|file| {
            let rules = file.rules.iter().filter(|rule| rule.multicore);
            let unseen = rules.filter(|rule| !is_covered(file, rule, &tried));
            let named = unseen.map(|rule| format!("{}.{}", file.scheduler, rule.id));
            named.collect::<Vec<_>>()
        })
        .collect();
    unseen.sort();
    assert_eq!(unseen, UNSEEN);
}

/// A claim that is said to turn was judged to begin with.
#[test]
fn named_claims_are_judged() {
    let verdicts = kept::<Verdict>("sim.json");
    for id in all_mutations()
        .iter()
        .flat_map(|file| &file.mutations)
        .flat_map(|m| &m.turns)
    {
        let verdict = verdicts.iter().find(|v| v.id == *id).unwrap();
        assert_ne!(verdict.verdict, ClaimOutcome::NotRun, "{id}");
    }
}
