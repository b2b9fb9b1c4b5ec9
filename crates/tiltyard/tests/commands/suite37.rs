// SPDX-License-Identifier: GPL-2.0-or-later
//! workloads/suite/suite37.toml against the workloads that it lists and the page that explains them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tiltyard_workload::{Workload, read};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    app: Vec<App>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct App {
    name: String,
    workload: String,
    metric: Metric,
    request: Option<String>,
    task: Option<String>,
    origin: String,
    #[serde(rename = "notes")]
    _notes: Option<String>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Metric {
    Ops,
    Time,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

fn list() -> List {
    toml::from_str(&text("workloads/suite/suite37.toml")).expect("suite37.toml")
}

fn workload(name: &str) -> Workload {
    let file = format!("workloads/{name}.json");
    read(&text(&file), &file).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// What the paper states: 37 applications, operations per second for databases and NAS, 1/time for the others.
#[test]
fn the_list_has_the_papers_numbers() {
    let apps = list().app;
    let of = |origin: &str| apps.iter().filter(|app| app.origin == origin).count();
    assert_eq!(
        ["phoronix", "nas", "parsec", "other"].map(of),
        [11, 10, 12, 4]
    );
    assert_eq!(apps.len(), 37);
    let names: BTreeSet<_> = apps.iter().map(|app| &app.name).collect();
    assert_eq!(names.len(), 37, "each once");
    let rates = apps.iter().filter(|app| app.metric == Metric::Ops);
    let rates: Vec<_> = rates.map(|app| app.name.as_str()).collect();
    assert_eq!(rates.len(), 12);
    let expected = |name: &&str| name.starts_with("nas-") || ["sysbench", "rocksdb"].contains(name);
    assert!(rates.iter().all(expected), "{rates:?}");
}

/// What a figure is read from is there: a class of requests, or one task whose life is the execution time.
#[test]
fn each_application_has_what_its_metric_needs() {
    for app in list().app {
        let w = workload(&app.workload);
        match (app.metric, &app.request, &app.task) {
            (Metric::Ops, Some(class), None) => assert!(w.requests.contains(class), "{}", app.name),
            (Metric::Time, None, Some(task)) => {
                let task = w.tasks.iter().find(|t| t.name == *task);
                let task = task.unwrap_or_else(|| panic!("{}: no such task", app.name));
                assert_eq!(
                    (task.instances, task.daemon, task.loops),
                    (1, false, Some(1)),
                    "{}",
                    app.name
                );
            }
            _ => panic!("{}: a rate has a request, a time has a task", app.name),
        }
        assert_eq!(w.apps.len(), 1, "{}", app.name);
        assert_eq!(w.apps[0].name, app.name);
    }
}

/// Nothing lies in the folder that is not listed or a variant for 32 cores, and the page has a row for each.
#[test]
fn list_folder_and_page_agree() {
    let apps = list().app;
    let page = text("docs/reference/suite37.md");
    for app in &apps {
        let row = format!("| `{}` |", app.name);
        assert!(page.contains(&row), "docs/reference/suite37.md: {row}");
    }
    let entries = root().join("workloads/suite").read_dir().expect("suite");
    for entry in entries {
        let file = entry.expect("entry").file_name();
        let file = file.to_string_lossy();
        if let Some(name) = file.strip_suffix(".json") {
            // With as many threads as 32 cores have.
            let path = format!("suite/{}", name.strip_suffix("-32").unwrap_or(name));
            assert!(apps.iter().any(|app| app.workload == path), "{path}");
        }
    }
}

/// The experiment runs what the list names, and knows which are Phoronix's.
#[test]
fn the_experiment_runs_the_list() {
    let apps = list().app;
    let names: Vec<&str> = apps.iter().map(|app| app.name.as_str()).collect();
    let file = text("experiments/atc18-suite37-1c.toml");
    let experiment: toml::Table = file.parse().expect("TOML");
    let run = experiment["run"].as_array().unwrap().iter();
    let suite = run
        .into_iter()
        .find(|run| run["name"].as_str() == Some("suite"));
    let varied = suite.unwrap()["vary"]["app"].as_array().unwrap();
    let varied: Vec<&str> = varied.iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(varied, names);
    let longest = experiment["derived"]["cfs.max_phoronix_s"]
        .as_str()
        .unwrap();
    for app in &apps {
        let named = longest.contains(&format!("'{}'", app.name));
        assert_eq!(named, app.origin == "phoronix", "{}", app.name);
    }
}
