// SPDX-License-Identifier: GPL-2.0-or-later
//! Schedulers side by side over their runs.

use crate::cell::Row;
use crate::figures::{Figure, figures};
use crate::stats::median_interval;
use crate::summary::Summary;
use crate::why::why;
use serde::{Deserialize, Serialize};

/// What several schedulers made of the same machine and workload. Cells are medians over runs (seeds)
/// with the order-statistic interval of [`crate::median_interval`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub schedulers: Vec<String>,
    /// Runs of each scheduler.
    pub runs: Vec<usize>,
    /// The longest run.
    pub duration_ns: u64,
    /// Coverage of the weakest interval; 0 when some scheduler has a single run.
    pub coverage_ppm: u32,
    pub rows: Vec<Row>,
    /// Sentences made from measured facts, one scheduler after the other.
    pub why: Vec<String>,
}

/// `runs`: the schedulers in the order of their columns, each with the summaries of its runs.
pub fn compare(runs: &[(String, Vec<Summary>)]) -> Comparison {
    let figures: Vec<Vec<Vec<Figure>>> = runs
        .iter()
        .map(|(_, summaries)| summaries.iter().map(figures).collect())
        .collect();
    let mut rows: Vec<Row> = keys(&figures).map(|key| row(key, &figures)).collect();
    gather_groups(&mut rows);
    let counts: Vec<usize> = runs.iter().map(|(_, summaries)| summaries.len()).collect();
    let fewest = counts.iter().copied().min().unwrap_or(0);
    let all = runs.iter().flat_map(|(_, summaries)| summaries);
    Comparison {
        schedulers: runs.iter().map(|(name, _)| name.clone()).collect(),
        duration_ns: all.map(|s| s.duration_ns).max().unwrap_or(0),
        coverage_ppm: median_interval(&vec![0.0; fewest]).map_or(0, |i| i.coverage_ppm),
        runs: counts,
        rows,
        why: runs
            .iter()
            .flat_map(|(name, summaries)| why(name, summaries))
            .collect(),
    }
}

/// The first figure of each (group, metric), in the order of their first appearance; a headline if it is
/// one in any run.
fn keys(figures: &[Vec<Vec<Figure>>]) -> impl Iterator<Item = (&Figure, bool)> {
    let mut seen: Vec<(&Figure, bool)> = Vec::new();
    let mut index = std::collections::BTreeMap::new();
    for figure in figures.iter().flatten().flatten() {
        let at = *index
            .entry((&figure.group, &figure.metric))
            .or_insert_with(|| {
                seen.push((figure, false));
                seen.len() - 1
            });
        seen[at].1 |= figure.headline;
    }
    seen.into_iter()
}

fn row((key, headline): (&Figure, bool), figures: &[Vec<Vec<Figure>>]) -> Row {
    let value_of = |run: &Vec<Figure>| {
        let same = |f: &&Figure| f.metric == key.metric && f.group == key.group;
        run.iter().find(same).map(|f| f.value)
    };
    let values = figures.iter().map(|runs| {
        let values: Vec<f64> = runs.iter().filter_map(value_of).collect();
        values
    });
    let values: Vec<Vec<f64>> = values.collect();
    Row::new(
        key.group.clone(),
        key.metric.clone(),
        key.unit,
        key.better,
        headline,
        &values,
    )
}

/// Rows of a group stand together, groups in the order of their first row, the machine last.
fn gather_groups(rows: &mut [Row]) {
    let mut order: Vec<String> = Vec::new();
    for row in rows.iter() {
        if !order.contains(&row.group) {
            order.push(row.group.clone());
        }
    }
    let rank = |group: &String| match group.as_str() {
        "machine" => usize::MAX,
        _ => order.iter().position(|g| g == group).unwrap_or(0),
    };
    rows.sort_by_key(|row| rank(&row.group));
}
