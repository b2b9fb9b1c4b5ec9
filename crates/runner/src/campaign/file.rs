// SPDX-License-Identifier: GPL-2.0-or-later
//! Campaign files: reading them, and finding what is wrong with them before the first run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tiltyard_claims::absent;
use tiltyard_measure::{Amount, Better, Unit};
use toml::Spanned;

use super::plan::Size;
use super::{Campaign, Discipline, Metric, Named, STARVED_AFTER_NS, SqlUnit};
use crate::Error;
use crate::source::Source;
use crate::{data, duration, in_use, machines, nearest, schedulers, workloads};

/// The fewest seeds that give a 95 % interval.
const SEEDS: u32 = 6;

const MOST_SEEDS: u32 = 10_000;

/// What `starved_after` says where tasks may wait as long as they like.
const NEVER: &str = "never";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    #[serde(default)]
    about: String,
    seeds: Option<Spanned<u32>>,
    schedulers: Spanned<Vec<Spanned<String>>>,
    machine: Vec<MachineTable>,
    workload: Vec<WorkloadTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineTable {
    machine: Spanned<String>,
    name: Option<Spanned<String>>,
    #[serde(default)]
    about: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadTable {
    workload: Spanned<String>,
    name: Option<Spanned<String>>,
    #[serde(default)]
    about: String,
    metric: Spanned<String>,
    sql: Option<Spanned<String>>,
    unit: Option<Spanned<String>>,
    better: Spanned<String>,
    tie: Option<Spanned<String>>,
    reason: Spanned<String>,
    duration: Option<Spanned<String>>,
    #[serde(default)]
    patch: toml::Table,
    starved_after: Option<Spanned<String>>,
    machines: Option<Vec<Spanned<String>>>,
}

/// Names of the shipped campaigns.
pub fn names() -> Result<Vec<String>, Error> {
    let folder = data::folder()?.join("campaigns");
    match folder.is_dir() {
        true => data::names(&folder, ".toml"),
        false => Ok(Vec::new()),
    }
}

/// The file that `argument`, a shipped name or a path, means.
pub fn path(argument: &str) -> Result<PathBuf, Error> {
    let file = Path::new(argument);
    let names = names()?;
    if names.iter().any(|name| name == argument) {
        return Ok(data::folder()?
            .join("campaigns")
            .join(format!("{argument}.toml")));
    }
    if file.is_file() {
        return Ok(file.to_owned());
    }
    let hint = nearest::hint_of_listed(argument, &names, "campaigns");
    let file = data::no_file(file);
    Err(Error::Request(format!(
        "{argument}: no such campaign, and {file}; {hint}"
    )))
}

/// Reads and checks a campaign, all that can be checked without a run or a build.
pub fn read(path: &Path) -> Result<Campaign, Error> {
    let source = Source::read(path)?;
    in_use::is_read(path);
    parse(source)
}

fn parse(source: Source) -> Result<Campaign, Error> {
    let file: File = source.toml("docs/reference/campaign-files.md explains all keys")?;
    let seeds = match &file.seeds {
        None => SEEDS,
        Some(seeds) if (1..=MOST_SEEDS).contains(seeds.get_ref()) => *seeds.get_ref(),
        Some(seeds) => {
            let what = format!("seeds = {}", seeds.get_ref());
            let help = format!("write 1 to {MOST_SEEDS}; from {SEEDS} on there can be winners");
            return Err(source.fault(seeds.span(), &what, &help));
        }
    };
    let machines = machines_of(&source, &file.machine)?;
    let mut disciplines: Vec<Discipline> = Vec::new();
    for table in &file.workload {
        let discipline = discipline(&source, table, &machines)?;
        if disciplines.iter().any(|d| d.name == discipline.name) {
            return Err(twice(&source, &table.workload, &discipline.name, RENAME));
        }
        disciplines.push(discipline);
    }
    if disciplines.is_empty() || machines.is_empty() {
        let what = "no [[workload]] or no [[machine]]";
        return Err(source.fault(0..0, what, "write one of each at least"));
    }
    Ok(Campaign {
        title: file.title,
        about: file.about,
        seeds: u64::from(seeds),
        schedulers: schedulers_of(&source, &file.schedulers)?,
        machines,
        disciplines,
        source,
    })
}

fn twice(source: &Source, place: &Spanned<String>, name: &str, help: &str) -> Error {
    let what = format!("\"{name}\" is there twice");
    source.fault(place.span(), &what, help)
}

const RENAME: &str = "give one of them another name";

/// What a name of an input is wrong with, at its place; errors in that input's own file keep theirs.
fn at<T>(
    source: &Source,
    key: &str,
    place: &Spanned<String>,
    found: Result<T, Error>,
) -> Result<T, Error> {
    found.map_err(|error| match error {
        Error::Argument { value, what, .. } => {
            let what = format!("{key} = \"{value}\": {what}");
            source.fault(place.span(), &what, "")
        }
        Error::Request(what) => source.fault(place.span(), &format!("{key}: {what}"), ""),
        error => error,
    })
}

fn schedulers_of(
    source: &Source,
    list: &Spanned<Vec<Spanned<String>>>,
) -> Result<Vec<Named>, Error> {
    let list_of = list.get_ref();
    let choices = list_of.iter().map(|argument| {
        let choice = schedulers::choose(argument.get_ref());
        at(source, "schedulers", argument, choice)
    });
    let mut choices = choices.collect::<Result<Vec<_>, _>>()?;
    schedulers::tell_apart(&mut choices);
    let mut all: Vec<Named> = Vec::new();
    for (argument, choice) in list_of.iter().zip(choices) {
        if all.iter().any(|known| known.name == choice.label) {
            return Err(twice(source, argument, &choice.label, "leave one out"));
        }
        all.push(Named {
            name: choice.label,
            argument: choice.argument,
            about: String::new(),
            span: Some(argument.span()),
        });
    }
    match all.is_empty() {
        true => Err(source.fault(list.span(), "schedulers = []", "name one at least")),
        false => Ok(all),
    }
}

/// In tables, and what `-w` and `-m` select: `given`, or else the input's `own`.
fn name_of(
    source: &Source,
    given: &Option<Spanned<String>>,
    own: String,
    input: &Spanned<String>,
) -> Result<String, Error> {
    let name = given.as_ref().map_or(own, |name| name.get_ref().clone());
    let is_odd = |c: char| c == ',' || c.is_control();
    if name.is_empty() || name.trim() != name || name.contains(is_odd) {
        let place = given.as_ref().unwrap_or(input);
        let what = format!("name {name:?} could not be selected");
        let help = "give it a name without commas, and without spaces at its ends";
        return Err(source.fault(place.span(), &what, help));
    }
    Ok(name)
}

fn machines_of(source: &Source, tables: &[MachineTable]) -> Result<Vec<Named>, Error> {
    let mut all: Vec<Named> = Vec::new();
    for table in tables {
        let argument = table.machine.get_ref();
        let machine = machines::load(argument).map_err(|error| match error {
            // A topology is in this file, so its error is, too.
            Error::Input(faults) if faults.iter().all(|f| f.line.starts_with("topology ")) => {
                let lines: Vec<&str> = faults.iter().map(|f| f.line.as_str()).collect();
                Error::Request(lines.join("; "))
            }
            error => error,
        });
        let machine = at(source, "machine", &table.machine, machine)?;
        let named = Named {
            name: name_of(source, &table.name, machine.name, &table.machine)?,
            argument: argument.clone(),
            about: table.about.clone(),
            span: Some(table.machine.span()),
        };
        if all.iter().any(|known| known.name == named.name) {
            return Err(twice(source, &table.machine, &named.name, RENAME));
        }
        all.push(named);
    }
    Ok(all)
}

fn discipline(
    source: &Source,
    table: &WorkloadTable,
    machines: &[Named],
) -> Result<Discipline, Error> {
    let argument = table.workload.get_ref();
    // The file itself; changes of it depend on the machine.
    let workload = at(
        source,
        "workload",
        &table.workload,
        workloads::load(argument),
    )?;
    let starved_after_ns = match &table.starved_after {
        None => Some(STARVED_AFTER_NS),
        Some(text) if text.get_ref() == NEVER => None,
        Some(text) => Some(duration_of(source, "starved_after", text)?),
    };
    check_duration(source, table, workload.duration_ns, starved_after_ns)?;
    check_patch(source, &toml::Value::Table(table.patch.clone()))?;
    let names: BTreeSet<&str> = machines.iter().map(|m| m.name.as_str()).collect();
    let own = table.machines.iter().flatten();
    for name in own.clone() {
        if !names.contains(name.get_ref().as_str()) {
            let known: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
            let what = format!(
                "machines: no [[machine]] has the name \"{}\"",
                name.get_ref()
            );
            return Err(source.fault(name.span(), &what, &nearest::hint(name.get_ref(), &known)));
        }
    }
    if own.clone().next().is_none() && table.machines.is_some() {
        let help = "name one at least, or leave machines out for all";
        return Err(source.fault(table.workload.span(), "machines = []", help));
    }
    Ok(Discipline {
        name: name_of(source, &table.name, workload.name, &table.workload)?,
        workload: argument.clone(),
        workload_span: Some(table.workload.span()),
        about: match table.about.is_empty() {
            true => workload.description,
            false => table.about.clone(),
        },
        metric: Some(metric(source, table)?),
        own_metric: None,
        duration: table.duration.as_ref().map(|d| d.get_ref().clone()),
        patch: table.patch.clone(),
        starved_after_ns,
        machines: own.map(|name| name.get_ref().clone()).collect(),
    })
}

/// In a run that is no longer than `starved_after`, hardly anything could count as starved. `own_ns`: the duration in the
/// workload's file, which the patch may change.
fn check_duration(
    source: &Source,
    table: &WorkloadTable,
    own_ns: Option<u64>,
    starved_after_ns: Option<u64>,
) -> Result<(), Error> {
    let set = table.duration.as_ref();
    let set_ns = set.map(|text| duration_of(source, "duration", text));
    let own_ns = own_ns.filter(|_| !table.patch.contains_key("global"));
    let duration_ns = set_ns.transpose()?.or(own_ns);
    let (Some(duration_ns), Some(limit_ns)) = (duration_ns, starved_after_ns) else {
        return Ok(());
    };
    if limit_ns < duration_ns {
        return Ok(());
    }
    let (limit, default) = match &table.starved_after {
        Some(text) => (text.get_ref().clone(), ""),
        None => (duration::write(limit_ns), " by default"),
    };
    let duration = duration::write(duration_ns);
    let what = format!(
        "starved_after is {limit}{default}, and runs end after {duration}: no task could count as starved"
    );
    let help = format!("set starved_after to less, or to \"{NEVER}\"");
    let at = table.starved_after.as_ref().or(set);
    Err(source.fault(at.unwrap_or(&table.workload).span(), &what, &help))
}

/// Without this check, an unknown name would stay in the patch, and the error would point to the workload.
fn check_patch(source: &Source, value: &toml::Value) -> Result<(), Error> {
    match value {
        toml::Value::Table(table) => table.values().try_for_each(|v| check_patch(source, v)),
        toml::Value::Array(values) => values.iter().try_for_each(|v| check_patch(source, v)),
        toml::Value::String(text) => match Size::unknown_name(text) {
            None => Ok(()),
            Some(name) => {
                let at = source.text.find(text.as_str()).unwrap_or(0);
                let help = "use $cpus or $cores, alone or as in 2*$cpus or 300/$cpus";
                let span = at..at + text.len();
                Err(source.fault(
                    span,
                    &format!("patch: \"{text}\": unknown name {name}"),
                    help,
                ))
            }
        },
        _ => Ok(()),
    }
}

fn duration_of(source: &Source, key: &str, text: &Spanned<String>) -> Result<u64, Error> {
    duration::parse_ns(text.get_ref()).map_err(|error| {
        let what = format!("{key} = \"{}\"", text.get_ref());
        let help = match key {
            "duration" => error.to_string(),
            _ => format!("{error}; or \"{NEVER}\""),
        };
        source.fault(text.span(), &what, &help)
    })
}

fn metric(source: &Source, table: &WorkloadTable) -> Result<Metric, Error> {
    let better = match table.better.get_ref().as_str() {
        "higher" => Better::Higher,
        "lower" => Better::Lower,
        other => {
            let what = format!("better = \"{other}\"");
            return Err(source.fault(table.better.span(), &what, "write higher or lower"));
        }
    };
    if table.reason.get_ref().trim().is_empty() {
        let help = "say in a sentence why this metric decides";
        return Err(source.fault(table.reason.span(), "reason is empty", help));
    }
    let sql = match (&table.sql, &table.unit) {
        (None, None) => None,
        (None, Some(unit)) => {
            let what = "unit without sql";
            let help = "a metric of tiltyard has its own unit; leave it out";
            return Err(source.fault(unit.span(), what, help));
        }
        (Some(sql), unit) => {
            absent::check_query(sql.get_ref())
                .map_err(|what| source.fault(sql.span(), &format!("sql: {what}"), ""))?;
            Some((sql.get_ref().clone(), unit_of(source, sql, unit.as_ref())?))
        }
    };
    Ok(Metric {
        name: table.metric.get_ref().clone(),
        span: table.metric.span(),
        sql,
        better,
        tie: table.tie.as_ref().map(|t| tie(source, t)).transpose()?,
        reason: table.reason.get_ref().clone(),
        better_span: table.better.span(),
        tie_span: table.tie.as_ref().map_or(0..0, Spanned::span),
    })
}

/// Units of queries.
const UNITS: [(&str, Unit, f64); 7] = [
    ("ns", Unit::TimeNs, 1.0),
    ("us", Unit::TimeNs, 1e3),
    ("ms", Unit::TimeNs, 1e6),
    ("s", Unit::TimeNs, 1e9),
    ("percent", Unit::Share, 0.01),
    ("per_s", Unit::PerSecond, 1.0),
    ("count", Unit::Count, 1.0),
];

fn unit_of(
    source: &Source,
    sql: &Spanned<String>,
    unit: Option<&Spanned<String>>,
) -> Result<SqlUnit, Error> {
    let known = UNITS.map(|(name, ..)| name).join(", ");
    let Some(unit) = unit else {
        let help = format!("write unit = one of {known}");
        return Err(source.fault(sql.span(), "sql without unit", &help));
    };
    let found = UNITS.iter().find(|(name, ..)| name == unit.get_ref());
    found
        .map(|&(_, unit, scale)| SqlUnit { unit, scale })
        .ok_or_else(|| {
            let what = format!("unit = \"{}\"", unit.get_ref());
            source.fault(unit.span(), &what, &format!("write one of {known}"))
        })
}

/// Whether its unit fits the metric shows when the metric is known.
fn tie(source: &Source, text: &Spanned<String>) -> Result<Amount, Error> {
    let fault = |help| {
        let what = format!("tie = \"{}\"", text.get_ref());
        source.fault(text.span(), &what, help)
    };
    match Amount::parse(text.get_ref()) {
        Some(amount) if amount.is_relative() && amount.number >= 100.0 => Err(fault(
            "then nothing is better than anything; write less than 100%",
        )),
        Some(amount) if amount.number >= 0.0 => Ok(amount),
        _ => Err(fault("write 2%, 0.5ms, 1points or 3/s")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"title = "t"
schedulers = ["fifo", "rr"]
[[machine]]
machine = "ideal1"
[[workload]]
workload = "pingpong"
metric = "throughput_per_s"
better = "higher"
reason = "r"
"#;

    fn parsed(text: &str) -> Result<Campaign, String> {
        let source = Source {
            file: "c.toml".to_owned(),
            text: text.to_owned(),
        };
        parse(source).map_err(|error| error.to_string())
    }

    #[test]
    fn what_a_file_leaves_out_has_a_default() {
        let campaign = parsed(GOOD).unwrap();
        assert_eq!(
            (campaign.seeds, campaign.machines[0].name.as_str()),
            (6, "ideal1")
        );
        let discipline = &campaign.disciplines[0];
        assert_eq!(discipline.name, "pingpong");
        assert_eq!(discipline.starved_after_ns, Some(1_000_000_000));
        assert!(
            discipline.about.len() > 10,
            "the workload's own description"
        );
    }

    #[test]
    fn each_fault_has_its_line_its_key_and_a_way_out() {
        for (from, to, line, words) in [
            ("title", "titel", 1, vec!["unknown field `titel`"]),
            (
                "\"rr\"",
                "\"rrr\"",
                2,
                vec!["schedulers = \"rrr\"", "did you mean rr?"],
            ),
            (
                "\"rr\"",
                "\"fifo\"",
                2,
                vec!["\"fifo\" is there twice; leave one out"],
            ),
            ("[\"fifo\", \"rr\"]", "[]", 2, vec!["name one at least"]),
            (
                "ideal1",
                "ideal2",
                4,
                vec!["machine = \"ideal2\"", "did you mean ideal1?"],
            ),
            (
                "pingpong",
                "ping",
                6,
                vec!["workload = \"ping\"", "no such workload"],
            ),
            (
                "\"higher\"",
                "\"up\"",
                8,
                vec!["better = \"up\"", "write higher or lower"],
            ),
            ("better", "better2", 8, vec!["unknown field `better2`"]),
            ("\"r\"", "\" \"", 9, vec!["reason is empty"]),
            (
                "better",
                "tie = \"1 gallon\"\nunit = \"ms\"\nbetter",
                9,
                vec!["unit without sql"],
            ),
            (
                "better",
                "tie = \"much\"\nbetter",
                8,
                vec!["tie = \"much\"", "write 2%"],
            ),
            ("better", "tie = \"-1%\"\nbetter", 8, vec!["tie = \"-1%\""]),
            (
                "better",
                "tie = \"150%\"\nbetter",
                8,
                vec!["less than 100%"],
            ),
            (
                "better",
                "duration = \"9\"\nbetter",
                8,
                vec!["duration = \"9\"", "a number and a unit"],
            ),
            (
                "better",
                "duration = \"1s\"\nbetter",
                8,
                vec!["starved_after is 1s by default", "or to \"never\""],
            ),
            (
                "better",
                "duration = \"3s\"\nstarved_after = \"4s\"\nbetter",
                9,
                vec!["starved_after is 4s, and runs end after 3s"],
            ),
            (
                "better",
                "starved_after = \"x\"\nbetter",
                8,
                vec!["or \"never\""],
            ),
            (
                "better",
                "machines = [\"ideal\"]\nbetter",
                8,
                vec!["has the name \"ideal\"", "did you mean ideal1?"],
            ),
            (
                "better",
                "sql = \"SELECT 1\"\nunit = \"ms\"\nbetter",
                8,
                vec!["sql: gives 1", "nothing was recorded"],
            ),
            (
                "better",
                "sql = \"SELECT min(last_end_ns) FROM request\"\nbetter",
                8,
                vec!["sql without unit"],
            ),
            (
                "better",
                "sql = \"SELECT min(last_end_ns) FROM request\"\nunit = \"mm\"\nbetter",
                9,
                vec!["unit = \"mm\""],
            ),
            (
                "better",
                "sql = \"SELEKT\"\nunit = \"ms\"\nbetter",
                8,
                vec!["sql: ", "SELEKT"],
            ),
            (
                "better",
                "machines = []\nbetter",
                6,
                vec!["machines = []", "leave machines out"],
            ),
            (
                "better",
                "name = \"a, b\"\nbetter",
                8,
                vec!["\"a, b\" could not be selected", "commas"],
            ),
            (
                "better",
                "name = \" a\"\nbetter",
                8,
                vec!["\" a\"", "spaces"],
            ),
            ("better", "name = \"\"\nbetter", 8, vec!["name \"\""]),
            (
                "ideal1",
                "core:0 pu:1",
                4,
                vec!["machine: topology", "core:0"],
            ),
        ] {
            let wrong = parsed(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(
                wrong.starts_with(&format!("c.toml:{line}: ")),
                "{to}: {wrong}"
            );
            for word in words {
                assert!(wrong.contains(word), "no {word} in {wrong}");
            }
        }
        let seeds = parsed(&format!("seeds = 0\n{GOOD}")).unwrap_err();
        assert!(
            seeds.starts_with("c.toml:1: seeds = 0; write 1 to"),
            "{seeds}"
        );
    }
}
