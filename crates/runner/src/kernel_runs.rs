// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs in a real kernel: the recorded events of each give the same metrics as those of the simulated machine.

use std::path::PathBuf;

use tiltyard_build::Builder;
use tiltyard_kernel::{Accel, Report, RunOutcome, RunReport, Trace, scores, trace};
use tiltyard_measure::{
    Better, COMMAND, Comparison, Figure, Recorder, RecorderSpec, Summary, Unit, all_alike,
    busiest_first, compare, figures, median_interval, rows, score,
};
use tiltyard_report::perfetto;
use tiltyard_report::timeline::{self, Timeline, Window};
use tiltyard_trace::Ended;

use crate::Error;
use crate::event_dir::EventDir;
use crate::objects;
use crate::output::Output;

/// The tracer's object for a kernel.
pub fn tracer() -> Result<PathBuf, Error> {
    let source = objects::shipped("tracer.bpf.c", trace::SOURCE)?;
    Ok(Builder::default().bpf_object(&source)?.path)
}

/// How well times are known: from six on, where the interval covers 95 %.
pub fn spread(times_s: &[f64]) -> Option<f64> {
    let interval = median_interval(times_s).filter(|i| i.coverage_ppm >= 950_000)?;
    let side = (interval.high - interval.median).max(interval.median - interval.low);
    Some(side / interval.median)
}

/// The machine that it ran on.
pub fn machine(report: &Report) -> String {
    let (release, cpus) = (&report.kernel_release, report.cpus);
    let s = if cpus == 1 { "" } else { "s" };
    let how = report.accel.map_or("this machine", Accel::name);
    let config = report.kernel_config.as_ref();
    let config = config.map_or(String::new(), |config| format!(" ({})", config.brief()));
    format!("Linux {release}{config}, {cpus} CPU{s}, {how}")
}

/// A run whose events were recorded.
pub struct Recorded {
    /// Its index among the report's runs.
    pub run: usize,
    /// When the command, or the workload, started, on the clock of the events.
    pub origin_ns: u64,
    /// When it ended, on the same clock.
    pub end_ns: u64,
    /// Events that found no room.
    pub lost: u64,
    /// Its metrics.
    pub summary: Summary,
}

/// Metrics of a trace.
pub fn summarise(trace: &Trace, nr_cpus: u32) -> Recorded {
    let mut recorder = Recorder::new(RecorderSpec {
        nr_cpus: nr_cpus as usize,
        origin_ns: trace.origin_ns,
        starvation_ns: RecorderSpec::STARVATION_NS,
    });
    trace.replay(&mut recorder);
    Recorded {
        run: trace.run,
        origin_ns: trace.origin_ns,
        end_ns: trace.end_ns,
        lost: trace.lost,
        summary: recorder.finish(trace.end_ns),
    }
}

/// Keeps the events of a run.
pub fn keep(trace: &Trace, events: &EventDir) -> Result<Ended, Error> {
    let mut recording = events.record(trace.run as u32)?;
    trace.replay(&mut recording);
    events.end(recording)
}

/// A part of a trace, slice by slice.
pub fn timeline(trace: &Trace, nr_cpus: u32, window: Window) -> timeline::Recorded {
    let mut timeline = Timeline::new(nr_cpus as usize, trace.origin_ns, window);
    trace.replay(&mut timeline);
    timeline.finish(trace.end_ns)
}

/// Of data about runs, in order, by their index: that of each scheduler's first run that counts.
pub fn first_of_each<T>(report: &Report, known: Vec<(usize, T)>) -> Vec<(String, T)> {
    let mut first: Vec<(String, T)> = Vec::new();
    for (index, of_run) in known {
        let run = report.runs.get(index).filter(|run| counts(run));
        if let Some(run) = run
            && first.iter().all(|(name, _)| *name != run.scheduler)
        {
            first.push((run.scheduler.clone(), of_run));
        }
    }
    first
}

/// The runs of each scheduler that count, in the order in which schedulers first ran.
pub fn by_scheduler(report: &Report, recorded: &[Recorded]) -> Vec<(String, Vec<Summary>)> {
    let mut all: Vec<(String, Vec<Summary>)> = Vec::new();
    for (index, run) in report.runs.iter().enumerate() {
        let at = all.iter().position(|(name, _)| *name == run.scheduler);
        let at = at.unwrap_or_else(|| {
            all.push((run.scheduler.clone(), Vec::new()));
            all.len() - 1
        });
        let summary = recorded.iter().find(|r| r.run == index);
        if let Some(recorded) = summary.filter(|_| counts(run)) {
            all[at].1.push(recorded.summary.clone());
        }
    }
    all
}

/// The metrics of a run in a kernel.
pub fn measured(summary: &Summary) -> Vec<Figure> {
    let mut all = figures(summary);
    all.retain(|figure| !is_unmeasured(&figure.name));
    all
}

/// Metrics of simulated runs that a kernel's events do not show: that would require timing each of its functions.
fn is_unmeasured(name: &str) -> bool {
    matches!(name, "overhead_percent" | "scheduler_percent")
}

/// The schedulers side by side: how long the command took, its scores, then whatever was recorded.
pub fn comparison(report: &Report, runs: &[(String, Vec<Summary>)]) -> Comparison {
    let mut comparison = compare(runs);
    comparison
        .rows
        .retain(|row| !is_unmeasured(row.name.rsplit('.').next().unwrap_or_default()));
    let counting: Vec<Vec<Vec<Figure>>> = runs
        .iter()
        .map(|(name, _)| {
            counting(report, name)
                .map(|(_, run)| own_figures(run))
                .collect()
        })
        .collect();
    comparison.rows.splice(0..0, rows(&counting));
    busiest_first(&mut comparison.rows);
    comparison.runs = counting.iter().map(Vec::len).collect();
    let recorded = comparison.identical.iter();
    let identical = recorded
        .zip(&counting)
        .map(|(same, own)| *same && all_alike(own));
    comparison.mark_identical(identical.collect());
    comparison
}

/// All metrics of a scheduler's runs that count: the command's own, and those of its events if recorded.
pub fn figures_of(report: &Report, recorded: &[Recorded], scheduler: &str) -> Vec<Vec<Figure>> {
    let all = counting(report, scheduler).map(|(index, run)| {
        let mut all = own_figures(run);
        let recorded = recorded.iter().filter(|recorded| recorded.run == index);
        all.extend(recorded.flat_map(|recorded| measured(&recorded.summary)));
        all
    });
    all.collect()
}

/// The runs of a scheduler that count, with their indices: neither warm-ups nor failures.
fn counting<'a>(
    report: &'a Report,
    scheduler: &'a str,
) -> impl Iterator<Item = (usize, &'a RunReport)> {
    let runs = report.runs.iter().enumerate();
    runs.filter(move |(_, run)| run.scheduler == scheduler && counts(run))
}

/// A run that is neither a warm-up nor a failure.
pub fn counts(run: &RunReport) -> bool {
    run.round > 0 && run.time_s().is_some()
}

/// The command's own metrics of a run: how long it took, and its scores.
fn own_figures(run: &RunReport) -> Vec<Figure> {
    let took = run.time_s().map(|time_s| Figure {
        group: COMMAND.to_owned(),
        name: "took_s".to_owned(),
        metric: "took".to_owned(),
        unit: Unit::TimeNs,
        better: Better::Lower,
        headline: true,
        value: time_s * 1e9,
    });
    let told = lines_of(run).iter().filter_map(|line| score(line));
    took.into_iter().chain(told).collect()
}

/// The first invalid score line.
pub fn bad_score(report: &Report) -> Option<String> {
    let mut lines = report.runs.iter().flat_map(lines_of);
    let bad = lines.find(|line| score(line).is_none())?;
    Some(format!("{}{bad}", scores::PREFIX))
}

fn lines_of(run: &RunReport) -> &[String] {
    match &run.outcome {
        RunOutcome::Ran { scores, .. } => scores,
        RunOutcome::NotLoaded { .. } => &[],
    }
}

/// Writes the events of a run for Perfetto.
pub fn write_perfetto(trace: &Trace, nr_cpus: u32, output: Output) -> Result<(), Error> {
    let mut writer = perfetto::Writer::new(output, nr_cpus as usize);
    trace.replay(&mut writer);
    let output = writer.finish().map_err(Error::Trace)?;
    output.finish()
}
