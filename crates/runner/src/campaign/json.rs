// SPDX-License-Identifier: GPL-2.0-or-later
//! Standings for programs: JSON and CSV. Values are in the unit beside them; nothing depends on when, where or in how many
//! parts the runs were done.

use serde_json::{Value, json};
use tiltyard_measure::ranking::{Behind, Decision};
use tiltyard_measure::{Interval, Unit};
use tiltyard_report::csv::{Csv, better, interval};
use tiltyard_report::standings::{Contest, Place};

use super::Summed;

/// Raised when the meaning of a member changes.
const FORMAT: u32 = 1;

/// The unit's name, and how much of it one of ours is.
fn named_unit(unit: Unit) -> (&'static str, f64) {
    match unit {
        Unit::TimeNs => ("us", 1e-3),
        Unit::PerSecond => ("per_s", 1.0),
        Unit::Share => ("percent", 100.0),
        Unit::Count => ("count", 1.0),
        Unit::Plain => ("", 1.0),
    }
}

fn place(contest: &Contest, scheduler: usize) -> &'static str {
    match contest.place(scheduler) {
        Place::Won => "won",
        Place::Shared => "shared",
        Place::Beaten => "beaten",
        Place::Failed => "failed",
        Place::Undecided => "undecided",
    }
}

/// The whole document.
pub fn json(summed: &Summed) -> String {
    let of = &summed.standings;
    let disciplines = of.disciplines.iter().map(|d| {
        json!({
            "name": d.name,
            "about": d.about,
            "metric": d.metric,
            "unit": named_unit(d.unit).0,
            "better": d.better,
            "tie": d.tie_text(),
            "reason": d.reason,
            "starvation": d.starvation,
        })
    });
    let contests = of.contests.iter().enumerate();
    let contests = contests.map(|(at, contest)| contest_json(summed, at, contest));
    let tallies = of.tallies();
    let tallies = tallies.iter().enumerate().map(|(at, tally)| {
        let place = |contest: Option<usize>| contest.map(|contest| of.place(contest));
        json!({
            "scheduler": of.schedulers[at].name,
            "won": tally.won,
            "shared": tally.shared,
            "beaten": tally.beaten,
            "failed": tally.failed,
            "undecided": tally.undecided,
            "worst": place(tally.worst),
            "worst_by_difference": place(tally.worst_by_difference),
            "longest_wait": place(tally.longest_wait),
            "overhead": place(tally.overhead),
        })
    });
    let names = |subjects: &[tiltyard_report::standings::Subject]| -> Vec<Value> {
        let subjects = subjects.iter();
        subjects
            .map(|s| json!({ "name": s.name, "about": s.about }))
            .collect()
    };
    let all = json!({
        "format": FORMAT,
        "tiltyard": crate::VERSION,
        "title": of.title,
        "command": of.command,
        "seeds": of.seeds,
        "schedulers": names(&of.schedulers),
        "machines": names(&of.machines),
        "workloads": disciplines.collect::<Vec<_>>(),
        "contests": contests.collect::<Vec<_>>(),
        "warnings": of.notes,
        "tallies": tallies.collect::<Vec<_>>(),
    });
    format!("{all:#}\n")
}

fn contest_json(summed: &Summed, at: usize, contest: &Contest) -> Value {
    let of = &summed.standings;
    let (unit, scale) = named_unit(of.disciplines[contest.discipline].unit);
    let name = |who: usize| of.schedulers[who].name.as_str();
    let decision = match &contest.ranking.decision {
        Decision::Winner { who, next, margin } => json!({
            "kind": "winner",
            "who": [name(*who)],
            "next": name(*next),
            "margin": behind(margin, scale),
        }),
        Decision::Shared { who, tie, clear } => json!({
            "kind": if *tie { "tie" } else { "no_winner" },
            "beat_all_others": clear,
            "who": who.iter().map(|who| name(*who)).collect::<Vec<_>>(),
        }),
        Decision::Alone { who } => json!({ "kind": "no_contest", "who": [name(*who)] }),
        Decision::TooFewRuns => json!({ "kind": "too_few_runs", "who": [] }),
        Decision::Nobody => json!({ "kind": "nobody", "who": [] }),
    };
    let entries = contest.entries.iter().enumerate().map(|(who, entry)| {
        let placed = &contest.ranking.placed[who];
        let values = summed.values[at][who].iter();
        let values: Vec<Option<f64>> = values.map(|v| v.map(|v| v * scale)).collect();
        json!({
            "scheduler": name(who),
            "place": place(contest, who),
            "value": placed.value.as_ref().map(|value| scaled(value, scale)),
            "values": values,
            "behind": placed.behind.as_ref().map(|b| behind(b, scale)),
            "against": placed.against,
            "failure": entry.trouble.as_ref().map(|t| json!({
                "how": t.short, "is_schedulers": t.is_schedulers, "seeds": t.seeds.len(), "seed": t.seed, "what": t.what,
            })),
            "longest_wait_us": entry.longest_wait.as_ref().map(|wait| wait.ns / 1e3),
            "longest_wait_cut": entry.longest_wait.as_ref().map(|wait| wait.cut),
            "overhead_percent": entry.overhead.as_ref().map(|o| scaled(o, 100.0)),
        })
    });
    json!({
        "workload": of.disciplines[contest.discipline].name,
        "machine": of.machines[contest.machine].name,
        "repeat": contest.repeat,
        "command": contest.command,
        "unit": unit,
        "decision": decision,
        "verdict": of.verdict(at),
        "entries": entries.collect::<Vec<_>>(),
    })
}

fn scaled(interval: &Interval, scale: f64) -> Interval {
    Interval {
        median: interval.median * scale,
        low: interval.low * scale,
        high: interval.high * scale,
        ..*interval
    }
}

fn behind(behind: &Behind, scale: f64) -> Value {
    json!({ "by": scaled(&behind.by, scale), "times": behind.times })
}

const COLUMNS: [&str; 21] = [
    "workload",
    "machine",
    "metric",
    "unit",
    "better",
    "scheduler",
    "place",
    "median",
    "low",
    "high",
    "runs",
    "times",
    "times_low",
    "times_high",
    "failure",
    "values",
    "behind",
    "behind_low",
    "behind_high",
    "failure_text",
    "verdict",
];

/// A line for each scheduler in each contest. `values`: by seed, with spaces between; `none` for a run without one.
pub fn csv(summed: &Summed) -> String {
    let of = &summed.standings;
    let mut csv = Csv::new(&COLUMNS);
    for (at, contest) in of.contests.iter().enumerate() {
        let verdict = of.verdict(at);
        for who in 0..contest.entries.len() {
            csv.line(&csv_line(summed, at, who, &verdict));
        }
    }
    csv.finish()
}

fn csv_line(summed: &Summed, at: usize, who: usize, verdict: &str) -> [String; COLUMNS.len()] {
    let of = &summed.standings;
    let contest = &of.contests[at];
    let discipline = &of.disciplines[contest.discipline];
    let (unit, scale) = named_unit(discipline.unit);
    let (placed, trouble) = (&contest.ranking.placed[who], &contest.entries[who].trouble);
    let behind = placed.behind.as_ref();
    let [median, low, high, runs] = interval(placed.value.as_ref(), scale);
    let [times, times_low, times_high, _] = interval(behind.and_then(|b| b.times.as_ref()), 1.0);
    let [by, by_low, by_high, _] = interval(behind.map(|b| &b.by), scale);
    let number = |value: &Option<f64>| value.map_or("none".to_owned(), |v| (v * scale).to_string());
    let values: Vec<String> = summed.values[at][who].iter().map(number).collect();
    [
        discipline.name.clone(),
        of.machines[contest.machine].name.clone(),
        discipline.metric.clone().unwrap_or_default(),
        unit.to_owned(),
        better(discipline.better).to_owned(),
        of.schedulers[who].name.clone(),
        place(contest, who).to_owned(),
        median,
        low,
        high,
        runs,
        times,
        times_low,
        times_high,
        trouble.as_ref().map_or(String::new(), |t| t.short.clone()),
        values.join(" "),
        by,
        by_low,
        by_high,
        trouble.as_ref().map_or(String::new(), |t| t.what.clone()),
        verdict.to_owned(),
    ]
}
