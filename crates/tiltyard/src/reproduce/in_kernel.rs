// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs of experiments in a real kernel: with real threads, in a guest with one CPU whose clock counts instructions.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tiltyard_build::default_cache_dir;
use tiltyard_claims::Job;
use tiltyard_exec::Outcome;
use tiltyard_kernel::{
    KernelError, Progress, RunOutcome, RunReport, Trace, VmJob, host, packages, vm,
};
use tiltyard_measure::Summary;
use tiltyard_tables::{EventTables, Table, summary_tables};

use super::arena::{ask, instead_of, reads, recorder};
use super::{Arena, Kept, Plan, lines};
use crate::failure::{Code, Failure};
use crate::guest::Guest;
use crate::guest_run::{self, Printed};
use crate::progress::Steps;
use crate::{built, recorded, schedulers, tabled, threads, workloads};

/// Longer than any run that a user would wait for, s. A workload is limited by its own duration.
const RUN_LIMIT_S: u64 = 4 * 3600;
/// Guests boot slowly on a busy machine, s.
const BOOT_LIMIT_S: u64 = 300;

/// A kernel in a virtual machine, and all jobs, packed once.
pub struct InKernel {
    release: Option<String>,
    jobs: BTreeMap<String, Prepared>,
    /// A scheduler's name and its replacement.
    instead: Vec<(String, String)>,
}

struct Prepared {
    vm: VmJob,
    /// Hash of all that goes into the guest.
    hash: String,
    lines: Option<u64>,
}

impl InKernel {
    /// Reads, builds and packs. What this machine lacks is reported before anything is built.
    pub fn prepare(
        plans: &[Plan],
        kernel: &str,
        instead: Vec<(String, String)>,
    ) -> Result<InKernel, Failure> {
        let mut arena = InKernel {
            release: None,
            jobs: BTreeMap::new(),
            instead,
        };
        if plans.iter().all(|plan| plan.jobs.is_empty()) {
            return Ok(arena);
        }
        let steps = Steps::new();
        let mut told = Told(&steps);
        host::require_guest(VmJob::new(Vec::new()).memory_mib).map_err(failure)?;
        let image = packages::find_or_fetch(kernel, &mut told).map_err(failure)?;
        arena.release = Some(image.release);
        steps.step("building the tracer");
        let tracer = recorded::tracer()?;
        for plan in plans {
            for job in &plan.jobs {
                let place = |failure: Failure| failure.within(&plan.experiment.file);
                steps.step(&format!("packing {} under {}", job.workload, job.scheduler));
                arena.take(job, kernel, &tracer, &mut told).map_err(place)?;
            }
        }
        Ok(arena)
    }

    fn take(
        &mut self,
        job: &Job,
        kernel: &str,
        tracer: &Path,
        told: &mut Told,
    ) -> Result<(), Failure> {
        if self.jobs.contains_key(&key(job)) {
            return Ok(());
        }
        let scheduler = instead_of(&self.instead, &job.scheduler);
        let (_, text) = workloads::load_changed(&job.workload, &job.patch, &job.scale)?;
        let mut command = guest_run::command(&workload_file(&text)?)?;
        if let Some(duration) = &job.duration {
            command.extend(["--duration".to_owned(), duration.clone()]);
        }
        let guest = Guest::of(kernel, &job.machine, true);
        let mut vm = guest.job(command)?;
        vm.schedulers.push(built::job(&scheduler)?);
        vm.variables.clear(); // the same for everybody
        vm.tracer = Some(tracer.to_owned());
        vm.probes = job.probes;
        (vm.run_limit_s, vm.boot_limit_s) = (RUN_LIMIT_S, BOOT_LIMIT_S);
        let (_, hash) = vm::identify(&vm, told).map_err(failure)?;
        let source = schedulers::choose(&scheduler)?.source;
        let lines = lines::of_scheduler(&source).ok();
        self.jobs.insert(key(job), Prepared { vm, hash, lines });
        Ok(())
    }

    /// The output of `uname -r` there; none if no claim needs it.
    pub fn release(&self) -> Option<&str> {
        self.release.as_deref()
    }
}

/// What distinguishes the guests of two jobs.
fn key(job: &Job) -> String {
    let (what, changes) = ((&job.machine, &job.workload), (&job.patch, &job.scale));
    let told = (&job.duration, job.probes);
    format!("{what:?} {changes:?} {} {told:?}", job.scheduler)
}

fn failure(error: KernelError) -> Failure {
    Failure::new(Code::Environment, error.to_string())
}

/// A file with this text, in the cache: the guest finds it under the same name, which is the same every time.
fn workload_file(text: &str) -> Result<PathBuf, Failure> {
    let no_cache = || Failure::new(Code::Environment, "no folder for the cache: set HOME");
    let folder = default_cache_dir().ok_or_else(no_cache)?.join("workloads");
    let name = tabled::sha256(text);
    let path = folder.join(format!("{}.json", &name[..32]));
    if fs::read_to_string(&path).ok().as_deref() != Some(text) {
        let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, text));
        written.map_err(|e| Failure::io(Code::Environment, &path, "write", &e))?;
    }
    Ok(path)
}

impl Arena for InKernel {
    fn source_lines(&self, job: &Job) -> Option<u64> {
        self.jobs[&key(job)].lines
    }

    fn identity(&self, job: &Job) -> Vec<String> {
        vec!["kernel".to_owned(), self.jobs[&key(job)].hash.clone()]
    }

    fn run(&self, job: &Job, seed: u64) -> Result<Kept, Failure> {
        let mut vm = self.jobs[&key(job)].vm.clone();
        vm.command.extend(["--seed".to_owned(), seed.to_string()]);
        let mut printed = Output(String::new());
        let mut trace = None;
        let report = vm::run(&vm, &mut printed, &mut |run| trace = Some(run)).map_err(failure)?;
        let [run] = report.runs.as_slice() else {
            let why = report.cut_short.unwrap_or_default();
            return Err(Failure::new(Code::Environment, format!("cut short: {why}")));
        };
        if let Some(fault) = guest_run::fault(run) {
            return Err(printed.complaint(fault.code).unwrap_or(fault));
        }
        let other = |what: String| Failure::new(Code::Other, what);
        let told = Printed::parse(&printed.0).map_err(other)?;
        let trace = trace.ok_or_else(|| other("no events came back".to_owned()))?;
        if trace.lost > 0 {
            return Err(other(format!("{} events were lost", trace.lost)));
        }
        let reads = reads(job, seed)?;
        let mut kept = ask(job, seed, &tables(job, trace, &told.outcome), &reads)?;
        kept.left_to_chance = true;
        kept.deviations = deviations(job, run, told.notes);
        Ok(kept)
    }
}

/// The tables of a run: requests and marks are counted by the workload's threads, everything else comes from the
/// trace, cut to the time from the workload's start to its end.
fn tables(job: &Job, mut trace: Trace, outcome: &Outcome) -> Vec<Table> {
    threads::cut(&mut trace, outcome);
    let mut recorder = recorder(job, 1, trace.origin_ns);
    let mut tables = Vec::new();
    let mut events = job
        .events
        .then(|| EventTables::new(0, trace.origin_ns, &mut tables));
    trace.replay(&mut (&mut recorder, events.as_mut()));
    if let Some(events) = events {
        events.finish(trace.end_ns);
    }
    let mut summary: Summary = recorder.finish(trace.end_ns);
    threads::fill(&mut summary, outcome);
    tables.extend(summary_tables(0, &summary));
    tables
}

/// How the run deviated from the experiment: what the scheduler did differently, what real threads could not do.
fn deviations(job: &Job, run: &RunReport, notes: Vec<String>) -> Vec<String> {
    let counted = match &run.outcome {
        RunOutcome::Ran { deviations, .. } => deviations.as_slice(),
        RunOutcome::NotLoaded { .. } => &[],
    };
    let counted = counted.iter().filter(|deviation| deviation.count > 0);
    let counted = counted.map(|d| format!("{}: {} ({})", d.counter.what, d.count, d.counter.name));
    let all = counted.chain(notes);
    all.map(|what| format!("{}{}: {what}", job.label, job.suffix))
        .collect()
}

/// Reports only the steps.
struct Told<'a>(&'a Steps);

impl Progress for Told<'_> {
    fn step(&mut self, what: &str) {
        self.0.step(what);
    }

    fn output(&mut self, _: &str, _: &str) {}
}

/// Keeps what the workload prints.
struct Output(String);

impl Output {
    /// The line in which `tiltyard exec` reports why it failed.
    fn complaint(&self, code: Code) -> Option<Failure> {
        let mut lines = self
            .0
            .lines()
            .filter_map(|line| line.strip_prefix("tiltyard: "));
        let line = lines.rfind(|line| !line.starts_with("note: "))?;
        Some(Failure::new(code, line))
    }
}

impl Progress for Output {
    fn step(&mut self, _: &str) {}

    fn output(&mut self, _: &str, text: &str) {
        self.0.push_str(text);
    }
}
