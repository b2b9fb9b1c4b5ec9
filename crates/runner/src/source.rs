// SPDX-License-Identifier: GPL-2.0-or-later
//! A text that somebody wrote, and errors that name a place in it.

use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use tiltyard_misspelt::toml_line;

use crate::error::{InputFault, SourceSpan};
use crate::{Error, data};

/// A text and the file that it is from.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// As shown to users; empty: there is no file.
    pub file: String,
    /// All of it.
    pub text: String,
}

impl Source {
    /// The text of a file.
    pub fn read(path: &Path) -> Result<Source, Error> {
        Ok(Source {
            text: data::read(path)?,
            file: data::shown(path),
        })
    }

    /// The text as TOML of this form; `help`: the way out of what is wrong with it.
    pub fn toml<T: DeserializeOwned>(&self, help: &str) -> Result<T, Error> {
        toml::from_str(&self.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            self.fault(span, &toml_line(&error), help)
        })
    }

    /// The error of what is at these bytes: what is wrong, and the way out.
    pub fn fault(&self, span: Range<usize>, what: &str, help: &str) -> Error {
        let line = self.text[..span.start.min(self.text.len())]
            .matches('\n')
            .count()
            + 1;
        let remedy = match help {
            "" => String::new(),
            help => format!("; {help}"),
        };
        Error::Input(vec![InputFault {
            line: format!("{}:{line}: {what}{remedy}", self.file),
            span: Some(Box::new(SourceSpan {
                file: self.file.clone(),
                text: self.text.clone(),
                span,
                what: what.to_owned(),
                help: help.to_owned(),
            })),
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_line_in_which_a_fault_begins() {
        let source = Source {
            file: "a.toml".to_owned(),
            text: "a = 1\nb = [\n  2,\n]\n".to_owned(),
        };
        for (at, line) in [
            (0..1, "a.toml:1: bad; mend it"),
            (6..18, "a.toml:2: bad; mend it"),
            (14..15, "a.toml:3: bad; mend it"),
            (900..901, "a.toml:5: bad; mend it"),
        ] {
            let Error::Input(faults) = source.fault(at.clone(), "bad", "mend it") else {
                panic!("an error of the input");
            };
            assert_eq!(faults[0].line, line, "{at:?}");
        }
    }
}
