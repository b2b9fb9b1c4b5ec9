// SPDX-License-Identifier: GPL-2.0-or-later
//! Which schedulers a claim's check names, and jobs with a scheduler replaced.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use tiltyard_claims::{Check, Claim, Experiment, Job, Kind, RunSpec};

use super::{Plan, needed};
use crate::Error;
use crate::schedulers::{self, Choice};

/// What the jobs of experiments run, read once, by the argument of `-s`.
pub struct Schedulers(BTreeMap<String, Choice>);

impl Schedulers {
    pub fn of(experiments: &[Experiment]) -> Result<Schedulers, Error> {
        let mut all = BTreeMap::new();
        for experiment in experiments {
            let own = experiment.jobs().iter().map(|job| job.scheduler.clone());
            let others = experiment.substitutes.values().flatten().cloned();
            for argument in own.chain(others) {
                if let Entry::Vacant(place) = all.entry(argument) {
                    let choice = schedulers::choose(place.key());
                    let choice = choice.map_err(|failure| failure.in_file(&experiment.file))?;
                    place.insert(choice);
                }
            }
        }
        let all = Schedulers(all);
        for experiment in experiments {
            all.check_substitutes(experiment)?;
        }
        Ok(all)
    }

    fn check_substitutes(&self, experiment: &Experiment) -> Result<(), Error> {
        let jobs = experiment.jobs().iter();
        let run = jobs.filter_map(|job| self.family(&job.scheduler));
        let run: BTreeSet<String> = run.collect();
        let mut names = experiment.substitutes.keys();
        let Some(name) = names.find(|name| !run.contains(*name)) else {
            return Ok(());
        };
        let run: Vec<String> = run.into_iter().collect();
        let line = format!(
            "substitutes.{name}: no run has this scheduler, but {}",
            run.join(", ")
        );
        Err(Error::input(line).within(&experiment.file))
    }

    pub fn choice(&self, argument: &str) -> Option<&Choice> {
        self.0.get(argument)
    }

    /// The scheduler of which a job runs a variant.
    pub fn family(&self, argument: &str) -> Option<String> {
        self.choice(argument).map(Choice::family)
    }

    /// The schedulers whose measures a claim's check compares.
    pub fn named(&self, experiment: &Experiment, claim: &Claim, jobs: &[Job]) -> BTreeSet<String> {
        let check = claim.check.as_deref().and_then(|c| Check::read(c).ok());
        let Some(check) = check else {
            return BTreeSet::new();
        };
        let labels: BTreeSet<&str> = jobs.iter().map(|job| job.label.as_str()).collect();
        let of_name = |name| labels_of(experiment, name, &labels);
        let mut named: BTreeSet<&str> = check.measures().into_iter().flat_map(of_name).collect();
        // A number of the setup, such as the number of applications, belongs to no scheduler.
        if named.is_empty() && claim.kind != Kind::Constant {
            named = labels;
        }
        let of_label = |job: &&Job| named.contains(job.label.as_str());
        let families = jobs.iter().filter(of_label);
        families
            .filter_map(|job| self.family(&job.scheduler))
            .collect()
    }
}

/// The labels that a name in a check refers to. A derived measure refers to those that its query quotes; if it quotes
/// none, to its namespace's; if that is none, to none in particular.
fn labels_of<'a>(experiment: &Experiment, name: &str, labels: &BTreeSet<&'a str>) -> Vec<&'a str> {
    let namespace = name.split('.').next().unwrap_or_default();
    let own: Vec<&str> = labels.get(namespace).copied().into_iter().collect();
    let Some(sql) = experiment.derived.get(name) else {
        return own;
    };
    let quoted = |label: &&&str| sql.contains(&format!("'{label}'"));
    let quoted: Vec<&str> = labels.iter().filter(quoted).copied().collect();
    match quoted.is_empty() {
        false => quoted,
        true => own,
    }
}

/// Whether a derived measure may use these measures of a job: it quotes one of them or their run, or nothing that
/// excludes them.
pub fn derives_from(experiment: &Experiment, name: &str, job: &Job, measures: &[&str]) -> bool {
    let Some(sql) = experiment.derived.get(name) else {
        return false;
    };
    let schedulers = experiment.runs.iter().flat_map(|run| run.schedulers.keys());
    let labels: BTreeSet<&str> = schedulers.map(String::as_str).collect();
    let named = labels_of(experiment, name, &labels);
    let of_label = named.is_empty() || named.contains(&job.label.as_str());
    of_label && may_use(experiment, sql, job, measures)
}

/// Whether the query of a derived measure may use these measures of a job, whoever scheduled it.
pub fn may_use(experiment: &Experiment, sql: &str, job: &Job, measures: &[&str]) -> bool {
    let quotes = |text: &str| !text.is_empty() && sql.contains(&format!("'{text}'"));
    let mut runs = experiment.runs.iter();
    let names_run = names_column(sql, "run") && runs.any(|run| quotes(&run.name));
    let of_run = quotes(&job.run) || !names_run;
    let measured = |run: &RunSpec| {
        let only = run.only.values().flat_map(|only| only.keys());
        run.measures
            .keys()
            .chain(only)
            .any(|measure| quotes(measure))
    };
    let any_measure = experiment.runs.iter().any(measured);
    let of_measure = measures.iter().any(|measure| quotes(measure)) || !any_measure;
    of_run && of_measure
}

/// Whether a query has this word outside of its quoted texts.
fn names_column(sql: &str, column: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut unquoted = sql.split('\'').step_by(2);
    unquoted.any(|text| text.split(|c| !is_word(c)).any(|word| word == column))
}

/// The runs that `claims` need, with each argument of `-s` replaced by the result of `replace`.
pub fn with_replaced<'a>(
    experiment: &'a Experiment,
    claims: Vec<&'a Claim>,
    replace: &dyn Fn(&str) -> Option<String>,
) -> Plan<'a> {
    let mut jobs = needed(experiment, &claims, false);
    for job in &mut jobs {
        if let Some(other) = replace(&job.scheduler) {
            job.scheduler = other;
        }
    }
    Plan {
        experiment,
        claims,
        jobs,
        refused: BTreeMap::new(),
        in_kernel: false,
        figures: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_measures_lack_what_they_quote() {
        let run = |name: &str, measure: &str| {
            format!(
                "[[run]]\nname = '{name}'\nmachine = 'uni'\nworkload = 'w'\nschedulers = {{ a = 'a', b = 'b' }}\n\
                 [run.measures]\n{measure} = 'SELECT max(id) FROM task'\n"
            )
        };
        let text = format!(
            "title = 't'\n{}{}[derived]\n\"x.m\" = \"SELECT max(value) FROM measure WHERE name = 'm'\"\n\
             \"x.r\" = \"SELECT max(value) FROM measure WHERE run = 'r' AND scheduler = 'a'\"\n\
             \"x.any\" = \"SELECT max(value) FROM measure\"\n",
            run("r", "m"),
            run("s", "k")
        );
        let experiment = Experiment::read(&text, "e", "e.toml").unwrap();
        let jobs = experiment.jobs();
        let lacking = |job: &Job, measure: &str| {
            let derived = ["x.any", "x.m", "x.r"].into_iter();
            let lacks = |name: &&str| derives_from(&experiment, name, job, &[measure]);
            derived.filter(lacks).collect::<Vec<_>>()
        };
        // Jobs: run r under a and b, run s under a and b.
        assert_eq!(lacking(&jobs[0], "m"), ["x.any", "x.m", "x.r"]);
        assert_eq!(lacking(&jobs[1], "m"), ["x.any", "x.m"]);
        assert_eq!(lacking(&jobs[2], "k"), ["x.any"]);
    }

    #[test]
    fn derived_measures_speak_of_the_labels_that_they_quote() {
        let text = "title = 't'\n[derived]\n\"all.ratio\" = \"SELECT max(value) FROM measure WHERE scheduler = 'a'\"\n\
            \"b.own\" = \"SELECT max(value) FROM measure\"\n\"all.any\" = \"SELECT max(value) FROM measure\"\n";
        let experiment = Experiment::read(text, "e", "e.toml").unwrap();
        let labels = BTreeSet::from(["a", "b", "c"]);
        for (name, expected) in [
            ("a.measured", vec!["a"]),
            ("all.ratio", vec!["a"]),
            ("b.own", vec!["b"]),
            ("all.any", vec![]),
            ("nobody.measured", vec![]),
        ] {
            assert_eq!(labels_of(&experiment, name, &labels), expected, "{name}");
        }
    }
}
