// SPDX-License-Identifier: GPL-2.0-or-later
//! Maps of CPUs over time as SVG files.

use std::fmt::Write;

use super::{Axis, HEIGHT, ROOM, WIDTH, begin, short};
use crate::html::maps::{Maps, Run};

/// ColorBrewer's YlGnBu and Oranges, as on a light page, with white for none.
const THREADS: [&str; 9] = [
    "#ffffff", "#edf8b1", "#c7e9b4", "#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#253494",
    "#081d58",
];
const WASTED: [&str; 9] = [
    "#ffffff", "#feedde", "#fdd0a2", "#fdae6b", "#fd8d3c", "#f16913", "#d94801", "#a63603",
    "#7f2704",
];

/// What a map is of, and how its values become colours.
struct Scale {
    colors: [&'static str; 9],
    /// From 0, the first colour, to 1, the last.
    level: fn(value: f64, most: f64) -> f64,
    most: f64,
    /// In the legend.
    ticks: Vec<f64>,
    unit: &'static str,
}

impl Scale {
    fn color(&self, value: f64) -> usize {
        ((self.level)(value, self.most).clamp(0.0, 1.0) * 8.0).round() as usize
    }
}

/// Each map with its title.
pub(crate) fn maps<'a>(maps: &'a Maps) -> impl Iterator<Item = (String, String)> + use<'a> {
    maps.runs.iter().flat_map(move |run| {
        let powers = (0..14).map(|power| f64::from(1 << power));
        let threads = Scale {
            colors: THREADS,
            level: |value, most| value.ln_1p() / most.ln_1p(),
            most: maps.most_threads,
            ticks: powers.take_while(|v| *v <= maps.most_threads).collect(),
            unit: "threads",
        };
        let wasted = Scale {
            colors: WASTED,
            level: |value, most| value / most,
            most: 100.0,
            ticks: vec![0.0, 50.0, 100.0],
            unit: "% of the time",
        };
        let rows = [
            ("Threads per CPU", Some(&run.threads), threads),
            ("Idle while tasks wait", run.wasted.as_ref(), wasted),
        ];
        rows.into_iter().filter_map(move |(title, rows, scale)| {
            let title = format!("{title}: {}", run.scheduler);
            let svg = map(maps, run, &rows?.0, &scale, &title);
            Some((title, svg))
        })
    })
}

fn map(maps: &Maps, run: &Run, rows: &[Vec<f64>], scale: &Scale, title: &str) -> String {
    let [left, top, right, bottom] = ROOM;
    let longest_ns = maps.runs.iter().map(|run| run.duration_ns).max();
    let x = Axis {
        low: 0.0,
        high: longest_ns.unwrap_or(0).max(1) as f64 / 1e9,
        from: left,
        to: WIDTH - right,
        log: false,
    };
    let y = Axis {
        low: 0.0,
        high: rows.len().max(1) as f64,
        from: top,
        to: HEIGHT - bottom,
        log: false,
    };
    let mut svg = begin(WIDTH, HEIGHT, title);
    cells(&mut svg, run, rows, scale, &x, &y);
    frame(&mut svg, maps, &x, &y);
    legend(&mut svg, scale);
    svg + "</svg>\n"
}

/// One path for each colour: cells side by side are one piece of it.
fn cells(svg: &mut String, run: &Run, rows: &[Vec<f64>], scale: &Scale, x: &Axis, y: &Axis) {
    let mut paths: [String; 9] = Default::default();
    let seconds = |bucket: usize| (bucket as u64 * run.width_ns).min(run.duration_ns) as f64 / 1e9;
    for (at, row) in rows.iter().enumerate() {
        let (top, high) = (y.place(at as f64), y.place(1.0) - y.place(0.0));
        let mut first = 0;
        for same in row.chunk_by(|a, b| scale.color(*a) == scale.color(*b)) {
            let (from, to) = (
                x.place(seconds(first)),
                x.place(seconds(first + same.len())),
            );
            let _ = write!(
                paths[scale.color(same[0])],
                "M{from:.2} {top:.2}H{to:.2}v{high:.2}H{from:.2}z"
            );
            first += same.len();
        }
    }
    for (color, path) in scale.colors.iter().zip(paths).skip(1) {
        if !path.is_empty() {
            let _ = writeln!(
                svg,
                "<path shape-rendering=\"crispEdges\" fill=\"{color}\" d=\"{path}\"/>"
            );
        }
    }
}

/// Times, numbers of CPUs, and lines where nodes begin.
fn frame(svg: &mut String, maps: &Maps, x: &Axis, y: &Axis) {
    let (wide, high) = (x.to - x.from, y.to - y.from);
    let _ = writeln!(
        svg,
        "<path d=\"M{} {}h{wide}v{high}h-{wide}z\" fill=\"none\" stroke=\"#656d76\"/>",
        x.from, y.from
    );
    for (value, label) in x.ticks() {
        let at = x.place(value);
        let _ = writeln!(
            svg,
            "<path d=\"M{at:.1} {}v4\" stroke=\"#656d76\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#656d76\">{label}</text>",
            y.to,
            y.to + 17.0,
        );
    }
    let every = maps.cpus.len().div_ceil(16).next_power_of_two();
    for (row, cpu) in maps.cpus.iter().enumerate().step_by(every) {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#656d76\">{cpu}</text>",
            x.from - 7.0,
            y.place(row as f64 + 0.5) + 4.0,
        );
    }
    for (row, _) in maps.nodes.iter().skip(1) {
        let at = y.place(*row as f64);
        let _ = writeln!(
            svg,
            "<path d=\"M{:.1} {at:.1}h{:.1}\" stroke=\"#1c2024\"/>",
            x.from - 5.0,
            wide + 10.0
        );
    }
    let (middle, centre) = ((x.from + x.to) / 2.0, (y.from + y.to) / 2.0);
    let cpus = match maps.nodes.len() {
        0 => "CPU".to_owned(),
        nodes => format!("CPU, {nodes} nodes"),
    };
    let _ = writeln!(
        svg,
        "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">time in s</text>\
         <text transform=\"translate(16 {centre:.1}) rotate(-90)\" text-anchor=\"middle\">{cpus}</text>",
        HEIGHT - 10.0,
    );
}

/// The colours with some values, above the right end of the map.
fn legend(svg: &mut String, scale: &Scale) {
    let (left, step) = (WIDTH - ROOM[2] - 290.0, 22.0);
    for (at, color) in scale.colors.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<path d=\"M{:.1} 28h{step}v10h-{step}z\" fill=\"{color}\" stroke=\"#656d76\" stroke-width=\"0.3\"/>",
            left + at as f64 * step
        );
    }
    let mut free = 0.0;
    for tick in &scale.ticks {
        let at = left + ((scale.level)(*tick, scale.most) * 8.0 + 0.5) * step;
        // About 6 units a digit at this size.
        let half = 3.0 * short(*tick).len() as f64;
        if at - half > free {
            let _ = writeln!(
                svg,
                "<text x=\"{at:.1}\" y=\"50\" text-anchor=\"middle\" font-size=\"10\" fill=\"#656d76\">{}</text>",
                short(*tick)
            );
            free = at + half + 4.0;
        }
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"37\" font-size=\"11\" fill=\"#656d76\">{}</text>",
        left + 9.0 * step + 6.0,
        scale.unit
    );
}
