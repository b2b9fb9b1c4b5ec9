// SPDX-License-Identifier: GPL-2.0-or-later
//! Claims judged with other schedulers in place of their own, and with its other variants.

use std::collections::{BTreeMap, BTreeSet};

use tiltyard_claims::parameter::vary;
use tiltyard_claims::{Claim, ClaimOutcome, Experiment, Job, Trial, Trials, Verdict};

use super::scheduler_names::{Schedulers, with_replaced};
use super::{Cache, Plan, Simulated, all_judged, judge_all, needed, plan};
use crate::schedulers::{self, Preset, split};
use crate::{Error, Progress};

/// Verdicts with nothing replaced, by claim. An error if one is missing: nothing could be compared with it.
pub fn as_is(
    experiments: &[Experiment],
    ids: &BTreeSet<String>,
    seeds: u64,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<BTreeMap<String, Verdict>, Error> {
    let plans = plan(experiments, ids, false);
    let arena = Simulated::prepare(&plans)?;
    let (judged, _) = judge_all(&plans, seeds, &arena, cache, progress);
    all_judged(judged.iter().flat_map(|judged| &judged.verdicts))?;
    let verdicts = judged.into_iter().flat_map(|judged| judged.verdicts);
    Ok(verdicts.map(|v| (v.id.clone(), v)).collect())
}

/// The claims of an experiment that are among `ids` and name a scheduler, each with those that it names.
pub fn claims_with_names<'a>(
    experiment: &'a Experiment,
    ids: &BTreeSet<String>,
    schedulers: &Schedulers,
) -> Vec<(&'a Claim, BTreeSet<String>)> {
    let chosen = experiment.claims.iter().filter(|c| ids.contains(&c.id));
    let named = chosen.map(|claim| {
        (
            claim,
            schedulers.named(experiment, claim, experiment.jobs()),
        )
    });
    named.filter(|(_, named)| !named.is_empty()).collect()
}

/// One replacement in the runs of one experiment's claims.
struct Planned<'a> {
    of: String,
    by: String,
    plan: Plan<'a>,
}

/// Each claim with the substitutes of each scheduler that it names.
pub fn specificity(
    experiments: &[Experiment],
    ids: &BTreeSet<String>,
    seeds: u64,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Vec<Trials>, Error> {
    let all = Schedulers::of(experiments)?;
    let mut planned = Vec::new();
    for experiment in experiments {
        let claims = claims_with_names(experiment, ids, &all);
        for (of, substitutes) in &experiment.substitutes {
            let named = claims.iter().filter(|(_, named)| named.contains(of));
            let named: Vec<&Claim> = named.map(|(claim, _)| *claim).collect();
            for by in substitutes.iter().filter(|_| !named.is_empty()) {
                let is_of = |argument: &str| all.family(argument).as_ref() == Some(of);
                let replace = |argument: &str| is_of(argument).then(|| by.clone());
                planned.push(Planned {
                    of: of.clone(),
                    by: by.clone(),
                    plan: with_replaced(experiment, named.clone(), &replace),
                });
            }
        }
    }
    let before = as_is(
        experiments,
        &with_check(experiments, ids),
        seeds,
        cache,
        progress,
    )?;
    let mut tried = judge_planned(planned, &before, seeds, cache, progress)?;
    // Claims that name no scheduler are included, with nothing tried.
    let missing = before
        .values()
        .filter(|v| !tried.iter().any(|t| t.id == v.id));
    let missing: Vec<Trials> = missing.map(|v| without_trials(v, seeds)).collect();
    tried.extend(missing);
    for (id, controls) in controls(experiments, ids, &before, seeds, cache, progress)? {
        if let Some(trials) = tried.iter_mut().find(|trials| trials.id == id) {
            trials.controls = controls;
        }
    }
    Ok(tried)
}

/// The ids of those that have a check.
fn with_check(experiments: &[Experiment], ids: &BTreeSet<String>) -> BTreeSet<String> {
    let claims = experiments.iter().flat_map(|e| &e.claims);
    let checked = claims.filter(|c| ids.contains(&c.id) && c.check.is_some());
    checked.map(|claim| claim.id.clone()).collect()
}

fn without_trials(verdict: &Verdict, seeds: u64) -> Trials {
    Trials {
        id: verdict.id.clone(),
        check: verdict.check.clone(),
        seeds,
        verdict: verdict.verdict,
        trials: Vec::new(),
        controls: Vec::new(),
    }
}

/// Claims with the changes of the experiment with which they must fail.
fn controls(
    experiments: &[Experiment],
    ids: &BTreeSet<String>,
    before: &BTreeMap<String, Verdict>,
    seeds: u64,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Vec<(String, Vec<Trial>)>, Error> {
    let mut planned = Vec::new();
    for experiment in experiments {
        let claims = experiment.claims.iter();
        let claims = claims.filter(|c| ids.contains(&c.id) && c.check.is_some());
        for (claim, control) in claims.filter_map(|c| Some((c, c.control.as_ref()?))) {
            for change in control.changes() {
                let mut plan = with_replaced(experiment, vec![claim], &|_| None);
                plan.jobs = vary(&plan.jobs, control, &change).ok_or_else(|| {
                    let (file, id, place) = (&experiment.file, &claim.id, control.place());
                    let line =
                        format!("{file}: {id}: control: no run of this claim has the {place}");
                    Error::input(line)
                })?;
                planned.push(Planned {
                    of: format!("{} ({})", control.name, control.place()),
                    by: change.to_string(),
                    plan,
                });
            }
        }
    }
    let judged = judge_planned(planned, before, seeds, cache, progress)?;
    Ok(judged.into_iter().map(|t| (t.id, t.trials)).collect())
}

/// Each claim that is not reproduced, with all presets of each scheduler that it names, and the variants that it lists.
pub fn presets(
    experiments: &[Experiment],
    ids: &BTreeSet<String>,
    seeds: u64,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Vec<Trials>, Error> {
    let all = Schedulers::of(experiments)?;
    let presets = schedulers::presets()?;
    let before = as_is(experiments, ids, seeds, cache, progress)?;
    let missed = |id: &String| before[id].verdict == ClaimOutcome::NotReproduced;
    let ids: BTreeSet<String> = before.keys().filter(|id| missed(id)).cloned().collect();
    let mut planned = Vec::new();
    for experiment in experiments {
        for (claim, named) in claims_with_names(experiment, &ids, &all) {
            for of in &named {
                let jobs = needed(experiment, &[claim], false);
                for by in variants(claim, of, &presets)? {
                    let replace = |argument: &str| variant(&all, &jobs, of, argument, &by);
                    planned.push(Planned {
                        of: of.clone(),
                        by: by.clone(),
                        plan: with_replaced(experiment, vec![claim], &replace),
                    });
                }
            }
        }
    }
    judge_planned(planned, &before, seeds, cache, progress)
}

/// The variants of a scheduler to try for a claim, except the one with which it is judged.
fn variants(claim: &Claim, of: &str, presets: &[Preset]) -> Result<Vec<String>, Error> {
    let own = presets.iter().filter(|p| p.scheduler == of && p.name != of);
    let mut all: Vec<String> = own.map(|preset| preset.name.clone()).collect();
    for variant in &claim.variants {
        let choice = schedulers::choose(variant).map_err(|failure| failure.within(&claim.id))?;
        if choice.family() == of {
            all.push(variant.clone());
        }
    }
    Ok(all)
}

/// What replaces `argument` when `of` becomes the variant `by`: the experiment's own settings stay. A claim that
/// compares a scheduler with its variants keeps these.
fn variant(all: &Schedulers, jobs: &[Job], of: &str, argument: &str, by: &str) -> Option<String> {
    let is_plain = |argument: &str| split(argument).0 == of;
    let has_plain = jobs.iter().any(|job| is_plain(&job.scheduler));
    let is_of = all.family(argument).as_deref() == Some(of);
    let meant = is_of && (is_plain(argument) || !has_plain);
    meant.then(|| with_settings(by, split(argument).1))
}

/// The argument of `-s`, with more settings appended. They replace settings of the same name.
pub fn with_settings(argument: &str, settings: &str) -> String {
    let (name, own) = split(argument);
    let later: Vec<&str> = settings.split(':').filter(|s| !s.is_empty()).collect();
    let tunable = |setting: &str| setting.split('=').next().map(str::to_owned);
    let is_replaced = |own: &&str| later.iter().any(|s| tunable(s) == tunable(own));
    let kept = own.split(':').filter(|s| !s.is_empty() && !is_replaced(s));
    let all = std::iter::once(name)
        .chain(kept)
        .chain(later.iter().copied());
    all.collect::<Vec<_>>().join(":")
}

fn judge_planned(
    planned: Vec<Planned>,
    before: &BTreeMap<String, Verdict>,
    seeds: u64,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Vec<Trials>, Error> {
    let (names, plans): (Vec<_>, Vec<_>) = planned
        .into_iter()
        .map(|Planned { of, by, plan }| ((of, by), plan))
        .unzip();
    let arena = Simulated::prepare(&plans)?;
    let (judged, _) = judge_all(&plans, seeds, &arena, cache, progress);
    let mut trials: BTreeMap<String, Vec<Trial>> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for (judged, (of, by)) in judged.iter().zip(&names) {
        for verdict in &judged.verdicts {
            let of_claim = trials.entry(verdict.id.clone()).or_default();
            if of_claim.is_empty() {
                order.push(&verdict.id);
            }
            of_claim.push(Trial::new(of, by, verdict));
        }
    }
    let of_claim = |id: &str| Trials {
        trials: trials[id].clone(),
        ..without_trials(&before[id], seeds)
    };
    Ok(order.into_iter().map(of_claim).collect())
}

#[cfg(test)]
mod tests {
    use super::with_settings;

    #[test]
    fn later_settings_replace_earlier_ones() {
        for (argument, settings, wanted) in [
            ("mine", "", "mine"),
            ("mine", "a=1", "mine:a=1"),
            ("mine:a=1:b=2", "a=3", "mine:b=2:a=3"),
            ("./a:b/my.bpf.c:a=1", "a=2:c=3", "./a:b/my.bpf.c:a=2:c=3"),
        ] {
            assert_eq!(with_settings(argument, settings), wanted);
        }
    }
}
