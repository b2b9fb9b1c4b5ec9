// SPDX-License-Identifier: GPL-2.0-or-later
//! Maps of CPUs over time: how many threads each CPU had, and where one idled while a task that may run there waited.

use serde::Serialize;
use std::fmt::Write;
use tiltyard_measure::Summary;

use super::ReportInput;

/// CPUs up to which a map would only repeat a curve.
const MIN_CPUS: usize = 2;

/// The maps of all runs: the same rows, columns of each run's own width, one scale of colours.
#[derive(Debug, Serialize)]
pub struct Maps<'a> {
    /// The CPU of each row, from the top: by node, then by number.
    pub cpus: Vec<usize>,
    /// Rows at which a node begins, with its number; empty if the machine has one node, or nodes are unknown.
    pub nodes: Vec<(usize, u32)>,
    /// The largest mean of any bucket.
    pub most_threads: f64,
    pub runs: Vec<Run<'a>>,
}

#[derive(Debug, Serialize)]
pub struct Run<'a> {
    pub scheduler: &'a str,
    pub duration_ns: u64,
    /// Buckets have this width; the last ends with the run.
    pub width_ns: u64,
    pub threads: Rows,
    /// Wasted part of each bucket, percent; `None`: unknown.
    pub wasted: Option<Rows>,
}

/// Values of each row's buckets. As data of a page: texts in which `v*n` stands for `n` times `v`.
#[derive(Debug, PartialEq)]
pub struct Rows(pub Vec<Vec<f64>>);

impl Serialize for Rows {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().map(|row| packed(row)))
    }
}

fn packed(row: &[f64]) -> String {
    let mut text = String::new();
    for same in row.chunk_by(|a, b| a == b) {
        let gap = if text.is_empty() { "" } else { " " };
        let _ = match same.len() {
            1 => write!(text, "{gap}{}", same[0]),
            count => write!(text, "{gap}{}*{count}", same[0]),
        };
    }
    text
}

/// Two decimals are more than a colour shows, and what a reader wants to know.
fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

impl<'a> Maps<'a> {
    /// Of the first run of each scheduler; `None` if there is nothing to map.
    pub fn new(input: &ReportInput<'a>) -> Option<Maps<'a>> {
        let runs: Vec<(&str, &Summary)> = input.first_runs().map(|(_, n, run)| (n, run)).collect();
        let nr_cpus = runs.iter().map(|(_, run)| run.depth.cpus.len()).max()?;
        let all_alike = runs.iter().all(|(_, run)| run.depth.cpus.len() == nr_cpus);
        if nr_cpus < MIN_CPUS || !all_alike {
            return None;
        }
        let node = |cpu: usize| input.nodes.get(cpu).copied().unwrap_or(0);
        let mut cpus: Vec<usize> = (0..nr_cpus).collect();
        cpus.sort_by_key(|&cpu| (node(cpu), cpu));
        let begins = |row: &usize| *row == 0 || node(cpus[*row]) != node(cpus[*row - 1]);
        let nodes = (0..nr_cpus).filter(begins);
        let mut nodes: Vec<(usize, u32)> = nodes.map(|row| (row, node(cpus[row]))).collect();
        if nodes.len() == 1 {
            nodes.clear();
        }
        let runs: Vec<Run> = runs
            .iter()
            .map(|(name, run)| Run::new(name, run, &cpus))
            .collect();
        let threads = runs.iter().flat_map(|run| run.threads.0.iter().flatten());
        Some(Maps {
            most_threads: threads.copied().fold(1.0, f64::max),
            cpus,
            nodes,
            runs,
        })
    }
}

impl<'a> Run<'a> {
    fn new(scheduler: &'a str, run: &Summary, cpus: &[usize]) -> Run<'a> {
        let begins = &run.depth.begin_ns;
        let width_ns = match begins.as_slice() {
            [first, second, ..] => second - first,
            _ => run.duration_ns.max(1),
        };
        let span_ns = |bucket: usize| {
            let end_ns = begins.get(bucket + 1).copied().unwrap_or(run.duration_ns);
            (end_ns - begins[bucket]).max(1)
        };
        let rows = |of: &dyn Fn(usize) -> Vec<f64>| Rows(cpus.iter().map(|&cpu| of(cpu)).collect());
        let threads = |cpu: usize| {
            let milli = run.depth.cpus[cpu].mean_milli.iter();
            milli.map(|&milli| hundredths(milli as f64 / 1e3)).collect()
        };
        let wasted = |cpu: usize| {
            let wasted_ns = run.depth.cpus[cpu].wasted_ns.iter().flatten();
            let percent = |(bucket, &ns): (usize, &u64)| 100.0 * ns as f64 / span_ns(bucket) as f64;
            wasted_ns.enumerate().map(percent).map(hundredths).collect()
        };
        Run {
            scheduler,
            duration_ns: run.duration_ns,
            width_ns,
            threads: rows(&threads),
            wasted: run.wasted_ns().is_some().then(|| rows(&wasted)),
        }
    }
}

/// A place for the script to draw into. `data` gets what is drawn.
pub fn place(input: &ReportInput, data: &mut Vec<serde_json::Value>) -> String {
    let Some(maps) = Maps::new(input) else {
        return String::new();
    };
    let unknown: Vec<&str> = maps
        .runs
        .iter()
        .filter(|run| run.wasted.is_none())
        .map(|run| run.scheduler)
        .collect();
    let note = match unknown.is_empty() {
        true => String::new(),
        false => format!(
            "<p class=\"note\">Wasted CPU time is unknown for {}: the events do not tell on which CPUs tasks may run.</p>\n",
            super::markup::escape(&unknown.join(", "))
        ),
    };
    data.push(serde_json::to_value(&maps).expect("plain structs have a JSON form"));
    "<div class=\"maps\"></div>\n<noscript><p class=\"note\">The maps are drawn by a script, which this browser does not \
     run.</p></noscript>\n"
        .to_owned()
        + &note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_values_are_counted() {
        assert_eq!(packed(&[0.0, 0.0, 0.0, 1.5, 12.0, 12.0]), "0*3 1.5 12*2");
        assert_eq!(packed(&[]), "");
    }
}
