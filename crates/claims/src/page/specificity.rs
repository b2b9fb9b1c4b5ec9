// SPDX-License-Identifier: GPL-2.0-or-later
//! Which claims are specific to the scheduler that they name.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Kept;
use crate::experiment::{Claim, Experiment};
use crate::judge::ClaimOutcome;
use crate::trial::{Attempts, Class, Trials};

/// By claim, for those that are reproduced and were tried with their current check.
pub(super) fn classes<'a>(experiments: &'a [Experiment], kept: &Kept) -> BTreeMap<&'a str, Class> {
    let attempts = Attempts::new(&kept.mutations, &kept.sensitivity);
    let claims = experiments.iter().flat_map(|e| &e.claims);
    let class = |claim: &'a Claim| {
        let trials = of_claim(&kept.specificity, claim)?;
        Some((claim.id.as_str(), attempts.class(claim, trials)?))
    };
    claims.filter_map(class).collect()
}

/// The trials of a claim with its current check.
pub(super) fn of_claim<'a>(all: &'a [Trials], claim: &Claim) -> Option<&'a Trials> {
    let is_it = |t: &&Trials| t.id == claim.id && Some(&t.check) == claim.check.as_ref();
    all.iter().find(is_it)
}

const HEAD: &str = "
## Which claims distinguish schedulers

Each claim whose check names a scheduler was also judged with others in that scheduler's place: `rr`, `fifo` and the rival, each
scheduler in turn where a check names several (`tiltyard reproduce --specificity`). Tunables of the original do not apply to them.
A claim that is reproduced is

- *specific* if its check fails, or cannot be measured, with all of them, and something that was tried makes it fail,
- *shared* if it also holds with some: a general statement, for the reason given,
- *vacuous*, a defect, if nothing that was tried makes it fail: no substitute, no mutation, no other value of an assumed number, no
  control of its own; or if it is shared and nobody gives a reason. What cannot be measured has not failed.

Numbers of the setup, such as how many applications there are, name no scheduler and are none of these.

";

pub(super) fn specificity(
    out: &mut String,
    kept: &Kept,
    claims: &BTreeMap<&str, &Claim>,
    classes: &BTreeMap<&str, Class>,
) {
    if kept.specificity.is_empty() {
        return;
    }
    out.push_str(HEAD);
    let count = |class| classes.values().filter(|c| **c == class).count();
    let is_unmeasured = |(id, class): &(&&str, &Class)| {
        let trials = claims.get(*id).and_then(|c| of_claim(&kept.specificity, c));
        **class == Class::Specific && trials.is_some_and(Trials::is_unmeasured)
    };
    let unmeasured = classes.iter().filter(is_unmeasured).count();
    let _ = writeln!(
        out,
        "{} claims are specific ({unmeasured} of them with no substitute that has the measure; a mutation, another value of an assumed \
         number or a control makes them fail), {} shared, {} vacuous.",
        count(Class::Specific),
        count(Class::Shared),
        count(Class::Vacuous)
    );
    let mut rows = String::new();
    for (id, class) in classes {
        let trials = claims.get(id).and_then(|c| of_claim(&kept.specificity, c));
        let (Some(trials), Some(claim)) = (trials, claims.get(id)) else {
            continue;
        };
        if *class != Class::Specific {
            let why = claim.shared.as_deref().unwrap_or("no reason given");
            let (class, with) = (class.name(), trials.holds_in().join(", "));
            let _ = writeln!(rows, "| `{id}` | {class} | {with} | {why} |");
        }
    }
    if !rows.is_empty() {
        out.push_str("\n| claim | | holds with | why |\n| --- | --- | --- | --- |\n");
        out.push_str(&rows);
    }
    let elsewhere = kept.specificity.iter().filter(|trials| {
        let current = claims
            .get(trials.id.as_str())
            .and_then(|c| of_claim(&kept.specificity, c));
        current.is_some()
            && trials.verdict == ClaimOutcome::NotReproduced
            && trials.holding().next().is_some()
    });
    let mut rows = String::new();
    for trials in elsewhere {
        let _ = writeln!(
            rows,
            "| `{}` | {} |",
            trials.id,
            trials.holds_in().join(", ")
        );
    }
    if !rows.is_empty() {
        out.push_str("\nNot reproduced, but true of another scheduler:\n\n| claim | holds with |\n| --- | --- |\n");
        out.push_str(&rows);
    }
}
