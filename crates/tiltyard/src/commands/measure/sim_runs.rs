// SPDX-License-Identifier: GPL-2.0-or-later
//! Simulated runs from their events.

use tiltyard_measure::Summary;
use tiltyard_report::timeline::{Recorded, Window};
use tiltyard_report::{csv, table};
use tiltyard_runner::Error;
use tiltyard_runner::event_files::EventFile;
use tiltyard_runner::grouping::By;
use tiltyard_runner::origin::{SimResult, SimShared};
use tiltyard_runner::sim_results::{Shared, SimResults, SimRun};
use tiltyard_runner::temporary;
use tiltyard_runner::window;
use tiltyard_tables::RunFiles;
use tiltyard_trace::About;

use super::{Args, Measured, Outputs, apart, find_pair, measure, refuse_namesakes, twice, written};
use crate::commands::list::Format;
use crate::commands::print;
use crate::failure::{Code, Failure};
use crate::terminal;

/// Runs by scheduler, in order.
#[derive(Default)]
struct Gathered {
    runs: Vec<(String, Vec<SimRun>)>,
    views: Vec<(String, Vec<Summary>)>,
    timelines: Vec<(String, Recorded)>,
    files: Vec<RunFiles>,
}

pub fn run(args: &Args, mut files: Vec<EventFile>, mut outputs: Outputs) -> Result<(), Failure> {
    let schedulers = distinct(&files);
    files.sort_by_key(|file| schedulers.iter().position(|s| *s == file.about.scheduler));
    let results: Result<Vec<SimResult>, Error> = files.iter().map(EventFile::result).collect();
    let results = results?;
    check(&files, &results)?;
    let (about, shared) = (files[0].about.clone(), results[0].shared.clone());
    // If the files are of several commands, none of these repeats all runs.
    let is_one_command = results.iter().all(|result| result.shared == shared);
    let command = match is_one_command {
        true => shared.command.clone(),
        false => terminal::own_command(),
    };
    let is_drawn = args.report.is_some() || args.figures.is_some();
    let window = is_drawn.then(|| window_of(args, &shared, schedulers.len()));
    let all = gather(args.by.by(), files, results, window, &mut outputs)?;
    let results = SimResults {
        shared: Shared {
            workload: &about.workload,
            workload_sha256: about.workload_sha256.as_deref(),
            about: &shared.description,
            duration_ns: shared.duration_ns,
            machine: &about.machine.name,
            machine_sha256: about.machine.sha256.as_deref(),
            about_machine: &about.machine.description,
            nr_cpus: about.machine.nr_cpus as usize,
            nodes: about.machine.topology.map_or(Vec::new(), |t| t.node),
            by: args.by.by(),
            command: &command,
        },
        runs: &all.runs,
        views: &all.views,
        timelines: &all.timelines,
        failures: &[],
        failed: &[],
    };
    let comparison = results.comparison();
    let moved = temporary::undisturbed();
    if let Some(tables) = outputs.tables {
        tables.finish(all.files)?;
    }
    results.draw(&comparison, outputs.report, args.figures.as_deref())?;
    if let Some(out) = outputs.out {
        out.fill(results.json(&comparison).as_bytes())?;
    }
    drop(moved);
    match args.format {
        Format::Json => print(&results.json(&comparison)),
        Format::Csv => print(&csv::comparison(&comparison)),
        Format::Table => {
            let mut page = results.headline("in all") + "\n\n";
            page += &table::render(&comparison, terminal::width());
            page += "\n";
            page += &written(args);
            page += &format!("Repeat  {command}\n");
            print(&page)
        }
    }
}

/// The schedulers in the order of their first files.
fn distinct(files: &[EventFile]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for file in files {
        if !all.contains(&file.about.scheduler) {
            all.push(file.about.scheduler.clone());
        }
    }
    all
}

/// The part of each scheduler's first run that the report shows, by default that of the original report.
fn window_of(args: &Args, shared: &SimShared, schedulers: usize) -> Window {
    let range = args.timeline.unwrap_or_default();
    let from_ns = range.from_ns.or(Some(shared.timeline_from_ns));
    let range = window::Range { from_ns, ..range };
    window::from_start(range, schedulers.max(shared.schedulers))
}

/// An error unless all runs are of one workload on one machine and each appears once.
fn check(files: &[EventFile], results: &[SimResult]) -> Result<(), Failure> {
    let first = &files[0];
    for (file, result) in files.iter().zip(results) {
        let (a, b) = (&first.about, &file.about);
        let is_other = [
            (
                "different workloads",
                a.workload != b.workload || a.workload_sha256 != b.workload_sha256,
            ),
            ("different machines", a.machine != b.machine),
            (
                "different durations",
                results[0].shared.duration_ns != result.shared.duration_ns,
            ),
        ];
        if let Some((why, _)) = is_other.iter().find(|(_, is_other)| *is_other) {
            return Err(apart(first, file, why));
        }
    }
    refuse_namesakes(files)?;
    let same = |a: &About, b: &About| a.scheduler == b.scheduler && a.seed == b.seed;
    find_pair(files, same).map_or(Ok(()), |(a, b)| Err(twice(a, b)))
}

/// An error if the events of a simulated run are others than those that it had.
pub fn require_own_events(
    measured: &Measured,
    result: &SimResult,
    shown: &str,
) -> Result<(), Failure> {
    match measured.trace_hash == result.trace_hash {
        true => Ok(()),
        false => {
            let line = format!("{shown}: its events are not those of the run; record it again");
            Err(Failure::new(Code::Input, line))
        }
    }
}

/// Measures one file after another. Timelines are those of the first seed.
fn gather(
    by: By,
    files: Vec<EventFile>,
    results: Vec<SimResult>,
    window: Option<Window>,
    outputs: &mut Outputs,
) -> Result<Gathered, Failure> {
    let first_seed = files.iter().filter_map(|file| file.about.seed).min();
    let keeps_numbers = files.is_sorted_by(|a, b| a.about.run < b.about.run);
    let mut all = Gathered::default();
    for ((position, file), result) in (0..).zip(files).zip(results) {
        let number = match keeps_numbers {
            true => file.about.run,
            false => position,
        };
        let (shown, window) = (
            file.shown(),
            window.filter(|_| file.about.seed == first_seed),
        );
        let measured = measure(file, number, by, window, outputs)?;
        require_own_events(&measured, &result, &shown)?;
        let (about, summary) = (&measured.about, measured.summary);
        if let (Some(tables), Some(events)) = (&outputs.tables, measured.tables) {
            let hash = &measured.trace_hash;
            let files = tables.simulated(number, events, about, hash, &summary)?;
            all.files.push(files);
        }
        let label = &about.scheduler;
        let timeline = measured.timeline.map(|t| (label.clone(), t));
        all.timelines.extend(timeline);
        if all.runs.last().is_none_or(|(last, _)| last != label) {
            all.runs.push((label.clone(), Vec::new()));
            all.views.push((label.clone(), Vec::new()));
        }
        if let (Some((_, runs)), Some((_, views))) = (all.runs.last_mut(), all.views.last_mut()) {
            views.push(measured.view);
            runs.push(SimRun {
                seed: about.seed.unwrap_or_default(),
                trace_hash: measured.trace_hash,
                counts: result.counts,
                summary,
                // Races are no events.
                checked: None,
                origin_ns: 0,
            });
        }
    }
    Ok(all)
}
