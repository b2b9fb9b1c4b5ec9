// SPDX-License-Identifier: GPL-2.0-or-later
//! What `-m` accepts: a shipped name, `host`, a machine file, hwloc XML, or hwloc's synthetic string.

use std::path::{Path, PathBuf};

use tiltyard_claims::Change;
use tiltyard_model::Machine;
use tiltyard_model::machine::MachineError;

use crate::Error;
use crate::data;
use crate::error::{InputFault, Role, SourceSpan};
use crate::{in_use, nearest, output};

/// The default machine: one core.
pub const DEFAULT: &str = "opteron1";

/// The machine at hand: its topology, and its costs if they were measured and kept ([`host_costs`]).
pub const HOST: &str = "host";

/// Names of all shipped machines.
pub fn names() -> Result<Vec<String>, Error> {
    data::names(&data::folder()?.join("machines"), ".toml")
}

/// The machine that `argument` (of `-m`) means.
pub fn load(argument: &str) -> Result<Machine, Error> {
    if argument == HOST {
        return host();
    }
    match file(argument)? {
        Some(file) => from_file(&file),
        None => {
            Machine::parse_hwloc_synthetic(argument).map_err(|e| failure(e, "machine", argument))
        }
    }
}

/// A machine with some numbers of its file (by keys separated by dots) changed.
pub fn load_changed(argument: &str, changes: &[(String, Change)]) -> Result<Machine, Error> {
    if changes.is_empty() {
        return load(argument);
    }
    let path = file(argument)?.filter(|p| p.extension().is_some_and(|e| e == "toml"));
    let wrong = |what: String| Error::input(what);
    let path = path.ok_or_else(|| {
        wrong(format!(
            "machine {argument}: only a machine file (.toml) has numbers to change"
        ))
    })?;
    let shown = data::shown(&path);
    let mut table: toml::Table = toml::from_str(&data::read(&path)?)
        .map_err(|e| wrong(format!("{shown}: {}", e.message())))?;
    for (at, change) in changes {
        set(&mut table, at, change).map_err(|what| wrong(format!("{shown}: {at}: {what}")))?;
    }
    let text = table.to_string();
    let file = format!("{shown} as changed");
    Machine::parse_toml(&text, &file).map_err(|e| failure(e, &file, &text))
}

/// Changes the number at `at`.
fn set(table: &mut toml::Table, at: &str, change: &Change) -> Result<(), String> {
    let (folders, key) = at.rsplit_once('.').unwrap_or(("", at));
    let mut inner = table;
    for name in folders.split('.').filter(|name| !name.is_empty()) {
        let next = inner.get_mut(name).and_then(toml::Value::as_table_mut);
        inner = next.ok_or_else(|| format!("there is no table {name}"))?;
    }
    let value = inner.get_mut(key).ok_or("there is no such key")?;
    match (&mut *value, change) {
        (value, Change::Is(new)) => *value = new.clone(),
        (toml::Value::Integer(number), Change::Times(factor)) => {
            *number = (*number as f64 * factor).round() as i64;
        }
        (toml::Value::Float(number), Change::Times(factor)) => *number *= factor,
        (other, Change::Times(_)) => {
            return Err(format!("{other} is no number to halve or double"));
        }
    }
    Ok(())
}

/// What describes the machine: a file's text, or the argument itself.
pub fn text(argument: &str) -> Result<String, Error> {
    if argument == HOST {
        return Ok(format!("{:?}", host()?));
    }
    match file(argument)? {
        Some(file) => data::read(&file),
        None => Ok(argument.to_owned()),
    }
}

/// Where `tiltyard calibrate --keep` writes what it has measured: `tiltyard/host.toml` among the user's settings.
pub fn host_costs() -> Result<PathBuf, Error> {
    let absolute = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let home = || absolute("HOME").map(|home| home.join(".config"));
    let settings = absolute("XDG_CONFIG_HOME").or_else(home);
    let none = "no folder for settings: set HOME or XDG_CONFIG_HOME";
    let settings = settings.ok_or_else(|| Error::Environment(none.to_owned()))?;
    Ok(settings.join("tiltyard").join("host.toml"))
}

/// Makes these the costs of [`HOST`].
pub fn keep_costs(machine_file: &str) -> Result<(), Error> {
    let path = host_costs()?;
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(|e| Error::file(Role::Output, folder, "create", e))?;
    output::write(&path, machine_file.as_bytes())
}

/// The topology is always today's: CPUs may have been taken away since the costs were measured.
fn host() -> Result<Machine, Error> {
    let found = tiltyard_kernel::this_machine();
    let found = found.map_err(|what| Error::Environment(format!("this machine: {what}")))?;
    let costs = host_costs()?;
    if !costs.is_file() {
        return Ok(found);
    }
    Ok(Machine {
        name: found.name,
        description: found.description,
        cpus: found.cpus,
        node_distance: found.node_distance,
        ..from_file(&costs)?
    })
}

/// The file that `argument` means; none for hwloc's synthetic string.
fn file(argument: &str) -> Result<Option<PathBuf>, Error> {
    let shipped = data::folder()?
        .join("machines")
        .join(format!("{argument}.toml"));
    let file = Path::new(argument);
    if !argument.contains('/') && shipped.is_file() {
        return Ok(Some(shipped));
    }
    if file.is_file() {
        return Ok(Some(file.to_owned()));
    }
    if looks_synthetic(argument) {
        return Ok(None);
    }
    let own = nearest::own_file(&["toml", "xml"].map(|end| format!("{argument}.{end}")));
    let names = names()?;
    let hint = own.unwrap_or_else(|| nearest::hint_of_listed(argument, &names, "machines"));
    let file = data::no_file(file);
    let what = format!("no such machine, and {file}; {hint}");
    Err(Error::argument("machine", argument, what))
}

/// A list of levels, not a mistyped name: `pack:2 pu:1`, `4 2`, `8`.
fn looks_synthetic(argument: &str) -> bool {
    argument.contains([':', ' ', '[']) && !argument.contains('/')
        || argument.starts_with(|c: char| c.is_ascii_digit())
}

fn from_file(path: &Path) -> Result<Machine, Error> {
    let text = data::read(path)?;
    let file = data::shown(path);
    in_use::is_read(path);
    let is_xml = text.trim_start().starts_with('<')
        || path
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("xml"));
    let parsed = match is_xml {
        true => Machine::parse_hwloc_xml(&text, &file),
        false => Machine::parse_toml(&text, &file),
    };
    parsed.map_err(|e| failure(e, &file, &text))
}

fn failure(error: MachineError, file: &str, text: &str) -> Error {
    let line = error.to_string();
    let span = SourceSpan {
        file: file.to_owned(),
        text: text.to_owned(),
        span: error.span,
        what: error.what,
        help: error.help,
    };
    let span = Some(Box::new(span));
    Error::Input(vec![InputFault { line, span }])
}
