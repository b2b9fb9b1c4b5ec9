// SPDX-License-Identifier: GPL-2.0-or-later
//! The output of runs in a real kernel, whether they have just ended or are measured again from their events.

use crate::Error;
use crate::kernel_runs::{self, Recorded};
use crate::output::Output;
use tiltyard_kernel::{KernelError, Report};
use tiltyard_measure::{Comparison, Summary};
use tiltyard_report::{ReportInput, html, timeline};

/// What ran, and how.
#[derive(Clone)]
pub struct Subject {
    /// The command, or the workload as it was named.
    pub title: String,
    /// The workload's name, as in results of the simulated machine, or the command.
    pub workload: String,
    /// Hash of the workload's text; `None` of a command.
    pub workload_sha256: Option<String>,
    /// As given with `--duration`.
    pub duration_ns: Option<u64>,
    /// The command that repeats all runs.
    pub command: String,
    /// CPUs of the machine on which Tiltyard ran.
    pub host_cpus: u32,
}

/// A job's runs and their metrics.
pub struct KernelResults<'a> {
    /// What ran.
    pub subject: Subject,
    /// What became of the job.
    pub report: &'a Report,
    /// The runs whose events were recorded.
    pub recorded: &'a [Recorded],
    /// The runs that count.
    runs: Vec<(String, Vec<Summary>)>,
    /// The schedulers side by side.
    pub comparison: Comparison,
}

impl<'a> KernelResults<'a> {
    /// Of a job that is over, or as far as it has come.
    pub fn new(subject: Subject, report: &'a Report, recorded: &'a [Recorded]) -> Self {
        let runs = kernel_runs::by_scheduler(report, recorded);
        KernelResults {
            subject,
            report,
            recorded,
            comparison: kernel_runs::comparison(report, &runs),
            runs,
        }
    }

    /// Writes the report.
    pub fn draw(
        &self,
        timelines: Vec<(usize, timeline::Recorded)>,
        file: Output,
    ) -> Result<(), Error> {
        let report = self.report;
        let mut about = "A command under schedulers in a real Linux kernel.".to_owned();
        if let Some(reason) = cut_short(report) {
            about += &format!(" Cut short: {reason}.");
        }
        let page = html::render(&ReportInput {
            title: &self.subject.title,
            about: &about,
            machine: &format!("{}{}", kernel_runs::machine(report), circumstances(report)),
            command: &self.subject.command,
            shown: "round 1",
            comparison: &self.comparison,
            runs: &self.runs,
            timelines: &kernel_runs::first_of_each(report, timelines),
            nodes: &[],
        });
        file.fill(page.as_bytes())
    }

    /// The result file.
    pub fn json(&self) -> String {
        let recorded = self.recorded.iter().map(|recorded| {
            let run = &self.report.runs[recorded.run];
            serde_json::json!({
                "scheduler": run.scheduler,
                "round": run.round,
                "lost_events": recorded.lost,
                "summary": recorded.summary,
            })
        });
        let all = serde_json::json!({
            "tiltyard": crate::VERSION,
            "cut_short": self.report.cut_short,
            "workload": self.subject.workload,
            "workload_sha256": self.subject.workload_sha256,
            "duration_ns": self.subject.duration_ns,
            "report": self.report,
            "comparison": self.comparison,
            "recorded": recorded.collect::<Vec<_>>(),
        });
        format!("{all:#}\n")
    }
}

/// A job's report, if the job was done to its end.
pub fn whole(report: Report) -> Result<Report, Error> {
    match cut_short(&report) {
        None => Ok(report),
        Some(why) => Err(KernelError::Guest(why.to_owned()).into()),
    }
}

/// Why the job ended before it was done, in one line; a guest's last lines follow.
pub fn cut_short(report: &Report) -> Option<&str> {
    report.cut_short.as_deref()?.lines().next()
}

/// What else times depend on.
fn circumstances(report: &Report) -> String {
    let cpu = match report.host_cpu.as_str() {
        "" => String::new(),
        name => format!(", {name}"),
    };
    format!("{cpu}, load {:.1} when it began", load(report))
}

/// Runnable tasks on the machine when the job began.
pub fn load(report: &Report) -> f64 {
    f64::from(report.load_percent) / 100.0
}
