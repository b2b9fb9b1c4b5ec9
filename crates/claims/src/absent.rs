// SPDX-License-Identifier: GPL-2.0-or-later
//! A missing quantity is not a number: a measure that returned one where nothing was recorded would let a check pass.
//! Two tests, both of the query's result, not its text. When a file is loaded, each measure is evaluated on a run
//! without any rows ([`check`]); when a run is first done, each measure that returned a number is evaluated again
//! with one [`MayLack`] of its input removed ([`Database::number_without`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::experiment::Experiment;
use crate::job::Job;
use crate::reads::Reads;
use crate::sql::{Database, Measured, SqlError};

/// What a run may lack, and the tables that are empty then. Others are left out on purpose: that no task migrated, waited too
/// long or was preempted is an observation, because the recorder sees every one.
#[derive(Debug)]
pub struct MayLack {
    pub name: &'static str,
    pub tables: &'static [&'static str],
}

pub const KINDS: [MayLack; 7] = [
    MayLack {
        name: "probes",
        tables: &["probe", "probe_bucket", "counter", "counter_track"],
    },
    MayLack {
        name: "requests",
        tables: &["request", "slice", "latency_quantile"],
    },
    MayLack {
        name: "marks",
        tables: &["mark", "instant"],
    },
    MayLack {
        name: "wakeups",
        tables: &["wakeup"],
    },
    MayLack {
        name: "switches",
        tables: &["sched_slice", "thread_state"],
    },
    MayLack {
        name: "tasks",
        tables: &["task", "app", "thread", "process"],
    },
    MayLack {
        name: "accesses",
        tables: &["access", "runqueue_lock"],
    },
];

impl Job {
    /// Whether a measure of this job is intentionally a number without this kind of input.
    pub fn may_lack(&self, measure: &str, kind: &MayLack) -> bool {
        let kinds = self.may_lack.get(measure);
        kinds.is_some_and(|kinds| kinds.iter().any(|name| name == kind.name))
    }
}

/// The first name in `may_lack` that is not a measure or a kind.
pub(crate) fn check_exceptions(jobs: &[Job]) -> Result<(), (String, String)> {
    for job in jobs {
        for (measure, kinds) in &job.may_lack {
            let is_measure = |job: &Job| job.measures.contains_key(measure);
            if !jobs
                .iter()
                .any(|other| other.run == job.run && is_measure(other))
            {
                let what = format!("may_lack: {measure} is no measure of this run");
                return Err(("may_lack".to_owned(), what));
            }
            let is_kind = |name: &&String| KINDS.iter().any(|kind| kind.name == *name);
            if let Some(name) = kinds.iter().find(|name| !is_kind(name)) {
                let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
                let what = format!("may_lack: {name}; write one of {}", known.join(", "));
                return Err(("may_lack".to_owned(), what));
            }
        }
    }
    Ok(())
}

/// What is wrong with a measure that returns `number` without `what`, and the remedy.
pub fn fault(number: f64, what: &str) -> String {
    format!(
        "gives {number} {what}, so that a missing quantity could pass; make it NULL then: \
         SELECT CASE WHEN count(*) > 0 THEN ... END; a count is still 0 where there are others if its condition is in \
         count(*) FILTER (WHERE ...)"
    )
}

/// What is wrong with a query, if it fails or returns a number for a run without any rows.
pub fn check_query(sql: &str) -> Result<(), String> {
    let empty = Database::of_run(&[], true, &Reads::all_tables()).map_err(|e| e.to_string())?;
    match empty.number(sql) {
        Ok(None) => Ok(()),
        Ok(Some(number)) => Err(fault(number, IN_NOTHING)),
        Err(error) => Err(error.to_string()),
    }
}

/// A run without any rows.
const IN_NOTHING: &str = "of a run in which nothing was recorded";

/// The first measure of an experiment that returns a number for a run without any rows, or derived measure for runs
/// without any numbers: its name, which locates it in the file, and what is wrong. A query that fails is left to its
/// run.
pub(crate) fn check(experiment: &Experiment, jobs: &[Job]) -> Result<(), (String, String)> {
    let broken = |error: SqlError| (String::new(), error.to_string());
    let empty = Database::of_run(&[], true, &Reads::all_tables()).map_err(broken)?;
    let mut asked = BTreeSet::new();
    for job in jobs {
        for (name, sql) in &job.measures {
            if asked.insert(sql)
                && let Ok(Some(number)) = empty.number(sql)
            {
                let place = match job.run.as_str() {
                    "" => format!("measure {name}"),
                    run => format!("run \"{run}\", measure {name}"),
                };
                let what = fault(number, IN_NOTHING);
                return Err((format!("\n{name} ="), format!("{place}: {what}")));
            }
        }
    }
    let rows = jobs.iter().flat_map(|job| {
        job.measures.keys().map(|name| Measured {
            run: &job.run,
            scheduler: &job.label,
            seed: 1,
            name,
            of: job.of.as_deref().unwrap_or_default(),
            value: None,
        })
    });
    let rows: Vec<Measured> = rows.collect();
    let nulls = Database::of_measures(&rows.iter().collect::<Vec<_>>(), &BTreeMap::new());
    let nulls = nulls.map_err(broken)?;
    for (name, sql) in &experiment.derived {
        if let Ok(Some(number)) = nulls.number(sql) {
            let what = fault(number, "when no run has given a number");
            return Err((
                format!("\"{name}\" ="),
                format!("derived measure {name}: {what}"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An experiment with this measure, and one derived from it.
    fn read(measure: &str, derived: &str) -> Result<Experiment, String> {
        let text = format!(
            "title = 't'\n[[run]]\nname = 'r'\nmachine = 'uni'\nworkload = 'w'\nschedulers = {{ a = 'a' }}\nvary = {{ n = [1, 2] }}\n\
             [run.measures]\nfirst = 'SELECT max(runtime_ns) FROM task'\nm = \"{measure}\"\n\n[derived]\n\"all.m\" = \"{derived}\"\n"
        );
        Experiment::read(&text, "e", "e.toml").map_err(|e| e.to_string())
    }

    const SUM: &str = "SELECT sum(value) FROM measure WHERE name = 'm'";

    #[test]
    fn a_measure_of_nothing_must_be_null() {
        for measure in [
            "SELECT 0",
            "SELECT count(*) FROM task",
            "SELECT total(value) FROM counter",
            "SELECT coalesce(sum(value), 0) FROM counter",
            "SELECT EXISTS (SELECT 1 FROM wakeup)",
            "SELECT NOT EXISTS (SELECT 1 FROM wakeup WHERE is_new)",
            "SELECT CASE WHEN count(*) = 0 THEN 1 ELSE 0 END FROM sched_slice",
            "SELECT ifnull(max(dur), -1) < 5 FROM sched_slice",
        ] {
            let error = read(measure, SUM).unwrap_err();
            assert!(
                error.starts_with("e.toml:10: run \"r\", measure m: gives "),
                "{measure}: {error}"
            );
            assert!(error.contains("CASE WHEN count(*) > 0"), "{error}");
        }
        for measure in [
            "SELECT sum(dur > 5) FROM sched_slice",
            "SELECT CASE WHEN count(*) > 0 THEN sum(is_new) END FROM wakeup",
            "SELECT nullif(count(*), 0) FROM task",
            // An error in the query itself breaks what needs it, during its run.
            "SELECT x FROM nowhere",
        ] {
            read(measure, SUM).unwrap();
        }
    }

    #[test]
    fn a_derived_measure_of_no_number_must_be_null() {
        let good = "SELECT max(dur) FROM sched_slice";
        for derived in [
            "SELECT count(DISTINCT of) FROM measure WHERE value > 0",
            "SELECT count(*) FROM measure WHERE name = 'm'",
            "SELECT coalesce(max(value), 0) FROM measure",
        ] {
            let error = read(good, derived).unwrap_err();
            assert!(
                error.starts_with("e.toml:13: derived measure all.m: gives "),
                "{derived}: {error}"
            );
        }
        read(good, SUM).unwrap();
    }

    #[test]
    fn tables_of_kinds_exist() {
        for table in KINDS.iter().flat_map(|kind| kind.tables) {
            assert!(tiltyard_tables::NAMES.contains(table), "{table}");
        }
    }
}
