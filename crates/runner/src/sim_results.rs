// SPDX-License-Identifier: GPL-2.0-or-later
//! The output of simulated runs, whether they have just ended or are measured again from their events.

use std::path::Path;

use crate::Error;
use crate::grouping::By;
use crate::origin::Counts;
use crate::output::{self, Output};
use crate::stuck;
use serde_json::{Value, json};
use tiltyard_measure::{Comparison, Summary, compare, units};
use tiltyard_report::timeline::Recorded;
use tiltyard_report::{ReportInput, html};
use tiltyard_sim::{Checked, Race, Side};

/// What all runs have in common.
pub struct Shared<'a> {
    /// Its name.
    pub workload: &'a str,
    /// Hash of the workload's text.
    pub workload_sha256: Option<&'a str>,
    /// The workload's description.
    pub about: &'a str,
    /// As given with `--duration`.
    pub duration_ns: Option<u64>,
    /// Its name.
    pub machine: &'a str,
    /// Hash of the machine's text.
    pub machine_sha256: Option<&'a str>,
    /// The machine's description.
    pub about_machine: &'a str,
    /// CPUs of the machine.
    pub nr_cpus: usize,
    /// The memory node of each CPU; empty if it is not known.
    pub nodes: Vec<u32>,
    /// How the tasks of the views are grouped.
    pub by: By,
    /// The command that repeats all runs.
    pub command: &'a str,
}

/// One completed run.
pub struct SimRun {
    /// The seed of its random draws.
    pub seed: u64,
    /// Hash of all events.
    pub trace_hash: String,
    /// What the simulator counted.
    pub counts: Counts,
    /// Its metrics by app.
    pub summary: Summary,
    /// Of a run with `--races`.
    pub checked: Option<Checked>,
    /// When the workload began, on the clock of the events.
    pub origin_ns: u64,
}

/// Completed runs by scheduler.
pub struct SimResults<'a> {
    /// What all runs have in common.
    pub shared: Shared<'a>,
    /// The name of each scheduler and its runs, in order of seeds.
    pub runs: &'a [(String, Vec<SimRun>)],
    /// What is compared: the metrics of the same runs, grouped by `--by`.
    pub views: &'a [(String, Vec<Summary>)],
    /// A part of each scheduler's first run, slice by slice, by its name.
    pub timelines: &'a [(String, Recorded)],
    /// Failed runs, for JSON.
    pub failures: &'a [Value],
    /// One sentence for each scheduler that failed.
    pub failed: &'a [String],
}

impl SimResults<'_> {
    /// The schedulers side by side.
    pub fn comparison(&self) -> Comparison {
        let mut comparison = compare(self.views);
        // First: what is missing matters more than why the others differ.
        let stuck = self.runs.iter().filter_map(|(scheduler, runs)| {
            let runs = runs.iter().map(|run| (run.seed, run.counts.stuck.as_ref()));
            stuck::told(scheduler, runs)
        });
        let first: Vec<String> = self.failed.iter().cloned().chain(stuck).collect();
        comparison.why.splice(0..0, first);
        comparison
    }

    /// Writes the report and the figures, if they are wanted.
    pub fn draw(
        &self,
        comparison: &Comparison,
        report: Option<Output>,
        figures: Option<&Path>,
    ) -> Result<(), Error> {
        if report.is_none() && figures.is_none() {
            return Ok(());
        }
        let shared = &self.shared;
        let input = ReportInput {
            title: shared.workload,
            about: shared.about,
            machine: &format!("{}: {}", shared.machine, shared.about_machine),
            command: shared.command,
            shown: &format!("seed {}", self.runs[0].1[0].seed),
            comparison,
            runs: self.views,
            timelines: self.timelines,
            nodes: &shared.nodes,
        };
        if let Some(dir) = figures {
            output::write_all(dir, &html::figures(&input))?;
        }
        report.map_or(Ok(()), |report| {
            report.fill(html::render(&input).as_bytes())
        })
    }

    /// What was run, on what; `how` says where it comes from.
    pub fn headline(&self, how: &str) -> String {
        let shared = &self.shared;
        let all: Vec<&SimRun> = self.runs.iter().flat_map(|(_, runs)| runs).collect();
        let simulated_ns: u64 = all.iter().map(|run| run.summary.duration_ns).sum();
        let count = match all.len() {
            1 => "1 run".to_owned(),
            count => format!("{count} runs"),
        };
        let s = if shared.nr_cpus == 1 { "" } else { "s" };
        format!(
            "{} on {} ({} CPU{s}), {count}, {} simulated {how}",
            shared.workload,
            shared.machine,
            shared.nr_cpus,
            units::time(simulated_ns as f64),
        )
    }

    /// The result file.
    pub fn json(&self, comparison: &Comparison) -> String {
        let run = |label: &str, run: &SimRun| {
            serde_json::json!({
                "scheduler": label,
                "seed": run.seed,
                "trace_hash": run.trace_hash,
                "exit": run.counts.exit,
                "switches": run.counts.switches,
                "ticks": run.counts.ticks,
                "callbacks": run.counts.callbacks,
                "tasks": run.counts.tasks,
                "tasks_left": run.counts.tasks_left,
                "stuck": run.counts.stuck,
                "summary": run.summary,
                "races": run.checked.as_ref().map(|c| races(c, run.origin_ns)),
            })
        };
        let each = self.runs.iter();
        let each = each.flat_map(|(label, runs)| runs.iter().map(move |r| run(label, r)));
        let all = serde_json::json!({
            "tiltyard": crate::VERSION,
            "workload": self.shared.workload,
            "workload_sha256": self.shared.workload_sha256,
            "duration_ns": self.shared.duration_ns,
            "machine": self.shared.machine,
            "machine_sha256": self.shared.machine_sha256,
            "by": self.shared.by.name(),
            "comparison": comparison,
            "runs": each.collect::<Vec<_>>(),
            "failures": self.failures,
        });
        format!("{all:#}\n")
    }
}

/// The races of one run, for JSON. Times are in ns from the start of the workload.
fn races(checked: &Checked, origin_ns: u64) -> Value {
    let side = |side: &Side| {
        json!({
            "line": side.place,
            "access": side.action,
            "plain": side.plain,
            "callback": side.callback,
            "cpu": side.cpu,
            "task": side.task,
        })
    };
    let race = |race: &Race| {
        json!({
            "memory": race.what,
            "time_ns": race.time_ns as i64 - origin_ns as i64,
            "times": race.times,
            "accesses": race.sides.each_ref().map(side),
        })
    };
    json!({
        "pairs": checked.races.iter().map(race).collect::<Vec<_>>(),
        "partial": checked.is_partial,
    })
}
