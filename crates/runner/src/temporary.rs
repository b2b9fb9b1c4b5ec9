// SPDX-License-Identifier: GPL-2.0-or-later
//! Files and folders that are useless unless what makes them succeeds. Dropping their owners removes them; a process that
//! is about to be ended by a signal calls [`remove_all`].

use std::path::{Path, PathBuf};
use std::sync::Mutex;

static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Registers a file or folder.
pub fn register(path: &Path) {
    if let Ok(mut files) = TEMPORARY.lock() {
        files.push(path.to_owned());
    }
}

/// Removes all that are registered; missing ones do no harm.
pub fn remove_all() {
    let files = TEMPORARY.lock().map(|files| files.clone());
    for file in files.unwrap_or_default() {
        remove(&file);
    }
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
