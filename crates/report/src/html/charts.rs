// SPDX-License-Identifier: GPL-2.0-or-later
//! What the curves of a page draw, as data for the page's script.

use serde::Serialize;
use tiltyard_measure::{Latency, ProbeSeries, ProbeSummary, QUANTILES_PPM, Summary};

/// Curves in one diagram: more than this cannot be distinguished by colour.
pub const MAX_CURVES: usize = 8;

/// Up to this number of CPUs each has its own curve of queue depth.
const MAX_DEPTH_CURVES: usize = 4;

/// One diagram; `id` is that of the element to draw into.
#[derive(Debug, Serialize)]
pub struct Chart {
    pub id: String,
    /// For files of its own; a page has it beside the diagram.
    #[serde(skip)]
    pub title: String,
    pub kind: ChartKind,
    /// Diagrams of one group share their cursor and their scales.
    pub group: String,
    pub x: Vec<f64>,
    pub x_label: String,
    pub y_label: String,
    pub x_max: f64,
    pub y_max: f64,
    pub series: Vec<Series>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChartKind {
    /// Against time, or whatever the x axis is.
    Curves,
    /// A value holds until the next.
    Steps,
    /// Points that no line connects.
    Points,
    /// Against the percentile, both axes logarithmic (x towards 100 %).
    Percentiles,
}

#[derive(Debug, Serialize)]
pub struct Series {
    pub label: String,
    /// Index into the palette that `scheduler` selects.
    pub color: usize,
    pub scheduler: bool,
    pub y: Vec<Option<f64>>,
    /// Range around `y`, drawn as a band.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub band: Option<[Vec<Option<f64>>; 2]>,
}

/// Enough digits for a screen, few enough for a small file.
pub fn rounded(value: f64) -> f64 {
    let text = format!("{value:.4e}");
    text.parse().unwrap_or(value)
}

fn seconds(ns: u64) -> f64 {
    rounded(ns as f64 / 1e9)
}

pub fn largest(series: &[Series]) -> f64 {
    let tops = series.iter().flat_map(|s| match &s.band {
        Some([_, high]) => high.iter(),
        None => s.y.iter(),
    });
    tops.flatten().copied().fold(0.0, f64::max)
}

/// The same vertical scale for all diagrams of a group.
pub fn level(charts: &mut [Chart]) {
    let top = charts.iter().map(|c| c.y_max).fold(0.0, f64::max);
    charts.iter_mut().for_each(|c| c.y_max = top);
}

/// Figure 1: cumulative runtime of each app. `apps`: names in the order of their colours.
pub fn runtime(id: String, run: &Summary, apps: &[&str]) -> Chart {
    let curves = run.runtime.apps.iter().filter_map(|curve| {
        let color = apps.iter().position(|app| *app == curve.app)?;
        Some(Series {
            label: curve.app.clone(),
            color,
            scheduler: false,
            y: curve
                .runtime_ns
                .iter()
                .map(|&ns| Some(seconds(ns)))
                .collect(),
            band: None,
        })
    });
    let series: Vec<Series> = curves.collect();
    Chart {
        id,
        title: String::new(),
        kind: ChartKind::Curves,
        group: "time".into(),
        x: run.runtime.at_ns.iter().map(|&ns| seconds(ns)).collect(),
        x_label: "time in s".into(),
        x_max: seconds(run.duration_ns),
        y_label: "CPU time so far in s".into(),
        y_max: largest(&series),
        series,
    }
}

/// A probe's value is valid until the next one, or until its app
/// was last runnable, in the bucket before `end`.
fn held(values: &[Option<i64>], end: usize) -> Vec<Option<f64>> {
    let mut last = None;
    let values = values.iter().enumerate().map(|(i, value)| {
        last = value.or(last);
        last.filter(|_| i < end).map(|v| rounded(v as f64))
    });
    values.collect()
}

fn heard(values: &[Option<i64>]) -> Vec<Option<f64>> {
    let values = values.iter().map(|v| v.map(|v| rounded(v as f64)));
    values.collect()
}

/// A probe's name with its unit, which names end with; a score or a priority has the scheduler's own scale.
fn with_unit(probe: &str) -> String {
    match probe.rsplit_once('_') {
        Some((name, unit @ ("ns" | "us" | "ms" | "s" | "percent" | "permille"))) => {
            format!("{name} in {unit}")
        }
        _ => format!("{probe} (scheduler's own scale)"),
    }
}

/// Figure 2: a probe of tasks, the range over each app's tasks; or of CPUs, one curve each.
pub fn probe(id: String, run: &Summary, probe: &ProbeSummary, apps: &[&str]) -> Option<Chart> {
    let drawn: Vec<(usize, &ProbeSeries)> = match probe.per_cpu {
        true => probe.keys.iter().take(MAX_CURVES).enumerate().collect(),
        false => probe
            .apps
            .iter()
            .filter_map(|s| Some((apps.iter().position(|app| *app == s.app)?, s)))
            .collect(),
    };
    let first = drawn.first()?.1;
    let (width_ns, buckets) = (first.width_ns, first.bucket_mean.len() as u64);
    let series: Vec<Series> = drawn
        .iter()
        .map(|(color, s)| {
            let app = run.apps.iter().find(|a| a.app == s.app);
            let until_ns = app
                .and_then(|a| a.active_ns)
                .map_or(u64::MAX, |(_, until)| until);
            let end = usize::try_from(until_ns / width_ns + 1).unwrap_or(usize::MAX);
            Series {
                label: match probe.per_cpu {
                    true => format!("CPU {}", s.name),
                    false => s.name.clone(),
                },
                color: *color,
                scheduler: false,
                y: held(&s.bucket_mean, end),
                band: Some([heard(&s.bucket_min), heard(&s.bucket_max)]),
            }
        })
        .collect();
    let middles_ns = (0..buckets).map(|k| k * width_ns + width_ns / 2);
    Some(Chart {
        id,
        title: String::new(),
        kind: ChartKind::Curves,
        group: "time".into(),
        x: middles_ns
            .map(|ns| seconds(ns.min(run.duration_ns)))
            .collect(),
        x_label: "time in s".into(),
        x_max: seconds(run.duration_ns),
        y_label: with_unit(&probe.probe),
        y_max: largest(&series),
        series,
    })
}

/// Runqueue depth of each CPU over time; `None` if there are more CPUs than colours can tell apart.
pub fn depth(id: String, run: &Summary) -> Option<Chart> {
    if run.depth.cpus.len() > MAX_DEPTH_CURVES {
        return None;
    }
    let series: Vec<Series> = run
        .depth
        .cpus
        .iter()
        .enumerate()
        .map(|(cpu, depth)| {
            let mean = depth
                .mean_milli
                .iter()
                .map(|&m| Some(rounded(m as f64 / 1e3)));
            let mean: Vec<Option<f64>> = mean.collect();
            let max = depth.max.iter().map(|&m| Some(f64::from(m))).collect();
            Series {
                label: format!("CPU {cpu}"),
                color: cpu % MAX_CURVES,
                scheduler: false,
                band: Some([mean.clone(), max]),
                y: mean,
            }
        })
        .collect();
    Some(Chart {
        id,
        title: String::new(),
        kind: ChartKind::Curves,
        group: "time".into(),
        x: run.depth.begin_ns.iter().map(|&ns| seconds(ns)).collect(),
        x_label: "time in s".into(),
        x_max: seconds(run.duration_ns),
        y_label: "runnable tasks".into(),
        y_max: largest(&series),
        series,
    })
}

/// Where a quantile stands on an axis that gives each further nine the same room; the maximum stands one
/// nine after 99.99 %.
pub fn nines(quantile_ppm: u32) -> f64 {
    match quantile_ppm {
        1_000_000.. => 5.0,
        ppm => -((1e6 - f64::from(ppm)) / 1e6).log10(),
    }
}

/// A distribution of durations under each scheduler.
pub fn percentiles(id: String, distributions: &[(usize, String, &Latency)]) -> Chart {
    let series: Vec<Series> = distributions
        .iter()
        .map(|(scheduler, name, latency)| Series {
            label: name.clone(),
            color: *scheduler,
            scheduler: true,
            // A logarithmic axis has no 0; 1 ns is the clock's resolution.
            y: latency
                .quantiles_ns
                .iter()
                .map(|&ns| Some(rounded(ns.max(1) as f64 / 1e6)))
                .collect(),
            band: None,
        })
        .collect();
    Chart {
        id,
        title: String::new(),
        kind: ChartKind::Percentiles,
        group: "percentiles".into(),
        x: QUANTILES_PPM
            .iter()
            .map(|&ppm| rounded(nines(ppm)))
            .collect(),
        x_label: "percentile".into(),
        x_max: nines(1_000_000),
        y_label: "latency in ms".into(),
        y_max: largest(&series),
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_nine_has_the_same_room() {
        assert_eq!(nines(0), 0.0);
        for (ppm, at) in [
            (900_000, 1.0),
            (990_000, 2.0),
            (999_000, 3.0),
            (999_900, 4.0),
        ] {
            assert!((nines(ppm) - at).abs() < 1e-9, "{ppm}");
        }
        assert_eq!(nines(1_000_000), 5.0);
    }

    #[test]
    fn rounding_keeps_five_digits() {
        assert_eq!(rounded(123.456789), 123.46);
        assert_eq!(rounded(0.0), 0.0);
    }
}
