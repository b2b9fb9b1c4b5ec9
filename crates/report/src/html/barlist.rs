// SPDX-License-Identifier: GPL-2.0-or-later
//! Bars of a figure as rows of a table: any number of them, labels readable on paper and on a phone, no script.

use super::charts::MAX_CURVES;
use super::markup::escape;
use crate::findings::{Plot, PlotPoint};

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

/// The table; `names` are those of the series. Bars of one series stand in the order of their size.
pub fn render(plot: &Plot, names: &[&str]) -> String {
    let mut points: Vec<&PlotPoint> = plot.points.iter().collect();
    if names.len() == 1 {
        points.sort_by(|a, b| b.y.total_cmp(&a.y));
    }
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
