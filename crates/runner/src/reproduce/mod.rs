// SPDX-License-Identifier: GPL-2.0-or-later
//! From experiment files to verdicts: which runs the chosen claims need, doing them once each, and judging.

mod cache;
mod conclude;
mod exact_guest;
mod files;
pub mod findings;
mod instead;
mod kernel_plan;
pub mod mutations;
mod scheduler_names;
mod sensitivity;
mod simulator;
mod source_lines;
pub mod trials;

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use tiltyard_claims::{Check, Claim, Experiment, Job, Point, Verdict};
use tiltyard_report::timeline::Recorded;

pub use cache::{Cache, Kept};
pub use exact_guest::ExactGuest;
pub use files::{load, load_fitted, select};
pub use instead::Instead;
pub use kernel_plan::plan_in_kernel;
pub use sensitivity::sensitivity;
pub use simulator::Simulated;

use crate::{Error, Progress, Total};
use conclude::conclude;

/// An arena for runs: the simulated machine or a real kernel.
pub trait Arena: Sync {
    /// Lines of the source of the scheduler that runs in `job`.
    fn source_lines(&self, job: &Job) -> Option<u64>;
    /// Everything besides the job itself that determines its result, as strings.
    fn identity(&self, job: &Job) -> Vec<String>;
    /// Runs it and queries its tables.
    fn run(&self, job: &Job, seed: u64) -> Result<Kept, Error>;
}

/// Curves show one run, not all seeds; the test of measures without their input is done once.
const FIRST_SEED: u64 = 1;

/// One run of one experiment.
#[derive(Clone, Copy)]
struct Cell<'a> {
    /// Index of its experiment's plan.
    plan: usize,
    job: &'a Job,
    seed: u64,
}

/// A run and its result.
type Ran<'a> = (Cell<'a>, Result<Kept, Error>);

/// The same, and whether it was cached.
type Done<'a> = (Cell<'a>, Result<(Kept, bool), Error>);

/// The results of all runs of an experiment.
pub struct Judged<'a> {
    /// Whose claims they are.
    pub experiment: &'a Experiment,
    /// One for each claim of the plan.
    pub verdicts: Vec<Verdict>,
    /// For each verdict, how its runs deviated from the experiment.
    pub deviations: Vec<Vec<String>>,
    /// For each verdict, why shorter runs are enough.
    pub shortened: Vec<Vec<String>>,
    /// By index among the experiment's figures.
    pub figures: BTreeMap<usize, Vec<Point>>,
    /// The runs that figures show, slice by slice, each with its name.
    pub timelines: Vec<(String, Recorded)>,
}

/// What happened on the way.
#[derive(Default)]
pub struct Account {
    /// Runs done now.
    pub done: usize,
    /// Cached ones.
    pub known: usize,
    /// One line per failure: runs, queries.
    pub failures: Vec<String>,
}

/// The work for the claims of an experiment.
pub struct Plan<'a> {
    /// Whose claims they are.
    pub experiment: &'a Experiment,
    /// The claims to judge.
    pub claims: Vec<&'a Claim>,
    /// The runs that they need.
    pub jobs: Vec<Job>,
    /// Why claims are not evaluated by runs.
    refused: BTreeMap<String, String>,
    /// Whether the jobs are those for a kernel.
    in_kernel: bool,
    figures: bool,
}

/// The runs that the claims of these ids need and, `with_figures`, those that figures of their experiments show.
pub fn plan<'a>(
    experiments: &'a [Experiment],
    ids: &BTreeSet<String>,
    with_figures: bool,
) -> Vec<Plan<'a>> {
    let plan = |experiment: &'a Experiment| {
        let chosen = experiment.claims.iter().filter(|c| ids.contains(&c.id));
        let claims: Vec<&Claim> = chosen.collect();
        let figures = with_figures && !claims.is_empty();
        Plan {
            jobs: needed(experiment, &claims, figures),
            experiment,
            claims,
            refused: BTreeMap::new(),
            in_kernel: false,
            figures,
        }
    };
    let plans = experiments.iter().map(plan);
    plans.filter(|p| !p.claims.is_empty()).collect()
}

/// Does what is planned, with seeds 1 to `seeds`, and judges.
pub fn judge_all<'a>(
    plans: &[Plan<'a>],
    seeds: u64,
    arena: &dyn Arena,
    cache: &Cache,
    progress: &dyn Progress,
) -> (Vec<Judged<'a>>, Account) {
    let mut account = Account::default();
    let firsts: Vec<Cell> = plans
        .iter()
        .enumerate()
        .flat_map(|(plan, p)| p.jobs.iter().map(move |job| Cell { plan, job, seed: 1 }))
        .collect();
    progress.begin(Total::Runs(firsts.len() as u64 * seeds));
    let results: Vec<Vec<Done>> = firsts
        .par_iter()
        // Some take a hundred times as long as others: no thread should get a share of only long ones.
        .with_max_len(1)
        .map(|first| with_all_seeds(first, seeds, arena, cache, progress))
        .collect();
    progress.end();
    let mut by_plan: Vec<Vec<Ran>> = plans.iter().map(|_| Vec::new()).collect();
    for (cell, result) in results.into_iter().flatten() {
        let result = result.map(|(kept, known)| {
            account.known += usize::from(known);
            account.done += usize::from(!known);
            kept
        });
        by_plan[cell.plan].push((cell, result));
    }
    let judged = plans
        .iter()
        .zip(&by_plan)
        .map(|(plan, results)| conclude(plan, results, seeds as usize, arena, &mut account))
        .collect();
    (judged, account)
}

/// A job with each seed. One that draws nothing at random is done once: its other runs are then known.
fn with_all_seeds<'a>(
    first: &Cell<'a>,
    seeds: u64,
    arena: &dyn Arena,
    cache: &Cache,
    progress: &dyn Progress,
) -> Vec<Done<'a>> {
    let with = |seed| {
        let cell = Cell { seed, ..*first };
        let result = match progress.stop() {
            None => one(&cell, arena, cache),
            Some(reason) => Err(Error::Stopped(reason)),
        };
        match result {
            Ok((_, true)) => progress.run_known(),
            _ => progress.run_done(),
        }
        (cell, result)
    };
    let mut done = vec![with(1)];
    let settled = match &done[0].1 {
        Ok((kept, _)) if !kept.left_to_chance => Some(kept.without_pictures()),
        _ => None,
    };
    match settled {
        Some(kept) => done.extend((2..=seeds).map(|seed| {
            progress.run_known();
            (Cell { seed, ..*first }, Ok((kept.clone(), true)))
        })),
        None => {
            let others: Vec<u64> = (2..=seeds).collect();
            done.par_extend(others.par_iter().with_max_len(1).map(|seed| with(*seed)));
        }
    }
    done
}

/// The runs that `claims` of an experiment need.
fn needed(experiment: &Experiment, claims: &[&Claim], figures: bool) -> Vec<Job> {
    let all = figures && experiment.figures.iter().any(|f| f.run.is_none());
    let mut jobs = experiment.jobs().to_vec();
    jobs.retain(|job| {
        let measured = claims.iter().any(|claim| needs(experiment, claim, job));
        all || measured || (figures && !job.figures.is_empty())
    });
    jobs
}

/// Whether a claim's check uses what this job measures. A derived measure may use any, unless it says which.
fn needs(experiment: &Experiment, claim: &Claim, job: &Job) -> bool {
    let check = claim.check.as_deref().and_then(|c| Check::read(c).ok());
    check.is_some_and(|check| {
        let names = check.measures();
        let measures: Vec<&str> = job.measures.keys().map(String::as_str).collect();
        let mut derived = names
            .iter()
            .filter_map(|name| experiment.derived.get(*name));
        derived.any(|sql| scheduler_names::may_use(experiment, sql, job, &measures))
            || measures
                .iter()
                .any(|m| names.contains(job.full_name(m).as_str()))
    })
}

/// An error if claims could not be judged although they have a check.
pub fn all_judged<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Result<(), Error> {
    let (broken, judged): (Vec<_>, Vec<_>) = verdicts.partition(|verdict| verdict.broken);
    let Some(first) = broken.first() else {
        return Ok(());
    };
    Err(Error::Measurement(format!(
        "{} of {} claims could not be judged, {} among them: {}",
        broken.len(),
        broken.len() + judged.len(),
        first.id,
        first.reason.as_deref().unwrap_or_default(),
    )))
}

/// One run, from the cache or done now; whether it was cached.
fn one(cell: &Cell, arena: &dyn Arena, cache: &Cache) -> Result<(Kept, bool), Error> {
    let job = cell.job;
    let mut parts = arena.identity(job);
    parts.extend([
        cell.seed.to_string(),
        format!(
            "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
            job.events,
            job.probe_keys,
            job.probe_names,
            job.access_callbacks,
            job.access_places,
            job.duration,
            job.watchdog,
            job.timeline,
            job.may_lack
        ),
        format!("{:?} {:?}", job.measures, job.figures),
    ]);
    let key = cache.key(&parts.iter().map(String::as_str).collect::<Vec<_>>());
    if let Some(kept) = cache.get(&key) {
        return Ok((kept, true));
    }
    let kept = arena.run(job, cell.seed)?;
    cache.put(&key, &kept);
    Ok((kept, false))
}
