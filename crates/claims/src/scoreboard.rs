// SPDX-License-Identifier: GPL-2.0-or-later
//! Verdicts as tables on a terminal.

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::{Cell, ColumnConstraint, Table, Width};

use crate::check::{self, Check};
use crate::experiment::{Claim, section_of};
use crate::judge::{ClaimOutcome, Verdict};
use crate::mutation::{Mutation, Mutations, Tried};
use crate::sensitivity::Variation;
use crate::trial::{Trial, Trials};

/// One claim in full.
pub fn detail(claim: &Claim, verdict: &Verdict) -> String {
    let mut out = format!(
        "{}  {}\n\n{}\n\n",
        claim.id,
        verdict.verdict.name(),
        claim.statement
    );
    let mut row = |name: &str, text: &str| {
        if !text.is_empty() {
            let _ = writeln!(out, "{name:<12}{text}");
        }
    };
    row("where", &claim.place);
    row("expected", &claim.expected);
    row("tolerance", &claim.tolerance);
    row("check", &verdict.check);
    row("measured", &measured(verdict).join("\n            "));
    row("computed", &computed(verdict).join("\n            "));
    row("not met", &unmet(verdict).join("\n            "));
    row("seeds", &verdict.agreement());
    row("reason", verdict.reason.as_deref().unwrap_or_default());
    row("note", claim.inconsistency.as_deref().unwrap_or_default());
    row(
        "explained",
        claim.explanation.as_deref().unwrap_or_default(),
    );
    row("shown by", claim.shown_by.as_deref().unwrap_or_default());
    row("repeat", &verdict.command);
    out
}

/// An empty table with these heads.
fn board(width: usize, heads: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    table.set_width(width.min(usize::from(u16::MAX)) as u16);
    table.set_header(heads.to_vec());
    table
}

/// The table as text, wider than asked for rather than with a name broken in two: users paste them into the next command.
fn text_of(mut table: Table) -> String {
    let longest_word = |cell: &Cell| cell.content().split_whitespace().map(str::len).max();
    for index in 0..table.column_count() {
        let cells = table.column_cells_iter(index).flatten();
        let longest = cells.filter_map(longest_word).max().unwrap_or(0);
        if let Some(column) = table.column_mut(index) {
            let (left, right) = (1, 1); // comfy-table's padding
            let least = Width::Fixed(left + longest as u16 + right);
            column.set_constraint(ColumnConstraint::LowerBoundary(least));
        }
    }
    table.to_string()
}

/// One row per claim.
pub fn table(verdicts: &[&Verdict], width: usize) -> String {
    let mut table = board(width, &["claim", "expected", "measured", "verdict"]);
    for verdict in verdicts {
        let shown = match &verdict.reason {
            Some(reason) => reason.clone(),
            None => measured_and_unmet(verdict).join("\n"),
        };
        table.add_row([
            &verdict.id,
            &verdict.expected,
            &shown,
            verdict.verdict.name(),
        ]);
    }
    text_of(table) + "\n"
}

/// One row per claim, with its two verdicts under `heads`.
pub fn side_by_side(pairs: &[(&Verdict, &Verdict)], heads: [&str; 2], width: usize) -> String {
    let mut table = board(width, &["claim", "expected", heads[0], heads[1]]);
    let cell = |verdict: &Verdict| {
        let name = verdict.verdict.name().to_owned();
        let shown = match &verdict.reason {
            Some(reason) => vec![reason.clone()],
            None => measured(verdict),
        };
        [vec![name], shown].concat().join("\n")
    };
    for (left, right) in pairs {
        table.add_row([
            left.id.clone(),
            left.expected.clone(),
            cell(left),
            cell(right),
        ]);
    }
    text_of(table) + "\n"
}

/// What turned when chosen numbers were varied.
pub fn variations(variations: &[Variation], width: usize) -> String {
    let mut table = board(
        width,
        &["of", "parameter", "tried", "claim", "now", "measured then"],
    );
    for variation in variations {
        for change in &variation.changes {
            table.add_row([
                &variation.place,
                &variation.parameter,
                &variation.to,
                &change.id,
                change.to.name(),
                &change.after.join("\n"),
            ]);
        }
    }
    let turned = variations.iter().filter(|v| !v.changes.is_empty()).count();
    let calm = variations.len() - turned;
    format!(
        "{}\n\n{}, {calm} of them change no verdict\n",
        text_of(table),
        count(variations.len(), "variation")
    )
}

/// A row per claim: the substitutes with which it holds, and those with which it does not.
pub fn trials(trials: &[Trials], width: usize) -> String {
    let mut table = board(
        width,
        &[
            "claim",
            "now",
            "holds with",
            "fails with",
            "not measured with",
        ],
    );
    for claim in trials {
        let with = |outcome: ClaimOutcome| {
            let such = claim.trials.iter().filter(|t| t.verdict == outcome);
            such.map(Trial::name).collect::<Vec<_>>().join("\n")
        };
        table.add_row([
            claim.id.clone(),
            claim.verdict.name().to_owned(),
            with(ClaimOutcome::Reproduced),
            with(ClaimOutcome::NotReproduced),
            with(ClaimOutcome::NotRun),
        ]);
    }
    format!("{}\n\n{} claims\n", text_of(table), trials.len())
}

/// A row per mutation: the claims that turned, among those that it names and others, and those that should have.
pub fn mutations(chosen: &[(&Mutations, &Mutation)], tried: &[Tried], width: usize) -> String {
    // Names of claims are long: more columns would leave no room for them.
    let mut table = board(width, &["mutation", "claim", "verdict"]);
    let mut survivors = 0;
    for ((file, mutation), tried) in chosen.iter().zip(tried) {
        survivors += usize::from(tried.turned.is_empty());
        let mut claims = Vec::new();
        claims.extend(tried.turned.iter().map(|id| (id.as_str(), "turned")));
        claims.extend(
            tried
                .unturned(mutation)
                .into_iter()
                .map(|id| (id, "did not turn")),
        );
        claims.extend(tried.lost.iter().map(|id| (id.as_str(), "not measured")));
        let (ids, verdicts): (Vec<_>, Vec<_>) = claims.into_iter().unzip();
        table.add_row([
            format!("{}.{}\n{}", file.scheduler, mutation.id, mutation.what),
            ids.join("\n"),
            verdicts.join("\n"),
        ]);
    }
    format!(
        "{}\n\n{}, {survivors} of them change no verdict\n",
        text_of(table),
        count(tried.len(), "mutation")
    )
}

fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// `name median [low, high]` of each measure, in the order of the check, which is that of what is expected.
pub fn measured(verdict: &Verdict) -> Vec<String> {
    let one = |(name, median): (&String, &f64)| match verdict.interval.get(name) {
        Some([low, high]) if low != high => {
            format!(
                "{name} {} [{}, {}]",
                number(*median),
                number(*low),
                number(*high)
            )
        }
        _ => format!("{name} {}", number(*median)),
    };
    let mut all: Vec<(&String, &f64)> = verdict.measured.iter().collect();
    all.sort_by_key(|(name, _)| place(&verdict.check, name));
    all.into_iter().map(one).collect()
}

/// The conditions of a claim's check that are not met, if it joins several.
pub fn unmet(verdict: &Verdict) -> Vec<&str> {
    match verdict.verdict {
        ClaimOutcome::NotReproduced => {
            check::unmet(&verdict.check, &|name| verdict.measured.get(name).copied())
        }
        _ => Vec::new(),
    }
}

/// Measured values and unmet conditions, one per line.
pub fn measured_and_unmet(verdict: &Verdict) -> Vec<String> {
    let unmet = unmet(verdict).into_iter();
    let unmet = unmet.map(|condition| format!("not met: {condition}"));
    measured(verdict).into_iter().chain(unmet).collect()
}

/// Where a check has this name, which may be the beginning or the end of another one.
fn place(check: &str, name: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let mut found = check.match_indices(name).map(|(at, _)| at);
    found.find(|at| {
        let after = check[at + name.len()..].chars().next();
        let before = check[..*at].chars().next_back();
        !after.is_some_and(is_part) && !before.is_some_and(is_part)
    })
}

/// What the check computes from the medians: ratios, differences.
fn computed(verdict: &Verdict) -> Vec<String> {
    let Ok(check) = Check::read(&verdict.check) else {
        return Vec::new();
    };
    let computed = check.computed(&|name| verdict.measured.get(name).copied());
    let one = |(text, value): (String, f64)| format!("{text} = {}", number(value));
    computed.into_iter().map(one).collect()
}

/// Four significant digits, and no more than an integer has.
pub fn number(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e7 {
        return format!("{value}");
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    let text = format!("{value:.*}", digits.clamp(0, 9) as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Counts by section of the source: reproduced, not reproduced, not run.
pub fn by_section<'a>(verdicts: &[&'a Verdict]) -> BTreeMap<&'a str, [usize; 3]> {
    let mut sections: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for verdict in verdicts {
        sections.entry(section_of(&verdict.id)).or_default()[verdict.verdict as usize] += 1;
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::{board, number, place, text_of};
    use crate::mutation::{Mutations, Tried};

    #[test]
    fn names_are_found_whole() {
        let check = "b.x_10 >= 2 and abs(b.x_1 - a.x) < 1";
        let mut names = ["a.x", "b.x_1", "b.x_10", "x"];
        names.sort_by_key(|name| place(check, name));
        assert_eq!(names, ["x", "b.x_10", "b.x_1", "a.x"]);
        assert_eq!(place(check, "x"), None);
    }

    /// Those that turned, those that should have, and those that gave no value.
    #[test]
    fn each_claim_of_a_mutation_has_its_verdict() {
        let text = "scheduler = 'a'\n\
            [[rule]]\nid = 'slice'\ntext = 'Ten ticks.'\nwhere = 'Section 2'\npaper = true\n\
            [[mutation]]\nid = 'm'\nrule = 'slice'\nwhat = 'no ticks'\ntunable = 'x=1'\nturns = ['s.p.turns', 's.p.stays']\n";
        let file = Mutations::read(text, "a.toml", &["s.p.turns", "s.p.stays"].into()).unwrap();
        let tried = Tried {
            scheduler: "a".to_owned(),
            mutation: "m".to_owned(),
            definition: String::new(),
            seeds: 1,
            judged: 3,
            turned: vec!["s.p.turns".to_owned()],
            lost: vec!["s.p.lost".to_owned()],
        };
        let page = super::mutations(&[(&file, &file.mutations[0])], &[tried], 100);
        for (claim, verdict) in [
            ("s.p.turns", " turned"),
            ("s.p.stays", "did not turn"),
            ("s.p.lost", "not measured"),
        ] {
            let line = page.lines().find(|line| line.contains(claim));
            assert!(line.is_some_and(|line| line.contains(verdict)), "{page}");
        }
    }

    #[test]
    fn no_name_is_broken_in_two() {
        let mut table = board(40, &["claim", "expected", "measured"]);
        let name = "a-name-of-more-than-forty-letters-that-users-paste";
        table.add_row([name, "a sentence of many words that may break", name]);
        let text = text_of(table);
        let lines = text.lines().filter(|line| line.contains(name));
        assert_eq!(lines.map(|line| line.matches(name).count()).max(), Some(2));
        assert!(!text.contains("a sentence of many words"), "{text}");
    }

    #[test]
    fn numbers_have_four_digits() {
        for (value, text) in [
            (0.0, "0"),
            (12.0, "12"),
            (58650.0, "58650"),
            (235.4567, "235.5"),
            (0.0123456, "0.01235"),
            (1.5, "1.5"),
            (-0.25, "-0.25"),
            (123456.7, "123457"),
            (1e-12, "0"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
