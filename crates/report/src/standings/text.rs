// SPDX-License-Identifier: GPL-2.0-or-later
//! Standings in a terminal.

use super::{Standings, Tally, value_text, worst};
use crate::columns::{Columns, wrapped};
use crate::table::LEAST_WIDTH;

/// All contests, what they add up to, what failed, and how to read it.
pub fn text(of: &Standings, width: usize) -> String {
    let width = width.max(LEAST_WIDTH);
    let disciplines = of.disciplines.iter().map(|d| {
        let starvation = match d.starvation.as_str() {
            "" => String::new(),
            limit => format!("; starved: {limit}"),
        };
        let line = format!(
            "{}: {}; tie: {}{starvation}. {}",
            d.name,
            d.decided_by(),
            d.tie_text(),
            d.reason
        );
        paragraph(&line, width)
    });
    let rules = of.rules();
    let rules = rules.iter().map(|rule| paragraph(rule, width));
    [
        values(of).render(width) + "* winner, = shares the lead\n",
        verdicts(of, width),
        paragraph(&of.overall(), width) + &tally_table(of).render(width) + &worst_cases(of, width),
        troubles(of, width),
        disciplines.collect(),
        rules.collect(),
    ]
    .into_iter()
    .filter(|part| !part.is_empty())
    .collect::<Vec<_>>()
    .join("\n")
}

fn values(of: &Standings) -> Columns {
    let header = of.schedulers.iter().map(|s| s.name.clone()).collect();
    let mut values = Columns::new(["workload", "machine"], header, false);
    for contest in &of.contests {
        let cells = (0..of.schedulers.len()).map(|s| value_text(of, contest, s));
        let (discipline, machine) = (contest.discipline, contest.machine);
        let (discipline, machine) = (&of.disciplines[discipline], &of.machines[machine]);
        values.row(&discipline.name, &machine.name, cells.collect());
    }
    values
}

fn verdicts(of: &Standings, width: usize) -> String {
    let one = |at| paragraph(&format!("{}: {}", of.place(at), of.verdict(at)), width);
    (0..of.contests.len()).map(one).collect()
}

fn tally_table(of: &Standings) -> Columns {
    let tallies = of.tallies();
    let shown = Tally::columns(&tallies);
    let header = shown.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut table = Columns::new(["scheduler", ""], header, false);
    for at in of.by_rank(&tallies) {
        let counts = shown.iter().map(|(_, count)| count(&tallies[at]));
        let cells = counts.map(|count| count.to_string()).collect();
        table.row(&of.schedulers[at].name, "", cells);
    }
    table
}

fn worst_cases(of: &Standings, width: usize) -> String {
    let tallies = of.tallies();
    let lines = tallies.iter().enumerate().filter_map(|(at, tally)| {
        let worst = worst(of, at, tally);
        let name = &of.schedulers[at].name;
        let line = format!("Worst cases of {name}: {worst}");
        (!worst.is_empty()).then(|| paragraph(&line, width))
    });
    lines.collect()
}

/// Everything that failed, a line each.
fn troubles(of: &Standings, width: usize) -> String {
    let mut lines = Vec::new();
    for (at, contest) in of.contests.iter().enumerate() {
        let entries = of.schedulers.iter().zip(&contest.entries);
        for (scheduler, entry) in entries {
            if let Some(trouble) = &entry.trouble {
                let did = match trouble.is_schedulers {
                    true => "failed",
                    false => "has no result",
                };
                let extent = match trouble.extent(of) {
                    empty if empty.is_empty() => empty,
                    extent => format!(", {extent}"),
                };
                let (name, place) = (&scheduler.name, of.place(at));
                let line = format!("{name} {did}: {place}{extent}: {}", trouble.account());
                lines.push(paragraph(&line, width));
            }
        }
    }
    lines.concat()
}

/// Lines of at most `width` characters; all but the first are indented.
fn paragraph(text: &str, width: usize) -> String {
    wrapped(text, width.saturating_sub(4)).join("\n    ") + "\n"
}
