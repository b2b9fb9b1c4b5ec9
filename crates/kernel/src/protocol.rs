// SPDX-License-Identifier: GPL-2.0-or-later
//! What host and guest say to each other: a job goes in with the initramfs, messages come
//! back one JSON object a line over a virtio port. The reports among them are also what the
//! callers of this crate get.

use serde::{Deserialize, Serialize};
use tiltyard_environment::Environment;

use crate::limits::Limits;
use crate::rounds::Rounds;

/// The first argument with which the guest's kernel starts init: the hidden subcommand.
pub const INIT_ARGUMENT: &str = "kernel-guest";
/// A further argument: the host listens at serial lines.
pub const SERIAL_ARGUMENT: &str = "serial";
/// Where init lies in the guest.
pub const INIT_PATH: &str = "/tiltyard/init";
/// Where the job lies in the guest.
pub const JOB_PATH: &str = "/tiltyard/job.json";
/// Name of the virtio port that carries the messages.
pub const PORT_NAME: &str = "tiltyard";
/// Name of the one that carries the scheduler's events, as [`crate::trace::record`] writes them.
pub const TRACE_PORT_NAME: &str = "tiltyard.trace";

/// What stands for `/sys/kernel/sched_ext/state` in a kernel without sched_ext.
pub const ABSENT: &str = "absent";

/// Everything that is to be done, in order, with paths as they are where it is done: in a guest or here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacedJob {
    /// The program's path, then its arguments.
    pub command: Vec<String>,
    /// Where it runs, and with which variables of its process.
    pub folder: String,
    pub variables: Vec<(String, String)>,
    /// The command and its libraries are in the guest's first file system, and no others. Never here.
    pub packed: bool,
    pub schedulers: Vec<PlacedRun>,
    pub rounds: Rounds,
    /// Path of the tracer's object; none to record nothing.
    pub tracer: Option<String>,
    /// Whether it records the schedulers' probes.
    pub probes: bool,
    /// How long one command may take, s.
    pub run_limit_s: u64,
    pub limits: Limits,
    /// How often a run is looked at, ms.
    pub watch_ms: u64,
}

/// One scheduler under which the command runs, once a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedRun {
    pub scheduler: String,
    /// Path of the BPF object; none for the kernel's own scheduler.
    pub object: Option<String>,
    pub tunables: Vec<Tunable>,
    /// What its user-space half does.
    pub environment: Environment,
    /// Arguments of the command in addition to the job's own.
    pub arguments: Vec<String>,
    /// Counters that are read when it has left.
    pub deviations: Vec<Counter>,
}

/// A global of the scheduler that counts how often it was not itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    pub name: String,
    /// What is counted, in words that follow a number.
    pub what: String,
}

/// A [`Counter`] after a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deviation {
    #[serde(flatten)]
    pub counter: Counter,
    pub count: u64,
}

/// A `const volatile` global of the scheduler and the value it gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunable {
    pub name: String,
    pub value: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum Message {
    /// Init runs and has read its job.
    Ready {
        kernel_release: String,
    },
    /// The run of this scheduler begins.
    RunStarted {
        scheduler: String,
        /// 0 for the warm-up.
        round: u32,
    },
    /// The command wrote this to stdout or stderr.
    Output {
        text: String,
    },
    RunEnded {
        report: Box<RunReport>,
    },
    /// The guest cannot go on.
    Failed {
        reason: String,
    },
    /// All runs are over.
    Done,
}

/// The result of one scheduler in one round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReport {
    pub scheduler: String,
    /// 0 for the warm-up, whose figures do not count.
    pub round: u32,
    /// What was set; all others had their defaults.
    pub tunables: Vec<Tunable>,
    /// Variables that were set from the machine, as the scheduler found them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<Tunable>,
    pub outcome: RunOutcome,
    /// Errors and warnings in the kernel's log during the run, whoever caused them.
    pub complaints: Vec<String>,
    /// `/sys/kernel/sched_ext/state` after the run: "disabled" when the kernel's own
    /// scheduler is back in charge.
    pub state_after: String,
}

impl RunReport {
    /// How long the command took, s; `None` if anything went wrong.
    pub fn time_s(&self) -> Option<f64> {
        match &self.outcome {
            RunOutcome::Ran { command_ms, .. } if self.is_success() => {
                Some(*command_ms as f64 / 1e3)
            }
            _ => None,
        }
    }

    /// Whether the kernel's own scheduler rules again.
    pub fn default_is_back(&self) -> bool {
        matches!(self.state_after.as_str(), "disabled" | ABSENT)
    }

    /// Whether all went as it should: the command succeeded, the scheduler stayed until it was
    /// taken out, and the kernel's own is back.
    pub fn is_success(&self) -> bool {
        let ran = match &self.outcome {
            RunOutcome::NotLoaded { .. } => false,
            RunOutcome::Ran { command, exit, .. } => {
                *command == CommandStatus::Exited { code: 0 }
                    && exit.as_ref().is_none_or(|exit| !exit.is_ejection())
            }
        };
        ran && self.default_is_back()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "there is one for each run")]
pub enum RunOutcome {
    /// The scheduler never took charge: refused object, unknown tunable, failed verification.
    NotLoaded {
        reason: String,
        /// What the scheduler recorded, if it came so far as to fail by itself.
        exit: Option<ExitInfo>,
        /// The fault is in the table `[environment]` beside the scheduler.
        #[serde(default)]
        is_input: bool,
    },
    Ran {
        /// What the kernel called the scheduler in charge; none for its own.
        ops_name: Option<String>,
        command: CommandStatus,
        /// Its scores, without [`crate::scores::PREFIX`].
        scores: Vec<String>,
        /// How the scheduler left. None for the kernel's own, and for one that does not record
        /// its exit (no UEI_DEFINE in its source).
        exit: Option<ExitInfo>,
        /// What the scheduler did otherwise than it would have by itself.
        deviations: Vec<Deviation>,
        /// Wall-clock time in the guest, ms: load and attach, the command, detach.
        load_ms: u64,
        command_ms: u64,
        unload_ms: u64,
    },
}

/// How the command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum CommandStatus {
    Exited {
        code: i32,
    },
    Signalled {
        signal: i32,
    },
    /// Killed because the limit was over.
    TimedOut {
        limit_s: u64,
    },
    /// Killed because it took more memory than it may.
    OverMemory {
        limit_mib: u32,
    },
    /// Killed because whoever waited for it wants it no more.
    Stopped {
        reason: String,
    },
    /// The kernel took the scheduler out under it; killed, if it still ran.
    Ejected,
    NotStarted {
        reason: String,
    },
}

/// The scheduler's `struct user_exit_info`: why the kernel let go of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitInfo {
    /// The kernel's enum scx_exit_kind, and the name it has in this kernel's BTF.
    pub kind: i32,
    pub kind_name: String,
    pub exit_code: i64,
    pub reason: String,
    pub msg: String,
    /// The kernel's debug dump; empty unless an error ended it.
    pub dump: String,
}

impl ExitInfo {
    /// Whether the scheduler left for another reason than being asked to.
    pub fn is_ejection(&self) -> bool {
        self.kind_name != "SCX_EXIT_UNREG"
    }

    /// Whether it left by `scx_bpf_exit()`.
    pub fn is_own_decision(&self) -> bool {
        self.kind_name == "SCX_EXIT_UNREG_BPF"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(kind_name: &str) -> ExitInfo {
        ExitInfo {
            kind: 0,
            kind_name: kind_name.to_owned(),
            exit_code: 0,
            reason: String::new(),
            msg: String::new(),
            dump: String::new(),
        }
    }

    fn report(code: i32, exit: Option<ExitInfo>, state_after: &str) -> RunReport {
        let command = CommandStatus::Exited { code };
        RunReport {
            scheduler: "fifo".to_owned(),
            round: 1,
            tunables: Vec::new(),
            environment: Vec::new(),
            outcome: RunOutcome::Ran {
                ops_name: None,
                command,
                scores: Vec::new(),
                exit,
                deviations: Vec::new(),
                load_ms: 1,
                command_ms: 2,
                unload_ms: 3,
            },
            complaints: Vec::new(),
            state_after: state_after.to_owned(),
        }
    }

    #[test]
    fn success_needs_all_three() {
        assert!(report(0, Some(exit("SCX_EXIT_UNREG")), "disabled").is_success());
        assert!(!report(1, Some(exit("SCX_EXIT_UNREG")), "disabled").is_success());
        assert!(!report(0, Some(exit("SCX_EXIT_ERROR_STALL")), "disabled").is_success());
        assert!(!report(0, Some(exit("SCX_EXIT_UNREG")), "enabled").is_success());
    }

    #[test]
    fn a_message_is_one_line() {
        let message = Message::Output {
            text: "two\nlines".to_owned(),
        };
        let line = serde_json::to_string(&message).unwrap();
        assert!(!line.contains('\n'), "{line}");
        assert_eq!(serde_json::from_str::<Message>(&line).unwrap(), message);
    }
}
