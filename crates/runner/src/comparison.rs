// SPDX-License-Identifier: GPL-2.0-or-later
//! Two results of earlier runs beside each other: whether they may be compared, and what their reader must know.

use crate::results::{Draws, Results, Runs};
use crate::stuck::COVERED;
use crate::{Error, duration};
use tiltyard_measure::units;

/// One side of the comparison.
pub struct Side<'a> {
    /// FILE#SCHEDULER.
    pub name: String,
    /// Where its runs are.
    pub file: &'a Results,
    /// Those of one scheduler.
    pub runs: &'a Runs,
}

impl<'a> Side<'a> {
    /// Fails if no run of `runs` counts.
    pub fn new(file: &'a Results, runs: &'a Runs) -> Result<Side<'a>, Error> {
        let name = format!("{}#{}", file.shown(), runs.scheduler);
        match runs.figures.is_empty() {
            true => Err(Error::input(format!(
                "{name}: has no run that counts: {} failed",
                runs.failed
            ))),
            false => Ok(Side { name, file, runs }),
        }
    }

    /// The machine, and the number of runs.
    pub fn about(&self) -> String {
        let ended = self.file.duration_ns;
        let ended = ended.map_or(String::new(), |ns| format!(" for {}", duration::write(ns)));
        let on = match self.file.is_simulated {
            true => format!("simulated machine {}", self.file.machine),
            false => self.file.machine.clone(),
        };
        let count = self.runs.figures.len();
        let s = if count == 1 { "" } else { "s" };
        let what = self.file.workload.as_ref();
        let what = what.map_or(String::new(), |workload| format!("{workload}{ended} on "));
        format!("{what}{on}, {count} run{s}")
    }
}

/// Whether the runs of either side are identical and repeatable: a single one, or runs that the seed does not
/// change. More of them would only look like evidence. A run of each must have drawn the same.
pub fn is_exact(a: &Runs, b: &Runs) -> bool {
    let alike = |runs: &Runs| runs.figures.windows(2).all(|pair| pair[0] == pair[1]);
    let shared = |draws: &Draws| *draws != Draws::Chance && b.draws.contains(draws);
    alike(a) && alike(b) && a.draws.iter().any(shared)
}

/// Why the two are not comparable.
pub fn differences(sides: &[Side; 2]) -> Vec<String> {
    let [a, b] = [sides[0].file, sides[1].file];
    let mut found = Vec::new();
    let mut note = |what: &str, a: &str, b: &str| {
        if a != b {
            found.push(format!("different {what}: A has {a}, B has {b}"));
        }
    };
    if let (Some(a), Some(b)) = (&a.workload, &b.workload) {
        note("workloads", a, b);
    }
    let ended = |file: &Results| {
        file.duration_ns
            .map_or("the workload's own".to_owned(), duration::write)
    };
    note("durations", &ended(a), &ended(b));
    let machine = |file: &Results| match file.is_simulated {
        true => format!("{}, simulated", file.machine),
        false => file.machine.clone(),
    };
    note("machines", &machine(a), &machine(b));
    // Hashes of their texts, where they are known.
    let mut edited = |what: &str, names: [Option<&str>; 2], hashes: [&Option<String>; 2]| {
        let is_one = names[0].filter(|_| names[0] == names[1]);
        if let (Some(name), [Some(a), Some(b)]) = (is_one, hashes)
            && a != b
        {
            found.push(format!(
                "different {what}: both are called {name}, but the files were not the same"
            ));
        }
    };
    let names = [a, b].map(|file| file.workload.as_deref());
    edited("workloads", names, [a, b].map(|f| &f.workload_sha256));
    let names = [a, b].map(|file| Some(file.machine.as_str()));
    edited("machines", names, [a, b].map(|f| &f.machine_sha256));
    let cut_off = sides.iter().filter(|side| side.runs.stuck > 0);
    found.extend(cut_off.map(|side| {
        let (stuck, all) = (side.runs.stuck, side.runs.figures.len());
        format!(
            "in {stuck} of {all} runs of {}, tasks wait forever: {COVERED}",
            side.name
        )
    }));
    let with_failures = sides.iter().filter(|side| side.runs.failed > 0);
    found.extend(with_failures.map(|side| {
        let (failed, counted) = (side.runs.failed, side.runs.figures.len());
        format!(
            "{failed} of {} runs of {} failed, and do not count",
            failed + counted,
            side.name
        )
    }));
    found
}

/// Further notes for the reader.
pub fn warnings(sides: &[Side; 2]) -> Vec<String> {
    let mut all = Vec::new();
    if sides[0].name == sides[1].name {
        all.push(format!("A and B are the same runs, {}", sides[0].name));
    }
    for side in sides {
        let (name, runs) = (&side.name, side.runs);
        if side.file.workload.is_none() {
            all.push(format!(
                "{name} does not say what ran, so that cannot be compared"
            ));
        }
        if let Some(why) = &side.file.cut_short {
            let why = why.lines().next().unwrap_or_default();
            all.push(format!("{name} was cut short: {why}"));
        }
        for (class, ns) in &runs.stopped {
            let at = units::time(*ns as f64);
            all.push(format!(
                "{name} has no \"{class}\" after {at}: its throughput is that of the time before"
            ));
        }
        if runs.lost_events > 0 {
            let lost = runs.lost_events;
            all.push(format!(
                "{name} lost {lost} events: its metrics do not include them"
            ));
        }
    }
    all
}
