// SPDX-License-Identifier: GPL-2.0-or-later
//! Why two schedulers differ: runs in which mechanisms are switched off, for both at once, and each mechanism's share of
//! the difference in a metric.
//!
//! The value of a set of mechanisms is by how much the difference shrinks when they are switched off; shares are Shapley's
//! ([`tiltyard_measure::shapley`]). With what remains when everything is off they add up to the difference.

mod mechanisms;

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tiltyard_measure::shapley::{Coalition, Contribution, Design};
use tiltyard_measure::{Figure, Row, figures, median_interval};
use tiltyard_model::Machine;
use tiltyard_report::explanation::{Amount, Cause, Explanation};
use tiltyard_workload::Workload;

use crate::grid::in_pool;
use crate::objects::Built;
use crate::reproduce::Cache;
use crate::simulation::{self, Experiment, Written};
use crate::stuck::{self, StuckTasks};
use crate::{Error, Progress, Total, metric};
use mechanisms::Mechanisms;

/// What is to be explained.
pub struct Question<'a> {
    /// Where it runs.
    pub machine: &'a Machine,
    /// What runs.
    pub workload: &'a Workload,
    /// The text of its file: what results are cached by.
    pub workload_text: &'a str,
    /// The latest end, ns from the workload's start; `None`: the workload's own end.
    pub duration_ns: Option<u64>,
    /// The difference is the second's metric minus the first's.
    pub schedulers: &'a [Built; 2],
    /// At least one. Values are medians over them.
    pub seeds: &'a [u64],
    /// The metric's name; `None`: the workload's own, else throughput, else completion, else the first that says what is
    /// better.
    pub metric: Option<&'a str>,
    /// Only these mechanisms; empty: all that there are.
    pub mechanisms: &'a [String],
    /// Runs at a time; 0: one for each CPU of this machine.
    pub threads: usize,
    /// The command that asks it again, for the result.
    pub command: &'a str,
}

/// The answer, and what it took.
pub struct Answer {
    /// The difference and its parts.
    pub explanation: Explanation,
    /// Runs whose results it is made of.
    pub runs: usize,
    /// The metric, under both schedulers with everything on.
    row: Row,
}

/// One run: a side, what is off of what matters to it, and a seed.
type Cell = (usize, Coalition, u64);

/// What a run gave.
#[derive(Serialize, Deserialize)]
struct Done {
    figures: Vec<Figure>,
    stuck: Option<StuckTasks>,
}

/// Does all runs and divides the difference. Errors: a metric or a mechanism that does not exist here, a metric that a run
/// lacks, a run that failed.
pub fn explain(
    question: &Question,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Answer, Error> {
    let Question {
        machine,
        schedulers,
        ..
    } = question;
    if let Some(typed) = question.metric {
        metric::require_possible(typed, question.workload, machine)?;
    } else {
        metric::require_own_possible(question.workload, machine)?;
    }
    let mut mechanisms =
        Mechanisms::gather(machine, question.workload, schedulers, question.mechanisms)?;
    let mut design = Design::new(mechanisms.all.len());
    let masks = [0, 1].map(|side| mechanisms.mask(side));
    let cells: BTreeSet<Cell> = [0, 1]
        .into_iter()
        .flat_map(|side| {
            let all = design.coalitions();
            all.into_iter().map(move |off| (side, off & masks[side]))
        })
        .flat_map(|(side, off)| question.seeds.iter().map(move |seed| (side, off, *seed)))
        .collect();
    // What is wrong with the question shows after the first few runs.
    let (first, mut others): (Vec<Cell>, Vec<Cell>) =
        cells.iter().partition(|(_, off, _)| *off == 0);
    progress.begin(Total::Runs(cells.len() as u64));
    let all = |cells: &[Cell]| run_all(question, &mechanisms, cells, cache, progress);
    let measured = all(&first).and_then(|done| {
        let (row, note) = metric_of(question, &first, &done)?;
        let same = is_same(&row, &first, &done);
        if same {
            others.clear();
        }
        Ok((row, note, same, done, all(&others)?))
    });
    progress.end();
    let (row, passed_over, same, mut done, rest) = measured?;
    let is_default = question.metric.is_none() && passed_over.is_none();
    mechanisms.notes.splice(0..0, passed_over);
    if same {
        // Nothing has been switched off.
        mechanisms.all.clear();
        design = Design::new(0);
    }
    done.extend(rest);
    let cells: Vec<Cell> = first.into_iter().chain(others).collect();
    let runs = || cells.iter().zip(&done);
    let stuck = stuck_notes(question, runs().collect());
    mechanisms.notes.splice(0..0, stuck);
    let values = values_of(question, &mechanisms, &row, runs())?;
    let game = Game {
        seeds: question.seeds,
        masks,
        values,
    };
    Ok(Answer {
        runs: done.len(),
        explanation: conclude(question, mechanisms, &design, &game, &row, is_default),
        row,
    })
}

/// The metric in each run.
fn values_of<'a>(
    question: &Question,
    mechanisms: &Mechanisms,
    row: &Row,
    runs: impl Iterator<Item = (&'a Cell, &'a Done)>,
) -> Result<BTreeMap<Cell, f64>, Error> {
    let value = |(cell, done): (&Cell, &Done)| {
        let value = value_of(row, &done.figures).ok_or_else(|| {
            let what = format!(
                "this run lacks it{}; choose another metric, or fewer --mechanisms",
                metric::not_done(row)
            );
            metric::wrong(&row.name, what).within(&name_of(question, mechanisms, cell))
        })?;
        Ok((*cell, value))
    };
    runs.map(value).collect()
}

/// What there is to say of runs in which tasks wait forever.
fn stuck_notes(question: &Question, runs: Vec<(&Cell, &Done)>) -> Vec<String> {
    let (whole, others): (Vec<_>, Vec<_>) =
        runs.into_iter().partition(|((_, off, _), _)| *off == 0);
    let told = |side: usize| {
        let own = whole.iter().filter(|((of, ..), _)| *of == side);
        let own = own.map(|((.., seed), done)| (*seed, done.stuck.as_ref()));
        stuck::told(&question.schedulers[side].choice.label, own)
    };
    let stuck = others.iter().filter(|(_, done)| done.stuck.is_some());
    let switched_off = match stuck.count() {
        0 => None,
        count => Some(format!(
            "In {count} of {} runs with something switched off, tasks wait forever: {}.",
            others.len(),
            stuck::COVERED
        )),
    };
    let all = [0, 1].map(told).into_iter().chain([switched_off]);
    all.flatten().collect()
}

/// What each of `cells` gave, in their order; the first error if there is one.
fn run_all(
    question: &Question,
    mechanisms: &Mechanisms,
    cells: &[Cell],
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Vec<Done>, Error> {
    let one = |cell: &Cell| {
        let done = match progress.stop() {
            None => run_one(question, mechanisms, cell, cache),
            Some(reason) => return Err(Error::Stopped(reason)),
        };
        match done {
            Ok((_, true)) => progress.run_known(),
            _ => progress.run_done(),
        }
        let done = done.map(|(done, _)| done);
        done.map_err(|error| error.within(&name_of(question, mechanisms, cell)))
    };
    // All of them before the first error is looked for: which one comes first must not depend on threads.
    let done: Vec<Result<Done, Error>> = in_pool(question.threads, || {
        cells.par_iter().with_max_len(1).map(one).collect()
    })?;
    done.into_iter().collect()
}

/// What a cell gave, and whether it was cached.
fn run_one(
    question: &Question,
    mechanisms: &Mechanisms,
    &(side, off, seed): &Cell,
    cache: &Cache,
) -> Result<(Done, bool), Error> {
    let machine = mechanisms.machine(question.machine, off)?;
    let built = mechanisms.scheduler(question.schedulers, side, off);
    let choice = &built.choice;
    let key = cache.key(&[
        "figures",
        &format!("{machine:?}"),
        question.workload_text,
        &built.object.key,
        &format!(
            "{:?} {:?} {} {:?}",
            built.globals, choice.environment, choice.watchdog, question.duration_ns
        ),
        &seed.to_string(),
    ]);
    if let Some(done) = cache.get(&key) {
        return Ok((done, true));
    }
    let experiment = Experiment {
        duration_ns: question.duration_ns,
        // They cost time, and would be a part of the scheduler's own.
        probes: false,
        ..Experiment::new(&machine, question.workload)
    };
    let run = simulation::run(&experiment, &built, seed, Written::default(), &mut (), &())?;
    let done = Done {
        figures: figures(&run.summary),
        stuck: StuckTasks::of(&run.outcome),
    };
    cache.put(&key, &done);
    Ok((done, false))
}

/// "ule without kernel-noise, seed 3".
fn name_of(question: &Question, mechanisms: &Mechanisms, &(side, off, seed): &Cell) -> String {
    let label = &question.schedulers[side].choice.label;
    format!("{label}{}, seed {seed}", mechanisms.words(off))
}

/// The metric, from the runs with everything on, and what there is to say about the choice.
fn metric_of(
    question: &Question,
    cells: &[Cell],
    done: &[Done],
) -> Result<(Row, Option<String>), Error> {
    let of_side = |side: usize| {
        let own = cells.iter().zip(done).filter(|(cell, _)| cell.0 == side);
        own.map(|(_, done)| done.figures.clone()).collect()
    };
    let labels = [0, 1].map(|side| question.schedulers[side].choice.label.as_str());
    let figures = [of_side(0), of_side(1)];
    let own = question.workload.metric.as_deref();
    let row = metric::choose(question.metric, own, &figures, &labels);
    let row = row.map_err(|error| match error {
        Error::Input(_) => error.within(&question.workload.name),
        error => error,
    })?;
    let note = match question.metric {
        Some(_) => None,
        None => metric::passed_over(&row, own, &figures, &labels),
    };
    Ok((row, note))
}

/// Whether both sides have the same value in each seed.
fn is_same(row: &Row, cells: &[Cell], done: &[Done]) -> bool {
    let values = cells.iter().zip(done);
    let values = values.map(|((_, _, seed), done)| (*seed, value_of(row, &done.figures)));
    let mut of_seeds: BTreeMap<u64, Option<f64>> = BTreeMap::new();
    values
        .into_iter()
        .all(|(seed, value)| *of_seeds.entry(seed).or_insert(value) == value)
}

fn value_of(row: &Row, figures: &[Figure]) -> Option<f64> {
    let same = |f: &&Figure| f.group == row.group && f.metric == row.metric;
    figures.iter().find(same).map(|figure| figure.value)
}

/// The metric in every run.
struct Game<'a> {
    seeds: &'a [u64],
    /// What makes a difference to each side.
    masks: [Coalition; 2],
    values: BTreeMap<Cell, f64>,
}

impl Game<'_> {
    fn value(&self, side: usize, off: Coalition, seed: u64) -> f64 {
        self.values[&(side, off & self.masks[side], seed)]
    }

    /// The median over seeds.
    fn median(&self, side: usize, off: Coalition) -> f64 {
        let values = self.seeds.iter().map(|seed| self.value(side, off, *seed));
        let values: Vec<f64> = values.collect();
        median_interval(&values).map_or(f64::NAN, |interval| interval.median)
    }

    /// The second side's less the first's.
    fn difference(&self, off: Coalition) -> f64 {
        self.median(1, off) - self.median(0, off)
    }

    fn difference_in(&self, off: Coalition, seed: u64) -> f64 {
        self.value(1, off, seed) - self.value(0, off, seed)
    }
}

/// `value`, with an interval that has it, the sampled interval, and that of the same in each seed.
fn amount(value: f64, sampled: Option<[f64; 2]>, in_seeds: &[f64]) -> Amount {
    let several = in_seeds.len() > 1;
    let seeds = median_interval(in_seeds).filter(|_| several);
    let both = [sampled, seeds.map(|i| [i.low, i.high])];
    let wider = |[low, high]: [f64; 2], [l, h]: [f64; 2]| [low.min(l), high.max(h)];
    let interval = both.into_iter().flatten().reduce(wider);
    Amount {
        value,
        interval: interval.map(|interval| wider(interval, [value, value])),
    }
}

fn conclude(
    question: &Question,
    mechanisms: Mechanisms,
    design: &Design,
    game: &Game,
    row: &Row,
    is_default: bool,
) -> Explanation {
    let everything = design.everyone();
    let difference = game.difference(0);
    let shares = design.shares(|off| difference - game.difference(off));
    let of_seed = |seed: &u64| {
        let whole = game.difference_in(0, *seed);
        design.shares(|off| whole - game.difference_in(off, *seed))
    };
    let in_seeds: Vec<Vec<Contribution>> = game.seeds.iter().map(of_seed).collect();
    let each = |of: &dyn Fn(usize) -> f64| (0..game.seeds.len()).map(of).collect::<Vec<_>>();
    let cause = |(i, mechanism): (usize, mechanisms::Player)| Cause {
        name: mechanism.name,
        of: mechanism.of,
        share: amount(
            shares[i].share,
            shares[i].interval,
            &each(&|seed| in_seeds[seed][i].share),
        ),
        alone: shares[i].first,
    };
    let mut causes: Vec<Cause> = mechanisms.all.into_iter().enumerate().map(cause).collect();
    causes.sort_by(|a, b| b.share.value.abs().total_cmp(&a.share.value.abs()));
    let ends = |off| {
        let in_seeds = each(&|seed| game.difference_in(off, game.seeds[seed]));
        amount(game.difference(off), None, &in_seeds)
    };
    let (workload, machine) = (question.workload, question.machine);
    let s = if machine.nr_cpus() == 1 { "" } else { "s" };
    let coverage = median_interval(&vec![0.0; game.seeds.len()]);
    Explanation {
        title: format!(
            "{} on {} ({} CPU{s})",
            workload.name,
            machine.name,
            machine.nr_cpus()
        ),
        about: [
            workload.description.clone(),
            format!("{}: {}", machine.name, machine.description),
        ],
        command: question.command.to_owned(),
        metric: row.name.clone(),
        unit: row.unit,
        better: row.better,
        is_default,
        schedulers: [0, 1].map(|side| question.schedulers[side].choice.label.clone()),
        values: [0, 1].map(|side| game.median(side, 0)),
        difference: ends(0),
        causes,
        remainder: ends(everything),
        orders: design.sampled_orders(),
        seeds: game.seeds.len(),
        coverage_ppm: coverage.map_or(0, |i| i.coverage_ppm),
        notes: mechanisms.notes,
    }
}

impl Answer {
    /// The answer as JSON; values are in the unit of the metric's name.
    pub fn json(&self) -> String {
        let of = &self.explanation;
        let (unit, scale) = self.row.named_unit();
        let amount = |amount: &Amount| {
            json!({
                "value": amount.value * scale,
                "interval": amount.interval.map(|ends| ends.map(|end| end * scale)),
                "part": of.part(amount.value),
            })
        };
        let cause = |cause: &Cause| {
            let owners = cause.of.iter();
            let owners = owners.map(|(owner, what)| json!({ "owner": owner, "description": what }));
            json!({
                "mechanism": cause.name,
                "of": owners.collect::<Vec<Value>>(),
                "share": amount(&cause.share),
                "alone": cause.alone * scale,
            })
        };
        let all = json!({
            "tiltyard": crate::VERSION,
            "title": of.title,
            "command": of.command,
            "metric": of.metric,
            "unit": unit,
            "better": of.better,
            "schedulers": of.schedulers,
            "values": of.values.map(|value| value * scale),
            "difference": amount(&of.difference),
            "main_cause": of.main_cause().map(|cause| &cause.name),
            "shares": of.causes.iter().map(cause).collect::<Vec<Value>>(),
            "remainder": amount(&of.remainder),
            "sampled_orders": of.orders,
            "seeds": of.seeds,
            "coverage_ppm": of.coverage_ppm,
            "runs": self.runs,
            "conclusion": of.conclusion(),
            "notes": of.notes,
        });
        format!("{all:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Under the first scheduler each of two mechanisms costs something, under the second only the second one: 3 and 10
    /// times the seed.
    fn value(side: usize, off: Coalition, seed: u64) -> f64 {
        let costs = |mechanism: u32, of: f64| match off >> mechanism & 1 {
            1 => 0.0,
            _ => of * seed as f64,
        };
        match side {
            0 => 100.0 + costs(0, 3.0) + costs(1, 10.0),
            _ => 100.0 + costs(1, 10.0),
        }
    }

    #[test]
    fn each_seed_has_its_own_difference() {
        let seeds = [1, 2, 4];
        let mut values = BTreeMap::new();
        for (side, seed) in [0, 1]
            .into_iter()
            .flat_map(|side| seeds.map(|seed| (side, seed)))
        {
            for off in 0..4 {
                values.insert((side, off, seed), value(side, off, seed));
            }
        }
        let game = Game {
            seeds: &seeds,
            masks: [0b11, 0b10],
            values,
        };
        for seed in seeds {
            assert_eq!(game.difference_in(0b00, seed), -3.0 * seed as f64);
            assert_eq!(game.difference_in(0b01, seed), 0.0);
            assert_eq!(game.difference_in(0b10, seed), -3.0 * seed as f64);
        }
        // The median seed.
        assert_eq!((game.difference(0b00), game.difference(0b01)), (-6.0, 0.0));
    }

    #[test]
    fn an_interval_has_all_that_it_is_made_of() {
        let one = |value, sampled, in_seeds: &[f64]| amount(value, sampled, in_seeds).interval;
        assert_eq!(one(5.0, None, &[5.0]), None);
        assert_eq!(one(5.0, Some([4.0, 6.0]), &[5.0]), Some([4.0, 6.0]));
        // More seeds than that would be needed for an interval that leaves any of them out.
        assert_eq!(
            one(5.0, Some([4.0, 6.0]), &[1.0, 5.0, 5.5]),
            Some([1.0, 6.0])
        );
        assert_eq!(one(7.0, Some([4.0, 6.0]), &[5.0]), Some([4.0, 7.0]));
    }
}
