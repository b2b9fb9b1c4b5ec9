// SPDX-License-Identifier: GPL-2.0-or-later
//! How a command fails: an exit code, and one line per error.

use std::fmt;
use std::io::IsTerminal;
use std::path::Path;

use serde_json::json;
use tiltyard_build::BuildError;
use tiltyard_native::LoadError;
use tiltyard_runner::kernel_fault::Culprit;
use tiltyard_runner::sim_error::SimError;
use tiltyard_runner::{Error, InputFault, Role, SourceSpan};
use tiltyard_sim::RunError;

/// Exit codes are stable; docs/reference/exit-codes.md explains them. 0 is success, 2 is also what
/// clap exits with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// None of the below: for example, a file could not be written.
    Other = 1,
    Usage = 2,
    /// A workload, machine or preset file is wrong.
    Input = 3,
    /// A scheduler does not compile or cannot be rewritten.
    Build = 4,
    /// A scheduler failed in a run: error exit, crash, stall.
    Scheduler = 5,
    /// A workload failed in a run: deadlock, unlock of a lock held by another.
    Workload = 6,
    /// This machine lacks something: a compiler, a kernel, a privilege.
    Environment = 7,
    /// A scheduler or a workload asks for what the simulated machine does not model.
    NotModelled = 8,
    /// A metric changed by more than a gate allows.
    Gate = 9,
    /// A scheduler left a run by itself: scx_bpf_exit.
    Left = 10,
    /// Tasks waited to the end, beside idle CPUs or because the scheduler had lost them.
    Stranded = 11,
    /// A scheduler's code has data races.
    Races = 12,
    Interrupted = 130,
}

/// What ended the command. Errors are in the order in which they were found.
#[derive(Debug)]
pub struct Failure {
    pub code: Code,
    pub faults: Vec<Fault>,
    /// All details of a failed run, for JSON.
    pub details: Option<Box<serde_json::Value>>,
}

/// One error in one line, with its place in an input file if it has one.
#[derive(Debug)]
pub struct Fault {
    pub line: String,
    pub span: Option<Box<SourceSpan>>,
}

impl Failure {
    /// What went wrong in several things that were all done: the first one's exit code, and all errors.
    pub fn of_all(results: impl IntoIterator<Item = Result<(), Failure>>) -> Result<(), Failure> {
        let failures = results.into_iter().filter_map(Result::err);
        let one = failures.reduce(|first, next| Failure {
            faults: first.faults.into_iter().chain(next.faults).collect(),
            ..first
        });
        one.map_or(Ok(()), Err)
    }

    pub fn new(code: Code, line: impl Into<String>) -> Failure {
        let fault = Fault {
            line: line.into(),
            span: None,
        };
        Failure {
            code,
            faults: vec![fault],
            details: None,
        }
    }

    fn of_input(faults: Vec<InputFault>) -> Failure {
        let fault = |InputFault { line, span }| Fault { line, span };
        Failure {
            code: Code::Input,
            faults: faults.into_iter().map(fault).collect(),
            details: None,
        }
    }

    pub fn usage(line: impl Into<String>) -> Failure {
        Failure::new(Code::Usage, line)
    }

    /// A file that could not be read or written.
    pub fn io(code: Code, path: &Path, action: &str, error: &std::io::Error) -> Failure {
        Failure::new(
            code,
            format!("{}: cannot {action}: {error}", path.display()),
        )
    }

    /// The same, found while `place` was checked.
    pub fn within(mut self, place: &str) -> Failure {
        for fault in &mut self.faults {
            fault.line = format!("{place}: {}", fault.line);
        }
        self
    }

    /// On terminals with the lines of the input file underneath, elsewhere one line per error.
    pub fn print(&self) {
        let draw = std::io::stderr().is_terminal();
        for fault in &self.faults {
            match &fault.span {
                Some(span) if draw => say!("{:?}", drawn(span)),
                _ => say!("tiltyard: {}", fault.line),
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<&str> = self
            .faults
            .iter()
            .map(|fault| fault.line.as_str())
            .collect();
        write!(f, "{}", lines.join("; "))
    }
}

impl From<Error> for Failure {
    /// The exit code that the kind of the error stands for, and its words; an argument is named as its flag.
    fn from(error: Error) -> Failure {
        let line = match &error {
            Error::Argument { .. }
            | Error::Application { .. }
            | Error::Verifier { .. }
            | Error::Trace(_) => format!("--{error}"),
            Error::Sim(SimError::Differs(..)) => format!("--twice: {error}"),
            error => error.to_string(),
        };
        let code = match error {
            Error::Within { place, error } => return Failure::from(*error).within(&place),
            Error::Input(faults) => return Failure::of_input(faults),
            Error::Sim(error) => {
                let code = code_of_sim(&error);
                let details = details(&error, code, &line);
                return Failure {
                    details: details.map(Box::new),
                    ..Failure::new(code, line)
                };
            }
            Error::Argument { .. } | Error::Request(_) => Code::Usage,
            Error::File { role, .. } => match role {
                Role::Input => Code::Input,
                Role::Output => Code::Other,
                Role::Own => Code::Environment,
            },
            Error::Build(error) => code_of_build(&error),
            Error::KernelRun(fault) => match fault.culprit {
                Culprit::Scheduler => Code::Scheduler,
                Culprit::Input => Code::Input,
                Culprit::LeavingScheduler => Code::Left,
                Culprit::StallLimit => Code::Environment,
                Culprit::Workload => Code::Workload,
            },
            Error::Refused(_) => Code::Scheduler,
            Error::Kernel(_)
            | Error::Verifier { .. }
            | Error::Application { .. }
            | Error::Environment(_) => Code::Environment,
            Error::NotModelled(_) => Code::NotModelled,
            Error::Stopped(_) => Code::Interrupted,
            _ => Code::Other,
        };
        Failure::new(code, line)
    }
}

fn code_of_build(error: &BuildError) -> Code {
    match error {
        BuildError::Compile { .. } | BuildError::Unsupported { .. } | BuildError::Lower { .. } => {
            Code::Build
        }
        BuildError::NoClang { .. } | BuildError::NoHeaders { .. } => Code::Environment,
        _ => Code::Other,
    }
}

fn code_of_sim(error: &SimError) -> Code {
    match error {
        SimError::Left(_) => Code::Left,
        SimError::Ejected(_) => Code::Scheduler,
        SimError::Stranded(..) => Code::Stranded,
        SimError::Panicked | SimError::Differs(..) => Code::Other,
        SimError::Engine { error, .. } => match error {
            RunError::Load(
                LoadError::UnknownGlobal { .. }
                | LoadError::ValueRange { .. }
                | LoadError::Array { .. },
            ) => Code::Usage,
            RunError::Environment(_) => Code::Input,
            RunError::Load(LoadError::Unbound(_)) | RunError::NotModelled(_) => Code::NotModelled,
            RunError::Load(_) | RunError::Crash { .. } | RunError::Scheduler(_) => Code::Scheduler,
            RunError::Workload(_) => Code::Workload,
        },
    }
}

/// What JSON says of a failed run.
fn details(error: &SimError, code: Code, line: &str) -> Option<serde_json::Value> {
    let Some(outcome) = error.outcome() else {
        let is_engine = matches!(error, SimError::Engine { .. });
        return is_engine.then(|| json!({ "exit_code": code as u8, "message": line }));
    };
    let exit = &outcome.exit;
    Some(json!({
        "exit_code": code as u8,
        "scheduler_name": exit.name,
        "kind": exit.kind.reason(),
        "code": exit.code,
        "message": exit.message,
        "place": exit.place,
        "time_ns": exit.time_ns.saturating_sub(outcome.origin_ns),
        "dump": exit.dump,
        "waiting_in_vain": outcome.stranded.as_ref().map(|s| &s.tasks),
        "places": outcome.stranded.as_ref().map(|s| &s.places),
    }))
}

/// As miette draws it: the line of the file, the place underlined, the remedy below.
fn drawn(span: &SourceSpan) -> miette::Report {
    let label = miette::LabeledSpan::underline(span.span.clone());
    let source = miette::NamedSource::new(&span.file, span.text.clone());
    let diagnostic = miette::MietteDiagnostic::new(&span.what).with_help(&span.help);
    miette::Report::new(diagnostic.with_label(label)).with_source_code(source)
}
