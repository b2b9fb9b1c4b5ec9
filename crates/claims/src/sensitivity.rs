// SPDX-License-Identifier: GPL-2.0-or-later
//! How much a verdict depends on the model: what turns when a chosen number changes.

use serde::{Deserialize, Serialize};

use crate::experiment::Experiment;
use crate::job::Change;
use crate::judge::{ClaimOutcome, Verdict};
use crate::parameter::Parameter;

/// One parameter with another value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variation {
    pub experiment: String,
    pub parameter: String,
    /// `workload sysbench-128`, `machine opteron1`, `scheduler ule`.
    pub place: String,
    /// `x 0.5`, `= 740`.
    pub to: String,
    /// Claims that were judged again.
    pub claims: usize,
    pub changes: Vec<Flip>,
}

/// A claim whose verdict changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flip {
    pub id: String,
    pub from: ClaimOutcome,
    pub to: ClaimOutcome,
    /// Measures, before and after, human-readable.
    pub before: Vec<String>,
    pub after: Vec<String>,
}

/// What turned.
pub fn compare(
    experiment: &Experiment,
    parameter: &Parameter,
    to: &Change,
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
            changes.push(Flip {
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
        place: parameter.place(),
        to: to.to_string(),
        claims: after.len(),
        changes,
    }
}
