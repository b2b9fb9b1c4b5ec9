// SPDX-License-Identifier: GPL-2.0-or-later
//! Measures a machine: the readings under its own scheduler, and under schedulers with known work.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use tiltyard_build::Builder;
use tiltyard_fidelity::costs::{Bpf, ExtraWork, Weighed};
use tiltyard_kernel::error::KernelError;
use tiltyard_kernel::{
    Progress, Report, RunOutcome, RunReport, SchedulerJob, Tunable, VmJob, here, host, vm,
};

use crate::Error;
use crate::guest::Guest;
use crate::{kernel_results, kernel_runs, objects, program};

/// Emulation may take a minute for what takes seconds elsewhere.
const RUN_LIMIT_S: u64 = 900;
/// The scheduler that does next to nothing.
const BASE: &str = "base";

/// One line for a machine file: what was measured.
pub fn description(guest: &Guest, weighed: &Weighed) -> String {
    let release = &weighed.kernel_release;
    match (guest.vm, guest.icount) {
        (false, _) => format!("the machine at hand under Linux {release}"),
        (true, false) => format!("a virtual machine under Linux {release}"),
        (true, true) => {
            format!("an emulated CPU whose clock counts instructions, under Linux {release}")
        }
    }
}

/// Under which schedulers a machine is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// The kernel's own, and schedulers of BPF if it has any.
    All,
    /// The kernel's own: what its decisions cost is part of its switches and wakeups.
    KernelsOwn,
}

/// Takes the readings. Under emulation that counts instructions they are the same every time.
pub fn weigh(
    guest: &Guest,
    under: Under,
    recorded: bool,
    steps: &dyn crate::Progress,
) -> Result<Weighed, Error> {
    steps.step("building the schedulers to weigh with");
    let (plain, callbacks) = (object(&[])?, object(&["CALLBACKS"])?);
    let mut own = scheduler(objects::DEFAULT, None, "");
    own.arguments = vec!["--readings".to_owned(), "--own".to_owned()];
    if !guest.icount {
        own.arguments.push("--jitter".to_owned());
    }
    let mut base = scheduler(BASE, Some(&plain), "");
    base.arguments = vec!["--readings".to_owned()];
    let mut schedulers = vec![own, base];
    for kind in ExtraWork::ALL {
        let object = match kind {
            ExtraWork::Callbacks => &callbacks,
            _ => &plain,
        };
        let mut more = scheduler(kind.name(), Some(object), kind.tunable());
        more.arguments = vec!["--round".to_owned()];
        schedulers.push(more);
    }
    let program = program::path()?;
    let command = [&*program.display().to_string(), "calibrate"];
    let mut job = guest.job(command.map(str::to_owned).to_vec())?;
    job.schedulers = schedulers;
    job.run_limit_s = RUN_LIMIT_S;
    if recorded {
        job.tracer = Some(kernel_runs::tracer()?);
    }
    let mut outputs = OutputByScheduler {
        steps,
        output: BTreeMap::new(),
    };
    // Schedulers with known work cannot run in a kernel without sched_ext.
    let cannot = !guest.vm && !host::check(&guest.kernel).here.is_empty();
    if cannot || under == Under::KernelsOwn {
        job.schedulers.truncate(1);
    }
    let mut done = run(&job, guest.vm, &mut outputs);
    if let Err(KernelError::NoSchedExt { .. }) = done {
        job.schedulers.truncate(1);
        done = run(&job, guest.vm, &mut outputs);
    }
    let report = kernel_results::whole(done?)?;
    let own = report
        .runs
        .first()
        .ok_or_else(|| Error::Measurement("no readings came back".to_owned()))?;
    let own = parse(own, &outputs.output)?;
    let of = |name: &str| report.runs.iter().find(|run| run.scheduler == name);
    let mut bpf = None;
    if let Some(base) = of(BASE) {
        let mut rounds_ns = BTreeMap::new();
        for kind in ExtraWork::ALL {
            let run = of(kind.name()).ok_or_else(|| {
                Error::Measurement(format!("no reading of {} came back", kind.name()))
            })?;
            rounds_ns.insert(kind, parse(run, &outputs.output)?);
        }
        let base = parse(base, &outputs.output)?;
        bpf = Some(Bpf { base, rounds_ns });
    }
    Ok(Weighed {
        kernel_release: report.kernel_release.clone(),
        recorded,
        exact: guest.icount,
        own,
        bpf,
    })
}

fn run(job: &VmJob, is_vm: bool, outputs: &mut OutputByScheduler) -> Result<Report, KernelError> {
    match is_vm {
        true => vm::run(job, outputs, &mut |_| {}),
        false => here::run(job, kernel_runs::spread, outputs, &mut |_| {}),
    }
}

/// `tunable`: `passes=100`, or nothing.
fn scheduler(name: &str, object: Option<&PathBuf>, tunable: &str) -> SchedulerJob {
    let tunable = tunable.split_once('=').map(|(name, value)| Tunable {
        name: name.to_owned(),
        value: value.to_owned(),
    });
    SchedulerJob {
        object: object.cloned(),
        tunables: tunable.into_iter().collect(),
        ..SchedulerJob::own(name)
    }
}

fn object(defines: &[&str]) -> Result<PathBuf, Error> {
    let mut source = objects::shipped("costs.bpf.c", tiltyard_kernel::COSTS_SOURCE)?;
    source.defines = defines.iter().map(|d| (*d).to_owned()).collect();
    Ok(Builder::default().bpf_object(&source)?.path)
}

/// What the command printed under this scheduler.
fn parse<T: DeserializeOwned>(
    run: &RunReport,
    output: &BTreeMap<String, String>,
) -> Result<T, Error> {
    let name = &run.scheduler;
    // "default (EEVDF)" printed as "default".
    let printed = name.split(' ').next().and_then(|name| output.get(name));
    let text = printed.map_or("", |text| text.trim());
    let error = |what: String| Error::Environment(format!("under {name}: {what}"));
    match &run.outcome {
        RunOutcome::NotLoaded { reason, .. } => Err(error(reason.clone())),
        _ if !run.is_success() => Err(error(format!("the measurement failed: {text}"))),
        _ => serde_json::from_str(text).map_err(|e| error(format!("no readings: {e}"))),
    }
}

/// Keeps what the command prints, by scheduler.
struct OutputByScheduler<'a> {
    steps: &'a dyn crate::Progress,
    output: BTreeMap<String, String>,
}

impl Progress for OutputByScheduler<'_> {
    fn step(&mut self, what: &str) {
        self.steps.step(what);
    }

    fn output(&mut self, scheduler: &str, text: &str) {
        self.output
            .entry(scheduler.to_owned())
            .or_default()
            .push_str(text);
    }
}
