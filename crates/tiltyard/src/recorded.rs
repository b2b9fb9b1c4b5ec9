// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs in a real kernel: the recorded events of each give the same figures as those of the simulated machine.

use std::fs;
use std::path::PathBuf;

use tiltyard_build::{Builder, Source, default_cache_dir};
use tiltyard_kernel::{Report, Trace, trace};
use tiltyard_measure::{
    Better, Comparison, Recorder, RecorderSpec, Row, Summary, Unit, compare, median_interval,
};
use tiltyard_report::perfetto;

use crate::built;
use crate::failure::{Code, Failure};
use crate::output::Output;

/// The tracer's object for a kernel.
pub fn tracer() -> Result<PathBuf, Failure> {
    let no_cache = || Failure::new(Code::Environment, "no folder for the cache: set HOME");
    let folder = default_cache_dir().ok_or_else(no_cache)?;
    let path = folder.join("tracer.bpf.c");
    // Written anew only when it changed, so that runs side by side do not disturb each other's compiler.
    if fs::read_to_string(&path).ok().as_deref() != Some(trace::SOURCE) {
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&path, trace::SOURCE))
            .map_err(|e| Failure::io(Code::Environment, &path, "write", &e))?;
    }
    Builder::default()
        .bpf_object(&Source::new(path))
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

/// The schedulers side by side: how long the command took, then whatever was recorded.
pub fn comparison(report: &Report, runs: &[(String, Vec<Summary>)]) -> Comparison {
    let mut comparison = compare(runs);
    let times = |name: &str| {
        let counts = report.runs.iter().filter(|run| run.round > 0);
        let own = counts.filter(|run| run.scheduler == name);
        let times_ns: Vec<f64> = own.filter_map(|run| Some(run.time_s()? * 1e9)).collect();
        times_ns
    };
    let times: Vec<Vec<f64>> = runs.iter().map(|(name, _)| times(name)).collect();
    let row = Row::new(
        "command".to_owned(),
        "took".to_owned(),
        Unit::TimeNs,
        Better::Lower,
        true,
        &times,
    );
    comparison.rows.insert(0, row);
    comparison.runs = times.iter().map(Vec::len).collect();
    let fewest = comparison.runs.iter().copied().min().unwrap_or(0);
    comparison.coverage_ppm = median_interval(&vec![0.0; fewest]).map_or(0, |i| i.coverage_ppm);
    comparison
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
