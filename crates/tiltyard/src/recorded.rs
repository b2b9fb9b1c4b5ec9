// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs in a real kernel: the recorded events of each give the same figures as those of the simulated machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tiltyard_build::Builder;
use tiltyard_kernel::{Report, RunOutcome, RunReport, Trace, scores, trace};
use tiltyard_measure::{
    Better, Comparison, Recorder, RecorderSpec, Row, Score, Summary, Unit, compare,
    median_interval, score,
};
use tiltyard_report::perfetto;

use crate::built;
use crate::failure::{Code, Failure};
use crate::output::Output;

/// The tracer's object for a kernel.
pub fn tracer() -> Result<PathBuf, Failure> {
    let source = built::shipped("tracer.bpf.c", trace::SOURCE)?;
    Builder::default()
        .bpf_object(&source)
        .map_err(built::failure)
}

/// How well times are known: from six on, where the interval covers 95 %.
pub fn spread(times_s: &[f64]) -> Option<f64> {
    let interval = median_interval(times_s).filter(|i| i.coverage_ppm >= 950_000)?;
    let side = (interval.high - interval.median).max(interval.median - interval.low);
    Some(side / interval.median)
}

/// A run whose events were recorded.
pub struct Recorded {
    /// Its index among the report's runs.
    pub run: usize,
    pub lost: u64,
    pub summary: Summary,
}

/// Figures of a trace.
pub fn summarise(trace: &Trace, nr_cpus: u32) -> Recorded {
    let mut recorder = Recorder::new(RecorderSpec {
        nr_cpus: nr_cpus as usize,
        origin_ns: trace.origin_ns,
        starvation_ns: RecorderSpec::STARVATION_NS,
    });
    trace.replay(&mut recorder);
    Recorded {
        run: trace.run,
        lost: trace.lost,
        summary: recorder.finish(trace.end_ns),
    }
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
        if let Some(recorded) = summary.filter(|_| run.round > 0 && run.time_s().is_some()) {
            all[at].1.push(recorded.summary.clone());
        }
    }
    all
}

/// The schedulers side by side: how long the command took, what it told of itself, then whatever was recorded.
pub fn comparison(report: &Report, runs: &[(String, Vec<Summary>)]) -> Comparison {
    let mut comparison = compare(runs);
    busiest_first(&mut comparison.rows);
    let counting: Vec<Vec<Vec<Score>>> = runs
        .iter()
        .map(|(name, _)| own_figures(report, name))
        .collect();
    let mut keys: Vec<&Score> = Vec::new();
    for figure in counting.iter().flatten().flatten() {
        if !keys.iter().any(|key| key.metric == figure.metric) {
            keys.push(figure);
        }
    }
    let rows = keys.into_iter().map(|key| {
        let value = |run: &Vec<Score>| Some(run.iter().find(|s| s.metric == key.metric)?.value);
        let values: Vec<Vec<f64>> = counting
            .iter()
            .map(|runs| runs.iter().filter_map(value).collect())
            .collect();
        let (group, metric) = ("command".to_owned(), key.metric.clone());
        Row::new(group, metric, key.unit, key.better, true, &values)
    });
    comparison.rows.splice(0..0, rows);
    comparison.runs = counting.iter().map(Vec::len).collect();
    let fewest = comparison.runs.iter().copied().min().unwrap_or(0);
    comparison.coverage_ppm = median_interval(&vec![0.0; fewest]).map_or(0, |i| i.coverage_ppm);
    comparison
}

/// A real kernel has apps that nobody asked for: those with most CPU time come first, the machine last.
fn busiest_first(rows: &mut [Row]) {
    let mut runtimes: BTreeMap<String, f64> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.metric == "runtime") {
        let medians = row.cells.iter().flatten().map(|cell| cell.median);
        runtimes.insert(row.group.clone(), medians.fold(0.0, f64::max));
    }
    let runtime = |row: &Row| runtimes.get(&row.group).copied().unwrap_or(-1.0);
    rows.sort_by(|a, b| runtime(b).total_cmp(&runtime(a)));
}

/// The command's own figures, run by run of those that count: how long it took, and what it told.
fn own_figures(report: &Report, scheduler: &str) -> Vec<Vec<Score>> {
    let counting = report
        .runs
        .iter()
        .filter(|run| run.scheduler == scheduler && run.round > 0);
    let figures = counting.filter_map(|run| {
        let took = Score {
            metric: "took".to_owned(),
            unit: Unit::TimeNs,
            better: Better::Lower,
            value: run.time_s()? * 1e9,
        };
        let told = lines_of(run).iter().filter_map(|line| score(line));
        Some(std::iter::once(took).chain(told).collect())
    });
    figures.collect()
}

/// The first score line that cannot be understood.
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
pub fn write_perfetto(trace: &Trace, nr_cpus: u32, output: Output) -> Result<(), Failure> {
    let mut writer = perfetto::Writer::new(output, nr_cpus as usize);
    trace.replay(&mut writer);
    let output = writer
        .finish()
        .map_err(|e| Failure::new(Code::Other, format!("--trace: cannot write: {e}")))?;
    output.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_app_comes_first_and_the_machine_last() {
        let row = |group: &str, metric: &str, value: f64| {
            let (group, metric) = (group.to_owned(), metric.to_owned());
            Row::new(
                group,
                metric,
                Unit::TimeNs,
                Better::Neither,
                true,
                &[vec![value], vec![1.0]],
            )
        };
        let mut rows = [
            row("kernel", "longest wait", 70.0),
            row("kernel", "runtime", 2.0),
            row("server", "longest wait", 5.0),
            row("server", "runtime", 30.0),
            row("machine", "busy", 99.0),
        ];
        busiest_first(&mut rows);
        let order: Vec<&str> = rows.iter().map(|row| row.group.as_str()).collect();
        assert_eq!(order, ["server", "server", "kernel", "kernel", "machine"]);
        assert_eq!(
            rows[0].metric, "longest wait",
            "rows of a group keep their order"
        );
    }
}
