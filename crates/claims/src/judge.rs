// SPDX-License-Identifier: GPL-2.0-or-later
//! Measures of several seeds -> verdicts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tiltyard_measure::median_interval;

use crate::check::{Check, OverSeeds};
use crate::experiment::Claim;

/// `scheduler.measure` -> its value with each seed; `None` if a run has none.
pub type Values = BTreeMap<String, Vec<Option<f64>>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimOutcome {
    Reproduced,
    NotReproduced,
    NotRun,
}

impl ClaimOutcome {
    pub fn name(self) -> &'static str {
        match self {
            ClaimOutcome::Reproduced => "reproduced",
            ClaimOutcome::NotReproduced => "not-reproduced",
            ClaimOutcome::NotRun => "not-run",
        }
    }
}

/// The verdict on a claim. Its JSON is what `tiltyard reproduce --format json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub id: String,
    pub source: String,
    #[serde(rename = "where")]
    pub place: String,
    pub tier: String,
    pub statement: String,
    pub expected: String,
    /// The experiment's check; empty if there is none.
    pub check: String,
    /// The names in the check -> their values: medians over the seeds, or the smallest or largest value.
    pub measured: BTreeMap<String, f64>,
    /// Order-statistic intervals of the medians (95 % from six seeds on, else the extremes). Extremes have none.
    pub interval: BTreeMap<String, [f64; 2]>,
    /// Each seed's value.
    pub values: BTreeMap<String, Vec<f64>>,
    pub verdict: ClaimOutcome,
    pub seeds: usize,
    /// All runs are identical, whatever the seed: they are one run, and there is no interval.
    #[serde(default)]
    pub identical: bool,
    /// Number of seeds with which, taken alone, the check holds.
    pub holds_with: usize,
    /// Why it was not run, or what is broken.
    pub reason: Option<String>,
    /// The claim should have been judged and could not be.
    pub broken: bool,
    /// The command that repeats it.
    pub command: String,
}

impl Verdict {
    /// Not run, and why.
    pub fn not_run(claim: &Claim, reason: Option<String>) -> Verdict {
        Verdict {
            id: claim.id.clone(),
            source: claim.source().to_owned(),
            place: claim.place.clone(),
            tier: claim.tier.name().to_owned(),
            statement: claim.statement.clone(),
            expected: claim.expected.clone(),
            check: claim.check.clone().unwrap_or_default(),
            measured: BTreeMap::new(),
            interval: BTreeMap::new(),
            values: BTreeMap::new(),
            verdict: ClaimOutcome::NotRun,
            seeds: 0,
            identical: false,
            holds_with: 0,
            reason,
            broken: false,
            command: format!("tiltyard reproduce {}", claim.id),
        }
    }
}

impl Verdict {
    /// No run of this claim drew anything at random: the seeds are copies of one run.
    pub fn of_identical_runs(mut self) -> Verdict {
        self.identical = self.seeds > 1;
        if self.identical {
            self.interval.clear();
        }
        self
    }

    /// Whether it is reproduced, but not with each seed taken alone.
    pub fn holds_for_medians_only(&self) -> bool {
        let reproduced = self.verdict == ClaimOutcome::Reproduced;
        reproduced && !self.identical && self.holds_with < self.seeds
    }

    /// Agreement between the seeds, for a reader; empty if nothing was judged.
    pub fn agreement(&self) -> String {
        match (self.seeds, self.identical) {
            (0, _) => String::new(),
            (seeds, true) => format!("all {seeds} runs identical"),
            (1, false) => format!("holds with {} of 1 seed", self.holds_with),
            (seeds, false) => format!("holds with {} of {seeds} seeds", self.holds_with),
        }
    }
}

/// The verdict on a claim: its check is evaluated on the medians, and on extremes where it says so. Anything that prevents
/// this leaves the claim not run; a broken claim never counts as reproduced.
pub fn judge(
    claim: &Claim,
    values: &Values,
    seeds: usize,
    failures: &BTreeMap<String, String>,
) -> Verdict {
    let mut verdict = Verdict::not_run(claim, claim.not_run.clone());
    let Some(text) = &claim.check else {
        return verdict;
    };
    let mut evaluate = || -> Result<(), String> {
        let check = Check::read(text).map_err(|e| format!("check: {e}"))?;
        for name in check.names() {
            let (measure, over_seeds) = OverSeeds::of_name(name);
            let each = each_seed(measure, values, failures)?;
            let measured = match over_seeds {
                OverSeeds::Smallest => each.iter().copied().reduce(f64::min),
                OverSeeds::Largest => each.iter().copied().reduce(f64::max),
                OverSeeds::Median => median_interval(&each).map(|interval| {
                    let bounds = [interval.low, interval.high];
                    verdict.interval.insert(name.clone(), bounds);
                    interval.median
                }),
            };
            let measured = measured.ok_or_else(|| format!("{measure} was not measured"))?;
            verdict.measured.insert(name.clone(), measured);
            verdict.values.insert(measure.to_owned(), each);
        }
        let holds = check
            .holds(&|name| verdict.measured.get(name).copied())
            .map_err(|e| format!("check: {e}"))?;
        let with = |seed: usize| {
            let each = |name: &str| values.get(OverSeeds::of_name(name).0);
            check.holds(&|name| each(name)?.get(seed).copied()?)
        };
        verdict.holds_with = (0..seeds).filter(|seed| with(*seed) == Ok(true)).count();
        verdict.seeds = seeds;
        verdict.verdict = match holds {
            true => ClaimOutcome::Reproduced,
            false => ClaimOutcome::NotReproduced,
        };
        Ok(())
    };
    if let Err(reason) = evaluate() {
        verdict.reason = Some(reason);
        verdict.broken = true;
    }
    verdict
}

/// The values of a measure, which must have one with every seed.
fn each_seed(
    name: &str,
    values: &Values,
    failures: &BTreeMap<String, String>,
) -> Result<Vec<f64>, String> {
    if let Some(failure) = failures.get(name) {
        return Err(format!("{name}: {failure}"));
    }
    let all = values
        .get(name)
        .ok_or_else(|| format!("nothing here measures {name}; add it to the measures of a run"))?;
    let known: Vec<f64> = all.iter().flatten().copied().collect();
    if known.len() < all.len() {
        return Err(format!(
            "{name} has no value with {} of {} seeds",
            all.len() - known.len(),
            all.len()
        ));
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    fn claim(check: &str) -> Claim {
        let text = format!(
            "title = 't'\n[[run]]\nmachine = 'uni'\nworkload = 'w'\nschedulers = {{ a = 'a', b = 'b' }}\n[run.measures]\n\
             x = 'SELECT max(ts) FROM wakeup'\ny = 'SELECT min(ts) FROM wakeup'\n[[claim]]\nid = 's.p.c'\nwhere = 'w'\nstatement = 's'\nkind = 'number'\n\
             tier = 'core'\nlayer = ['sim']\nexpected = 'e'\ntolerance = 't'\ncheck = '{check}'\n"
        );
        Experiment::read(&text, "e", "e.toml")
            .unwrap()
            .claims
            .remove(0)
    }

    fn values() -> Values {
        let some = |v: &[f64]| v.iter().map(|v| Some(*v)).collect();
        BTreeMap::from([
            ("a.x".to_owned(), some(&[1.0, 2.0, 9.0])),
            ("b.x".to_owned(), some(&[2.0, 3.0, 4.0])),
            ("a.y".to_owned(), vec![Some(0.0), None, Some(1.0)]),
            ("b.y".to_owned(), some(&[0.0, 0.0, 0.0])),
        ])
    }

    fn verdict(check: &str) -> Verdict {
        judge(&claim(check), &values(), 3, &BTreeMap::new())
    }

    #[test]
    fn medians_decide_and_seeds_are_counted() {
        let got = verdict("a.x < b.x");
        assert_eq!(
            (got.verdict, got.holds_with, got.seeds),
            (ClaimOutcome::Reproduced, 2, 3)
        );
        assert_eq!(
            (got.measured["a.x"], got.interval["a.x"]),
            (2.0, [1.0, 9.0])
        );
        let got = verdict("a.x > b.x");
        assert_eq!(
            (got.verdict, got.holds_with),
            (ClaimOutcome::NotReproduced, 1)
        );
        // What never happens does not happen in the worst run; what sometimes happens does in the best one.
        for (check, verdict_on, holds_with) in [
            ("a.x.largest <= 2", ClaimOutcome::NotReproduced, 2),
            ("a.x.largest > 8 and b.x > 2", ClaimOutcome::Reproduced, 1),
            ("a.x.smallest > 1", ClaimOutcome::NotReproduced, 2),
            ("a.x.smallest == 1", ClaimOutcome::Reproduced, 1),
        ] {
            let got = verdict(check);
            assert_eq!(
                (got.verdict, got.holds_with),
                (verdict_on, holds_with),
                "{check}"
            );
            assert_eq!(got.values["a.x"], [1.0, 2.0, 9.0]);
            assert!(!got.interval.keys().any(|name| name.ends_with("est")));
        }
        // With the last seed the check divides by zero: it does not hold.
        let got = verdict("1 / (9 - a.x) < 9");
        assert_eq!((got.verdict, got.holds_with), (ClaimOutcome::Reproduced, 2));
    }

    #[test]
    fn broken_claims_are_never_reproduced() {
        for (check, reason) in [
            ("a.x / b.y > 0", "check: division by zero (at character 1)"),
            ("a.y >= 0", "a.y has no value with 1 of 3 seeds"),
            ("a.y.largest >= 0", "a.y has no value with 1 of 3 seeds"),
            (
                "a.z >= 0",
                "nothing here measures a.z; add it to the measures of a run",
            ),
            (
                "1 < 2",
                "check: no measure of any scheduler is mentioned (at character 1)",
            ),
        ] {
            let got = verdict(check);
            assert_eq!(
                (got.verdict, got.broken),
                (ClaimOutcome::NotRun, true),
                "{check}"
            );
            assert_eq!(got.reason.as_deref(), Some(reason));
        }
        let failed = BTreeMap::from([("a.x".to_owned(), "ejected".to_owned())]);
        let got = judge(&claim("a.x < b.x"), &values(), 3, &failed);
        assert_eq!(
            (got.verdict, got.reason.as_deref()),
            (ClaimOutcome::NotRun, Some("a.x: ejected"))
        );
    }
}
