// SPDX-License-Identifier: GPL-2.0-or-later
//! Schedulers side by side over their runs.

use std::collections::BTreeMap;

use crate::cell::Row;
use crate::figures::{COMMAND, Figure, figures};
use crate::names::{KERNEL, MACHINE};
use crate::stats::median_interval;
use crate::summary::Summary;
use crate::why::why;
use serde::{Serialize, Serializer};

/// What several schedulers made of the same machine and workload. Cells are medians over runs (seeds)
/// with the order-statistic interval of [`crate::median_interval`].
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    pub schedulers: Vec<String>,
    /// Runs of each scheduler.
    pub runs: Vec<usize>,
    /// The longest run.
    pub duration_ns: u64,
    /// Of each scheduler: it has several runs, and all are identical, so they show no spread. A seed that changes
    /// nothing gives copies, not evidence: figures of such a scheduler have no interval (a coverage of 0).
    pub identical: Vec<bool>,
    /// Coverage of the weakest interval of schedulers whose runs differ; 0 when some scheduler has a single run.
    pub coverage_ppm: u32,
    pub rows: Vec<Row>,
    /// Sentences made from measured facts, those that say most first.
    pub why: Vec<String>,
}

/// Version of a comparison as JSON. 1 had nanoseconds and fractions in figures that are called `_us` and `_percent`.
pub const COMPARISON_FORMAT: u32 = 2;

impl Serialize for Comparison {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            format: u32,
            schedulers: &'a [String],
            runs: &'a [usize],
            duration_ns: u64,
            identical: &'a [bool],
            coverage_ppm: u32,
            rows: &'a [Row],
            why: &'a [String],
        }
        let written = Written {
            format: COMPARISON_FORMAT,
            schedulers: &self.schedulers,
            runs: &self.runs,
            duration_ns: self.duration_ns,
            identical: &self.identical,
            coverage_ppm: self.coverage_ppm,
            rows: &self.rows,
            why: &self.why,
        };
        written.serialize(serializer)
    }
}

/// `runs`: the schedulers in the order of their columns, each with the summaries of its runs.
pub fn compare(runs: &[(String, Vec<Summary>)]) -> Comparison {
    let figures: Vec<Vec<Vec<Figure>>> = runs
        .iter()
        .map(|(_, summaries)| summaries.iter().map(figures).collect())
        .collect();
    let counts: Vec<usize> = runs.iter().map(|(_, summaries)| summaries.len()).collect();
    let all = runs.iter().flat_map(|(_, summaries)| summaries);
    let mut comparison = Comparison {
        schedulers: runs.iter().map(|(name, _)| name.clone()).collect(),
        duration_ns: all.map(|s| s.duration_ns).max().unwrap_or(0),
        identical: Vec::new(),
        coverage_ppm: 0,
        runs: counts,
        rows: rows(&figures),
        why: why(runs),
    };
    comparison.mark_identical(figures.iter().map(|runs| all_alike(runs)).collect());
    comparison
}

/// Whether several runs have the same figures.
pub fn all_alike(runs: &[Vec<Figure>]) -> bool {
    runs.len() > 1 && runs.windows(2).all(|pair| pair[0] == pair[1])
}

impl Comparison {
    /// `identical`: of each scheduler, whether all of its runs are the same run. Their figures lose their intervals.
    pub fn mark_identical(&mut self, identical: Vec<bool>) {
        let is = |at: usize| identical.get(at).copied().unwrap_or(false);
        for row in &mut self.rows {
            let cells = row.cells.iter_mut().enumerate().filter(|(at, _)| is(*at));
            cells
                .filter_map(|(_, cell)| cell.as_mut())
                .for_each(|cell| cell.coverage_ppm = 0);
            let effects = row.effects.iter_mut().enumerate();
            let copies = effects.filter(|(at, _)| is(0) && is(*at));
            let changes = copies.filter_map(|(_, effect)| effect.as_mut()?.change.as_mut());
            changes.for_each(|change| change.coverage_ppm = 0);
        }
        let runs = self.runs.iter().enumerate().filter(|(at, _)| !is(*at));
        self.coverage_ppm = runs
            .map(|(_, runs)| median_interval(&vec![0.0; *runs]).map_or(0, |i| i.coverage_ppm))
            .min()
            .unwrap_or(0);
        self.identical = identical;
    }
}

/// A row for each figure; `figures`: of each scheduler, of each of its runs.
pub fn rows(figures: &[Vec<Vec<Figure>>]) -> Vec<Row> {
    let mut rows: Vec<Row> = keys(figures).iter().map(|key| row(key, figures)).collect();
    gather_groups(&mut rows);
    rows
}

/// The first figure of each (group, metric); a headline if it is one in any run. One that the first run lacks has the
/// place in its group that it has in its own run.
fn keys(figures: &[Vec<Vec<Figure>>]) -> Vec<Figure> {
    let mut seen: Vec<Figure> = Vec::new();
    let mut headlines = BTreeMap::new();
    for run in figures.iter().flatten() {
        let mut before: Option<&Figure> = None;
        for figure in run {
            let key = (&figure.group, &figure.metric);
            let headline = headlines.entry(key).or_insert_with(|| {
                let before = before.filter(|other| other.group == figure.group);
                seen.insert(place(&seen, &figure.group, before), figure.clone());
                false
            });
            *headline |= figure.headline;
            before = Some(figure);
        }
    }
    for figure in &mut seen {
        figure.headline = headlines[&(&figure.group, &figure.metric)];
    }
    seen
}

/// Behind `before`, else before the others of its group, else at the end.
fn place(seen: &[Figure], group: &str, before: Option<&Figure>) -> usize {
    let found = match before {
        Some(other) => {
            let is_other = |f: &Figure| f.metric == other.metric && f.group == group;
            seen.iter().position(is_other).map(|at| at + 1)
        }
        None => seen.iter().position(|f| f.group == group),
    };
    found.unwrap_or(seen.len())
}

fn row(key: &Figure, figures: &[Vec<Vec<Figure>>]) -> Row {
    let value_of = |run: &Vec<Figure>| {
        let same = |f: &&Figure| f.metric == key.metric && f.group == key.group;
        run.iter().find(same).map(|f| f.value)
    };
    let values = figures.iter().map(|runs| {
        let values: Vec<f64> = runs.iter().filter_map(value_of).collect();
        values
    });
    let values: Vec<Vec<f64>> = values.collect();
    Row::new(key, &values)
}

/// Apps with most CPU time first, because real machines run other apps too; the command's scores
/// before them, the kernel's threads and the machine after them. Rows of a group keep their order.
pub fn busiest_first(rows: &mut [Row]) {
    let mut runtimes: BTreeMap<String, f64> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.metric == "runtime") {
        let medians = row.cells.iter().flatten().map(|cell| cell.median);
        runtimes.insert(row.group.clone(), medians.fold(0.0, f64::max));
    }
    let rank = |row: &Row| match row.group.as_str() {
        COMMAND => f64::INFINITY,
        // Below all that ran, above what has no runtime.
        KERNEL => -0.5,
        app => runtimes.get(app).copied().unwrap_or(-1.0),
    };
    rows.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
}

/// Rows of a group stand together, groups in the order of their first row, what is nobody's workload last: the kernel's
/// threads, then the machine.
fn gather_groups(rows: &mut [Row]) {
    let mut order: Vec<String> = Vec::new();
    for row in rows.iter() {
        if !order.contains(&row.group) {
            order.push(row.group.clone());
        }
    }
    let rank = |group: &String| match group.as_str() {
        MACHINE => usize::MAX,
        KERNEL => usize::MAX - 1,
        _ => order.iter().position(|g| g == group).unwrap_or(0),
    };
    rows.sort_by_key(|row| rank(&row.group));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Better, Unit};

    #[test]
    fn the_command_comes_first_then_the_busiest_app_and_the_machine_last() {
        let row = |group: &str, metric: &str, value: f64| {
            let figure = Figure {
                group: group.to_owned(),
                name: metric.to_owned(),
                metric: metric.to_owned(),
                unit: Unit::TimeNs,
                better: Better::Neither,
                headline: true,
                value,
            };
            Row::new(&figure, &[vec![value], vec![1.0]])
        };
        let mut rows = [
            row("kernel", "longest wait", 70.0),
            row("kernel", "runtime", 40.0),
            row("command", "took", 1.0),
            row("server", "longest wait", 5.0),
            row("server", "runtime", 30.0),
            row("machine", "busy", 99.0),
        ];
        busiest_first(&mut rows);
        let order: Vec<&str> = rows.iter().map(|row| row.group.as_str()).collect();
        assert_eq!(
            order,
            ["command", "server", "server", "kernel", "kernel", "machine"]
        );
        assert_eq!(
            rows[1].metric, "longest wait",
            "rows of a group keep their order"
        );
    }

    #[test]
    fn what_is_nobodys_workload_comes_last() {
        let figure = |group: &str| Figure {
            group: group.to_owned(),
            name: "x".to_owned(),
            metric: "x".to_owned(),
            unit: Unit::TimeNs,
            better: Better::Neither,
            headline: true,
            value: 1.0,
        };
        let run = ["machine", "kernel", "web", "db"].map(figure).to_vec();
        let order: Vec<String> = rows(&[vec![run]]).into_iter().map(|r| r.group).collect();
        assert_eq!(order, ["web", "db", "kernel", "machine"]);
    }
}
