// SPDX-License-Identifier: GPL-2.0-or-later
//! Chosen schedulers, built: objects, and values for their tunables.

use std::fs;

use tiltyard_build::{BpfObject, Builder, BuilderOptions, Source, default_cache_dir};
use tiltyard_environment::Environment;
use tiltyard_kernel::{Counter, SchedulerJob, Tunable};
use tiltyard_model::Machine;
use tiltyard_native::object::GlobalKind;
use tiltyard_native::{Object, Value};

use crate::Error;
use crate::data;
use crate::error::Role;
use crate::nearest;
use crate::schedulers::{self, Choice};
use crate::user_space;

/// Name of the kernel's own scheduler among those of `-s`.
pub const DEFAULT: &str = "default";

/// A scheduler for the simulated machine.
pub struct Built {
    /// What was asked for.
    pub choice: Choice,
    /// What the engine loads.
    pub object: Object,
    /// Values of its tunables.
    pub globals: Vec<(String, Value)>,
}

impl Built {
    /// What its author should know, a line each: the compiler's warnings, and what this machine has nobody to set up for.
    pub fn warnings(&self, machine: &Machine) -> Vec<String> {
        let lines = self.object.warnings.iter().cloned();
        let lines = lines.chain(user_space::missing(self, machine));
        let label = &self.choice.label;
        lines.map(|line| format!("{label}: {line}")).collect()
    }
}

/// Built as requested; `accesses`: to report what its code reads and writes.
pub fn native(choice: &Choice, accesses: bool) -> Result<Built, Error> {
    let options = BuilderOptions {
        accesses,
        ..BuilderOptions::default()
    };
    let object = Builder::new(options).native(&source(choice)?)?;
    let globals = values(choice, &object, &choice.tunables)?;
    Ok(Built {
        choice: choice.clone(),
        object,
        globals,
    })
}

/// The object for a kernel.
pub fn bpf(choice: &Choice) -> Result<BpfObject, Error> {
    Ok(Builder::default().bpf_object(&source(choice)?)?)
}

/// What a job in a kernel needs of the scheduler that `argument` names, with its settings for kernels only.
pub fn job(argument: &str) -> Result<SchedulerJob, Error> {
    if argument == DEFAULT {
        return Ok(SchedulerJob::own(DEFAULT));
    }
    let choice = schedulers::choose(argument)?;
    let object = Some(bpf(&choice)?.path);
    let (own, kernel) = (choice.tunables.into_iter(), choice.kernel);
    let tunables = own.chain(kernel.tunables);
    let deviations = kernel.deviations.into_iter();
    Ok(SchedulerJob {
        name: choice.label,
        object,
        tunables: tunables
            .map(|(name, value)| Tunable { name, value })
            .collect(),
        environment: choice.environment,
        deviations: deviations
            .map(|(name, what)| Counter { name, what })
            .collect(),
        arguments: Vec::new(),
    })
}

/// The compiler's warnings about the object of such a job, one line each.
pub fn job_warnings(argument: &str) -> Result<Vec<String>, Error> {
    if argument == DEFAULT {
        return Ok(Vec::new());
    }
    let choice = schedulers::choose(argument)?;
    let lines = bpf(&choice)?.warnings.into_iter();
    Ok(lines
        .map(|line| format!("{}: {line}", choice.label))
        .collect())
}

/// One of Tiltyard's own BPF programs, `text`, as a file for the compiler.
pub fn shipped(name: &str, text: &str) -> Result<Source, Error> {
    let no_cache = || Error::Environment("no folder for the cache: set HOME".to_owned());
    let folder = default_cache_dir().ok_or_else(no_cache)?;
    let path = folder.join(name);
    // Rewritten only when it changed, so that runs side by side do not disturb each other's compiler.
    if fs::read_to_string(&path).ok().as_deref() != Some(text) {
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&path, text))
            .map_err(|e| Error::file(Role::Own, &path, "write", e))?;
    }
    Ok(Source::new(path))
}

fn source(choice: &Choice) -> Result<Source, Error> {
    let mut source = Source::new(&choice.source);
    source
        .include_dirs
        .push(data::folder()?.join("schedulers/lib"));
    Ok(source)
}

/// The values that `set` gives to tunables of a scheduler that was built.
pub(crate) fn values(
    choice: &Choice,
    object: &Object,
    set: &[(String, String)],
) -> Result<Vec<(String, Value)>, Error> {
    let value = |(name, value): &(String, String)| tunable(choice, object, name, value);
    set.iter().map(value).collect()
}

/// The tunables that users set: not those that come from the machine, nor the switch of the probes.
fn of_users(object: &Object) -> impl Iterator<Item = String> {
    let usual = Environment::usual();
    let names = object.tunables.keys().cloned();
    names.filter(move |name| !usual.gives(name) && name != "tilt_probes_on")
}

/// The value typed for a tunable, if it exists: a number, or the first elements of an array
/// separated by slashes.
fn tunable(
    choice: &Choice,
    object: &Object,
    name: &str,
    value: &str,
) -> Result<(String, Value), Error> {
    let error = |what: String| Error::argument("scheduler", &choice.argument, what);
    if object.globals.contains_key(name) && !object.tunables.contains_key(name) {
        let what =
            format!("{name} is a variable, not a tunable; tunables are declared const volatile");
        return Err(error(what));
    }
    let Some(global) = object.tunables.get(name) else {
        let known: Vec<String> = of_users(object).collect();
        return Err(error(format!(
            "no tunable {name}; {}",
            nearest::hint(name, &known)
        )));
    };
    let not_a_number = |word: &str| {
        error(format!(
            "{name}={value}: \"{word}\" is not a number; write 20, 0x14, true or false"
        ))
    };
    let values: Result<Vec<i128>, Error> = value
        .split('/')
        .map(|word| number(word).ok_or_else(|| not_a_number(word)))
        .collect();
    let values = values?;
    let value = match (global.element, values.as_slice()) {
        (Some(_), _) => Value::Ints(values),
        (None, [one]) if global.kind != GlobalKind::Bytes => Value::Int(*one),
        (None, _) => {
            let what = match global.kind {
                GlobalKind::Bytes => "neither a number nor an array of numbers",
                _ => "one number, not an array",
            };
            return Err(error(format!("{name}={value}: {name} is {what}")));
        }
    };
    let checked = object.check_value(name, &value);
    checked.map_err(|what| error(what.to_string()))?;
    Ok((name.to_owned(), value))
}

fn number(text: &str) -> Option<i128> {
    match (text, text.strip_prefix("0x")) {
        ("true", _) => Some(1),
        ("false", _) => Some(0),
        (_, Some(hex)) => i128::from_str_radix(hex, 16).ok(),
        _ => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbers_or_booleans() {
        assert_eq!(number("20"), Some(20));
        assert_eq!(number("-1"), Some(-1));
        assert_eq!(number("0x14"), Some(20));
        assert_eq!(number("true"), Some(1));
        assert_eq!(number("port"), None);
    }
}
