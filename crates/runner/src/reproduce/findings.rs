// SPDX-License-Identifier: GPL-2.0-or-later
//! The report of verdicts, for `tiltyard_report`.

use std::collections::BTreeMap;

use tiltyard_claims::{Claim, ClaimOutcome, FigureKind, FigureSpec, Point, Verdict, scoreboard};
use tiltyard_report::findings::{
    self, Chapter, Findings, Plot, PlotKind, PlotPoint, Section, Source, Statement,
};

use super::Judged;

/// Names of the shipped sources; others are named by their ids.
const SOURCES: [(&str, &str); 7] = [
    (
        "atc18",
        "The Battle of the Schedulers: FreeBSD ULE vs. Linux CFS (USENIX ATC'18)",
    ),
    (
        "eurosys16",
        "The Linux Scheduler: a Decade of Wasted Cores (EuroSys'16)",
    ),
    ("bfs09", "University of New Mexico: BFS and CFS (2009)"),
    (
        "freebsd11",
        "FreeBSD 11.1 and the port of the paper: ULE (kern/sched_ule.c)",
    ),
    ("linux49", "Linux 4.9: CFS (kernel/sched/fair.c)"),
    ("wiki", "FreeBSD wiki: 4BSD and ULE"),
    ("zh", "The Battle of the Schedulers, Chinese translation"),
];

/// Everything the report shows; `command` reproduces it. `inputs`: the options, each after a blank, that a part needs.
pub fn findings(judged: &[Judged], seeds: u64, command: String, inputs: &str) -> Findings {
    let runs = match seeds {
        1 => "one seed".to_owned(),
        n => format!("{n} seeds; values are medians over them, brackets their intervals"),
    };
    Findings {
        title: "Published claims about schedulers, re-tested".to_owned(),
        about: format!("Each claim checked in the simulated machine, with {runs}."),
        command,
        sources: sources(judged),
        chapters: judged.iter().filter_map(|j| chapter(j, inputs)).collect(),
    }
}

/// A claim where it was found, with its verdict.
type Found<'a> = (&'a Judged<'a>, &'a Claim, &'a Verdict);

/// Claims by source and section; those that are their own section are grouped.
fn sources(judged: &[Judged]) -> Vec<Source> {
    let mut sections: BTreeMap<(&str, &str), Vec<Found>> = BTreeMap::new();
    for experiment in judged {
        for verdict in &experiment.verdicts {
            let claims = &experiment.experiment.claims;
            if let Some(claim) = claims.iter().find(|c| c.id == verdict.id) {
                let id = match claim.section() {
                    own if own == claim.id => claim.source(),
                    section => section,
                };
                let section = sections.entry((claim.source(), id)).or_default();
                section.push((experiment, claim, verdict));
            }
        }
    }
    let mut sources: Vec<(&str, Source)> = Vec::new();
    for ((source, id), claims) in sections {
        let section = Section {
            id: id.to_owned(),
            place: match id == source {
                true => "various places".to_owned(),
                false => place(claims.iter().map(|(_, claim, _)| claim.place.as_str())),
            },
            statements: claims.iter().map(|(j, c, v)| statement(j, c, v)).collect(),
        };
        if sources.last().is_none_or(|(last, _)| *last != source) {
            let name = SOURCES.iter().find(|(known, _)| *known == source);
            let name = name.map_or(source.to_owned(), |(id, name)| format!("{id}: {name}"));
            let sections = Vec::new();
            sources.push((source, Source { name, sections }));
        }
        if let Some((_, source)) = sources.last_mut() {
            source.sections.push(section);
        }
    }
    sources.into_iter().map(|(_, source)| source).collect()
}

/// The most common place of some claims.
fn place<'a>(places: impl Iterator<Item = &'a str>) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for place in places {
        let place = place.split([',', ';']).next().unwrap_or_default().trim();
        match counts.iter_mut().find(|(known, _)| *known == place) {
            Some((_, count)) => *count += 1,
            None => counts.push((place, 1)),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max();
    let first = counts.iter().find(|(_, count)| Some(*count) == most);
    first.map_or(String::new(), |(place, _)| (*place).to_owned())
}

fn statement(judged: &Judged, claim: &Claim, verdict: &Verdict) -> Statement {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Statement {
        id: claim.id.clone(),
        text: claim.statement.clone(),
        place: claim.place.clone(),
        weight: claim.tier.name().to_owned(),
        outcome: match verdict.verdict {
            ClaimOutcome::Reproduced => findings::StatementOutcome::Reproduced,
            ClaimOutcome::NotReproduced => findings::StatementOutcome::NotReproduced,
            ClaimOutcome::NotRun => findings::StatementOutcome::NotRun,
        },
        expected: claim.expected.clone(),
        tolerance: claim.tolerance.clone(),
        check: verdict.check.clone(),
        measured: scoreboard::measured_and_unmet(verdict),
        agreement: verdict.agreement(),
        reason: text(&verdict.reason),
        explanation: text(&claim.explanation),
        shown_by: text(&claim.shown_by),
        note: text(&claim.inconsistency),
        command: verdict.command.clone(),
        chapter: (!judged.experiment.figures.is_empty()).then(|| judged.experiment.id.clone()),
    }
}

/// The figures of an experiment, if it has any.
fn chapter(judged: &Judged, inputs: &str) -> Option<Chapter> {
    let experiment = judged.experiment;
    let plots = experiment
        .figures
        .iter()
        .enumerate()
        .map(|(index, figure)| {
            let points = judged.figures.get(&index).map_or(&[][..], Vec::as_slice);
            plot(figure, points)
        });
    (!experiment.figures.is_empty()).then(|| Chapter {
        id: experiment.id.clone(),
        title: experiment.title.clone(),
        command: format!(
            "tiltyard reproduce {} --report FILE.html{inputs}",
            experiment.id
        ),
        plots: plots.collect(),
        timelines: judged.timelines.clone(),
    })
}

fn plot(figure: &FigureSpec, points: &[Point]) -> Plot {
    Plot {
        name: figure.figure.clone(),
        title: figure.title.clone(),
        says: figure.says.clone(),
        kind: match figure.kind {
            FigureKind::Line => PlotKind::Line,
            FigureKind::Steps => PlotKind::Steps,
            FigureKind::Points => PlotKind::Points,
            FigureKind::Bars => PlotKind::Bars,
        },
        x: figure.x.clone(),
        y: figure.y.clone(),
        shows: match (&figure.run, &figure.scheduler) {
            (Some(run), Some(scheduler)) => format!("run \"{run}\" under {scheduler}, seed 1."),
            _ => "measures of all runs and seeds.".to_owned(),
        },
        points: points
            .iter()
            .map(|p| PlotPoint {
                series: p.series.clone(),
                label: p.label.clone(),
                x: p.x,
                y: p.y,
                span: p.span,
            })
            .collect(),
    }
}
