// SPDX-License-Identifier: GPL-2.0-or-later
//! Simulated runs of a workload beside runs of it in real kernels: one report, whose curves and maps share their axes.

use tiltyard_measure::{Figure, Summary, compare, figures, rows};
use tiltyard_report::{ReportInput, csv, html, table};
use tiltyard_runner::event_files::EventFile;
use tiltyard_runner::grouping::By;
use tiltyard_runner::origin::{KernelResult, SimResult};
use tiltyard_runner::temporary;
use tiltyard_runner::{kernel_runs, output};
use tiltyard_trace::{About, Arena};

use super::sim_runs::require_own_events;
use super::{Args, Outputs, apart, find_pair, measure, refuse_namesakes, twice, written};
use crate::commands::list::Format;
use crate::commands::print;
use crate::failure::Failure;
use crate::flags::ByFlag;
use crate::terminal;

pub fn run(args: &Args, files: Vec<EventFile>, mut outputs: Outputs) -> Result<(), Failure> {
    refuse(args)?;
    check(&files)?;
    let about = files[0].about.clone();
    let topology = files.iter().find_map(|f| f.about.machine.topology.clone());
    let mut runs: Vec<(String, Vec<Summary>)> = Vec::new();
    let mut known: Vec<Vec<Vec<Figure>>> = Vec::new();
    for (number, file) in (0..).zip(files) {
        let Some((name, summary, figures)) = one(file, number, &mut outputs)? else {
            continue;
        };
        let at = runs.iter().position(|(known, _)| *known == name);
        let at = at.unwrap_or_else(|| {
            runs.push((name, Vec::new()));
            known.push(Vec::new());
            runs.len() - 1
        });
        runs[at].1.push(summary);
        known[at].push(figures);
    }
    let mut comparison = compare(&runs);
    comparison.rows = rows(&known);
    comparison.mark_identical(comparison.identical.clone());
    let input = ReportInput {
        title: &about.workload,
        about: "Simulated runs, and runs with real threads in real kernels.",
        machine: &format!("{}: {}", about.machine.name, about.machine.description),
        command: &terminal::own_command(),
        shown: "the first run",
        comparison: &comparison,
        runs: &runs,
        timelines: &[],
        nodes: topology.as_ref().map_or(&[], |t| &t.node),
    };
    let moved = temporary::undisturbed();
    if let Some(dir) = &args.figures {
        output::write_all(dir, &html::figures(&input))?;
    }
    if let Some(report) = outputs.report {
        report.fill(html::render(&input).as_bytes())?;
    }
    drop(moved);
    match args.format {
        Format::Csv => print(&csv::comparison(&comparison)),
        _ => print(&(table::render(&comparison, terminal::width()) + "\n" + &written(args))),
    }
}

/// The name, the metrics and the rows of a run, or nothing of one that failed.
fn one(
    file: EventFile,
    number: u32,
    outputs: &mut Outputs,
) -> Result<Option<(String, Summary, Vec<Figure>)>, Failure> {
    let (shown, name) = (file.shown(), name(&file.about));
    if file.about.arena == Arena::Sim {
        let result: SimResult = file.result()?;
        let measured = measure(file, number, By::App, None, outputs)?;
        require_own_events(&measured, &result, &shown)?;
        let figures = figures(&measured.summary);
        return Ok(Some((name, measured.summary, figures)));
    }
    let result: KernelResult = file.result()?;
    let lost = file.about.lost_events;
    if !kernel_runs::counts(&result.run) {
        say!("tiltyard: warning: {shown} is of a run that failed, and does not count");
        return Ok(None);
    }
    if lost > 0 {
        say!("tiltyard: warning: {shown} lacks {lost} events: its metrics do not include them");
    }
    let mut summary = measure(file, number, By::App, None, outputs)?.summary;
    (summary.requests, summary.marks) = (result.requests, result.marks);
    let figures = kernel_runs::measured(&summary);
    Ok(Some((name, summary, figures)))
}

/// What each arena does differently.
fn refuse(args: &Args) -> Result<(), Failure> {
    let given = [
        ("--tables", args.tables.is_some()),
        ("--out", args.out.is_some()),
        ("--format json", args.format == Format::Json),
        ("--timeline", args.timeline.is_some()),
        ("--by", args.by != ByFlag::App),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(Failure::usage(format!(
            "{flag}: not available for simulated and real runs together; use --report or --figures, or measure each kind alone"
        ))),
    }
}

/// An error unless all are of one workload on machines with as many CPUs.
fn check(files: &[EventFile]) -> Result<(), Failure> {
    let (first, rest) = files.split_first().expect("there are both kinds");
    for file in rest {
        let (a, b) = (&first.about, &file.about);
        if (&a.workload, &a.workload_sha256) != (&b.workload, &b.workload_sha256) {
            return Err(apart(first, file, "different workloads"));
        }
        if a.machine.nr_cpus != b.machine.nr_cpus {
            return Err(apart(first, file, "different machines"));
        }
    }
    refuse_namesakes(files)?;
    // A real run has its time.
    let same = |a: &About, b: &About| {
        let is_one = (a.arena, a.seed, a.end_ns) == (b.arena, b.seed, b.end_ns);
        is_one && a.scheduler == b.scheduler && a.kernel == b.kernel
    };
    find_pair(files, same).map_or(Ok(()), |(a, b)| Err(twice(a, b)))
}

/// "ule, simulated", "ule, Linux 6.18".
fn name(about: &About) -> String {
    let Some(release) = &about.kernel else {
        return format!("{}, simulated", about.scheduler);
    };
    let version: Vec<&str> = release.split('.').take(2).collect();
    format!("{}, Linux {}", about.scheduler, version.join("."))
}
