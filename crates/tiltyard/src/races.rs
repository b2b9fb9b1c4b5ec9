// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard run --races`: unordered accesses of schedulers' code, over all runs of each scheduler.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use tiltyard_measure::units;
use tiltyard_model::Machine;
use tiltyard_runner::sim_results::SimRun;
use tiltyard_sim::{Checked, Race, Side};

use crate::failure::{Code, Failure};

/// Nothing can race on one CPU: a clean result would mean nothing.
pub fn require_cpus(machine: &Machine) -> Result<(), Failure> {
    if machine.nr_cpus() > 1 {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--races: {} has one CPU, on which nothing can race; name a machine with several, as with -m smp4",
        machine.name
    )))
}

/// Where two accesses are, what they do and which variable they are about: what makes two races the same.
type Lines = ([((String, u32), &'static str, bool); 2], String);

/// The races of one scheduler.
pub struct Found<'a> {
    label: &'a str,
    runs: usize,
    racy_runs: usize,
    /// Each pair of lines once for each variable: the first race in order of seeds, with the sum of all occurrences.
    races: Vec<Race>,
    origin_ns: u64,
    is_partial: bool,
}

impl Found<'_> {
    pub fn of<'a>(label: &'a str, runs: &[SimRun]) -> Found<'a> {
        let mut merged: BTreeMap<Lines, Race> = BTreeMap::new();
        let checked: Vec<&Checked> = runs.iter().filter_map(|r| r.checked.as_ref()).collect();
        for race in checked.iter().flat_map(|c| &c.races) {
            match merged.entry(lines(race)) {
                Entry::Occupied(mut known) => known.get_mut().times += race.times,
                Entry::Vacant(free) => drop(free.insert(race.clone())),
            }
        }
        Found {
            label,
            runs: runs.len(),
            racy_runs: checked.iter().filter(|c| !c.races.is_empty()).count(),
            races: merged.into_values().collect(),
            origin_ns: runs.first().map_or(0, |r| r.origin_ns),
            is_partial: checked.iter().any(|c| c.is_partial),
        }
    }

    /// What was found, as text, with a table if there is anything.
    pub fn page(&self) -> String {
        let partial = if self.is_partial {
            "; the scheduler uses more memory than the check remembers, so there may be more"
        } else {
            ""
        };
        let runs = plural(self.runs, "run");
        if self.races.is_empty() {
            return format!("Races   none found in {runs} of {}{partial}\n", self.label);
        }
        let mut table = Table::new();
        table
            .load_preset(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header([
                "times", "first at", "memory", "line", "access", "callback", "CPU", "task",
            ]);
        for number in [0, 6] {
            if let Some(column) = table.column_mut(number) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for race in &self.races {
            let at_ns = race.time_ns as f64 - self.origin_ns as f64;
            let [first, second] = &race.sides;
            let about = [
                race.times.to_string(),
                units::time(at_ns),
                race.what.clone(),
            ];
            table.add_row(about.into_iter().chain(columns(first)));
            let blank = ["", "", ""].map(str::to_owned);
            table.add_row(blank.into_iter().chain(columns(second)));
        }
        format!(
            "Races   {} of {} in {} of {runs}{partial}\n\n{}\n\n",
            self.count(),
            self.label,
            self.racy_runs,
            table.trim_fmt(),
        )
    }

    /// The failure of the command, if anything was found.
    pub fn failure(&self) -> Option<Failure> {
        let line = format!("--races: {}: {}", self.label, self.count());
        (!self.races.is_empty()).then(|| Failure::new(Code::Races, line))
    }

    fn count(&self) -> String {
        plural(self.races.len(), "unprotected pair") + " of lines"
    }
}

fn plural(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

fn lines(race: &Race) -> Lines {
    let mut lines = race
        .sides
        .clone()
        .map(|side| (place_key(&side.place), side.action, side.plain));
    lines.sort();
    (lines, race.owner.clone())
}

/// Orders `a.h:9` before `a.h:10`.
fn place_key(place: &str) -> (String, u32) {
    let (file, line) = place.rsplit_once(':').unwrap_or((place, "0"));
    (file.to_owned(), line.parse().unwrap_or(0))
}

fn columns(side: &Side) -> [String; 5] {
    let marked = if side.plain { "" } else { ", marked" };
    [
        side.place.clone(),
        format!("{}{marked}", side.action),
        side.callback.clone(),
        side.cpu.to_string(),
        side.task.clone().unwrap_or_default(),
    ]
}
