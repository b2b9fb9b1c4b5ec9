// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs as tables in a folder: a description of each, its events, its metrics.

use std::path::Path;

use sha2::{Digest, Sha256};
use tiltyard_kernel::vm::VmJob;
use tiltyard_kernel::{Report, Trace};
use tiltyard_measure::Summary;
use tiltyard_tables::{
    EventTables, ParquetDir, RunFacts, RunFiles, RunPart, run_table, summary_tables,
};

use crate::built::Built;
use crate::failure::{Code, Failure};
use crate::interrupt;
use crate::recorded::Recorded;
use crate::simulate::{Experiment, Run};

/// Where the tables of a command's runs go.
pub struct Tables {
    dir: ParquetDir,
}

/// The origin of a run in the simulated machine.
pub struct Simulated<'a> {
    pub experiment: &'a Experiment<'a>,
    pub workload_sha256: &'a str,
    pub machine_sha256: &'a str,
    pub built: &'a Built,
    /// Repeats it.
    pub command: &'a str,
}

/// The origin of runs in a real kernel.
pub struct InKernel<'a> {
    pub job: &'a VmJob,
    pub report: &'a Report,
    /// What ran under the schedulers: a command, or a workload with its hash.
    pub title: &'a str,
    pub workload_sha256: Option<&'a str>,
    pub command: &'a str,
}

/// The hash of an input's text.
pub fn sha256(content: impl AsRef<[u8]>) -> String {
    format!("{:x}", Sha256::digest(content))
}

impl Tables {
    /// Checks before hours of work whether `dir` may be written.
    pub fn create(dir: &Path) -> Result<Tables, Failure> {
        let dir = ParquetDir::create(dir).map_err(failure)?;
        interrupt::remove_on_interrupt(dir.temporary());
        Ok(Tables { dir })
    }

    /// Receives the events of the run with this number.
    pub fn listen(&self, run: u32, origin_ns: u64) -> EventTables<RunPart> {
        EventTables::new(run, origin_ns, self.dir.part(run))
    }

    /// All tables of a completed run that `events` received.
    pub fn simulated(
        &self,
        number: u32,
        events: EventTables<RunPart>,
        run: &Run,
        of: &Simulated,
    ) -> Result<RunFiles, Failure> {
        let facts = RunFacts {
            command: of.command,
            arena: "sim",
            tiltyard: crate::VERSION,
            workload: &of.experiment.workload.name,
            workload_sha256: Some(of.workload_sha256),
            machine: &of.experiment.machine.name,
            machine_sha256: Some(of.machine_sha256),
            scheduler: &of.built.choice.label,
            object_sha256: Some(&of.built.object.key),
            tunables: &json(of.built.choice.tunables.iter().map(|(n, v)| (n, v))),
            seed: Some(run.seed),
            round: None,
            duration_ns: run.summary.duration_ns,
            nr_cpus: of.experiment.machine.nr_cpus() as u64,
            trace_hash: Some(&run.trace_hash),
            kernel: None,
            lost_events: 0,
        };
        let part = events.finish(run.outcome.end_ns);
        close(part, number, &run.summary, &facts)
    }

    /// The events of a run in a real kernel.
    pub fn recorded(&self, trace: &Trace) -> Result<RunFiles, Failure> {
        let mut events = self.listen(trace.run as u32, trace.origin_ns);
        trace.replay(&mut events);
        events.finish(trace.end_ns).finish().map_err(failure)
    }

    /// The metrics of runs in a real kernel, when the report on all of them exists.
    pub fn figures(&self, runs: &[Recorded], of: &InKernel) -> Result<Vec<RunFiles>, Failure> {
        let files = runs.iter().map(|recorded| {
            let run = &of.report.runs[recorded.run];
            let scheduler = of.job.schedulers.iter().find(|s| s.name == run.scheduler);
            let object = scheduler.and_then(|s| s.object.as_deref());
            let machine = match of.report.accel {
                Some(_) => &of.job.machine.name,
                None => &of.report.host_cpu,
            };
            let facts = RunFacts {
                command: of.command,
                arena: "kernel",
                tiltyard: crate::VERSION,
                workload: of.title,
                workload_sha256: of.workload_sha256,
                machine,
                machine_sha256: None,
                scheduler: &run.scheduler,
                object_sha256: object.and_then(key),
                tunables: &json(run.tunables.iter().map(|t| (&t.name, &t.value))),
                seed: None,
                round: Some(run.round.into()),
                duration_ns: recorded.summary.duration_ns,
                nr_cpus: of.report.cpus.into(),
                trace_hash: None,
                kernel: Some(&of.report.kernel_release),
                lost_events: recorded.lost,
            };
            let number = recorded.run as u32;
            close(self.dir.part(number), number, &recorded.summary, &facts)
        });
        files.collect()
    }

    /// Gives the folder its name, with the runs in this order.
    pub fn finish(self, runs: Vec<RunFiles>) -> Result<(), Failure> {
        self.dir.finish(runs).map_err(failure)
    }
}

/// A run's description and metrics, after whatever else its part has.
fn close(
    mut part: RunPart,
    number: u32,
    summary: &Summary,
    facts: &RunFacts,
) -> Result<RunFiles, Failure> {
    part.table(run_table(number, facts));
    for table in summary_tables(number, summary) {
        part.table(table);
    }
    part.finish().map_err(failure)
}

/// Objects for a kernel are named by the hash of their inputs.
fn key(object: &Path) -> Option<&str> {
    object.file_name()?.to_str()?.split('.').next()
}

/// Names and values as a JSON object, in order of the names.
fn json<'a>(values: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    let number = |text: &String| text.parse::<i64>().map_or(text.as_str().into(), Into::into);
    let object: serde_json::Map<_, serde_json::Value> = values
        .map(|(name, value)| (name.clone(), number(value)))
        .collect();
    serde_json::Value::Object(object).to_string()
}

fn failure(error: tiltyard_tables::Error) -> Failure {
    let code = match error.is_about_the_name() {
        true => Code::Usage,
        false => Code::Other,
    };
    Failure::new(code, error.to_string())
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
        let object = json(set.iter().map(|(n, v)| (n, v)));
        assert_eq!(object, r#"{"at":"0x14","guard":"true","slice_ms":5}"#);
        assert_eq!(json([].into_iter()), "{}");
    }
}
