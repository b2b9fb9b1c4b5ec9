// SPDX-License-Identifier: GPL-2.0-or-later
//! How a command fails: an exit code, and one line per error.

use std::fmt;
use std::io::IsTerminal;
use std::ops::Range;
use std::path::Path;

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
    /// Tasks waited to the end, although CPUs were idle.
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
    pub place: Option<Box<Place>>,
}

/// Where in which text, for drawing on terminals.
#[derive(Debug)]
pub struct Place {
    pub file: String,
    pub text: String,
    pub span: Range<usize>,
    pub what: String,
    pub help: String,
}

impl Failure {
    pub fn new(code: Code, line: impl Into<String>) -> Failure {
        let fault = Fault {
            line: line.into(),
            place: None,
        };
        Failure {
            code,
            faults: vec![fault],
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

    pub fn with_details(mut self, details: serde_json::Value) -> Failure {
        self.details = Some(Box::new(details));
        self
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
            match &fault.place {
                Some(place) if draw => say!("{:?}", drawn(place)),
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

/// As miette draws it: the line of the file, the place underlined, the remedy below.
fn drawn(place: &Place) -> miette::Report {
    let label = miette::LabeledSpan::underline(place.span.clone());
    let source = miette::NamedSource::new(&place.file, place.text.clone());
    let diagnostic = miette::MietteDiagnostic::new(&place.what).with_help(&place.help);
    miette::Report::new(diagnostic.with_label(label)).with_source_code(source)
}
