// SPDX-License-Identifier: GPL-2.0-or-later
//! One run in the simulated machine: sinks around the engine, and how it ended.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tiltyard_measure::{Recorder, RecorderSpec, Summary, TraceHash};
use tiltyard_model::{EventSink, Machine};
use tiltyard_report::perfetto;
use tiltyard_sim::{Checked, Outcome, Setup};
use tiltyard_workload::Workload;

use crate::built::Built;
use crate::ended;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::progress::Progress;

/// What all runs of a command share.
pub struct Experiment<'a> {
    pub machine: &'a Machine,
    pub workload: &'a Workload,
    pub duration_ns: Option<u64>,
    /// `None`: each scheduler's setting.
    pub watchdog: Option<bool>,
    pub probes: bool,
    /// Do everything twice and compare.
    pub twice: bool,
    /// Check the scheduler for data races; it was built to report its accesses.
    pub races: bool,
}

/// One completed run.
pub struct Run {
    pub seed: u64,
    pub summary: Summary,
    pub outcome: Outcome,
    pub trace_hash: String,
    /// If it was checked for data races.
    pub checked: Option<Checked>,
}

/// Runs `built` with `seed`; the trace goes to `trace`, and `listener` receives all events.
pub fn run(
    experiment: &Experiment,
    built: &Built,
    seed: u64,
    trace: Option<Output>,
    listener: &mut dyn EventSink,
    progress: &Progress,
) -> Result<Run, Failure> {
    let nr_cpus = experiment.machine.nr_cpus();
    let mut recorder = Recorder::new(recorded(experiment));
    let mut hash = TraceHash::new();
    let mut writer = trace.map(|output| perfetto::Writer::new(output, nr_cpus));
    let (outcome, checked) = check(
        experiment,
        built,
        seed,
        &mut ((&mut recorder, &mut hash), (writer.as_mut(), listener)),
        progress,
    )?;
    if let Some(writer) = writer {
        let output = writer
            .finish()
            .map_err(|e| Failure::new(Code::Other, format!("--trace: cannot write: {e}")))?;
        output.finish()?;
    }
    let trace_hash = hash.finish();
    if experiment.twice {
        let mut again = TraceHash::new();
        simulate(experiment, built, seed, &mut again, progress)?;
        let again = again.finish();
        if again != trace_hash {
            let line = format!(
                "--twice: two runs differ ({trace_hash} and {again}), which is a defect of Tiltyard's"
            );
            return Err(Failure::new(Code::Other, line));
        }
    }
    Ok(Run {
        seed,
        summary: recorder.finish(outcome.end_ns),
        outcome,
        trace_hash,
        checked,
    })
}

/// What a recorder needs to know about a run.
pub fn recorded(experiment: &Experiment) -> RecorderSpec {
    RecorderSpec {
        nr_cpus: experiment.machine.nr_cpus(),
        origin_ns: origin_ns(experiment.workload),
        starvation_ns: RecorderSpec::STARVATION_NS,
    }
}

/// When the workload begins, on the clock of the events: after the longest history of its shells.
pub fn origin_ns(workload: &Workload) -> u64 {
    workload
        .apps
        .iter()
        .map(|app| app.history_ns)
        .max()
        .unwrap_or(0)
}

/// The engine with its errors as failures. A panic ends only this run.
pub fn simulate(
    experiment: &Experiment,
    built: &Built,
    seed: u64,
    sink: &mut dyn EventSink,
    progress: &Progress,
) -> Result<Outcome, Failure> {
    check(experiment, built, seed, sink, progress).map(|(outcome, _)| outcome)
}

/// The same, with the result of the check for data races.
fn check(
    experiment: &Experiment,
    built: &Built,
    seed: u64,
    sink: &mut dyn EventSink,
    progress: &Progress,
) -> Result<(Outcome, Option<Checked>), Failure> {
    let setup = Setup {
        machine: experiment.machine,
        workload: experiment.workload,
        object: &built.object,
        globals: &built.globals,
        environment: &built.choice.environment,
        seed,
        duration_ns: experiment.duration_ns,
        watchdog: experiment.watchdog.unwrap_or(built.choice.watchdog),
        probes: experiment.probes,
    };
    let mut told_ns = 0;
    let mut tell = |now_ns: u64| {
        progress.add(now_ns.saturating_sub(told_ns));
        told_ns = now_ns;
    };
    let end = catch_unwind(AssertUnwindSafe(|| {
        if experiment.races {
            let (outcome, checked) = tiltyard_sim::run_and_check(&setup, sink, &mut tell)?;
            return Ok((outcome, Some(checked)));
        }
        tiltyard_sim::run(&setup, sink, &mut tell).map(|outcome| (outcome, None))
    }));
    let ran = end.map_err(|_| {
        Failure::new(
            Code::Other,
            "the simulator panicked, which is a defect of Tiltyard's",
        )
    })?;
    let ran = ran.map_err(|error| ended::by_error(&error, origin_ns(experiment.workload)))?;
    match ended::judge(&ran.0) {
        Some(failure) => Err(failure),
        None => Ok(ran),
    }
}
