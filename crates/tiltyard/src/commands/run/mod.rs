// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard run`: schedulers side by side on one workload in the simulated machine.

mod gathered;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use tiltyard_model::Machine;
use tiltyard_report::{csv, table};
use tiltyard_runner::event_dir::EventDir;
use tiltyard_runner::grid::{self, Grid, Outputs};
use tiltyard_runner::objects::{self, Built};
use tiltyard_runner::origin::SimShared;
use tiltyard_runner::output::{Folder, Output};
use tiltyard_runner::schedulers::{self, Choice};
use tiltyard_runner::sim_results::{Shared, SimResults};
use tiltyard_runner::simulation::{Experiment, Written};
use tiltyard_runner::tables::{self, Tables};
use tiltyard_runner::temporary::{self, Undisturbed};
use tiltyard_runner::{Error, Progress};
use tiltyard_runner::{machines, metric, verification, window, workloads};
use tiltyard_workload::Workload;

use super::campaign::{self, Several};
use super::list::Format;
use crate::failure::{Code, Failure};
use crate::flags::{ByFlag, RunFlags, listed, require_within};
use crate::progress::{Bar, Steps};
use crate::races::{self, Found};
use crate::terminal;
use gathered::{Cell, Gathered};

/// Run a workload under one or more schedulers in the simulated machine and compare them.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("kept").multiple(true)))]
#[command(after_help = "\
Examples:
  tiltyard run -w fibo-sysbench-1c -s ule,cfs
      Two schedulers side by side on the default machine, one core.
  tiltyard run -w fibo-sysbench-1c -s ule,cfs --seeds 10 --report report.html
      Ten seeds: medians with intervals, and curves in one offline HTML file.
  tiltyard run -w apache,hackbench,suite/nas-mg -s ule,cfs --seeds 6
      Several workloads: who wins which. A file says more: tiltyard campaign --help.
  tiltyard run -w mine.json -s fifo,fifo:slice_ms=5 -m \"pack:2 l3:1 core:4 pu:2\"
      A workload of your own, a tunable, a machine given as an hwloc string.
  tiltyard run -w burst.json -s ./my.bpf.c --seed 7 --trace t.pftrace
      A scheduler of your own; the trace opens in Perfetto's UI.
  tiltyard run -w fibo-sysbench-1c -s ule,cfs --seeds 3 --out tables
      Six runs as tables for DuckDB, polars or Spark.
  tiltyard run -w fibo-sysbench-1c -s ule,cfs --events events && tiltyard measure events --report r.html
      Keeps the events of both runs; tables, reports and results can be produced from them at any time.
  tiltyard run -w mix-hog-sleepers -s ./my.bpf.c -m smp4 --races
      Finds data in your scheduler's code that must be protected from other CPUs.

A run that fails prints the command that repeats it; the other runs go on.")]
pub struct Args {
    #[command(flatten)]
    runs: RunFlags,
    /// The seed of all random draws.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "seeds")]
    seed: u64,
    /// Write a Perfetto trace; for one scheduler and one seed. If the run fails, the trace ends at the failure.
    #[arg(long, value_name = "FILE.pftrace")]
    trace: Option<PathBuf>,
    /// Write what the scheduler prints with bpf_printk, a line each; for one scheduler and one seed.
    #[arg(long, value_name = "FILE.txt")]
    printk: Option<PathBuf>,
    /// Write a report with curves: one HTML file that needs no network.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write the report's diagrams as SVG files into this folder.
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// Interval of each scheduler's first run in the report's timeline: 7s..7.2s, 7s.., ..100ms
    /// [default: from 10 ms before the last task that the workload starts]; 20000 slices at most,
    /// 36000 for all schedulers together.
    #[arg(long, value_name = "FROM..TO", value_parser = window::parse, requires = "report")]
    timeline: Option<window::Range>,
    /// Write every event and every metric as Parquet files, one for each table, into this folder.
    #[arg(long, value_name = "DIR", visible_alias = "tables", group = "kept")]
    out: Option<PathBuf>,
    /// Write the events of each run to a file in this folder. tiltyard measure produces results, reports, traces and
    /// tables from them, on any machine.
    #[arg(long, value_name = "DIR", group = "kept")]
    events: Option<PathBuf>,
    /// Record what the schedulers' code reads and writes in each callback, and which runqueues are locked: two more
    /// tables (access, runqueue_lock). The run itself does not change; it only takes longer.
    #[arg(long, requires = "kept")]
    accesses: bool,
    /// Check the schedulers' code for data races: two accesses to the same memory on two CPUs, at least one of them a write
    /// and at least one plain, that no lock, barrier or other mechanism of the kernel orders. Lists each pair of source lines
    /// once; if there are any, the exit code is 12.
    #[arg(long)]
    races: bool,
    /// What each row of the comparison is, in the table, in JSON and in the report.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = ByFlag::App)]
    by: ByFlag,
    /// Output format; JSON has every metric of every run.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Do every run twice and compare the two, event by event.
    #[arg(long)]
    twice: bool,
    /// Disable the schedulers' probes, as campaigns and tiltyard explain do. Faster; reports have fewer curves. Probes cost
    /// time on the simulated machine, so metrics with and without them differ (by up to 17 % in runs that we compared).
    #[arg(long)]
    no_probes: bool,
    /// Eject a scheduler that lets a runnable task wait longer than its timeout_ms, as the kernel
    /// does [default: on, except for schedulers that declare in their presets.toml that they starve
    /// tasks by design].
    #[arg(long, value_enum, value_name = "WHEN")]
    watchdog: Option<Watchdog>,
    /// First check each scheduler with a real kernel's verifier, as tiltyard build --verify does.
    #[arg(long)]
    verify: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Watchdog {
    On,
    Off,
}

/// The workloads of a list; `None` for one, which may be a file with a comma in its name.
fn several(args: &Args) -> Result<Option<Vec<String>>, Failure> {
    let typed = &args.runs.workload;
    if !typed.contains(',') || Path::new(typed).is_file() {
        return Ok(None);
    }
    let names: Result<Vec<String>, String> = typed.split(',').map(listed).collect();
    names
        .map(Some)
        .map_err(|what| Failure::usage(format!("--workload {typed}: {what}")))
}

/// Several workloads are compared by one metric each; what only one workload can have is refused.
fn run_several(args: &Args, workloads: Vec<String>) -> Result<(), Failure> {
    let of_one = [
        ("--patch", args.runs.is_patched()),
        ("--seed", args.seed != 1),
        ("--trace", args.trace.is_some()),
        ("--printk", args.printk.is_some()),
        ("--timeline", args.timeline.is_some()),
        ("--out", args.out.is_some()),
        ("--events", args.events.is_some()),
        ("--races", args.races),
        ("--by", args.by != ByFlag::App),
        ("--twice", args.twice),
        ("--watchdog", args.watchdog.is_some()),
        ("--verify", args.verify),
    ];
    if let Some((flag, _)) = of_one.iter().find(|(_, given)| *given) {
        return Err(Failure::usage(format!(
            "{flag}: only with one workload; leave it out, or name one after -w"
        )));
    }
    campaign::run_several(&Several {
        runs: &args.runs,
        workloads,
        format: args.format,
        report: &args.report,
        figures: &args.figures,
    })
}

/// What is run, and the hashes of its texts.
struct Subject {
    workload: Workload,
    machine: Machine,
    workload_sha256: String,
    machine_sha256: String,
}

impl Subject {
    /// Reads workload and machine, and refuses options that do not fit them.
    fn load(args: &Args) -> Result<Subject, Failure> {
        let (workload, text) = args.runs.load_workload()?;
        let end_ns = args.runs.duration.or(workload.duration_ns);
        if let Some(end_ns) = end_ns {
            require_within(args.timeline, end_ns)?;
        }
        args.by.by().check(&workload).map_err(|error| {
            Failure::new(Code::NotModelled, format!("--by {error}; use --by task"))
        })?;
        let machine = machines::load(&args.runs.machine)?;
        workloads::require_cpus(&args.runs.workload, &workload, &machine)?;
        metric::require_own_possible(&workload, &machine)?;
        if args.races {
            races::require_cpus(&machine)?;
        }
        Ok(Subject {
            workload,
            machine,
            workload_sha256: tables::sha256(&text),
            machine_sha256: tables::sha256(&machines::text(&args.runs.machine)?),
        })
    }

    fn experiment(&self, args: &Args) -> Experiment<'_> {
        Experiment {
            machine: &self.machine,
            workload: &self.workload,
            duration_ns: args.runs.duration,
            watchdog: args.watchdog.map(|w| w == Watchdog::On),
            probes: !args.no_probes,
            twice: args.twice,
            races: args.races,
        }
    }
}

/// Files that were asked for; they appear when they are finished.
struct Files {
    /// Removed again if nothing is written into it.
    _figures: Option<Folder>,
    written: Written,
    report: Option<Output>,
    tables: Option<Tables>,
    events: Option<EventDir>,
}

impl Files {
    fn create(args: &Args) -> Result<Files, Failure> {
        Ok(Files {
            _figures: Folder::make(args.figures.as_deref())?,
            written: Written {
                trace: args.trace.as_deref().map(Output::create).transpose()?,
                printk: args.printk.as_deref().map(Output::create).transpose()?,
            },
            report: args.report.as_deref().map(Output::create).transpose()?,
            tables: args.out.as_deref().map(Tables::create).transpose()?,
            events: args.events.as_deref().map(EventDir::create).transpose()?,
        })
    }
}

fn seeds(args: &Args) -> Vec<u64> {
    args.runs
        .seeds
        .map_or(vec![args.seed], |n| (1..=u64::from(n)).collect())
}

/// Refuses options that make no sense together.
fn require_consistent(args: &Args, runs: usize) -> Result<(), Failure> {
    let of_one = [("--trace", &args.trace), ("--printk", &args.printk)];
    if let Some((flag, _)) = of_one.iter().find(|(_, file)| file.is_some())
        && runs != 1
    {
        return Err(Failure::usage(format!(
            "{flag}: the file is of one run; name one scheduler and one --seed"
        )));
    }
    if args.races && args.format == Format::Csv {
        return Err(Failure::usage(
            "--races: a comparison as CSV has no place for races; use --format table or json",
        ));
    }
    Ok(())
}

/// All runs, while their files are written.
fn do_runs(
    args: &Args,
    subject: &Subject,
    files: &mut Files,
    built: &[Built],
    nr_schedulers: usize,
) -> Result<Vec<Cell>, Failure> {
    let written = std::mem::take(&mut files.written);
    let (workload, duration_ns) = (&subject.workload, args.runs.duration);
    let outputs = Outputs {
        written: Mutex::new(written),
        tables: files.tables.as_ref(),
        events: files.events.as_ref(),
        shared: SimShared {
            description: workload.description.clone(),
            duration_ns,
            command: repeat_line(args, &args.runs.schedulers, None),
            schedulers: nr_schedulers,
            timeline_from_ns: window::default_start_ns(workload, duration_ns),
        },
        timeline: files.report.as_ref().map(|_| {
            let range = args.timeline.unwrap_or_default();
            window::of(range, workload, duration_ns, nr_schedulers)
        }),
        workload_sha256: subject.workload_sha256.clone(),
        machine_sha256: subject.machine_sha256.clone(),
        command: &|scheduler, seed| repeat_line(args, &[scheduler.to_owned()], Some(seed)),
    };
    let runs = Grid {
        experiment: &subject.experiment(args),
        schedulers: built,
        seeds: &seeds(args),
        by: args.by.by(),
        threads: args.runs.threads(),
    };
    grid::run(&runs, &outputs, &Bar::new()).map_err(|error| Failure::from(error).within("--jobs"))
}

pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(workloads) = several(args)? {
        return run_several(args, workloads);
    }
    let choices = schedulers::choose_all(&args.runs.schedulers)?;
    require_consistent(args, choices.len() * seeds(args).len())?;
    let subject = Subject::load(args)?;
    let mut files = Files::create(args)?;
    let mut gathered = Gathered::default();
    let built = build_all(args, &choices, &mut gathered)?;
    // Compilers run once for each scheduler: their time says nothing about the runs.
    let begun = Instant::now();
    for warning in built.iter().flat_map(|b| b.warnings(&subject.machine)) {
        say!("tiltyard: warning: {warning}");
    }
    let cells = do_runs(args, &subject, &mut files, &built, choices.len())?;
    gathered.add(args, &built, cells);
    if gathered.runs.is_empty() {
        publish_nothing(args, &gathered, built.is_empty())?;
    } else {
        finish(args, &subject, &mut gathered, files, begun)?;
    }
    gathered.note_races();
    give_hints(args, &gathered, &built);
    gathered.first_failure.map_or(Ok(()), |code| {
        Err(Failure {
            code,
            faults: Vec::new(),
            details: None,
        })
    })
}

/// Moves all files to where they belong and prints the comparison.
fn finish(
    args: &Args,
    subject: &Subject,
    gathered: &mut Gathered,
    files: Files,
    begun: Instant,
) -> Result<(), Failure> {
    let moved = temporary::undisturbed();
    if let Some(tables) = files.tables {
        tables.finish(std::mem::take(&mut gathered.files))?;
    }
    if let Some(events) = files.events {
        events.finish()?;
    }
    let wall_s = begun.elapsed().as_secs_f64();
    publish(args, subject, gathered, files.report, wall_s, moved)
}

/// What a user may want to do next. After a failure, that would only distract from it.
fn give_hints(args: &Args, gathered: &Gathered, built: &[Built]) {
    if args.twice && !gathered.runs.is_empty() {
        // Runs that differ have already failed: the remaining ones agree.
        say!("tiltyard: --twice: each run was done twice with identical events");
    }
    if gathered.lines_printed > 0 && args.printk.is_none() {
        say!(
            "tiltyard: messages printed with bpf_printk(): {}; --printk FILE.txt writes those of one run",
            gathered.lines_printed
        );
    }
    for hint in built
        .iter()
        .filter(|_| gathered.first_failure.is_none())
        .filter_map(verification::hint)
    {
        say!("tiltyard: {hint}");
    }
}

/// Says what is missing if no run succeeded; a scheduler that did not build has left no trace either.
fn publish_nothing(args: &Args, gathered: &Gathered, none_built: bool) -> Result<(), Failure> {
    let of_run = [&args.trace, &args.printk]
        .into_iter()
        .filter(|_| none_built);
    let files = [&args.report, &args.figures, &args.out, &args.events];
    for file in files.into_iter().chain(of_run).flatten() {
        let file = file.display();
        say!("tiltyard: {file}: not written, because no run succeeded");
    }
    if args.format != Format::Json {
        return Ok(());
    }
    let all = serde_json::json!({ "runs": [], "failures": gathered.failures });
    super::print(&format!("{all:#}\n"))
}

/// The schedulers that could be built; the failures of others are printed. A mistake in the command line ends it.
fn build_all(
    args: &Args,
    choices: &[Choice],
    gathered: &mut Gathered,
) -> Result<Vec<Built>, Failure> {
    let steps = Steps::new();
    let mut built = Vec::new();
    for choice in choices {
        steps.step(&format!("building {}", choice.label));
        let scheduler = objects::native(choice, args.accesses || args.races);
        let verified = scheduler.and_then(|scheduler| {
            if args.verify {
                verification::require(&scheduler, &steps)?;
            }
            Ok(scheduler)
        });
        match verified {
            Ok(scheduler) => built.push(scheduler),
            Err(error @ (Error::Argument { .. } | Error::Request(_))) => return Err(error.into()),
            Err(error) => steps.suspend(|| gathered.add_unbuilt(&choice.label, error.into())),
        }
    }
    Ok(built)
}

/// The command that repeats these runs, without options that only choose where results go.
fn repeat_line(args: &Args, labels: &[String], seed: Option<u64>) -> String {
    let mut words = Vec::new();
    let mut add = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
    match (seed, args.runs.seeds) {
        (Some(seed), _) => add("--seed", seed.to_string()),
        (None, Some(seeds)) => add("--seeds", seeds.to_string()),
        (None, None) if args.seed != 1 => add("--seed", args.seed.to_string()),
        (None, None) => {}
    }
    if let Some(watchdog) = args.watchdog {
        add("--watchdog", format!("{watchdog:?}").to_lowercase());
    }
    if args.by != ByFlag::App {
        add("--by", args.by.by().name().to_owned());
    }
    if args.races {
        words.push("--races".to_owned());
    }
    if args.no_probes {
        words.push("--no-probes".to_owned());
    }
    args.runs.shell_line("run", labels, &words)
}

/// Writes the report, the last of the outputs that are `moved`, and prints the comparison.
fn publish(
    args: &Args,
    subject: &Subject,
    gathered: &Gathered,
    report: Option<Output>,
    wall_s: f64,
    moved: Undisturbed,
) -> Result<(), Failure> {
    let command = repeat_line(args, &args.runs.schedulers, None);
    let (workload, machine) = (&subject.workload, &subject.machine);
    let results = SimResults {
        shared: Shared {
            workload: &workload.name,
            workload_sha256: Some(&subject.workload_sha256),
            about: &workload.description,
            duration_ns: args.runs.duration,
            machine: &machine.name,
            machine_sha256: Some(&subject.machine_sha256),
            about_machine: &machine.description,
            nr_cpus: machine.nr_cpus(),
            nodes: machine.cpus.iter().map(|cpu| cpu.node).collect(),
            by: args.by.by(),
            command: &command,
        },
        runs: &gathered.runs,
        views: &gathered.views,
        timelines: &gathered.timelines,
        failures: &gathered.failures,
        failed: &gathered.failed,
    };
    let comparison = results.comparison();
    results.draw(&comparison, report, args.figures.as_deref())?;
    drop(moved);
    match args.format {
        Format::Json => super::print(&results.json(&comparison)),
        Format::Csv => super::print(&csv::comparison(&comparison)),
        Format::Table => {
            let mut page = results.headline(&format!("in {wall_s:.1} s")) + "\n\n";
            page += &table::render(&comparison, terminal::width());
            page += "\n";
            for (label, runs) in gathered.runs.iter().filter(|_| args.races) {
                page += &Found::of(label, runs).page();
            }
            page += &super::written(&[
                ("Report", args.report.as_deref()),
                ("Figures", args.figures.as_deref()),
                ("Trace", args.trace.as_deref()),
                ("Printk", args.printk.as_deref()),
                ("Tables", args.out.as_deref()),
                ("Events", args.events.as_deref()),
            ]);
            page += &format!("Repeat  {command}\n");
            super::print(&page)
        }
    }
}
