// SPDX-License-Identifier: GPL-2.0-or-later
//! Files and folders that are useless unless what makes them succeeds. Dropping their owners removes them; a process that
//! is about to be ended by a signal calls [`remove_all`].

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static MADE: Mutex<Vec<Made>> = Mutex::new(Vec::new());
static MOVES: Moves = Moves::new();
/// Whoever writes into a pipe that nobody reads does not come to an end.
const PATIENCE: Duration = Duration::from_secs(10);

thread_local! {
    /// How many [`Undisturbed`] this thread has.
    static OWN: Cell<u32> = const { Cell::new(0) };
}

/// Outputs that are being moved to their places, where earlier ones may be.
struct Moves {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// By so many threads.
    moving: u32,
    /// A signal has come: nobody else begins.
    ending: bool,
}

impl Moves {
    const fn new() -> Moves {
        Moves {
            state: Mutex::new(State {
                moving: 0,
                ending: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn begin(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.changed.wait_while(state, |state| state.ending);
        free.unwrap_or_else(PoisonError::into_inner).moving += 1;
    }

    fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.moving -= 1;
        self.changed.notify_all();
    }

    /// Waits until nobody moves anything, but not forever; from now on, nobody begins.
    fn stop(&self, patience: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ending = true;
        let _ = self
            .changed
            .wait_timeout_while(state, patience, |state| state.moving > 0);
    }
}

/// While this is held, a signal does not end the process, for at most [`PATIENCE`]. Hold it while several outputs get their
/// names, or one replaces another, so that either all of that happens or none.
pub struct Undisturbed(());

/// Blocks forever if a signal has come. One thread may hold several.
pub fn undisturbed() -> Undisturbed {
    if OWN.replace(OWN.get() + 1) == 0 {
        MOVES.begin();
    }
    Undisturbed(())
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        if OWN.replace(OWN.get() - 1) == 1 {
            MOVES.end();
        }
    }
}

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
    MOVES.stop(PATIENCE);
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A signal comes in the middle.
    #[test]
    fn what_has_begun_comes_to_its_end_and_nothing_else_begins() {
        let moves = Arc::new(Moves::new());
        let moved = Arc::new(AtomicBool::new(false));
        moves.begin();
        let other = std::thread::spawn({
            let (moves, moved) = (moves.clone(), moved.clone());
            move || {
                moves.stop(Duration::from_secs(60));
                assert!(moved.load(Ordering::SeqCst), "it did not wait");
            }
        });
        while !moves.state.lock().unwrap().ending {
            std::thread::yield_now();
        }
        moved.store(true, Ordering::SeqCst);
        moves.end();
        other.join().unwrap();
        let late = moves.clone();
        let late = std::thread::spawn(move || late.begin());
        moves.stop(Duration::ZERO);
        assert!(!late.is_finished());
        assert_eq!(moves.state.lock().unwrap().moving, 0);
    }

    #[test]
    fn what_never_ends_is_not_waited_for() {
        let moves = Moves::new();
        moves.begin();
        moves.stop(Duration::from_millis(1));
    }

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
