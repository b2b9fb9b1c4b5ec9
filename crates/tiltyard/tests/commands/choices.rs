// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers that were chosen by looking at a result are listed with the values that they have, and so are changes of checks.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tiltyard_claims::history;
use tiltyard_claims::parameter::{FITTED_FILE, Owner, Parameter, check_names, read_fitted};
use tiltyard_claims::{Experiment, Job};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Files of a folder and those below it.
fn files(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, suffix));
        } else if path.to_string_lossy().ends_with(suffix) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn experiments() -> Vec<Experiment> {
    let folder = root().join("experiments");
    let files = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|p| p.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.retain(|p| p.file_stem().unwrap() != FITTED_FILE);
    files.sort();
    let read = |path: &PathBuf| {
        let id = path.file_stem().unwrap().to_string_lossy();
        Experiment::read(&read(path), &id, &format!("{id}.toml")).unwrap()
    };
    files.iter().map(read).collect()
}

fn fitted() -> Vec<Parameter> {
    let path = root().join(format!("experiments/{FITTED_FILE}.toml"));
    read_fitted(&read(&path), "fitted.toml").unwrap().parameters
}

/// A workload's JSON without comments.
fn workload(name: &str) -> Value {
    let all = files(&root().join("workloads"), ".json");
    let path = all.iter().find(|p| p.ends_with(format!("{name}.json")));
    let path = path.unwrap_or_else(|| panic!("no workload {name}"));
    let mut text = String::new();
    for (index, part) in read(path).split("/*").enumerate() {
        let plain = if index == 0 {
            part
        } else {
            part.split_once("*/").unwrap().1
        };
        text += plain;
    }
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| value.get(key))
}

/// What `tunable` is under a scheduler or preset, as it is written there.
fn tunable(scheduler: &str, tunable: &str) -> Option<String> {
    for file in files(&root().join("schedulers"), "presets.toml") {
        let presets: toml::Table = read(&file).parse().unwrap();
        let Some(preset) = presets.get(scheduler) else {
            continue;
        };
        if let Some(value) = preset.get("set").and_then(|set| set.get(tunable)) {
            return Some(value.to_string());
        }
        let word = format!(" {tunable} = ");
        for source in files(file.parent().unwrap(), ".h") {
            let text = read(&source);
            let default = text
                .lines()
                .find(|l| l.starts_with("const volatile ") && l.contains(&word));
            if let Some(line) = default {
                let value = line.split_once(&word).unwrap().1;
                return value.split_once(';').map(|(value, _)| value.to_owned());
            }
        }
    }
    None
}

#[test]
fn fitted_numbers_have_the_values_that_are_listed() {
    for parameter in fitted() {
        let (owner, names) = parameter.owner();
        for name in names.iter() {
            for (place, is) in parameter.at.iter().zip(&parameter.is) {
                let found = match owner {
                    Owner::Workload => at(&workload(name), place).map(Value::to_string),
                    Owner::Scheduler => tunable(name, place),
                    Owner::Machine => {
                        let path = root().join(format!("machines/{name}.toml"));
                        let table: toml::Table = read(&path).parse().unwrap();
                        let mut keys = place.split('.');
                        let first = table.get(keys.next().unwrap());
                        let found = keys.try_fold(first, |v, key| Some(v?.get(key)));
                        found.flatten().map(toml::Value::to_string)
                    }
                };
                let wanted = Some(is.to_string());
                assert_eq!(
                    found,
                    wanted,
                    "{}: {place} of {} {name}",
                    parameter.name,
                    owner.name()
                );
            }
        }
    }
}

/// Each is tried as something else wherever an experiment has it, and each experiment can read it.
#[test]
fn fitted_numbers_are_tried_in_all_experiments_that_have_them() {
    let (experiments, fitted) = (experiments(), fitted());
    check_names(&experiments, &fitted).unwrap();
    let jobs: Vec<Job> = experiments.iter().flat_map(|e| e.jobs().to_vec()).collect();
    let of_workloads = fitted.iter().filter(|p| p.owner().0 == Owner::Workload);
    for parameter in of_workloads {
        assert!(
            jobs.iter().any(|job| parameter.concerns(job)),
            "{}",
            parameter.name
        );
    }
    assert!(fitted.iter().all(|p| !p.changes().is_empty()));
}

/// After `make claims` docs/claims.md says which verdicts depend on each.
#[test]
fn kept_results_have_each_variation_of_a_fitted_number() {
    let kept: Vec<Value> =
        serde_json::from_str(&read(&root().join("experiments/results/sensitivity.json"))).unwrap();
    let experiments = experiments();
    for parameter in fitted() {
        for experiment in &experiments {
            if !experiment.jobs().iter().any(|job| parameter.concerns(job)) {
                continue;
            }
            for change in parameter.changes() {
                let is_it = |v: &&Value| {
                    v["experiment"] == experiment.id.as_str()
                        && v["parameter"] == parameter.name.as_str()
                        && v["to"] == change.to_string().as_str()
                };
                assert!(
                    kept.iter().any(|v| is_it(&v)),
                    "{}: {change} in {}: not tried; run scripts/claims.sh",
                    parameter.name,
                    experiment.id
                );
            }
        }
    }
}

/// sysbench is the same program in every file: what differs is how many clients there are, when it is launched and how
/// long it is watched.
#[test]
fn one_program_is_one_workload() {
    /// Where files may differ, and why.
    const DIFFER: [&str; 8] = [
        "tasks.mysqld.tiltyard.repeat.count", // a server thread for each client
        "tasks.master.tiltyard.repeat.count", // clients: 80 in section 5.1, 128 in 5.2
        "tiltyard.barriers.start.parties",    // all clients
        "tiltyard.semaphores.req.count",
        "tiltyard.semaphores.resp.count",
        "tasks.master.delay", // the launch: at 7 s where fibo runs before
        "tasks.client.tiltyard.until.time", // the suite measures a rate, and later only
        "tiltyard.counters.transactions.start",
    ];
    let without = |name: &str| {
        let mut value = workload(name);
        for path in DIFFER {
            let (parent, key) = path.rsplit_once('.').unwrap();
            let parent = parent
                .split('.')
                .try_fold(&mut value, |value, key| value.get_mut(key));
            let removed = parent.unwrap().as_object_mut().unwrap().remove(key);
            assert!(removed.is_some(), "{name}: no {path}");
        }
        let parts = value["tiltyard"].as_object_mut().unwrap();
        parts.remove("description");
        parts["apps"].as_object_mut().unwrap().remove("fibo");
        value["tasks"].as_object_mut().unwrap().remove("fibo");
        value.as_object_mut().unwrap().remove("global");
        value
    };
    let first = without("fibo-sysbench-1c");
    for name in ["sysbench-1c", "sysbench-128", "suite/sysbench"] {
        assert_eq!(
            without(name),
            first,
            "{name} has another sysbench than fibo-sysbench-1c"
        );
    }
    let fibo = |name: &str| workload(name)["tasks"]["fibo"].clone();
    assert_eq!(fibo("fibo")["run"], fibo("fibo-sysbench-1c")["run"]);
}

/// A check that is no longer what it was before the first run has a [[history]] with the reason.
#[test]
fn changed_checks_are_listed() {
    let path = root().join("experiments/results/first-checks.json");
    let first: BTreeMap<String, String> = serde_json::from_str(&read(&path)).unwrap();
    let experiments = experiments();
    let missing = history::unlisted(&experiments, &first);
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    let judged = experiments
        .iter()
        .flat_map(|e| &e.claims)
        .filter(|c| c.check.is_some());
    for claim in judged {
        assert!(
            first.contains_key(&claim.id),
            "{}: no first check; run scripts/claims.sh",
            claim.id
        );
    }
}
