// SPDX-License-Identifier: GPL-2.0-or-later
//! A lesson about a scheduler: its rule, a short run with the scheduler's own quantities, and questions that other runs
//! answer.

use std::collections::BTreeMap;

use tiltyard_measure::Row;
use tiltyard_model::{Event, EventKind, EventSink, TaskInfo};

use crate::timeline::Recorded;

/// What a page shows.
pub struct Lesson {
    pub title: String,
    /// The rule: paragraphs.
    pub rule: Vec<String>,
    /// What the example does, and what to look for: paragraphs.
    pub example: Vec<String>,
    pub shown: Shown,
    pub questions: Vec<Question>,
    /// Other pages: what they are called, and their files.
    pub more: Vec<(String, String)>,
}

/// A run: the command, and what is drawn of it.
pub struct Shown {
    pub command: String,
    pub timeline: Recorded,
    pub panels: Vec<Panel>,
}

pub struct Question {
    pub ask: String,
    /// The part of the command that changes, and what it becomes.
    pub change: [String; 2],
    /// The metric, without and with the change.
    pub row: Row,
    /// Paragraphs.
    pub answer: Vec<String>,
    pub shown: Shown,
}

/// A quantity over time, below the timeline.
pub struct Panel {
    pub title: String,
    pub note: String,
    /// One number of the scheduler's is so many of the panel's.
    pub per_unit: f64,
    /// Whether values are shown as distances from the least one.
    pub relative: bool,
    /// A value that means something, and its name.
    pub mark: Option<(f64, String)>,
    pub probe: Probe,
}

/// What a probe is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Of {
    /// Each task.
    #[default]
    Task,
    Cpu,
    Machine,
}

/// ns since the workload's start, and a value.
pub type Point = (u64, i64);

/// Values of a probe in a window, each valid until the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Probe {
    pub name: String,
    pub of: Of,
    /// By pid or CPU (of the machine: 0); the first is the one that the window began with.
    pub series: BTreeMap<u32, Vec<Point>>,
}

/// Receives the events of a run and keeps its probes in a window.
pub struct Probes {
    origin_ns: u64,
    from_ns: u64,
    to_ns: u64,
    probes: Vec<Probe>,
}

impl Probes {
    /// `origin_ns`: when the workload begins on the arena's clock.
    pub fn new(origin_ns: u64, from_ns: u64, to_ns: u64) -> Probes {
        Probes {
            origin_ns,
            from_ns,
            to_ns,
            probes: Vec::new(),
        }
    }

    pub fn finish(self) -> Vec<Probe> {
        self.probes
    }
}

impl EventSink for Probes {
    fn task(&mut self, _info: &TaskInfo) {}

    fn probe_name(&mut self, probe: u16, name: &str, per_cpu: bool) {
        let at = usize::from(probe);
        if self.probes.len() <= at {
            self.probes.resize(at + 1, Probe::default());
        }
        self.probes[at].name = name.to_owned();
        self.probes[at].of = if per_cpu { Of::Cpu } else { Of::Task };
    }

    fn event(&mut self, event: &Event) {
        let EventKind::Probe { probe, key, value } = event.kind else {
            return;
        };
        let at_ns = event.time_ns.saturating_sub(self.origin_ns);
        let Some(known) = self.probes.get_mut(usize::from(probe)) else {
            return;
        };
        if at_ns >= self.to_ns {
            return;
        }
        let series = known.series.entry(key).or_default();
        if at_ns <= self.from_ns {
            *series = vec![(self.from_ns, value)];
        } else if series.last().is_none_or(|(_, last)| *last != value) {
            series.push((at_ns, value));
        }
    }

    fn uses_access(&self, _callback: &str, _place: &str) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiltyard_model::Cpu;

    #[test]
    fn a_window_begins_with_the_value_from_before() {
        let mut probes = Probes::new(1000, 100, 200);
        probes.probe_name(1, "level", false);
        for (time_ns, value) in [(1010, 1), (1090, 2), (1120, 2), (1150, 3), (1200, 4)] {
            let kind = EventKind::Probe {
                probe: 1,
                key: 7,
                value,
            };
            let cpu = Cpu(0);
            probes.event(&Event { time_ns, cpu, kind });
        }
        let probes = probes.finish();
        assert_eq!(probes[1].name, "level");
        assert_eq!(probes[1].series[&7], [(100, 2), (150, 3)]);
    }
}
