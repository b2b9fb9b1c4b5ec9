// SPDX-License-Identifier: GPL-2.0-or-later
//! The same workloads under the same schedulers in a real kernel and in the simulated machine.

mod files;

pub use files::{SettingResults, Shipped};

use std::path::{Path, PathBuf};

use tiltyard_exec::ExecOutcome;
use tiltyard_fidelity::judge::{Least, Limits, Measured, Requests, Row, add_starts, judge};
use tiltyard_fidelity::set::{Comparison, Results, Set, Setting};
use tiltyard_kernel::rounds::Rounds;
use tiltyard_kernel::{Accel, Progress, Report, Trace, vm};
use tiltyard_measure::Summary;
use tiltyard_model::Machine;
use tiltyard_model::machine::Jitter;
use tiltyard_workload::Workload;

use crate::Error;
use crate::calibration::Under;
use crate::guest::Guest;
use crate::kernel_fault;
use crate::kernel_results;
use crate::simulation::{self, Experiment, Written};
use crate::{calibration, kernel_runs, machines, objects, schedulers, threads, workloads};

/// Seeds of the simulated runs; their median counts, as for the kernel's runs.
const SEEDS: u64 = 5;

/// Simulations whose programs start at other times, each up to as much later as on machines that are not exact.
const STARTS: u64 = 10;

/// Measures the setting's machine, and runs all workloads in both. Schedulers that do not exist or build are an error before that.
pub fn measure(
    set: &Set,
    setting: &Setting,
    files: &[PathBuf],
    steps: &impl crate::Progress,
) -> Result<SettingResults, Error> {
    for (simulated, real) in &setting.pairs {
        objects::native(&schedulers::choose(simulated)?, false)?;
        objects::job(real)?;
    }
    let guest = Guest::of(&setting.kernel, &setting.machine, setting.exact);
    steps.step(&format!("{}: measuring the machine", setting.name));
    let weighed = calibration::weigh(&guest, measured_under(setting), true, steps)?;
    let text = weighed.machine_file(&calibration::description(&guest, &weighed));
    let machine = Machine::parse_toml(&text, &setting.name)
        .map_err(|e| Error::Measurement(format!("the measured machine: {e}\n{text}")))?;
    let results = run(set, setting, &guest, &machine, files, steps)?;
    Ok(SettingResults {
        results,
        machine,
        text,
    })
}

/// Where simulated schedulers are held against the kernel's own alone, they must not pay for callbacks, which that does not have.
fn measured_under(setting: &Setting) -> Under {
    match setting
        .pairs
        .iter()
        .all(|(_, real)| real == objects::DEFAULT)
    {
        true => Under::KernelsOwn,
        false => Under::All,
    }
}

/// All workloads in one setting.
fn run(
    set: &Set,
    setting: &Setting,
    guest: &Guest,
    machine: &Machine,
    files: &[PathBuf],
    steps: &dyn crate::Progress,
) -> Result<Results, Error> {
    let mut results = Results {
        setting: setting.clone(),
        kernel_release: String::new(),
        accel: String::new(),
        load_percent: 0,
        tolerance: set.tolerance,
        least: set.least,
        comparisons: Vec::new(),
    };
    for file in files {
        let workload = workloads::load(&file.display().to_string())?;
        let real = in_kernel(set, setting, guest, file, &workload, steps)?;
        if results.kernel_release.is_empty() {
            results
                .kernel_release
                .clone_from(&real.report.kernel_release);
            results.accel = real.report.accel.map_or("", Accel::name).to_owned();
            results.load_percent = real.report.load_percent;
        }
        for (index, (simulated, name)) in setting.pairs.iter().enumerate() {
            steps.step(&format!(
                "{}: {} under {simulated}, simulated",
                setting.name, workload.name
            ));
            let simulations = in_simulation(set.least, machine, simulated, &workload, steps)?;
            let (label, runs, lost_events) = &real.schedulers[index];
            results.comparisons.push(Comparison {
                workload: workload.name.clone(),
                simulated: simulated.clone(),
                real: name.clone(),
                label: label.clone(),
                lost_events: *lost_events,
                rows: simulations.judge(&Measured::median(runs), &results.limits()),
            });
        }
    }
    Ok(results)
}

/// The same results with the simulated machine's runs made again: what today's engine says to what the kernel did then, judged
/// by the set's rules of today. `files` are the workloads by name; those that it does not know stay as they are. Figures that the
/// results do not have from the kernel are left out.
pub fn again(
    set: &Set,
    kept: &SettingResults,
    files: &dyn Fn(&str) -> Option<PathBuf>,
    steps: &dyn crate::Progress,
) -> Result<SettingResults, Error> {
    let mut again = kept.results.clone();
    (again.tolerance, again.least) = (set.tolerance, set.least);
    let setting = set
        .settings
        .iter()
        .find(|one| one.name == again.setting.name);
    if let Some(setting) = setting {
        again.setting.least_latency_us = setting.least_latency_us;
    }
    let limits = again.limits();
    for comparison in &mut again.comparisons {
        let Comparison {
            workload,
            simulated,
            ..
        } = &*comparison;
        let Some(file) = files(workload) else {
            continue;
        };
        let setting = &again.setting.name;
        steps.step(&format!(
            "{setting}: {workload} under {simulated}, simulated"
        ));
        let parsed = workloads::load(&file.display().to_string())?;
        let simulations = in_simulation(set.least, &kept.machine, simulated, &parsed, steps)?;
        comparison.rows = simulations.judge(&comparison.in_kernel(), &limits);
    }
    Ok(SettingResults {
        results: again,
        machine: kept.machine.clone(),
        text: kept.text.clone(),
    })
}

fn app_names(workload: &Workload) -> Vec<String> {
    workload.apps.iter().map(|app| app.name.clone()).collect()
}

/// A workload in the simulated machine.
struct Simulations {
    median: Measured,
    other_starts: Vec<Measured>,
}

impl Simulations {
    fn judge(&self, real: &Measured, limits: &Limits) -> Vec<Row> {
        let mut rows = judge(&self.median, real, limits);
        add_starts(&mut rows, &self.other_starts);
        rows
    }
}

fn in_simulation(
    least: Least,
    machine: &Machine,
    scheduler: &str,
    workload: &Workload,
    steps: &dyn crate::Progress,
) -> Result<Simulations, Error> {
    let built = objects::native(&schedulers::choose(scheduler)?, false)?;
    let measured = |machine: &Machine, seed| -> Result<Measured, Error> {
        let experiment = Experiment {
            machine,
            workload,
            duration_ns: None,
            watchdog: None,
            probes: false,
            twice: false,
            races: false,
        };
        let run = simulation::run(
            &experiment,
            &built,
            seed,
            Written::default(),
            &mut (),
            steps,
        )?;
        let requests: Vec<Requests> = run.summary.requests.iter().filter_map(requests).collect();
        let (summary, duration_ns) = (&run.summary, run.summary.duration_ns);
        let apps = app_names(workload);
        Ok(Measured::new(summary, &apps, duration_ns, &requests, least))
    };
    // An exact guest is one run; so is the machine that was measured in it, unless kernel threads leave something to chance.
    let seeds = match machine.jitter == Jitter::NONE && machine.noise.is_empty() {
        true => 1,
        false => SEEDS,
    };
    let runs = |machine: &Machine, seeds| -> Result<Vec<Measured>, Error> {
        (1..=seeds).map(|seed| measured(machine, seed)).collect()
    };
    let mut started = machine.clone();
    started.jitter.start_span_ns = Jitter::REFERENCE.start_span_ns;
    Ok(Simulations {
        median: Measured::median(&runs(machine, seeds)?),
        other_starts: runs(&started, STARTS)?,
    })
}

fn requests(class: &tiltyard_measure::RequestSummary) -> Option<Requests> {
    let latency = &class.latency;
    Some(Requests {
        class: class.class.clone(),
        count: latency.count,
        per_s: class.throughput_per_s()?,
        p50_p99_ns: (latency.max_ns > 0).then_some((latency.p50_ns, latency.p99_ns)),
    })
}

/// What the kernel did: each scheduler's name, its runs, and lost events.
struct Real {
    report: Report,
    schedulers: Vec<(String, Vec<Measured>, u64)>,
}

fn in_kernel(
    set: &Set,
    setting: &Setting,
    guest: &Guest,
    file: &Path,
    workload: &Workload,
    steps: &dyn crate::Progress,
) -> Result<Real, Error> {
    let mut command = threads::command(file)?;
    if setting.exact && machines::load(&setting.machine)?.nr_cpus() > 1 {
        // Its CPUs take turns: work is measured by the task's own clock, which stops while another has its turn.
        command.push("--exact".to_owned());
    }
    let jobs = setting.pairs.iter().map(|(_, real)| objects::job(real));
    let mut job = guest.job(command)?;
    job.schedulers = jobs.collect::<Result<_, _>>()?;
    job.tracer = Some(kernel_runs::tracer()?);
    job.rounds = match setting.rounds {
        1 => Rounds::ONE,
        max => Rounds {
            max,
            tight: 0.0,
            budget_s: u64::MAX,
        },
    };
    let nr_cpus = job.machine.nr_cpus() as u32;
    let mut outputs = RunOutputs {
        setting,
        workload,
        steps,
        printed: Vec::new(),
    };
    let mut summaries: Vec<(usize, u64, Summary)> = Vec::new();
    let mut hear = |trace: Trace| {
        let run = kernel_runs::summarise(&trace, nr_cpus);
        summaries.push((run.run, run.lost, run.summary));
    };
    let place = format!("{}: {}", setting.name, workload.name);
    let report = vm::run(&job, &mut outputs, &mut hear).map_err(Error::from);
    let report = report.and_then(kernel_results::whole);
    let report = report.map_err(|error| error.within(&place))?;
    let mut schedulers: Vec<(String, Vec<Measured>, u64)> =
        vec![Default::default(); setting.pairs.len()];
    for (index, run) in report.runs.iter().enumerate() {
        let (label, figures, lost) = &mut schedulers[index % setting.pairs.len()];
        label.clone_from(&run.scheduler);
        if let Some(fault) = kernel_fault::fault(run) {
            return Err(Error::KernelRun(fault).within(&place));
        }
        let Some((_, events, summary)) = summaries.iter().find(|(of, ..)| *of == index) else {
            continue; // the warm-up is not recorded
        };
        let printed = outputs.printed.get(index).map_or("", String::as_str);
        let told = threads::Printed::parse(printed);
        let told = told.map_err(|error| error.within(&format!("{place} under {label}")))?;
        *lost += events;
        figures.push(measured(&told.outcome, summary, &app_names(workload), set));
    }
    // A comparison without figures would look like one without errors.
    if schedulers.iter().any(|(_, runs, _)| runs.is_empty()) {
        return Err(Error::Measurement("a scheduler has no run".to_owned()).within(&place));
    }
    Ok(Real { report, schedulers })
}

fn measured(outcome: &ExecOutcome, summary: &Summary, apps: &[String], set: &Set) -> Measured {
    let requests = outcome.requests.iter().map(|request| Requests {
        class: request.name.clone(),
        count: request.count,
        per_s: request.per_s,
        p50_p99_ns: request.latency.as_ref().map(|l| (l.p50_ns, l.p99_ns)),
    });
    Measured::new(
        summary,
        apps,
        outcome.duration_ns,
        &requests.collect::<Vec<_>>(),
        set.least,
    )
}

/// Keeps what each run prints on its standard output.
struct RunOutputs<'a> {
    setting: &'a Setting,
    workload: &'a Workload,
    steps: &'a dyn crate::Progress,
    printed: Vec<String>,
}

impl Progress for RunOutputs<'_> {
    fn step(&mut self, what: &str) {
        self.steps.step(&format!(
            "{}: {}: {what}",
            self.setting.name, self.workload.name
        ));
    }

    fn stop(&mut self) -> Option<String> {
        self.steps.stop()
    }

    fn begin_run(&mut self) {
        self.printed.push(String::new());
    }

    fn output(&mut self, _: &str, text: &str) {
        if let Some(last) = self.printed.last_mut() {
            last.push_str(text);
        }
    }
}
