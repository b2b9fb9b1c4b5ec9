// SPDX-License-Identifier: GPL-2.0-or-later
//! How a run in the simulated machine ended, in words: runs that a scheduler cut short or spoilt are failures,
//! whatever their metrics show.

use serde_json::json;
use tiltyard_environment::EnvironmentError;
use tiltyard_native::LoadError;
use tiltyard_sim::{Exit, ExitKind, Outcome, RunError, Stranded};

use crate::failure::{Code, Failure};

/// Tasks that a message names; JSON has all.
const NAMED: usize = 5;

/// What is wrong with a run that the engine completed, if anything is.
pub fn judge(outcome: &Outcome) -> Option<Failure> {
    let exit = &outcome.exit;
    let failure = match (exit.kind, &outcome.stranded) {
        (ExitKind::UnregBpf, _) => Failure::new(Code::Left, left(outcome)),
        (kind, _) if kind.is_error() => Failure::new(Code::Scheduler, ejected(outcome)),
        (_, Some(stranded)) => Failure::new(Code::Stranded, waiting(stranded)),
        _ => return None,
    };
    let code = failure.code as u8;
    Some(failure.with_details(json!({
        "exit_code": code,
        "scheduler_name": exit.name,
        "kind": exit.kind.reason(),
        "code": exit.code,
        "message": exit.message,
        "place": exit.place,
        "time_ns": exit.time_ns.saturating_sub(outcome.origin_ns),
        "dump": exit.dump,
        "waiting_in_vain": outcome.stranded.as_ref().map(|s| &s.tasks),
    })))
}

/// The scheduler unloaded itself.
fn left(outcome: &Outcome) -> String {
    let exit = &outcome.exit;
    let message = match exit.message.trim() {
        "" => "no message",
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
        exit.message,
        place_and_time(exit, outcome.origin_ns),
    );
    if !exit.dump.trim().is_empty() {
        line += &format!("\n{}", shortened(&exit.dump));
    }
    line
}

/// "10 tasks never ran, ...; DSQ 0 was filled and never consumed"
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
    format!(
        "{count} {tasks} {what}, although CPU {} was idle: {named}; {}",
        stranded.idle_cpu,
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
pub fn by_error(error: &RunError, origin_ns: u64) -> Failure {
    let code = match error {
        RunError::Load(
            LoadError::UnknownGlobal { .. }
            | LoadError::ValueRange { .. }
            | LoadError::Array { .. },
        )
        | RunError::Environment(EnvironmentError::TooManyCpus { .. }) => Code::Usage,
        RunError::Environment(_) => Code::Input,
        RunError::Load(LoadError::Unbound(_)) | RunError::NotModelled(_) => Code::NotModelled,
        RunError::Load(_) | RunError::Crash { .. } | RunError::Scheduler(_) => Code::Scheduler,
        RunError::Workload(_) => Code::Workload,
    };
    let mut line = error.to_string();
    if let RunError::Crash { time_ns, place, .. } = error {
        let when = when(*time_ns, origin_ns);
        line += &match place {
            Some(place) => format!(" ({place}, {when})"),
            None => format!(" ({when})"),
        };
    }
    let details = json!({ "exit_code": code as u8, "message": line });
    Failure::new(code, line).with_details(details)
}
