// SPDX-License-Identifier: GPL-2.0-or-later
//! The "Why" paragraph: sentences made from measured facts and from nothing else.

use crate::figures::causes_are_known;
use crate::stats::median_interval;
use crate::summary::{AppSummary, ProbeSeries, ProbeSummary, Summary};
use crate::units;
use std::collections::BTreeSet;

/// Apps named in one sentence.
const MAX_NAMED: usize = 4;

/// Values of a probe below this are figures that a reader can take in.
const SMALL: i64 = 100_000;
/// From this part of all preemptions on, those by a higher class are mentioned.
const MENTIONED: f64 = 0.1;

/// A kind of fact about a scheduler's runs. Counts and times are medians over the runs, ranges of probes span them all.
type Kind = fn(&[Summary]) -> Option<String>;

/// Those that say most first.
const KINDS: [Kind; 7] = [
    starvation,
    never_ran,
    unserved,
    stopped,
    preemptions,
    probes,
    causes,
];

/// Facts about the runs of schedulers: all of a single one in one sentence; of several a sentence for each kind, so that
/// what is compared stands together.
pub fn why(runs: &[(String, Vec<Summary>)]) -> Vec<String> {
    match runs {
        [(scheduler, runs)] => {
            let facts: Vec<String> = KINDS.iter().filter_map(|kind| kind(runs)).collect();
            let sentence = format!("Under {scheduler}, {}.", facts.join("; "));
            (!facts.is_empty())
                .then_some(sentence)
                .into_iter()
                .collect()
        }
        _ => {
            let sentences = KINDS.iter().filter_map(|kind| side_by_side(*kind, runs));
            sentences.collect()
        }
    }
}

/// One kind of facts for all schedulers; those of which the same is true are named together.
fn side_by_side(kind: Kind, runs: &[(String, Vec<Summary>)]) -> Option<String> {
    let mut facts: Vec<(String, Vec<&str>)> = Vec::new();
    for (scheduler, runs) in runs {
        let Some(fact) = kind(runs) else { continue };
        match facts.iter_mut().find(|(known, _)| *known == fact) {
            Some((_, schedulers)) => schedulers.push(scheduler),
            None => facts.push((fact, vec![scheduler])),
        }
    }
    let of = facts
        .iter()
        .map(|(fact, schedulers)| match &schedulers[..] {
            [others @ .., last] if !others.is_empty() => {
                format!("{} and {last}, {fact}", others.join(", "))
            }
            _ => format!("{}, {fact}", schedulers.concat()),
        });
    let of: Vec<String> = of.collect();
    (!of.is_empty()).then(|| format!("Under {}.", of.join("; under ")))
}

fn median(values: impl Iterator<Item = u64>) -> f64 {
    let values: Vec<f64> = values.map(|v| v as f64).collect();
    median_interval(&values).map_or(0.0, |i| i.median)
}

fn app_names(runs: &[Summary]) -> Vec<&str> {
    let mut names = Vec::new();
    for app in runs.iter().flat_map(|run| &run.apps) {
        if !names.contains(&app.app.as_str()) {
            names.push(&app.app);
        }
    }
    names
}

/// Which apps waited beyond the bound in at least half of the runs.
fn starvation(runs: &[Summary]) -> Option<String> {
    let bound_ns = runs.first()?.starvation_ns;
    let mut starved: Vec<(f64, String)> = Vec::new();
    for name in app_names(runs) {
        let of_app = || {
            runs.iter()
                .flat_map(|r| r.apps.iter().filter(|a| a.app == name))
        };
        let longest_ns = median(of_app().map(|a| a.longest_wait_ns));
        if longest_ns > bound_ns as f64 {
            let total_ns = median(of_app().map(|a| a.starved_ns));
            let hit = median(of_app().map(|a| a.starved_tasks));
            let tasks = median(of_app().map(|a| a.tasks));
            let text = format!(
                "{name} was starved ({}): longest wait {}, total {}",
                hit_of(hit, tasks),
                units::time(longest_ns),
                units::time(total_ns)
            );
            starved.push((longest_ns, text));
        }
    }
    starved.sort_by(|a, b| b.0.total_cmp(&a.0));
    let texts: Vec<String> = starved
        .into_iter()
        .take(MAX_NAMED)
        .map(|(_, text)| text)
        .collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

fn hit_of(hit: f64, tasks: f64) -> String {
    match tasks {
        1.0 => "its only task".to_owned(),
        _ => format!("{} of its {} tasks", units::count(hit), units::count(tasks)),
    }
}

/// Of which apps tasks never ran, in at least half of the runs.
fn never_ran(runs: &[Summary]) -> Option<String> {
    let of_app = |name: &str, of: fn(&AppSummary) -> u64| {
        let apps = runs.iter().flat_map(|run| run.apps.iter());
        median(apps.filter(|app| app.app == name).map(of))
    };
    let names = app_names(runs).into_iter();
    let mut apps: Vec<(f64, &str)> = names
        .map(|name| (of_app(name, |a| a.never_ran), name))
        .collect();
    apps.retain(|(count, _)| *count > 0.0);
    apps.sort_by(|a, b| b.0.total_cmp(&a.0));
    let told = apps.iter().take(MAX_NAMED).map(|(count, name)| {
        let who = hit_of(*count, of_app(name, |a| a.tasks));
        format!("{name}: {who} never ran")
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// Classes none of whose requests ended in any of the runs.
fn unserved(runs: &[Summary]) -> Option<String> {
    let (first, others) = runs.split_first()?;
    let in_all = first.unserved_requests().filter(|class| {
        let mut others = others.iter();
        others.all(|run| run.unserved_requests().any(|c| c == *class))
    });
    let named = in_all
        .take(MAX_NAMED)
        .map(|(app, class)| format!("no \"{class}\" of {app} ended"));
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| named.join("; "))
}

/// Requests that stopped early, in the first run that has such.
fn stopped(runs: &[Summary]) -> Option<String> {
    let run = runs
        .iter()
        .find(|run| run.stopped_requests().next().is_some())?;
    let told = run.stopped_requests().take(MAX_NAMED).map(|class| {
        let at = units::time(class.last_end_ns as f64);
        format!(
            "the last \"{}\" of {} ended at {at}; its throughput is that of the time before",
            class.class, class.app
        )
    });
    Some(told.collect::<Vec<_>>().join("; "))
}

/// The pair of apps with the most preemptions.
fn preemptions(runs: &[Summary]) -> Option<String> {
    if runs.is_empty() || !runs.iter().all(|run| causes_are_known(&run.switches)) {
        return None;
    }
    // A task that is moved while it runs may leave a CPU to nobody: such preemptions belong to no pair.
    let total = median(runs.iter().map(all_preemptions));
    if total == 0.0 {
        return Some("no task was preempted".to_owned());
    }
    let note = by_higher_class(runs);
    let listed = runs.iter().flat_map(|run| &run.preemptions);
    let pairs: BTreeSet<(&str, &str)> = listed.map(|p| (p.of.as_str(), p.by.as_str())).collect();
    if pairs.is_empty() {
        let what = times(total);
        return Some(format!(
            "tasks were preempted {what}, never by another{note}"
        ));
    }
    let count_in = |run: &Summary, (of, by): (&str, &str)| {
        let mut pairs = run.preemptions.iter();
        pairs
            .find(|p| p.of == of && p.by == by)
            .map_or(0, |p| p.count)
    };
    let counts = pairs.into_iter().map(|pair| {
        let count = median(runs.iter().map(|run| count_in(run, pair)));
        (count, pair)
    });
    let (count, pair) = counts.max_by(|a, b| a.0.total_cmp(&b.0))?;
    if count == 0.0 {
        let what = times(total);
        return Some(format!("tasks were preempted {what}{note}"));
    }
    let part = |run: &Summary| count_in(run, pair) as f64 / all_preemptions(run).max(1) as f64;
    let parts: Vec<f64> = runs.iter().map(part).collect();
    let (of, by) = pair;
    let whom = if of == by { "its own" } else { of };
    Some(format!(
        "{by} preempted {whom} tasks {}, {} of all preemptions{note}",
        times(count),
        units::share(median_interval(&parts)?.median)
    ))
}

/// Preemptions of a run, whoever decided them.
fn all_preemptions(run: &Summary) -> u64 {
    run.switches.preempt + run.switches.higher_class
}

/// How many of the preemptions were none of the scheduler's; empty if few.
fn by_higher_class(runs: &[Summary]) -> String {
    let part =
        |run: &Summary| run.switches.higher_class as f64 / all_preemptions(run).max(1) as f64;
    let parts: Vec<f64> = runs.iter().map(part).collect();
    match median_interval(&parts) {
        Some(part) if part.median >= MENTIONED => format!(
            " ({} of all were by a higher class: the scheduler did not decide them)",
            units::share(part.median)
        ),
        _ => String::new(),
    }
}

/// The first probe of tasks whose values are small enough to say something: a score or a priority rather
/// than a clock.
fn probes(runs: &[Summary]) -> Option<String> {
    let tells = |p: &&ProbeSummary| {
        !p.per_cpu && p.apps.iter().all(|a| a.min.abs().max(a.max.abs()) < SMALL)
    };
    let name = &runs.first()?.probes.iter().find(tells)?.probe;
    let all = runs.iter().flat_map(|run| &run.probes);
    let series: Vec<&ProbeSeries> = all
        .filter(|p| p.probe == *name)
        .flat_map(|p| &p.apps)
        .collect();
    let app = |app: &str| {
        let of_app = || series.iter().filter(|s| s.name == app);
        let means: Vec<f64> = of_app().map(|s| s.mean as f64).collect();
        let (min, max) = (
            of_app().map(|s| s.min).min()?,
            of_app().map(|s| s.max).max()?,
        );
        let mean = units::count(median_interval(&means)?.median);
        Some(format!("{app} {mean} ({min}..{max})"))
    };
    let apps: Vec<String> = app_names(runs)
        .into_iter()
        .filter_map(app)
        .take(MAX_NAMED)
        .collect();
    Some(format!(
        "reported {name}, mean (range): {}",
        apps.join(", ")
    ))
}

/// How the CPUs spent their time and why they changed hands.
fn causes(runs: &[Summary]) -> Option<String> {
    let first = runs.first()?;
    let capacity = |run: &Summary| run.duration_ns as f64 * run.cpus.len() as f64;
    if runs.iter().any(|run| capacity(run) == 0.0) {
        return None;
    }
    let busy: Vec<f64> = runs
        .iter()
        .map(|run| run.cpus.iter().map(|c| c.busy_ns).sum::<u64>() as f64 / capacity(run))
        .collect();
    if busy.iter().all(|share| *share == 0.0) {
        return Some("no task ran before the end".to_owned());
    }
    let busy = median_interval(&busy)?.median;
    let total = median(runs.iter().map(|run| run.switches.total()));
    let mut text = format!(
        "{} busy with tasks {} of the time",
        cpus(first.cpus.len()),
        units::share(busy)
    );
    let named = (0..first.switches.named().len()).map(|i| {
        let count = median(runs.iter().map(|run| run.switches.named()[i].1));
        (first.switches.named()[i].0, count)
    });
    let top = named.max_by(|a, b| a.1.total_cmp(&b.1))?;
    if top.1 > 0.0 {
        text += &format!(
            ", {} switches, {} of them {}",
            units::count(total),
            units::share(top.1 / total),
            because(top.0)
        );
    }
    Some(text)
}

/// The cause of a context switch in words, from its display name.
fn because(cause: &str) -> String {
    match cause {
        "block" => "because a task went to sleep".to_owned(),
        "slice end" => "because a slice ended".to_owned(),
        "preempt" => "by preemption".to_owned(),
        "from idle" => "from idle".to_owned(),
        "unknown" => "for an unknown reason".to_owned(),
        other => format!("by {other}"),
    }
}

fn times(count: f64) -> String {
    match count {
        1.0 => "once".to_owned(),
        _ => format!("{} times", units::count(count)),
    }
}

fn cpus(n: usize) -> String {
    match n {
        1 => "the CPU was".to_owned(),
        n => format!("the {n} CPUs were"),
    }
}
