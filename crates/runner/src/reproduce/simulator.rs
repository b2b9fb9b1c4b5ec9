// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs of experiments in the simulated machine.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::Value;
use tiltyard_claims::absent::{self, KINDS};
use tiltyard_claims::{Database, Job, Reads, SqlError};
use tiltyard_measure::{Recorder, RecorderSpec, Summary};
use tiltyard_model::{EventSink, Machine};
use tiltyard_report::timeline::Timeline;
use tiltyard_tables::{EventTables, RunFacts, Table, run_table, summary_tables};
use tiltyard_workload::Workload;

use super::{Arena, FIRST_SEED, Kept, Plan, source_lines};
use crate::Error;
use crate::objects::{self, Built};
use crate::simulation::{self, Experiment};
use crate::stuck::StuckTasks;
use crate::window::{self, Range};
use crate::{Progress, duration, machines, nearest, origin, schedulers, workloads};

/// Slices of a run that figures show: some screens, so that a report of many runs stays small.
const MAX_SLICES: usize = 4000;

/// The simulated machine, with whatever the jobs need, read and built once.
pub struct Simulated {
    /// By the argument of `-s`, and whether they report their accesses.
    schedulers: BTreeMap<(String, bool), Built>,
    /// By machine and its changes.
    machines: BTreeMap<String, Machine>,
    /// By workload and its changes; with the text that was read.
    workloads: BTreeMap<(String, String), (Workload, String)>,
}

impl Simulated {
    /// Reads and builds. What does not exist is an error that names the experiment's file.
    pub fn prepare(plans: &[Plan]) -> Result<Simulated, Error> {
        let mut arena = Simulated::empty();
        for plan in plans {
            for job in &plan.jobs {
                let place = |failure: Error| failure.in_file(&plan.experiment.file);
                arena.take(job).map_err(place)?;
            }
        }
        Ok(arena)
    }

    fn empty() -> Simulated {
        Simulated {
            schedulers: BTreeMap::new(),
            machines: BTreeMap::new(),
            workloads: BTreeMap::new(),
        }
    }

    /// The same for jobs of no experiment.
    pub fn of_jobs<'a>(
        jobs: impl IntoIterator<Item = &'a Job>,
        progress: &dyn Progress,
    ) -> Result<Simulated, Error> {
        let mut arena = Simulated::empty();
        for job in jobs {
            if !arena.schedulers.contains_key(&scheduler_key(job)) {
                progress.step(&format!("building {}", job.label));
            }
            arena.take(job)?;
        }
        Ok(arena)
    }

    /// What `job` runs under, on and with.
    pub fn inputs_of(&self, job: &Job) -> (&Built, &Machine, &Workload) {
        let (built, machine, (workload, _)) = self.inputs(job);
        (built, machine, workload)
    }

    fn take(&mut self, job: &Job) -> Result<(), Error> {
        if let Entry::Vacant(place) = self.machines.entry(machine_key(job)) {
            place.insert(machines::load_changed(&job.machine, &job.machine_changes)?);
        }
        let key = workload_key(job);
        if let Entry::Vacant(place) = self.workloads.entry(key) {
            place.insert(workloads::load_changed(
                &job.workload,
                &job.patch,
                &job.scale,
            )?);
        }
        if let Entry::Vacant(place) = self.schedulers.entry(scheduler_key(job)) {
            let (name, accesses) = place.key();
            let choice = schedulers::choose(name)?;
            let built = objects::native(&choice, *accesses)?;
            place.insert(built);
        }
        let callbacks: Vec<String> = tiltyard_sim::callback_names().map(str::to_owned).collect();
        for name in job.access_callbacks.iter().flatten() {
            if !callbacks.contains(name) {
                let hint = nearest::hint(name, &callbacks);
                let what = format!("access_callbacks: {name}: no such callback; {hint}");
                return Err(Error::input(what));
            }
        }
        if let Some(text) = &job.duration {
            let wrong = |e| Error::input(format!("duration = \"{text}\": {e}"));
            duration::parse_ns(text).map_err(wrong)?;
        }
        window_of(job)?;
        Ok(())
    }

    fn inputs(&self, job: &Job) -> (&Built, &Machine, &(Workload, String)) {
        (
            &self.schedulers[&scheduler_key(job)],
            &self.machines[&machine_key(job)],
            &self.workloads[&workload_key(job)],
        )
    }
}

/// The interval of a run to show slice by slice: for runs that figures show.
fn window_of(job: &Job) -> Result<Option<Range>, Error> {
    let text = job.timeline.as_deref();
    let wrong = |e| {
        let text = text.unwrap_or_default();
        Error::input(format!("timeline = \"{text}\": {e}"))
    };
    let range = text.map_or(Ok(Range::default()), window::parse);
    let range = range.map_err(wrong)?;
    Ok(Some(range).filter(|_| !job.figures.is_empty()))
}

fn scheduler_key(job: &Job) -> (String, bool) {
    (job.scheduler.clone(), job.accesses)
}

fn machine_key(job: &Job) -> String {
    format!("{} {:?}", job.machine, job.machine_changes)
}

fn workload_key(job: &Job) -> (String, String) {
    (
        job.workload.clone(),
        format!("{} {:?}", job.patch, job.scale),
    )
}

impl Arena for Simulated {
    fn source_lines(&self, job: &Job) -> Option<u64> {
        source_lines::of_scheduler(&self.inputs(job).0.choice.source).ok()
    }

    fn identity(&self, job: &Job) -> Vec<String> {
        let (built, machine, (_, text)) = self.inputs(job);
        vec![
            format!("{machine:?}"),
            text.clone(),
            built.object.key.clone(),
            format!(
                "{:?} {:?} {}",
                built.globals, built.choice.environment, built.choice.watchdog
            ),
        ]
    }

    fn run(&self, job: &Job, seed: u64) -> Result<Kept, Error> {
        self.measure(job, seed).map(|(kept, _)| kept)
    }
}

impl Simulated {
    /// Runs `job`: its measures, and the summary of the run.
    pub fn measure(&self, job: &Job, seed: u64) -> Result<(Kept, Summary), Error> {
        let (built, machine, (workload, _)) = self.inputs(job);
        let duration_ns = job
            .duration
            .as_deref()
            .and_then(|d| duration::parse_ns(d).ok());
        let experiment = Experiment {
            machine,
            workload,
            duration_ns,
            watchdog: job.watchdog,
            probes: job.probes,
            twice: false,
            races: false,
        };
        let origin_ns = simulation::origin_ns(workload);
        let mut recorder = recorder(job, machine.nr_cpus(), origin_ns);
        let mut tables: Vec<Table> = Vec::new();
        let reads = reads(job, seed)?;
        let mut events = job.events.then(|| {
            let events = EventTables::new(0, origin_ns, &mut tables);
            let events = events.with_tables(|name| reads.has_table(name));
            let events = match &job.probe_names {
                Some(names) => events.with_probes_named(names.clone()),
                None => events,
            };
            let events = match &job.access_callbacks {
                Some(callbacks) => events.with_accesses_in(callbacks.clone()),
                None => events,
            };
            match &job.access_places {
                Some(places) => events.with_accesses_to(places.clone()),
                None => events,
            }
        });
        let range = window_of(job)?.filter(|_| seed == FIRST_SEED);
        let mut timeline = range.map(|range| {
            let mut window = window::of(range, workload, duration_ns, 1);
            window.max_slices = MAX_SLICES;
            Timeline::new(machine.nr_cpus(), origin_ns, window)
        });
        let mut all;
        // Usually there is only the recorder: no need to search for others at each event.
        let sink: &mut dyn EventSink = match (events.as_mut(), timeline.as_mut()) {
            (None, None) => &mut recorder,
            others => {
                all = (&mut recorder, others);
                &mut all
            }
        };
        let outcome = simulation::simulate(&experiment, built, seed, sink, &())?;
        if let Some(events) = events {
            events.finish(outcome.end_ns);
        }
        let summary = simulation::summary(recorder, outcome.end_ns, workload);
        let mut kept = Kept::default();
        if !job.measures.is_empty() || !job.figures.is_empty() {
            tables.extend(summary_tables(0, &summary));
            kept = ask(job, seed, &tables, &reads)?;
        }
        kept.left_to_chance = outcome.left_to_chance;
        kept.stuck = StuckTasks::of(&outcome);
        kept.timeline = timeline.map(|timeline| timeline.finish(outcome.end_ns));
        Ok((kept, summary))
    }
}

/// The recorder of the metrics that `job` requests.
pub fn recorder(job: &Job, nr_cpus: usize, origin_ns: u64) -> Recorder {
    let mut recorder = Recorder::new(RecorderSpec {
        nr_cpus,
        origin_ns,
        starvation_ns: RecorderSpec::STARVATION_NS,
    });
    if let Some(count) = job.probe_keys {
        recorder = recorder.with_probed_tasks(count);
    }
    if let Some(names) = &job.probe_names {
        recorder = recorder.with_probes_named(names.clone());
    }
    if !job.distributions {
        recorder = recorder.without_distributions();
    }
    recorder
}

/// The error of a measure that is a number even if the run lacks something that it reads.
fn without(
    database: &Database,
    job: &Job,
    name: &str,
    sql: &str,
) -> Result<Option<String>, SqlError> {
    for kind in &KINDS {
        if job.may_lack(name, kind) {
            continue;
        }
        if let Some(number) = database.number_without(kind, sql)? {
            let what = format!("even of a run without {}", kind.name);
            return Ok(Some(absent::fault(number, &what)));
        }
    }
    Ok(None)
}

/// What the queries of a run read, those of the figures included that are of this seed.
pub fn reads(job: &Job, seed: u64) -> Result<Reads, Error> {
    let figures = job.figures.iter().filter(|_| seed == FIRST_SEED);
    let queries = job.measures.values().chain(figures.map(|(_, sql)| sql));
    let queries = queries.map(String::as_str);
    Reads::of(queries).map_err(|e| Error::Measurement(e.to_string()))
}

/// The table `run`, of which measures may know only how the scheduler was set, for rules that a tunable changes: they
/// judge what was done, not by whom.
fn set_beforehand(job: &Job) -> Result<Table, Error> {
    let set = match job.scheduler.as_str() {
        objects::DEFAULT => Vec::new(),
        argument => schedulers::choose(argument)?.tunables,
    };
    let tunables = Value::Object(origin::tunables(set.iter().map(|(n, v)| (n, v))));
    let facts = RunFacts {
        tunables: &tunables.to_string(),
        ..RunFacts::default()
    };
    Ok(run_table(0, &facts))
}

/// The measures and, with the seed that they show, figures of a run. A query that fails breaks what needs it, and nothing else.
pub fn ask(job: &Job, seed: u64, tables: &[Table], reads: &Reads) -> Result<Kept, Error> {
    let fault = |error: SqlError| Error::Measurement(error.to_string());
    let figures = job.figures.iter().filter(|_| seed == FIRST_SEED);
    let own = reads
        .has_table("run")
        .then(|| set_beforehand(job))
        .transpose()?;
    let tables = tables.iter().chain(&own);
    let database = Database::of_run(tables, job.events, reads).map_err(fault)?;
    let mut kept = Kept::default();
    let queries = database.share(&job.measures);
    for (name, sql) in &job.measures {
        let number = database.number(&queries[name]);
        // An error quotes the measure's own text.
        match number.or_else(|_| database.number(sql)) {
            Ok(value) => drop(kept.measures.insert(name.clone(), value)),
            Err(error) => drop(kept.faults.insert(name.clone(), error.to_string())),
        }
        let is_number = matches!(kept.measures.get(name), Some(Some(_)));
        if seed == FIRST_SEED && is_number {
            let fault = without(&database, job, name, sql).map_err(fault)?;
            kept.faults.extend(fault.map(|what| (name.clone(), what)));
        }
    }
    for (index, sql) in figures {
        match database.points(sql) {
            Ok(points) => drop(kept.figures.insert(*index, points)),
            Err(error) => {
                let name = format!("figure {}", index + 1);
                kept.faults.insert(name, error.to_string());
            }
        }
    }
    Ok(kept)
}
