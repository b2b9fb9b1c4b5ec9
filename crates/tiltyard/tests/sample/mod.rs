// SPDX-License-Identifier: GPL-2.0-or-later
//! Of several similar tests that each boot a guest or take minutes, only one runs. Which one depends on a hash of what they
//! test, so it is another one after each change; `TILTYARD_ALL_CASES=1` runs all.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The folders whose text decides: the schedulers, what builds them, both arenas (the simulated machine and real kernels),
/// what runs there, and what is made of it.
const CONTENT: [&str; 9] = [
    "schedulers",
    "crates/build/src",
    "crates/sim/src",
    "crates/kernel/src",
    "crates/measure/src",
    "crates/runner/src",
    "workloads",
    "machines",
    "experiments",
];

fn are_all_wanted() -> bool {
    std::env::var_os("TILTYARD_ALL_CASES").is_some()
}

/// One of these cases, or all.
pub fn some<T>(cases: &[T]) -> &[T] {
    if are_all_wanted() {
        return cases;
    }
    let at = (content() % cases.len() as u64) as usize;
    &cases[at..=at]
}

/// Whether the test with this number among `of` is to run; reports it if not.
pub fn includes(number: u64, of: u64) -> bool {
    let chosen = are_all_wanted() || content() % of == number;
    if !chosen {
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        // Not eprintln!, which the test harness hides when a test passes.
        let _ = writeln!(
            std::io::stderr(),
            "skipped {test}: only one of {of} similar tests runs; TILTYARD_ALL_CASES=1 runs all"
        );
    }
    chosen
}

/// One in so many of these names, but at least one: those with the smallest hashes, which are others for each `what`.
pub fn drawn(what: &str, mut names: Vec<String>, of: usize) -> Vec<String> {
    let content = content();
    names.sort_by_cached_key(|name| {
        let mut hasher = DefaultHasher::new();
        (content, what, name).hash(&mut hasher);
        hasher.finish()
    });
    names.truncate(names.len().div_ceil(of));
    names
}

/// A number that depends on the text.
pub fn content() -> u64 {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut hasher = DefaultHasher::new();
    for folder in CONTENT {
        hash(&root.join(folder), &mut hasher);
    }
    hasher.finish()
}

fn hash(folder: &Path, hasher: &mut DefaultHasher) {
    let entries = folder.read_dir().unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        match path.is_dir() {
            true => hash(&path, hasher),
            false => std::fs::read(path).unwrap().hash(hasher),
        }
    }
}
