// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard explain`: which mechanisms make two schedulers differ, and how much each.

use std::path::PathBuf;

use tiltyard_report::{explanation, html};
use tiltyard_runner::explain::{self, Answer, Question};
use tiltyard_runner::objects::{self, Built};
use tiltyard_runner::output::{self, Folder, Output};
use tiltyard_runner::reproduce::Cache;
use tiltyard_runner::schedulers::Choice;
use tiltyard_runner::temporary;
use tiltyard_runner::{Error, Progress, machines, schedulers, workloads};

use crate::failure::Failure;
use crate::flags::{RunFlags, listed};
use crate::progress::{Bar, Steps};
use crate::{interrupt, terminal};

/// Explain why two schedulers differ on a workload: which mechanisms make the difference in a metric, and how much each.
///
/// The difference is the second scheduler's metric minus the first's.
///
/// Mechanisms are parts of the machine (the cost of switches, of refilled caches, of the scheduler's own code, of looking
/// at other CPUs; the kernel's own threads) and of the schedulers (what their presets.toml declares: wakeup preemption,
/// placement, balancing, stealing). Runs with some of them switched off, for both schedulers at once, give each one's share
/// of the difference. Shares, and what remains with everything switched off, add up to the difference.
#[derive(Debug, clap::Args)]
#[command(mut_arg("schedulers", |of| of.help("The two schedulers, A,B: shipped ones, presets, \
    NAME:tunable=value:..., or paths to .bpf.c files").long_help(None)))]
#[command(after_help = "\
Examples:
  tiltyard explain -w apache -s ule,cfs
      Why cfs serves fewer requests than ule.
  tiltyard explain -w apache -s ule,cfs --seeds 10 --report why.html
      Medians over ten seeds with intervals, and a waterfall chart in one offline HTML file.
  tiltyard explain -w apache -s ule,cfs --metric wakeup_latency_us_p99
      Another metric; the runs are cached.
  tiltyard explain -w mine.json -s fifo,./my.bpf.c -m smp4 --duration 5s
      A scheduler that declares no mechanisms: only the machine's are switched off.

Up to six mechanisms are switched off in all combinations; more in some orders, always the same ones, and shares then have intervals. The schedulers' probes are disabled, as with tiltyard run --no-probes.")]
pub struct Args {
    #[command(flatten)]
    runs: RunFlags,
    /// Metric to explain: a name from tiltyard compare FILE --list-metrics, in full or only its last part [default: the
    /// metric named in the workload file, else throughput, else completion time, else the first headline metric].
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Only these mechanisms, separated by commas: with at most six, shares are exact, and fewer need fewer runs [default: all].
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = listed)]
    mechanisms: Vec<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write a report with a waterfall chart: one HTML file that needs no network.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write the chart as an SVG file into this folder.
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// Ignore cached results.
    #[arg(long)]
    no_cache: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Human-readable.
    Text,
    Json,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let choices = schedulers::choose_all(&args.runs.schedulers)?;
    let [a, b] = choices.as_slice() else {
        let line = format!(
            "--scheduler: a difference is of two schedulers, not of {}; write -s A,B",
            choices.len()
        );
        return Err(Failure::usage(line));
    };
    let (workload, text) = args.runs.load_workload()?;
    let machine = machines::load(&args.runs.machine)?;
    workloads::require_cpus(&args.runs.workload, &workload, &machine)?;
    let _figures = Folder::make(args.figures.as_deref())?;
    let report = args.report.as_deref().map(Output::create).transpose()?;
    let schedulers = [build(a)?, build(b)?];
    let seeds: Vec<u64> = (1..=u64::from(args.runs.seeds.unwrap_or(1))).collect();
    let question = Question {
        machine: &machine,
        workload: &workload,
        workload_text: &text,
        duration_ns: args.runs.duration,
        schedulers: &schedulers,
        seeds: &seeds,
        metric: args.metric.as_deref(),
        mechanisms: &args.mechanisms,
        threads: args.runs.threads(),
        command: &repeat_line(args),
    };
    let cache = Cache::open(!args.no_cache);
    if cache.keeps() {
        interrupt::results_are_kept();
    }
    let answer = explain::explain(&question, &cache, &Bar::new());
    for line in cache.complaints() {
        say!("tiltyard: {line}");
    }
    let answer = answer.map_err(|error| failed(args, error))?;
    publish(args, &answer, report)
}

/// Adds the command that repeats the explanation, if a run failed.
fn failed(args: &Args, error: Error) -> Failure {
    let is_of_run =
        matches!(&error, Error::Within { error, .. } if matches!(**error, Error::Sim(_)));
    let mut failure = Failure::from(error);
    if is_of_run && let Some(fault) = failure.faults.last_mut() {
        fault.line += &format!("\nRepeat  {}", repeat_line(args));
    }
    failure
}

fn build(choice: &Choice) -> Result<Built, Failure> {
    let steps = Steps::new();
    steps.step(&format!("building {}", choice.label));
    Ok(objects::native(choice, false)?)
}

/// The command that gives the same answer.
fn repeat_line(args: &Args) -> String {
    let mut words = Vec::new();
    let mut add = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
    if let Some(metric) = &args.metric {
        add("--metric", metric.clone());
    }
    if !args.mechanisms.is_empty() {
        add("--mechanisms", args.mechanisms.join(","));
    }
    if let Some(seeds) = args.runs.seeds {
        add("--seeds", seeds.to_string());
    }
    args.runs
        .shell_line("explain", &args.runs.schedulers, &words)
}

fn publish(args: &Args, answer: &Answer, report: Option<Output>) -> Result<(), Failure> {
    let explanation = &answer.explanation;
    let moved = temporary::undisturbed();
    if let Some(file) = report {
        file.fill(html::render_explanation(explanation).as_bytes())?;
    }
    if let Some(dir) = &args.figures {
        output::write_all(dir, &html::explanation_figures(explanation))?;
    }
    drop(moved);
    if args.format == Format::Json {
        return super::print(&answer.json());
    }
    let mut page = format!("{}, {} runs\n\n", explanation.title, answer.runs);
    page += &explanation::text(explanation, terminal::width());
    page += "\n";
    page += &super::written(&[
        ("Report", args.report.as_deref()),
        ("Figures", args.figures.as_deref()),
    ]);
    page += &format!("Repeat  {}\n", explanation.command);
    super::print(&page)
}
