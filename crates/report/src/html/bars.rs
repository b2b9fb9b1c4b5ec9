// SPDX-License-Identifier: GPL-2.0-or-later
//! Bars of a comparison as inline SVG: they need no script and print well.

use super::markup::escape;
use crate::table::cell_text;
use tiltyard_measure::{Better, Comparison, Row};

const LABEL_WIDTH: f64 = 235.0;
const BAR_WIDTH: f64 = 350.0;
const VALUE_WIDTH: f64 = 175.0;
/// Room for the total behind a bar of parts.
const STACKED_VALUE_WIDTH: f64 = 90.0;
const BAR_HEIGHT: f64 = 15.0;
const ROW_GAP: f64 = 14.0;
/// A label of two lines needs it, however few bars there are.
const LABEL_HEIGHT: f64 = 30.0;

/// One drawing for the rows of a group: a bar per scheduler, a whisker for the interval, all bars of a
/// row to the same scale.
pub fn group(comparison: &Comparison, rows: &[&Row]) -> String {
    let bars_height = BAR_HEIGHT * comparison.schedulers.len() as f64;
    let row_height = bars_height.max(LABEL_HEIGHT) + ROW_GAP;
    let height = row_height * rows.len() as f64;
    let width = LABEL_WIDTH + BAR_WIDTH + VALUE_WIDTH;
    let mut svg = format!(
        "<svg class=\"bars\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"bars per scheduler\">\n"
    );
    for (i, row) in rows.iter().enumerate() {
        let middle = (i as f64 + 0.5) * row_height;
        svg += &bars(comparison, row, middle - bars_height / 2.0);
    }
    svg + "</svg>\n"
}

fn bars(comparison: &Comparison, row: &Row, top: f64) -> String {
    let largest = row
        .cells
        .iter()
        .flatten()
        .map(|c| c.high)
        .fold(0.0, f64::max);
    let scale = if largest > 0.0 {
        BAR_WIDTH / largest
    } else {
        0.0
    };
    let direction = match row.better {
        Better::Higher => "higher is better",
        Better::Lower => "lower is better",
        Better::Neither => "",
    };
    let middle = top + BAR_HEIGHT * comparison.schedulers.len() as f64 / 2.0;
    let mut svg = format!(
        "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>\
         <text class=\"dim\" x=\"{x}\" y=\"{y2:.1}\" text-anchor=\"end\">{direction}</text>\n",
        escape(&row.metric),
        x = LABEL_WIDTH - 10.0,
        y = middle + if direction.is_empty() { 4.0 } else { -1.0 },
        y2 = middle + 12.0,
    );
    for (i, cell) in row.cells.iter().enumerate() {
        let y = top + BAR_HEIGHT * i as f64;
        let Some(cell) = cell else { continue };
        let length = (cell.median * scale).max(1.0);
        let (low, high) = (
            LABEL_WIDTH + cell.low * scale,
            LABEL_WIDTH + cell.high * scale,
        );
        let centre = y + BAR_HEIGHT / 2.0;
        svg += &format!(
            "<rect class=\"s{i}\" x=\"{LABEL_WIDTH}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"{:.1}\" rx=\"2\">\
             <title>{}</title></rect>",
            y + 1.0,
            BAR_HEIGHT - 2.0,
            escape(&comparison.schedulers[i]),
            i = i % 6,
        );
        if high - low > 1.0 {
            svg += &format!("<path class=\"whisker\" d=\"M{low:.1} {centre:.1}H{high:.1}\"/>");
        }
        svg += &format!(
            "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            (LABEL_WIDTH + length).max(high) + 6.0,
            centre + 4.0,
            escape(&cell_text(row, cell)),
        );
    }
    svg
}

/// A drawing as a file of its own, which has the page's style in it.
pub fn file(svg: &str) -> String {
    const STYLE: &str = "text { font: 12px system-ui, Helvetica, Arial, sans-serif; fill: #1c2024; } .dim { fill: #656d76; font-size: 10px; } \
        .whisker { stroke: #1c2024; stroke-width: 1.4; opacity: .75; } .s0 { fill: #0f766e; } .s1 { fill: #d08a1b; } .s2 { fill: #6d3fc4; } \
        .s3 { fill: #be2a4d; } .s4 { fill: #3b6fb5; } .s5 { fill: #6b7280; }";
    let with_space = svg.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1);
    with_space.replacen('>', &format!("><style>{STYLE}</style>"), 1)
}

/// A bar of parts, for instance where the switches came from; `parts`: name and amount. `largest` is the
/// total that fills the width, `total_text` stands behind the bar.
pub fn stacked(label: &str, parts: &[(&str, f64)], largest: f64, total_text: &str) -> String {
    let total: f64 = parts.iter().map(|(_, amount)| amount).sum();
    let width = LABEL_WIDTH + BAR_WIDTH + VALUE_WIDTH;
    let room = width - LABEL_WIDTH - STACKED_VALUE_WIDTH;
    let mut svg = format!(
        "<svg class=\"bars\" viewBox=\"0 0 {width} 26\" role=\"img\" aria-label=\"parts of {0}\">\
         <text x=\"{1}\" y=\"17\" text-anchor=\"end\">{0}</text>\n",
        escape(label),
        LABEL_WIDTH - 10.0
    );
    let mut x = LABEL_WIDTH;
    let present = parts
        .iter()
        .enumerate()
        .filter(|(_, (_, amount))| *amount > 0.0);
    for (i, (name, amount)) in present {
        let length = amount / largest * room;
        let share = tiltyard_measure::units::share(amount / total);
        svg += &format!(
            "<rect class=\"c{}\" x=\"{x:.1}\" y=\"3\" width=\"{length:.1}\" height=\"20\">\
             <title>{} {share}</title></rect>\n",
            i % 8,
            escape(name)
        );
        x += length;
    }
    svg + &format!(
        "<text class=\"value\" x=\"{:.1}\" y=\"17\">{}</text></svg>\n",
        x + 6.0,
        escape(total_text)
    )
}

/// The colours of [`stacked`] with their names.
pub fn legend(names: &[&str]) -> String {
    let items = names.iter().enumerate().map(|(i, name)| {
        format!(
            "<span><i class=\"key k{}\"></i>{}</span>",
            i % 8,
            escape(name)
        )
    });
    format!("<p class=\"legend\">{}</p>\n", items.collect::<String>())
}
