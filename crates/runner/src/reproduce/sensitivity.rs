// SPDX-License-Identifier: GPL-2.0-or-later
//! The same claims with a number of the model changed: which verdicts turn.

use std::collections::BTreeMap;

use tiltyard_claims::Verdict;
use tiltyard_claims::parameter::{Parameter, vary};
use tiltyard_claims::sensitivity::{Variation, compare};

use super::{Cache, Plan, Simulated, judge_all};
use crate::{Error, Progress};

/// The plans with each of their parameters, and each fitted one, changed; `before`: their current verdicts.
pub fn sensitivity(
    plans: &[Plan],
    before: &[Vec<Verdict>],
    fitted: &[Parameter],
    seeds: u64,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Vec<Variation>, Error> {
    let mut varied = Vec::new();
    let mut what = Vec::new();
    for (plan, verdicts) in plans.iter().zip(before) {
        for parameter in fitted.iter().chain(&plan.experiment.parameters) {
            for change in parameter.changes() {
                let Some(jobs) = vary(&plan.jobs, parameter, &change) else {
                    continue;
                };
                varied.push(Plan {
                    experiment: plan.experiment,
                    claims: plan.claims.clone(),
                    jobs,
                    refused: BTreeMap::new(),
                    in_kernel: false,
                    figures: false,
                });
                what.push((parameter, change, verdicts));
            }
        }
    }
    let arena = Simulated::prepare(&varied)?;
    let (judged, _) = judge_all(&varied, seeds, &arena, cache, progress);
    let variations = judged
        .iter()
        .zip(what)
        .map(|(judged, (parameter, change, verdicts))| {
            let after = &judged.verdicts;
            compare(judged.experiment, parameter, &change, verdicts, after)
        });
    Ok(variations.collect())
}
