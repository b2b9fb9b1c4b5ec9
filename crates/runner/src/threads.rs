// SPDX-License-Identifier: GPL-2.0-or-later
//! Workloads with real threads in a kernel: what their runs print, and their metrics over the window of a simulated
//! run, from the workload's start to its end.

use std::cell::RefCell;
use std::path::Path;

use serde::Deserialize;
use tiltyard_exec::{ExecOutcome, Request};
use tiltyard_kernel::Trace;
use tiltyard_measure::{Latency, MarkSummary, RequestSummary, Summary};

use crate::{Error, program};

/// The needed parts of what `tiltyard exec --format json` prints.
#[derive(Debug, Deserialize)]
pub struct Printed {
    /// Deviations from the file.
    pub notes: Vec<String>,
    /// What its threads measured.
    pub outcome: ExecOutcome,
}

impl Printed {
    /// From all output: notes come first, on its standard error.
    pub fn parse(text: &str) -> Result<Printed, Error> {
        let json = text.find('{').map_or("", |at| &text[at..]);
        serde_json::from_str(json)
            .map_err(|e| Error::Measurement(format!("the workload's result: {e}: {text}")))
    }
}

/// The command that runs a workload file with real threads; further arguments may follow.
pub fn command(workload: &Path) -> Result<Vec<String>, Error> {
    let (program, workload) = (
        program::path()?.display().to_string(),
        workload.display().to_string(),
    );
    let words = [&*program, "exec", "--format", "json", "-w", &*workload];
    Ok(words.map(str::to_owned).to_vec())
}

/// Cuts a trace to the time from the workload's start to its end. The command lasts longer: it measures the machine's
/// speed, and shells sleep before the workload starts.
pub fn cut(trace: &mut Trace, outcome: &ExecOutcome) {
    trace.origin_ns = outcome.origin_ns;
    trace.end_ns = outcome.origin_ns + outcome.duration_ns;
}

/// Requests and marks are counted by the workload's threads; events do not show them.
pub fn fill(summary: &mut Summary, outcome: &ExecOutcome) {
    summary.requests = outcome.requests.iter().map(request).collect();
    let marks = outcome.marks.iter().map(|mark| MarkSummary {
        mark: mark.name.clone(),
        count: mark.count,
        first_ns: mark.first_ns,
        last_ns: mark.last_ns,
    });
    summary.marks = marks.collect();
}

/// Quantiles between the recorded ones are not known.
fn request(request: &Request) -> RequestSummary {
    let latency = request.latency.as_ref().map(|known| Latency {
        count: request.count,
        mean_ns: known.mean_ns,
        p50_ns: known.p50_ns,
        p90_ns: known.p90_ns,
        p99_ns: known.p99_ns,
        p999_ns: known.p999_ns,
        max_ns: known.max_ns,
        quantiles_ns: Vec::new(),
    });
    RequestSummary {
        class: request.name.clone(),
        app: request.app.clone(),
        latency: latency.unwrap_or_else(|| Latency {
            count: request.count,
            ..Latency::default()
        }),
        first_begin_ns: request.first_ns,
        last_end_ns: request.last_ns,
    }
}

/// What the runs of a job print, one after another: `tiltyard exec` with JSON on its standard output.
#[derive(Default)]
pub struct Prints {
    ended: RefCell<Vec<String>>,
    current: RefCell<String>,
}

impl Prints {
    /// The command wrote this.
    pub fn output(&self, text: &str) {
        self.current.borrow_mut().push_str(text);
    }

    /// The run has ended. Its messages: notes, and why it failed.
    pub fn run_ended(&self) -> Vec<String> {
        let text = self.current.take();
        let lines = text.lines().filter(|line| line.starts_with("tiltyard: "));
        let messages = lines.map(str::to_owned).collect();
        self.ended.borrow_mut().push(text);
        messages
    }

    /// The result of the run of this index among the report's; `None` if it has none, because it failed.
    pub fn outcome(&self, run: usize) -> Option<ExecOutcome> {
        let ended = self.ended.borrow();
        let printed = Printed::parse(ended.get(run)?).ok()?;
        Some(printed.outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_its_own_result() {
        let prints = Prints::default();
        let result = |origin: u64| {
            format!(
                "{{ \"notes\": [], \"outcome\": {{ \"origin_ns\": {origin}, \"duration_ns\": 5, \"done\": true,\n\
                 \"calibration_ns\": 1, \"tasks\": [], \"requests\": [], \"marks\": [] }} }}\n"
            )
        };
        let whole = result(7);
        let (first, second) = whole.split_at(20);
        prints.output("tiltyard: note: x: no realtime\n");
        prints.output(first);
        prints.output(second);
        assert_eq!(prints.run_ended(), ["tiltyard: note: x: no realtime"]);
        prints.output("tiltyard: x: deadlock\n");
        assert_eq!(prints.run_ended(), ["tiltyard: x: deadlock"]);
        prints.output(&result(9));
        assert!(prints.run_ended().is_empty());
        let origin = |run| prints.outcome(run).map(|outcome| outcome.origin_ns);
        assert_eq!([origin(0), origin(1), origin(2)], [Some(7), None, Some(9)]);
        assert_eq!(origin(3), None);
    }
}
