// SPDX-License-Identifier: GPL-2.0-or-later
//! Claims with something else in place of what their experiments name: another scheduler, another machine, a changed workload.

use std::collections::BTreeSet;

use tiltyard_claims::Job;

use super::Plan;
use crate::{Error, machines, nearest, objects, schedulers};

/// What to replace. A claim judged this way no longer tests what its source describes.
#[derive(Clone, Debug, Default)]
pub struct Instead {
    /// A scheduler's or a machine's name, and its replacement.
    pub names: Vec<(String, String)>,
    /// A workload's name, and a JSON merge patch on top of the run's own.
    pub patches: Vec<(String, String)>,
}

impl Instead {
    /// Applies the replacements to all jobs, all at the same time: two names can be exchanged. A name that no job uses is an
    /// error, because nothing would be replaced.
    pub fn apply(&self, plans: &mut [Plan]) -> Result<(), Error> {
        for (index, (name, other)) in self.names.iter().enumerate() {
            once("instead", &self.names[..index], name, other)?;
            let used = names(plans, |job| vec![scheduler(job).0, &job.machine]);
            require("instead", format!("{name}={other}"), name, &used)?;
            exists(plans, name, other)?;
        }
        let mut patches = Vec::new();
        for (index, (workload, patch)) in self.patches.iter().enumerate() {
            once("patch", &self.patches[..index], workload, patch)?;
            let argument = format!("{workload}={patch}");
            let used = names(plans, |job| vec![&job.workload]);
            require("patch", argument.clone(), workload, &used)?;
            let value: serde_json::Value = serde_json::from_str(patch)
                .map_err(|e| Error::argument("patch", &argument, format!("not valid JSON: {e}")))?;
            patches.push((workload, value));
        }
        for job in plans.iter_mut().flat_map(|plan| &mut plan.jobs) {
            self.rename(job);
            for (workload, patch) in &patches {
                if job.workload == **workload {
                    job.patch_on_top(patch);
                }
            }
        }
        Ok(())
    }

    fn rename(&self, job: &mut Job) {
        let other = |of: &str| self.names.iter().find(|(name, _)| name == of);
        let (name, tunables) = scheduler(job);
        if let Some((_, other)) = other(name) {
            job.scheduler = format!("{other}{tunables}");
        }
        if let Some((_, other)) = other(&job.machine) {
            job.machine = other.clone();
        }
    }
}

/// What replaces a scheduler must be a scheduler, with tunables that it has, and likewise a machine: later, the experiment's
/// file would be blamed.
fn exists(plans: &[Plan], name: &str, other: &str) -> Result<(), Error> {
    let of_machine = names(plans, |job| vec![&job.machine]).contains(name);
    let found = match of_machine {
        true => machines::load(other).map(drop),
        false => {
            schedulers::choose(other).and_then(|choice| objects::native(&choice, false).map(drop))
        }
    };
    found.map_err(|error| match error {
        Error::Argument { what, .. } => {
            Error::argument("instead", &format!("{name}={other}"), what)
        }
        error => error,
    })
}

/// Of two replacements for one name, one would be dropped.
fn once(
    of: &'static str,
    earlier: &[(String, String)],
    name: &str,
    other: &str,
) -> Result<(), Error> {
    match earlier.iter().any(|(known, _)| known == name) {
        true => {
            let what = format!("{name} is replaced twice; keep one");
            Err(Error::argument(of, &format!("{name}={other}"), what))
        }
        false => Ok(()),
    }
}

/// Its name, and its tunables with the colon before them.
fn scheduler(job: &Job) -> (&str, &str) {
    let end = job.scheduler.find(':').unwrap_or(job.scheduler.len());
    job.scheduler.split_at(end)
}

/// What jobs use, by name.
fn names<'a>(plans: &'a [Plan], of: impl Fn(&'a Job) -> Vec<&'a str>) -> BTreeSet<String> {
    let jobs = plans.iter().flat_map(|plan| &plan.jobs);
    jobs.flat_map(of).map(str::to_owned).collect()
}

fn require(
    of: &'static str,
    argument: String,
    name: &str,
    used: &BTreeSet<String>,
) -> Result<(), Error> {
    if used.contains(name) {
        return Ok(());
    }
    let used: Vec<String> = used.iter().cloned().collect();
    let what = format!(
        "no run of these claims uses {name}; {}",
        nearest::hint(name, &used)
    );
    Err(Error::argument(of, &argument, what))
}
