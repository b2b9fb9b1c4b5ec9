// SPDX-License-Identifier: GPL-2.0-or-later
//! Mutations: a scheduler with one rule broken, and the claims that must detect it.
//! `experiments/mutations/SCHEDULER.toml` lists the rules and the mutations; [`Tried`] is a mutation's effect on the
//! verdicts, [`Score`] the number of rules guarded by a claim.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::experiment::{FileError, read_toml};
use crate::judge::{ClaimOutcome, Verdict};

/// The rules of one scheduler and the ways to break them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutations {
    /// The file, for messages.
    #[serde(skip)]
    pub file: String,
    pub scheduler: String,
    #[serde(default, rename = "rule")]
    pub rules: Vec<Rule>,
    #[serde(default, rename = "mutation")]
    pub mutations: Vec<Mutation>,
}

/// What the scheduler's specification requires.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub id: String,
    pub text: String,
    #[serde(rename = "where")]
    pub place: String,
    /// Whether the paper relies on it.
    #[serde(default)]
    pub paper: bool,
    /// It shows only on several CPUs.
    #[serde(default)]
    pub multicore: bool,
}

/// One rule, broken in one place.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Mutation {
    pub id: String,
    pub rule: String,
    /// What the mutation gets wrong, in a few words.
    pub what: String,
    /// `name=value`, several separated by colons, after what an experiment sets.
    pub tunable: Option<String>,
    /// Or a file of the scheduler's folder, a text that occurs in it once, and its replacement.
    pub file: Option<String>,
    pub from: Option<String>,
    pub to: Option<String>,
    /// The claims that must flip.
    #[serde(default)]
    pub turns: Vec<String>,
    /// Why none flips.
    pub survives: Option<String>,
}

/// How a scheduler is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit<'a> {
    Tunable(&'a str),
    Source {
        file: &'a str,
        from: &'a str,
        to: &'a str,
    },
}

/// What the names of headers begin with that schedulers share; the others are of the scheduler's folder.
pub const SHARED: &str = "tiltyard/";

impl Mutation {
    /// `None` in a file that was not checked.
    pub fn edit(&self) -> Option<Edit<'_>> {
        match (&self.tunable, &self.file, &self.from, &self.to) {
            (Some(tunable), None, None, None) => Some(Edit::Tunable(tunable)),
            (None, Some(file), Some(from), Some(to)) => Some(Edit::Source { file, from, to }),
            _ => None,
        }
    }

    /// The change as one text: equal texts change a scheduler in the same way.
    pub fn definition(&self) -> String {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let parts = [&self.tunable, &self.file, &self.from, &self.to];
        parts.map(part).join("\n")
    }

    fn check(&self) -> Result<(), String> {
        let is_text = |text: &str| !text.trim().is_empty();
        match self.edit() {
            None => return Err("write either tunable, or file, from and to".to_owned()),
            Some(Edit::Tunable(tunable)) => {
                let sets = |part: &str| {
                    part.split_once('=')
                        .is_some_and(|(n, v)| is_text(n) && is_text(v))
                };
                if !tunable.split(':').all(sets) {
                    return Err(format!(
                        "tunable = \"{tunable}\" sets nothing; write name=value"
                    ));
                }
            }
            Some(Edit::Source { file, from, to }) => {
                let leads_out = file.split('/').any(|part| matches!(part, "" | "." | ".."));
                if file.contains('\\')
                    || leads_out
                    || (file.contains('/') && !file.starts_with(SHARED))
                {
                    return Err(format!(
                        "file = \"{file}\": name a file of the scheduler's folder, or {SHARED}NAME for a shared header"
                    ));
                }
                if from == to || from.is_empty() {
                    return Err("from and to: nothing changes".to_owned());
                }
            }
        }
        match (self.turns.is_empty(), &self.survives) {
            (false, None) | (true, Some(_)) => Ok(()),
            _ => Err(
                "give either turns (claims that must turn) or survives (why none does)".to_owned(),
            ),
        }
    }
}

impl Mutations {
    /// Reads and checks one file; `claims`: the existing ids.
    pub fn read(text: &str, file: &str, claims: &BTreeSet<&str>) -> Result<Mutations, FileError> {
        let mut all: Mutations = read_toml(text, file)?;
        all.file = file.to_owned();
        all.check(claims).map_err(|(id, what)| {
            FileError::near(text, file, &format!("\"{id}\""), format!("{id}: {what}"))
        })?;
        Ok(all)
    }

    /// The first error: the id, and what is wrong.
    fn check(&self, claims: &BTreeSet<&str>) -> Result<(), (String, String)> {
        let mut rules = BTreeSet::new();
        for rule in &self.rules {
            if !rules.insert(rule.id.as_str()) {
                return Err((rule.id.clone(), "two rules of this id".to_owned()));
            }
        }
        let mut ids = BTreeSet::new();
        for mutation in &self.mutations {
            let fault = |what: String| Err((mutation.id.clone(), what));
            if !ids.insert(&mutation.id) {
                return fault("two mutations of this id".to_owned());
            }
            if !rules.contains(mutation.rule.as_str()) {
                return fault(format!("no [[rule]] has the id {}", mutation.rule));
            }
            if let Some(claim) = mutation
                .turns
                .iter()
                .find(|id| !claims.contains(id.as_str()))
            {
                return fault(format!("turns: there is no claim {claim}"));
            }
            mutation.check().or_else(fault)?;
        }
        Ok(())
    }
}

/// A mutation's effect on the verdicts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    pub scheduler: String,
    pub mutation: String,
    /// [`Mutation::definition`] of it: a result of another one does not count.
    pub definition: String,
    pub seeds: u64,
    /// Claims that were judged before and after.
    pub judged: usize,
    /// From reproduced to not-reproduced, or the other way round.
    pub turned: Vec<String>,
    /// Judged before, but no longer.
    pub lost: Vec<String>,
}

impl Tried {
    /// `before` and `after`: verdicts on the same claims in the same order.
    pub fn new(
        scheduler: &str,
        mutation: &Mutation,
        seeds: u64,
        pairs: &[(&Verdict, &Verdict)],
    ) -> Tried {
        let was_judged =
            |(before, _): &&(&Verdict, &Verdict)| before.verdict != ClaimOutcome::NotRun;
        let judged: Vec<_> = pairs.iter().filter(was_judged).collect();
        let ids = |is: &dyn Fn(ClaimOutcome, ClaimOutcome) -> bool| {
            let such = judged
                .iter()
                .filter(|(before, after)| is(before.verdict, after.verdict));
            such.map(|(before, _)| before.id.clone())
                .collect::<Vec<_>>()
        };
        Tried {
            scheduler: scheduler.to_owned(),
            mutation: mutation.id.clone(),
            definition: mutation.definition(),
            seeds,
            judged: judged.len(),
            turned: ids(&|before, after| after != ClaimOutcome::NotRun && after != before),
            lost: ids(&|_, after| after == ClaimOutcome::NotRun),
        }
    }

    /// The mutation's claims that did not turn.
    pub fn unturned<'a>(&self, mutation: &'a Mutation) -> Vec<&'a str> {
        let turned = |id: &&String| !self.turned.contains(id);
        let unturned = mutation.turns.iter().filter(turned);
        unturned.map(String::as_str).collect()
    }
}

/// Covered rules and all rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    pub covered: usize,
    pub all: usize,
}

impl Score {
    pub fn percent(self) -> f64 {
        match self.all {
            0 => 0.0,
            all => 100.0 * self.covered as f64 / all as f64,
        }
    }

    fn add(&mut self, covered: bool) {
        self.covered += usize::from(covered);
        self.all += 1;
    }
}

/// Of a scheduler's rules: those of the paper, all that one CPU can show, and the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scores {
    pub paper: Score,
    pub single_core: Score,
    pub multicore: Score,
}

/// A rule is covered if a mutation of it turned at least one of the claims that it names.
pub fn is_covered(all: &Mutations, rule: &Rule, tried: &[Tried]) -> bool {
    let of_rule = all.mutations.iter().filter(|m| m.rule == rule.id);
    of_rule.into_iter().any(|mutation| {
        let result = result_of(all, mutation, tried);
        result.is_some_and(|tried| mutation.turns.iter().any(|id| tried.turned.contains(id)))
    })
}

/// The kept result of a mutation in its current form.
pub fn result_of<'a>(
    all: &Mutations,
    mutation: &Mutation,
    tried: &'a [Tried],
) -> Option<&'a Tried> {
    tried.iter().find(|tried| {
        tried.scheduler == all.scheduler
            && tried.mutation == mutation.id
            && tried.definition == mutation.definition()
    })
}

pub fn scores(all: &Mutations, tried: &[Tried]) -> Scores {
    let mut scores = Scores::default();
    for rule in &all.rules {
        let covered = is_covered(all, rule, tried);
        match rule.multicore {
            true => scores.multicore.add(covered),
            false => scores.single_core.add(covered),
        }
        if rule.paper && !rule.multicore {
            scores.paper.add(covered);
        }
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    const FILE: &str = "scheduler = 'a'\n\
        [[rule]]\nid = 'slice'\ntext = 'Ten ticks.'\nwhere = 'Section 2'\npaper = true\n\
        [[rule]]\nid = 'queue'\ntext = 'First come, first served.'\nwhere = 'README'\npaper = false\n\
        [[rule]]\nid = 'steal'\ntext = 'From the fullest.'\nwhere = 'README'\npaper = true\nmulticore = true\n\
        [[mutation]]\nid = 'slice-20'\nrule = 'slice'\nwhat = 'twenty'\ntunable = 'slice=20'\nturns = ['s.p.c']\n\
        [[mutation]]\nid = 'last'\nrule = 'queue'\nwhat = 'last first'\nfile = 'a.h'\nfrom = 'tail'\nto = 'head'\n\
        survives = 'no claim looks'\n";

    fn read(text: &str) -> Result<Mutations, String> {
        let claims = BTreeSet::from(["s.p.c", "s.p.d"]);
        Mutations::read(text, "a.toml", &claims).map_err(|e| e.to_string())
    }

    fn tried(turned: &[&str]) -> Vec<Tried> {
        vec![Tried {
            scheduler: "a".to_owned(),
            mutation: "slice-20".to_owned(),
            definition: "slice=20\n\n\n".to_owned(),
            seeds: 1,
            judged: 2,
            turned: turned.iter().map(|id| (*id).to_owned()).collect(),
            lost: Vec::new(),
        }]
    }

    #[test]
    fn rules_count_when_a_named_claim_turned() {
        let all = read(FILE).unwrap();
        let score = |covered, all| Score { covered, all };
        let scores_with = |turned: &[&str]| scores(&all, &tried(turned));
        let good = Scores {
            paper: score(1, 1),
            single_core: score(1, 2),
            multicore: score(0, 1),
        };
        assert_eq!(scores_with(&["s.p.c", "s.p.d"]), good);
        // A claim other than the one that must turn guards nothing.
        assert_eq!(scores_with(&["s.p.d"]).paper, score(0, 1));
        let mut other = tried(&["s.p.c"]);
        other[0].definition = "slice=30\n\n\n".to_owned();
        assert_eq!(scores(&all, &other).paper, score(0, 1));
    }

    #[test]
    fn a_claim_that_is_no_longer_judged_is_lost_and_not_turned() {
        use ClaimOutcome::{NotReproduced as No, NotRun as Lost, Reproduced as Yes};
        let text = "title = 't'\n[[claim]]\nid = 's.p.c'\nwhere = 'w'\nstatement = 's'\nkind = 'number'\n\
                    tier = 'core'\nlayer = ['sim']\nexpected = 'e'\ntolerance = 't'\ncheck = 'a.x < 1'\n";
        let claim = Experiment::read(text, "e", "e.toml")
            .unwrap()
            .claims
            .remove(0);
        let verdict = |id: &str, outcome| Verdict {
            id: id.to_owned(),
            verdict: outcome,
            ..Verdict::not_run(&claim, None)
        };
        let pairs = [
            ("fails", Yes, No),
            ("holds", No, Yes),
            ("same", Yes, Yes),
            ("lost", Yes, Lost),
            ("new", Lost, Yes),
        ]
        .map(|(id, before, after)| (verdict(id, before), verdict(id, after)));
        let pairs = pairs.each_ref().map(|(before, after)| (before, after));
        let mutation = &read(FILE).unwrap().mutations[0];
        let tried = Tried::new("a", mutation, 1, &pairs);
        assert_eq!(tried.judged, 4);
        assert_eq!(tried.turned, ["fails", "holds"]);
        assert_eq!(tried.lost, ["lost"]);
    }

    #[test]
    fn faults_are_named_with_line_and_way_out() {
        for (from, to, expected) in [
            (
                "rule = 'slice'",
                "rule = 'slices'",
                "no [[rule]] has the id slices",
            ),
            ("'s.p.c'", "'s.p.x'", "turns: there is no claim s.p.x"),
            (
                "tunable = 'slice=20'",
                "tunable = 'slice'",
                "sets nothing; write name=value",
            ),
            (
                "tunable = 'slice=20'",
                "file = 'a.h'",
                "either tunable, or file, from and to",
            ),
            (
                "'slice=20'\n",
                "'slice=20'\nsurvives = 'x'\n",
                "either turns",
            ),
            ("turns = ['s.p.c']", "turns = []", "either turns"),
            ("'a.h'", "'../b/a.h'", "a file of the scheduler's folder"),
            ("to = 'head'", "to = 'tail'", "nothing changes"),
            ("id = 'last'", "id = 'slice-20'", "two mutations of this id"),
            ("id = 'queue'", "id = 'slice'", "two rules of this id"),
            ("paper = false", "papers = false", "unknown field `papers`"),
        ] {
            assert!(FILE.contains(from), "{from}");
            let error = read(&FILE.replacen(from, to, 1)).unwrap_err();
            assert!(error.starts_with("a.toml:"), "{error}");
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
