// SPDX-License-Identifier: GPL-2.0-or-later
//! Progress on stderr: only on terminals, only for work that takes longer than a second.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tiltyard_runner::{Progress, Total};

use crate::interrupt;

/// How long a command may be silent.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar over all runs together; their threads add their progress.
#[derive(Default)]
pub struct Bar {
    now: Mutex<Option<Shown>>,
}

struct Shown {
    bar: ProgressBar,
    begun: Instant,
}

impl Bar {
    pub fn new() -> Bar {
        Bar::default()
    }

    fn advance(&self, by: u64) {
        let Ok(now) = self.now.lock() else { return };
        let Some(Shown { bar, begun }) = now.as_ref() else {
            return;
        };
        bar.inc(by);
        if bar.is_hidden() && begun.elapsed() >= PATIENCE {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Progress for Bar {
    fn begin(&self, total: Total) {
        let (Total::SimulatedNs(total) | Total::Runs(total)) = total;
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template(
            "{bar:40} {percent:>3} %  {elapsed} gone, {eta} to go  {msg}",
        );
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        if let Ok(mut now) = self.now.lock() {
            let begun = Instant::now();
            *now = Some(Shown { bar, begun });
        }
    }

    fn simulated(&self, ns: u64) {
        self.advance(ns);
    }

    fn run_done(&self) {
        self.advance(1);
    }

    /// Counting it would make the estimated time left too short.
    fn run_known(&self) {
        if let Ok(now) = self.now.lock()
            && let Some(Shown { bar, .. }) = now.as_ref()
        {
            bar.dec_length(1);
        }
    }

    /// Removes the bar; the results follow.
    fn end(&self) {
        if let Ok(mut now) = self.now.lock()
            && let Some(shown) = now.take()
        {
            shown.bar.finish_and_clear();
        }
    }

    fn stop(&self) -> Option<String> {
        interrupt::reason()
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

    /// Prints above the spinner.
    pub fn suspend(&self, print: impl FnOnce()) {
        self.spinner.suspend(print);
    }
}

impl Progress for Steps {
    fn step(&self, what: &str) {
        self.spinner.set_message(what.to_owned());
    }

    fn stop(&self) -> Option<String> {
        interrupt::reason()
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.spinner.finish_and_clear();
    }
}
