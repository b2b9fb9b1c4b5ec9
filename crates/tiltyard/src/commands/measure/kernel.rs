// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs of a real kernel from their events.

use std::collections::BTreeMap;

use tiltyard_kernel::{Report, RunReport};
use tiltyard_report::csv;
use tiltyard_runner::Error;
use tiltyard_runner::event_files::EventFile;
use tiltyard_runner::grouping::By;
use tiltyard_runner::kernel_results::{KernelResults, Subject};
use tiltyard_runner::kernel_runs::Recorded;
use tiltyard_runner::origin::KernelResult;
use tiltyard_runner::temporary;
use tiltyard_runner::window;
use tiltyard_trace::About;

use super::{Args, Outputs, apart, find_pair, measure, twice, written};
use crate::commands::list::Format;
use crate::commands::print;
use crate::failure::Failure;
use crate::flags::ByFlag;
use crate::kernel_page;

pub fn run(args: &Args, mut files: Vec<EventFile>, mut outputs: Outputs) -> Result<(), Failure> {
    if args.by != ByFlag::App || args.figures.is_some() {
        let flag = if args.by == ByFlag::App {
            "--figures"
        } else {
            "--by"
        };
        let line = format!("{flag}: is for simulated runs; these are of a real kernel");
        return Err(Failure::usage(line));
    }
    files.sort_by_key(|file| file.about.run);
    let results: Result<Vec<KernelResult>, Error> = files.iter().map(EventFile::result).collect();
    let results = results?;
    check(&files, &results)?;
    let (about, shared) = (files[0].about.clone(), results[0].shared.clone());
    let (report, positions) = report(&results);
    let range = args.timeline.unwrap_or_default();
    let window = window::from_start(range, shared.schedulers);
    let window = args.report.is_some().then_some(window);
    let (mut recorded, mut timelines, mut tables) = (Vec::new(), Vec::new(), Vec::new());
    for (file, result) in files.into_iter().zip(results) {
        let position = positions[&result.index];
        let number = position as u32;
        let measured = measure(file, number, By::App, window, &mut outputs)?;
        let (about, mut summary) = (measured.about, measured.summary);
        (summary.requests, summary.marks) = (result.requests, result.marks);
        if let (Some(dir), Some(events)) = (&outputs.tables, measured.tables) {
            tables.push(dir.in_kernel(number, events, &about, &shared.title, &summary)?);
        }
        timelines.extend(measured.timeline.map(|timeline| (position, timeline)));
        recorded.push(Recorded {
            run: position,
            origin_ns: about.origin_ns,
            end_ns: about.end_ns,
            lost: about.lost_events,
            summary,
        });
    }
    let subject = Subject {
        title: shared.title,
        workload: about.workload,
        workload_sha256: about.workload_sha256,
        duration_ns: shared.duration_ns,
        command: about.command,
        host_cpus: shared.host_cpus,
    };
    let results = KernelResults::new(subject, &report, &recorded);
    let moved = temporary::undisturbed();
    if let Some(dir) = outputs.tables {
        dir.finish(tables)?;
    }
    if let Some(file) = outputs.report {
        results.draw(timelines, file)?;
    }
    if let Some(out) = outputs.out {
        out.fill(results.json().as_bytes())?;
    }
    drop(moved);
    match args.format {
        Format::Table => print(&(kernel_page::page(&results) + &written(args))),
        Format::Json => print(&results.json()),
        Format::Csv => print(&csv::comparison(&results.comparison)),
    }
}

/// An error unless all runs are from one job and each appears once.
fn check(files: &[EventFile], results: &[KernelResult]) -> Result<(), Failure> {
    for (file, result) in files.iter().zip(results) {
        let (a, b) = (&files[0].about, &file.about);
        let is_other = results[0].shared != result.shared
            || (&a.command, &a.machine, &a.workload) != (&b.command, &b.machine, &b.workload);
        if is_other {
            return Err(apart(&files[0], file, "runs of different commands"));
        }
    }
    let same = |a: &About, b: &About| a.run == b.run;
    find_pair(files, same).map_or(Ok(()), |(a, b)| Err(twice(a, b)))
}

/// The report on the job, without the runs whose files are missing, and the place of each run in it, by the run's index.
fn report(results: &[KernelResult]) -> (Report, BTreeMap<usize, usize>) {
    let shared = &results[0].shared;
    let own = results.iter().map(|result| (result.index, &result.run));
    let silent = shared.silent.iter().map(|(index, run)| (*index, run));
    let runs: BTreeMap<usize, &RunReport> = own.chain(silent).collect();
    let positions = runs.keys().copied().zip(0..).collect();
    let report = Report {
        runs: runs.into_values().cloned().collect(),
        ..shared.job.clone()
    };
    (report, positions)
}
