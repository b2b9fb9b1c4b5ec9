// SPDX-License-Identifier: GPL-2.0-or-later
//! The result of a run in a real kernel: errors, and the workload's own measurements.

use std::path::Path;

use serde::Deserialize;
use tiltyard_exec::Outcome;
use tiltyard_kernel::protocol::{CommandStatus, RunOutcome, RunReport};

use crate::failure::{Code, Failure};

/// The needed parts of what `tiltyard exec --format json` prints.
#[derive(Debug, Deserialize)]
pub struct Printed {
    /// Deviations from the file.
    pub notes: Vec<String>,
    pub outcome: Outcome,
}

impl Printed {
    /// From all output: notes come first, on its standard error.
    pub fn parse(text: &str) -> Result<Printed, String> {
        let json = text.find('{').map_or("", |at| &text[at..]);
        serde_json::from_str(json).map_err(|e| format!("the workload's result: {e}: {text}"))
    }
}

/// The command that runs a workload file with real threads; further arguments may follow.
pub fn command(workload: &Path) -> Result<Vec<String>, Failure> {
    let program = std::env::current_exe()
        .map_err(|e| Failure::new(Code::Environment, format!("tiltyard itself: {e}")))?;
    let (program, workload) = (
        program.display().to_string(),
        workload.display().to_string(),
    );
    let words = [&*program, "exec", "--format", "json", "-w", &*workload];
    Ok(words.map(str::to_owned).to_vec())
}

/// Why a run failed, if it did.
pub fn fault(run: &RunReport) -> Option<Failure> {
    if run.is_success() {
        return None;
    }
    let (mut code, mut line) = match &run.outcome {
        RunOutcome::NotLoaded { reason, .. } => (
            Code::Scheduler,
            format!("scheduler not loaded: {}", first_and_last(reason)),
        ),
        RunOutcome::Ran {
            exit: Some(exit), ..
        } if exit.is_ejection() => {
            let words = [exit.reason.as_str(), &exit.msg].map(str::trim);
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            let (code, how) = match exit.is_own_decision() {
                true => (
                    Code::Left,
                    format!("exited by itself, code {}", exit.exit_code),
                ),
                false => (Code::Scheduler, "ejected".to_owned()),
            };
            let why = words.join(": ");
            (code, format!("scheduler {how}: {why} ({})", exit.kind_name))
        }
        RunOutcome::Ran {
            command: CommandStatus::Ejected,
            ..
        } => {
            let why = "it records no reason (UEI_DEFINE in its source would)";
            (Code::Scheduler, format!("scheduler ejected: {why}"))
        }
        RunOutcome::Ran { command, .. } => (Code::Workload, format!("command {}", status(command))),
    };
    if !run.default_is_back() {
        code = Code::Scheduler;
        line += &format!(
            "; the kernel's own scheduler is NOT back (sched_ext {})",
            run.state_after
        );
    }
    Some(Failure::new(code, format!("{}: {line}", run.scheduler)))
}

/// Of many lines of output, what was done and how it ended.
fn first_and_last(text: &str) -> String {
    let mut lines = text.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    match lines.next_back() {
        None => first.to_owned(),
        Some(last) if first.ends_with(':') => format!("{first} {last}"),
        Some(last) => format!("{first}; {last}"),
    }
}

/// How a command ended, in words.
pub fn status(command: &CommandStatus) -> String {
    match command {
        CommandStatus::Exited { code } => format!("exited with {code}"),
        CommandStatus::Signalled { signal } => format!("killed by signal {signal}"),
        CommandStatus::TimedOut { limit_s } => format!("killed: over the limit of {limit_s} s"),
        CommandStatus::OverMemory { limit_mib } => {
            format!("killed: over the limit of {limit_mib} MiB of memory")
        }
        CommandStatus::Stopped { reason } => format!("killed: {reason}"),
        CommandStatus::Ejected => "killed: the kernel ejected the scheduler".to_owned(),
        CommandStatus::NotStarted { reason } => format!("not started: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault_of(kind_name: &str) -> Failure {
        let run = serde_json::json!({
            "scheduler": "leaver",
            "round": 1,
            "tunables": [],
            "outcome": {
                "outcome": "ran",
                "ops_name": "leaver",
                "command": { "status": "ejected" },
                "scores": [],
                "exit": {
                    "kind": 65, "kind_name": kind_name, "exit_code": 42,
                    "reason": "unregistered from BPF", "msg": "had enough", "dump": ""
                },
                "deviations": [],
                "load_ms": 1, "command_ms": 1, "unload_ms": 1,
            },
            "complaints": [],
            "state_after": "disabled",
        });
        let run: RunReport = serde_json::from_value(run).unwrap();
        fault(&run).expect("it did not go well")
    }

    #[test]
    fn leaving_is_not_being_ejected() {
        let left = fault_of("SCX_EXIT_UNREG_BPF");
        assert_eq!(left.code as u8, 10);
        let line = "leaver: scheduler exited by itself, code 42: unregistered from BPF: had enough (SCX_EXIT_UNREG_BPF)";
        assert!(left.to_string().contains(line), "{left}");
        let ejected = fault_of("SCX_EXIT_ERROR");
        assert_eq!(ejected.code as u8, 5);
        assert!(
            ejected.to_string().contains("scheduler ejected: "),
            "{ejected}"
        );
    }
}
