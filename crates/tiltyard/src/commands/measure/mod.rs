// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard measure`: results of runs from their events.

mod beside;
mod kernel;
mod sim_runs;

use std::path::PathBuf;

use tiltyard_measure::{Recorder, RecorderSpec, Regrouped, Summary, TraceHash};
use tiltyard_report::perfetto;
use tiltyard_report::timeline::{self, Timeline, Window};
use tiltyard_runner::Error;
use tiltyard_runner::event_files::{self, EventFile};
use tiltyard_runner::grouping::By;
use tiltyard_runner::output::{Folder, Output};
use tiltyard_runner::tables::Tables;
use tiltyard_runner::window;
use tiltyard_tables::{EventTables, RunPart};
use tiltyard_trace::{About, Arena};

use super::list::Format;
use crate::failure::Failure;
use crate::flags::{ByFlag, require_within};

/// Measure runs again from their events.
///
/// Reads the event files that tiltyard run --events and tiltyard kernel --events write, and produces what those commands
/// produced: the table, the JSON result, the report, the Perfetto trace, the Parquet tables. It needs no scheduler, no kernel
/// and no privileges, so runs of a real kernel can be kept, and measured and compared on another machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tiltyard measure events
      All runs in a folder, side by side.
  tiltyard measure events --format json > kernel.json
      A result that tiltyard compare takes.
  tiltyard measure events --report report.html --timeline 7s..7.2s
      A report that shows a different part of the runs than the original report.
  tiltyard measure events/000-ule-seed1.events --trace ule.pftrace
      One run for Perfetto's UI.
  tiltyard measure monday/*ule* tuesday/*cfs*
      Simulated runs of several commands, if workload and machine are the same.
  tiltyard measure simulated real-6.18 real-6.1 --report both.html
      Simulated runs beside runs in kernels.

A file that is incomplete or damaged is an error (exit code 3): no result is computed from part of a run.")]
pub struct Args {
    /// Event files, or folders of them: runs of one workload on one machine. Simulated and real runs together give one
    /// report with both side by side.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write a Perfetto trace; needs exactly one event file.
    #[arg(long, value_name = "FILE.pftrace")]
    trace: Option<PathBuf>,
    /// Write a report with curves: one HTML file that needs no network.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write the report's diagrams as SVG files into this folder; only for simulated runs.
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// Interval of each scheduler's first run in the report's timeline: 7s..7.2s, 7s.., ..100ms
    /// [default: the same as when the events were recorded].
    #[arg(long, value_name = "FROM..TO", value_parser = window::parse, requires = "report")]
    timeline: Option<window::Range>,
    /// Write every event and every metric as Parquet files, one for each table, into this folder.
    #[arg(long, value_name = "DIR")]
    tables: Option<PathBuf>,
    /// What each row of the comparison is; only for simulated runs. Not group: events do not contain cgroups.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = ByFlag::App)]
    by: ByFlag,
    /// Output format; JSON has every metric of every run.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE.json")]
    out: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    if args.by == ByFlag::Group {
        let line = "--by group: events do not show cgroups; use --by app or --by task";
        return Err(Failure::usage(line));
    }
    let files = event_files::open(&args.files)?;
    if args.trace.is_some() && files.len() != 1 {
        return Err(Failure::usage(
            "--trace: a trace is of one run; name one event file",
        ));
    }
    let length_ns = |file: &EventFile| file.about.end_ns.saturating_sub(file.about.origin_ns);
    let longest_ns = files.iter().map(length_ns).max();
    require_within(args.timeline, longest_ns.unwrap_or(0))?;
    let _figures = Folder::make(args.figures.as_deref())?;
    let outputs = Outputs {
        trace: args.trace.as_deref().map(Output::create).transpose()?,
        tables: args.tables.as_deref().map(Tables::create).transpose()?,
        report: args.report.as_deref().map(Output::create).transpose()?,
        out: args.out.as_deref().map(Output::create).transpose()?,
    };
    let arena = files[0].about.arena;
    if files.iter().any(|file| file.about.arena != arena) {
        return beside::run(args, files, outputs);
    }
    match arena {
        Arena::Sim => sim_runs::run(args, files, outputs),
        Arena::Kernel => kernel::run(args, files, outputs),
    }
}

/// Where results go, apart from standard output.
struct Outputs {
    trace: Option<Output>,
    tables: Option<Tables>,
    report: Option<Output>,
    out: Option<Output>,
}

/// What the events of one run become.
struct Measured {
    about: About,
    summary: Summary,
    /// Grouped by `--by`.
    view: Summary,
    trace_hash: String,
    timeline: Option<timeline::Recorded>,
    tables: Option<EventTables<RunPart>>,
}

/// Reads the events of the run with this number, once for all outputs.
fn measure(
    file: EventFile,
    number: u32,
    by: By,
    window: Option<Window>,
    outputs: &mut Outputs,
) -> Result<Measured, Failure> {
    let (origin_ns, nr_cpus) = (file.about.origin_ns, file.about.machine.nr_cpus as usize);
    let recorder = || {
        Recorder::new(RecorderSpec {
            nr_cpus,
            origin_ns,
            starvation_ns: RecorderSpec::STARVATION_NS,
        })
    };
    let (mut summary, mut hash) = (recorder(), TraceHash::new());
    let mut tables = outputs.tables.as_ref().map(|t| t.listen(number, origin_ns));
    let output = outputs.trace.take();
    let mut trace = output.map(|output| perfetto::Writer::new(output, nr_cpus));
    let timeline = window.map(|window| Timeline::new(nr_cpus, origin_ns, window));
    let grouped = (by != By::App).then(recorder);
    let labels = by.labels_of_events().expect("--by group is refused");
    let mut view = Regrouped::new((timeline, grouped), labels);
    file.replay(&mut (
        (&mut summary, &mut hash),
        ((tables.as_mut(), trace.as_mut()), &mut view),
    ))?;
    if let Some(trace) = trace {
        let output = trace.finish();
        let output = output.map_err(Error::Trace)?;
        output.finish()?;
    }
    let about = file.about;
    let mut summary = summary.finish(about.end_ns);
    summary.set_request_classes(&about.request_classes);
    let (timeline, grouped) = view.sink;
    let view = grouped.map(|recorder| recorder.finish(about.end_ns));
    Ok(Measured {
        view: view.unwrap_or_else(|| summary.clone()),
        summary,
        trace_hash: hash.finish(),
        timeline: timeline.map(|timeline| timeline.finish(about.end_ns)),
        tables,
        about,
    })
}

/// An error: two files whose runs are not comparable.
fn apart(a: &EventFile, b: &EventFile, why: &str) -> Failure {
    let line = format!(
        "{} and {}: {why}; measure them separately, and compare the results with tiltyard compare",
        a.shown(),
        b.shown()
    );
    Failure::usage(line)
}

/// An error: one run in two files.
fn twice(a: &EventFile, b: &EventFile) -> Failure {
    let line = format!(
        "{} and {}: are of the same run; name one",
        a.shown(),
        b.shown()
    );
    Failure::usage(line)
}

/// An error if two schedulers have one name, in one arena.
fn refuse_namesakes(files: &[EventFile]) -> Result<(), Failure> {
    let namesakes = |a: &About, b: &About| {
        let is_same = a.object_sha256 == b.object_sha256 && a.tunables == b.tunables;
        a.scheduler == b.scheduler && a.kernel == b.kernel && !is_same
    };
    find_pair(files, namesakes).map_or(Ok(()), |(a, b)| {
        let why = format!("two schedulers have the name {}", a.about.scheduler);
        Err(apart(a, b, &why))
    })
}

/// The first two that `same` holds for.
fn find_pair(
    files: &[EventFile],
    same: impl Fn(&About, &About) -> bool,
) -> Option<(&EventFile, &EventFile)> {
    let pairs = files.iter().enumerate();
    let mut pairs = pairs.flat_map(|(at, b)| files[..at].iter().map(move |a| (a, b)));
    pairs.find(|(a, b)| same(&a.about, &b.about))
}

/// One line for each output that was written.
fn written(args: &Args) -> String {
    super::written(&[
        ("Report", args.report.as_deref()),
        ("Figures", args.figures.as_deref()),
        ("Trace", args.trace.as_deref()),
        ("Tables", args.tables.as_deref()),
        ("Result", args.out.as_deref()),
    ])
}
