// SPDX-License-Identifier: GPL-2.0-or-later
//! Results of earlier runs: the JSON documents of `tiltyard run` and `tiltyard kernel`.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;
use tiltyard_kernel::{Accel, Report};
use tiltyard_measure::{Figure, SUMMARY_FORMAT, Summary, figures};

use crate::Error;
use crate::data;
use crate::event_files;
use crate::kernel_runs::{self, Recorded};
use crate::nearest;
use crate::stuck::StuckTasks;

/// A result file.
pub struct Results {
    path: PathBuf,
    /// Otherwise of a real kernel.
    pub is_simulated: bool,
    /// `None` in files of a real kernel without it.
    pub workload: Option<String>,
    /// Hash of its text; `None` of a command, and in files of earlier versions.
    pub workload_sha256: Option<String>,
    /// Its latest end; `None`: the workload's own end.
    pub duration_ns: Option<u64>,
    /// Its name, or a real machine in words.
    pub machine: String,
    /// Hash of a simulated one's text; `None` in files of earlier versions.
    pub machine_sha256: Option<String>,
    /// In the order of the file; at least one.
    pub schedulers: Vec<Runs>,
    /// Why the job ended before it was done.
    pub cut_short: Option<String>,
}

/// The runs of one scheduler.
pub struct Runs {
    /// Its name in the file.
    pub scheduler: String,
    /// The metrics of each.
    pub figures: Vec<Vec<Figure>>,
    /// What each depends on besides its inputs.
    pub draws: Vec<Draws>,
    /// Runs that failed, and do not count.
    pub failed: usize,
    /// Runs in which tasks wait forever.
    pub stuck: usize,
    /// Requests that stopped early, as in [`Summary::stopped_requests`], and when; of the first run that has such.
    pub stopped: Vec<(String, u64)>,
    /// Events that found no room, in all runs.
    pub lost_events: u64,
}

impl Runs {
    fn note_stopped(&mut self, run: &Summary) {
        if self.stopped.is_empty() {
            let stopped = run.stopped_requests();
            let named = stopped.map(|of| (format!("{}.{}", of.app, of.class), of.last_end_ns));
            self.stopped = named.collect();
        }
    }
}

/// What a run depends on besides its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draws {
    /// The seed of a simulated run.
    Seed(u64),
    /// Nothing: the machine counts its instructions.
    Counted,
    /// Everything: it is real.
    Chance,
}

/// `FILE` or `FILE#SCHEDULER`. Names of files may have a `#` too.
pub fn split(argument: &str) -> (&Path, Option<&str>) {
    if Path::new(argument).exists() {
        return (Path::new(argument), None);
    }
    let mut hashes = argument.match_indices('#').map(|(at, _)| at);
    let first = hashes.clone().next();
    match hashes
        .find(|at| Path::new(&argument[..*at]).exists())
        .or(first)
    {
        Some(at) => (Path::new(&argument[..at]), Some(&argument[at + 1..])),
        None => (Path::new(argument), None),
    }
}

impl Results {
    /// Reads a result file; event files are refused with a hint.
    pub fn read(path: &Path) -> Result<Results, Error> {
        if event_files::is_event_file(path) {
            let path = data::shown(path);
            let line = format!(
                "{path}: is an event file; tiltyard measure {path} --out FILE.json makes a result of it"
            );
            return Err(Error::input(line));
        }
        parse(&data::read(path)?, path)
            .map_err(|what| Error::input(format!("{}: {what}", data::shown(path))))
    }

    /// The file's name, for messages.
    pub fn shown(&self) -> String {
        data::shown(&self.path)
    }

    /// The runs of the named scheduler, or of the only one.
    pub fn runs(&self, scheduler: Option<&str>) -> Result<&Runs, Error> {
        let path = self.shown();
        let names: Vec<String> = self
            .schedulers
            .iter()
            .map(|s| s.scheduler.clone())
            .collect();
        let Some(typed) = scheduler else {
            return match self.schedulers.as_slice() {
                [only] => Ok(only),
                _ => Err(Error::Request(format!(
                    "{path}: has runs of {}: name one, as in '{path}#{}'",
                    names.join(", "),
                    names[0]
                ))),
            };
        };
        // The kernel's own scheduler is called "default" on the command line and "default (EEVDF)" in results.
        let longer = format!("{typed} (");
        let found = names.iter().position(|name| name == typed);
        let found = found.or_else(|| names.iter().position(|name| name.starts_with(&longer)));
        found.map(|at| &self.schedulers[at]).ok_or_else(|| {
            let hint = nearest::hint(typed, &names);
            Error::Request(format!("{path}#{typed}: has no runs of {typed}; {hint}"))
        })
    }
}

/// The part that determines whether the rest can be read.
#[derive(Deserialize)]
#[serde(expecting = "an object with runs")]
struct Outline {
    #[serde(default)]
    runs: Option<Vec<OutlineOfRun>>,
    #[serde(default)]
    recorded: Option<Vec<OutlineOfRun>>,
    #[serde(default)]
    report: Option<IgnoredAny>,
    #[serde(default)]
    cut_short: Option<String>,
    /// Of several workloads or machines.
    #[serde(default)]
    contests: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with a summary")]
struct OutlineOfRun {
    summary: OutlineOfSummary,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with a format")]
struct OutlineOfSummary {
    format: u32,
}

#[derive(Deserialize)]
struct Simulated {
    workload: String,
    #[serde(default)]
    workload_sha256: Option<String>,
    #[serde(default)]
    duration_ns: Option<u64>,
    machine: String,
    #[serde(default)]
    machine_sha256: Option<String>,
    runs: Vec<SimulatedRun>,
    #[serde(default)]
    failures: Vec<FailedRun>,
}

#[derive(Deserialize)]
struct FailedRun {
    scheduler: String,
}

#[derive(Deserialize)]
struct SimulatedRun {
    scheduler: String,
    seed: u64,
    summary: Summary,
    #[serde(default)]
    stuck: Option<StuckTasks>,
}

#[derive(Deserialize)]
struct Real {
    #[serde(default)]
    workload: Option<String>,
    #[serde(default)]
    workload_sha256: Option<String>,
    #[serde(default)]
    duration_ns: Option<u64>,
    report: Report,
    recorded: Vec<RecordedRun>,
}

#[derive(Deserialize)]
struct RecordedRun {
    scheduler: String,
    round: u32,
    lost_events: u64,
    summary: Summary,
}

/// The reader of a result, for errors.
const WAY_OUT: &str = "give a file of tiltyard run --format json, or of tiltyard kernel --out";

fn parse(text: &str, path: &Path) -> Result<Results, String> {
    if text.trim().is_empty() {
        return Err(format!("is empty; {WAY_OUT}"));
    }
    let unreadable = |e: serde_json::Error| match e.classify() {
        Category::Eof => format!(
            "is cut off at line {}: it was not written to its end; run again",
            e.line()
        ),
        Category::Data => format!("is no result: {e}; {WAY_OUT}"),
        Category::Syntax | Category::Io => format!("is not JSON: {e}; {WAY_OUT}"),
    };
    let outline: Outline = serde_json::from_str(text).map_err(unreadable)?;
    let is_simulated = outline.report.is_none();
    let summaries = if is_simulated {
        outline.runs
    } else {
        outline.recorded
    };
    let Some(summaries) = summaries else {
        return Err(match (outline.cut_short, outline.contests) {
            (Some(why), _) => format!("has no runs: {why}"),
            (None, Some(_)) => {
                "holds the standings of several contests, not their runs; to compare runs, run the `command` of one \
                 contest in this file with --format json"
                    .to_owned()
            }
            (None, None) => format!("is no result: it has no runs; {WAY_OUT}"),
        });
    };
    let other = summaries
        .iter()
        .map(|run| run.summary.format)
        .find(|f| *f != SUMMARY_FORMAT);
    if let Some(format) = other {
        return Err(format!(
            "its results have format {format}, and this tiltyard reads {SUMMARY_FORMAT}: run again, or compare with \
             the tiltyard that wrote it"
        ));
    }
    let results = match is_simulated {
        true => simulated(serde_json::from_str(text).map_err(unreadable)?, path)?,
        false => real(serde_json::from_str(text).map_err(unreadable)?, path),
    };
    match results.schedulers.is_empty() {
        true => Err(match &results.cut_short {
            Some(why) => format!("has no runs: {why}"),
            None => "has no runs".to_owned(),
        }),
        false => Ok(results),
    }
}

fn simulated(document: Simulated, path: &Path) -> Result<Results, String> {
    let mut schedulers: Vec<Runs> = Vec::new();
    for run in document.runs {
        let of = of_scheduler(&mut schedulers, &run.scheduler);
        if of.draws.contains(&Draws::Seed(run.seed)) {
            return Err(format!(
                "has two runs of {} with seed {}, which are the same run: remove one, or use another seed",
                run.scheduler, run.seed
            ));
        }
        of.figures.push(figures(&run.summary));
        of.note_stopped(&run.summary);
        of.draws.push(Draws::Seed(run.seed));
        of.stuck += usize::from(run.stuck.is_some());
    }
    for run in document.failures {
        of_scheduler(&mut schedulers, &run.scheduler).failed += 1;
    }
    Ok(Results {
        path: path.to_owned(),
        is_simulated: true,
        workload: Some(document.workload),
        workload_sha256: document.workload_sha256,
        duration_ns: document.duration_ns,
        machine: document.machine,
        machine_sha256: document.machine_sha256,
        schedulers,
        cut_short: None,
    })
}

fn real(document: Real, path: &Path) -> Results {
    let report = document.report;
    let index_of = |recorded: &RecordedRun| {
        let mut runs = report.runs.iter();
        runs.position(|run| run.scheduler == recorded.scheduler && run.round == recorded.round)
    };
    let recorded: Vec<Recorded> = document
        .recorded
        .into_iter()
        .filter_map(|recorded| {
            Some(Recorded {
                run: index_of(&recorded)?,
                // Times in a summary count from the origin.
                origin_ns: 0,
                end_ns: recorded.summary.duration_ns,
                lost: recorded.lost_events,
                summary: recorded.summary,
            })
        })
        .collect();
    let draws = match report.accel {
        Some(Accel::Counted) => Draws::Counted,
        _ => Draws::Chance,
    };
    let mut schedulers: Vec<Runs> = Vec::new();
    for (index, run) in report.runs.iter().enumerate() {
        let of = of_scheduler(&mut schedulers, &run.scheduler);
        of.failed += usize::from(!run.is_success());
        let own = recorded
            .iter()
            .filter(|recorded| recorded.run == index && run.round > 0);
        for recorded in own {
            of.lost_events += recorded.lost;
            of.note_stopped(&recorded.summary);
        }
    }
    for of in &mut schedulers {
        of.figures = kernel_runs::figures_of(&report, &recorded, &of.scheduler);
        of.draws = vec![draws; of.figures.len()];
    }
    Results {
        path: path.to_owned(),
        is_simulated: false,
        workload: document.workload,
        workload_sha256: document.workload_sha256,
        duration_ns: document.duration_ns,
        machine_sha256: None,
        machine: format!("{}, {}", kernel_runs::machine(&report), report.host_cpu),
        schedulers,
        cut_short: report.cut_short,
    }
}

fn of_scheduler<'a>(all: &'a mut Vec<Runs>, scheduler: &str) -> &'a mut Runs {
    let at = all.iter().position(|runs| runs.scheduler == scheduler);
    let at = at.unwrap_or_else(|| {
        all.push(Runs {
            scheduler: scheduler.to_owned(),
            figures: Vec::new(),
            draws: Vec::new(),
            failed: 0,
            stuck: 0,
            stopped: Vec::new(),
            lost_events: 0,
        });
        all.len() - 1
    });
    &mut all[at]
}
