// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard exec`: a workload with real threads.

use comfy_table::{CellAlignment, Table, presets};
use tiltyard_exec::{ExecError, ExecOutcome, Setup};
use tiltyard_runner::duration::{self, DurationError};
use tiltyard_runner::workloads;
use tiltyard_workload::Workload;

use super::TableOrJson as Format;
use crate::failure::{Code, Failure};
use crate::flags::listed;

/// Run a workload with real threads under this machine's current scheduler.
///
/// Every task becomes a thread or a process of this machine, with the names, the random draws and the
/// order of operations of the simulated machine. The shells that start them sleep first, for the
/// time given in the file: usually 5 s before anything runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tiltyard exec -w pingpong --duration 2s
  tiltyard exec -w mine.json --history 0s --format json
  tiltyard exec -w hackbench --calibration 5800     # the same speed in every run that is compared

Priorities above normal, realtime policies and cgroups need root; each is an error or a note.")]
pub struct Args {
    /// A shipped workload (tiltyard list workloads) or an rt-app JSON file.
    #[arg(short, long, value_name = "W", value_parser = listed)]
    workload: String,
    /// End the run after this much time: 10s, 500ms. Default: the workload's own end.
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ns)]
    duration: Option<u64>,
    /// The seed of all random draws.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Shells sleep at most this long before the workload starts [default: the file's value].
    #[arg(long, value_name = "TIME", value_parser = parse_history_ns)]
    history: Option<u64>,
    /// Time of 1000 steps of `run`, as printed by an earlier run [default: measured].
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(u64).range(1..))]
    calibration: Option<u64>,
    /// For guests whose clock counts instructions: measure `run` by the task's own CPU clock, and make tasks threads of
    /// the shell that starts them.
    #[arg(long, conflicts_with = "calibration")]
    exact: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// A history of zero is allowed, too.
pub(super) fn parse_history_ns(text: &str) -> Result<u64, DurationError> {
    if text.trim_end_matches(char::is_alphabetic) == "0" {
        return Ok(0);
    }
    duration::parse_ns(text)
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let workload = workloads::load(&args.workload)?;
    workloads::require_end(&args.workload, &workload, args.duration)?;
    let setup = Setup {
        duration_ns: args.duration,
        seed: args.seed,
        history_limit_ns: args.history.unwrap_or(u64::MAX),
        calibration_ns: args.calibration,
        exact: args.exact,
        ..Setup::default()
    };
    let mut notes = Vec::new();
    let outcome = tiltyard_exec::run(&workload, &setup, &mut |note| {
        say!("tiltyard: note: {}: {note}", args.workload);
        notes.push(note.to_owned());
    });
    let outcome = outcome.map_err(|error| failure(&args.workload, &error))?;
    super::print(&match args.format {
        Format::Json => json(&workload, args.seed, &notes, &outcome),
        Format::Table => page(&workload, &outcome),
    })
}

fn failure(workload: &str, error: &ExecError) -> Failure {
    let code = match error {
        ExecError::Workload(_) => Code::Workload,
        ExecError::Environment(_) => Code::Environment,
        ExecError::NotModelled(_) => Code::NotModelled,
    };
    Failure::new(code, format!("{workload}: {error}"))
}

fn json(workload: &Workload, seed: u64, notes: &[String], outcome: &ExecOutcome) -> String {
    let all = serde_json::json!({
        "workload": workload.name,
        "seed": seed,
        "notes": notes,
        "outcome": outcome,
    });
    format!("{all:#}\n")
}

fn page(workload: &Workload, outcome: &ExecOutcome) -> String {
    let end = if outcome.done {
        "all tasks have ended"
    } else {
        "the time was up"
    };
    let mut page = format!(
        "{} with real threads: {:.3} s, {end}; calibration {} ns\n\n",
        workload.name,
        outcome.duration_ns as f64 / 1e9,
        outcome.calibration_ns
    );
    let tasks = outcome.tasks.iter().map(|t| {
        let cpu_s = format!("{:.3}", t.cpu_ns as f64 / 1e9);
        vec![
            t.name.clone(),
            t.started.to_string(),
            t.ended.to_string(),
            cpu_s,
        ]
    });
    page += &table(&["task", "started", "ended", "CPU s"], tasks);
    if !outcome.requests.is_empty() {
        let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
        let requests = outcome.requests.iter().map(|r| {
            let mut row = vec![
                r.name.clone(),
                r.count.to_string(),
                format!("{:.1}", r.per_s),
            ];
            row.extend(match &r.latency {
                Some(l) => [us(l.p50_ns), us(l.p99_ns), us(l.max_ns)],
                None => ["-", "-", "-"].map(str::to_owned),
            });
            row
        });
        let heads = ["request", "count", "per s", "p50 us", "p99 us", "max us"];
        page += &("\n".to_owned() + &table(&heads, requests));
    }
    page
}

fn table(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(heads.iter());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let lines = table.lines().map(|l| l.trim_end().to_owned() + "\n");
    lines.collect()
}
