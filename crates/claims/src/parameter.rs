// SPDX-License-Identifier: GPL-2.0-or-later
//! Chosen numbers of the model: where each is, the values to try, and runs in which it differs.
//!
//! Experiment files have `[[parameter]]` for numbers that are assumed. `fitted.toml` beside them has those that were
//! fitted to a result, with the value and that result.

use std::collections::BTreeSet;

use serde::Deserialize;
use tiltyard_misspelt::toml_line;

use crate::experiment::{Experiment, FileError, line_of};
use crate::job::{Change, Job, on_top};

/// The file of fitted numbers in a folder of experiments, without its suffix.
pub const FITTED_FILE: &str = "fitted";

/// A number that the source does not fix. It belongs to workloads, to machines or to schedulers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    pub name: String,
    /// Only runs of these workloads have it.
    #[serde(default)]
    pub workload: Names,
    /// Only runs on these machines.
    #[serde(default)]
    pub machine: Names,
    /// Only runs under these schedulers or presets.
    #[serde(default)]
    pub scheduler: Names,
    /// Where it is: keys separated by dots; for a scheduler, tunables. Several numbers may be one parameter.
    pub at: Vec<String>,
    /// Values to try instead of half and twice its value.
    #[serde(default)]
    pub values: Vec<toml::Value>,
    pub reason: String,
    /// Its value in each place of `at`; only for a fitted one.
    #[serde(default)]
    pub is: Vec<toml::Value>,
    /// The result that it was fitted to; only for a fitted one.
    pub fitted_to: Option<String>,
}

/// One name, or several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Names {
    #[default]
    None,
    One(String),
    Several(Vec<String>),
}

impl Names {
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let all = match self {
            Names::None => &[],
            Names::One(name) => std::slice::from_ref(name),
            Names::Several(names) => names.as_slice(),
        };
        all.iter().map(String::as_str)
    }
}

/// The owner of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Workload,
    Machine,
    Scheduler,
}

impl Owner {
    pub fn name(self) -> &'static str {
        match self {
            Owner::Workload => "workload",
            Owner::Machine => "machine",
            Owner::Scheduler => "scheduler",
        }
    }
}

/// By default: half and double.
const FACTORS: [f64; 2] = [0.5, 2.0];

impl Parameter {
    /// Whose it is, and their names.
    pub fn owner(&self) -> (Owner, &Names) {
        if self.workload != Names::None {
            (Owner::Workload, &self.workload)
        } else if self.machine != Names::None {
            (Owner::Machine, &self.machine)
        } else {
            (Owner::Scheduler, &self.scheduler)
        }
    }

    /// `workload sysbench-1c, sysbench-128`.
    pub fn place(&self) -> String {
        let (owner, names) = self.owner();
        let names: Vec<&str> = names.iter().collect();
        format!("{} {}", owner.name(), names.join(", "))
    }

    /// The values to try, one at a time.
    pub fn changes(&self) -> Vec<Change> {
        match self.values.is_empty() {
            true => FACTORS.map(Change::Times).to_vec(),
            false => self.values.iter().cloned().map(Change::Is).collect(),
        }
    }

    /// Whether a run has it.
    pub fn concerns(&self, job: &Job) -> bool {
        let (owner, names) = self.owner();
        let of_job = match owner {
            Owner::Workload => &job.workload,
            Owner::Machine => &job.machine,
            Owner::Scheduler => job.scheduler.split(':').next().unwrap_or_default(),
        };
        names.clone().iter().any(|name| name == of_job)
    }

    /// The run with the number changed. What an experiment sets itself stays, unless a factor changes it.
    fn change(&self, job: &mut Job, change: &Change) {
        match (self.owner().0, change) {
            (Owner::Workload, Change::Times(factor)) => {
                let places = self.at.iter().map(|at| (at.clone(), *factor));
                job.scale.extend(places);
            }
            (Owner::Workload, Change::Is(value)) => {
                let own = serde_json::from_str(&job.patch).unwrap_or_default();
                let new = self.at.iter().map(|at| nested(at, value));
                let below = new.reduce(on_top).unwrap_or_default();
                job.patch = on_top(below, own).to_string();
            }
            (Owner::Machine, change) => {
                let places = self.at.iter().map(|at| (at.clone(), change.clone()));
                job.machine_changes.extend(places);
            }
            (Owner::Scheduler, change) => {
                let (name, own) = match job.scheduler.split_once(':') {
                    Some((name, own)) => (name, format!(":{own}")),
                    None => (job.scheduler.as_str(), String::new()),
                };
                let Change::Is(value) = change else { return };
                let is_set = |at: &&String| own.contains(&format!(":{at}="));
                let new = self.at.iter().filter(|at| !is_set(at));
                let new = new.map(|at| format!(":{at}={value}"));
                job.scheduler = format!("{name}{}{own}", new.collect::<String>());
            }
        }
    }

    /// An error in the parameter alone.
    pub(crate) fn check(&self) -> Result<(), String> {
        let owners = [&self.workload, &self.machine, &self.scheduler];
        if owners.iter().filter(|n| n.iter().next().is_some()).count() != 1 {
            let what = "write one of workload, machine and scheduler, with whose number it is";
            return Err(what.to_owned());
        }
        if self.at.is_empty() {
            return Err("at: write where the number is".to_owned());
        }
        if self.owner().0 == Owner::Scheduler && self.values.is_empty() {
            let what = "a tunable is not halved and doubled; write values = [...] to try";
            return Err(what.to_owned());
        }
        let may_be = |v: &toml::Value| match self.owner().0 {
            Owner::Scheduler => is_plain(v) && !v.is_str(),
            Owner::Workload | Owner::Machine => is_plain(v),
        };
        match self.values.iter().find(|v| !may_be(v)) {
            Some(value) => Err(format!(
                "values: {value} is neither a number nor true or false; of workloads and machines it may be text"
            )),
            None => Ok(()),
        }
    }

    fn check_fitted(&self) -> Result<(), String> {
        self.check()?;
        if self.fitted_to.as_deref().unwrap_or_default().is_empty() {
            return Err("fitted_to: write which result it was chosen by".to_owned());
        }
        if self.is.len() != self.at.len() {
            return Err(format!(
                "is: {} values for {} places of at; write one for each",
                self.is.len(),
                self.at.len()
            ));
        }
        match self
            .values
            .iter()
            .find(|v| self.is.iter().all(|is| is == *v))
        {
            Some(value) => Err(format!("values: {value} is what it is already")),
            None => Ok(()),
        }
    }
}

/// A number, true or false, text.
fn is_plain(value: &toml::Value) -> bool {
    value.is_integer() || value.is_float() || value.is_bool() || value.is_str()
}

/// `{"a":{"b":value}}` of the path `a.b`.
fn nested(at: &str, value: &toml::Value) -> serde_json::Value {
    let value = match value {
        toml::Value::Boolean(flag) => serde_json::json!(flag),
        toml::Value::Float(number) => serde_json::json!(number),
        toml::Value::Integer(number) => serde_json::json!(number),
        toml::Value::String(text) => serde_json::json!(text),
        _ => serde_json::Value::Null,
    };
    at.rsplit('.')
        .fold(value, |inner, key| serde_json::json!({ key: inner }))
}

/// `jobs` with the parameter changed; `None` when no run has it.
pub fn vary(jobs: &[Job], parameter: &Parameter, change: &Change) -> Option<Vec<Job>> {
    let mut found = false;
    let varied = jobs.iter().map(|job| {
        let mut job = job.clone();
        if parameter.concerns(&job) {
            found = true;
            parameter.change(&mut job, change);
        }
        job
    });
    let varied = varied.collect();
    found.then_some(varied)
}

/// Everything that was chosen by looking at a result: `fitted.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    #[serde(default, rename = "parameter")]
    pub parameters: Vec<Parameter>,
    /// What no sensitivity run can vary.
    #[serde(default, rename = "choice")]
    pub choices: Vec<Choice>,
}

/// A part of an experiment, not a number of a machine, a workload or a scheduler.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    pub what: String,
    /// The result that was known.
    pub chosen_after: String,
}

/// Reads and checks `fitted.toml`; `file` is for messages.
pub fn read_fitted(text: &str, file: &str) -> Result<Fitted, FileError> {
    let read: Fitted = toml::from_str(text).map_err(|e| FileError {
        file: file.to_owned(),
        line: e.span().map_or(0, |s| line_of(text, s.start)),
        what: toml_line(&e),
    })?;
    let mut names = BTreeSet::new();
    for parameter in &read.parameters {
        let mut checked = parameter.check_fitted();
        if !names.insert(&parameter.name) {
            checked = Err("there are two of this name; give one another".to_owned());
        }
        checked.map_err(|what| FileError {
            file: file.to_owned(),
            line: text
                .find(&format!("\"{}\"", parameter.name))
                .map_or(0, |at| line_of(text, at)),
            what: format!("parameter \"{}\": {what}", parameter.name),
        })?;
    }
    Ok(read)
}

/// Checks that no experiment has a parameter with the name of a fitted one, because results are found by name.
pub fn check_names(experiments: &[Experiment], fitted: &[Parameter]) -> Result<(), FileError> {
    for experiment in experiments {
        let own = &experiment.parameters;
        if let Some(twice) = own.iter().find(|p| fitted.iter().any(|f| f.name == p.name)) {
            return Err(FileError {
                file: experiment.file.clone(),
                line: 0,
                what: format!(
                    "parameter \"{}\": {FITTED_FILE}.toml has one of this name; give one another",
                    twice.name
                ),
            });
        }
    }
    Ok(())
}
