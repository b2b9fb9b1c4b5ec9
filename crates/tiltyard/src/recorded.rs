// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs in a real kernel: the recorded events of each give the same figures as those of the simulated machine.

use std::fs;
use std::path::PathBuf;

use tiltyard_build::{Builder, Source, default_cache_dir};
use tiltyard_kernel::{Trace, VmReport, trace};
use tiltyard_measure::{Recorder, RecorderSpec, Summary};
use tiltyard_report::perfetto;

use crate::built;
use crate::failure::{Code, Failure};
use crate::output::Output;

/// The tracer's object for a kernel.
pub fn tracer() -> Result<PathBuf, Failure> {
    let no_cache = || Failure::new(Code::Environment, "no folder for the cache: set HOME");
    let folder = default_cache_dir().ok_or_else(no_cache)?;
    let path = folder.join("tracer.bpf.c");
    // Written anew only when it changed, so that runs side by side do not disturb each other's compiler.
    if fs::read_to_string(&path).ok().as_deref() != Some(trace::SOURCE) {
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&path, trace::SOURCE))
            .map_err(|e| Failure::io(Code::Environment, &path, "write", &e))?;
    }
    Builder::default()
        .bpf_object(&Source::new(path))
        .map_err(built::failure)
}

/// Figures of the runs that were recorded, under the names of their schedulers.
pub fn summaries(report: &VmReport) -> Vec<(String, Vec<Summary>)> {
    let summary = |trace: &Trace| {
        let mut recorder = Recorder::new(RecorderSpec {
            nr_cpus: report.cpus as usize,
            origin_ns: trace.origin_ns,
            starvation_ns: RecorderSpec::STARVATION_NS,
        });
        trace.replay(&mut recorder);
        recorder.finish(trace.end_ns)
    };
    let named = report.traces.iter().map(|trace| {
        let name = report.runs[trace.run].scheduler.clone();
        (name, vec![summary(trace)])
    });
    named.collect()
}

/// Writes the events of a run for Perfetto.
pub fn write_perfetto(trace: &Trace, nr_cpus: u32, output: Output) -> Result<(), Failure> {
    let mut writer = perfetto::Writer::new(output, nr_cpus as usize);
    trace.replay(&mut writer);
    let output = writer
        .finish()
        .map_err(|e| Failure::new(Code::Other, format!("--trace: cannot write: {e}")))?;
    output.finish()
}
