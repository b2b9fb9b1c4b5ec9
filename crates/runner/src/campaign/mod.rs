// SPDX-License-Identifier: GPL-2.0-or-later
//! Campaigns: workloads x machines x schedulers x seeds, and who wins what.
//!
//! `docs/reference/campaign-files.md` explains each key of a file. Data flows one way:
//!
//! ```text
//! file -> Campaign --plan--> cells --cells--> outcomes, kept by content hash --standings--> Standings
//! ```
//!
//! A cell is one run. It depends on nothing but its inputs, so cells can be done in any order, by any number of processes and
//! on any number of machines, and give the same standings.

mod cells;
mod file;
mod json;
mod plan;
mod standings;

pub use cells::{Account, How, Outcome, Outcomes, failures, known, run_all};
pub use file::{names, path, read};
pub use json::{csv, json};
pub use plan::{Plan, Shard};
pub use standings::{Repeat, Summed, standings};

use std::ops::Range;

use tiltyard_measure::{Amount, Better, Unit};

use crate::source::Source;

/// What is run, and what decides.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// In a few words.
    pub title: String,
    /// Why this selection; may be empty.
    pub about: String,
    /// Each cell is run with seeds 1 to this.
    pub seeds: u64,
    /// As for `run -s`.
    pub schedulers: Vec<Named>,
    /// As for `run -m`.
    pub machines: Vec<Named>,
    /// What is done on each machine, under each scheduler.
    pub disciplines: Vec<Discipline>,
    /// The file, for messages about what only runs show.
    pub source: Source,
}

/// An input and its name in tables.
#[derive(Clone, Debug)]
pub struct Named {
    /// In tables.
    pub name: String,
    /// As it would be typed.
    pub argument: String,
    /// A remark of the file's author; may be empty.
    pub about: String,
    /// Where it is in the campaign's file, if it is from there.
    pub span: Option<Range<usize>>,
}

impl Named {
    /// What was typed, not read from a file.
    pub fn typed(name: String, argument: String) -> Named {
        Named {
            name,
            argument,
            about: String::new(),
            span: None,
        }
    }

    /// What selects it on the command line.
    fn selector(&self) -> &str {
        match self.span {
            Some(_) => &self.name,
            None => &self.argument,
        }
    }
}

/// A workload, and what decides who is best at it.
#[derive(Clone, Debug)]
pub struct Discipline {
    /// In tables.
    pub name: String,
    /// As for `run -w`.
    pub workload: String,
    /// Where it is in the campaign's file, if it is from there.
    pub workload_span: Option<Range<usize>>,
    /// What it stands for; may be empty.
    pub about: String,
    /// `None`: the default metric of `tiltyard explain`.
    pub metric: Option<Metric>,
    /// The default metric, if the workload's file names it.
    pub own_metric: Option<String>,
    /// The latest end, as for `--duration`.
    pub duration: Option<String>,
    /// Changes of the workload; `$cpus` and `$cores` in its strings are numbers of the machine.
    pub patch: toml::Table,
    /// A scheduler that lets a task of the workload wait longer has failed, ns; `None`: it may.
    pub starved_after_ns: Option<u64>,
    /// Names of the machines that it runs on; empty: all.
    pub machines: Vec<String>,
}

impl Discipline {
    /// Whether it is meant for the machine of this name.
    pub fn runs_on(&self, machine: &str) -> bool {
        self.machines.is_empty() || self.machines.iter().any(|name| name == machine)
    }
}

/// The metric that decides.
#[derive(Clone, Debug)]
pub struct Metric {
    /// A name of `tiltyard compare --list-metrics`, whole or its end; what `sql` measures, in words.
    pub name: String,
    /// Where it is in the file.
    pub span: Range<usize>,
    /// The query of a metric of the campaign's own, and the unit of its values.
    pub sql: Option<(String, SqlUnit)>,
    /// Which direction is good.
    pub better: Better,
    /// The largest difference that is a tie; default 1 %.
    pub tie: Option<Amount>,
    /// Why this metric.
    pub reason: String,
    /// Position of `better` in the file.
    pub better_span: Range<usize>,
    /// Position of `tie` in the file; empty if there is none.
    pub tie_span: Range<usize>,
}

/// The unit of a query's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SqlUnit {
    /// Of values after multiplication with `scale`.
    pub unit: Unit,
    /// Turns a value of the query into one of `unit`.
    pub scale: f64,
}

/// Tasks that wait longer than this are starved, unless the file says otherwise: the bound that `run` counts by.
pub const STARVED_AFTER_NS: u64 = tiltyard_measure::RecorderSpec::STARVATION_NS;
