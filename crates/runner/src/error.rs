// SPDX-License-Identifier: GPL-2.0-or-later
//! Why something could not be done. Each kind asks something else of the caller; the text is one line, unless a compiler
//! or a kernel has more to say.

use std::ops::Range;
use std::path::{Path, PathBuf};

use tiltyard_build::BuildError;
use tiltyard_kernel::KernelError;

use crate::kernel_fault::KernelFault;
use crate::sim_error::SimError;

/// What all functions of this crate fail with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value that names an input does not exist or makes no sense. `of`: what it names, such as "scheduler".
    #[error("{of} {value}: {what}")]
    Argument {
        /// "scheduler", "workload", "machine", "application".
        of: &'static str,
        /// As it was given.
        value: String,
        /// What is wrong with it, and what to do.
        what: String,
    },
    /// Something else that was asked for does not exist or makes no sense.
    #[error("{0}")]
    Request(String),
    /// Input files are wrong.
    #[error("{}", joined(.0))]
    Input(Vec<InputFault>),
    /// A file could not be read or written.
    #[error("{}: cannot {action}: {source}", path.display())]
    File {
        /// What the file was for.
        role: Role,
        /// Its path.
        path: PathBuf,
        /// "read", "write", "list".
        action: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// A scheduler could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A run in the simulated machine failed.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// A run in a real kernel failed.
    #[error("{0}")]
    KernelRun(KernelFault),
    /// No job could be done in a real kernel: this machine lacks something, or a guest did not come up.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The verifier of a real kernel refuses a scheduler. The kernel's own words follow the first line.
    #[error("{0}")]
    Refused(String),
    /// The verifier of a real kernel could not be asked about this scheduler.
    #[error("verify {argument}: {source}")]
    Verifier {
        /// The scheduler's name as it was given.
        argument: String,
        /// Why not.
        source: KernelError,
    },
    /// Programs of an application are not installed.
    #[error("application {application} needs {programs}: {remedy}")]
    Application {
        /// Its name.
        application: String,
        /// What is missing, separated by commas.
        programs: String,
        /// How to install it.
        remedy: String,
    },
    /// This machine lacks something else.
    #[error("{0}")]
    Environment(String),
    /// The simulated machine does not model what was asked for.
    #[error("{0}")]
    NotModelled(String),
    /// A Perfetto trace could not be written.
    #[error("trace: cannot write: {0}")]
    Trace(std::io::Error),
    /// Events or tables could not be written.
    #[error("{0}")]
    Output(String),
    /// What a measurement or a query gave is unusable.
    #[error("{0}")]
    Measurement(String),
    /// [`Progress::stop`](crate::Progress::stop) said so, with this reason.
    #[error("{0}")]
    Stopped(String),
    /// The same, found while `place` was checked: an experiment, a claim, a setting of `fidelity`.
    #[error("{place}: {error}")]
    Within {
        /// Its name, or a file's.
        place: String,
        /// What was found.
        error: Box<Error>,
    },
}

/// What a file was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The user named it as an input.
    Input,
    /// The user named it as an output.
    Output,
    /// Tiltyard's own: shipped data, caches.
    Own,
}

/// One fault of an input file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFault {
    /// One line that says where it is, what it is and what to do.
    pub line: String,
    /// If the position in the file is known.
    pub span: Option<Box<SourceSpan>>,
}

/// Where in which text a fault is, for drawing on terminals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpan {
    /// The file's name, as shown to users.
    pub file: String,
    /// The whole text.
    pub text: String,
    /// Bytes of the text.
    pub span: Range<usize>,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub help: String,
}

impl Error {
    /// An input file is wrong, at no position in particular.
    pub fn input(line: impl Into<String>) -> Error {
        let line = line.into();
        Error::Input(vec![InputFault { line, span: None }])
    }

    pub(crate) fn argument(of: &'static str, value: &str, what: impl Into<String>) -> Error {
        Error::Argument {
            of,
            value: value.to_owned(),
            what: what.into(),
        }
    }

    pub(crate) fn file(
        role: Role,
        path: &Path,
        action: &'static str,
        source: std::io::Error,
    ) -> Error {
        Error::File {
            role,
            path: path.to_owned(),
            action,
            source,
        }
    }

    /// The same, where a value of `file` and no argument names the input.
    pub(crate) fn in_file(self, file: &str) -> Error {
        match self {
            Error::Argument { of, value, what } => {
                Error::input(format!("{file}: {of} = \"{value}\": {what}"))
            }
            error => error.within(file),
        }
    }

    /// The same, found while `place` was checked.
    pub fn within(self, place: &str) -> Error {
        Error::Within {
            place: place.to_owned(),
            error: Box::new(self),
        }
    }
}

fn joined(faults: &[InputFault]) -> String {
    let lines: Vec<&str> = faults.iter().map(|fault| fault.line.as_str()).collect();
    lines.join("; ")
}
