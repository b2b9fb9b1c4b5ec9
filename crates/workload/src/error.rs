// SPDX-License-Identifier: GPL-2.0-or-later
//! What is wrong with a workload file, and where.

use std::fmt;
use std::ops::Range;

/// One thing that is wrong in a workload file.
///
/// `Display` is one line: `file:line:column: key: what; way out`. The span lets the
/// command line draw the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    /// The key whose value is wrong, or the wrong key itself.
    pub key: String,
    /// What is wrong, with the value.
    pub what: String,
    /// What to write instead.
    pub way_out: String,
    /// Bytes of the file that are meant.
    pub span: Range<usize>,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file, line, column, ..
        } = self;
        write!(f, "{file}:{line}:{column}: ")?;
        if !self.key.is_empty() {
            write!(f, "{}: ", one_line(&self.key))?;
        }
        write!(f, "{}; {}", one_line(&self.what), one_line(&self.way_out))
    }
}

impl std::error::Error for ReadError {}

/// What keeps a workload from being written in the dialect that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// Plain rt-app has no words for these parts of the workload.
    NotInRtApp(Vec<String>),
    /// The workload contradicts itself (an id out of range, a zero where it means nothing).
    Broken(String),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::NotInRtApp(parts) => write!(
                f,
                "plain rt-app cannot say: {}; write with the key tiltyard, or take these parts out",
                parts.join(", ")
            ),
            WriteError::Broken(what) => write!(
                f,
                "not a workload: {what}; build it from a file or fix the program"
            ),
        }
    }
}

impl std::error::Error for WriteError {}

/// Why a workload file cannot be patched or scaled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchError {
    /// A text is not JSON.
    Syntax {
        /// Whether it is the patch; otherwise the workload.
        is_patch: bool,
        what: String,
        way_out: &'static str,
    },
    /// A patch names a key that is not there, without a value to add.
    NoKey { path: String },
    /// A patch has keys for something that is not an object.
    NoKeys {
        path: String,
        /// Its JSON type, with an article.
        is: &'static str,
    },
    /// The workload has the key more than once.
    Twice { path: String },
    /// The patch has it more than once.
    GivenTwice { path: String },
    /// What should be scaled is not a number, or not there.
    NoNumber { path: String },
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatchError::Syntax {
                is_patch: true,
                what,
                way_out,
            } => write!(f, "the patch is not JSON: {what}; {way_out}"),
            PatchError::Syntax { what, way_out, .. } => write!(f, "{what}; {way_out}"),
            PatchError::NoKey { path } => write!(f, "{path}: there is no such key to patch"),
            PatchError::NoKeys { path, is } => {
                write!(f, "{path} is {is}, which has no keys to patch")
            }
            PatchError::Twice { path } => {
                write!(f, "{path} occurs more than once; give each its own name")
            }
            PatchError::GivenTwice { path } => {
                write!(f, "the patch gives {path} twice; keep one")
            }
            PatchError::NoNumber { path } => write!(f, "{path}: there is no number to scale"),
        }
    }
}

impl std::error::Error for PatchError {}

/// Line and column (both from 1) of a byte offset.
pub(crate) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}

/// The text with control characters escaped, so that an error stays on its line.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || c == '\u{2028}' || c == '\u{2029}' {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line() {
        let error = ReadError {
            file: "a.json".into(),
            line: 3,
            column: 7,
            key: "ru\nn".into(),
            what: "negative time -5".into(),
            way_out: "write 0 or more".into(),
            span: 0..1,
        };
        assert_eq!(
            error.to_string(),
            "a.json:3:7: ru\\nn: negative time -5; write 0 or more"
        );
    }

    #[test]
    fn columns_count_characters() {
        let text = "a\nübc";
        assert_eq!(line_and_column(text, 0), (1, 1));
        assert_eq!(line_and_column(text, 2), (2, 1));
        assert_eq!(line_and_column(text, 4), (2, 2));
        assert_eq!(
            line_and_column(text, 3),
            (2, 1),
            "inside a character: that character"
        );
        assert_eq!(line_and_column(text, 99), (2, 4));
    }
}
