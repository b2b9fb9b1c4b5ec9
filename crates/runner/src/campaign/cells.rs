// SPDX-License-Identifier: GPL-2.0-or-later
//! Doing the cells, each once: what is known is not done again.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tiltyard_measure::{Figure, Summary, figures};
use tiltyard_native::LoadError;
use tiltyard_sim::RunError;

use super::plan::{Cell, Plan, QUERY, Shard};
use crate::grid::in_pool;
use crate::reproduce::{Arena, Cache};
use crate::sim_error::SimError;
use crate::stuck::{self, StuckTasks};
use crate::{Error, Progress, Total};

/// What a cell gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The run came to its end.
    Ran {
        /// All its metrics.
        figures: Vec<Figure>,
        /// What the discipline's query returned, if it has one.
        measured: Option<f64>,
        /// Whether anything was drawn at random: if not, other seeds give the same run.
        left_to_chance: bool,
        /// Tasks that wait forever.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stuck: Option<StuckTasks>,
        /// Apps whose longest wait for a CPU was not over when the run ended.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cut_waits: Vec<String>,
    },
    /// The scheduler or the workload failed, which is a result.
    Failed {
        /// In a word or two.
        how: How,
        /// In a line.
        what: String,
    },
}

/// How a run failed; written in a word or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// The scheduler left by itself.
    #[serde(rename = "exited")]
    Exited,
    /// The watchdog took the scheduler out.
    #[serde(rename = "ejected")]
    Ejected,
    /// Tasks waited to the end, beside idle CPUs or because the scheduler had lost them.
    #[serde(rename = "left tasks waiting")]
    Stranded,
    /// The scheduler crashed.
    #[serde(rename = "crashed")]
    Crashed,
    /// The scheduler made an error.
    #[serde(rename = "failed")]
    Failed,
    /// The workload made an error.
    #[serde(rename = "workload failed")]
    Workload,
    /// Something is not modelled.
    #[serde(rename = "not modelled")]
    NotModelled,
}

impl How {
    /// Whether that is the scheduler's doing.
    pub fn is_schedulers(self) -> bool {
        !matches!(self, How::Workload | How::NotModelled)
    }

    /// What tables call it.
    pub fn words(self) -> &'static str {
        match self {
            How::Exited => "exited",
            How::Ejected => "ejected",
            How::Stranded => "left tasks waiting",
            How::Crashed => "crashed",
            How::Failed => "failed",
            How::Workload => "workload failed",
            How::NotModelled => "not modelled",
        }
    }
}

/// Outcomes of cells.
pub type Outcomes = BTreeMap<Cell, Outcome>;

/// What was done for them.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Runs done now.
    pub done: usize,
    /// Results that were known.
    pub known: usize,
    /// Cells without an outcome, and why: errors of the campaign's or of Tiltyard's own.
    pub errors: Vec<String>,
}

/// Does the cells of `shard`, `threads` at a time (0: one for each CPU of this machine). The results of all that are done are
/// in `cache`, whatever ends this.
pub fn run_all(
    plan: &Plan,
    shard: Shard,
    threads: usize,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<(Outcomes, Account), Error> {
    let cells = plan.cells(shard);
    progress.begin(Total::Runs(cells.len() as u64));
    let one = |cell: &Cell| {
        if let Some(reason) = progress.stop() {
            return Err(Error::Stopped(reason));
        }
        let outcome = one(plan, *cell, cache);
        match outcome {
            Ok((_, true)) => progress.run_known(),
            _ => progress.run_done(),
        }
        outcome
    };
    let results = in_pool(threads, || {
        let done = cells.par_iter().with_max_len(1).map(one);
        done.collect::<Vec<_>>()
    });
    progress.end();
    let (mut outcomes, mut account) = (Outcomes::new(), Account::default());
    for (cell, result) in cells.iter().zip(results?) {
        match result {
            Ok((outcome, known)) => {
                account.known += usize::from(known);
                account.done += usize::from(!known);
                outcomes.insert(*cell, outcome);
            }
            Err(error @ (Error::Stopped(_) | Error::File { .. })) => return Err(error),
            // What is wrong with a query is wrong with it in every run.
            Err(Error::Measurement(what)) => return Err(plan.of_query(*cell, &what)),
            Err(error) => account
                .errors
                .push(format!("{}: {error}", name(plan, *cell))),
        }
    }
    Ok((outcomes, account))
}

/// The outcomes that `cache` has, without a run; the cells that it lacks.
pub fn known(plan: &Plan, cache: &Cache) -> (Outcomes, Vec<String>) {
    let (mut outcomes, mut missing) = (Outcomes::new(), Vec::new());
    for cell in plan.cells(Shard::WHOLE) {
        match cache.get(&key(plan, cell, cache)) {
            Some(outcome) => drop(outcomes.insert(cell, outcome)),
            None => missing.push(name(plan, cell)),
        }
    }
    (outcomes, missing)
}

/// "desktop on 2009 under fifo, seed 3".
fn name(plan: &Plan, (entry, seed): Cell) -> String {
    let (entry, of) = (&plan.entries[entry], plan.campaign);
    format!(
        "{} on {} under {}, seed {seed}",
        of.disciplines[entry.discipline].name,
        of.machines[entry.machine].name,
        of.schedulers[entry.scheduler].name,
    )
}

/// The hash of everything that determines the cell's outcome.
fn key(plan: &Plan, (entry, seed): Cell, cache: &Cache) -> String {
    let job = &plan.entries[entry].job;
    let mut parts = plan.arena.identity(job);
    parts.extend([
        "campaign".to_owned(),
        seed.to_string(),
        format!("{:?} {:?} {:?}", job.duration, job.watchdog, job.measures),
    ]);
    cache.key(&parts.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A cell, and whether it was known.
fn one(plan: &Plan, cell: Cell, cache: &Cache) -> Result<(Outcome, bool), Error> {
    let key = key(plan, cell, cache);
    if let Some(outcome) = cache.get(&key) {
        return Ok((outcome, true));
    }
    let (entry, seed) = cell;
    let outcome = match plan.arena.measure(&plan.entries[entry].job, seed) {
        Ok((kept, summary)) => {
            if let Some(fault) = kept.faults.get(QUERY) {
                return Err(Error::Measurement(format!("sql: {fault}")));
            }
            Outcome::Ran {
                figures: figures(&summary),
                measured: kept.measures.get(QUERY).copied().flatten(),
                left_to_chance: kept.left_to_chance,
                stuck: kept.stuck,
                cut_waits: cut_waits(&summary),
            }
        }
        Err(Error::Sim(error)) => match how(&error) {
            Some(how) => Outcome::Failed {
                how,
                what: error
                    .to_string()
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            },
            None => return Err(error.into()),
        },
        Err(error) => return Err(error),
    };
    cache.keep(&key, &outcome)?;
    Ok((outcome, false))
}

fn cut_waits(summary: &Summary) -> Vec<String> {
    let cut = summary.apps.iter().filter(|app| app.longest_wait_cut);
    cut.map(|app| app.app.clone()).collect()
}

/// How a run failed; `None`: the fault is not the scheduler's, and not the workload's.
fn how(error: &SimError) -> Option<How> {
    Some(match error {
        SimError::Left(_) => How::Exited,
        SimError::Ejected(_) => How::Ejected,
        SimError::Stranded(..) => How::Stranded,
        SimError::Engine { error, .. } => match error {
            RunError::Crash { .. } => How::Crashed,
            RunError::Workload(_) => How::Workload,
            RunError::NotModelled(_) | RunError::Load(LoadError::Unbound(_)) => How::NotModelled,
            // A mistake in the campaign, which names tunables, or in the file beside the scheduler.
            RunError::Load(
                LoadError::UnknownGlobal { .. }
                | LoadError::ValueRange { .. }
                | LoadError::Array { .. },
            )
            | RunError::Environment(_) => return None,
            RunError::Scheduler(_) | RunError::Load(_) => How::Failed,
        },
        SimError::Panicked | SimError::Differs(..) => return None,
    })
}

/// Of each contest and scheduler with runs in which tasks wait forever, a warning.
pub fn stuck(plan: &Plan, outcomes: &Outcomes) -> Vec<String> {
    let mut runs: BTreeMap<usize, Vec<(u64, Option<&StuckTasks>)>> = BTreeMap::new();
    for ((entry, seed), outcome) in outcomes {
        if let Outcome::Ran { stuck, .. } = outcome {
            runs.entry(*entry)
                .or_default()
                .push((*seed, stuck.as_ref()));
        }
    }
    let warning = |(entry, runs): (usize, Vec<_>)| {
        let (entry, of) = (&plan.entries[entry], plan.campaign);
        let scheduler = &of.schedulers[entry.scheduler].name;
        let told = stuck::told(scheduler, runs.into_iter())?;
        let (discipline, machine) = (
            &of.disciplines[entry.discipline],
            &of.machines[entry.machine],
        );
        Some(format!("{} on {}: {told}", discipline.name, machine.name))
    };
    runs.into_iter().filter_map(warning).collect()
}

/// Of each contest, the first run that failed under each scheduler: its name, how and what.
pub fn failures<'a>(plan: &Plan, outcomes: &'a Outcomes) -> Vec<(String, How, &'a str)> {
    let mut failures = Vec::new();
    let mut last = None;
    for (cell, outcome) in outcomes {
        if let Outcome::Failed { how, what } = outcome
            && last.replace(cell.0) != Some(cell.0)
        {
            failures.push((name(plan, *cell), *how, what.as_str()));
        }
    }
    failures
}
