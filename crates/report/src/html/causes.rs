// SPDX-License-Identifier: GPL-2.0-or-later
//! Sections with causes: why CPUs changed hands, who preempted whom, what the system took.

use super::ReportInput;
use super::markup::{Figure, Table, escape};
use super::sections::{count, share, shown, time};
use super::{bars, charts};
use tiltyard_measure::Summary;

/// What a section of [`parts`] is about: amounts with names, which add up to a total.
struct Parts {
    id: &'static str,
    title: &'static str,
    sentence: &'static str,
    of: fn(&Summary) -> Vec<(&'static str, u64)>,
    write: fn(u64) -> String,
}

/// A bar of parts for each scheduler that has any, all to one scale, and a table. A real kernel's events do not show overhead.
fn parts(input: &ReportInput, about: &Parts) -> String {
    let total = |parts: &[(&str, u64)]| parts.iter().map(|(_, n)| n).sum::<u64>();
    let runs = input.first_runs();
    let all = runs.map(|(_, name, run)| (name, (about.of)(run)));
    let all: Vec<_> = all.filter(|(_, parts)| total(parts) > 0).collect();
    let largest = all.iter().map(|(_, parts)| total(parts)).max().unwrap_or(0);
    let Some((_, first)) = all.first() else {
        return String::new();
    };
    let names: Vec<&str> = first.iter().map(|(name, _)| *name).collect();
    let mut header = vec!["scheduler", "total"];
    header.extend(&names);
    let mut table = Table::new(1, &header);
    let mut body = bars::legend(&names);
    for (scheduler, parts) in &all {
        let amounts: Vec<(&str, f64)> = parts.iter().map(|(name, n)| (*name, *n as f64)).collect();
        let total_text = (about.write)(total(parts));
        body += &bars::stacked(scheduler, &amounts, largest as f64, &total_text);
        let mut cells = vec![scheduler.to_string(), total_text];
        cells.extend(parts.iter().map(|(_, n)| (about.write)(*n)));
        table.row(&cells);
    }
    Figure {
        id: about.id,
        title: about.title,
        sentence: &shown(input, about.sentence),
        body,
        table: table.finish(),
        command: input.command,
    }
    .finish()
}

/// Context switches by cause.
pub fn switches(input: &ReportInput) -> String {
    let about = Parts {
        id: "switches",
        title: "Context switches by cause",
        sentence: "Context switches by cause: block is a task that went to sleep of itself; slice end and preempt \
                   took the CPU from one that would have run on.",
        of: |run| run.switches.named().to_vec(),
        write: count,
    };
    parts(input, &about)
}

/// Overhead by cause.
pub fn overhead(input: &ReportInput) -> String {
    let about = Parts {
        id: "overhead",
        title: "Overhead",
        sentence: "CPU time used by the machine and the scheduler instead of tasks, by cause.",
        of: |run| run.overhead.named().to_vec(),
        write: time,
    };
    parts(input, &about)
}

/// Who preempted whom.
pub fn preemptions(input: &ReportInput) -> String {
    if input
        .first_runs()
        .all(|(_, _, run)| run.preemptions.is_empty())
    {
        return String::new();
    }
    let counts = input.first_runs().flat_map(|(_, _, run)| &run.preemptions);
    let most = counts.map(|p| p.count).max().unwrap_or(1);
    let boxes: String = input
        .first_runs()
        .map(|(_, name, run)| format!("<div><h3>{}</h3>{}</div>", escape(name), matrix(run, most)))
        .collect();
    let mut table = Table::new(3, &["scheduler", "by", "of", "preemptions", "of all"]);
    for (_, name, run) in input.first_runs() {
        let total: u64 = run.preemptions.iter().map(|p| p.count).sum();
        for pair in &run.preemptions {
            table.row(&[
                name.to_owned(),
                pair.by.clone(),
                pair.of.clone(),
                count(pair.count),
                share(pair.count, total),
            ]);
        }
    }
    Figure {
        id: "preemptions",
        title: "Preemptions by pairs",
        sentence: &shown(
            input,
            "A task of the column's app took the CPU from a task of the row's app that would have run on; the \
             stronger the colour, the more often.",
        ),
        body: format!("<div class=\"grid\">{boxes}</div>"),
        table: table.finish(),
        command: input.command,
    }
    .finish()
}

/// `most`: the count with the strongest colour.
fn matrix(run: &Summary, most: u64) -> String {
    let mut apps: Vec<&str> = Vec::new();
    for app in run
        .preemptions
        .iter()
        .flat_map(|p| [p.of.as_str(), p.by.as_str()])
    {
        if !apps.contains(&app) && apps.len() < charts::MAX_CURVES {
            apps.push(app);
        }
    }
    if apps.is_empty() {
        return "<p class=\"note\">No task was preempted.</p>".to_owned();
    }
    let mut html = "<div class=\"scroll\"><table><tr><th>of \\ by</th>".to_owned();
    apps.iter()
        .for_each(|by| html += &format!("<th class=\"n\">{}</th>", escape(by)));
    html += "</tr>";
    for of in &apps {
        html += &format!("<tr><td class=\"group\">{}</td>", escape(of));
        for by in &apps {
            let pair = run.preemptions.iter().find(|p| p.of == *of && p.by == *by);
            let n = pair.map_or(0, |p| p.count);
            let strength = n as f64 / most as f64;
            html += &format!(
                "<td class=\"n shade\" style=\"--p:{strength:.3}\">{}</td>",
                count(n)
            );
        }
        html += "</tr>";
    }
    html + "</table></div>"
}
