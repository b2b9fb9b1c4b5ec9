// SPDX-License-Identifier: GPL-2.0-or-later
//! Bars of a figure as rows of a table: any number of them, labels readable on paper and on a phone, no script. And the
//! same as an SVG file.

use std::fmt::Write;

use super::charts::MAX_CURVES;
use super::markup::escape;
use crate::findings::{Plot, PlotPoint};
use crate::svg;

/// What the bars of a figure share: from 0 to both sides.
struct Scale {
    low: f64,
    room: f64,
    /// Whether any bar has an interval.
    spans: bool,
}

impl Scale {
    fn of(points: &[&PlotPoint]) -> Scale {
        let spans = points.iter().filter_map(|p| span(p));
        let edges = points.iter().map(|p| p.y).chain(spans.flatten());
        let (low, high) = edges.fold((0f64, 0f64), |(low, high), v| (low.min(v), high.max(v)));
        Scale {
            low,
            room: if high > low { high - low } else { 1.0 },
            spans: points.iter().any(|p| span(p).is_some()),
        }
    }

    /// Where something between two values stands.
    fn place(&self, from: f64, to: f64) -> String {
        let percent = |value: f64| value / self.room * 100.0;
        let (left, width) = (percent(from.min(to) - self.low), percent((to - from).abs()));
        format!("left:{left:.2}%;width:{width:.2}%")
    }

    /// Three digits; among differences a gain has a plus.
    fn text(&self, value: f64) -> String {
        written(value, self.low < 0.0)
    }
}

/// The interval, where it is one.
fn span(point: &PlotPoint) -> Option<[f64; 2]> {
    point.span.filter(|[low, high]| low != high)
}

/// Bars of a single series are sorted by value, largest first.
fn in_order<'a>(plot: &'a Plot, names: &[&str]) -> Vec<&'a PlotPoint> {
    let mut points: Vec<&PlotPoint> = plot.points.iter().collect();
    if names.len() == 1 {
        points.sort_by(|a, b| b.y.total_cmp(&a.y));
    }
    points
}

/// The table; `names` are those of the series.
pub fn render(plot: &Plot, names: &[&str]) -> String {
    let points = in_order(plot, names);
    let scale = Scale::of(&points);
    let rows: String = points.iter().map(|p| row(p, &scale, names)).collect();
    let interval = match scale.spans {
        true => "<th class=\"n\">interval</th>",
        false => "",
    };
    format!(
        "<table class=\"barlist\"><thead><tr><th>{}</th><th>{}</th><th class=\"n\">median</th>{interval}</tr>\
         </thead><tbody>\n{rows}</tbody></table>\n",
        escape(&plot.x),
        escape(&plot.y),
    )
}

fn row(point: &PlotPoint, scale: &Scale, names: &[&str]) -> String {
    let series = names.iter().position(|n| *n == point.series).unwrap_or(0);
    let label = match names.len() {
        1 => escape(&point.label),
        _ => format!(
            "{} <span class=\"dim\">{}</span>",
            escape(&point.label),
            escape(&point.series)
        ),
    };
    let mut track = format!(
        "<i class=\"zero\" style=\"{}\"></i><i class=\"bar k{}\" style=\"{}\"></i>",
        scale.place(0.0, 0.0),
        series % MAX_CURVES,
        scale.place(0.0, point.y),
    );
    let mut reach = String::new();
    // An interval that nobody could see is none.
    let seen = span(point).filter(|[low, high]| scale.text(*low) != scale.text(*high));
    if let Some([low, high]) = seen {
        track += &format!(
            "<i class=\"reach\" style=\"{}\"></i>",
            scale.place(low, high)
        );
        reach = format!("{} to {}", scale.text(low), scale.text(high));
    }
    let reach = match scale.spans {
        true => format!("<td class=\"n dim\">{reach}</td>"),
        false => String::new(),
    };
    format!(
        "<tr><th scope=\"row\">{label}</th><td class=\"track\"><div>{track}</div></td><td class=\"n\">{}</td>{reach}</tr>\n",
        scale.text(point.y),
    )
}

/// The bars as a file: labels, bars with whiskers to one scale, medians.
pub fn file(plot: &Plot, names: &[&str]) -> String {
    const ROW: f64 = 18.0;
    const TOP: f64 = 52.0;
    const LEFT: f64 = 190.0;
    const BARS: f64 = 440.0;
    const WIDTH: f64 = 720.0;
    let points = in_order(plot, names);
    let scale = Scale::of(&points);
    let x = |value: f64| LEFT + (value - scale.low) / scale.room * BARS;
    let height = TOP + ROW * points.len() as f64 + 12.0;
    let mut out = svg::begin(WIDTH, height, &format!("{}: {}", plot.name, plot.title));
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"40\" fill=\"#656d76\">{}; medians</text>\
         <path d=\"M{zero:.1} {TOP}V{:.1}\" stroke=\"#b0b7bf\"/>",
        escape(&plot.y),
        height - 12.0,
        zero = x(0.0),
    );
    for (at, point) in points.iter().enumerate() {
        let series = names.iter().position(|n| *n == point.series).unwrap_or(0);
        let label = match names.len() {
            1 => point.label.clone(),
            _ => format!("{} {}", point.label, point.series),
        };
        let (from, to) = (x(point.y.min(0.0)), x(point.y.max(0.0)));
        let top = TOP + ROW * at as f64;
        let (middle, text) = (top + ROW / 2.0, top + ROW / 2.0 + 4.0);
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{text:.1}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
            LEFT - 10.0,
            escape(&label),
            top + 3.0,
            (to - from).max(0.5),
            ROW - 6.0,
            svg::COLORS[series % MAX_CURVES],
        );
        if let Some([low, high]) = span(point) {
            let (low, high) = (x(low), x(high));
            let _ = write!(
                out,
                "<path d=\"M{low:.1} {middle:.1}H{high:.1}\" stroke=\"#1c2024\"/>"
            );
        }
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{text:.1}\">{}</text>",
            LEFT + BARS + 12.0,
            scale.text(point.y),
        );
    }
    out + "</svg>\n"
}

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
