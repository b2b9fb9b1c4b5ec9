// SPDX-License-Identifier: GPL-2.0-or-later
//! How this crate tells its caller what it is at. It never prints by itself.

/// Told what goes on, for progress bars and for the command's output.
pub trait Progress {
    /// A new step began, such as "booting Linux 6.18.15".
    fn step(&mut self, what: &str);
    /// The command wrote this under that scheduler; not cut at line ends.
    fn output(&mut self, scheduler: &str, text: &str);
}
