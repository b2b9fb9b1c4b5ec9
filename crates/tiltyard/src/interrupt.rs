// SPDX-License-Identifier: GPL-2.0-or-later
//! Ctrl-C: half-written files go away, and the exit code says what happened.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::failure::Code;

/// Files to remove when the user interrupts. Those that are gone already do no harm.
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Registers a file that means nothing unless this process ends well.
pub fn remove_on_interrupt(path: &Path) {
    if let Ok(mut files) = TEMPORARY.lock() {
        files.push(path.to_owned());
    }
}

/// Starts the thread that waits for SIGINT and SIGTERM. Call before any other thread exists: they
/// inherit the mask that leaves the signals to it. Children get theirs back from the standard library.
pub fn watch() {
    // SAFETY: plain calls on a set that lives on this stack; sigemptyset initialises it.
    let signals = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGINT);
        libc::sigaddset(&mut set, libc::SIGTERM);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        set
    };
    std::thread::spawn(move || {
        let mut signal = 0;
        // SAFETY: waits for the blocked signals of the set above.
        unsafe { libc::sigwait(&signals, &mut signal) };
        for file in TEMPORARY
            .lock()
            .map(|files| files.clone())
            .unwrap_or_default()
        {
            let _ = std::fs::remove_file(file);
        }
        eprintln!("tiltyard: interrupted; outputs of this command were not written");
        std::process::exit(Code::Interrupted as i32);
    });
}
