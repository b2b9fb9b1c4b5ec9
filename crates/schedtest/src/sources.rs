// SPDX-License-Identifier: GPL-2.0-or-later
//! Sources of schedulers, and what is built from them.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};
use tempfile::TempDir;
use tiltyard_build::{Builder, BuilderOptions, Source};
use tiltyard_native::{Object, Value};

/// Values of tunables and other globals, by name.
pub type Globals = Vec<(String, Value)>;

pub fn globals(values: &[(&str, i128)]) -> Globals {
    let owned = |&(name, value): &(&str, i128)| (name.to_owned(), Value::Int(value));
    values.iter().map(owned).collect()
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names of all schedulers in `schedulers/`, sorted.
pub fn shipped() -> Vec<String> {
    let folders = std::fs::read_dir(repository().join("schedulers")).expect("schedulers/");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        let folder = entry.expect("a folder").path();
        let name = folder.file_name()?.to_str()?.to_owned();
        folder
            .join(format!("{name}.bpf.c"))
            .is_file()
            .then_some(name)
    };
    let mut names: Vec<String> = folders.filter_map(name).collect();
    names.sort();
    names
}

/// What each table of a scheduler's `presets.toml` sets, by the table's name; nothing if it has no presets.
pub fn presets(scheduler: &str) -> BTreeMap<String, Globals> {
    let file = repository().join(format!("schedulers/{scheduler}/presets.toml"));
    if !file.is_file() {
        return BTreeMap::new();
    }
    let text = std::fs::read_to_string(&file).expect("it is a file");
    let tables: toml::Table = text.parse().unwrap_or_else(|e| panic!("{file:?}: {e}"));
    let number = |value: &toml::Value| -> i128 {
        let of_bool = value.as_bool().map(i64::from);
        let number = value.as_integer().or(of_bool);
        number.expect("a number or a bool").into()
    };
    let value = |value: &toml::Value| match value.as_array() {
        Some(numbers) => Value::Ints(numbers.iter().map(number).collect()),
        None => Value::Int(number(value)),
    };
    let set = |table: &toml::Table| -> Globals {
        let set = table.iter();
        set.map(|(name, of)| (name.clone(), value(of))).collect()
    };
    let preset = |(name, table): (&String, &toml::Value)| {
        Some((name.clone(), set(table.get("set")?.as_table()?)))
    };
    tables.iter().filter_map(preset).collect()
}

/// A shipped scheduler by name, or a file by its path from the repository.
pub fn source(scheduler: &str) -> Source {
    let schedulers = repository().join("schedulers");
    let mut source = Source::new(match scheduler.contains('/') {
        true => repository().join(scheduler),
        false => schedulers.join(format!("{scheduler}/{scheduler}.bpf.c")),
    });
    source.include_dirs.push(schedulers.join("lib"));
    source
}

/// The same for its object, lowered at this level; each is built once for a process.
pub fn object(scheduler: &str, level: u8) -> &'static Object {
    static BUILT: LazyLock<Mutex<HashMap<(String, u8), &'static Object>>> =
        LazyLock::new(Mutex::default);
    let mut built = BUILT
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    built
        .entry((scheduler.to_owned(), level))
        .or_insert_with(|| {
            let options = BuilderOptions {
                level,
                ..BuilderOptions::default()
            };
            Box::leak(Box::new(build(&source(scheduler), options)))
        })
}

/// An object that reports its accesses to memory.
pub fn telling(source: &Source) -> Object {
    let options = BuilderOptions {
        accesses: true,
        ..BuilderOptions::default()
    };
    build(source, options)
}

fn build(source: &Source, options: BuilderOptions) -> Object {
    let object = Builder::new(options).native(source);
    object.unwrap_or_else(|e| panic!("{e}"))
}

/// A copy of a shipped scheduler in which pieces of text are others: file, old, new. The folder goes with the guard.
pub fn altered(scheduler: &str, replacements: &[(&str, &str, &str)]) -> (TempDir, Source) {
    let to = tempfile::tempdir().expect("temporary folder");
    let folder = repository().join("schedulers").join(scheduler);
    for entry in std::fs::read_dir(folder).expect("a shipped scheduler") {
        let from = entry.expect("a file").path();
        let Some(name) = from.file_name().filter(|_| from.is_file()) else {
            continue;
        };
        let mut text = std::fs::read_to_string(&from).expect("text");
        for (_, old, new) in replacements.iter().filter(|(file, ..)| name == *file) {
            assert!(text.contains(old), "{name:?}: {old}");
            text = text.replacen(old, new, 1);
        }
        std::fs::write(to.path().join(name), text).expect("a copy");
    }
    let copy = to.path().join(format!("{scheduler}.bpf.c"));
    let source = source(&copy.display().to_string());
    (to, source)
}
