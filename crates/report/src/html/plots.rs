// SPDX-License-Identifier: GPL-2.0-or-later
//! Figures from points: lines and points as diagrams for the page's script, bars as a table that needs none.

use super::barlist;
use super::charts::{Chart, ChartKind, MAX_CURVES, Series, largest, rounded};
use super::markup::escape;
use super::timelines;
use crate::findings::{Chapter, Plot, PlotKind};
use crate::svg;

/// Points of one series beyond which some are left out: a screen has fewer columns.
const MAX_POINTS: usize = 2000;

/// The figures of a chapter, and its runs slice by slice.
pub fn chapter(
    chapter: &Chapter,
    charts: &mut Vec<Chart>,
    timelines: &mut Vec<serde_json::Value>,
) -> String {
    let plots = chapter.plots.iter().enumerate();
    let figures: String = plots
        .map(|(index, plot)| figure(plot, &format!("{}-{index}", chapter.id), charts))
        .collect();
    let slices = slice_by_slice(chapter, timelines);
    format!(
        "<section id=\"{}\"><h2>{}</h2>\n{figures}{slices}<details><summary>Command</summary><pre>{}</pre></details></section>\n",
        escape(&chapter.id),
        escape(&chapter.title),
        escape(&chapter.command)
    )
}

fn slice_by_slice(chapter: &Chapter, data: &mut Vec<serde_json::Value>) -> String {
    if chapter.timelines.is_empty() {
        return String::new();
    }
    format!(
        "<figure class=\"plot\"><h3>Slice by slice</h3>\n\
         <p class=\"note\">Who had which CPU, when and why it changed hands. Point at a slice for its task, its length, \
         who woke it and why it left.</p>\n{}</figure>\n",
        timelines::place(
            Vec::new(),
            &chapter.timelines,
            "tiltyard run --report FILE.html --timeline FROM..TO selects another window",
            data
        )
    )
}

/// Its figures: names and SVG files.
pub fn files(chapter: &Chapter) -> Vec<(&str, String)> {
    let plots = chapter.plots.iter().filter(|plot| !plot.points.is_empty());
    let file = |plot| {
        let names = series(plot);
        let mut charts = Vec::new();
        match plot.kind {
            PlotKind::Bars => barlist::file(plot, &names),
            PlotKind::Line | PlotKind::Steps | PlotKind::Points => {
                diagram(plot, &names, &mut charts);
                svg::chart(&charts[0])
            }
        }
    };
    plots.map(|plot| (plot.name.as_str(), file(plot))).collect()
}

/// The names of the series, in the order in which they occur.
fn series(plot: &Plot) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for point in &plot.points {
        if !names.contains(&point.series.as_str()) {
            names.push(&point.series);
        }
    }
    names
}

/// A table of bars, and what the page's buttons save of it.
fn bars(plot: &Plot, names: &[&str], id: &str) -> String {
    let id = format!("bars-{}", escape(id));
    format!(
        "<div id=\"{id}\">{}</div>\n<template data-figure=\"{id}\">{}</template>\n",
        barlist::render(plot, names),
        barlist::file(plot, names)
    )
}

fn figure(plot: &Plot, id: &str, charts: &mut Vec<Chart>) -> String {
    let names = series(plot);
    let (drawing, note) = match plot.kind {
        _ if plot.points.is_empty() => {
            let text = "No points: the query of this figure returned none, or its run failed.";
            (String::new(), text.to_owned())
        }
        PlotKind::Bars => (bars(plot, &names, id), String::new()),
        PlotKind::Line | PlotKind::Steps | PlotKind::Points => diagram(plot, &names, charts),
    };
    let note = match note.is_empty() {
        true => String::new(),
        false => format!("<p class=\"note\">{}</p>\n", escape(&note)),
    };
    format!(
        "<figure class=\"plot\"><h3>{}: {}</h3>\n{drawing}{note}\
         <figcaption><p><b>The source:</b> {}</p><p class=\"dim\">Drawn: {}</p></figcaption></figure>\n",
        escape(&plot.name),
        escape(&plot.title),
        escape(&plot.says),
        escape(&plot.shows),
    )
}

/// Where the script draws lines or points, and what is left out.
fn diagram(plot: &Plot, names: &[&str], charts: &mut Vec<Chart>) -> (String, String) {
    let drawn = &names[..names.len().min(MAX_CURVES)];
    let mut notes = Vec::new();
    if drawn.len() < names.len() {
        notes.push(format!(
            "{} of {} series are drawn.",
            drawn.len(),
            names.len()
        ));
    }
    let mut thinned = 0;
    let curves: Vec<Vec<(f64, f64)>> = drawn
        .iter()
        .map(|name| {
            let of = plot.points.iter().filter(|p| p.series == *name);
            let points: Vec<(f64, f64)> = of.map(|p| (rounded(p.x), rounded(p.y))).collect();
            let every = points.len().div_ceil(MAX_POINTS).max(1);
            thinned = thinned.max(every);
            points.into_iter().step_by(every).collect()
        })
        .collect();
    if thinned > 1 {
        notes.push(format!("Only every {thinned}th point is drawn."));
    }
    // The diagrams of the script share one x axis: a curve without a point there has none.
    let mut x: Vec<f64> = curves.iter().flatten().map(|(x, _)| *x).collect();
    x.sort_by(f64::total_cmp);
    x.dedup();
    let series: Vec<Series> = drawn
        .iter()
        .zip(&curves)
        .enumerate()
        .map(|(color, (name, curve))| {
            let mut y = vec![None; x.len()];
            for point in curve {
                let at = x.partition_point(|x| x.total_cmp(&point.0).is_lt());
                y[at] = Some(point.1);
            }
            Series {
                label: (*name).to_owned(),
                color,
                scheduler: false,
                y,
                band: None,
            }
        })
        .collect();
    let id = format!("plot{}", charts.len());
    charts.push(Chart {
        title: format!("{}: {}", plot.name, plot.title),
        kind: match plot.kind {
            PlotKind::Points => ChartKind::Points,
            PlotKind::Steps => ChartKind::Steps,
            PlotKind::Line | PlotKind::Bars => ChartKind::Curves,
        },
        group: id.clone(),
        x_label: plot.x.clone(),
        x_max: x.last().copied().unwrap_or(0.0),
        y_label: plot.y.clone(),
        y_max: largest(&series),
        id: id.clone(),
        x,
        series,
    });
    (
        format!("<div class=\"chart\" id=\"{id}\"></div>\n"),
        notes.join(" "),
    )
}
