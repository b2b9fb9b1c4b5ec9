// SPDX-License-Identifier: GPL-2.0-or-later
//! How callers follow progress while the library works. It never prints.

use tiltyard_kernel::Report;

/// Receives progress; all methods do nothing unless they are implemented. Runs in threads of their own call it, too.
pub trait Progress: Sync {
    /// A new step began, such as "building fifo" or "booting Linux 6.18.15".
    fn step(&self, _what: &str) {}
    /// Runs begin: this much simulated time in all, ns, or this many of them where that is not known.
    fn begin(&self, _total: Total) {}
    /// One of them has simulated this much more, ns. Called often.
    fn simulated(&self, _ns: u64) {}
    /// One of them is done.
    fn run_done(&self) {}
    /// The result of one of them was cached: it took no time.
    fn run_known(&self) {}
    /// All of them are done.
    fn end(&self) {}
    /// A command in a real kernel wrote this; not cut at line ends.
    fn output(&self, _text: &str) {}
    /// A workload in a real kernel wrote this line for the user: a note, or why it failed.
    fn message(&self, _line: &str) {}
    /// A run in a real kernel is over: all that is known so far, in case that nothing more comes.
    fn ran(&self, _so_far: &Report) {}
    /// Why to stop before all is done ("interrupted by SIGINT"). Asked before each simulated run, and all the time
    /// while a guest runs.
    fn stop(&self) -> Option<String> {
        None
    }
}

/// How much there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Total {
    /// Simulated time of all runs together, ns.
    SimulatedNs(u64),
    /// A number of runs.
    Runs(u64),
}

/// Nobody listens.
impl Progress for () {}
