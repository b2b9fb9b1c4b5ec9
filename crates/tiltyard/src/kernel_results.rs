// SPDX-License-Identifier: GPL-2.0-or-later
//! The output of runs in a real kernel, whether they have just ended or are measured again from their events.

use tiltyard_kernel::{Accel, Counter, Report, RunOutcome, RunReport};
use tiltyard_measure::{Comparison, Summary};
use tiltyard_report::{ReportInput, html, table, timeline};
use tiltyard_runner::Error;
use tiltyard_runner::kernel_fault;
use tiltyard_runner::kernel_runs::{self, Recorded};
use tiltyard_runner::output::Output;

use crate::terminal;

/// Load per CPU above which timings are unreliable.
const NOISY_LOAD: f64 = 0.5;

/// Lines of the kernel's debug dump that are printed.
const MAX_DUMP_LINES: usize = 40;

/// What ran, and how.
#[derive(Clone)]
pub struct Subject {
    /// The command, or the workload as it was named.
    pub title: String,
    /// The workload's name, as in results of the simulated machine, or the command.
    pub workload: String,
    /// As given with `--duration`.
    pub duration_ns: Option<u64>,
    /// The command that repeats all runs.
    pub command: String,
    /// CPUs of the machine on which Tiltyard ran.
    pub host_cpus: u32,
}

/// A job's runs and their metrics.
pub struct KernelResults<'a> {
    subject: Subject,
    report: &'a Report,
    recorded: &'a [Recorded],
    /// The runs that count.
    runs: Vec<(String, Vec<Summary>)>,
    pub comparison: Comparison,
}

impl<'a> KernelResults<'a> {
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
        });
        file.fill(page.as_bytes())
    }

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
            "tiltyard": tiltyard_runner::VERSION,
            "cut_short": self.report.cut_short,
            "workload": self.subject.workload,
            "duration_ns": self.subject.duration_ns,
            "report": self.report,
            "comparison": self.comparison,
            "recorded": recorded.collect::<Vec<_>>(),
        });
        format!("{all:#}\n")
    }

    /// What happened to each scheduler, then the schedulers side by side.
    pub fn page(&self) -> String {
        let report = self.report;
        let boot = match report.accel {
            Some(_) => format!("booted in {:.1} s, ", report.boot_ms as f64 / 1e3),
            None => String::new(),
        };
        let total_s = report.total_ms as f64 / 1e3;
        let mut page = format!(
            "{}; {boot}all done after {total_s:.1} s\n\n",
            kernel_runs::machine(report)
        );
        for name in &self.comparison.schedulers {
            page += &self.scheduler(name);
        }
        if !report.runs.is_empty() {
            page += &format!("\n{}\n", table::render(&self.comparison, terminal::width()));
        }
        page += &self.notes();
        page + &format!("Repeat  {}\n", self.subject.command)
    }

    /// What happened to a scheduler.
    fn scheduler(&self, name: &str) -> String {
        let runs = self.report.runs.iter();
        let own: Vec<&RunReport> = runs.filter(|run| run.scheduler == name).collect();
        // Successful rounds are alike; readers want to know about the one that failed.
        let shown = own.iter().find(|run| !run.is_success()).or(own.last());
        let mut text = format!("{name}\n");
        for line in shown.map_or(Vec::new(), |run| lines(run)) {
            text += &format!("  {line}\n");
        }
        for (counter, count) in deviations(&own) {
            let (what, name) = (counter.what, counter.name);
            text += &format!("  deviation       {count}: {what} ({name})\n");
        }
        text
    }

    /// What readers must know before they trust the metrics.
    fn notes(&self) -> String {
        let report = self.report;
        let mut notes = String::new();
        if let Some(reason) = &report.cut_short {
            notes += &format!("Cut short  {reason}\n");
        }
        let lost: u64 = self.recorded.iter().map(|recorded| recorded.lost).sum();
        if lost > 0 {
            notes +=
                &format!("Lost    {lost} events found no room: the figures are too low by them\n");
        }
        if let Some(line) = kernel_runs::bad_score(report) {
            notes += &format!(
                "Score   not understood: \"{line}\"; write score: NAME VALUE, or score: NAME VALUE higher|lower\n"
            );
        }
        let busy = load(report);
        let exact = report.accel == Some(Accel::Counted);
        if !exact && busy > NOISY_LOAD * f64::from(self.subject.host_cpus) {
            notes += &format!(
                "Noise   the machine was already loaded (load {busy:.1}): timings may be unreliable\n"
            );
        }
        if report.accel == Some(Accel::Emulated) {
            notes += "Time    the CPUs are emulated: timings are not meaningful; use KVM, or --icount for exact ones\n";
        }
        notes
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
fn load(report: &Report) -> f64 {
    f64::from(report.load_percent) / 100.0
}

/// A scheduler's counters of deviations over all its runs.
fn deviations(runs: &[&RunReport]) -> Vec<(Counter, u64)> {
    let mut all: Vec<(Counter, u64)> = Vec::new();
    let counts = runs.iter().flat_map(|run| match &run.outcome {
        RunOutcome::Ran { deviations, .. } => deviations.as_slice(),
        RunOutcome::NotLoaded { .. } => &[],
    });
    for deviation in counts.filter(|deviation| deviation.count > 0) {
        match all
            .iter_mut()
            .find(|(known, _)| *known == deviation.counter)
        {
            Some((_, count)) => *count += deviation.count,
            None => all.push((deviation.counter.clone(), deviation.count)),
        }
    }
    all
}

fn lines(run: &RunReport) -> Vec<String> {
    let mut lines = Vec::new();
    match &run.outcome {
        RunOutcome::NotLoaded { reason, .. } => lines.push(format!("not loaded: {reason}")),
        RunOutcome::Ran {
            ops_name,
            command,
            exit,
            load_ms,
            command_ms,
            unload_ms,
            ..
        } => {
            let ops = ops_name.as_deref().unwrap_or("the kernel's own");
            let set = run
                .tunables
                .iter()
                .map(|t| format!(" {}={}", t.name, t.value));
            let set: String = set.collect();
            lines.push(format!("in charge       {ops}{set}"));
            lines.push(format!(
                "command         {} after {:.3} s",
                kernel_fault::status(command),
                *command_ms as f64 / 1e3
            ));
            if let Some(exit) = exit {
                let msg = if exit.msg.is_empty() {
                    String::new()
                } else {
                    format!(": {}", exit.msg)
                };
                lines.push(format!(
                    "scheduler left  {} ({}){msg}",
                    exit.reason, exit.kind_name
                ));
                lines.extend(cut(&exit.dump).iter().map(|l| format!("  {l}")));
            }
            lines.push(format!("load, unload    {load_ms} ms, {unload_ms} ms"));
        }
    }
    let complaints = run.complaints.iter();
    lines.extend(complaints.map(|line| format!("kernel says     {line}")));
    let back = if run.default_is_back() { "yes" } else { "NO" };
    lines.push(format!(
        "default is back {back} (sched_ext {})",
        run.state_after
    ));
    lines
}

/// The beginning of the kernel's debug dump, which shows the culprit and the first CPUs.
fn cut(dump: &str) -> Vec<String> {
    let left = dump.lines().count().saturating_sub(MAX_DUMP_LINES);
    let more =
        (left > 0).then(|| format!("... {left} more lines of the dump: --format json has them"));
    let lines = dump.lines().take(MAX_DUMP_LINES).map(str::to_owned);
    lines.chain(more).collect()
}
