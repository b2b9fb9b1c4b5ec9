// SPDX-License-Identifier: GPL-2.0-or-later
//! The metric that a workload's file names.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Bench, WORKLOAD, contest, stderr};

#[test]
fn a_workload_names_its_metric() {
    let bench = Bench::new();
    let with = |metric: &str| {
        let own = format!("{{ \"metric\" : \"{metric}\", \"apps\"");
        fs::write(bench.path("own.json"), WORKLOAD.replace("{ \"apps\"", &own)).unwrap();
        let runs = ["run", "-w", "w.json,own.json", "-s", "fifo,rr", "-m", "uni"];
        let output = bench
            .command(&[&runs[..], &["--duration", "1s", "--format", "json"]].concat())
            .output();
        output.unwrap()
    };
    let output = with("ui.wakeup_latency_us_p99");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let metrics = ["w", "own"].map(|name| {
        let all = document["workloads"].as_array().unwrap();
        &all.iter().find(|w| w["name"] == name).unwrap()["metric"]
    });
    assert_eq!(metrics, ["ui throughput", "ui wakeup p99"]);
    let reasons = ["w", "own"].map(|name| {
        let all = document["workloads"].as_array().unwrap();
        let own = all.iter().find(|w| w["name"] == name).unwrap();
        own["reason"].as_str().unwrap()
    });
    assert!(
        reasons[0].starts_with("The default metric: "),
        "{reasons:?}"
    );
    assert_eq!(reasons[1], "The metric that the workload's file names.");

    // Nobody has it: no other one takes its place.
    let output = with("hog.wakeup_latency_us_p99");
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("hog.wakeup_latency_us_p99"), "{page}");
    let document: Value = serde_json::from_str(&page).unwrap();
    assert_eq!(
        contest(&document, "own", "uni")["decision"]["kind"],
        "nobody"
    );

    let output = with("ui.vakeup_latency_us_p99");
    assert_eq!(output.status.code(), Some(3));
    let line = stderr(&output);
    for words in [
        "tiltyard: own: tiltyard.metric = \"ui.vakeup_latency_us_p99\": ",
        "ui.wakeup_latency_us_p99",
    ] {
        assert!(line.contains(words), "{line}");
    }
}

/// So `tiltyard run` and `tiltyard explain` judge as the league does.
#[test]
fn the_leagues_workloads_name_the_leagues_metrics() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("campaigns/league.toml")).unwrap();
    let league: toml::Table = text.parse().unwrap();
    for of in league["workload"].as_array().unwrap() {
        let name = of["workload"].as_str().unwrap();
        let path = root.join(format!("workloads/{name}.json"));
        let text = fs::read_to_string(path).unwrap();
        let own = tiltyard_workload::read(&text, name).unwrap().metric;
        // A file names metrics of Tiltyard's only, no queries.
        let judged_by = of
            .get("sql")
            .is_none()
            .then(|| of["metric"].as_str().unwrap());
        assert_eq!(own.as_deref(), judged_by, "{name}");
    }
}
