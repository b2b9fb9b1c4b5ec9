// SPDX-License-Identifier: GPL-2.0-or-later
//! Schedulers with rules that are broken on purpose: tests that do not notice prove nothing.

use crate::sources::{object, repository, within};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;
use tempfile::TempDir;

/// A rule broken on purpose: a description; the file, relative to the scheduler's folder (shared headers are in `../lib`); the text
/// to replace, at its first occurrence; its replacement; the test or kind of record that must notice.
pub type Mutation = [&'static str; 5];

/// Tests by their names, as [`fails`] takes them.
#[macro_export]
macro_rules! named {
    ($($module:ident: $($test:ident),+;)+) => {
        &[$($((stringify!($test), $module::$test as fn())),+),+]
    };
}

fn copy_sources(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in from.read_dir().expect("a folder of sources") {
        let path = entry.expect("a file").path();
        let copy = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy_sources(&path, &copy);
        } else if path.extension().is_some_and(|e| e == "h" || e == "c") {
            std::fs::copy(&path, copy).expect("a copy");
        }
    }
}

/// A copy of a scheduler, its handles for tests and what it shares with others, in which pieces of text are others.
pub struct Altered {
    root: TempDir,
}

impl Altered {
    /// File, old and new text: see [`Mutation`].
    pub fn new(scheduler: &str, replacements: &[(&str, &str, &str)]) -> Altered {
        let root = tempfile::tempdir().expect("temporary folder");
        let (from, to) = (
            repository().join("schedulers"),
            root.path().join("schedulers"),
        );
        for folder in [scheduler, "lib"] {
            copy_sources(&from.join(folder), &to.join(folder));
        }
        for (file, old, new) in replacements {
            let path = to.join(scheduler).join(file);
            let text = std::fs::read_to_string(&path).expect(file);
            assert!(text.contains(old), "{file}: {old}");
            std::fs::write(&path, text.replacen(old, new, 1)).expect(file);
        }
        Altered { root }
    }

    /// Does something on this thread for which the copy is the scheduler.
    pub fn within<T>(&self, what: impl FnOnce() -> T) -> T {
        within(self.root.path(), what)
    }
}

/// The result of `what`, or `None` if it panics. The panic is not reported: a backtrace of each would cost more than the tests.
pub fn caught<T>(what: impl FnOnce() -> T) -> Option<T> {
    thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });
    static REPORT: Once = Once::new();
    REPORT.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                report(panic);
            }
        }));
    });
    QUIET.set(true);
    let done = catch_unwind(AssertUnwindSafe(what));
    QUIET.set(false);
    done.ok()
}

/// Whether the test of this name fails.
pub fn fails(tests: &[(&str, fn())], name: &str) -> bool {
    let test = tests.iter().find(|(known, _)| *known == name);
    let (_, test) = test.unwrap_or_else(|| panic!("no test {name}"));
    caught(test).is_none()
}

/// One rule in this many is broken.
const STEP: usize = 40;

/// A number that depends on the scheduler's text.
fn content(scheduler: &str) -> usize {
    let key = &object(scheduler, 2).key;
    usize::from_str_radix(&key[..8], 16).expect("a hash in hexadecimal")
}

/// Breaks rules of a scheduler one by one: all with TILTYARD_ALL_MUTATIONS=1, else one of forty; a hash of the scheduler
/// decides which ones, so different ones are chosen after each change. `notices` is asked while the rule is broken, and gets
/// who should notice.
pub fn must_be_noticed(scheduler: &str, mutations: &[Mutation], notices: impl Fn(&str) -> bool) {
    let all = std::env::var_os("TILTYARD_ALL_MUTATIONS").is_some();
    let mut unnoticed = Vec::new();
    if all {
        // A test that fails for an unbroken copy, too, proves nothing.
        let names: BTreeSet<&str> = mutations.iter().map(|m| m[4]).collect();
        let noticed = Altered::new(scheduler, &[]).within(|| {
            names
                .into_iter()
                .filter(|name| notices(name))
                .collect::<Vec<_>>()
        });
        assert_eq!(noticed, Vec::<&str>::new());
    }
    let step = if all { 1 } else { STEP.min(mutations.len()) };
    let first = if all { 0 } else { content(scheduler) % step };
    for [what, file, old, new, by] in mutations.iter().skip(first).step_by(step) {
        let altered = Altered::new(scheduler, &[(file, old, new)]);
        let noticed = altered.within(|| notices(by));
        if all {
            println!("{scheduler}, {what}: {by}: {noticed}");
        }
        if !noticed {
            unnoticed.push(what);
        }
    }
    assert_eq!(unnoticed, Vec::<&&str>::new());
}
