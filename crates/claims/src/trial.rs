// SPDX-License-Identifier: GPL-2.0-or-later
//! Claims judged with a scheduler replaced: by other schedulers, to test whether a claim is specific; by other
//! variants of the same, to find those in which it holds.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::experiment::Claim;
use crate::judge::{ClaimOutcome, Verdict};
use crate::mutation::Tried;
use crate::scoreboard::measured;
use crate::sensitivity::Variation;

/// One claim and its trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trials {
    pub id: String,
    /// The check that was judged: results of another one do not count.
    pub check: String,
    pub seeds: u64,
    /// The verdict with nothing replaced, with as many seeds.
    pub verdict: ClaimOutcome,
    /// Empty for a claim that names no scheduler.
    pub trials: Vec<Trial>,
    /// The claim's own controls: what `of` names, changed as `by` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<Trial>,
}

/// The verdict with `by` in place of the scheduler `of`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    pub of: String,
    pub by: String,
    pub verdict: ClaimOutcome,
    /// Why it could not be judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Human-readable.
    pub measured: Vec<String>,
}

impl Trial {
    /// `rr for ule`.
    pub fn name(&self) -> String {
        format!("{} for {}", self.by, self.of)
    }

    pub fn new(of: &str, by: &str, verdict: &Verdict) -> Trial {
        Trial {
            of: of.to_owned(),
            by: by.to_owned(),
            verdict: verdict.verdict,
            reason: verdict.reason.clone(),
            measured: measured(verdict),
        }
    }
}

impl Trials {
    /// No substitute has what the claim measures.
    pub fn is_unmeasured(&self) -> bool {
        let mut all = self.trials.iter();
        all.all(|trial| trial.verdict == ClaimOutcome::NotRun)
    }

    /// Those with which the claim holds.
    pub fn holding(&self) -> impl Iterator<Item = &Trial> {
        self.trials
            .iter()
            .filter(|trial| trial.verdict == ClaimOutcome::Reproduced)
    }

    /// `by` of those with which it holds, with `of` where several schedulers were replaced.
    pub fn holds_in(&self) -> Vec<String> {
        let replaced: BTreeSet<&str> = self.trials.iter().map(|trial| trial.of.as_str()).collect();
        let name = |trial: &Trial| match replaced.len() {
            1 => trial.by.clone(),
            _ => trial.name(),
        };
        self.holding().map(name).collect()
    }
}

/// What a claim's check shows about the scheduler that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// It fails, or cannot be measured, with every substitute, and something makes it fail.
    Specific,
    /// It holds with some substitutes, and the claim gives the reason.
    Shared,
    /// A defect: nothing that was tried makes it fail (a missing value is no failure), or it holds with substitutes and no
    /// reason is given.
    Vacuous,
}

impl Class {
    pub fn name(self) -> &'static str {
        match self {
            Class::Specific => "specific",
            Class::Shared => "shared",
            Class::Vacuous => "vacuous",
        }
    }
}

/// What else has been tried to make claims fail.
pub struct Attempts<'a> {
    turned: BTreeSet<&'a str>,
}

impl<'a> Attempts<'a> {
    pub fn new(mutations: &'a [Tried], variations: &'a [Variation]) -> Attempts<'a> {
        let by_mutation = mutations.iter().flat_map(|tried| &tried.turned);
        let by_parameter = variations.iter().flat_map(|variation| &variation.changes);
        let by_parameter = by_parameter.filter(|change| change.to == ClaimOutcome::NotReproduced);
        Attempts {
            turned: by_mutation
                .chain(by_parameter.map(|change| &change.id))
                .map(String::as_str)
                .collect(),
        }
    }

    /// For a reproduced claim; `None` for any other: a check that fails is not vacuous, whatever else it holds for.
    pub fn class(&self, claim: &Claim, trials: &Trials) -> Option<Class> {
        if trials.verdict != ClaimOutcome::Reproduced || trials.trials.is_empty() {
            return None;
        }
        let holding = trials.holding().count();
        let fails = |trial: &Trial| trial.verdict == ClaimOutcome::NotReproduced;
        let failed = trials.trials.iter().chain(&trials.controls).any(fails)
            || self.turned.contains(claim.id.as_str());
        Some(match holding {
            _ if !failed => Class::Vacuous,
            0 => Class::Specific,
            _ if claim.shared.is_none() => Class::Vacuous,
            _ => Class::Shared,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    fn claim(shared: &str) -> Claim {
        let text = format!(
            "title = 't'\n[[claim]]\nid = 's.p.c'\nwhere = 'w'\nstatement = 's'\nkind = 'number'\ntier = 'core'\nlayer = ['sim']\nexpected = 'e'\n\
             tolerance = 't'\ncheck = 'a.x < 1'\n{shared}\n"
        );
        let experiment = Experiment::read(&text, "e", "e.toml").unwrap();
        experiment.claims.into_iter().next().unwrap()
    }

    fn trials(
        verdict: ClaimOutcome,
        outcomes: &[ClaimOutcome],
        controls: &[ClaimOutcome],
    ) -> Trials {
        let trial = |outcome: &ClaimOutcome| Trial {
            of: "a".to_owned(),
            by: format!("b{}", *outcome as u8),
            verdict: *outcome,
            reason: None,
            measured: Vec::new(),
        };
        Trials {
            id: "s.p.c".to_owned(),
            check: "a.x < 1".to_owned(),
            seeds: 1,
            verdict,
            trials: outcomes.iter().map(trial).collect(),
            controls: controls.iter().map(trial).collect(),
        }
    }

    #[test]
    fn claims_are_specific_shared_or_vacuous() {
        use ClaimOutcome::{NotReproduced as No, NotRun as Lost, Reproduced as Yes};
        let (silent, reasoned) = (claim(""), claim("shared = 'why'"));
        let nothing = Attempts::new(&[], &[]);
        for (outcomes, controls, without_reason, with_reason) in [
            (
                &[No, Lost, No][..],
                &[][..],
                Class::Specific,
                Class::Specific,
            ),
            (&[Yes, No], &[], Class::Vacuous, Class::Shared),
            // It always holds; what cannot be measured shows nothing.
            (&[Yes, Yes], &[], Class::Vacuous, Class::Vacuous),
            (&[Yes, Lost], &[], Class::Vacuous, Class::Vacuous),
            (&[Lost, Lost], &[], Class::Vacuous, Class::Vacuous),
            (&[Lost, Lost], &[No], Class::Specific, Class::Specific),
            (&[Yes, Yes], &[Yes, Lost], Class::Vacuous, Class::Vacuous),
            (&[Yes, Yes], &[Yes, No], Class::Vacuous, Class::Shared),
        ] {
            let tried = trials(Yes, outcomes, controls);
            assert_eq!(
                nothing.class(&silent, &tried),
                Some(without_reason),
                "{outcomes:?}"
            );
            assert_eq!(
                nothing.class(&reasoned, &tried),
                Some(with_reason),
                "{outcomes:?}"
            );
        }
        // A check that fails, and one that names no scheduler, are none of these.
        assert_eq!(nothing.class(&silent, &trials(No, &[Yes, Yes], &[])), None);
        assert_eq!(nothing.class(&silent, &trials(Yes, &[], &[])), None);
    }

    #[test]
    fn a_claim_that_a_mutation_turns_is_not_vacuous() {
        let tried = |turned: &[&str]| Tried {
            scheduler: "a".to_owned(),
            mutation: "m".to_owned(),
            definition: String::new(),
            seeds: 1,
            judged: 1,
            turned: turned.iter().map(|id| (*id).to_owned()).collect(),
            lost: vec!["s.p.c".to_owned()],
        };
        let all = trials(ClaimOutcome::Reproduced, &[ClaimOutcome::Reproduced], &[]);
        let class = |turned: &[&str]| {
            let mutations = [tried(turned)];
            Attempts::new(&mutations, &[]).class(&claim("shared = 'why'"), &all)
        };
        assert_eq!(class(&["s.p.c"]), Some(Class::Shared));
        assert_eq!(class(&["s.p.d"]), Some(Class::Vacuous));
    }

    #[test]
    fn variants_in_which_a_claim_holds_are_named() {
        let tried = trials(
            ClaimOutcome::NotReproduced,
            &[ClaimOutcome::Reproduced, ClaimOutcome::NotReproduced],
            &[],
        );
        assert_eq!(tried.holds_in(), ["b0"]);
        let mut two = tried.clone();
        two.trials[1].of = "c".to_owned();
        assert_eq!(two.holds_in(), ["b0 for a"]);
    }
}
