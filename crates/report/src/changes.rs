// SPDX-License-Identifier: GPL-2.0-or-later
//! Two results on a terminal: what changed from A to B, and what gates say of it.

use comfy_table::CellAlignment;
use tiltyard_measure::gate::{Gate, Ruling};
use tiltyard_measure::significance::{ALPHA, smallest};
use tiltyard_measure::{Change, Interval, Mark, Pair, Row, Trial, Unit, units};

use crate::table::{bare_table, cell_text, headlines, lines, wrap};

/// Columns from which on Cliff's delta has room, and the intervals of both sides.
const WIDE: [usize; 2] = [90, 120];

/// "A  base.json#ule", and below it what that is.
pub fn heading(label: &str, name: &str, about: &str, width: usize) -> String {
    format!("{label}  {name}\n{}", wrap(about, width - 3, "   "))
}

/// The table and how to read it; `all`: every figure, else the headlines of the busiest apps and of the machine.
pub fn render(pair: &Pair, width: usize, all: bool) -> String {
    let rows: Vec<&Row> = pair.changes.iter().map(|change| &change.row).collect();
    let (shown, apps_left_out) = match all {
        true => ((0..rows.len()).collect(), 0),
        false => headlines(&rows),
    };
    let shown: Vec<&Change> = shown.iter().map(|i| &pair.changes[*i]).collect();
    let marked = |change: &&Change| !matches!(change.mark, Mark::Same | Mark::Untold);
    let hidden = pair.changes.iter().filter(marked).count()
        - shown.iter().filter(|change| marked(change)).count();
    let mut text = table(pair, &shown, width);
    let mut more = Vec::new();
    if apps_left_out > 0 {
        more.push(format!("{apps_left_out} more apps with less CPU time"));
    }
    if hidden > 0 {
        more.push(format!("{hidden} more figures that changed"));
    }
    if !more.is_empty() {
        let more = format!("{}: --all shows them.", more.join(", "));
        text += &format!("\n{}", wrap(&more, width, ""));
    }
    text + &format!("\n{}", wrap(&note(pair, width), width, ""))
}

fn table(pair: &Pair, changes: &[&Change], width: usize) -> String {
    let (has_test, has_delta) = (pair.trial == Trial::Tested, width >= WIDE[0]);
    let mut table = bare_table(width);
    let mut header = vec!["", "", "A", "B", "change"];
    header.extend(has_test.then_some("interval"));
    header.extend((has_test && has_delta).then_some("delta"));
    header.extend(has_test.then_some("p"));
    header.push("");
    let columns = header.len();
    table.set_header(header);
    let mut group = "";
    for change in changes {
        let row = &change.row;
        let named = if row.group == group { "" } else { &row.group };
        group = &row.group;
        let cell = |cell: Option<&Interval>| match cell {
            None => "none".to_owned(),
            Some(cell) if width >= WIDE[1] => cell_text(row, cell),
            Some(cell) => row.unit.write(cell.median),
        };
        let (by, interval) = change_and_interval(change);
        let mut line = vec![
            named.to_owned(),
            row.metric.clone(),
            cell(change.a()),
            cell(change.b()),
            by,
        ];
        if has_test {
            line.push(interval);
            if has_delta {
                line.push(
                    change
                        .delta()
                        .map_or(String::new(), |delta| format!("{delta:.2}")),
                );
            }
            line.push(change.p_adjusted.map_or(String::new(), probability));
        }
        line.push(word(change.mark).to_owned());
        table.add_row(line);
    }
    for at in 2..columns - 1 {
        let column = table.column_mut(at).expect("the header has it");
        column.set_cell_alignment(CellAlignment::Right);
    }
    lines(table)
}

fn word(mark: Mark) -> &'static str {
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

/// "+14.2 %" and "[+13.9, +15.1]"; of a figure that is 0 in A, of which nothing is a part, "+3.2 us".
fn change_and_interval(change: &Change) -> (String, String) {
    match (change.relative(), change.shift) {
        (Some(part), _) => {
            let ends = [part.low, part.high].map(units::signed_percent);
            (units::change(part.median), format!("[{}]", ends.join(", ")))
        }
        (None, Some(shift)) => {
            let amount = |value| amount(change.row.unit, value);
            let ends = [shift.low, shift.high].map(amount);
            (amount(shift.median), format!("[{}]", ends.join(", ")))
        }
        (None, None) => (String::new(), String::new()),
    }
}

/// A difference in the figure's unit, with its sign.
fn amount(unit: Unit, value: f64) -> String {
    let sign = if value > 0.0 { "+" } else { "" };
    match unit {
        Unit::Share if value == 0.0 => "0 points".to_owned(),
        Unit::Share => format!("{:+.2} points", value * 100.0),
        unit => format!("{sign}{}", unit.write(value)),
    }
}

/// How to read the table.
fn note(pair: &Pair, width: usize) -> String {
    let [a, b] = pair.runs;
    match pair.trial {
        Trial::Exact => "One run each with the same draws, which come out the same every time: no interval and no test. Marked is \
                         what differs by 1 % or more; with other draws it may be otherwise."
            .to_owned(),
        Trial::TooFew => format!(
            "{a} and {b} runs are too few to tell a difference from chance, which gives the largest there can be {} times in 100. \
             So nothing is marked; four runs of each are the fewest that can tell.",
            (smallest(a, b) * 100.0).round()
        ),
        Trial::Tested => {
            let coverage = pair.changes.iter().filter_map(|c| Some(c.shift?.coverage_ppm)).min();
            let delta = match width >= WIDE[0] {
                true => " delta: Cliff's, 1 or -1 where the runs of the two do not mix.",
                false => "",
            };
            format!(
                "Medians of {a} and {b} runs. change: B against A, median over all pairs of runs (Hodges-Lehmann), and its {:.1} % \
                 interval.{delta} p: Mann-Whitney, corrected for the {} figures tested (Benjamini-Hochberg). Marked is what has p up to \
                 {ALPHA} and differs by 1 % or more.",
                f64::from(coverage.unwrap_or(0)) / 1e4,
                pair.tests(),
            )
        }
    }
}

/// What gates say, a line for each figure that one names.
pub fn gates(gates: &[Gate], rulings: &[Ruling], pair: &Pair, width: usize) -> String {
    let mut table = bare_table(width);
    for ruling in rulings {
        let change = &pair.changes[ruling.change];
        let why = match (ruling.fired, ruling.beyond) {
            (true, _) => "FIRED",
            (false, true) => "holds: may be chance",
            (false, false) => "holds",
        };
        table.add_row([
            gates[ruling.gate].text.clone(),
            change.row.name.clone(),
            told(change, ruling),
            why.to_owned(),
        ]);
    }
    lines(table)
}

/// "+14.2 % [+13.9, +15.1], p 0.008": a change as a gate sees it.
pub fn told(change: &Change, ruling: &Ruling) -> String {
    let (by, interval) = change_and_interval(change);
    match ruling.p_adjusted {
        Some(p) => format!("{by} {interval}, p {}", probability(p)),
        None => by,
    }
}
