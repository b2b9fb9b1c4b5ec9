// SPDX-License-Identifier: GPL-2.0-or-later
//! What `-w` accepts: a shipped name or a workload file.

use std::path::{Path, PathBuf};

use tiltyard_model::Machine;
use tiltyard_workload::{PatchError, ReadError, Workload};

use crate::Error;
use crate::data;
use crate::error::{InputFault, SourceSpan};
use crate::{in_use, nearest};

/// The patch that changes nothing.
pub const UNCHANGED: &str = "{}";

/// Names of all shipped workloads; those in subfolders with the folder: `suite/nas-mg`.
pub fn names() -> Result<Vec<String>, Error> {
    data::names_below(&data::folder()?.join("workloads"), ".json")
}

/// The file that `argument` means.
pub fn path(argument: &str) -> Result<PathBuf, Error> {
    // Where nothing is shipped, for example in a virtual machine, files can still be run.
    let file = Path::new(argument);
    if argument.contains('/') && file.is_file() {
        return Ok(file.to_owned());
    }
    let names = names()?;
    match shipped(argument, &names)? {
        Some(name) => Ok(data::folder()?
            .join("workloads")
            .join(format!("{name}.json"))),
        None if file.is_file() => Ok(file.to_owned()),
        None => {
            if argument.split(',').count() > 1 && argument.split(',').all(|one| path(one).is_ok()) {
                let what =
                    "this takes one workload; tiltyard run and tiltyard campaign take several";
                return Err(Error::argument("workload", argument, what.to_owned()));
            }
            let own = nearest::own_file(&[format!("{argument}.json")]);
            let hint = own.unwrap_or_else(|| hint(argument, &names));
            let file = data::no_file(file);
            let what = format!("no such workload, and {file}; {hint}");
            Err(Error::argument("workload", argument, what))
        }
    }
}

/// The shipped workload of this name; its folder may be omitted if the name is unique.
fn shipped<'a>(argument: &str, names: &'a [String]) -> Result<Option<&'a String>, Error> {
    if let Some(exact) = names.iter().find(|name| *name == argument) {
        return Ok(Some(exact));
    }
    let within: Vec<&String> = names
        .iter()
        .filter(|name| last_part(name) == argument)
        .collect();
    match within[..] {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        [first, second, ..] => {
            let what = format!("there are several of this name; write {first} or {second}");
            Err(Error::argument("workload", argument, what))
        }
    }
}

fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The suggestion for an unknown name: without the folder if the user omitted it.
fn hint(argument: &str, names: &[String]) -> String {
    if argument.contains('/') {
        return nearest::hint_of_listed(argument, names, "workloads");
    }
    let short = names.iter().map(|name| last_part(name));
    match nearest::nearest(argument, short) {
        Some(name) => format!("did you mean {name}?"),
        None => nearest::hint_of_listed(argument, names, "workloads"),
    }
}

/// The workload that `argument` (of `-w`) means.
pub fn load(argument: &str) -> Result<Workload, Error> {
    Ok(load_changed(argument, UNCHANGED, &[])?.0)
}

/// Rejects a run that would never end: `argument` as typed, `duration_ns` as requested.
pub fn require_end(
    argument: &str,
    workload: &Workload,
    duration_ns: Option<u64>,
) -> Result<(), Error> {
    match duration_ns {
        Some(_) => Ok(()),
        None => {
            let remedy = "add --duration, for instance --duration 10s";
            require_own_end(argument, workload, remedy)
        }
    }
}

/// Rejects a workload that never ends by itself; `remedy` says what to do.
pub fn require_own_end(argument: &str, workload: &Workload, remedy: &str) -> Result<(), Error> {
    match workload.endless_task() {
        None => Ok(()),
        Some(task) => {
            let what = format!("never ends: task {} repeats forever; {remedy}", task.name);
            Err(Error::argument("workload", argument, what))
        }
    }
}

/// Rejects a machine that has none of the CPUs to which a task is bound.
pub fn require_cpus(argument: &str, workload: &Workload, machine: &Machine) -> Result<(), Error> {
    let nr_cpus = machine.nr_cpus();
    match workload.bound_beyond(nr_cpus as u32) {
        None => Ok(()),
        Some((task, cpus)) => {
            let what = format!(
                "task {} is bound to CPUs {cpus:?}, and {} has {nr_cpus}, numbered from 0; choose a machine with more (-m), or \
                 change \"cpus\"",
                task.name, machine.name
            );
            Err(Error::argument("workload", argument, what))
        }
    }
}

/// The text of its file.
pub fn text(argument: &str) -> Result<String, Error> {
    data::read(&path(argument)?)
}

/// A workload after a JSON merge patch and with some numbers (by path) multiplied, and its text.
pub fn load_changed(
    argument: &str,
    patch: &str,
    scale: &[(String, f64)],
) -> Result<(Workload, String), Error> {
    let path = path(argument)?;
    let mut file = data::shown(&path);
    let mut text = data::read(&path)?;
    in_use::is_read(&path);
    let wrong = |e| match e {
        PatchError::Syntax { is_patch: true, .. } => Error::input(format!("{e} (for {file})")),
        e => Error::input(format!("{file}: {e}")),
    };
    if patch != UNCHANGED {
        text = tiltyard_workload::patch(&text, patch).map_err(wrong)?;
    }
    for (at, factor) in scale {
        text = tiltyard_workload::scale(&text, at, *factor).map_err(wrong)?;
    }
    if patch != UNCHANGED || !scale.is_empty() {
        file += " as patched";
    }
    Ok((parse(&file, &text)?, text))
}

fn parse(file: &str, text: &str) -> Result<Workload, Error> {
    tiltyard_workload::read(text, file).map_err(|errors| failure(errors, text))
}

fn failure(errors: Vec<ReadError>, text: &str) -> Error {
    let fault = |error: ReadError| InputFault {
        line: error.to_string(),
        span: Some(Box::new(SourceSpan {
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
    Error::Input(errors.into_iter().map(fault).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<String> {
        [
            "apache",
            "probe/wake",
            "suite/apache",
            "suite/wake",
            "suite/nas-mg",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    #[test]
    fn the_folder_may_be_left_out_where_that_is_clear() {
        let names = known();
        let found = |argument| shipped(argument, &names).map(|name| name.map(String::as_str));
        assert_eq!(found("suite/nas-mg").ok(), Some(Some("suite/nas-mg")));
        assert_eq!(found("nas-mg").ok(), Some(Some("suite/nas-mg")));
        // At the top: its whole name.
        assert_eq!(found("apache").ok(), Some(Some("apache")));
        assert_eq!(found("suite/apache").ok(), Some(Some("suite/apache")));
        for unknown in ["mg", "probe/nas-mg", "suite", "/apache", ""] {
            assert_eq!(found(unknown).ok(), Some(None), "{unknown}");
        }
        let line = found("wake").unwrap_err().to_string();
        assert!(line.ends_with("write probe/wake or suite/wake"), "{line}");
    }

    #[test]
    fn the_way_out_has_a_folder_if_the_question_had_one() {
        let names = known();
        assert_eq!(hint("nas-mh", &names), "did you mean nas-mg?");
        assert_eq!(hint("suite/nas-mh", &names), "did you mean suite/nas-mg?");
        assert!(hint("blackscholes", &names).starts_with("tiltyard list workloads shows"));
    }

    /// A file's own name counts, and else the file's, patched or not.
    #[test]
    fn workloads_have_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.json");
        let name = |own: &str, patch: &str| {
            let text = format!(
                r#"{{ "tiltyard": {{ {own} }}, "tasks": {{ "a": {{ "loop": 1, "run": 5 }} }} }}"#
            );
            std::fs::write(&path, text).unwrap();
            let loaded = load_changed(&path.to_string_lossy(), patch, &[]);
            loaded.unwrap().0.name
        };
        let patch = r#"{"tasks":{"a":{"run":6}}}"#;
        for (own, expected) in [("", "mine"), (r#""name": "theirs""#, "theirs")] {
            assert_eq!([name(own, UNCHANGED), name(own, patch)], [expected; 2]);
        }
    }
}
