// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a run in a real kernel failed.

use std::fmt;

use tiltyard_kernel::{CommandStatus, RunOutcome, RunReport};

/// What failed in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Culprit {
    /// The scheduler was not loaded or was ejected, or the kernel's own did not come back.
    Scheduler,
    /// The table `[environment]` beside the scheduler.
    Input,
    /// The scheduler left by itself: scx_bpf_exit.
    LeavingScheduler,
    /// One of the kernel's own limits: it ejects whatever scheduler is loaded when RCU or a CPU makes no progress.
    StallLimit,
    /// The command or the workload.
    Workload,
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFault {
    /// What failed.
    pub culprit: Culprit,
    /// The scheduler, and what happened.
    pub line: String,
}

impl fmt::Display for KernelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

/// Why a run failed, if it did.
pub fn fault(run: &RunReport) -> Option<KernelFault> {
    if run.is_success() {
        return None;
    }
    let (mut culprit, mut line) = match &run.outcome {
        RunOutcome::NotLoaded {
            reason, is_input, ..
        } => {
            let culprit = match is_input {
                true => Culprit::Input,
                false => Culprit::Scheduler,
            };
            let line = format!("scheduler not loaded: {}", first_and_last(reason));
            (culprit, line)
        }
        RunOutcome::Ran {
            exit: Some(exit), ..
        } if exit.is_ejection() => {
            let words = [exit.reason.as_str(), &exit.msg].map(str::trim);
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            let (culprit, how) = match exit.is_own_decision() {
                true => (
                    Culprit::LeavingScheduler,
                    format!("exited by itself, code {}", exit.exit_code),
                ),
                false if is_stall(&exit.msg) => (Culprit::StallLimit, "ejected".to_owned()),
                false => (Culprit::Scheduler, "ejected".to_owned()),
            };
            let mut why = words.join(": ");
            if culprit == Culprit::StallLimit {
                why += &format!(" {STALL}");
            }
            (
                culprit,
                format!("scheduler {how}: {why} ({})", exit.kind_name),
            )
        }
        RunOutcome::Ran {
            command: CommandStatus::Ejected,
            ..
        } => {
            let why = "it records no reason (UEI_DEFINE in its source would)";
            (Culprit::Scheduler, format!("scheduler ejected: {why}"))
        }
        RunOutcome::Ran { command, .. } => {
            (Culprit::Workload, format!("command {}", status(command)))
        }
    };
    if !run.default_is_back() {
        culprit = Culprit::Scheduler;
        line += &format!(
            "; the kernel's own scheduler is NOT back (sched_ext {})",
            run.state_after
        );
    }
    let line = format!("{}: {line}", run.scheduler);
    Some(KernelFault { culprit, line })
}

/// How the kernel's watchdogs begin when they take a loaded scheduler down with them (`scx_rcu_cpu_stall`,
/// `scx_softlockup`, `scx_hardlockup`). Its own watchdog says "runnable task stall": that is the scheduler's fault.
const WATCHDOGS: [&str; 3] = ["RCU CPU stall", "soft lockup", "hard lockup"];

/// What such an ejection means, and a way out.
const STALL: &str = "- a limit of this kernel, not the scheduler's watchdog: a task that was preempted, or that held a CPU, made no \
    progress for too long, because of the load, slow CPUs or the scheduler; --kernel-args can raise it \
    (rcupdate.rcu_cpu_stall_timeout=300 watchdog_thresh=60)";

fn is_stall(message: &str) -> bool {
    WATCHDOGS.iter().any(|watchdog| message.contains(watchdog))
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

    fn fault_of(kind_name: &str) -> KernelFault {
        fault_saying(kind_name, "had enough")
    }

    fn fault_saying(kind_name: &str, message: &str) -> KernelFault {
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
                    "reason": "unregistered from BPF", "msg": message, "dump": ""
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
        assert_eq!(left.culprit, Culprit::LeavingScheduler);
        let line = "leaver: scheduler exited by itself, code 42: unregistered from BPF: had enough (SCX_EXIT_UNREG_BPF)";
        assert!(left.to_string().contains(line), "{left}");
        let ejected = fault_of("SCX_EXIT_ERROR");
        assert_eq!(ejected.culprit, Culprit::Scheduler);
        assert!(
            ejected.to_string().contains("scheduler ejected: "),
            "{ejected}"
        );
    }

    #[test]
    fn a_fault_of_a_presets_file_is_not_the_schedulers() {
        let culprit = |is_input: serde_json::Value| {
            let run = serde_json::json!({
                "scheduler": "mine",
                "round": 1,
                "tunables": [],
                "outcome": { "outcome": "not_loaded", "reason": "why", "exit": null, "is_input": is_input },
                "complaints": [],
                "state_after": "disabled",
            });
            fault(&serde_json::from_value(run).unwrap())
                .unwrap()
                .culprit
        };
        assert_eq!(culprit(true.into()), Culprit::Input);
        assert_eq!(culprit(false.into()), Culprit::Scheduler);
    }

    #[test]
    fn a_limit_of_the_kernel_is_not_the_schedulers_fault() {
        for message in [
            "RCU CPU stall detected!",
            "soft lockup - CPU#3 stuck for 48s",
        ] {
            let stalled = fault_saying("SCX_EXIT_ERROR", message);
            assert_eq!(stalled.culprit, Culprit::StallLimit);
            let line = stalled.to_string();
            assert!(
                line.contains(message) && line.contains("--kernel-args"),
                "{line}"
            );
        }
        let starved = fault_saying("SCX_EXIT_ERROR_STALL", "t[7] failed to run for 30.1s");
        assert_eq!(starved.culprit, Culprit::Scheduler);
    }
}
