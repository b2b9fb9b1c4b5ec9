// SPDX-License-Identifier: GPL-2.0-or-later
//! One folder for all temporary files of this process, of any crate: it is removed when the process ends or is
//! interrupted.

use tempfile::TempDir;
use tiltyard_runner::temporary;

/// The folder, for as long as it is held. `None` if none can be created: commands that need one then fail.
pub fn folder() -> Option<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("tiltyard-");
    let folder = temporary::make(|| builder.tempdir(), TempDir::path).ok()?;
    tempfile::env::override_temp_dir(folder.path()).ok()?;
    Some(folder)
}
