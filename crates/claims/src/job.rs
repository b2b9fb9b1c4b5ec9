// SPDX-License-Identifier: GPL-2.0-or-later
//! What an arena is to do: a run of an experiment with one value of `vary` and one scheduler.

use std::collections::BTreeMap;
use std::fmt;

/// The change of a number.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Times(f64),
    Is(toml::Value),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Change::Times(factor) => write!(f, "x {factor}"),
            Change::Is(value) => write!(f, "= {value}"),
        }
    }
}

/// One run, expanded; it is repeated with each seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The run's name.
    pub run: String,
    /// The scheduler's name in claims, and the scheduler as for `-s`.
    pub label: String,
    pub scheduler: String,
    pub machine: String,
    pub workload: String,
    /// A JSON object; `{}` changes nothing.
    pub patch: String,
    /// Numbers of the patched workload (keys separated by dots) and their factors.
    pub scale: Vec<(String, f64)>,
    /// Keys of the machine's file, separated by dots, and the changes of their numbers.
    pub machine_changes: Vec<(String, Change)>,
    pub duration: Option<String>,
    pub events: bool,
    /// Whether anything uses the scheduler's probes. Writing them takes the machine a little time.
    pub probes: bool,
    /// Whether anything reads how long single waits and wakeups took. Keeping that takes Tiltyard a little time.
    pub distributions: bool,
    /// Whether anything reads its code's accesses, or locks.
    pub accesses: bool,
    pub probe_keys: Option<u32>,
    pub probe_names: Option<Vec<String>>,
    pub access_callbacks: Option<Vec<String>>,
    pub access_places: Option<Vec<String>>,
    pub timeline: Option<String>,
    pub watchdog: Option<bool>,
    /// Measures that are intentionally numbers without some kinds of input.
    pub may_lack: BTreeMap<String, Vec<String>>,
    pub kernel: Option<KernelRun>,
    /// The value of `vary`, if there is one.
    pub of: Option<String>,
    /// Appended to the names of its measures.
    pub suffix: String,
    /// Name (without suffix) -> SQL.
    pub measures: BTreeMap<String, String>,
    /// Indices into [`Experiment::figures`] of those that show this run, with their SQL.
    pub figures: Vec<(usize, String)>,
}

/// How a run is done in a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelRun {
    /// Whether the run is done there at all.
    pub done: bool,
    pub patch: String,
    pub duration: Option<String>,
    pub several_cpus: bool,
    pub reason: String,
}

impl Job {
    /// A run of this workload on this machine under this scheduler, measured by nothing yet.
    pub fn new(workload: &str, machine: &str, scheduler: &str) -> Job {
        Job {
            run: String::new(),
            label: scheduler.to_owned(),
            scheduler: scheduler.to_owned(),
            machine: machine.to_owned(),
            workload: workload.to_owned(),
            patch: "{}".to_owned(),
            scale: Vec::new(),
            machine_changes: Vec::new(),
            duration: None,
            events: false,
            probes: false,
            distributions: true,
            accesses: false,
            probe_keys: None,
            probe_names: None,
            access_callbacks: None,
            access_places: None,
            timeline: None,
            watchdog: None,
            may_lack: BTreeMap::new(),
            kernel: None,
            of: None,
            suffix: String::new(),
            measures: BTreeMap::new(),
            figures: Vec::new(),
        }
    }

    /// The name of this job's measure in checks.
    pub fn full_name(&self, measure: &str) -> String {
        format!("{}.{measure}{}", self.label, self.suffix)
    }

    /// Applies one more JSON merge patch to the workload.
    pub fn patch_on_top(&mut self, patch: &serde_json::Value) {
        let own = serde_json::from_str(&self.patch).unwrap_or_default();
        self.patch = on_top(own, patch.clone()).to_string();
    }

    /// The job for a real kernel.
    pub fn in_kernel(mut self) -> Job {
        if let Some(own) = &self.kernel {
            let (patch, duration) = (own.patch.clone(), own.duration.clone());
            self.patch_on_top(&serde_json::from_str(&patch).unwrap_or_default());
            self.duration = duration.or(self.duration);
        }
        self
    }
}

/// One merge patch with the effect of the first and then the second. An object that the first removes stays removed.
pub(crate) fn on_top(first: serde_json::Value, second: serde_json::Value) -> serde_json::Value {
    use serde_json::Value::{Null, Object};
    match (first, second) {
        (Object(mut members), Object(changes)) => {
            for (key, change) in changes {
                let merged = match members.remove(&key) {
                    None => change,
                    Some(before) => on_top(before, change),
                };
                members.insert(key, merged);
            }
            Object(members)
        }
        (Null, Object(_)) => Null,
        (_, second) => second,
    }
}
