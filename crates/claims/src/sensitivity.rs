// SPDX-License-Identifier: GPL-2.0-or-later
//! How much of a verdict is the model: what turns when a number that somebody invented is halved or doubled.

use serde::{Deserialize, Serialize};

use crate::experiment::{Experiment, Job, Parameter};
use crate::judge::{Outcome, Verdict};

/// What each invented number is multiplied with.
pub const FACTORS: [f64; 2] = [0.5, 2.0];

/// One parameter at one factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variation {
    pub experiment: String,
    pub parameter: String,
    pub workload: String,
    pub factor: f64,
    /// Claims that were judged again.
    pub claims: usize,
    pub changes: Vec<Change>,
}

/// A claim whose verdict is another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub id: String,
    pub from: Outcome,
    pub to: Outcome,
    /// Measures, before and after, as people read them.
    pub before: Vec<String>,
    pub after: Vec<String>,
}

/// `jobs` with the parameter multiplied; `None` when no run has it.
pub fn vary(jobs: &[Job], parameter: &Parameter, factor: f64) -> Option<Vec<Job>> {
    let mut found = false;
    let varied = jobs.iter().map(|job| {
        let mut job = job.clone();
        if job.workload == parameter.workload {
            found = true;
            job.scale
                .extend(parameter.at.iter().map(|at| (at.clone(), factor)));
        }
        job
    });
    let varied = varied.collect();
    found.then_some(varied)
}

/// What turned.
pub fn compare(
    experiment: &Experiment,
    parameter: &Parameter,
    factor: f64,
    before: &[Verdict],
    after: &[Verdict],
) -> Variation {
    let mut changes = Vec::new();
    for (old, new) in before.iter().zip(after) {
        if old.verdict != new.verdict {
            let shown = |v: &Verdict| match &v.reason {
                Some(reason) => vec![reason.clone()],
                None => crate::scoreboard::measured(v),
            };
            changes.push(Change {
                id: old.id.clone(),
                from: old.verdict,
                to: new.verdict,
                before: shown(old),
                after: shown(new),
            });
        }
    }
    Variation {
        experiment: experiment.id.clone(),
        parameter: parameter.name.clone(),
        workload: parameter.workload.clone(),
        factor,
        claims: after.len(),
        changes,
    }
}
