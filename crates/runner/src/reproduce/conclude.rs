// SPDX-License-Identifier: GPL-2.0-or-later
//! From the results of an experiment's runs to the verdicts on its claims.

use std::collections::BTreeMap;

use tiltyard_claims::{
    Claim, Database, Experiment, FigureKind, Job, Measured, Point, Values, Verdict, judge,
};
use tiltyard_report::timeline::Recorded;

use super::{Account, Arena, Cell, FIRST_SEED, Judged, Kept, Plan, Ran, needs, scheduler_names};
use crate::Error;

/// Values of all measures, then of derived ones, then verdicts and figures.
pub(super) fn conclude<'a>(
    plan: &Plan<'a>,
    results: &[Ran],
    seeds: usize,
    arena: &dyn Arena,
    account: &mut Account,
) -> Judged<'a> {
    let mut evidence = Evidence::new(plan.experiment);
    for (cell, result) in results {
        match result {
            Ok(kept) => evidence.add(cell, kept, account),
            Err(failure) => evidence.add_failure(cell, failure, account),
        }
    }
    evidence.derive(&source_lines(results, arena), seeds);
    evidence.explain_derived();
    if plan.figures {
        evidence.draw_overall(account);
    }
    // For each claim its runs; none if it is not evaluated by runs.
    let own: Vec<Vec<&Ran>> = plan.claims.iter().map(|c| own(plan, c, results)).collect();
    let claims = || plan.claims.iter().zip(&own);
    Judged {
        experiment: plan.experiment,
        verdicts: claims()
            .map(|(claim, own)| match plan.refused.get(&claim.id) {
                Some(reason) => Verdict::not_run(claim, Some(reason.clone())),
                None => evidence.judge(claim, own, seeds),
            })
            .collect(),
        deviations: claims()
            .map(|(_, own)| lines(own, |_, kept| Some(kept?.deviations.clone())))
            .collect(),
        shortened: claims()
            .map(|(_, own)| {
                lines(own, |job, _| {
                    let shorter = job.kernel.as_ref().filter(|_| plan.in_kernel)?;
                    Some(vec![shorter.reason.clone()])
                })
            })
            .collect(),
        figures: evidence.figures,
        timelines: evidence.timelines,
    }
}

/// The runs that a claim needs; none if it is not evaluated by runs.
fn own<'r, 'c>(plan: &Plan, claim: &Claim, results: &'r [Ran<'c>]) -> Vec<&'r Ran<'c>> {
    if plan.refused.contains_key(&claim.id) {
        return Vec::new();
    }
    let needed = |(cell, _): &&Ran| needs(plan.experiment, claim, cell.job);
    results.iter().filter(needed).collect()
}

/// Lines about runs, each line once.
fn lines(runs: &[&Ran], about: impl Fn(&Job, Option<&Kept>) -> Option<Vec<String>>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let all = runs
        .iter()
        .filter_map(|(cell, kept)| about(cell.job, kept.as_ref().ok()));
    for line in all.flatten() {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// Lines of the source of each scheduler, by its label.
fn source_lines<'r>(results: &'r [Ran], arena: &dyn Arena) -> BTreeMap<&'r str, u64> {
    let jobs: BTreeMap<&str, &Job> = results
        .iter()
        .map(|(cell, _)| (cell.job.label.as_str(), cell.job))
        .collect();
    jobs.into_iter()
        .filter_map(|(label, job)| Some((label, arena.source_lines(job)?)))
        .collect()
}

/// What the runs of an experiment have measured.
struct Evidence<'a> {
    experiment: &'a Experiment,
    values: Values,
    /// Why measures lack values, by their full names.
    failures: BTreeMap<String, String>,
    /// The same for derived measures: whose measures, which, why.
    missing: Vec<(&'a Job, Vec<&'a str>, String)>,
    rows: Vec<Measured<'a>>,
    figures: BTreeMap<usize, Vec<Point>>,
    timelines: Vec<(String, Recorded)>,
}

impl<'a> Evidence<'a> {
    fn new(experiment: &'a Experiment) -> Evidence<'a> {
        Evidence {
            experiment,
            values: Values::new(),
            failures: BTreeMap::new(),
            missing: Vec::new(),
            rows: Vec::new(),
            figures: BTreeMap::new(),
            timelines: Vec::new(),
        }
    }

    /// A run that failed has none of its measures.
    fn add_failure(&mut self, cell: &Cell<'a>, failure: &Error, account: &mut Account) {
        let job = cell.job;
        let line = failure.to_string();
        let line = line.lines().next().unwrap_or_default();
        account.failures.push(format!(
            "{}: {} under {}, seed {}: {line}",
            self.experiment.id, job.workload, job.scheduler, cell.seed
        ));
        for name in job.measures.keys() {
            self.failures.insert(job.full_name(name), line.to_owned());
        }
        let all = job.measures.keys().map(String::as_str).collect();
        self.missing.push((job, all, line.to_owned()));
    }

    fn add(&mut self, cell: &Cell<'a>, kept: &'a Kept, account: &mut Account) {
        let job = cell.job;
        for (name, fault) in &kept.faults {
            let line = format!("measure {name}: {fault}");
            if cell.seed == FIRST_SEED {
                let (id, workload) = (&self.experiment.id, &job.workload);
                account
                    .failures
                    .push(format!("{id}: {workload} under {}: {line}", job.label));
            }
            self.failures.insert(job.full_name(name), line.clone());
            self.missing.push((job, vec![name], line));
        }
        for (name, value) in &kept.measures {
            let values = self.values.entry(job.full_name(name)).or_default();
            values.push(*value);
            self.rows.push(Measured {
                run: &job.run,
                scheduler: &job.label,
                seed: cell.seed,
                name,
                of: job.of.as_deref().unwrap_or_default(),
                value: *value,
            });
        }
        if cell.seed == FIRST_SEED {
            self.figures.extend(kept.figures.clone());
            let name = format!("{}, run \"{}\"", job.label, job.run);
            self.timelines
                .extend(kept.timeline.clone().map(|t| (name, t)));
        }
    }

    /// Derived measures, each from the measures of one seed.
    fn derive(&mut self, schedulers: &BTreeMap<&str, u64>, seeds: usize) {
        if self.experiment.derived.is_empty() || self.rows.is_empty() {
            return;
        }
        for seed in 1..=seeds as u64 {
            let of_seed: Vec<&Measured> = self.rows.iter().filter(|r| r.seed == seed).collect();
            let database = Database::of_measures(&of_seed, schedulers);
            for (name, sql) in &self.experiment.derived {
                let asked = match &database {
                    Ok(database) => database.number(sql).map_err(|e| e.to_string()),
                    Err(error) => Err(error.to_string()),
                };
                match asked {
                    Ok(value) => self.values.entry(name.clone()).or_default().push(value),
                    Err(what) => {
                        self.failures.insert(name.clone(), what);
                    }
                }
            }
        }
    }

    /// What derived measures lack is what those lack from which they derive.
    fn explain_derived(&mut self) {
        for (job, measures, line) in &self.missing {
            for name in self.experiment.derived.keys() {
                if scheduler_names::derives_from(self.experiment, name, job, measures) {
                    self.failures.insert(name.clone(), line.clone());
                }
            }
        }
    }

    /// Figures from the measures of all runs.
    fn draw_overall(&mut self, account: &mut Account) {
        let all: Vec<&Measured> = self.rows.iter().collect();
        for (index, figure) in self.experiment.figures.iter().enumerate() {
            if figure.run.is_some() {
                continue;
            }
            let points =
                Database::of_measures(&all, &BTreeMap::new()).and_then(|d| match figure.kind {
                    FigureKind::Bars => d.bars(&figure.sql),
                    FigureKind::Line | FigureKind::Steps | FigureKind::Points => {
                        d.points(&figure.sql)
                    }
                });
            match points {
                Ok(points) => {
                    self.figures.insert(index, points);
                }
                Err(what) => account
                    .failures
                    .push(format!("{}: {}: {what}", self.experiment.id, figure.figure)),
            }
        }
    }

    fn judge(&self, claim: &Claim, own: &[&Ran], seeds: usize) -> Verdict {
        let judged = judge(claim, &self.values, seeds, &self.failures);
        let by_chance = |kept: &Kept| kept.left_to_chance;
        match own
            .iter()
            .any(|(_, kept)| kept.as_ref().map_or(true, by_chance))
        {
            true => judged,
            false => judged.of_identical_runs(),
        }
    }
}
