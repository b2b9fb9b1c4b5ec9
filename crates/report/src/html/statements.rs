// SPDX-License-Identifier: GPL-2.0-or-later
//! Statements that were checked: how many came out, and each of them with what was measured.

use super::markup::escape;
use crate::findings::{Findings, Section, Statement, StatementOutcome};

/// A mark that needs no colour.
fn mark(outcome: StatementOutcome) -> &'static str {
    match outcome {
        StatementOutcome::Reproduced => "\u{2713}",
        StatementOutcome::NotReproduced => "\u{2717}",
        StatementOutcome::NotRun => "\u{25cb}",
    }
}

/// The class of what has to do with an outcome, and its key for the page's script.
fn class(outcome: StatementOutcome) -> &'static str {
    match outcome {
        StatementOutcome::Reproduced => "yes",
        StatementOutcome::NotReproduced => "no",
        StatementOutcome::NotRun => "open",
    }
}

type Counts = [usize; StatementOutcome::ALL.len()];

fn count<'a>(statements: impl Iterator<Item = &'a Statement>) -> Counts {
    let mut counts = Counts::default();
    for statement in statements {
        counts[statement.outcome as usize] += 1;
    }
    counts
}

/// A bar of parts, as wide as it has room.
fn bar(counts: &Counts) -> String {
    let total = counts.iter().sum::<usize>().max(1);
    let parts = StatementOutcome::ALL
        .iter()
        .zip(counts)
        .filter(|(_, n)| **n > 0);
    let parts = parts.map(|(outcome, n)| {
        let percent = *n as f64 / total as f64 * 100.0;
        format!(
            "<i class=\"{}\" style=\"width:{percent:.2}%\"></i>",
            class(*outcome)
        )
    });
    format!("<span class=\"share\">{}</span>", parts.collect::<String>())
}

/// The headline: all together, and each source.
pub fn counts(findings: &Findings) -> String {
    let sources = findings.sources.iter();
    let of_source: Vec<(&str, Counts)> = sources
        .map(|s| {
            (
                s.name.as_str(),
                count(s.sections.iter().flat_map(|s| &s.statements)),
            )
        })
        .collect();
    let mut total = Counts::default();
    for (_, counts) in &of_source {
        total.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
    }
    let tile = |outcome: &StatementOutcome| {
        format!(
            "<div class=\"tile {}\"><b>{} {}</b> {}</div>",
            class(*outcome),
            mark(*outcome),
            total[*outcome as usize],
            outcome.name()
        )
    };
    let tiles: String = StatementOutcome::ALL.iter().map(tile).collect();
    let row = |(name, counts): &(&str, Counts)| {
        let cells = StatementOutcome::ALL.iter().zip(counts);
        let cells: String = cells
            .map(|(o, n)| format!("<td class=\"n {}\">{n}</td>", class(*o)))
            .collect();
        format!(
            "<tr><td>{}</td>{cells}<td>{}</td></tr>\n",
            escape(name),
            bar(counts)
        )
    };
    let names =
        StatementOutcome::ALL.map(|o| format!("<th class=\"n\">{} {}</th>", mark(o), o.name()));
    let rows: String = of_source.iter().map(row).collect();
    format!(
        "<section id=\"counts\"><h2>{}</h2>\n<div class=\"tiles\">{tiles}</div>\n\
         <div class=\"scroll\"><table class=\"sources\"><thead><tr><th>source</th>{}<th></th></tr></thead><tbody>\n\
         {rows}</tbody></table></div></section>\n",
        many(total.iter().sum(), "claim"),
        names.concat()
    )
}

/// At most so many claims are all shown unfolded.
const FEW: usize = 3;

/// All statements by source and section, with the controls of the page's script.
pub fn all(findings: &Findings) -> String {
    let mut body = controls(findings);
    let sections = findings.sources.iter().flat_map(|source| &source.sections);
    let few = sections.map(|s| s.statements.len()).sum::<usize>() <= FEW;
    for source in &findings.sources {
        body += &format!("<div class=\"source\"><h3>{}</h3>\n", escape(&source.name));
        let (idle, run): (Vec<&Section>, Vec<&Section>) =
            source.sections.iter().partition(|s| is_idle(s));
        body.extend(run.into_iter().map(|s| section(s, few)));
        body += &rest(&idle, few);
        body += "</div>\n";
    }
    let open = match few {
        true => "",
        false => " Sections with a claim that is not reproduced are open.",
    };
    format!(
        "<section id=\"statements\"><h2>Claims</h2>\n<p class=\"lead\">A claim is judged by its check on the medians of \
         the measurements. docs/claims.md lists the checks that were changed after a first result.{open}</p>\n{body}<p class=\"note\" id=\"none\" hidden>No claim is like that.</p></section>\n"
    )
}

/// Whether nothing of it was run.
fn is_idle(section: &Section) -> bool {
    let mut statements = section.statements.iter();
    statements.all(|s| s.outcome == StatementOutcome::NotRun)
}

/// Sections of which nothing was run, together.
fn rest(sections: &[&Section], open: bool) -> String {
    if sections.is_empty() {
        return String::new();
    }
    let claims: usize = sections.iter().map(|s| s.statements.len()).sum();
    let inside: String = sections.iter().map(|s| section(s, open)).collect();
    let open = if open { " open" } else { "" };
    format!(
        "<details class=\"rest\"{open}><summary>{} not run: {} in {}</summary>\n{inside}</details>\n",
        mark(StatementOutcome::NotRun),
        many(claims, "claim"),
        many(sections.len(), "section"),
    )
}

fn many(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        n => format!("{n} {noun}s"),
    }
}

fn controls(findings: &Findings) -> String {
    let boxes = StatementOutcome::ALL.map(|o| {
        format!(
            "<label><input type=\"checkbox\" value=\"{}\" checked> {} {}</label>",
            class(o),
            mark(o),
            o.name()
        )
    });
    let sections = findings.sources.iter().flat_map(|s| &s.sections);
    let options = sections.map(|s| {
        let id = escape(&s.id);
        format!("<option value=\"{id}\">{id}: {}</option>", escape(&s.place))
    });
    format!(
        "<form class=\"filter\" hidden>{}<select aria-label=\"section\"><option value=\"\">all sections</option>{}</select>\
         <input type=\"search\" placeholder=\"search claims\" aria-label=\"search claims\">\
         <button type=\"button\" value=\"open\">open all</button><button type=\"button\" value=\"close\">close all</button>\
         </form>\n",
        boxes.concat(),
        options.collect::<String>()
    )
}

fn section(section: &Section, open: bool) -> String {
    let counts = count(section.statements.iter());
    let told = StatementOutcome::ALL
        .iter()
        .zip(counts)
        .filter(|(_, n)| *n > 0);
    let told: String = told
        .map(|(o, n)| format!("<span class=\"{}\">{} {n}</span>", class(*o), mark(*o)))
        .collect();
    let open = match open || counts[StatementOutcome::NotReproduced as usize] > 0 {
        true => " open",
        false => "",
    };
    let rows: String = section.statements.iter().map(statement).collect();
    format!(
        "<details class=\"part\" data-section=\"{id}\"{open}><summary><code>{id}</code> <span class=\"place\">{}</span>\
         <span class=\"counts\">{told}</span>{}</summary>\n<table class=\"statements\"><thead><tr><th>verdict</th>\
         <th>claim</th><th>expected</th><th>measured</th></tr></thead><tbody>\n{rows}</tbody></table></details>\n",
        escape(&section.place),
        bar(&counts),
        id = escape(&section.id),
    )
}

fn statement(statement: &Statement) -> String {
    let outcome = statement.outcome;
    let mut measured: String = statement
        .measured
        .iter()
        .map(|text| format!("<div class=\"value\">{}</div>", escape(text)))
        .collect();
    if !statement.agreement.is_empty() {
        measured += &format!("<div class=\"dim\">{}</div>", escape(&statement.agreement));
    }
    if !statement.reason.is_empty() {
        measured += &format!("<div class=\"dim\">{}</div>", escape(&statement.reason));
    }
    let why = match statement.explanation.is_empty() {
        true => String::new(),
        false => format!(
            "<p class=\"because\"><b>Why:</b> {}</p>",
            escape(&statement.explanation)
        ),
    };
    format!(
        "<tr class=\"{class}\" data-outcome=\"{class}\"><td class=\"verdict\">{} {}</td><td class=\"claim\" id=\"{id}\">\
         <p>{}</p>{why}<p class=\"dim\"><code>{id}</code> {}, {}</p>{}</td>\
         <td class=\"expected\">{}</td><td class=\"measured\">{measured}</td></tr>\n",
        mark(outcome),
        outcome.name(),
        escape(&statement.text),
        escape(&statement.place),
        escape(&statement.weight),
        more(statement),
        escape(&statement.expected),
        class = class(outcome),
        id = escape(&statement.id),
    )
}

/// What only some want to know.
fn more(statement: &Statement) -> String {
    let code = |text: &str| match text.is_empty() {
        true => String::new(),
        false => format!("<code>{}</code>", escape(text)),
    };
    let figures = match &statement.chapter {
        Some(id) => format!("<a href=\"#{}\">of its experiment</a>", escape(id)),
        None => String::new(),
    };
    let rows = [
        ("check", code(&statement.check)),
        ("tolerance", escape(&statement.tolerance)),
        ("note", escape(&statement.note)),
        ("shown by", code(&statement.shown_by)),
        ("figures", figures),
        ("repeat", code(&statement.command)),
    ];
    let rows = rows.iter().filter(|(_, text)| !text.is_empty());
    let rows: String = rows
        .map(|(name, text)| format!("<dt>{name}</dt><dd>{text}</dd>"))
        .collect();
    format!("<details><summary>check, tolerance, command</summary><dl>{rows}</dl></details>")
}
