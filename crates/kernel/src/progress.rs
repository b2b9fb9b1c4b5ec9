// SPDX-License-Identifier: GPL-2.0-or-later
//! How this crate reports progress to its caller. It never prints.

use crate::report::Report;

/// Receives progress, for progress bars, and the command's output.
pub trait Progress {
    /// A new step began, such as "booting Linux 6.18.15".
    fn step(&mut self, what: &str);
    /// A run begins: what the command writes from now on belongs to it.
    fn begin_run(&mut self) {}
    /// The command wrote this under that scheduler; not cut at line ends.
    fn output(&mut self, scheduler: &str, text: &str);
    /// A run ended; all that is known so far, in case that nothing more comes.
    fn ran(&mut self, _so_far: &Report) {}
    /// Why the job is to end before it is done ("interrupted by SIGINT"); asked all the time.
    fn stop(&mut self) -> Option<String> {
        None
    }
}
