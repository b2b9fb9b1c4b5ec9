// SPDX-License-Identifier: GPL-2.0-or-later
//! Diagrams as SVG files, for papers and slides: light, with title, axes, units and legend, and without a script.

mod maps;

use std::fmt::Write;

use crate::html::charts::{Chart, ChartKind, Series};
use crate::html::markup::escape;
pub(crate) use maps::maps;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
/// Room for labels: left, top, right, bottom.
const ROOM: [f64; 4] = [70.0, 58.0, 18.0, 48.0];

/// Points of a curve beyond which some are left out: one for each two units of the diagram's width.
const MAX_POINTS: usize = 320;

/// Okabe and Ito's colours and those of schedulers, as on a light page.
pub(crate) const COLORS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#d6c400", "#4d4d4d",
];
const SCHEDULERS: [&str; 6] = [
    "#0f766e", "#d08a1b", "#6d3fc4", "#be2a4d", "#3b6fb5", "#6b7280",
];

/// What colour cannot show, dashes do.
const DASHES: [&str; 8] = [
    "",
    "9 4",
    "2 3",
    "9 3 2 3",
    "14 4",
    "4 4",
    "9 3 2 3 2 3",
    "1 5",
];

/// Places of percentiles on their axis, as charts::nines has them.
const NINES: [(f64, &str); 6] = [
    (std::f64::consts::LOG10_2, "50 %"),
    (1.0, "90 %"),
    (2.0, "99 %"),
    (3.0, "99.9 %"),
    (4.0, "99.99 %"),
    (5.0, "max"),
];

/// A range of values along one side of the diagram.
struct Axis {
    low: f64,
    high: f64,
    /// Where the values are drawn.
    from: f64,
    to: f64,
    log: bool,
}

impl Axis {
    fn place(&self, value: f64) -> f64 {
        let scaled = |v: f64| if self.log { v.max(1e-9).log10() } else { v };
        let (low, high) = (scaled(self.low), scaled(self.high));
        let share = (scaled(value) - low) / (high - low);
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Values with lines and labels: powers of ten, or about six round numbers.
    fn ticks(&self) -> Vec<(f64, String)> {
        if self.log {
            let powers = self.low.log10().round() as i32..=self.high.log10().round() as i32;
            return powers
                .map(|p| 10f64.powi(p))
                .map(|v| (v, short(v)))
                .collect();
        }
        let raw = (self.high - self.low) / 6.0;
        let power = 10f64.powf(raw.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|f| f * power);
        let step = steps.into_iter().find(|s| *s >= raw).unwrap_or(raw);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        let values = (first..=last).map(|k| k as f64 * step);
        values.map(|v| (v, short(v))).collect()
    }
}

/// At most four significant digits.
fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let (size, prefix) = match value.abs() {
        v if v >= 1e9 => (1e9, " G"),
        v if v >= 1e6 => (1e6, " M"),
        _ => (1.0, ""),
    };
    let rounded: f64 = format!("{:.3e}", value / size).parse().unwrap_or(value);
    format!("{rounded}{prefix}")
}

/// The head of a file, with its title.
pub(crate) fn begin(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"system-ui, Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"#1c2024\">\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\
         <text x=\"{}\" y=\"20\" font-size=\"{}\" font-weight=\"600\">{}</text>\n",
        ROOM[0],
        fitting(title, 15.0, width - ROOM[0]),
        escape(title)
    )
}

/// The largest font size, at most `size`, at which the text fits into `room`.
fn fitting(text: &str, size: f64, room: f64) -> f64 {
    /// Average width of a letter, as a fraction of the font size.
    const WIDTH: f64 = 0.56;
    let most = room / (WIDTH * text.chars().count().max(1) as f64);
    (10.0 * most.min(size)).floor() / 10.0
}

/// The diagram as a file.
pub(crate) fn chart(chart: &Chart) -> String {
    let [left, top, right, bottom] = ROOM;
    let (x, y) = axes(chart, (left, WIDTH - right), (HEIGHT - bottom, top));
    let mut svg = begin(WIDTH, HEIGHT, &chart.title);
    grid(&mut svg, chart, &x, &y);
    legend(&mut svg, chart);
    for (at, series) in chart.series.iter().enumerate() {
        curve(&mut svg, chart, series, at, &x, &y);
    }
    svg + "</svg>\n"
}

fn axes(chart: &Chart, across: (f64, f64), up: (f64, f64)) -> (Axis, Axis) {
    let log = chart.kind == ChartKind::Percentiles;
    let values = || {
        chart
            .series
            .iter()
            .flat_map(|s| s.y.iter().flatten().copied())
    };
    let lowest = values().fold(0.0, f64::min);
    let (low, high) = match chart.kind {
        ChartKind::Percentiles => {
            let least = values().filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
            let most = chart.y_max.max(1e-6);
            (
                power_of_ten(least.min(most), f64::floor),
                power_of_ten(most, f64::ceil),
            )
        }
        _ => (
            lowest,
            if chart.y_max > lowest {
                chart.y_max * 1.04
            } else {
                lowest + 1.0
            },
        ),
    };
    let first = chart.x.first().copied().unwrap_or(0.0).min(0.0);
    let x = Axis {
        low: first,
        high: if chart.x_max > first {
            chart.x_max
        } else {
            first + 1.0
        },
        from: across.0,
        to: across.1,
        log: false,
    };
    let high = if log && high <= low { low * 10.0 } else { high };
    let y = Axis {
        low,
        high,
        from: up.0,
        to: up.1,
        log,
    };
    (x, y)
}

fn power_of_ten(value: f64, round: fn(f64) -> f64) -> f64 {
    10f64.powf(round(value.log10()))
}

/// Lines, their values, and what the axes show.
fn grid(svg: &mut String, chart: &Chart, x: &Axis, y: &Axis) {
    let x_ticks: Vec<(f64, String)> = match chart.kind {
        ChartKind::Percentiles => NINES.map(|(at, name)| (at, name.to_owned())).to_vec(),
        _ => x.ticks(),
    };
    for (value, label) in x_ticks {
        let at = x.place(value);
        let _ = writeln!(
            svg,
            "<path d=\"M{at:.1} {:.1}V{:.1}\" stroke=\"#e2e4e8\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#656d76\">{label}</text>",
            y.from,
            y.to,
            y.from + 17.0,
        );
    }
    for (value, label) in y.ticks() {
        let at = y.place(value);
        let _ = writeln!(
            svg,
            "<path d=\"M{:.1} {at:.1}H{:.1}\" stroke=\"#e2e4e8\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#656d76\">{label}</text>",
            x.from,
            x.to,
            x.from - 7.0,
            at + 4.0,
        );
    }
    let (middle, centre) = ((x.from + x.to) / 2.0, (y.from + y.to) / 2.0);
    let _ = writeln!(
        svg,
        "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text transform=\"translate(16 {centre:.1}) rotate(-90)\" text-anchor=\"middle\"{}>{}</text>",
        HEIGHT - 10.0,
        escape(&chart.x_label),
        size_if_small(&chart.y_label),
        escape(&chart.y_label),
    );
}

/// The font size of a y label that is too long for the usual one.
fn size_if_small(label: &str) -> String {
    const USUAL: f64 = 12.0;
    match fitting(label, USUAL, HEIGHT - ROOM[1] - ROOM[3]) {
        USUAL => String::new(),
        size => format!(" font-size=\"{size}\""),
    }
}

fn color(series: &Series) -> &'static str {
    match series.scheduler {
        true => SCHEDULERS[series.color % SCHEDULERS.len()],
        false => COLORS[series.color % COLORS.len()],
    }
}

/// In one row, or in two if one is too short.
fn legend(svg: &mut String, chart: &Chart) {
    // About 6.6 units per letter at this size.
    let width = |series: &Series| 46.0 + 6.6 * series.label.chars().count() as f64;
    let all: f64 = chart.series.iter().map(width).sum();
    let fits = all <= WIDTH - ROOM[0];
    let (mut at, mut y) = (ROOM[0], if fits { 40 } else { 34 });
    for (i, series) in chart.series.iter().enumerate() {
        if !fits && i == chart.series.len().div_ceil(2) {
            (at, y) = (ROOM[0], y + 15);
        }
        let dashes = if chart.kind == ChartKind::Points {
            ""
        } else {
            DASHES[i % DASHES.len()]
        };
        let _ = writeln!(
            svg,
            "<path d=\"M{at:.1} {y}h24\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/><text x=\"{:.1}\" y=\"{}\">{}</text>",
            color(series),
            at + 30.0,
            y + 4,
            escape(&series.label),
        );
        at += width(series);
    }
}

fn curve(svg: &mut String, chart: &Chart, series: &Series, at: usize, x: &Axis, y: &Axis) {
    let color = color(series);
    let every = series.y.len().div_ceil(MAX_POINTS).max(1);
    let every = if chart.kind == ChartKind::Points {
        1
    } else {
        every
    };
    let place = |values: &[Option<f64>]| -> Vec<(f64, f64)> {
        let points = chart.x.iter().zip(values);
        let points = points.filter_map(|(px, value)| Some((x.place(*px), y.place((*value)?))));
        let points: Vec<(f64, f64)> = points.collect();
        let last = points.len().saturating_sub(1);
        let kept = points
            .iter()
            .enumerate()
            .filter(|(i, _)| i % every == 0 || *i == last);
        kept.map(|(_, point)| *point).collect()
    };
    if let Some([low, high]) = &series.band {
        let mut edge = place(high);
        edge.extend(place(low).into_iter().rev());
        let _ = writeln!(
            svg,
            "<path d=\"{}Z\" fill=\"{color}\" fill-opacity=\"0.2\"/>",
            path(&edge, false)
        );
    }
    let points = place(&series.y);
    if chart.kind == ChartKind::Points {
        let dots: String = points
            .iter()
            .map(|(px, py)| format!("M{px:.1} {py:.1}h0"))
            .collect();
        let _ = writeln!(
            svg,
            "<path d=\"{dots}\" stroke=\"{color}\" stroke-width=\"5\" stroke-linecap=\"round\"/>"
        );
        return;
    }
    let _ = writeln!(
        svg,
        "<path d=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.8\" stroke-dasharray=\"{}\"/>",
        path(&points, chart.kind == ChartKind::Steps),
        DASHES[at % DASHES.len()],
    );
}

fn path(points: &[(f64, f64)], steps: bool) -> String {
    let mut path = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let _ = match (i, steps) {
            (0, _) => write!(path, "M{x:.1} {y:.1}"),
            (_, true) => write!(path, "H{x:.1}V{y:.1}"),
            (_, false) => write!(path, "L{x:.1} {y:.1}"),
        };
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(kind: ChartKind) -> Chart {
        let series = |label: &str, color| Series {
            label: label.to_owned(),
            color,
            scheduler: false,
            y: vec![Some(1.0), None, Some(3.0)],
            band: None,
        };
        Chart {
            id: "c".into(),
            title: "CPU time <fifo>".into(),
            kind,
            group: "g".into(),
            x: vec![0.0, 1.0, 2.0],
            x_label: "time in s".into(),
            y_label: "CPU time in s".into(),
            x_max: 2.0,
            y_max: 3.0,
            series: vec![series("a & b", 0), series("c", 1)],
        }
    }

    #[test]
    fn every_kind_has_its_axes_units_and_names() {
        for kind in [
            ChartKind::Curves,
            ChartKind::Steps,
            ChartKind::Points,
            ChartKind::Percentiles,
        ] {
            let svg = chart(&sample(kind));
            for text in [
                "CPU time &lt;fifo&gt;",
                "time in s",
                "CPU time in s",
                "a &amp; b",
            ] {
                assert!(svg.contains(text), "{kind:?}: no {text} in {svg}");
            }
            assert_eq!(svg.matches("<svg ").count(), 1);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn a_curve_begins_and_ends_where_its_values_are() {
        let svg = chart(&sample(ChartKind::Curves));
        // 1 of 3.12 up from the bottom at the left, 3 of 3.12 at the right end.
        assert!(svg.contains("M70.0 257.8L702.0 69.3"), "{svg}");
    }

    #[test]
    fn nothing_to_draw_is_no_error() {
        let mut empty = sample(ChartKind::Curves);
        (empty.x, empty.y_max, empty.x_max) = (Vec::new(), 0.0, 0.0);
        empty.series.clear();
        for kind in [ChartKind::Curves, ChartKind::Percentiles] {
            empty.kind = kind;
            let svg = chart(&empty);
            assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{svg}");
        }
    }

    #[test]
    fn ticks_are_round_numbers() {
        let axis = |low, high, log| Axis {
            low,
            high,
            from: 0.0,
            to: 1.0,
            log,
        };
        let labels = |axis: Axis| axis.ticks().into_iter().map(|(_, l)| l).collect::<Vec<_>>();
        assert_eq!(
            labels(axis(0.0, 30.0, false)),
            ["0", "5", "10", "15", "20", "25", "30"]
        );
        assert_eq!(
            labels(axis(0.001, 100.0, true)),
            ["0.001", "0.01", "0.1", "1", "10", "100"]
        );
    }
}
