// SPDX-License-Identifier: GPL-2.0-or-later
//! The comparison on a terminal.

use tiltyard_measure::{Better, Cell, Comparison, Effect, Interval, MACHINE, Row, Unit, units};

use crate::columns::Columns;

/// Apps listed before the rest is only counted.
const MAX_APPS: usize = 8;

/// Metrics of the short table whose differences are shown.
const MAX_EFFECTS: usize = 10;

/// Busy for less than this part of the time, CPUs are idle for most tasks that wake up.
const NEARLY_IDLE: f64 = 0.1;

/// Narrower terminals get lines that break.
pub(crate) const LEAST_WIDTH: usize = 40;

/// Headline figures of the busiest apps and of the machine, then why. Lines fit into `width` columns
/// where the figures allow it.
pub fn render(comparison: &Comparison, width: usize) -> String {
    let width = width.max(LEAST_WIDTH);
    let all: Vec<&Row> = comparison.rows.iter().collect();
    let (shown, left_out) = headlines(&all);
    let rows: Vec<&Row> = shown.into_iter().map(|i| all[i]).collect();
    let mut text = table(comparison, &rows, width);
    if left_out > 0 {
        text += &format!(
            "\n{left_out} more with less CPU time are in the report and in --format json.\n"
        );
    }
    text + &notes(comparison, width) + &differences(comparison, &rows, MAX_EFFECTS, width)
}

/// Every figure.
pub fn render_all(comparison: &Comparison, width: usize) -> String {
    let width = width.max(LEAST_WIDTH);
    let rows: Vec<&Row> = comparison.rows.iter().collect();
    let text = table(comparison, &rows, width) + &notes(comparison, width);
    text + &differences(comparison, &rows, usize::MAX, width)
}

/// A median with the larger side of its interval, "531 /s ± 0.3 %", or with its ends, "2.7 % [2.1, 3.8]".
pub fn cell_text(row: &Row, cell: &Cell) -> String {
    interval_text(row.unit, cell)
}

/// The same of a value in this unit.
pub fn interval_text(unit: Unit, cell: &Interval) -> String {
    let value = unit.write(cell.median);
    let side = (cell.high - cell.median).max(cell.median - cell.low);
    if cell.coverage_ppm == 0 || side == 0.0 {
        return value;
    }
    // Of a share, "± 3 %" could be points or a part of it.
    if unit == Unit::Share {
        let percent = |decimals: usize| {
            [cell.low, cell.median, cell.high].map(|of| format!("{:.decimals$}", of * 100.0))
        };
        let (value, low, high) = match percent(1) {
            [low, _, high] if low != high => (value, low, high),
            _ => {
                let [low, median, high] = percent(2);
                (format!("{median} %"), low, high)
            }
        };
        return format!("{value} [{low}, {high}]");
    }
    // A large ± suggests a symmetric interval, possibly below zero: its ends are shown instead.
    if side > 0.5 * cell.median.abs() {
        let (low, high) = (unit.write(cell.low), unit.write(cell.high));
        return format!("{value} [{low}, {high}]");
    }
    let percent = side / cell.median.abs() * 100.0;
    match percent {
        p if p < 0.05 => format!("{value} ± < 0.1 %"),
        p if p < 9.95 => format!("{value} ± {p:.1} %"),
        p => format!("{value} ± {p:.0} %"),
    }
}

/// What a scheduler's column shows in a row: a figure that only some of its runs have names how many.
pub fn cell_of(comparison: &Comparison, row: &Row, at: usize) -> String {
    let runs = comparison.runs.get(at).copied().unwrap_or(0);
    match row.cells.get(at).and_then(Option::as_ref) {
        None => row.absent().to_owned(),
        Some(cell) if cell.n < runs => {
            format!("{} ({} of {runs} runs)", cell_text(row, cell), cell.n)
        }
        Some(cell) => cell_text(row, cell),
    }
}

/// "+14.2 % [+13.9, +15.1], 1.00": the change, its interval, the delta.
pub fn effect_text(effect: &Effect) -> String {
    let delta = format!("{:.2}", effect.delta);
    effect.change.map_or_else(
        || delta.clone(),
        |change| {
            let (low, high) = (
                units::signed_percent(change.low),
                units::signed_percent(change.high),
            );
            if change.coverage_ppm == 0 {
                return format!("{}, {delta}", units::change(change.median));
            }
            format!("{} [{low}, {high}], {delta}", units::change(change.median))
        },
    )
}

/// The rows whose differences are worth telling: of figures that should be high or low, from two runs on.
pub fn with_effects<'a>(comparison: &Comparison, rows: &[&'a Row]) -> Vec<&'a Row> {
    let many = comparison.runs.iter().all(|runs| *runs > 1);
    let has =
        |row: &&&Row| row.better != Better::Neither && row.effects.iter().any(Option::is_some);
    rows.iter().filter(|_| many).filter(has).copied().collect()
}

/// What stands with differences about how to read them.
pub fn effect_note(comparison: &Comparison) -> String {
    let first = comparison.schedulers.first().map_or("", String::as_str);
    let rows = comparison
        .rows
        .iter()
        .flat_map(|row| &row.effects)
        .flatten();
    let coverages = rows.filter_map(|effect| Some(effect.change?.coverage_ppm));
    let interval = match coverages.filter(|ppm| *ppm > 0).min() {
        Some(ppm) => format!(
            " its {:.1} % interval (Mann-Whitney),",
            f64::from(ppm) / 1e4
        ),
        None => String::new(),
    };
    format!(
        "Against {first}: by how much a metric is larger (median over all pairs of runs),{interval} and Cliff's delta: \
         1 or -1 when the runs of the two do not mix, 0 when they mix evenly."
    )
}

/// How large the differences to the first scheduler are.
fn differences(comparison: &Comparison, rows: &[&Row], most: usize, width: usize) -> String {
    let rows = with_effects(comparison, rows);
    if rows.is_empty() {
        return String::new();
    }
    let header = comparison.schedulers.iter().skip(1).cloned().collect();
    let mut table = Columns::new(["change", ""], header, false);
    for row in rows.iter().take(most) {
        let effects = row.effects.iter().skip(1);
        let effects = effects.map(|effect| effect.as_ref().map_or("none".to_owned(), effect_text));
        table.row(&row.group, &row.metric, effects.collect());
    }
    let left_out = match rows.len().saturating_sub(most) {
        0 => String::new(),
        left => format!(" {left} more are in the report and in --format json."),
    };
    let note = effect_note(comparison) + &left_out;
    format!("\n{}\n{}", table.render(width), wrap(&note, width, ""))
}

/// What stands under the table about its intervals.
pub fn interval_note(comparison: &Comparison) -> String {
    let is_identical = |at: &usize| comparison.identical.get(*at) == Some(&true);
    let (identical, others): (Vec<usize>, Vec<usize>) =
        (0..comparison.runs.len()).partition(is_identical);
    if others.is_empty() && !identical.is_empty() {
        let runs = run_count(comparison, &identical);
        return format!(
            "All {runs} runs identical: the seed changes nothing here, so there is no interval."
        );
    }
    let fewest = others
        .iter()
        .map(|at| comparison.runs[*at])
        .min()
        .unwrap_or(0);
    let mut note = match fewest {
        0 | 1 => "Single run, no confidence interval; add --seeds 10 (in a kernel: --rounds 10)."
            .to_owned(),
        _ => format!(
            "Median of {} runs; ± is the larger side of the {:.1} % interval (order statistics), [ ] are its ends.",
            run_count(comparison, &others),
            f64::from(comparison.coverage_ppm) / 1e4
        ),
    };
    for at in identical {
        let (runs, scheduler) = (comparison.runs[at], &comparison.schedulers[at]);
        note += &format!(" All {runs} runs of {scheduler} identical: no interval.");
    }
    note
}

/// How many runs these schedulers have: "10", or "8 to 10".
fn run_count(comparison: &Comparison, schedulers: &[usize]) -> String {
    let runs = schedulers.iter().map(|at| comparison.runs[*at]);
    let fewest = runs.clone().min().unwrap_or(0);
    let most = runs.max().unwrap_or(0);
    match fewest == most {
        true => format!("{most}"),
        false => format!("{fewest} to {most}"),
    }
}

fn table(comparison: &Comparison, rows: &[&Row], width: usize) -> String {
    let pair = comparison.schedulers.len() == 2;
    let mut header = comparison.schedulers.clone();
    if pair {
        header.extend([ratio_title(comparison), String::new()]);
    }
    let mut table = Columns::new(["", ""], header, pair);
    for row in rows {
        table.row(&row.group, &row.metric, cells(comparison, row));
    }
    table.render(width)
}

/// The title of the column of ratios: the second scheduler against the first, as differences are.
pub fn ratio_title(comparison: &Comparison) -> String {
    let names: Vec<&str> = comparison.schedulers.iter().map(String::as_str).collect();
    names.into_iter().rev().collect::<Vec<_>>().join(" : ")
}

fn cells(comparison: &Comparison, row: &Row) -> Vec<String> {
    let many = comparison.schedulers.len() > 2;
    let cell = |at: usize| {
        let text = cell_of(comparison, row, at);
        match row.best {
            Some(best) if many && best == at => format!("{text} *"),
            Some(_) if many => format!("{text}  "),
            _ => text,
        }
    };
    let mut cells: Vec<String> = (0..row.cells.len()).map(cell).collect();
    if comparison.schedulers.len() == 2 {
        cells.push(row.ratio.map(units::plain).unwrap_or_default());
        cells.push(row.verdict.map_or("", |v| v.symbol()).to_owned());
    }
    cells
}

/// What the marks mean.
fn legend(comparison: &Comparison) -> Option<String> {
    // Runs that are all identical have no interval, and need none.
    let differ =
        (0..comparison.runs.len()).filter(|at| comparison.identical.get(*at) != Some(&true));
    let single = differ.into_iter().any(|at| comparison.runs[at] <= 1);
    let (less, but) = match single {
        true => (
            "1 %",
            " Another seed (in a kernel: round) may give a different result.",
        ),
        false => ("the intervals and 1 %", ""),
    };
    match comparison.schedulers.as_slice() {
        [] | [_] => None,
        [first, second] => Some(format!(
            "{second} : {first} and its mark compare {second} with {first}: ++ better by a factor of 1.5 or more, + better, \
             ~ within {}, - worse, -- worse by that factor.{but}",
            less.replace(" and ", " or ")
        )),
        _ => Some(format!(
            "* marks a value better than all others by more than {less}.{but}"
        )),
    }
}

/// Said if the machine was nearly idle under all schedulers.
pub fn idle_note(comparison: &Comparison) -> Option<String> {
    let is_busy = |row: &&Row| row.group == MACHINE && row.metric == "busy";
    let busy = comparison.rows.iter().find(is_busy)?;
    let medians = busy.cells.iter().flatten().map(|cell| cell.median);
    let most = medians.reduce(f64::max)?;
    (most < NEARLY_IDLE).then(|| {
        format!(
            "Tasks used at most {} of the CPU time, so the schedulers had few decisions to make; use a smaller machine or \
             more tasks to see larger differences.",
            Unit::Share.write(most)
        )
    })
}

fn notes(comparison: &Comparison, width: usize) -> String {
    let mut text = format!("\n{}", wrap(&interval_note(comparison), width, ""));
    if let Some(note) = idle_note(comparison) {
        text += &wrap(&note, width, "");
    }
    if let Some(legend) = legend(comparison) {
        text += &wrap(&legend, width, "");
    }
    if !comparison.why.is_empty() {
        text.push('\n');
    }
    for (i, sentence) in comparison.why.iter().enumerate() {
        let label = if i == 0 { "Why: " } else { "     " };
        let wrapped = wrap(sentence, width.saturating_sub(5), "     ");
        text += &format!("{label}{}", wrapped.trim_start());
    }
    text
}

/// Numbers keep together with their groups of digits and their percent sign: no break inside.
pub fn unbroken(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let inside = |i: usize| {
        let before = i.checked_sub(1).map(|i| chars[i]);
        let digit_before = before.is_some_and(|c| c.is_ascii_digit());
        let after = chars.get(i + 1);
        digit_before && after.is_some_and(|c| c.is_ascii_digit() || *c == '%')
    };
    let joined = chars.iter().enumerate().map(|(i, &c)| match c {
        ' ' if inside(i) => NO_BREAK,
        c => c,
    });
    joined.collect()
}

const NO_BREAK: char = '\u{a0}';

/// Breaks between words; `indent` stands before each line.
pub(crate) fn wrap(text: &str, width: usize, indent: &str) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    let text = unbroken(text);
    for word in text.split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines += &format!("{indent}{line}\n");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines += &format!("{indent}{line}\n");
    lines.replace(NO_BREAK, " ")
}

/// Which rows belong into a short table, and how many apps have none there.
pub(crate) fn headlines(rows: &[&Row]) -> (Vec<usize>, usize) {
    let kept = busiest_apps(rows);
    let shown = |row: &Row| row.headline && kept.contains(&row.group.as_str()) && !all_zero(row);
    let indices = (0..rows.len()).filter(|i| shown(rows[*i])).collect();
    (indices, groups(rows).len() - kept.len())
}

fn groups<'a>(rows: &[&'a Row]) -> Vec<&'a str> {
    let mut groups: Vec<&str> = Vec::new();
    for row in rows {
        if groups.last() != Some(&row.group.as_str()) {
            groups.push(&row.group);
        }
    }
    groups
}

/// The apps with the most runtime under any scheduler, and the groups that are no apps (the machine, the command).
fn busiest_apps<'a>(rows: &[&'a Row]) -> Vec<&'a str> {
    let runtime = |group: &str| {
        let mut rows = rows.iter();
        let row = rows.find(|r| r.group == group && r.metric == "runtime")?;
        let medians = row.cells.iter().flatten().map(|c| c.median);
        Some(medians.fold(0.0, f64::max))
    };
    let (mut apps, mut kept): (Vec<&str>, Vec<&str>) = groups(rows)
        .into_iter()
        .partition(|group| runtime(group).is_some());
    apps.sort_by(|a, b| f64::total_cmp(&runtime(b).unwrap_or(0.0), &runtime(a).unwrap_or(0.0)));
    kept.extend(apps.into_iter().take(MAX_APPS));
    kept
}

fn all_zero(row: &Row) -> bool {
    row.cells
        .iter()
        .flatten()
        .all(|c| c.median == 0.0 && c.high == 0.0)
}
