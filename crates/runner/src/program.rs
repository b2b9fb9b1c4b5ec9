// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the `tiltyard` program is: real kernels start it as a guest's init, as the command of a workload, and to measure a
//! machine.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::Error;

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Names the program, for callers that are not `tiltyard` themselves. The first call counts.
pub fn set(program: PathBuf) {
    PROGRAM.get_or_init(|| program);
}

/// The program: what [`set`] named, else the one that runs.
pub fn path() -> Result<PathBuf, Error> {
    match PROGRAM.get() {
        Some(program) => Ok(program.clone()),
        None => {
            std::env::current_exe().map_err(|e| Error::Environment(format!("tiltyard itself: {e}")))
        }
    }
}
