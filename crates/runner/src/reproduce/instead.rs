// SPDX-License-Identifier: GPL-2.0-or-later
//! Claims with something else in place of what their experiments name: another scheduler, another machine, a changed workload.

use tiltyard_claims::Job;

use super::Plan;
use crate::Error;

/// What to replace. A claim judged this way no longer tests what its source describes.
#[derive(Clone, Debug, Default)]
pub struct Instead {
    /// A scheduler's or a machine's name, and its replacement.
    pub names: Vec<(String, String)>,
    /// A workload's name, and a JSON merge patch on top of the run's own.
    pub patches: Vec<(String, String)>,
}

impl Instead {
    /// Applies the replacements to all jobs. A name that no job uses is an error, because nothing would be replaced.
    pub fn apply(&self, plans: &mut [Plan]) -> Result<(), Error> {
        for (name, other) in &self.names {
            let replace = |job: &mut Job| rename(job, name, other);
            if count(plans, replace) == 0 {
                let what = "no run of these claims uses a scheduler or a machine of this name";
                return Err(Error::argument("instead", &format!("{name}={other}"), what));
            }
        }
        for (workload, patch) in &self.patches {
            let argument = format!("{workload}={patch}");
            let value = serde_json::from_str(patch)
                .map_err(|e| Error::argument("patch", &argument, format!("not valid JSON: {e}")))?;
            let change = |job: &mut Job| {
                let is_it = job.workload == *workload;
                if is_it {
                    job.patch_on_top(&value);
                }
                is_it
            };
            if count(plans, change) == 0 {
                let what = "no run of these claims uses a workload of this name";
                return Err(Error::argument("patch", &argument, what));
            }
        }
        Ok(())
    }
}

/// How many jobs `change` has changed.
fn count(plans: &mut [Plan], change: impl Fn(&mut Job) -> bool) -> usize {
    let jobs = plans.iter_mut().flat_map(|plan| &mut plan.jobs);
    jobs.map(change).filter(|changed| *changed).count()
}

fn rename(job: &mut Job, name: &str, other: &str) -> bool {
    let tunables = job.scheduler.strip_prefix(name);
    match tunables.filter(|rest| rest.is_empty() || rest.starts_with(':')) {
        Some(tunables) => job.scheduler = format!("{other}{tunables}"),
        None if job.machine == name => job.machine = other.to_owned(),
        None => return false,
    }
    true
}
