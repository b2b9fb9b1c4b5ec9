// SPDX-License-Identifier: GPL-2.0-or-later
//! What was changed about a claim after its first result, and why.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

use crate::experiment::Experiment;
use crate::judge::{ClaimOutcome, Verdict};

/// `[[history]]` of an experiment file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revision {
    /// Ids of claims of the same file.
    pub claims: Vec<String>,
    /// Of the change: YYYY-MM-DD.
    pub date: String,
    pub changed: Changed,
    /// For a check: the texts of the old and the new one; otherwise a few words.
    pub from: String,
    pub to: String,
    pub reason: String,
    /// The verdict before the change, if one is known.
    #[serde(default)]
    pub before: Option<ClaimOutcome>,
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
    /// An error in it, in an experiment with these claims.
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

/// Claims whose checks differ from the first ones without a listed change, one line per claim. `first`: the checks
/// before any run, by claim; a claim without one is not compared.
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
    let before = revision.before.map_or("unknown", ClaimOutcome::name);
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

#[cfg(test)]
mod tests {
    use super::*;

    const EXPERIMENT: &str = "
title = 't'
[[claim]]
id = 's.p.c'
where = 'w'
statement = 's'
kind = 'number'
tier = 'core'
layer = ['sim']
expected = 'e'
tolerance = 't'
check = 'a.m > 3'
[[history]]
claims = ['s.p.c']
date = '2026-11-21'
changed = 'check'
from = 'a.m > 1'
to = 'a.m > 2'
reason = 'r'
before = 'not-reproduced'
[[history]]
claims = ['s.p.c']
date = '2026-11-22'
changed = 'check'
from = 'a.m > 2'
to = 'a.m > 3'
reason = 'r'
";

    fn lines(text: &str, first: &str) -> Vec<String> {
        let experiment = Experiment::read(text, "e", "e.toml").unwrap();
        let first = BTreeMap::from([("s.p.c".to_owned(), first.to_owned())]);
        unlisted(&[experiment], &first)
    }

    #[test]
    fn entries_lead_from_the_first_check_to_todays() {
        assert_eq!(lines(EXPERIMENT, "a.m > 1"), [""; 0]);
        let changed = lines(
            &EXPERIMENT.replace("check = 'a.m > 3'", "check = 'a.m > 4'"),
            "a.m > 1",
        );
        assert!(
            changed.len() == 1 && changed[0].contains("is \"a.m > 4\"; add a [[history]]"),
            "{changed:?}"
        );
        let gap = lines(EXPERIMENT, "a.m > 0");
        assert!(
            gap.len() == 1 && gap[0].contains("goes on from \"a.m > 1\""),
            "{gap:?}"
        );
        let unlisted = lines(EXPERIMENT.split("[[history]]").next().unwrap(), "a.m > 1");
        assert!(
            unlisted.len() == 1 && unlisted[0].contains("the check was \"a.m > 1\""),
            "{unlisted:?}"
        );
    }

    #[test]
    fn entries_that_are_none_are_refused() {
        for (old, new, words) in [
            (
                "claims = ['s.p.c']",
                "claims = ['s.p.d']",
                "e.toml:13: history: s.p.d: no claim of this file",
            ),
            (
                "claims = ['s.p.c']",
                "claims = ['s.p.c', 's.p.c']",
                "an entry for each",
            ),
            (
                "claims = ['s.p.c']\ndate = '2026-11-21'\nchanged = 'check'",
                "claims = []\ndate = '2026-11-21'\nchanged = 'run'",
                "write claims",
            ),
            ("2026-11-21", "21.11.2026", "write YYYY-MM-DD"),
            (
                "to = 'a.m > 2'",
                "to = 'a.m > 1'",
                "from and to that differ",
            ),
            (
                "changed = 'check'",
                "changed = 'mind'",
                "unknown variant `mind`",
            ),
            (
                "before = 'not-reproduced'",
                "before = 'wrong'",
                "unknown variant `wrong`",
            ),
        ] {
            assert!(EXPERIMENT.contains(old));
            let error =
                Experiment::read(&EXPERIMENT.replacen(old, new, 1), "e", "e.toml").unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn the_table_has_the_verdict_before_and_todays() {
        let experiments = [Experiment::read(EXPERIMENT, "e", "e.toml").unwrap()];
        let mut today = Verdict::not_run(&experiments[0].claims[0], None);
        today.verdict = ClaimOutcome::Reproduced;
        let mut out = String::new();
        section(&mut out, &experiments, &[today]);
        let rows: Vec<&str> = out.lines().filter(|l| l.starts_with("| 2026")).collect();
        let expected = [
            "| 2026-11-21 | `s.p.c` | check | `a.m > 1` | `a.m > 2` | r | not-reproduced; today reproduced |",
            "| 2026-11-22 | `s.p.c` | check | `a.m > 2` | `a.m > 3` | r | unknown; today reproduced |",
        ];
        assert_eq!(rows, expected);
    }
}
