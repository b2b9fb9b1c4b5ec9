// SPDX-License-Identifier: GPL-2.0-or-later
//! Progress on stderr: only on terminals, only for work that takes longer than a second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long a command may be silent.
const PATIENCE: Duration = Duration::from_secs(1);

/// A step in simulated time: the bar's unit.
const STEP_NS: u64 = 1_000_000;

/// A bar over the simulated time of all runs together; threads add their progress.
pub struct Progress {
    bar: ProgressBar,
    begun: Instant,
    done_ns: AtomicU64,
    silent: bool,
}

impl Progress {
    /// `total_ns` of simulated time over all runs.
    pub fn new(total_ns: u64) -> Progress {
        let bar =
            ProgressBar::with_draw_target(Some(total_ns / 1_000_000), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template(
            "{bar:40} {percent:>3} %  {elapsed} gone, {eta} to go  {msg}",
        );
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress {
            bar,
            begun: Instant::now(),
            done_ns: AtomicU64::new(0),
            silent: false,
        }
    }

    /// One that is never shown: part of a larger one.
    pub fn silent() -> Progress {
        Progress {
            silent: true,
            ..Progress::new(0)
        }
    }

    /// A bar over `total` steps of any kind.
    pub fn steps(total: u64) -> Progress {
        Progress::new(total * STEP_NS)
    }

    /// One step is done.
    pub fn add_step(&self) {
        self.add(STEP_NS);
    }

    /// `ns` more simulated time is done. Cheap enough for many calls a second.
    pub fn add(&self, ns: u64) {
        let done_ns = self.done_ns.fetch_add(ns, Ordering::Relaxed) + ns;
        if self.begun.elapsed() >= PATIENCE && !self.silent {
            if self.bar.is_hidden() {
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            self.bar.set_position(done_ns / 1_000_000);
        }
    }

    /// Removes the bar; the results follow.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// A line that shows the current step, for work of unknown length.
pub struct Steps {
    spinner: ProgressBar,
}

impl Steps {
    pub fn new() -> Steps {
        let spinner = ProgressBar::new_spinner();
        spinner.enable_steady_tick(Duration::from_millis(200));
        Steps { spinner }
    }

    pub fn step(&self, what: &str) {
        self.spinner.set_message(what.to_owned());
    }

    /// Prints above the spinner.
    pub fn suspend(&self, print: impl FnOnce()) {
        self.spinner.suspend(print);
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.spinner.finish_and_clear();
    }
}
