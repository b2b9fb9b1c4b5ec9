// SPDX-License-Identifier: GPL-2.0-or-later
//! Files and folders that are useless unless what makes them succeeds. Dropping their owners removes them; a process that
//! is about to be ended by a signal calls [`remove_all`].

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static MADE: Mutex<Vec<Made>> = Mutex::new(Vec::new());

struct Made {
    path: PathBuf,
    /// A folder that already holds results is kept.
    only_if_empty: bool,
}

fn all() -> MutexGuard<'static, Vec<Made>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What makes temporary files beside the outputs that they become.
pub(crate) fn hidden<'a>() -> tempfile::Builder<'a, 'a> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tiltyard-");
    builder
}

/// Makes a file or folder and registers it; no signal comes in between.
pub fn make<T, E>(
    make: impl FnOnce() -> Result<T, E>,
    path: impl FnOnce(&T) -> &Path,
) -> Result<T, E> {
    let mut all = all();
    let made = make()?;
    all.push(Made {
        path: path(&made).to_owned(),
        only_if_empty: false,
    });
    Ok(made)
}

/// Makes a folder, and those that it is in, for results; removed at exit if still empty.
pub fn make_folder(path: &Path) -> std::io::Result<()> {
    let mut all = all();
    std::fs::create_dir_all(path)?;
    all.push(Made {
        path: path.to_owned(),
        only_if_empty: true,
    });
    Ok(())
}

/// Removes all that are registered, the last first; missing ones do no harm. Keeps the lock, so that other
/// threads cannot make more before the process ends.
pub fn remove_all() {
    let all = all();
    remove_each(&all);
    std::mem::forget(all);
}

fn remove_each(all: &[Made]) {
    for Made {
        path,
        only_if_empty,
    } in all.iter().rev()
    {
        match only_if_empty {
            true => drop(std::fs::remove_dir(path)),
            false => remove(path),
        }
    }
}

/// Blocks forever once [`remove_all`] has begun, so that failures caused by the removal are not reported.
pub fn wait_for_end() {
    drop(all());
}

/// Removes a file or folder. Threads may still put files into the folder, so this repeats until it is gone.
fn remove(path: &Path) {
    for _ in 0..100 {
        let _ = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir_all(path));
        if !path.exists() {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_into_a_folder_stays() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let made = |name: &str, only_if_empty| Made {
            path: at(name),
            only_if_empty,
        };
        for name in ["results", "empty", "whole"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        for name in ["results/a.svg", "empty/half", "whole/part", "file"] {
            std::fs::write(at(name), "").unwrap();
        }
        remove_each(&[
            made("results", true),
            made("empty", true),
            made("empty/half", false),
            made("whole", false),
            made("file", false),
            made("missing", false),
        ]);
        let left = folder.path().read_dir().unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["results"]);
        assert!(at("results/a.svg").exists());
    }
}
