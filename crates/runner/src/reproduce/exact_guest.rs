// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs of experiments in a real kernel: with real threads, in a guest whose clock counts instructions. Several CPUs take
//! turns: what is counted there means something, what takes time does not.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tiltyard_build::default_cache_dir;
use tiltyard_claims::Job;
use tiltyard_exec::ExecOutcome;
use tiltyard_kernel::{Progress, Report, RunOutcome, RunReport, Trace, VmJob, host, packages, vm};
use tiltyard_measure::Summary;
use tiltyard_tables::{EventTables, Table, summary_tables};

use super::simulator::{ask, reads, recorder};
use super::{Arena, Kept, Plan, source_lines};
use crate::Error;
use crate::error::Role;
use crate::guest::Guest;
use crate::kernel_fault::{self, Culprit, KernelFault};
use crate::objects::DEFAULT;
use crate::{kernel_runs, objects, schedulers, tables, threads, workloads};

/// Longer than any run that a user would wait for, s. A workload is limited by its own duration.
const RUN_LIMIT_S: u64 = 4 * 3600;

/// A kernel in a virtual machine, and all jobs, packed once.
pub struct ExactGuest {
    release: Option<String>,
    jobs: BTreeMap<String, Prepared>,
}

struct Prepared {
    vm: VmJob,
    /// Hash of all that goes into the guest.
    hash: String,
    lines: Option<u64>,
    nr_cpus: usize,
}

impl ExactGuest {
    /// Reads, builds and packs. What this machine lacks is reported before anything is built.
    pub fn prepare(
        plans: &[Plan],
        kernel: &str,
        progress: &dyn crate::Progress,
    ) -> Result<ExactGuest, Error> {
        let mut arena = ExactGuest {
            release: None,
            jobs: BTreeMap::new(),
        };
        if plans.iter().all(|plan| plan.jobs.is_empty()) {
            return Ok(arena);
        }
        let mut steps = Steps(progress);
        host::require_guest(VmJob::new(Vec::new()).memory_mib)?;
        let image = packages::find_or_fetch(kernel, &mut steps)?;
        arena.release = Some(image.release);
        progress.step("building the tracer");
        let tracer = kernel_runs::tracer()?;
        for plan in plans {
            for job in &plan.jobs {
                let place = |failure: Error| failure.in_file(&plan.experiment.file);
                progress.step(&format!("packing {} under {}", job.workload, job.scheduler));
                arena
                    .take(job, kernel, &tracer, &mut steps)
                    .map_err(place)?;
            }
        }
        Ok(arena)
    }

    fn take(
        &mut self,
        job: &Job,
        kernel: &str,
        tracer: &Path,
        steps: &mut Steps,
    ) -> Result<(), Error> {
        if self.jobs.contains_key(&key(job)) {
            return Ok(());
        }
        let (_, text) = workloads::load_changed(&job.workload, &job.patch, &job.scale)?;
        let mut command = threads::command(&workload_file(&text)?)?;
        if let Some(duration) = &job.duration {
            command.extend(["--duration".to_owned(), duration.clone()]);
        }
        let guest = Guest::of(kernel, &job.machine, true);
        let mut vm = guest.job(command)?;
        let nr_cpus = vm.machine.nr_cpus();
        if nr_cpus > 1 {
            // Work is measured by the task's own clock, which stops while another CPU has its turn.
            vm.command.push("--exact".to_owned());
        }
        vm.schedulers.push(objects::job(&job.scheduler)?);
        vm.variables.clear(); // the same for everybody
        vm.tracer = Some(tracer.to_owned());
        vm.probes = job.probes;
        vm.run_limit_s = RUN_LIMIT_S;
        let (_, hash) = vm::identify(&vm, steps)?;
        let lines = match job.scheduler.as_str() {
            DEFAULT => None,
            named => source_lines::of_scheduler(&schedulers::choose(named)?.source).ok(),
        };
        let prepared = Prepared {
            vm,
            hash,
            lines,
            nr_cpus,
        };
        self.jobs.insert(key(job), prepared);
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

/// A file with this text, in the cache: the guest finds it under the same name, which is the same every time.
fn workload_file(text: &str) -> Result<PathBuf, Error> {
    let no_cache = || Error::Environment("no folder for the cache: set HOME".to_owned());
    let folder = default_cache_dir().ok_or_else(no_cache)?.join("workloads");
    let name = tables::sha256(text);
    let path = folder.join(format!("{}.json", &name[..32]));
    if fs::read_to_string(&path).ok().as_deref() != Some(text) {
        let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, text));
        written.map_err(|e| Error::file(Role::Own, &path, "write", e))?;
    }
    Ok(path)
}

impl Arena for ExactGuest {
    fn source_lines(&self, job: &Job) -> Option<u64> {
        self.jobs[&key(job)].lines
    }

    fn identity(&self, job: &Job) -> Vec<String> {
        vec!["kernel".to_owned(), self.jobs[&key(job)].hash.clone()]
    }

    fn run(&self, job: &Job, seed: u64) -> Result<Kept, Error> {
        let prepared = &self.jobs[&key(job)];
        let mut vm = prepared.vm.clone();
        vm.command.extend(["--seed".to_owned(), seed.to_string()]);
        let mut printed = Output(String::new());
        let mut trace = None;
        let report = vm::run(&vm, &mut printed, &mut |run| trace = Some(run))?;
        let [run] = report.runs.as_slice() else {
            let why = report.cut_short.unwrap_or_default();
            return Err(Error::Environment(format!("cut short: {why}")));
        };
        if let Some(fault) = kernel_fault::fault(run) {
            let complaint = printed.complaint(fault.culprit);
            return Err(Error::KernelRun(complaint.unwrap_or(fault)));
        }
        let other = |what: String| Error::Measurement(what);
        let told = threads::Printed::parse(&printed.0)?;
        let trace = trace.ok_or_else(|| other("no events came back".to_owned()))?;
        if trace.lost > 0 {
            return Err(other(format!("{} events were lost", trace.lost)));
        }
        let reads = reads(job, seed)?;
        let mut kept = ask(
            job,
            seed,
            &tables(job, prepared.nr_cpus, trace, &told.outcome),
            &reads,
        )?;
        kept.left_to_chance = true;
        kept.deviations = deviations(job, run, told.notes);
        kept.deviations
            .extend(taking_turns(prepared.nr_cpus, &report));
        Ok(kept)
    }
}

/// The tables of a run: requests and marks are counted by the workload's threads, everything else comes from the
/// trace, cut to the time from the workload's start to its end.
fn tables(job: &Job, nr_cpus: usize, mut trace: Trace, outcome: &ExecOutcome) -> Vec<Table> {
    threads::cut(&mut trace, outcome);
    let mut recorder = recorder(job, nr_cpus, trace.origin_ns);
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

/// What holds for every run on several CPUs.
fn taking_turns(nr_cpus: usize, report: &Report) -> Option<String> {
    let limits = report.raised_limits.as_deref()?;
    Some(format!(
        "{nr_cpus} emulated CPUs take turns, each busy one at a fraction of its speed: decisions and counts are judged, times and \
         throughput are not; stall limits raised: {limits}"
    ))
}

/// Reports only the steps.
struct Steps<'a>(&'a dyn crate::Progress);

impl Progress for Steps<'_> {
    fn step(&mut self, what: &str) {
        self.0.step(what);
    }

    fn output(&mut self, _: &str, _: &str) {}
}

/// Keeps what the workload prints.
struct Output(String);

impl Output {
    /// The line in which `tiltyard exec` reports why it failed.
    fn complaint(&self, culprit: Culprit) -> Option<KernelFault> {
        let mut lines = self
            .0
            .lines()
            .filter_map(|line| line.strip_prefix("tiltyard: "));
        let line = lines.rfind(|line| !line.starts_with("note: "))?;
        let line = line.to_owned();
        Some(KernelFault { culprit, line })
    }
}

impl Progress for Output {
    fn step(&mut self, _: &str) {}

    fn output(&mut self, _: &str, text: &str) {
        self.0.push_str(text);
    }
}
