// SPDX-License-Identifier: GPL-2.0-or-later
//! Which claims a real kernel can judge.

use std::collections::{BTreeMap, BTreeSet};

use tiltyard_claims::{Claim, Experiment, Job, Layer};

use super::{Plan, needed};
use crate::Error;
use crate::machines;

/// The runs that the claims of these ids need in a real kernel. Claims that it cannot judge are in the plan with the
/// reason.
pub fn plan_in_kernel<'a>(
    experiments: &'a [Experiment],
    ids: &BTreeSet<String>,
) -> Result<Vec<Plan<'a>>, Error> {
    let mut plans = Vec::new();
    for experiment in experiments {
        let chosen = experiment.claims.iter().filter(|c| ids.contains(&c.id));
        let claims: Vec<&Claim> = chosen.collect();
        if claims.is_empty() {
            continue;
        }
        let mut refused = BTreeMap::new();
        for claim in &claims {
            if let Some(reason) = why_not(experiment, claim)? {
                refused.insert(claim.id.clone(), format!("simulator only: {reason}"));
            }
        }
        let left = claims.iter().filter(|c| !refused.contains_key(&c.id));
        let left: Vec<&Claim> = left.copied().collect();
        let jobs = needed(experiment, &left, false);
        plans.push(Plan {
            jobs: jobs.into_iter().map(Job::in_kernel).collect(),
            experiment,
            claims,
            refused,
            in_kernel: true,
            figures: false,
        });
    }
    Ok(plans)
}

/// Why a claim that has a check is not judged in a kernel, if it is not.
fn why_not(experiment: &Experiment, claim: &Claim) -> Result<Option<String>, Error> {
    if claim.check.is_none() {
        return Ok(None); // its own reason says more
    }
    if !claim.layer.contains(&Layer::Real) {
        return Ok(Some("\"real\" is not among its layers".to_owned()));
    }
    let place = |failure: Error| failure.in_file(&experiment.file);
    for job in needed(experiment, &[claim], false) {
        if let Some(reason) = obstacle(&job.in_kernel()).map_err(place)? {
            return Ok(Some(reason));
        }
    }
    Ok(None)
}

/// Why a run cannot be done in a kernel.
fn obstacle(job: &Job) -> Result<Option<String>, Error> {
    if let Some(own) = job.kernel.as_ref().filter(|own| !own.done) {
        return Ok(Some(own.reason.clone()));
    }
    let cpus = machines::load(&job.machine)?.nr_cpus();
    if cpus > 1 && !job.kernel.as_ref().is_some_and(|own| own.several_cpus) {
        let machine = &job.machine;
        return Ok(Some(format!(
            "{machine} has {cpus} CPUs, and a kernel is exact on one"
        )));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(layer: &str, machine: &str, more: &str) -> Experiment {
        let text = format!(
            "title = 't'\n[[run]]\nmachine = '{machine}'\nworkload = 'pingpong'\nschedulers = {{ a = 'fifo' }}\nduration = '9s'\n\
             kernel = [{{ duration = '1s', reason = 'enough' }}]\n[run.measures]\nx = 'SELECT min(1) FROM task'\n\
             [[run]]\nname = 'other'\nmachine = 'smp2'\nworkload = 'pingpong'\nschedulers = {{ b = 'fifo' }}\n\
             [run.measures]\nx = 'SELECT min(2) FROM task'\n\
             [[run]]\nname = 'long'\nmachine = 'uni'\nworkload = 'pingpong'\nschedulers = {{ c = 'fifo' }}\nvary = {{ n = [1, 2] }}\n\
             kernel = [{{ of = [1], duration = '1s', reason = 'enough' }}, {{ reason = 'an hour' }}]\n[run.measures]\nx = 'SELECT min(3) FROM task'\n\
             [[claim]]\nid = 's.p.c'\nwhere = 'w'\nstatement = 's'\nkind = 'number'\ntier = 'core'\nexpected = 'e'\n\
             tolerance = 't'\nlayer = [{layer}]\n{more}\n"
        );
        Experiment::read(&text, "e", "e.toml").unwrap()
    }

    /// The reason, and the durations of the jobs.
    fn planned(layer: &str, machine: &str, more: &str) -> (Option<String>, Vec<Option<String>>) {
        let experiments = [experiment(layer, machine, more)];
        let ids = BTreeSet::from(["s.p.c".to_owned()]);
        let mut plans = plan_in_kernel(&experiments, &ids).unwrap();
        let plan = plans.remove(0);
        assert_eq!(plan.claims.len(), 1, "it is reported in any case");
        let durations = plan.jobs.into_iter().map(|job| job.duration);
        (plan.refused.get("s.p.c").cloned(), durations.collect())
    }

    #[test]
    fn a_claim_of_one_cpu_whose_layer_is_real_gets_the_jobs_that_it_needs_made_shorter() {
        let (reason, durations) = planned("'sim', 'real'", "uni", "check = 'a.x < 2'");
        assert_eq!((reason, durations), (None, vec![Some("1s".to_owned())]));
    }

    #[test]
    fn a_derived_measure_needs_the_runs_that_it_names() {
        let derived = |sql: &str| {
            let more = format!("check = 'd.m < 2'\n[derived]\n'd.m' = \"{sql}\"");
            planned("'real'", "uni", &more)
        };
        let named = derived("SELECT max(value) FROM measure WHERE run = 'long' AND of = '1'");
        assert_eq!(named.0.as_deref(), Some("simulator only: an hour"));
        let refused = "simulator only: smp2 has 2 CPUs, and a kernel is exact on one";
        // A run may have the name of something else: without its column no run is meant.
        for any in ["", " WHERE of = 'long'"] {
            let (any, _) = derived(&format!("SELECT max(value) FROM measure{any}"));
            assert_eq!(any.as_deref(), Some(refused));
        }
    }

    #[test]
    fn several_cpus_are_for_runs_that_say_so() {
        let two = experiment("'real'", "smp2", "check = 'a.x < 2'");
        let mut job = two.jobs()[0].clone();
        let refused = "smp2 has 2 CPUs, and a kernel is exact on one";
        assert_eq!(obstacle(&job).unwrap().as_deref(), Some(refused));
        job.kernel.as_mut().unwrap().several_cpus = true;
        assert_eq!(obstacle(&job).unwrap(), None);
    }

    #[test]
    fn all_others_are_refused_with_a_reason() {
        for (layer, machine, more, expected) in [
            (
                "'sim'",
                "uni",
                "check = 'a.x < 2'",
                "\"real\" is not among its layers",
            ),
            (
                "'real'",
                "smp2",
                "check = 'a.x < 2'",
                "smp2 has 2 CPUs, and a kernel is exact on one",
            ),
            (
                "'real'",
                "uni",
                "check = 'a.x < b.x'",
                "smp2 has 2 CPUs, and a kernel is exact on one",
            ),
            ("'real'", "uni", "check = 'c.x_n1 < c.x_n2'", "an hour"),
        ] {
            let (reason, durations) = planned(layer, machine, more);
            assert_eq!(reason, Some(format!("simulator only: {expected}")));
            assert_eq!(durations, []);
        }
        let short = planned("'real'", "uni", "check = 'c.x_n1 < 2'");
        assert_eq!(
            short,
            (None, vec![Some("1s".to_owned())]),
            "what this value is for"
        );
        let open = planned("'real'", "uni", "not_run = 'later'");
        assert_eq!(
            open,
            (None, Vec::new()),
            "judged as not run, for its own reason"
        );
    }
}
