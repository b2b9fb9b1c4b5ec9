// SPDX-License-Identifier: GPL-2.0-or-later
//! One run in the simulated machine: sinks around the engine, and how it ended.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tiltyard_measure::{Recorder, RecorderSpec, Summary, TraceHash};
use tiltyard_model::{EventSink, Machine};
use tiltyard_report::perfetto;
use tiltyard_sim::{Checked, Outcome, Setup};
use tiltyard_workload::Workload;

use crate::objects::Built;
use crate::output::Output;
use crate::printk::Printk;
use crate::sim_error::SimError;
use crate::{Error, Progress};

/// What all runs of a command share.
pub struct Experiment<'a> {
    /// Where it runs.
    pub machine: &'a Machine,
    /// What runs.
    pub workload: &'a Workload,
    /// The latest end, ns from the workload's start; `None`: the workload's own end.
    pub duration_ns: Option<u64>,
    /// `None`: each scheduler's setting.
    pub watchdog: Option<bool>,
    /// Whether the schedulers' probes are recorded.
    pub probes: bool,
    /// Do everything twice and compare.
    pub twice: bool,
    /// Check the scheduler for data races; it was built to report its accesses.
    pub races: bool,
}

impl<'a> Experiment<'a> {
    /// To the workload's own end, with each scheduler's watchdog and probes.
    pub fn new(machine: &'a Machine, workload: &'a Workload) -> Experiment<'a> {
        Experiment {
            machine,
            workload,
            duration_ns: None,
            watchdog: None,
            probes: true,
            twice: false,
            races: false,
        }
    }
}

/// One completed run.
pub struct Run {
    /// The seed of its random draws.
    pub seed: u64,
    /// Its metrics by app.
    pub summary: Summary,
    /// How it ended, and what the engine counted.
    pub outcome: Outcome,
    /// Hash of all events: the same for two runs that are the same.
    pub trace_hash: String,
    /// If it was checked for data races.
    pub checked: Option<Checked>,
}

/// Files that a run writes while it lasts. A run that the scheduler or the workload ends early leaves them, too: they are
/// complete up to that point.
#[derive(Default)]
pub struct Written {
    /// A Perfetto trace.
    pub trace: Option<Output>,
    /// What the scheduler prints with `bpf_printk`.
    pub printk: Option<Output>,
}

/// Runs `built` with `seed`; `listener` receives all events.
pub fn run(
    experiment: &Experiment,
    built: &Built,
    seed: u64,
    written: Written,
    listener: &mut dyn EventSink,
    progress: &dyn Progress,
) -> Result<Run, Error> {
    let nr_cpus = experiment.machine.nr_cpus();
    let mut recorder = Recorder::new(recorded(experiment));
    let mut hash = TraceHash::new();
    let trace = written.trace;
    let mut trace = trace.map(|output| perfetto::Writer::new(output, nr_cpus));
    let origin_ns = origin_ns(experiment.workload);
    let printk = written.printk;
    let mut printk = printk.map(|output| Printk::new(output, origin_ns));
    let files = (trace.as_mut(), printk.as_mut());
    let ran = check(
        experiment,
        built,
        seed,
        &mut ((&mut recorder, &mut hash), (files, listener)),
        progress,
    );
    let panicked = matches!(ran, Err(Error::Sim(SimError::Panicked)));
    let files = match panicked {
        true => Ok(()),
        false => finish(trace, printk),
    };
    // Why the run failed says more than why its files did.
    let (outcome, checked) = ran?;
    files?;
    let trace_hash = hash.finish();
    if experiment.twice {
        let mut again = TraceHash::new();
        simulate(experiment, built, seed, &mut again, progress)?;
        let again = again.finish();
        if again != trace_hash {
            return Err(SimError::Differs(trace_hash, again).into());
        }
    }
    Ok(Run {
        seed,
        summary: summary(recorder, outcome.end_ns, experiment.workload),
        outcome,
        trace_hash,
        checked,
    })
}

/// Completes the files of a run, each even if another one cannot be.
fn finish(trace: Option<perfetto::Writer<Output>>, printk: Option<Printk>) -> Result<(), Error> {
    let trace = trace.map_or(Ok(()), |trace| {
        trace.finish().map_err(Error::Trace)?.finish()
    });
    let printk = printk.map_or(Ok(()), Printk::finish);
    trace.and(printk)
}

/// The metrics of a run of this workload.
pub(crate) fn summary(recorder: Recorder, end_ns: u64, workload: &Workload) -> Summary {
    let mut summary = recorder.finish(end_ns);
    set_classes(&mut summary, workload);
    summary
}

/// The classes of requests of a workload's apps.
pub(crate) fn set_classes(summary: &mut Summary, workload: &Workload) {
    let apps = workload.apps.iter().enumerate();
    let classes = apps.map(|(i, app)| {
        let classes = workload.classes_of(i).into_iter().map(str::to_owned);
        (app.name.clone(), classes.collect())
    });
    summary.set_request_classes(&classes.collect());
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
    progress: &dyn Progress,
) -> Result<Outcome, Error> {
    check(experiment, built, seed, sink, progress).map(|(outcome, _)| outcome)
}

/// The same, with the result of the check for data races.
fn check(
    experiment: &Experiment,
    built: &Built,
    seed: u64,
    sink: &mut dyn EventSink,
    progress: &dyn Progress,
) -> Result<(Outcome, Option<Checked>), Error> {
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
        progress.simulated(now_ns.saturating_sub(told_ns));
        told_ns = now_ns;
    };
    let end = catch_unwind(AssertUnwindSafe(|| {
        if experiment.races {
            let (outcome, checked) = tiltyard_sim::run_and_check(&setup, sink, &mut tell)?;
            return Ok((outcome, Some(checked)));
        }
        tiltyard_sim::run(&setup, sink, &mut tell).map(|outcome| (outcome, None))
    }));
    let ran = end.map_err(|_| SimError::Panicked)?;
    let ran = ran.map_err(|error| SimError::Engine {
        error,
        origin_ns: origin_ns(experiment.workload),
    })?;
    tell(ran.0.end_ns);
    match SimError::of(&ran.0) {
        Some(error) => Err(error.into()),
        None => Ok(ran),
    }
}
