// SPDX-License-Identifier: GPL-2.0-or-later
//! Schedulers and seeds: runs side by side in threads, and what each of them writes.

use std::sync::Mutex;

use rayon::prelude::*;
use tiltyard_measure::{Recorder, Summary};
use tiltyard_report::timeline::{Recorded, Timeline, Window};
use tiltyard_tables::RunFiles;

use crate::event_dir::EventDir;
use crate::grouping::By;
use crate::objects::Built;
use crate::origin::{SimOrigin, SimShared};
use crate::simulation::{self, Experiment, Run, Written};
use crate::tables::Tables;
use crate::{Error, Progress, Total};

/// All runs of an experiment: each scheduler with each seed.
pub struct Grid<'a> {
    /// What all runs share.
    pub experiment: &'a Experiment<'a>,
    /// Each is run with all seeds.
    pub schedulers: &'a [Built],
    /// At least one.
    pub seeds: &'a [u64],
    /// How the tasks of [`Cell::view`] are grouped.
    pub by: By,
    /// Runs at a time; 0: one for each CPU of this machine.
    pub threads: usize,
}

/// What runs write besides their results.
pub struct Outputs<'a> {
    /// Files of one run; taken by the first.
    pub written: Mutex<Written>,
    /// Where tables of events and metrics go.
    pub tables: Option<&'a Tables>,
    /// Where events go.
    pub events: Option<&'a EventDir>,
    /// The part of each scheduler's first run that is kept slice by slice.
    pub timeline: Option<Window>,
    /// What event files and tables say of all runs.
    pub shared: SimShared,
    /// Hash of the workload's text.
    pub workload_sha256: String,
    /// Hash of the machine's text.
    pub machine_sha256: String,
    /// The command that repeats the run of this scheduler (the argument of `-s`) with this seed.
    pub command: &'a (dyn Fn(&str, u64) -> String + Sync),
}

/// A run, and what was requested besides its metrics.
pub struct Cell {
    /// The run itself.
    pub run: Run,
    /// Its metrics grouped as requested, if not by app.
    pub view: Option<Summary>,
    /// Its tables, for [`Tables::finish`].
    pub files: Option<RunFiles>,
    /// The requested part of it, slice by slice.
    pub timeline: Option<Recorded>,
}

/// `work` in a pool of `threads`; 0: one for each CPU of this machine.
pub fn in_pool<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|e| Error::Environment(format!("cannot start threads: {e}")))?;
    Ok(pool.install(work))
}

/// Does all runs. Each has a result of its own, in order: schedulers, then seeds.
pub fn run(
    grid: &Grid,
    outputs: &Outputs,
    progress: &dyn Progress,
) -> Result<Vec<Result<Cell, Error>>, Error> {
    let seeds = |scheduler| grid.seeds.iter().map(move |seed| (scheduler, *seed));
    let cells: Vec<(u32, (&Built, u64))> =
        (0..).zip(grid.schedulers.iter().flat_map(seeds)).collect();
    let experiment = grid.experiment;
    let run_ns = experiment.duration_ns.or(experiment.workload.duration_ns);
    let passes = if experiment.twice { 2 } else { 1 };
    let runs = cells.len() as u64 * passes;
    progress.begin(Total::SimulatedNs(run_ns.unwrap_or(0).saturating_mul(runs)));
    let one = |&(number, (scheduler, seed)): &(u32, (&Built, u64))| match progress.stop() {
        None => cell(grid, scheduler, number, seed, outputs, progress),
        Some(reason) => Err(Error::Stopped(reason)),
    };
    let done = in_pool(grid.threads, || cells.par_iter().map(one).collect());
    progress.end();
    done
}

/// One run, and whatever it writes.
fn cell(
    grid: &Grid,
    scheduler: &Built,
    number: u32,
    seed: u64,
    outputs: &Outputs,
    progress: &dyn Progress,
) -> Result<Cell, Error> {
    let experiment = grid.experiment;
    let written = outputs.written.lock();
    let written = written.map_or_else(|_| Written::default(), |mut w| std::mem::take(&mut *w));
    let workload = experiment.workload;
    let origin_ns = simulation::origin_ns(workload);
    let tables = outputs.tables;
    let mut events = tables.map(|tables| tables.listen(number, origin_ns));
    let kept = outputs.events.map(|dir| dir.record(number));
    let mut kept = kept.transpose()?;
    let window = outputs.timeline.filter(|_| seed == grid.seeds[0]);
    let nr_cpus = experiment.machine.nr_cpus();
    let timeline = window.map(|window| Timeline::new(nr_cpus, origin_ns, window));
    let recorder = (grid.by != By::App).then(|| Recorder::new(simulation::recorded(experiment)));
    let mut view = grid.by.regroup(workload, (timeline, recorder));
    let mut listener = ((events.as_mut(), kept.as_mut()), &mut view);
    let run = simulation::run(
        experiment,
        scheduler,
        seed,
        written,
        &mut listener,
        progress,
    )?;
    let (timeline, recorder) = view.sink;
    let timeline = timeline.map(|t| t.finish(run.outcome.end_ns));
    let view = recorder.map(|r| r.finish(run.outcome.end_ns));
    let of = SimOrigin {
        experiment,
        workload_sha256: &outputs.workload_sha256,
        machine_sha256: &outputs.machine_sha256,
        built: scheduler,
        command: &(outputs.command)(&scheduler.choice.argument, seed),
        shared: &outputs.shared,
    };
    let about = of.about(number, &run);
    if let (Some(dir), Some(kept)) = (outputs.events, kept) {
        dir.write(dir.end(kept)?, &about)?;
    }
    let files = match (tables, events) {
        (Some(tables), Some(events)) => {
            let (hash, summary) = (&run.trace_hash, &run.summary);
            Some(tables.simulated(number, events, &about, hash, summary)?)
        }
        _ => None,
    };
    Ok(Cell {
        run,
        view,
        files,
        timeline,
    })
}
