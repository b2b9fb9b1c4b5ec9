// SPDX-License-Identifier: GPL-2.0-or-later
//! From a campaign to its cells, and to the part of them that one process does.

use std::collections::BTreeSet;
use std::str::FromStr;

use tiltyard_claims::{Job, merge_patch};
use tiltyard_model::Machine;

use super::{Campaign, Discipline, Named};
use crate::reproduce::Simulated;
use crate::{Error, Progress, machines, metric, nearest, workloads};

/// The name of a discipline's query among the measures of its jobs.
pub const QUERY: &str = "decides";

/// All runs of a campaign, with their inputs.
pub struct Plan<'a> {
    /// What is planned.
    pub campaign: &'a Campaign,
    /// One for each workload, machine and scheduler, in the order of the file.
    pub entries: Vec<Entry>,
    pub(super) arena: Simulated,
}

/// A scheduler in a contest; indices into the campaign's lists.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Into `disciplines`.
    pub discipline: usize,
    /// Into `machines`.
    pub machine: usize,
    /// Into `schedulers`.
    pub scheduler: usize,
    /// Its run; with each seed it is a cell.
    pub job: Job,
}

/// A cell: an index into [`Plan::entries`], and a seed.
pub type Cell = (usize, u64);

/// Part K of N of the cells, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which part.
    pub part: u64,
    /// Of how many.
    pub of: u64,
}

impl Shard {
    /// All cells.
    pub const WHOLE: Shard = Shard { part: 1, of: 1 };

    /// Neighbours take about as long as each other, so each part takes every Nth cell.
    fn has(self, at: usize) -> bool {
        at as u64 % self.of == self.part - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/');
        let parts = parts.and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
        match parts {
            Some((part, of)) if (1..=of).contains(&part) => Ok(Shard { part, of }),
            _ => Err("write K/N, K from 1 to N: 3/16 is the third of 16 parts".to_owned()),
        }
    }
}

impl<'a> Plan<'a> {
    /// Reads all inputs and builds all schedulers. Errors: what a run would only find out later.
    pub fn of(campaign: &'a Campaign, progress: &dyn Progress) -> Result<Plan<'a>, Error> {
        let mut entries = Vec::new();
        for (machine, named) in campaign.machines.iter().enumerate() {
            let size = Size::of(&machines::load(&named.argument)?);
            for (at, discipline) in campaign.disciplines.iter().enumerate() {
                if !discipline.runs_on(&named.name) {
                    continue;
                }
                for (scheduler, entrant) in campaign.schedulers.iter().enumerate() {
                    let job = job(discipline, &entrant.argument, &named.argument, size);
                    entries.push(Entry {
                        discipline: at,
                        machine,
                        scheduler,
                        job,
                    });
                }
            }
        }
        entries.sort_by_key(|entry| (entry.discipline, entry.machine, entry.scheduler));
        let arena = Simulated::of_jobs(entries.iter().map(|entry| &entry.job), progress)
            .map_err(|error| campaign.of_job(error))?;
        let plan = Plan {
            campaign,
            entries,
            arena,
        };
        plan.check()?;
        Ok(plan)
    }

    /// What authors of its schedulers should know, a line each.
    pub fn warnings(&self) -> Vec<String> {
        let mut told = BTreeSet::new();
        let mut lines = Vec::new();
        for entry in &self.entries {
            let (built, machine, _) = self.arena.inputs_of(&entry.job);
            let new = built.warnings(machine).into_iter();
            lines.extend(new.filter(|line| told.insert(line.clone())));
        }
        lines
    }

    /// The error of a query that failed in this cell.
    pub(super) fn of_query(&self, (entry, seed): Cell, what: &str) -> Error {
        let (entry, of) = (&self.entries[entry], self.campaign);
        let discipline = &of.disciplines[entry.discipline];
        let (machine, scheduler) = (
            &of.machines[entry.machine].name,
            &of.schedulers[entry.scheduler].name,
        );
        let what = format!("{what} (on {machine} under {scheduler}, seed {seed})");
        let span = discipline.metric.as_ref().map(|m| m.span.clone());
        of.source.fault(span.unwrap_or(0..0), &what, "")
    }

    fn check(&self) -> Result<(), Error> {
        for entry in &self.entries {
            let discipline = &self.campaign.disciplines[entry.discipline];
            let (_, machine, workload) = self.arena.inputs_of(&entry.job);
            let argument = &discipline.workload;
            let place = |error: Error| self.campaign.of_workload(discipline, error);
            workloads::require_cpus(argument, workload, machine).map_err(place)?;
            if discipline.duration.is_none() {
                let remedy = "give it a duration, such as 10s";
                workloads::require_own_end(argument, workload, remedy).map_err(place)?;
            }
            if let Some(metric) = discipline.metric.as_ref().filter(|m| m.sql.is_none()) {
                let possible = metric::require_possible(&metric.name, workload, machine);
                possible.map_err(|error| match error {
                    Error::Argument { value, what, .. } => {
                        let what = format!("metric = \"{value}\": {what}");
                        self.campaign.source.fault(metric.span.clone(), &what, "")
                    }
                    error => error,
                })?;
            }
            if discipline.own_metric.is_some() {
                metric::require_own_possible(workload, machine)?;
            }
        }
        Ok(())
    }

    /// The cells of a part: those of a contest are neighbours.
    pub fn cells(&self, shard: Shard) -> Vec<Cell> {
        let seeds = 1..=self.campaign.seeds;
        let entries = 0..self.entries.len();
        let all = entries.flat_map(|entry| seeds.clone().map(move |seed| (entry, seed)));
        let own = all.enumerate().filter(|(at, _)| shard.has(*at));
        own.map(|(_, cell)| cell).collect()
    }
}

impl Campaign {
    /// Adds where an error about a workload belongs in the campaign's file.
    fn of_workload(&self, discipline: &Discipline, error: Error) -> Error {
        match (&discipline.workload_span, error) {
            (Some(span), Error::Argument { value, what, .. }) => {
                let what = format!("workload = \"{value}\": {what}");
                self.source.fault(span.clone(), &what, "")
            }
            (Some(_), error) => error.within(&self.source.file),
            (None, error) => error,
        }
    }

    /// Adds where an error belongs in the campaign's file: one about a scheduler that the file defines, or about a workload.
    fn of_job(&self, error: Error) -> Error {
        let (value, what) = match &error {
            Error::Argument { value, what, .. } => (value, what),
            Error::Input(_) if !self.source.file.is_empty() => {
                return error.within(&self.source.file);
            }
            _ => return error,
        };
        let own = self.schedulers.iter().find(|s| s.argument == *value);
        match own.and_then(|own| own.span.clone()) {
            Some(span) => {
                let what = format!("schedulers = \"{value}\": {what}");
                self.source.fault(span, &what, "")
            }
            None => error,
        }
    }

    /// Keeps the schedulers, machines and workloads of these names; an empty list keeps all. A machine that the campaign does
    /// not have may be another one, as for `run -m`; workloads that name their machines leave it out.
    pub fn select(
        &mut self,
        schedulers: &[String],
        machines: &[String],
        workloads: &[String],
    ) -> Result<(), Error> {
        let is_own = |name: &String| {
            let mut own = self.schedulers.iter();
            own.any(|s| [&s.name, &s.argument].contains(&name))
        };
        let other = schedulers
            .iter()
            .find(|name| !is_own(name) && crate::schedulers::choose(name).is_ok());
        if let Some(other) = other {
            let what = format!("not in this campaign; --with {other} adds it");
            return Err(Error::argument("scheduler", other, what));
        }
        let others = "--with adds others";
        retain("scheduler", others, &mut self.schedulers, schedulers, |s| {
            [&s.name, &s.argument]
        })?;
        let is = |known: &Named, typed: &String| known.name == *typed || known.argument == *typed;
        for argument in machines {
            if !self.machines.iter().any(|known| is(known, argument)) {
                let known: Vec<&str> = self.machines.iter().map(|m| m.name.as_str()).collect();
                // hwloc takes a number alone for that many CPUs; here it is rather a name with a mistake in it.
                if argument.bytes().all(|byte| byte.is_ascii_digit()) {
                    let what = format!(
                        "is none of this campaign's machines ({}); a machine with that many CPUs is pu:{argument}",
                        known.join(", ")
                    );
                    return Err(Error::argument("machine", argument, what));
                }
                let machine = machines::load(argument).map_err(|error| match error {
                    Error::Argument { of, value, what } => Error::Argument {
                        of,
                        value,
                        what: format!("{what}; this campaign's are {}", known.join(", ")),
                    },
                    error => error,
                })?;
                self.machines
                    .push(Named::typed(machine.name, argument.clone()));
            }
        }
        let is_wanted = |m: &Named| machines.is_empty() || machines.iter().any(|one| is(m, one));
        self.machines.retain(is_wanted);
        let others = "a campaign file of your own takes others";
        retain("workload", others, &mut self.disciplines, workloads, |d| {
            [&d.name, &d.workload]
        })?;
        self.require_contest()
    }

    /// Workloads that name their machines may leave nothing to do.
    fn require_contest(&self) -> Result<(), Error> {
        let mut disciplines = self.disciplines.iter();
        if disciplines.any(|d| self.machines.iter().any(|m| d.runs_on(&m.name))) {
            return Ok(());
        }
        let machines = self.machines.iter();
        let machines: Vec<&str> = machines.map(|machine| machine.name.as_str()).collect();
        let places = self.disciplines.iter();
        let places = places.map(|d| format!("{} is for {}", d.name, d.machines.join(", ")));
        Err(Error::argument(
            "machine",
            &machines.join(","),
            format!(
                "no selected workload runs there: {}",
                places.collect::<Vec<_>>().join("; ")
            ),
        ))
    }
}

/// Keeps those of the wanted names, or all if there are none; `others`: what to do about one that is not among them; `names`:
/// that of the campaign's tables, and what is typed elsewhere.
fn retain<T>(
    of: &'static str,
    others: &str,
    all: &mut Vec<T>,
    wanted: &[String],
    names: impl Fn(&T) -> [&String; 2],
) -> Result<(), Error> {
    for one in wanted {
        if !all.iter().any(|item| names(item).contains(&one)) {
            let known: Vec<String> = all.iter().map(|item| names(item)[0].clone()).collect();
            let hint = nearest::hint(one, &known);
            let what = format!("not in this campaign ({others}); {hint}");
            return Err(Error::argument(of, one, what));
        }
    }
    let is_wanted = |item: &T| names(item).iter().any(|name| wanted.contains(name));
    all.retain(|item| wanted.is_empty() || is_wanted(item));
    Ok(())
}

fn job(discipline: &Discipline, scheduler: &str, machine: &str, size: Size) -> Job {
    let mut job = Job::new(&discipline.workload, machine, scheduler);
    job.patch = merge_patch(&discipline.patch, &|text| size.fill(text)).to_string();
    job.duration.clone_from(&discipline.duration);
    let metric = discipline.metric.as_ref();
    if let Some((sql, _)) = metric.and_then(|metric| metric.sql.as_ref()) {
        job.events = true;
        job.measures.insert(QUERY.to_owned(), sql.clone());
    }
    job
}

/// How large a machine is, for patches that grow with it.
#[derive(Clone, Copy)]
pub(super) struct Size {
    cpus: usize,
    cores: usize,
}

impl Size {
    fn of(machine: &Machine) -> Size {
        let cores: BTreeSet<u32> = machine.cpus.iter().map(|cpu| cpu.core).collect();
        Size {
            cpus: machine.nr_cpus(),
            cores: cores.len(),
        }
    }

    /// The first unknown name in `text`.
    pub fn unknown_name(text: &str) -> Option<String> {
        let names = text.split('$').skip(1).map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            &rest[..end.unwrap_or(rest.len())]
        });
        let mut unknown = names.filter(|name| !["cpus", "cores"].contains(name));
        unknown.next().map(|name| format!("${name}"))
    }

    /// `$cpus` and `$cores` are numbers of the machine; `1.5*$cpus` is that many times it, and `300/$cpus` that divided by
    /// it, both rounded, at least 1.
    fn fill(self, text: &str) -> String {
        let numbers = [("$cpus", self.cpus), ("$cores", self.cores)];
        let computed = numbers.iter().find_map(|(name, number)| {
            let before = text.strip_suffix(name)?;
            let (number, sign) = (*number as f64, before.chars().next_back()?);
            let given: f64 = before.strip_suffix(sign)?.trim().parse().ok()?;
            let value = match sign {
                '*' => given * number,
                '/' => given / number,
                _ => return None,
            };
            Some(value.round().max(1.0).to_string())
        });
        computed.unwrap_or_else(|| {
            let fill = |text: String, (name, number): &(&str, usize)| {
                text.replace(name, &number.to_string())
            };
            numbers.iter().fold(text.to_owned(), fill)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_each_cell_once() {
        for of in 1..=7 {
            let mut seen: Vec<usize> = (1..=of)
                .flat_map(|part| (0..20).filter(move |at| Shard { part, of }.has(*at)))
                .collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..20).collect::<Vec<_>>(), "{of}");
        }
        assert_eq!("3/16".parse(), Ok(Shard { part: 3, of: 16 }));
        for wrong in ["", "3", "0/4", "5/4", "a/b", "1/0", "-1/4"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn patches_grow_with_the_machine() {
        let size = Size {
            cpus: 32,
            cores: 16,
        };
        for (text, filled) in [
            ("$cpus", "32"),
            ("2*$cpus", "64"),
            ("1.5*$cores", "24"),
            ("0.01*$cores", "1"),
            ("80000/$cores", "5000"),
            ("1/$cpus", "1"),
            ("a*$cpus", "a*32"),
            ("a$cpus", "a32"),
            ("4", "4"),
        ] {
            assert_eq!(size.fill(text), filled, "{text}");
        }
        let odd = Size { cpus: 5, cores: 5 };
        assert_eq!(odd.fill("1.5*$cores"), "8", "rounded");
    }
}
