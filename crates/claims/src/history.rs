// SPDX-License-Identifier: GPL-2.0-or-later
//! What was changed about a claim after its first result, and why.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

use crate::experiment::Experiment;
use crate::judge::{Outcome, Verdict};

/// `[[history]]` of an experiment file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revision {
    /// Ids of claims of the same file.
    pub claims: Vec<String>,
    /// Of the change: YYYY-MM-DD.
    pub date: String,
    pub changed: Changed,
    /// Of a check: the texts of the old and the new one; else what it was and is, in a few words.
    pub from: String,
    pub to: String,
    pub reason: String,
    /// The verdict before the change, if one is known.
    #[serde(default)]
    pub before: Option<Outcome>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Changed {
    Check,
    Measure,
    Run,
    Workload,
    Scheduler,
    Machine,
}

impl Changed {
    fn name(self) -> &'static str {
        match self {
            Changed::Check => "check",
            Changed::Measure => "measure",
            Changed::Run => "run",
            Changed::Workload => "workload",
            Changed::Scheduler => "scheduler",
            Changed::Machine => "machine",
        }
    }
}

impl Revision {
    /// What is wrong with it in an experiment with these claims.
    pub(crate) fn check(&self, experiment: &Experiment) -> Result<(), String> {
        let known = |id: &&String| experiment.claims.iter().any(|c| c.id == **id);
        if let Some(id) = self.claims.iter().find(|id| !known(id)) {
            return Err(format!("history: {id}: no claim of this file"));
        }
        if self.changed == Changed::Check && self.claims.len() != 1 {
            let what = "history: a check is one claim's; write an entry for each";
            return Err(what.to_owned());
        }
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let parts: Vec<&str> = self.date.split('-').collect();
        let lengths: Vec<usize> = parts.iter().map(|p| p.len()).collect();
        if lengths != [4, 2, 2] || !parts.iter().all(|p| digits(p)) {
            let date = &self.date;
            return Err(format!("history: date \"{date}\": write YYYY-MM-DD"));
        }
        match self.claims.is_empty() || self.reason.is_empty() || self.from == self.to {
            true => Err("history: write claims, a reason, and from and to that differ".to_owned()),
            false => Ok(()),
        }
    }
}

/// Why the checks of claims are not the first ones and their changes not listed, one line a claim. `first`: the checks as they
/// were before any run, by claim; a claim without one has none to compare with.
pub fn unlisted(experiments: &[Experiment], first: &BTreeMap<String, String>) -> Vec<String> {
    let mut lines = Vec::new();
    for experiment in experiments {
        for claim in &experiment.claims {
            let (Some(first), Some(now)) = (first.get(&claim.id), &claim.check) else {
                continue;
            };
            let mut check = first;
            for revision in revisions(experiment, &claim.id) {
                if revision.changed != Changed::Check {
                    continue;
                }
                if revision.from != *check {
                    lines.push(format!(
                        "{}: [[history]] goes on from \"{}\" where the check was \"{check}\"",
                        claim.id, revision.from
                    ));
                }
                check = &revision.to;
            }
            if check != now {
                lines.push(format!(
                    "{}: {}: the check was \"{check}\" and is \"{now}\"; add a [[history]] with the reason",
                    experiment.file, claim.id
                ));
            }
        }
    }
    lines
}

/// Those of a claim, in the order of the file.
fn revisions<'a>(experiment: &'a Experiment, id: &'a str) -> impl Iterator<Item = &'a Revision> {
    let of_claim = move |r: &&Revision| r.claims.iter().any(|claim| claim == id);
    experiment.history.iter().filter(of_claim)
}

/// The section of the page.
pub(crate) fn section(out: &mut String, experiments: &[Experiment], verdicts: &[Verdict]) {
    let count: usize = experiments.iter().map(|e| e.history.len()).sum();
    if count == 0 {
        return;
    }
    out.push_str(HEAD);
    for experiment in experiments {
        for revision in &experiment.history {
            let claims: Vec<String> = revision.claims.iter().map(|c| format!("`{c}`")).collect();
            let quote = |text: &str| match (revision.changed, text) {
                (_, "") => "none".to_owned(),
                (Changed::Check, text) => format!("`{text}`"),
                (_, text) => text.to_owned(),
            };
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} |",
                revision.date,
                claims.join(", "),
                revision.changed.name(),
                quote(&revision.from),
                quote(&revision.to),
                revision.reason,
                verdict_change(revision, verdicts)
            );
        }
    }
}

const HEAD: &str = "
## What was changed after a result

Checks, measures and runs that were changed when a result of the claim was known, or could have been. The last column has the
verdict before the change, where it is known, and today's.

| date | claims | changed | from | to | why | verdict |
| --- | --- | --- | --- | --- | --- | --- |
";

/// `not reproduced, today reproduced`.
fn verdict_change(revision: &Revision, verdicts: &[Verdict]) -> String {
    let before = revision.before.map_or("unknown", Outcome::name);
    let mut today: Vec<&str> = Vec::new();
    for id in &revision.claims {
        let verdict = verdicts.iter().find(|v| v.id == *id);
        let name = verdict.map_or("unknown", |v| v.verdict.name());
        if !today.contains(&name) {
            today.push(name);
        }
    }
    format!("{before}; today {}", today.join(" and "))
}
