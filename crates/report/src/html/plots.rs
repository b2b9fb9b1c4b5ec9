// SPDX-License-Identifier: GPL-2.0-or-later
//! Figures from points: lines and points as diagrams for the page's script, bars as a table that needs none.

use super::charts::{Chart, Kind, MAX_CURVES, Series, largest, rounded};
use super::markup::escape;
use crate::findings::{Chapter, Plot, PlotKind, PlotPoint};

/// Points of one series beyond which some are left out: a screen has fewer columns.
const MAX_POINTS: usize = 2000;

/// The figures of a chapter.
pub fn chapter(chapter: &Chapter, charts: &mut Vec<Chart>) -> String {
    let figures: String = chapter
        .plots
        .iter()
        .map(|plot| figure(plot, charts))
        .collect();
    format!(
        "<section id=\"{}\"><h2>{}</h2>\n{figures}<details><summary>Command</summary><pre>{}</pre></details></section>\n",
        escape(&chapter.id),
        escape(&chapter.title),
        escape(&chapter.command)
    )
}

fn figure(plot: &Plot, charts: &mut Vec<Chart>) -> String {
    let mut names: Vec<&str> = Vec::new();
    for point in &plot.points {
        if !names.contains(&point.series.as_str()) {
            names.push(&point.series);
        }
    }
    let (drawing, note) = match plot.kind {
        _ if plot.points.is_empty() => {
            let text = "No points: the query of this figure gave none, or its run failed.";
            (String::new(), text.to_owned())
        }
        PlotKind::Bars => (bars(plot, &names), String::new()),
        PlotKind::Line | PlotKind::Points => diagram(plot, &names, charts),
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
        notes.push(format!("Every {thinned}th point is drawn."));
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
        kind: match plot.kind {
            PlotKind::Points => Kind::Points,
            _ => Kind::Curves,
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

/// Rows of bars to one scale, from 0 to both sides; bars of one series stand in the order of their size.
fn bars(plot: &Plot, names: &[&str]) -> String {
    let mut points: Vec<&PlotPoint> = plot.points.iter().collect();
    if names.len() == 1 {
        points.sort_by(|a, b| b.y.total_cmp(&a.y));
    }
    let edges = points.iter().flat_map(|p| {
        [
            p.y,
            p.span.map_or(p.y, |s| s[0]),
            p.span.map_or(p.y, |s| s[1]),
        ]
    });
    let (low, high) = edges.fold((0f64, 0f64), |(low, high), v| (low.min(v), high.max(v)));
    let room = if high > low { high - low } else { 1.0 };
    let at = |value: f64| format!("{:.2}%", (value - low) / room * 100.0);
    let width = |from: f64, to: f64| format!("{:.2}%", (to - from).abs() / room * 100.0);
    // Among differences a gain has a plus.
    let write = |value: f64| written(value, low < 0.0);
    let mut rows = String::new();
    for point in points {
        let series = names.iter().position(|n| *n == point.series).unwrap_or(0);
        let side = if point.y < 0.0 { " minus" } else { "" };
        let mut track = format!(
            "<i class=\"zero\" style=\"left:{}\"></i><i class=\"bar k{}{side}\" style=\"left:{};width:{}\"></i>",
            at(0.0),
            series % MAX_CURVES,
            at(point.y.min(0.0)),
            width(0.0, point.y),
        );
        let mut span = String::new();
        if let Some([from, to]) = point.span.filter(|[from, to]| from != to) {
            track += &format!(
                "<i class=\"reach\" style=\"left:{};width:{}\"></i>",
                at(from),
                width(from, to)
            );
            span = format!("{} to {}", write(from), write(to));
        }
        let label = match names.len() {
            1 => escape(&point.label),
            _ => format!(
                "{} <span class=\"dim\">{}</span>",
                escape(&point.label),
                escape(&point.series)
            ),
        };
        rows += &format!(
            "<tr><th scope=\"row\">{label}</th><td class=\"track\"><div>{track}</div></td><td class=\"n\">{}</td>\
             <td class=\"n dim\">{span}</td></tr>\n",
            write(point.y),
        );
    }
    format!(
        "<table class=\"barlist\"><thead><tr><th>{}</th><th>{}</th><th class=\"n\">median</th><th class=\"n\">interval</th></tr>\
         </thead><tbody>\n{rows}</tbody></table>\n",
        escape(&plot.x),
        escape(&plot.y),
    )
}

/// Three digits, and a sign if need be.
fn written(value: f64, plus: bool) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let text = match plus {
        true => format!("{value:+.digits$}"),
        false => format!("{value:.digits$}"),
    };
    match text.trim_start_matches(['+', '-', '0', '.']).is_empty() {
        true => "0".to_owned(),
        false => text.replace('-', "\u{2212}"),
    }
}

#[cfg(test)]
mod tests {
    use super::written;

    #[test]
    fn signs_are_told_and_nothing_has_none() {
        let values = [40.25, -36.0, 0.001, -0.001, 123.4, 0.5];
        let got = values.map(|v| written(v, true));
        assert_eq!(got, ["+40.2", "\u{2212}36.0", "0", "0", "+123", "+0.50"]);
        assert_eq!(written(40.25, false), "40.2");
    }
}
