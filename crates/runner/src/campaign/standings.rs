// SPDX-License-Identifier: GPL-2.0-or-later
//! Outcomes of cells -> contests, for `tiltyard_report`.

use tiltyard_measure::ranking::{Entrant, Rule, Tie, rank};
use tiltyard_measure::{Better, Figure, KERNEL, MACHINE, Row, Unit, median_interval, rows, units};
use tiltyard_report::standings::{
    self as report, Contest, Entry, LongestWait, Standings, Subject, Trouble,
};

use super::cells::{Outcome, Outcomes, stuck};
use super::plan::{self, Plan};
use super::{Discipline, Metric};
use crate::{Error, metric, schedulers, shell, workloads};

/// The standings, and the values that they were made of.
pub struct Summed {
    /// For tables and pages.
    pub standings: Standings,
    /// Of each contest, of each scheduler, by seed.
    pub values: Vec<Vec<Vec<Option<f64>>>>,
}

/// Groups whose tasks are nobody's workload.
const NOT_OURS: [&str; 2] = [KERNEL, MACHINE];

/// The commands that make standings again.
pub trait Repeat {
    /// All of them.
    fn whole(&self) -> String;
    /// Those of a workload and a machine, as they are selected; `None`: there is no such command.
    fn contest(&self, workload: &str, machine: &str) -> Option<String>;
}

/// Who wins what, from the outcomes of all cells. An error: a metric that does not fit.
pub fn standings(plan: &Plan, outcomes: &Outcomes, repeat: &dyn Repeat) -> Result<Summed, Error> {
    let campaign = plan.campaign;
    let (mut contests, mut values, mut disciplines) = (Vec::new(), Vec::new(), Vec::new());
    for (at, discipline) in campaign.disciplines.iter().enumerate() {
        let judge = Judge::of(plan, outcomes, at)?;
        for machine in 0..campaign.machines.len() {
            let own = plan.entries.iter().enumerate();
            let own = own.filter(|(_, e)| e.discipline == at && e.machine == machine);
            let entries: Vec<usize> = own.map(|(index, _)| index).collect();
            if entries.is_empty() {
                continue;
            }
            let (mut contest, given) = judge.contest(plan, outcomes, machine, &entries);
            let machine = campaign.machines[machine].selector();
            contest.repeat = repeat.contest(&discipline.name, machine);
            contests.push(contest);
            values.push(given);
        }
        disciplines.push(judge.described(discipline));
    }
    let describe = |named: &super::Named| Subject {
        name: named.name.clone(),
        about: named.about.clone(),
    };
    let machine = |(at, named): (usize, &super::Named)| {
        let entry = plan.entries.iter().find(|entry| entry.machine == at);
        let machine = entry.map(|entry| plan.arena.inputs_of(&entry.job).1);
        let own = machine.map_or("", |machine| machine.description.as_str());
        let about = match named.about.as_str() {
            "" => own.to_owned(),
            about => format!("{own}. {about}"),
        };
        Subject {
            about,
            ..describe(named)
        }
    };
    Ok(Summed {
        values,
        standings: Standings {
            title: campaign.title.clone(),
            about: campaign.about.clone(),
            command: repeat.whole(),
            seeds: campaign.seeds,
            schedulers: campaign
                .schedulers
                .iter()
                .map(|named| Subject {
                    name: named.name.clone(),
                    about: schedulers::about(&named.argument),
                })
                .collect(),
            machines: campaign.machines.iter().enumerate().map(machine).collect(),
            disciplines,
            contests,
            judged: match campaign.source.file.as_str() {
                "" => {
                    "Each workload is judged by the metric named in its file, or else by the default metric; differences up to 1 % are \
                     ties."
                }
                _ => "The campaign's file fixes metrics, directions and ties.",
            }
            .to_owned(),
            notes: stuck(plan, outcomes),
        },
    })
}

/// How the values of a discipline are found and ranked.
struct Judge<'a> {
    discipline: &'a Discipline,
    /// Which figure decides; `None`: a query's value does, or no run has the figure.
    row: Option<Row>,
    unit: Unit,
    scale: f64,
    better: Better,
    rule: Rule,
}

impl<'a> Judge<'a> {
    fn of(plan: &Plan<'a>, outcomes: &Outcomes, at: usize) -> Result<Judge<'a>, Error> {
        let discipline = &plan.campaign.disciplines[at];
        let decides = discipline.metric.as_ref();
        let sql = decides.and_then(|metric| metric.sql.as_ref());
        let row = match sql {
            Some(_) => None,
            None => figure(plan, outcomes, at)?,
        };
        let (unit, scale) = match (sql, &row) {
            (Some((_, own)), _) => (own.unit, own.scale),
            (None, Some(row)) => (row.unit, 1.0),
            // Nobody has a value that could be written.
            (None, None) => (Unit::Plain, 1.0),
        };
        let own = row.as_ref().map_or(Better::Neither, |row| row.better);
        let better = decides.map_or(own, |metric| metric.better);
        if let (Some(metric), Some(row)) = (decides, &row)
            && own != Better::Neither
            && own != metric.better
        {
            let what = format!(
                "better = \"{}\", but of {} {}",
                word(metric.better),
                row.name,
                report::direction(own)
            );
            let help = format!("write \"{}\", or name another metric", word(own));
            return Err(plan
                .campaign
                .source
                .fault(metric.better_span.clone(), &what, &help));
        }
        let mut rule = Rule::of(better);
        if let Some((metric, tie)) = decides.and_then(|m| Some((m, m.tie.as_ref()?))) {
            rule.tie = match tie.is_relative() {
                true => Tie::Part(tie.number / 100.0),
                // What nobody has, nobody ties in.
                false if sql.is_none() && row.is_none() => rule.tie,
                false => Tie::Amount(tie.of(unit).map_err(|what| {
                    let line = format!(
                        "tie of metric \"{}\" has a wrong or missing unit",
                        metric.name
                    );
                    let help = format!("write {what}; or a percentage: %");
                    let span = metric.tie_span.clone();
                    plan.campaign.source.fault(span, &line, &help)
                })?),
            };
        }
        Ok(Judge {
            discipline,
            row,
            unit,
            scale,
            better,
            rule,
        })
    }

    fn described(&self, discipline: &Discipline) -> report::Discipline {
        let metric = discipline.metric.as_ref();
        let name = match (&self.row, metric) {
            (Some(row), _) => Some(label(row)),
            (None, Some(metric)) => Some(metric.name.clone()),
            (None, None) => discipline.own_metric.clone(),
        };
        let default = match discipline.own_metric {
            Some(_) => "The metric that the workload's file names.",
            None => "The default metric: throughput, else completion, else the first headline.",
        };
        let starved = discipline.starved_after_ns;
        report::Discipline {
            name: discipline.name.clone(),
            about: discipline.about.clone(),
            metric: name,
            unit: self.unit,
            better: self.better,
            tie: self.rule.tie,
            reason: metric.map_or(default, |metric| &metric.reason).to_owned(),
            starvation: starved.map_or(String::new(), |ns| {
                format!("a task waits longer than {}", units::time(ns as f64))
            }),
        }
    }

    /// The contest on one machine; `entries`: those of the plan, by scheduler.
    fn contest(
        &self,
        plan: &Plan,
        outcomes: &Outcomes,
        machine: usize,
        entries: &[usize],
    ) -> (Contest, Vec<Vec<Option<f64>>>) {
        let (mut entrants, mut described) = (Vec::new(), Vec::new());
        for entry in entries {
            let seeds = 1..=plan.campaign.seeds;
            let runs: Vec<Option<&Outcome>> =
                seeds.map(|seed| outcomes.get(&(*entry, seed))).collect();
            let values: Vec<Option<f64>> = runs.iter().map(|run| self.value((*run)?)).collect();
            let own = self.entry(&runs, &values);
            entrants.push(Entrant {
                values,
                disqualified: own.trouble.is_some(),
                exact: is_exact(&runs),
            });
            described.push(own);
        }
        let contest = Contest {
            discipline: plan.entries[entries[0]].discipline,
            machine,
            ranking: rank(&entrants, self.rule),
            entries: described,
            repeat: None,
            command: command(plan, &plan.entries[entries[0]]),
        };
        (contest, entrants.into_iter().map(|e| e.values).collect())
    }

    fn value(&self, run: &Outcome) -> Option<f64> {
        let Outcome::Ran {
            figures, measured, ..
        } = run
        else {
            return None;
        };
        match &self.row {
            Some(row) => of_row(figures, row),
            None => measured.map(|value| value * self.scale),
        }
    }

    fn entry(&self, runs: &[Option<&Outcome>], values: &[Option<f64>]) -> Entry {
        let ran = || {
            runs.iter().filter_map(|run| match run {
                Some(Outcome::Ran {
                    figures, cut_waits, ..
                }) => Some((figures.as_slice(), cut_waits.as_slice())),
                _ => None,
            })
        };
        let waits = ran().filter_map(|(figures, cut)| longest_wait(figures, cut));
        let overheads: Vec<f64> = ran().filter_map(|(figures, _)| overhead(figures)).collect();
        Entry {
            trouble: self.trouble(runs, values),
            longest_wait: waits.max_by(|a, b| a.ns.total_cmp(&b.ns)),
            overhead: median_interval(&overheads),
        }
    }

    /// What its runs must not do, with how many seeds any of it happened; the worst is described.
    fn trouble(&self, runs: &[Option<&Outcome>], values: &[Option<f64>]) -> Option<Trouble> {
        let of_seeds = (1..).zip(runs.iter().zip(values));
        let faults: Vec<(u64, Fault)> = of_seeds
            .filter_map(|(seed, (run, value))| Some((seed, self.fault(*run, *value)?)))
            .collect();
        let rank = |fault: &Fault| (fault.kind, fault.waited_ns);
        let (seed, worst) = faults.iter().reduce(|a, b| match rank(&b.1) > rank(&a.1) {
            true => b,
            false => a,
        })?;
        let other = faults.iter().find(|(_, fault)| fault.kind != worst.kind);
        let other = other.map_or(String::new(), |(seed, fault)| {
            format!("; with seed {seed}: {}", fault.short)
        });
        Some(Trouble {
            short: worst.short.clone(),
            is_schedulers: worst.kind > Kind::Workload,
            seeds: faults.iter().map(|(seed, _)| *seed).collect(),
            seed: *seed,
            what: worst.what.clone() + &other,
        })
    }

    fn fault(&self, run: Option<&Outcome>, value: Option<f64>) -> Option<Fault> {
        let fault = |kind, short: &str, what: &str| Fault {
            kind,
            waited_ns: 0,
            short: short.to_owned(),
            what: what.to_owned(),
        };
        let (figures, cut) = match run {
            None => return Some(fault(Kind::Workload, "no run", "the run was not done")),
            Some(Outcome::Failed { how, what }) => {
                let kind = match how.is_schedulers() {
                    true => Kind::Failed,
                    false => Kind::Workload,
                };
                return Some(fault(kind, how.words(), what));
            }
            Some(Outcome::Ran {
                figures, cut_waits, ..
            }) => (figures, cut_waits),
        };
        let limit_ns = self.discipline.starved_after_ns.map(|ns| ns as f64);
        if let (Some(limit_ns), Some(wait)) = (limit_ns, longest_wait(figures, cut))
            && wait.ns > limit_ns
        {
            let (waited, app, limit) = (wait.text(), &wait.app, units::time(limit_ns));
            return Some(Fault {
                kind: Kind::Starved,
                waited_ns: wait.ns as u64,
                short: format!("starved {}", units::time(wait.ns)),
                what: format!("a task of {app} waited {waited} for a CPU; the limit is {limit}"),
            });
        }
        value.is_none().then(|| {
            let (short, what) = self.lack();
            fault(Kind::Lacks, short, &what)
        })
    }

    /// Why a run that ended has no value, in a word or two and in a sentence.
    fn lack(&self) -> (&'static str, String) {
        let metric = self.discipline.metric.as_ref();
        let own = self.discipline.own_metric.as_ref();
        let (name, label) = match (&self.row, metric.map(|metric| &metric.name).or(own)) {
            (Some(row), _) => (&row.name, label(row)),
            (None, Some(name)) => (name, name.clone()),
            (None, None) => return ("no value", "no metric could be compared".to_owned()),
        };
        if metric.is_some_and(|metric| metric.sql.is_some()) {
            return ("no value", format!("the query for {name} gave no value"));
        }
        let last = name.rsplit('.').next().unwrap_or(name);
        let of_requests = last.starts_with("latency") || last.starts_with("throughput");
        match last {
            "completion_us" => (
                "not done",
                format!("{label}: the work was not done when the run ended"),
            ),
            _ if of_requests => ("no value", format!("{label}: no request could be measured")),
            _ => ("no value", format!("the run has no value for {label}")),
        }
    }
}

/// The `tiltyard run` command for a contest's runs. `--no-probes`: contests do not charge for probes.
fn command(plan: &Plan, of: &plan::Entry) -> String {
    let schedulers = plan.campaign.schedulers.iter().map(|s| s.argument.as_str());
    let schedulers = schedulers.collect::<Vec<_>>().join(",");
    let (job, seeds) = (&of.job, plan.campaign.seeds.to_string());
    let mut words = vec![
        "tiltyard",
        "run",
        "-w",
        &job.workload,
        "-m",
        &job.machine,
        "-s",
        &schedulers,
    ];
    if job.patch != workloads::UNCHANGED {
        words.extend(["--patch", &job.patch]);
    }
    if let Some(duration) = &job.duration {
        words.extend(["--duration", duration]);
    }
    words.extend(["--seeds", &seeds, "--no-probes"]);
    shell::line(&words)
}

/// What one run must not do.
struct Fault {
    kind: Kind,
    waited_ns: u64,
    short: String,
    what: String,
}

/// From the least to the worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// It is not the scheduler's doing.
    Workload,
    /// It lacks the metric.
    Lacks,
    Starved,
    Failed,
}

/// "web latency p99".
fn label(row: &Row) -> String {
    format!("{} {}", row.group, row.metric)
}

fn word(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher",
        _ => "lower",
    }
}

fn of_row(figures: &[Figure], row: &Row) -> Option<f64> {
    let same = |f: &&Figure| f.group == row.group && f.metric == row.metric;
    figures.iter().find(same).map(|figure| figure.value)
}

/// Of tasks of the workload; `cut`: apps whose longest wait was not over at the end.
fn longest_wait(figures: &[Figure], cut: &[String]) -> Option<LongestWait> {
    let own = figures.iter().filter(|figure| {
        figure.name == "longest_wait_us" && !NOT_OURS.contains(&figure.group.as_str())
    });
    let longest = own.max_by(|a, b| a.value.total_cmp(&b.value))?;
    Some(LongestWait {
        ns: longest.value,
        cut: cut.contains(&longest.group),
        app: longest.group.clone(),
    })
}

fn overhead(figures: &[Figure]) -> Option<f64> {
    let is = |f: &&Figure| f.group == "machine" && f.name == "overhead_percent";
    figures.iter().find(is).map(|figure| figure.value)
}

/// The figure that a discipline's metric names, from all runs that came to their end.
fn figure(plan: &Plan, outcomes: &Outcomes, discipline: usize) -> Result<Option<Row>, Error> {
    let campaign = plan.campaign;
    let of_scheduler = |scheduler: usize| -> Vec<Vec<Figure>> {
        let own = plan.entries.iter().enumerate();
        let own = own.filter(|(_, e)| e.discipline == discipline && e.scheduler == scheduler);
        let runs = own.flat_map(|(entry, _)| {
            (1..=campaign.seeds).filter_map(move |seed| outcomes.get(&(entry, seed)))
        });
        runs.filter_map(|run| match run {
            Outcome::Ran { figures, .. } => Some(figures.clone()),
            Outcome::Failed { .. } => None,
        })
        .collect()
    };
    let figures: Vec<_> = (0..campaign.schedulers.len()).map(of_scheduler).collect();
    let rows = rows(&figures);
    let discipline = &campaign.disciplines[discipline];
    let Some(Metric { name, span, .. }) = &discipline.metric else {
        return match &discipline.own_metric {
            Some(own) => {
                metric::own_row(own, &rows).map_err(|error| error.within(&discipline.workload))
            }
            None => Ok(metric::leading(&rows, |_| true).cloned()),
        };
    };
    match metric::named(name, &rows).as_slice() {
        [] => Ok(None),
        [row] => Ok(Some((*row).clone())),
        several => {
            let what = format!("metric = \"{name}\": {}", metric::ambiguous(several));
            Err(campaign.source.fault(span.clone(), &what, ""))
        }
    }
}

/// Whether other seeds would give the same, so that one is enough.
fn is_exact(runs: &[Option<&Outcome>]) -> bool {
    runs.iter().all(|run| {
        matches!(
            run,
            Some(Outcome::Ran {
                left_to_chance: false,
                ..
            })
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(ns: f64) -> Outcome {
        let figure = Figure {
            group: "ui".to_owned(),
            name: "longest_wait_us".to_owned(),
            metric: "longest_wait_us".to_owned(),
            unit: Unit::TimeNs,
            better: Better::Lower,
            headline: false,
            value: ns,
        };
        Outcome::Ran {
            figures: vec![figure],
            measured: Some(1.0),
            left_to_chance: true,
            stuck: None,
            cut_waits: Vec::new(),
        }
    }

    fn discipline() -> Discipline {
        Discipline {
            name: "d".to_owned(),
            workload: "w".to_owned(),
            workload_span: None,
            about: String::new(),
            metric: None,
            own_metric: None,
            duration: None,
            patch: Default::default(),
            starved_after_ns: Some(1_000_000_000),
            machines: Vec::new(),
        }
    }

    fn judge(discipline: &Discipline, scale: f64) -> Judge<'_> {
        Judge {
            discipline,
            row: None,
            unit: Unit::Plain,
            scale,
            better: Better::Lower,
            rule: Rule::of(Better::Lower),
        }
    }

    /// The longest of the workload's own tasks in any run, and whether the end cut that one.
    #[test]
    fn waits_are_the_workloads_and_the_longest_counts() {
        let run = |of: &[(&str, f64)], cut: &[&str]| {
            let Outcome::Ran { figures, .. } = waits(0.0) else {
                unreachable!()
            };
            let figure = |(group, ns): &(&str, f64)| Figure {
                group: (*group).to_owned(),
                value: *ns,
                ..figures[0].clone()
            };
            Outcome::Ran {
                figures: of.iter().map(figure).collect(),
                measured: Some(50.0),
                left_to_chance: true,
                stuck: None,
                cut_waits: cut.iter().map(|app| (*app).to_owned()).collect(),
            }
        };
        let first = run(
            &[("kernel", 9e9), ("ui", 1e6), ("db", 3e6), ("machine", 8e9)],
            &["ui"],
        );
        let second = run(&[("ui", 2e6), ("db", 1e6)], &["db"]);
        let discipline = discipline();
        let judge = judge(&discipline, 0.01);
        let entry = judge.entry(&[Some(&second), Some(&first)], &[Some(1.0); 2]);
        let longest = |ns, app: &str, cut| LongestWait {
            ns,
            app: app.to_owned(),
            cut,
        };
        assert_eq!(entry.longest_wait, Some(longest(3e6, "db", false)));
        let entry = judge.entry(&[Some(&second)], &[Some(1.0)]);
        assert_eq!(entry.longest_wait, Some(longest(2e6, "ui", false)));
        let cut = run(&[("ui", 2e6), ("db", 1e6)], &["ui"]);
        let entry = judge.entry(&[Some(&cut)], &[Some(1.0)]);
        assert_eq!(entry.longest_wait, Some(longest(2e6, "ui", true)));
        // Of a query, in the unit that it names.
        assert_eq!(judge.value(&cut), Some(0.5));
    }

    #[test]
    fn one_seed_decides_if_nothing_is_left_to_chance() {
        let by_chance = waits(0.0);
        let mut fixed = waits(0.0);
        if let Outcome::Ran { left_to_chance, .. } = &mut fixed {
            *left_to_chance = false;
        }
        assert!(is_exact(&[Some(&fixed)]));
        assert!(!is_exact(&[Some(&by_chance)]));
        assert!(!is_exact(&[Some(&fixed), Some(&by_chance)]));
        assert!(!is_exact(&[Some(&fixed), None]));
    }

    /// Seeds count however they failed; the worst of them is described.
    #[test]
    fn failures_of_all_kinds_count() {
        let discipline = discipline();
        let judge = judge(&discipline, 1.0);
        let ejected = Outcome::Failed {
            how: crate::campaign::How::Ejected,
            what: "at once".to_owned(),
        };
        let (good, long, longer) = (waits(1e9), waits(2e9), waits(3e9));
        let trouble_of = |runs: &[&Outcome], values: &[Option<f64>]| {
            let runs: Vec<Option<&Outcome>> = runs.iter().map(|run| Some(*run)).collect();
            let trouble = judge.trouble(&runs, values)?;
            Some((trouble.short, trouble.seeds.len(), trouble.what))
        };
        assert_eq!(trouble_of(&[&good, &good], &[Some(1.0); 2]), None);
        let (short, seeds, what) = trouble_of(&[&long, &good, &longer], &[Some(1.0); 3]).unwrap();
        assert_eq!((short.as_str(), seeds), ("starved 3.00 s", 2));
        assert!(what.ends_with("the limit is 1.00 s"), "{what}");
        let values = [Some(1.0), None, None, None];
        let (short, seeds, what) = trouble_of(&[&long, &good, &ejected, &good], &values).unwrap();
        assert_eq!((short.as_str(), seeds), ("ejected", 4));
        assert_eq!(what, "at once; with seed 1: starved 2.00 s");
        let broken = Outcome::Failed {
            how: crate::campaign::How::Workload,
            what: "a deadlock".to_owned(),
        };
        let runs = [Some(&broken), Some(&long)];
        let trouble = judge.trouble(&runs, &[None, Some(1.0)]).unwrap();
        assert!(trouble.is_schedulers && trouble.seed == 2 && trouble.seeds == [1, 2]);
        let trouble = judge.trouble(&runs[..1], &[None]).unwrap();
        assert!(!trouble.is_schedulers, "{}", trouble.what);
    }
}
