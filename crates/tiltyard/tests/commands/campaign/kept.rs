// SPDX-License-Identifier: GPL-2.0-or-later
//! Results of a campaign's runs are kept: parts, a killed campaign, damaged files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Bench, CAMPAIGN, stderr, stdout};

/// Files of runs, which lie in folders named by the first letters of their hashes.
fn results(folder: &Path) -> Vec<PathBuf> {
    let Ok(folders) = folder.read_dir() else {
        return Vec::new();
    };
    let folders = folders.map(|e| e.unwrap().path()).filter(|p| p.is_dir());
    let mut files: Vec<PathBuf> = folders
        .flat_map(|f| f.read_dir().unwrap().map(|e| e.unwrap().path()))
        .filter(|file| file.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    files
}

#[test]
fn parts_give_the_same_bytes_as_the_whole() {
    let bench = Bench::new();
    let whole = bench.run(&["--format", "json", "--report", "whole.html"]);
    assert!(whole.status.success(), "{}", stderr(&whole));
    let mut runs = 0;
    for part in ["1/3", "2/3", "3/3"] {
        let folder = if part == "2/3" { "b" } else { "a" };
        let args = ["--shard", part, "--results", folder, "--format", "json"];
        let document: Value = serde_json::from_slice(&bench.run(&args).stdout).unwrap();
        assert_eq!(
            (&document["all"], &document["known"]),
            (&36.into(), &0.into())
        );
        runs += document["done"].as_u64().unwrap();
    }
    assert_eq!((runs, results(&bench.path("a")).len()), (36, 24));
    bench.refuses(
        &["--results", "a", "--no-runs"],
        1,
        &["--no-runs: 12 of 36 results are not in a: clicks on uni under fifo:slice_ms=40, seed 2; ", "omit --no-runs"],
    );
    let copied = Command::new("cp")
        .args(["-R", "b/.", "a"])
        .current_dir(bench.folder.path())
        .status();
    assert!(copied.unwrap().success());
    let args = [
        "--results",
        "a",
        "--no-runs",
        "--format",
        "json",
        "--report",
        "merged.html",
    ];
    let merged = bench.run(&args);
    assert!(merged.status.success(), "{}", stderr(&merged));
    assert!(!merged.stdout.is_empty() && merged.stdout == whole.stdout);
    let page = |name: &str| fs::read(bench.path(name)).unwrap();
    assert!(page("merged.html") == page("whole.html"));
}

/// Nothing of what was done is lost, and nothing of it is done again.
#[test]
fn a_killed_campaign_goes_on() {
    let bench = Bench::new();
    bench.run(&["--seeds", "1"]); // the build, and six results in the cache
    let results_of = || results(&bench.path("out"));
    let program = assert_cmd::cargo::cargo_bin("tiltyard");
    let mut child = Command::new(program)
        .args([
            "campaign",
            "c.toml",
            "--jobs",
            "1",
            "--seeds",
            "40",
            "--results",
            "out",
        ])
        .current_dir(bench.folder.path())
        .env_remove("TILTYARD_DATA")
        .env("XDG_CACHE_HOME", bench.path("cache"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while results_of().len() < 5 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    let ended = child.wait().unwrap();
    assert!(!ended.success(), "it was over before it was killed");
    let kept = results_of().len() as u64;
    assert!((5..240).contains(&kept), "{kept}");
    let document = |args: &[&str]| {
        bench
            .run(&[&["--format", "json", "--seeds", "40"], args].concat())
            .stdout
    };
    let rest = document(&["--results", "out", "--shard", "1/1"]);
    let rest: Value = serde_json::from_slice(&rest).unwrap();
    assert_eq!(
        (&rest["known"], &rest["done"]),
        (&kept.into(), &(240 - kept).into())
    );
    let resumed = document(&["--results", "out", "--no-runs"]);
    assert!(!resumed.is_empty() && resumed == document(&[]));
}

#[test]
fn a_damaged_result_is_reported_and_made_again() {
    let bench = Bench::new();
    let args = ["-m", "uni", "--results", "out", "--format", "json"];
    let before = bench.run(&args);
    let files = results(&bench.path("out"));
    assert_eq!(files.len(), 12);
    fs::write(&files[0], "{").unwrap();
    // Another run's result is none of this one.
    fs::copy(&files[2], &files[1]).unwrap();
    // A digit that is another one is still JSON.
    let text = fs::read_to_string(&files[3]).unwrap();
    let (head, digits) = text.split_once('\n').unwrap();
    let changed = digits.replacen('1', "2", 1);
    fs::write(&files[3], format!("{head}\n{changed}")).unwrap();
    // What has no end is not read.
    fs::remove_file(&files[4]).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &files[4]).unwrap();
    let after = bench.run(&args);
    let said = stderr(&after);
    let wrong = [
        "not whole;",
        "another run's results",
        "or changed since",
        "not a regular file",
    ];
    for words in wrong {
        assert!(said.contains(words), "no \"{words}\" in: {said}");
    }
    assert_eq!(said.matches("it does not count").count(), 4, "{said}");
    assert!(before.stdout == after.stdout);
    assert!(stderr(&bench.run(&args)).is_empty());
}

/// Folders are shared: who may read other files there may read results.
#[test]
fn results_have_the_permissions_of_other_files() {
    let bench = Bench::new();
    bench.run(&["-m", "uni", "--results", "out"]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    let ordinary = bench.path("ordinary");
    fs::write(&ordinary, "").unwrap();
    for file in results(&bench.path("out")) {
        assert_eq!(mode(&file), mode(&ordinary), "{}", file.display());
    }
}

/// What a result depends on: a measure that was changed is asked again.
#[test]
fn a_changed_query_is_another_result() {
    let bench = Bench::new();
    let args = ["-w", "slow", "--seeds", "1", "--results", "out"];
    assert!(stdout(&bench.run(&args)).contains("2 runs done"));
    let text = fs::read_to_string(bench.path("c.toml")).unwrap();
    fs::write(
        bench.path("c.toml"),
        text.replace("dur > 25e6", "dur > 24e6"),
    )
    .unwrap();
    let changed = stdout(&bench.run(&args));
    assert!(
        changed.contains("2 runs done") && changed.contains(", 0 reused"),
        "{changed}"
    );
}

/// What a run depends on: a kept result of another duration is another result.
#[test]
fn a_changed_duration_is_another_run() {
    let of = |duration: &str| {
        let reason = format!("duration = \"{duration}\"\nreason = \"The");
        CAMPAIGN
            .replace(", \"fifo:slice_ms=40:slice_ms2=0\"", "")
            .replace("reason = \"The", &reason)
    };
    let bench = Bench::with(&of("2s"));
    let args = [
        "-w",
        "clicks",
        "-m",
        "uni",
        "--seeds",
        "1",
        "--results",
        "out",
    ];
    assert!(stdout(&bench.run(&args)).contains("2 runs done"));
    let text = fs::read_to_string(bench.path("c.toml")).unwrap();
    fs::write(bench.path("c.toml"), text.replace("\"2s\"", "\"3s\"")).unwrap();
    let longer = stdout(&bench.run(&args));
    assert!(
        longer.contains("2 runs done") && longer.contains(", 0 reused"),
        "{longer}"
    );
}
