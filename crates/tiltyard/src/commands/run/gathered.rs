// SPDX-License-Identifier: GPL-2.0-or-later
//! The results of all runs, and what failed.

use std::collections::BTreeSet;
use std::slice;

use serde_json::{Value, json};
use tiltyard_measure::Summary;
use tiltyard_report::timeline::Recorded;
use tiltyard_runner::Error;
use tiltyard_runner::grid;
use tiltyard_runner::objects::Built;
use tiltyard_runner::origin::Counts;
use tiltyard_runner::schedulers::Choice;
use tiltyard_runner::sim_error::SimError;
use tiltyard_runner::sim_results::SimRun;
use tiltyard_tables::RunFiles;

use super::{Args, repeat_line, seeds};
use crate::commands;
use crate::failure::{Code, Failure};
use crate::races::Found;

/// The result of one cell of the grid of schedulers and seeds.
pub type Cell = Result<grid::Cell, Error>;

/// The results of all cells by scheduler; files in the same order.
#[derive(Default)]
pub struct Gathered {
    pub runs: Vec<(String, Vec<SimRun>)>,
    /// What is compared: the metrics of the same runs, grouped by `--by`.
    pub views: Vec<(String, Vec<Summary>)>,
    pub files: Vec<RunFiles>,
    pub timelines: Vec<(String, Recorded)>,
    /// Failed runs, and schedulers that could not be built, for JSON.
    pub failures: Vec<Value>,
    /// One sentence for each scheduler that failed.
    pub failed: Vec<String>,
    pub first_failure: Option<Code>,
    /// Lines that schedulers printed, in all runs.
    pub lines_printed: u64,
}

/// The failed runs of one scheduler.
#[derive(Default)]
struct Failures {
    count: usize,
    /// The first one's line.
    what: Option<String>,
    /// Lines printed so far, without their numbers.
    said: BTreeSet<String>,
    /// Seeds whose failures were the same but for numbers.
    alike: Vec<String>,
}

impl Gathered {
    /// Prints a failure now, so that it precedes the results of the others, and keeps the first code.
    fn note(&mut self, failure: &Failure) {
        failure.print();
        self.first_failure.get_or_insert(failure.code);
    }

    /// A scheduler that could not be built has no run.
    pub fn add_unbuilt(&mut self, label: &str, failure: Failure) {
        self.note(&failure);
        let message = failure.to_string();
        let what = message.lines().next().unwrap_or_default();
        self.failed.push(format!(
            "{label} failed: {}.",
            what.trim_end_matches(['.', ':'])
        ));
        let exit_code = failure.code as u8;
        self.failures.push(json!({
            "scheduler": label,
            "how": { "exit_code": exit_code, "message": message },
        }));
    }

    /// Adds the results of the cells. Failed runs are reported with the command that repeats them.
    pub fn add(&mut self, args: &Args, built: &[Built], cells: Vec<Cell>) {
        let (seeds, mut cells) = (seeds(args), cells.into_iter());
        for scheduler in built {
            let label = &scheduler.choice.label;
            let (mut runs, mut views) = (Vec::new(), Vec::new());
            let mut failures = Failures::default();
            for (seed, cell) in seeds.iter().zip(cells.by_ref()) {
                match cell {
                    Ok(done) => {
                        let (run, view) = self.add_run(label, done);
                        runs.push(run);
                        views.push(view);
                    }
                    Err(error) => {
                        self.add_failed(args, &scheduler.choice, *seed, error, &mut failures);
                    }
                }
            }
            self.failed.extend(failures.summary(label, seeds.len()));
            if !runs.is_empty() {
                self.runs.push((label.clone(), runs));
                self.views.push((label.clone(), views));
            }
        }
    }

    fn add_run(&mut self, label: &str, done: grid::Cell) -> (SimRun, Summary) {
        self.lines_printed += done.run.outcome.lines_printed;
        self.files.extend(done.files);
        let timeline = done.timeline.map(|t| (label.to_owned(), t));
        self.timelines.extend(timeline);
        let view = done.view.unwrap_or_else(|| done.run.summary.clone());
        let run = SimRun {
            seed: done.run.seed,
            counts: Counts::of(&done.run.outcome),
            trace_hash: done.run.trace_hash,
            summary: done.run.summary,
            origin_ns: done.run.outcome.origin_ns,
            checked: done.run.checked,
        };
        (run, view)
    }

    fn add_failed(
        &mut self,
        args: &Args,
        choice: &Choice,
        seed: u64,
        error: Error,
        failures: &mut Failures,
    ) {
        if let Error::Sim(error) = &error {
            let outcome = error.outcome();
            self.lines_printed += outcome.map_or(0, |outcome| outcome.lines_printed);
        }
        let (failure, line) = failed_run(args, choice, seed, error);
        match failures.said.insert(without_numbers(&line)) {
            true => self.note(&failure),
            false => failures.alike.push(seed.to_string()),
        }
        failures.count += 1;
        failures.what.get_or_insert(line);
        self.failures.push(json!({
            "scheduler": choice.label,
            "seed": seed,
            "how": failure.details,
        }));
    }

    /// Races are failures, too, of runs that went well.
    pub fn note_races(&mut self) {
        let found: Vec<Failure> = self
            .runs
            .iter()
            .filter_map(|(label, runs)| Found::of(label, runs).failure())
            .collect();
        found.iter().for_each(|failure| self.note(failure));
    }
}

impl Failures {
    /// Prints which seeds failed alike. In one sentence how the scheduler failed, if it did.
    fn summary(self, label: &str, seeds: usize) -> Option<String> {
        if !self.alike.is_empty() {
            let word = if self.alike.len() == 1 {
                "seed"
            } else {
                "seeds"
            };
            let alike = self.alike.join(", ");
            say!("tiltyard: {label}: the same with {word} {alike}");
        }
        let what = self.what?;
        let count = match (self.count, seeds) {
            (_, 1) => String::new(),
            (failed, all) => format!(" with {failed} of {all} seeds, first"),
        };
        let what = what.trim_end_matches('.');
        Some(format!("{label} failed{count}: {what}."))
    }
}

/// One line for each file that a failed run has left: see [`Written`](tiltyard_runner::simulation::Written).
fn files_of_failed(args: &Args, error: &Error) -> String {
    match error {
        Error::Sim(error) if !matches!(error, SimError::Panicked) => commands::written(&[
            ("Trace", args.trace.as_deref()),
            ("Printk", args.printk.as_deref()),
        ]),
        _ => String::new(),
    }
}

/// The failure of one run with the command that repeats it, and in one line what failed.
fn failed_run(args: &Args, choice: &Choice, seed: u64, error: Error) -> (Failure, String) {
    let files = files_of_failed(args, &error);
    let mut failure = Failure::from(error);
    let repeat = repeat_line(args, slice::from_ref(&choice.argument), Some(seed));
    let line = failure.faults.first().and_then(|f| f.line.lines().next());
    let line = line.unwrap_or_default().to_owned();
    for fault in &mut failure.faults {
        let (label, what) = (&choice.label, &fault.line);
        fault.line = format!("{label}, seed {seed}: {what}\n{files}Repeat  {repeat}");
    }
    (failure, line)
}

/// What errors have in common that only differ in times and amounts.
fn without_numbers(line: &str) -> String {
    line.replace(|c: char| c.is_ascii_digit(), "")
}
