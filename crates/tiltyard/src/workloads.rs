// SPDX-License-Identifier: GPL-2.0-or-later
//! What `-w` takes: a shipped name or a workload file.

use std::path::{Path, PathBuf};

use tiltyard_workload::{ReadError, Workload};

use crate::data;
use crate::failure::{Code, Failure, Fault, Place};
use crate::nearest;

pub fn names() -> Result<Vec<String>, Failure> {
    data::names(&data::folder()?.join("workloads"), ".json")
}

/// The file that `argument` means.
pub fn path(argument: &str) -> Result<PathBuf, Failure> {
    // Where nothing is shipped, in a virtual machine for one, files can still be run.
    let file = Path::new(argument);
    if argument.contains('/') && file.is_file() {
        return Ok(file.to_owned());
    }
    let shipped = data::folder()?
        .join("workloads")
        .join(format!("{argument}.json"));
    match file {
        _ if !argument.contains('/') && shipped.is_file() => Ok(shipped),
        file if file.is_file() => Ok(file.to_owned()),
        _ => {
            let hint = nearest::hint(argument, &names()?);
            Err(Failure::usage(format!(
                "--workload {argument}: no such workload and no such file; {hint}"
            )))
        }
    }
}

pub fn load(argument: &str) -> Result<Workload, Failure> {
    let path = path(argument)?;
    let text = data::read(&path)?;
    parse(&path, &data::shown(&path), &text)
}

/// A workload after a JSON merge patch, and its text.
pub fn load_patched(argument: &str, patch: &str) -> Result<(Workload, String), Failure> {
    let path = path(argument)?;
    let file = data::shown(&path);
    let text = data::read(&path)?;
    if patch == "{}" {
        return Ok((parse(&path, &file, &text)?, text));
    }
    let patched = tiltyard_workload::patch(&text, patch);
    let text = patched.map_err(|e| Failure::new(Code::Input, format!("{file}: {e}")))?;
    Ok((parse(&path, &format!("{file} as patched"), &text)?, text))
}

fn parse(path: &Path, file: &str, text: &str) -> Result<Workload, Failure> {
    let mut workload =
        tiltyard_workload::read(text, file).map_err(|errors| failure(errors, text))?;
    if let Some(stem) = path.file_stem() {
        workload.name = stem.to_string_lossy().into_owned();
    }
    Ok(workload)
}

fn failure(errors: Vec<ReadError>, text: &str) -> Failure {
    let fault = |error: ReadError| Fault {
        line: error.to_string(),
        place: Some(Box::new(Place {
            file: error.file,
            text: text.to_owned(),
            span: error.span,
            what: if error.key.is_empty() {
                error.what
            } else {
                format!("{}: {}", error.key, error.what)
            },
            help: error.way_out,
        })),
    };
    Failure {
        code: Code::Input,
        faults: errors.into_iter().map(fault).collect(),
    }
}
