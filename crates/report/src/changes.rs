// SPDX-License-Identifier: GPL-2.0-or-later
//! Two results on a terminal: what changed from A to B, and what gates say of it.

use tiltyard_measure::gate::{Gate, Ruling};
use tiltyard_measure::significance::{ALPHA, smallest};
use tiltyard_measure::{Change, Interval, Mark, Pair, Row, Trial, Unit, units};

use crate::table::{LEAST_WIDTH, cell_text, headlines, wrap};

/// What a table has besides names, medians, changes and marks.
#[derive(Clone, Copy)]
struct Layout {
    /// Groups have a column of their own, else lines.
    group_column: bool,
    /// The spread of either side.
    spread: bool,
    delta: bool,
    interval: bool,
    p: bool,
    /// Metrics' names may break.
    breaks: bool,
}

const FULL: Layout = Layout {
    group_column: true,
    spread: true,
    delta: true,
    interval: true,
    p: true,
    breaks: false,
};

const SHORT: Layout = Layout {
    group_column: false,
    spread: false,
    delta: false,
    interval: true,
    p: true,
    breaks: true,
};

/// The first one that fits is taken, else the last.
const LAYOUTS: [Layout; 6] = [
    FULL,
    Layout {
        spread: false,
        ..FULL
    },
    Layout {
        group_column: false,
        spread: false,
        ..FULL
    },
    SHORT,
    Layout { p: false, ..SHORT },
    Layout {
        interval: false,
        ..SHORT
    },
];

/// A metric's name does not become narrower than this.
const LEAST_NAME: usize = 12;

/// Blanks between columns.
const GAP: usize = 2;

/// What is compared: the name of each side, and what it is.
pub fn heading(sides: [(&str, &str); 2], width: usize) -> String {
    let about = |text: &str| wrap(text, width.max(LEAST_WIDTH) - 3, "   ");
    let [(a, about_a), (b, about_b)] = sides;
    match about_a == about_b {
        true => format!("A  {a}\nB  {b}\n{}", about(&format!("both: {about_a}"))),
        false => format!("A  {a}\n{}B  {b}\n{}", about(about_a), about(about_b)),
    }
}

/// The table and how to read it; `all`: every figure, else the headlines of the busiest apps and of the machine.
pub fn render(pair: &Pair, width: usize, all: bool) -> String {
    let width = width.max(LEAST_WIDTH);
    let rows: Vec<&Row> = pair.changes.iter().map(|change| &change.row).collect();
    let (shown, apps_left_out) = match all {
        true => ((0..rows.len()).collect(), 0),
        false => headlines(&rows),
    };
    let shown: Vec<&Change> = shown.iter().map(|i| &pair.changes[*i]).collect();
    let marked = |change: &&Change| !matches!(change.mark, Mark::Same | Mark::Untold);
    let hidden = pair.changes.iter().filter(marked).count()
        - shown.iter().filter(|change| marked(change)).count();
    let (layout, mut text) = table(pair, &shown, width);
    let mut more = Vec::new();
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    if apps_left_out > 0 {
        let s = plural(apps_left_out);
        more.push(format!("{apps_left_out} more app{s} with less CPU time"));
    }
    if hidden > 0 {
        more.push(format!(
            "{hidden} more metric{} that changed",
            plural(hidden)
        ));
    }
    if !more.is_empty() {
        let more = format!("{}: --all shows them.", more.join(", "));
        text += &format!("\n{}", wrap(&more, width, ""));
    }
    text + &format!("\n{}", wrap(&note(pair, layout), width, ""))
}

/// The table in the richest layout that fits.
fn table(pair: &Pair, changes: &[&Change], width: usize) -> (Layout, String) {
    let has_test = pair.trial == Trial::Tested;
    let longest =
        |texts: &mut dyn Iterator<Item = &str>| texts.map(|t| t.chars().count()).max().unwrap_or(0);
    let name = longest(&mut changes.iter().map(|c| c.row.metric.as_str()));
    let group = longest(&mut changes.iter().map(|c| c.row.group.as_str()));
    let mut best = None;
    for layout in LAYOUTS {
        let layout = Layout {
            delta: layout.delta && has_test,
            interval: layout.interval && has_test,
            p: layout.p && has_test,
            ..layout
        };
        let mut cells = vec![header(layout)];
        cells.extend(changes.iter().map(|change| cells_of(change, layout)));
        let column = |at: usize| longest(&mut cells.iter().map(|line| line[at].as_str()));
        let widths: Vec<usize> = (0..cells[0].len()).map(column).collect();
        let taken: usize = widths.iter().map(|w| w + GAP).sum();
        let before = if layout.group_column { group + GAP } else { 1 };
        let room = width.saturating_sub(taken + before);
        let least = if layout.breaks {
            name.min(LEAST_NAME)
        } else {
            name
        };
        best = Some((layout, cells, widths, room.clamp(least, name.max(least))));
        if room >= least {
            break;
        }
    }
    let (layout, cells, widths, name_width) = best.expect("there are layouts");
    let lines = Lines {
        group_width: layout.group_column.then_some(group),
        name_width,
        widths,
    };
    (layout, lines.text(changes, &cells))
}

fn header(layout: Layout) -> Vec<String> {
    let mut header = vec!["A", "B", "change"];
    header.extend(layout.interval.then_some("interval"));
    header.extend(layout.delta.then_some("delta"));
    header.extend(layout.p.then_some("p"));
    header.push("");
    header.into_iter().map(str::to_owned).collect()
}

fn cells_of(change: &Change, layout: Layout) -> Vec<String> {
    let row = &change.row;
    let cell = |cell: Option<&Interval>| match cell {
        None => "not measured".to_owned(),
        Some(cell) if layout.spread => cell_text(row, cell),
        Some(cell) => row.unit.write(cell.median),
    };
    let (by, interval) = change_and_interval(change);
    let mut cells = vec![cell(change.a()), cell(change.b()), by];
    cells.extend(layout.interval.then_some(interval));
    if layout.delta {
        cells.push(
            change
                .delta()
                .map_or(String::new(), |delta| format!("{delta:.2}")),
        );
    }
    if layout.p {
        cells.push(change.p_adjusted.map_or(String::new(), probability));
    }
    cells.push(word(change.mark).to_owned());
    cells
}

/// A table as it is laid out.
struct Lines {
    /// `None` where groups stand on lines of their own.
    group_width: Option<usize>,
    name_width: usize,
    /// Of all columns behind the name.
    widths: Vec<usize>,
}

impl Lines {
    fn text(&self, changes: &[&Change], cells: &[Vec<String>]) -> String {
        let mut text = self.line("", "", &cells[0]);
        let mut group = "";
        for (change, cells) in changes.iter().zip(&cells[1..]) {
            let row = &change.row;
            let mut shown = if row.group == group { "" } else { &row.group };
            group = &row.group;
            if self.group_width.is_none() && !shown.is_empty() {
                text += &format!("{shown}\n");
                shown = "";
            }
            let name = wrap(&row.metric, self.name_width, "");
            for (i, part) in name.lines().enumerate() {
                text += &match i {
                    0 => self.line(shown, part, cells),
                    _ => self.line("", part, &[]),
                };
            }
        }
        text
    }

    fn line(&self, group: &str, name: &str, cells: &[String]) -> String {
        let mut line = match self.group_width {
            Some(width) => format!("{group:<width$}  "),
            None => " ".to_owned(),
        };
        let width = self.name_width;
        line += &format!("{name:<width$}");
        let mark = self.widths.len() - 1;
        for (at, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
            line += &match at == mark {
                true => format!("  {cell}"),
                false => format!("  {cell:>width$}"),
            };
        }
        format!("{}\n", line.trim_end())
    }
}

pub(crate) fn word(mark: Mark) -> &'static str {
    match mark {
        Mark::Better => "better",
        Mark::Worse => "worse",
        Mark::Changed => "changed",
        Mark::Same => "~",
        Mark::Untold => "",
    }
}

fn probability(p: f64) -> String {
    match p {
        p if p < 0.0005 => "<0.001".to_owned(),
        p => format!("{p:.3}"),
    }
}

/// "+14.2 %" and "[+13.9, +15.1]"; of a figure that is 0 in A, of which nothing is a part, the amount.
fn change_and_interval(change: &Change) -> (String, String) {
    let Some(part) = change.relative() else {
        return shift_and_interval(change);
    };
    let ends = [part.low, part.high].map(units::signed_percent);
    (units::change(part.median), format!("[{}]", ends.join(", ")))
}

/// "+3.2 us" and "[+2.9, +3.3]".
fn shift_and_interval(change: &Change) -> (String, String) {
    let Some(shift) = change.shift else {
        return Default::default();
    };
    let amount = |value| amount(change.row.unit, value);
    let by = amount(shift.median);
    // The unit need not stand there three times, where it is the same.
    let unit = by.rsplit(' ').next().unwrap_or_default().to_owned();
    let bare = |value| {
        let text = amount(value);
        let bare = text.strip_suffix(&format!(" {unit}")).map(str::to_owned);
        bare.unwrap_or(text)
    };
    let ends = [shift.low, shift.high].map(bare);
    (by, format!("[{}]", ends.join(", ")))
}

/// A difference in the figure's unit, with its sign.
pub(crate) fn amount(unit: Unit, value: f64) -> String {
    let sign = if value > 0.0 { "+" } else { "" };
    match unit {
        Unit::Share if value == 0.0 => "0 points".to_owned(),
        Unit::Share if value.abs() < 5e-7 => format!("{:+.0e} points", value * 100.0),
        Unit::Share if value.abs() < 0.001 => format!("{:+.4} points", value * 100.0),
        Unit::Share => format!("{:+.2} points", value * 100.0),
        unit => format!("{sign}{}", unit.write(value)),
    }
}

/// How to read the table.
fn note(pair: &Pair, layout: Layout) -> String {
    let [a, b] = pair.runs;
    match pair.trial {
        Trial::Exact => {
            let runs = match pair.runs {
                [1, 1] => "One deterministic run each".to_owned(),
                [a, b] => format!(
                    "All {a} runs of A are identical and all {b} runs of B are identical, so each side counts as one run"
                ),
            };
            format!(
                "{runs}: no interval and no test. Metrics that differ by 1 % or more are marked; other seeds may differ."
            )
        }
        Trial::TooFew => format!(
            "{a} and {b} runs are too few: all of one side lie above all of the other by chance {} times in \
             100. So nothing is marked; at least four runs of each are needed.",
            (smallest(a, b) * 100.0).round()
        ),
        Trial::Tested => {
            let coverage = pair
                .changes
                .iter()
                .filter_map(|c| Some(c.shift?.coverage_ppm))
                .min();
            let coverage = f64::from(coverage.unwrap_or(0)) / 1e4;
            let (mut interval, mut delta, mut left_out) = (String::new(), "", "");
            if layout.interval {
                interval = format!(", and its {coverage:.1} % interval");
            } else {
                left_out = " Wider terminals show intervals.";
            }
            if layout.delta {
                delta = " delta: Cliff's delta, 1 or -1 if the runs of the two do not overlap.";
            }
            if pair.tests() == 0 {
                return format!("{a} and {b} runs; no metric differs between any two of them.");
            }
            let figures = match pair.tests() {
                1 => "the one metric".to_owned(),
                tests => format!("the {tests} metrics"),
            };
            format!(
                "Medians of {a} and {b} runs. change: B against A, median over all pairs of runs (Hodges-Lehmann){interval}.{delta} \
                 Metrics that differ by 1 % or more with p up to {ALPHA} are marked: Mann-Whitney, corrected for {figures} tested \
                 (Benjamini-Hochberg).{left_out}"
            )
        }
    }
}

/// What gates say: below each limit the figures that it names.
pub fn gates(gates: &[Gate], rulings: &[Ruling], pair: &Pair) -> String {
    let mut text = String::new();
    let mut last = None;
    for ruling in rulings {
        let gate = &gates[ruling.gate];
        if last.replace(ruling.gate) != Some(ruling.gate) {
            text += &format!("{}\n", gate.text);
        }
        let state = match (ruling.fired, ruling.beyond) {
            (true, _) => "FIRED",
            (false, true) => "holds (may be chance)",
            (false, false) => "holds",
        };
        let change = &pair.changes[ruling.change];
        text += &format!(
            "  {state}  {}  {}\n",
            change.row.name,
            told(change, gate, ruling)
        );
    }
    text
}

/// "+14.2 % [+13.9, +15.1], p 0.008": a change as a gate sees it.
pub fn told(change: &Change, gate: &Gate, ruling: &Ruling) -> String {
    let (by, interval) = match gate.is_relative() {
        true => change_and_interval(change),
        false => shift_and_interval(change),
    };
    match ruling.p_adjusted {
        Some(p) => format!("{by} {interval}, p {}", probability(p)),
        None => by,
    }
}
