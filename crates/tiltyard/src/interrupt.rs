// SPDX-License-Identifier: GPL-2.0-or-later
//! Ctrl-C and similar signals: half-written files are removed, and the exit code reports the interrupt. A command that must
//! clean up first can handle the signal itself.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use tiltyard_runner::temporary;

use crate::failure::Code;

/// Whether the command handles the first signal, and which one it was.
static IS_LEFT_TO_COMMAND: AtomicBool = AtomicBool::new(false);
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Whether an interrupted command may be repeated for the rest.
static KEEPS_RESULTS: AtomicBool = AtomicBool::new(false);

/// From now on, results are kept as they come, and the same command does the rest.
pub fn results_are_kept() {
    KEEPS_RESULTS.store(true, Ordering::SeqCst);
}

/// From now on the first signal does not end the process: the command reads it with [`signal`], and exits by
/// itself. The second one does.
pub fn leave_to_command() {
    IS_LEFT_TO_COMMAND.store(true, Ordering::SeqCst);
}

/// The received signal, if the command handles it.
pub fn signal() -> Option<&'static str> {
    match SIGNAL.load(Ordering::SeqCst) {
        0 => None,
        libc::SIGINT => Some("SIGINT"),
        libc::SIGHUP => Some("SIGHUP"),
        _ => Some("SIGTERM"),
    }
}

/// Why the command is to stop, if it handles the signal that came.
pub fn reason() -> Option<String> {
    signal().map(|signal| format!("interrupted by {signal}"))
}

/// Whether the process was started with the signal ignored, for example by `nohup`.
fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: without a new action, the call only fills `now`, which lives on this stack.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut now) == 0
            && now.sa_sigaction == libc::SIG_IGN
    }
}

/// Starts the thread that waits for SIGINT, SIGTERM and SIGHUP (a closed terminal). Call before any other thread exists:
/// other threads inherit the mask that leaves the signals to this one. The standard library restores the mask for children.
pub fn watch() {
    // SAFETY: plain calls on a set that lives on this stack; sigemptyset initialises it.
    let signals = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGINT);
        libc::sigaddset(&mut set, libc::SIGTERM);
        if !is_ignored(libc::SIGHUP) {
            libc::sigaddset(&mut set, libc::SIGHUP);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        set
    };
    std::thread::spawn(move || {
        let mut signal = 0;
        // SAFETY: waits for the blocked signals of the set above.
        unsafe { libc::sigwait(&signals, &mut signal) };
        if IS_LEFT_TO_COMMAND.swap(false, Ordering::SeqCst) {
            SIGNAL.store(signal, Ordering::SeqCst);
            // SAFETY: as above.
            unsafe { libc::sigwait(&signals, &mut signal) };
        }
        temporary::remove_all();
        match KEEPS_RESULTS.load(Ordering::SeqCst) {
            true => say!(
                "tiltyard: interrupted; finished runs are kept, and the same command does the others"
            ),
            false => say!("tiltyard: interrupted; incomplete outputs were removed"),
        }
        std::process::exit(Code::Interrupted as i32);
    });
}
