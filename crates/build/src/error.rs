// SPDX-License-Identifier: GPL-2.0-or-later
//! What can go wrong between a scheduler's source and its objects.

use crate::ir::Unknown;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(
        "{clang} is needed to build schedulers and cannot be run ({reason}); on Debian and Ubuntu: apt-get install clang-19"
    )]
    NoClang {
        clang: String,
        reason: std::io::Error,
    },
    #[error("{}: does not compile:\n{message}{advice}", source_path.display())]
    Compile {
        source_path: PathBuf,
        message: String,
        /// Hints, in whole lines; each begins with a line break.
        advice: String,
    },
    #[error("{}: cannot be built for the simulated machine: {what}{}", source_path.display(), in_function(function, place))]
    Unsupported {
        source_path: PathBuf,
        what: String,
        function: String,
        /// File and line; empty where it is not one line's matter.
        place: String,
    },
    #[error("{}: the host back end refuses the rewritten code, which is a defect of Tiltyard's:\n{message}", source_path.display())]
    Lower {
        source_path: PathBuf,
        message: String,
    },
    #[error("{}: {error}", path.display())]
    Io {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error("no BPF headers at {}; set TILTYARD_HEADERS to where they are", path.display())]
    NoHeaders { path: PathBuf },
    #[error("no folder to keep BPF objects in; set XDG_CACHE_HOME or HOME")]
    NoCache,
}

fn in_function(function: &str, place: &str) -> String {
    match (function.trim_start_matches('@'), place) {
        ("", _) => String::new(),
        (name, "") => format!(" (in function {name})"),
        (name, place) => format!(" (in function {name}, {place})"),
    }
}

impl BuildError {
    /// `place`: file and line, or nothing.
    pub(crate) fn unsupported(
        source_path: &std::path::Path,
        unknown: Unknown,
        place: String,
    ) -> BuildError {
        BuildError::Unsupported {
            source_path: source_path.to_owned(),
            what: unknown.what,
            function: unknown.function,
            place,
        }
    }

    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> BuildError {
        let path = path.into();
        move |error| BuildError::Io { path, error }
    }
}
