// SPDX-License-Identifier: GPL-2.0-or-later
//! Sources of schedulers, and what is built from them.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
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

/// A copy of `schedulers/` with other text in it.
struct Alteration {
    root: PathBuf,
    /// What the compiler says about it.
    faults: Vec<String>,
}

thread_local! {
    /// What this thread builds in place of the schedulers as they are.
    static ALTERED: RefCell<Option<Alteration>> = const { RefCell::new(None) };
}

fn altered() -> bool {
    ALTERED.with_borrow(Option::is_some)
}

/// The folder in which `schedulers/` is.
fn root() -> PathBuf {
    let altered = ALTERED.with_borrow(|altered| altered.as_ref().map(|a| a.root.clone()));
    altered.unwrap_or_else(repository)
}

/// Does something for which the schedulers of this thread are those below `root`. What does not compile is no result of that.
pub(crate) fn within<T>(root: &Path, what: impl FnOnce() -> T) -> T {
    ALTERED.set(Some(Alteration {
        root: root.to_owned(),
        faults: Vec::new(),
    }));
    let done = catch_unwind(AssertUnwindSafe(what));
    let faults = ALTERED.take().map_or(Vec::new(), |a| a.faults);
    assert!(faults.is_empty(), "{}", faults[0]);
    done.unwrap_or_else(|panic| resume_unwind(panic))
}

/// A shipped scheduler by name, or a file by its path from the repository.
pub fn source(scheduler: &str) -> Source {
    let root = root();
    let schedulers = root.join("schedulers");
    let mut source = Source::new(match scheduler.contains('/') {
        true => root.join(scheduler),
        false => schedulers.join(format!("{scheduler}/{scheduler}.bpf.c")),
    });
    source.include_dirs.push(schedulers.join("lib"));
    source
}

/// The same for its object, lowered at this level; each is built once for a process. Altered ones are soon
/// done with: the compiler takes as little time as it can, and they are not kept.
pub fn object(scheduler: &str, level: u8) -> &'static Object {
    type Cell = Arc<OnceLock<&'static Object>>;
    static BUILT: LazyLock<Mutex<HashMap<(PathBuf, u8), Cell>>> = LazyLock::new(Mutex::default);
    let source = source(scheduler);
    let cell = {
        let mut built = BUILT
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let cell = built.entry((source.path.clone(), level)).or_default();
        Arc::clone(cell)
    };
    cell.get_or_init(|| {
        let kept = BuilderOptions::default();
        let options = match altered() {
            true => BuilderOptions {
                level: 0,
                cache_dir: None,
                ..kept
            },
            false => BuilderOptions { level, ..kept },
        };
        Box::leak(Box::new(build(&source, options)))
    })
}

/// An object that reports its accesses to memory. They are the same at every level; level 0 compiles five times as fast.
pub fn telling(source: &Source) -> Object {
    let options = BuilderOptions {
        accesses: true,
        level: 0,
        ..BuilderOptions::default()
    };
    build(source, options)
}

/// Tests that begin together want the same objects: the second finds in the cache what the first has built.
fn build(source: &Source, options: BuilderOptions) -> Object {
    static TURNS: LazyLock<Mutex<HashMap<PathBuf, Arc<Mutex<()>>>>> = LazyLock::new(Mutex::default);
    let all = TURNS.lock();
    let mut all = all.unwrap_or_else(PoisonError::into_inner);
    let turn = Arc::clone(all.entry(source.path.clone()).or_default());
    drop(all);
    let turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
    let object = Builder::new(options).native(source);
    drop(turn);
    object.unwrap_or_else(|e| {
        ALTERED.with_borrow_mut(|altered| {
            if let Some(altered) = altered {
                altered.faults.push(e.to_string());
            }
        });
        panic!("{e}")
    })
}
