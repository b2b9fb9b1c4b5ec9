// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the shipped schedulers, workloads and machines are.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::error::Role;

/// Names the folder that holds `schedulers`, `workloads` and `machines`.
const VARIABLE: &str = "TILTYARD_DATA";

/// The folder of shipped data: $TILTYARD_DATA, else ../share/tiltyard beside the program (where
/// `make install` puts it), else the source tree from which the program was built.
pub fn folder() -> Result<PathBuf, Error> {
    if let Some(folder) = std::env::var_os(VARIABLE) {
        let folder = PathBuf::from(folder);
        return match is_data(&folder) {
            true => Ok(folder),
            false => {
                let line = format!(
                    "{VARIABLE}={}: no folders machines, schedulers, workloads there",
                    folder.display()
                );
                Err(Error::Environment(line))
            }
        };
    }
    let program = std::env::current_exe()
        .ok()
        .and_then(|p| p.canonicalize().ok());
    let installed = program
        .as_deref()
        .and_then(Path::parent)
        .map(|bin| bin.join("../share/tiltyard"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let found = installed.into_iter().chain([source]).find(|f| is_data(f));
    let found = found.and_then(|f| f.canonicalize().ok());
    found.ok_or_else(|| {
        let line = format!(
            "the shipped schedulers and workloads are not found; set {VARIABLE} to their folder"
        );
        Error::Environment(line)
    })
}

fn is_data(folder: &Path) -> bool {
    ["machines", "schedulers", "workloads"]
        .iter()
        .all(|name| folder.join(name).is_dir())
}

/// Names of the entries of `folder`, sorted, that end in `suffix` (cut off).
pub fn names(folder: &Path, suffix: &str) -> Result<Vec<String>, Error> {
    let entries = folder
        .read_dir()
        .map_err(|e| Error::file(Role::Own, folder, "list", e))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| Error::file(Role::Own, folder, "list", e))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(suffix).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// The same with those of its subfolders, `/` between: `suite/nas-mg`.
pub fn names_below(folder: &Path, suffix: &str) -> Result<Vec<String>, Error> {
    let mut found = names(folder, suffix)?;
    for inner in names(folder, "")? {
        let path = folder.join(&inner);
        if path.is_dir() {
            let below = names_below(&path, suffix)?;
            found.extend(below.into_iter().map(|name| format!("{inner}/{name}")));
        }
    }
    found.sort();
    Ok(found)
}

/// Reads an input file.
pub fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|e| match e.kind() {
        ErrorKind::InvalidData => Error::input(format!(
            "{}: is not UTF-8 text; convert it or name another file",
            shown(path)
        )),
        _ => Error::file(Role::Input, path, "read", e),
    })
}

/// Why a path that is not a file is none. Pipes are not read, because some inputs are read twice.
pub fn no_file(path: &Path) -> &'static str {
    match path {
        _ if path.is_dir() => "that is a folder",
        _ if path.exists() => "that is not a regular file; write it to one first",
        _ => "no such file",
    }
}

/// A human-readable path: relative to the working folder if it is below it.
pub fn shown(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let relative = here
        .as_deref()
        .and_then(|here| path.strip_prefix(here).ok());
    relative.unwrap_or(path).display().to_string()
}
