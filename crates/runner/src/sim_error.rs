// SPDX-License-Identifier: GPL-2.0-or-later
//! How a run in the simulated machine failed, in words: runs that a scheduler cut short or spoilt are failures,
//! whatever their metrics show.

use std::fmt;

use tiltyard_sim::{Exit, ExitKind, Outcome, RunError, Stranded};

/// Tasks that a message names.
const NAMED: usize = 5;

/// Why a run has no metrics.
#[derive(Debug)]
pub enum SimError {
    /// The scheduler unloaded itself (scx_bpf_exit).
    Left(Box<Outcome>),
    /// The core ejected the scheduler: an error exit, a stall.
    Ejected(Box<Outcome>),
    /// Tasks waited to the end, beside idle CPUs or because the scheduler had lost them.
    Stranded(Box<Outcome>, Stranded),
    /// The engine could not continue.
    Engine {
        /// Why not.
        error: RunError,
        /// When the workload started, on the clock of the error.
        origin_ns: u64,
    },
    /// The engine panicked.
    Panicked,
    /// The same run, done twice, had different events: the hashes of both.
    Differs(String, String),
}

impl SimError {
    /// What is wrong with a run that the engine completed, if anything is.
    pub fn of(outcome: &Outcome) -> Option<SimError> {
        let owned = || Box::new(outcome.clone());
        match (outcome.exit.kind, &outcome.stranded) {
            (ExitKind::UnregBpf, _) => Some(SimError::Left(owned())),
            (kind, _) if kind.is_error() => Some(SimError::Ejected(owned())),
            (_, Some(stranded)) => Some(SimError::Stranded(owned(), stranded.clone())),
            _ => None,
        }
    }

    /// Of a run that the engine completed.
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            SimError::Left(outcome)
            | SimError::Ejected(outcome)
            | SimError::Stranded(outcome, _) => Some(outcome),
            _ => None,
        }
    }
}

impl std::error::Error for SimError {}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            SimError::Left(outcome) => left(outcome),
            SimError::Ejected(outcome) => ejected(outcome),
            SimError::Stranded(_, stranded) => waiting(stranded),
            SimError::Engine { error, origin_ns } => cannot_continue(error, *origin_ns),
            SimError::Panicked => {
                "the simulator panicked, which is a defect of Tiltyard's".to_owned()
            }
            SimError::Differs(first, second) => {
                format!("two runs differ ({first} and {second}), which is a defect of Tiltyard's")
            }
        })
    }
}

/// The scheduler unloaded itself.
fn left(outcome: &Outcome) -> String {
    let exit = &outcome.exit;
    let message = match one_line(&exit.message) {
        message if message.is_empty() => "no message".to_owned(),
        message => message,
    };
    format!(
        "scheduler {} exited by itself: {}, code {}: {message} ({}); the run was cut short and is not compared",
        exit.name,
        exit.kind.reason(),
        code_word(exit.code),
        place_and_time(exit, outcome.origin_ns),
    )
}

/// A scheduler's message where errors have one line each.
fn one_line(message: &str) -> String {
    message.trim().replace('\n', "\\n")
}

/// Small codes are numbers, large ones bit patterns.
fn code_word(code: i64) -> String {
    if code.unsigned_abs() < 1 << 16 {
        code.to_string()
    } else {
        format!("{code:#x}")
    }
}

/// The core ejected the scheduler.
fn ejected(outcome: &Outcome) -> String {
    let exit = &outcome.exit;
    let mut line = format!(
        "scheduler {} ejected: {}: {} ({})",
        exit.name,
        exit.kind.reason(),
        one_line(&exit.message),
        place_and_time(exit, outcome.origin_ns),
    );
    if !exit.dump.trim().is_empty() {
        line += &format!("\n{}", shortened(&exit.dump));
    }
    line
}

/// "10 tasks never ran, although CPU 0 was idle: ...; DSQ 0 was filled and never consumed"
fn waiting(stranded: &Stranded) -> String {
    let count = stranded.tasks.len();
    let mut named = stranded.tasks[..count.min(NAMED)].join(", ");
    if count > NAMED {
        named += &format!(" and {} more", count - NAMED);
    }
    let tasks = if count == 1 { "task" } else { "tasks" };
    let what = match stranded.never_ran {
        0 => "never ran again".to_owned(),
        some if some < count => format!("never ran or never ran again ({some} never ran at all)"),
        _ => "never ran".to_owned(),
    };
    let idle = stranded
        .idle_cpu
        .map_or_else(String::new, |cpu| format!(", although CPU {cpu} was idle"));
    format!(
        "{count} {tasks} {what}{idle}: {named}; {}",
        stranded.places.join(", "),
    )
}

fn place_and_time(exit: &Exit, origin_ns: u64) -> String {
    let when = if exit.loaded {
        when(exit.time_ns, origin_ns)
    } else {
        "while it was loaded".to_owned()
    };
    match &exit.place {
        Some(place) => format!("{place}, {when}"),
        None => when,
    }
}

fn when(time_ns: u64, origin_ns: u64) -> String {
    match time_ns.checked_sub(origin_ns) {
        Some(ns) => format!("at {:.6} s of the run", ns as f64 / 1e9),
        None => "before the workload started".to_owned(),
    }
}

/// The state of CPUs with the first tasks.
fn shortened(dump: &str) -> String {
    let is_task = |line: &str| line.starts_with(" *R ") || line.starts_with("  R ");
    let tasks = dump.lines().filter(|l| is_task(l)).count();
    let mut seen = 0;
    let mut out: Vec<&str> = Vec::new();
    for line in dump.trim_end().lines() {
        seen += usize::from(is_task(line));
        if seen > NAMED {
            break;
        }
        out.push(line);
    }
    let mut out = out.join("\n");
    if tasks > NAMED {
        out += &format!(
            "\n... and {} more tasks: --format json has all",
            tasks - NAMED
        );
    }
    out
}

/// A run that the engine could not continue.
fn cannot_continue(error: &RunError, origin_ns: u64) -> String {
    let mut line = error.to_string();
    if let RunError::Crash { time_ns, place, .. } = error {
        let when = when(*time_ns, origin_ns);
        line += &match place {
            Some(place) => format!(" ({place}, {when})"),
            None => format!(" ({when})"),
        };
    }
    line
}
