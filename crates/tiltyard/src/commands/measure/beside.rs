// SPDX-License-Identifier: GPL-2.0-or-later
//! Simulated runs of a workload beside runs of it in real kernels: one report, whose curves and maps share their axes.

use tiltyard_measure::{Figure, Summary, compare, figures, rows};
use tiltyard_report::{ReportInput, csv, html, table};
use tiltyard_runner::event_files::EventFile;
use tiltyard_runner::grouping::By;
use tiltyard_runner::temporary;
use tiltyard_runner::{kernel_runs, output};
use tiltyard_trace::About;

use super::{Args, Outputs, apart, measure, written};
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
        let measured = measure(file, number, By::App, None, &mut outputs)?;
        let name = name(&measured.about);
        let figures = match measured.about.kernel.is_some() {
            true => kernel_runs::measured(&measured.summary),
            false => figures(&measured.summary),
        };
        match runs.iter().position(|(known, _)| *known == name) {
            Some(at) => {
                runs[at].1.push(measured.summary);
                known[at].push(figures);
            }
            None => {
                runs.push((name, vec![measured.summary]));
                known.push(vec![figures]);
            }
        }
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
    Ok(())
}

/// "ule, simulated", "ule, Linux 6.18".
fn name(about: &About) -> String {
    let Some(release) = &about.kernel else {
        return format!("{}, simulated", about.scheduler);
    };
    let version: Vec<&str> = release.split('.').take(2).collect();
    format!("{}, Linux {}", about.scheduler, version.join("."))
}
