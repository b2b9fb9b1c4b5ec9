// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the events of a run come from, as event files and tables record it: what ran, on what, under which scheduler.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tiltyard_kernel::{Report, RunReport, VmJob};
use tiltyard_measure::{MarkSummary, RequestSummary, Summary};
use tiltyard_sim::Outcome;
use tiltyard_tables::RunFacts;
use tiltyard_trace::{About, Arena, Machine, Topology};

use crate::kernel_runs::Recorded;
use crate::objects::Built;
use crate::simulation::{self, Experiment, Run};
use crate::stuck::StuckTasks;

/// What results of simulated runs contain besides metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimResult {
    /// What all runs of the command share.
    pub shared: SimShared,
    /// Hash of all events.
    pub trace_hash: String,
    /// What the simulator counted.
    #[serde(flatten)]
    pub counts: Counts,
}

/// What the simulator counted, and why the scheduler was unloaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Why the scheduler was unloaded.
    pub exit: String,
    /// Context switches.
    pub switches: u64,
    /// Timer ticks.
    pub ticks: u64,
    /// Calls into the scheduler.
    pub callbacks: u64,
    /// Tasks that there were.
    pub tasks: u64,
    /// Tasks that had not exited at the end.
    pub tasks_left: u64,
    /// Those of them that wait forever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<StuckTasks>,
}

/// What all simulated runs of a command share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimShared {
    /// The workload's description.
    pub description: String,
    /// As given with `--duration`.
    pub duration_ns: Option<u64>,
    /// The command that repeats all these runs.
    pub command: String,
    /// How many schedulers were compared.
    pub schedulers: usize,
    /// Default start of the timeline in reports, from the workload's start.
    pub timeline_from_ns: u64,
}

impl Counts {
    /// Of a completed run.
    pub fn of(outcome: &Outcome) -> Counts {
        Counts {
            exit: outcome.exit.kind.reason().to_owned(),
            switches: outcome.switches,
            ticks: outcome.ticks,
            callbacks: outcome.callbacks,
            tasks: outcome.tasks_total,
            tasks_left: outcome.tasks_left,
            stuck: StuckTasks::of(outcome),
        }
    }
}

/// The inputs of a run in the simulated machine.
pub struct SimOrigin<'a> {
    /// What all runs of the command share.
    pub experiment: &'a Experiment<'a>,
    /// Hash of the workload's text.
    pub workload_sha256: &'a str,
    /// Hash of the machine's text.
    pub machine_sha256: &'a str,
    /// The scheduler.
    pub built: &'a Built,
    /// The command that repeats it.
    pub command: &'a str,
    /// The rest of what they share, for the head of the file.
    pub shared: &'a SimShared,
}

impl SimOrigin<'_> {
    /// The head of the run's event file.
    pub fn about(&self, number: u32, run: &Run) -> About {
        let Experiment {
            machine, workload, ..
        } = self.experiment;
        let choice = &self.built.choice;
        let result = SimResult {
            shared: self.shared.clone(),
            trace_hash: run.trace_hash.clone(),
            counts: Counts::of(&run.outcome),
        };
        About {
            tiltyard: crate::VERSION.to_owned(),
            arena: Arena::Sim,
            kernel: None,
            workload: workload.name.clone(),
            workload_sha256: Some(self.workload_sha256.to_owned()),
            machine: Machine {
                name: machine.name.clone(),
                description: machine.description.clone(),
                sha256: Some(self.machine_sha256.to_owned()),
                nr_cpus: machine.nr_cpus() as u32,
                tick_hz: Some(machine.tick_hz),
                topology: Some(Topology::of(machine)),
            },
            scheduler: choice.label.clone(),
            object_sha256: Some(self.built.object.key.clone()),
            tunables: tunables(choice.tunables.iter().map(|(n, v)| (n, v))),
            seed: Some(run.seed),
            round: None,
            command: self.command.to_owned(),
            run: number,
            origin_ns: simulation::origin_ns(workload),
            end_ns: run.outcome.end_ns,
            lost_events: 0,
            request_classes: run.summary.request_classes(),
            result: value(&result),
        }
    }
}

/// What results of runs in real kernels contain besides metrics of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelResult {
    /// What all runs of the command share.
    pub shared: KernelShared,
    /// The run's index among the job's runs, and its report.
    pub index: usize,
    /// The report on it.
    pub run: RunReport,
    /// Of a workload with real threads: its threads count them, and events do not show them.
    pub requests: Vec<RequestSummary>,
    /// As the requests.
    pub marks: Vec<MarkSummary>,
}

/// What all runs of a job in a kernel share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelShared {
    /// The command, or the workload as it was named.
    pub title: String,
    /// As given with `--duration`.
    pub duration_ns: Option<u64>,
    /// How many schedulers were compared.
    pub schedulers: usize,
    /// Of the machine on which Tiltyard ran.
    pub host_cpus: u32,
    /// The report on the job, without its runs.
    pub job: Report,
    /// Runs without events, such as those of schedulers that were not loaded, with their indices.
    pub silent: Vec<(usize, RunReport)>,
}

/// The inputs of runs in a real kernel.
pub struct KernelOrigin<'a> {
    /// What was to be done.
    pub job: &'a VmJob,
    /// What became of it.
    pub report: &'a Report,
    /// CPUs of the machine on which it ran.
    pub nr_cpus: u32,
    /// The workload's name, or the command.
    pub workload: &'a str,
    /// Hash of the workload's text, if it was one.
    pub workload_sha256: Option<&'a str>,
    /// The command that repeats all runs.
    pub command: &'a str,
    /// The rest of what they share, for the head of the file.
    pub shared: &'a KernelShared,
}

impl KernelShared {
    /// `recorded`: the runs with events.
    pub fn of(
        title: String,
        duration_ns: Option<u64>,
        job: &VmJob,
        report: &Report,
        recorded: &[Recorded],
    ) -> KernelShared {
        let is_silent = |index: &usize| recorded.iter().all(|recorded| recorded.run != *index);
        let runs = report.runs.iter().cloned().enumerate();
        KernelShared {
            title,
            duration_ns,
            schedulers: job.schedulers.len(),
            host_cpus: tiltyard_kernel::host::nr_cpus(),
            job: Report {
                runs: Vec::new(),
                ..report.clone()
            },
            silent: runs.filter(|(index, _)| is_silent(index)).collect(),
        }
    }
}

impl KernelOrigin<'_> {
    /// The head of the run's event file.
    pub fn about(&self, recorded: &Recorded) -> About {
        let run = &self.report.runs[recorded.run];
        let scheduler = self.job.schedulers.iter().find(|s| s.name == run.scheduler);
        let object = scheduler.and_then(|s| s.object.as_deref());
        let result = KernelResult {
            shared: self.shared.clone(),
            index: recorded.run,
            run: run.clone(),
            requests: recorded.summary.requests.clone(),
            marks: recorded.summary.marks.clone(),
        };
        About {
            tiltyard: crate::VERSION.to_owned(),
            arena: Arena::Kernel,
            kernel: Some(self.report.kernel_release.clone()),
            workload: self.workload.to_owned(),
            workload_sha256: self.workload_sha256.map(str::to_owned),
            machine: self.machine(),
            scheduler: run.scheduler.clone(),
            object_sha256: object.and_then(key).map(str::to_owned),
            tunables: tunables(run.tunables.iter().map(|t| (&t.name, &t.value))),
            seed: None,
            round: Some(run.round),
            command: self.command.to_owned(),
            run: recorded.run as u32,
            origin_ns: recorded.origin_ns,
            end_ns: recorded.end_ns,
            lost_events: recorded.lost,
            request_classes: recorded.summary.request_classes(),
            result: value(&result),
        }
    }

    /// A guest has the machine that was asked for; what the CPUs of this machine share is not recorded.
    fn machine(&self) -> Machine {
        let config = self.report.kernel_config.as_ref();
        let tick_hz = config.and_then(|config| config.options.get("HZ")?.parse().ok());
        let guest = self.report.accel.map(|_| &self.job.machine);
        Machine {
            name: guest
                .map_or(&self.report.host_cpu, |machine| &machine.name)
                .clone(),
            description: guest.map_or(String::new(), |machine| machine.description.clone()),
            sha256: None,
            nr_cpus: self.nr_cpus,
            tick_hz,
            topology: guest.map(Topology::of),
        }
    }
}

/// A run as a row of the table `run`. `title`: what ran.
pub fn facts<'a>(
    about: &'a About,
    title: &'a str,
    tunables: &'a str,
    trace_hash: Option<&'a str>,
    summary: &Summary,
) -> RunFacts<'a> {
    RunFacts {
        command: &about.command,
        arena: about.arena.name(),
        tiltyard: &about.tiltyard,
        workload: title,
        workload_sha256: about.workload_sha256.as_deref(),
        machine: &about.machine.name,
        machine_sha256: about.machine.sha256.as_deref(),
        scheduler: &about.scheduler,
        object_sha256: about.object_sha256.as_deref(),
        tunables,
        seed: about.seed,
        round: about.round.map(u64::from),
        duration_ns: summary.duration_ns,
        nr_cpus: about.machine.nr_cpus.into(),
        trace_hash,
        kernel: about.kernel.as_deref(),
        lost_events: about.lost_events,
    }
}

fn value(result: &impl Serialize) -> Value {
    serde_json::to_value(result).expect("names are text and numbers are finite")
}

/// Objects for a kernel are named by the hash of their inputs.
fn key(object: &Path) -> Option<&str> {
    object.file_name()?.to_str()?.split('.').next()
}

/// Names and values as a JSON object, in order of the names.
pub fn tunables<'a>(values: impl Iterator<Item = (&'a String, &'a String)>) -> Map<String, Value> {
    let number = |text: &String| text.parse::<i64>().map_or(text.as_str().into(), Into::into);
    values
        .map(|(name, value)| (name.clone(), number(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunables_are_an_object_of_numbers() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let set = [
            pair("slice_ms", "5"),
            pair("guard", "true"),
            pair("at", "0x14"),
        ];
        let json = |set: &[(String, String)]| {
            Value::Object(tunables(set.iter().map(|(n, v)| (n, v)))).to_string()
        };
        assert_eq!(json(&set), r#"{"at":"0x14","guard":"true","slice_ms":5}"#);
        assert_eq!(json(&[]), "{}");
    }
}
