// SPDX-License-Identifier: GPL-2.0-or-later
//! Experiment files: what is run, what is measured, what a source claims.
//!
//! `docs/reference/experiment-files.md` explains each key. A file is read into an [`Experiment`]; [`Experiment::jobs`]
//! expands its runs by `vary` and the schedulers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use tiltyard_misspelt::toml_line;

use crate::common::sharing;
use crate::history::Revision;
use crate::job::{Job, KernelRun};
use crate::parameter::{FITTED_FILE, Parameter};
use crate::picture::Picture;

/// One file of `experiments/`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The file's name without folder and suffix.
    #[serde(skip)]
    pub id: String,
    /// The file, for messages.
    #[serde(skip)]
    pub file: String,
    pub title: String,
    /// A scheduler -> its substitutes, to test whether a claim is specific to it.
    #[serde(default)]
    pub substitutes: BTreeMap<String, Vec<String>>,
    #[serde(default, rename = "run")]
    pub runs: Vec<RunSpec>,
    /// `namespace.measure` -> SQL over the measures of all runs with one seed.
    #[serde(default)]
    pub derived: BTreeMap<String, String>,
    #[serde(default, rename = "figure")]
    pub figures: Vec<FigureSpec>,
    #[serde(default, rename = "parameter")]
    pub parameters: Vec<Parameter>,
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
    #[serde(default)]
    pub history: Vec<Revision>,
    #[serde(skip)]
    jobs: Vec<Job>,
    #[serde(default, rename = "picture")]
    pub pictures: Vec<Picture>,
}

/// A workload on a machine under schedulers, and what is measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// Its name in figures; required if there are several.
    #[serde(default)]
    pub name: String,
    pub machine: String,
    pub workload: String,
    /// Name of a scheduler in claims -> the scheduler as for `-s`.
    pub schedulers: BTreeMap<String, String>,
    /// Latest end, as for `--duration`.
    pub duration: Option<String>,
    /// A JSON merge patch onto the workload.
    #[serde(default)]
    pub patch: toml::Table,
    /// One name and its values: a run for each, `$name` replaced in every string of this table.
    #[serde(default)]
    pub vary: BTreeMap<String, Vec<toml::Value>>,
    /// Whether the measures read tables of events, which only short runs can afford.
    #[serde(default)]
    pub events: bool,
    /// How many tasks of an app have their own series of probes.
    pub probe_keys: Option<u32>,
    /// Probes that are kept; default: all.
    pub probe_names: Option<Vec<String>>,
    /// Callbacks whose accesses are kept; default: all.
    pub access_callbacks: Option<Vec<String>>,
    /// Places whose accesses are kept; default: all.
    pub access_places: Option<Vec<String>>,
    /// Interval that a report shows slice by slice, as for `--timeline`; only for runs that figures show.
    pub timeline: Option<String>,
    /// Whether a scheduler that starves a task is ejected, as a kernel would; default: the scheduler's setting.
    pub watchdog: Option<bool>,
    /// Measures that are intentionally numbers without a kind of input (see [`crate::absent`]): name -> kinds.
    #[serde(default)]
    pub may_lack: BTreeMap<String, Vec<String>>,
    /// A shorter version of it for a real kernel.
    #[serde(default)]
    pub kernel: Vec<KernelRunSpec>,
    /// SQL that its measures share, as after WITH: `name AS (SELECT ...), ...`.
    pub with: Option<String>,
    /// Name -> SQL over the tables of the run; one row, one number.
    #[serde(default)]
    pub measures: BTreeMap<String, String>,
    /// The same for one of the schedulers: label -> name -> SQL.
    #[serde(default)]
    pub only: BTreeMap<String, BTreeMap<String, String>>,
}

/// A run made shorter for a real kernel, where a second takes several. The checks stay the same.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelRunSpec {
    /// The values of `vary` to which this applies; default: all without an earlier entry.
    pub of: Option<Vec<toml::Value>>,
    /// A JSON merge patch on top of the run's own.
    #[serde(default)]
    pub patch: toml::Table,
    /// Replaces the run's own. With neither this nor a patch the run is not done in a kernel.
    pub duration: Option<String>,
    /// On a machine with several CPUs, which take turns there: the claims with `real` among their layers that use this run
    /// rest on decisions and counts, not on times.
    #[serde(default)]
    pub several_cpus: bool,
    /// What is different, and why that is enough, or why it is not done.
    pub reason: String,
}

/// A figure of an experiment: SQL that returns its points.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureSpec {
    /// "Figure 1(a)".
    pub figure: String,
    pub title: String,
    /// What the source says about it.
    pub says: String,
    pub kind: FigureKind,
    pub x: String,
    pub y: String,
    /// The run and the scheduler that it shows, with the first seed; without them: the measures of all runs and
    /// seeds.
    pub run: Option<String>,
    pub scheduler: Option<String>,
    /// Rows `series, x, y` (bars: `series, label, y, low, high`).
    pub sql: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FigureKind {
    Line,
    /// A value holds until the next, as with probes.
    Steps,
    Points,
    Bars,
}

/// A statement of a source, and what makes it true.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Begins with the source.
    pub id: String,
    /// Where the source makes the claim.
    #[serde(rename = "where")]
    pub place: String,
    /// Other sources that make the same claim.
    #[serde(default)]
    pub also: Vec<String>,
    pub statement: String,
    pub kind: Kind,
    pub tier: Tier,
    pub layer: Vec<Layer>,
    pub expected: String,
    pub tolerance: String,
    /// Its metric if it is not run; for readers.
    pub measure: Option<String>,
    pub check: Option<String>,
    /// Why there is no check yet.
    pub not_run: Option<String>,
    /// Where the source contradicts itself, or others.
    pub inconsistency: Option<String>,
    /// Why it is not reproduced, as far as is known.
    pub explanation: Option<String>,
    /// Why a real kernel's verdict differs, as far as is known.
    pub in_kernel: Option<String>,
    /// A command that shows the explanation.
    pub shown_by: Option<String>,
    /// Why it also holds with substitutes of its scheduler.
    pub shared: Option<String>,
    /// A change of the experiment with which its check must fail, for a statement that holds under any scheduler.
    pub control: Option<Parameter>,
    /// Variants of its scheduler in which it may hold, besides all presets, as for `-s`.
    #[serde(default)]
    pub variants: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    Headline,
    Core,
    Detail,
}

impl Tier {
    pub const ALL: [(&'static str, Tier); 3] = [
        ("headline", Tier::Headline),
        ("core", Tier::Core),
        ("detail", Tier::Detail),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// What a claim is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Number,
    Ordering,
    Shape,
    Mechanism,
    /// A number of the setup: it belongs to no scheduler.
    Constant,
}

/// Where a claim can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    Sim,
    Real,
}

impl Claim {
    pub fn source(&self) -> &str {
        self.id.split('.').next().unwrap_or_default()
    }

    /// `SOURCE.PART`: scoreboards count by it.
    pub fn section(&self) -> &str {
        section_of(&self.id)
    }
}

/// The first two parts of a claim's id.
pub(crate) fn section_of(id: &str) -> &str {
    let end = id.match_indices('.').nth(1).map(|(at, _)| at);
    &id[..end.unwrap_or(id.len())]
}

/// An error in an experiment file, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct FileError {
    pub file: String,
    /// From 1; 0: the file as a whole.
    pub line: usize,
    pub what: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what),
            line => write!(f, "{}:{line}: {}", self.file, self.what),
        }
    }
}

impl FileError {
    /// At the line where `near` first occurs; without one, for the file as a whole.
    pub(crate) fn near(text: &str, file: &str, near: &str, what: String) -> FileError {
        let at = text.find(near).filter(|_| !near.is_empty());
        // A text that begins with a newline belongs to the next line.
        let skipped = near.len() - near.trim_start_matches('\n').len();
        FileError {
            file: file.to_owned(),
            line: at.map_or(0, |at| line_of(text, at + skipped)),
            what,
        }
    }
}

/// A file as in TOML.
pub(crate) fn read_toml<T: serde::de::DeserializeOwned>(
    text: &str,
    file: &str,
) -> Result<T, FileError> {
    toml::from_str(text).map_err(|e| FileError {
        file: file.to_owned(),
        line: e.span().map_or(0, |s| line_of(text, s.start)),
        what: toml_line(&e),
    })
}

impl Experiment {
    /// Reads and checks one file.
    pub fn read(text: &str, id: &str, file: &str) -> Result<Experiment, FileError> {
        let mut experiment: Experiment = read_toml(text, file)?;
        experiment.id = id.to_owned();
        experiment.file = file.to_owned();
        let wrong = |(near, what): (String, String)| FileError::near(text, file, &near, what);
        experiment.jobs = experiment.expanded().map_err(wrong)?;
        experiment.check().map_err(wrong)?;
        Ok(experiment)
    }

    /// The first error, with a text near it in the file.
    fn check(&self) -> Result<(), (String, String)> {
        let mut names = BTreeSet::new();
        for job in &self.jobs {
            for measure in job.measures.keys() {
                let name = job.full_name(measure);
                if !names.insert(name.clone()) {
                    return Err((
                        measure.clone(),
                        format!("{name} is measured twice; give one another name"),
                    ));
                }
            }
        }
        for name in self.derived.keys() {
            if name.split('.').count() != 2 {
                return Err((
                    name.clone(),
                    format!("derived measure {name}: write namespace.measure"),
                ));
            }
        }
        for claim in &self.claims {
            check_claim(claim)
                .map_err(|what| (format!("\"{}\"", claim.id), format!("{}: {what}", claim.id)))?;
        }
        for revision in &self.history {
            let near = || "[[history]]".to_owned();
            revision.check(self).map_err(|what| (near(), what))?;
        }
        self.check_parameters()?;
        for figure in &self.figures {
            let known = match (&figure.run, &figure.scheduler) {
                (None, None) => true,
                (Some(run), Some(label)) => {
                    let shown = self.runs.iter().find(|r| r.name == *run);
                    shown.is_some_and(|r| r.schedulers.contains_key(label))
                }
                _ => false,
            };
            if !known {
                let what = format!("{}: no run and scheduler of these names", figure.figure);
                return Err((figure.figure.clone(), what));
            }
        }
        crate::absent::check_exceptions(&self.jobs)?;
        crate::absent::check(self, &self.jobs)
    }

    fn check_parameters(&self) -> Result<(), (String, String)> {
        for parameter in &self.parameters {
            let mut checked = parameter.check();
            if !self.jobs.iter().any(|job| parameter.concerns(job)) {
                checked = Err(format!("no run has the {}", parameter.place()));
            }
            if parameter.fitted_to.is_some() || !parameter.is.is_empty() {
                checked = Err(format!("is and fitted_to belong into {FITTED_FILE}.toml"));
            }
            checked.map_err(|what| {
                let near = format!("\"{}\"", parameter.name);
                (near, format!("parameter \"{}\": {what}", parameter.name))
            })?;
        }
        Ok(())
    }

    /// All runs, expanded, in the order of the file, values and schedulers.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    fn expanded(&self) -> Result<Vec<Job>, (String, String)> {
        let mut jobs = Vec::new();
        for run in &self.runs {
            let values = match run.vary.iter().next() {
                _ if run.vary.len() > 1 => {
                    let what = "vary: one name at a time; write another run for the second";
                    return Err(("vary".to_owned(), what.to_owned()));
                }
                Some((name, values)) => values
                    .iter()
                    .map(|v| Some((name.as_str(), plain(v))))
                    .collect(),
                None => vec![None],
            };
            for value in values {
                if let Some(label) = run.only.keys().find(|l| !run.schedulers.contains_key(*l)) {
                    return Err((
                        format!("only.{label}"),
                        format!("only.{label}: no scheduler of this run is called so"),
                    ));
                }
                for (label, scheduler) in &run.schedulers {
                    jobs.push(self.job(run, label, scheduler, value.as_ref()));
                }
            }
        }
        Ok(jobs)
    }

    fn job(
        &self,
        run: &RunSpec,
        label: &str,
        scheduler: &str,
        value: Option<&(&str, String)>,
    ) -> Job {
        let fill = |text: &str| match value {
            Some((name, value)) => {
                let text = text.replace(&format!("${{{name}}}"), value);
                text.replace(&format!("${name}"), value)
            }
            None => text.to_owned(),
        };
        let patch = |table: &toml::Table| merge_patch(table, &fill).to_string();
        let of = value.map(|(_, value)| value);
        let is_for = |own: &&KernelRunSpec| match &own.of {
            Some(values) => values.iter().any(|one| Some(&plain(one)) == of),
            None => true,
        };
        let own = run.kernel.iter().find(is_for);
        let shows = |f: &FigureSpec| {
            f.run.as_ref() == Some(&run.name) && f.scheduler.as_deref() == Some(label)
        };
        let figures = self.figures.iter().enumerate().filter(|(_, f)| shows(f));
        let figures: Vec<(usize, String)> =
            figures.map(|(index, f)| (index, fill(&f.sql))).collect();
        let measures = run
            .measures
            .iter()
            .chain(run.only.get(label).into_iter().flatten());
        let measures: BTreeMap<String, String> = measures
            .map(|(name, sql)| (name.clone(), fill(&sharing(run.with.as_deref(), sql))))
            .collect();
        // SQL is case-insensitive. Any other asterisk may mean all columns.
        let all = measures.values().chain(figures.iter().map(|(_, sql)| sql));
        let plain = |sql: &String| sql.to_lowercase().replace("count(*)", "");
        let all: Vec<String> = all.map(plain).collect();
        let asks = |words: &[&str]| {
            let mut each = all.iter();
            each.any(|sql| words.iter().any(|word| sql.contains(word)))
        };
        Job {
            probes: asks(&["probe", "counter"]),
            // Their columns and their table.
            distributions: asks(&["wait_", "wakeup_", "latency_quantile", "*"]),
            accesses: asks(&["access", "runqueue_lock"]),
            run: run.name.clone(),
            label: label.to_owned(),
            scheduler: fill(scheduler),
            machine: fill(&run.machine),
            workload: fill(&run.workload),
            patch: patch(&run.patch),
            scale: Vec::new(),
            machine_changes: Vec::new(),
            duration: run.duration.as_deref().map(fill),
            events: run.events,
            probe_keys: run.probe_keys,
            probe_names: run.probe_names.clone(),
            access_callbacks: run.access_callbacks.clone(),
            access_places: run.access_places.clone(),
            timeline: run.timeline.clone(),
            watchdog: run.watchdog,
            may_lack: run.may_lack.clone(),
            kernel: own.map(|own| KernelRun {
                done: !own.patch.is_empty() || own.duration.is_some() || own.several_cpus,
                patch: patch(&own.patch),
                duration: own.duration.as_deref().map(fill),
                several_cpus: own.several_cpus,
                reason: fill(&own.reason),
            }),
            of: value.map(|(_, value)| value.clone()),
            suffix: value.map_or(String::new(), |(name, value)| {
                format!("_{name}{}", identifier(value))
            }),
            measures,
            figures,
        }
    }
}

fn check_claim(claim: &Claim) -> Result<(), String> {
    if claim.source().is_empty() || claim.id.split('.').count() < 2 {
        return Err("an id is SOURCE.PART or SOURCE.PART.NAME".to_owned());
    }
    if claim.layer.is_empty() {
        return Err(
            "layer = []: say where it can be checked, in \"sim\", \"real\" or both".to_owned(),
        );
    }
    if let Some(control) = &claim.control {
        control.check().map_err(|what| format!("control: {what}"))?;
    }
    // An error in the check itself only breaks this claim: see `judge`.
    match (&claim.check, &claim.not_run) {
        (Some(_), None) | (None, Some(_)) => Ok(()),
        _ => Err("give either check or not_run (and why)".to_owned()),
    }
}

/// The line of a byte, from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

/// A value as written into strings.
fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value as part of a name.
fn identifier(value: &str) -> String {
    let part = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    value.chars().map(part).collect()
}

/// A table of changes as a JSON merge patch, strings filled in; the text "remove" removes a value.
pub fn merge_patch(table: &toml::Table, fill: &dyn Fn(&str) -> String) -> serde_json::Value {
    json(&toml::Value::Table(table.clone()), fill)
}

/// A TOML value as JSON, strings filled in; a string that then is a number becomes one.
fn json(value: &toml::Value, fill: &dyn Fn(&str) -> String) -> serde_json::Value {
    match value {
        toml::Value::String(text) => {
            let filled = fill(text);
            match (filled != *text).then(|| filled.parse::<serde_json::Number>()) {
                Some(Ok(number)) => serde_json::Value::Number(number),
                _ => serde_json::Value::String(filled),
            }
        }
        toml::Value::Integer(number) => (*number).into(),
        toml::Value::Float(number) => (*number).into(),
        toml::Value::Boolean(flag) => (*flag).into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(values) => values.iter().map(|v| json(v, fill)).collect(),
        toml::Value::Table(table) => {
            let members = table.iter().map(|(key, value)| match value {
                // TOML has no null, which is how a merge patch removes.
                toml::Value::String(text) if text == "remove" => {
                    (fill(key), serde_json::Value::Null)
                }
                value => (fill(key), json(value, fill)),
            });
            members.collect()
        }
    }
}

/// Whether all claims of all files have unique names.
pub fn check_unique(experiments: &[Experiment]) -> Result<(), FileError> {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for experiment in experiments {
        for claim in &experiment.claims {
            if let Some(other) = seen.insert(&claim.id, &experiment.file) {
                return Err(FileError {
                    file: experiment.file.clone(),
                    line: 0,
                    what: format!("claim {} stands in {other} too; remove one", claim.id),
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_gets_the_runs_patch_and_its_own_on_top() {
        let text = "title = 't'\n[[run]]\nmachine = 'uni'\nworkload = 'w'\nschedulers = { a = 'a' }\nduration = '9s'\n\
            vary = { n = [2, 3, 4] }\npatch.tasks.hog.instance = '$n'\npatch.tasks.hog.run = 7\npatch.tasks.cat = 'remove'\n\
            [[run.kernel]]\nof = [2]\npatch.tasks.hog.run = '${n}0'\npatch.global.x = 1\npatch.tasks.cat.run = 5\nreason = 'short'\n\
            [[run.kernel]]\nof = [3]\nduration = '${n}s'\nreason = 'shorter'\n[[run.kernel]]\nreason = 'not at all'\n";
        let experiment = Experiment::read(text, "e", "e.toml").unwrap();
        let jobs = experiment.jobs();
        let done: Vec<bool> = jobs
            .iter()
            .map(|job| job.kernel.as_ref().unwrap().done)
            .collect();
        assert_eq!(done, [true, true, false]);
        let jobs: Vec<Job> = jobs.iter().cloned().map(Job::in_kernel).collect();
        let patch: serde_json::Value = serde_json::from_str(&jobs[0].patch).unwrap();
        let expected = serde_json::json!({
            "global": { "x": 1 },
            "tasks": { "cat": null, "hog": { "instance": 2, "run": 20 } },
        });
        assert_eq!(patch, expected);
        let durations = jobs.iter().map(|job| job.duration.as_deref().unwrap());
        assert_eq!(durations.collect::<Vec<_>>(), ["9s", "3s", "9s"]);
        let counted = text.replace("'not at all'", "'counts'\nseveral_cpus = true");
        let counted = Experiment::read(&counted, "e", "e.toml").unwrap();
        let last = counted.jobs()[2].kernel.clone().unwrap();
        assert!(last.done && last.several_cpus, "neither patch nor duration");
        let without = text.replace("reason = 'short'\n", "");
        let error = Experiment::read(&without, "e", "e.toml").unwrap_err();
        assert!(
            error.to_string().contains("missing field `reason`"),
            "{error}"
        );
    }

    #[test]
    fn what_is_recorded_follows_from_what_is_asked() {
        let asked = |sql: &str| {
            let text = format!(
                "title = 't'\n[[run]]\nmachine = 'uni'\nworkload = 'w'\nschedulers = {{ a = 'a' }}\n[run.measures]\nm = \"{sql}\"\n"
            );
            let experiment = Experiment::read(&text, "e", "e.toml").unwrap();
            let job = experiment.jobs()[0].clone();
            (job.probes, job.distributions, job.accesses)
        };
        assert_eq!(
            asked("SELECT sum(wakeups) FROM task"),
            (false, false, false)
        );
        assert_eq!(asked("SELECT last FROM Probe"), (true, false, false));
        assert_eq!(
            asked("SELECT nullif(count(*), 0) FROM access"),
            (false, false, true)
        );
        for column in ["wait", "wakeup"].map(|of| format!("{of}_P99_ns")) {
            let schema = tiltyard_tables::schema("app");
            assert!(schema.field_with_name(&column.to_lowercase()).is_ok());
            assert!(asked(&format!("SELECT {column} FROM app")).1);
        }
        assert!(asked("SELECT max(ns) FROM latency_quantile").1);
        assert!(asked("SELECT max(x) FROM (SELECT\t* FROM app)").1);
    }
}
