// SPDX-License-Identifier: GPL-2.0-or-later
//! What is wrong with the description of a machine, and where.

use std::fmt;
use std::ops::Range;

/// One fault in a machine file, a synthetic string or an XML file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineError {
    /// Position for messages: `numa.toml:3:5`, or the string and the character.
    pub place: String,
    /// Bytes of the text at fault, for programs that underline them.
    pub span: Range<usize>,
    pub what: String,
    /// The way out.
    pub help: String,
}

impl MachineError {
    /// A fault in `text`, read from `file`, at these bytes.
    pub(super) fn in_file(
        text: &str,
        file: &str,
        span: Range<usize>,
        what: impl Into<String>,
        help: &str,
    ) -> Self {
        let before = text.get(..span.start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        let (what, help) = (what.into(), help.to_owned());
        MachineError {
            place: format!("{file}:{line}:{column}"),
            span,
            what,
            help,
        }
    }

    /// A fault in a string typed by a person, at these bytes.
    pub(super) fn in_string(
        text: &str,
        span: Range<usize>,
        what: impl Into<String>,
        help: &str,
    ) -> Self {
        let character = text.get(..span.start).unwrap_or(text).chars().count() + 1;
        let place = format!("topology \"{text}\", character {character}");
        MachineError {
            place,
            span,
            what: what.into(),
            help: help.to_owned(),
        }
    }
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.what, self.help)
    }
}

impl std::error::Error for MachineError {}
