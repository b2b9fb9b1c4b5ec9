// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs as tables in a folder: a description of each, its events, its metrics.

use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tiltyard_kernel::Trace;
use tiltyard_measure::Summary;
use tiltyard_tables::{EventTables, ParquetDir, RunFiles, RunPart, run_table, summary_tables};
use tiltyard_trace::About;

use crate::Error;
use crate::in_use::ToWrite;
use crate::kernel_runs::Recorded;
use crate::origin::{self, KernelOrigin};
use crate::temporary;

/// Where the tables of a command's runs go.
pub struct Tables {
    dir: ParquetDir,
    _own: ToWrite,
}

/// The hash of an input's text.
pub fn sha256(content: impl AsRef<[u8]>) -> String {
    format!("{:x}", Sha256::digest(content))
}

impl Tables {
    /// Checks before hours of work whether `dir` may be written.
    pub fn create(dir: &Path) -> Result<Tables, Error> {
        let own = ToWrite::new(dir)?;
        let dir = temporary::make(|| ParquetDir::create(dir), ParquetDir::temporary);
        let dir = dir.map_err(failure)?;
        Ok(Tables { dir, _own: own })
    }

    /// Receives the events of the run with this number.
    pub fn listen(&self, run: u32, origin_ns: u64) -> EventTables<RunPart> {
        EventTables::new(run, origin_ns, self.dir.part(run))
    }

    /// All tables of a completed simulated run that `events` received.
    pub fn simulated(
        &self,
        number: u32,
        events: EventTables<RunPart>,
        about: &About,
        trace_hash: &str,
        summary: &Summary,
    ) -> Result<RunFiles, Error> {
        let part = events.finish(about.end_ns);
        let of = (about, about.workload.as_str(), Some(trace_hash));
        close(part, number, of, summary)
    }

    /// The events of a run in a real kernel.
    pub fn recorded(&self, trace: &Trace) -> Result<RunFiles, Error> {
        let mut events = self.listen(trace.run as u32, trace.origin_ns);
        trace.replay(&mut events);
        events.finish(trace.end_ns).finish().map_err(failure)
    }

    /// All tables of a run in a real kernel that `events` received; `title`: what ran.
    pub fn in_kernel(
        &self,
        number: u32,
        events: EventTables<RunPart>,
        about: &About,
        title: &str,
        summary: &Summary,
    ) -> Result<RunFiles, Error> {
        let part = events.finish(about.end_ns);
        close(part, number, (about, title, None), summary)
    }

    /// The metrics of runs in a real kernel, when the report on all of them exists.
    pub fn figures(&self, runs: &[Recorded], of: &KernelOrigin) -> Result<Vec<RunFiles>, Error> {
        let files = runs.iter().map(|recorded| {
            let number = recorded.run as u32;
            let about = of.about(recorded);
            let of = (&about, of.shared.title.as_str(), None);
            close(self.dir.part(number), number, of, &recorded.summary)
        });
        files.collect()
    }

    /// Gives the folder its name, with the runs in this order.
    pub fn finish(self, runs: Vec<RunFiles>) -> Result<(), Error> {
        let _moved = temporary::undisturbed();
        self.dir.finish(runs).map_err(failure)
    }
}

/// A run's description and metrics, after whatever else its part has. `of`: its origin, what ran, the trace hash.
fn close(
    mut part: RunPart,
    number: u32,
    (about, title, trace_hash): (&About, &str, Option<&str>),
    summary: &Summary,
) -> Result<RunFiles, Error> {
    let tunables = Value::Object(about.tunables.clone()).to_string();
    let facts = origin::facts(about, title, &tunables, trace_hash, summary);
    part.table(run_table(number, &facts));
    for table in summary_tables(number, summary) {
        part.table(table);
    }
    part.finish().map_err(failure)
}

fn failure(error: tiltyard_tables::Error) -> Error {
    match error.is_about_the_name() {
        true => Error::Request(error.to_string()),
        false => Error::Output(error.to_string()),
    }
}
