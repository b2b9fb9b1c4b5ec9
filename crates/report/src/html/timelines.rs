// SPDX-License-Identifier: GPL-2.0-or-later
//! The section with the timeline of each scheduler: its data for the page's script, and what it comes to as a table.

use serde::Serialize;

use super::ReportInput;
use super::markup::{Figure, Table, escape, script_json};
use super::sections::{count, time};
use crate::timeline::{Left, Recorded};

/// What the script draws.
#[derive(Serialize)]
struct Data<'a> {
    /// In the order of their colours.
    apps: &'a [&'a str],
    left: Vec<&'static str>,
    runs: Vec<Run<'a>>,
}

#[derive(Serialize)]
struct Run<'a> {
    scheduler: &'a str,
    /// Index among the page's apps of each of the recording's apps.
    app: Vec<usize>,
    recorded: &'a Recorded,
}

/// All apps of a page: those with a colour of their own first.
fn apps<'a>(input: &ReportInput<'a>) -> Vec<&'a str> {
    let mut apps = input.colored_apps();
    for app in input
        .timelines
        .iter()
        .flat_map(|(_, recorded)| &recorded.apps)
    {
        if !apps.contains(&app.as_str()) {
            apps.push(app);
        }
    }
    apps
}

/// The data, or nothing where no timeline was recorded.
pub fn data(input: &ReportInput) -> Option<String> {
    if input.timelines.is_empty() {
        return None;
    }
    let apps = apps(input);
    let place = |app: &String| apps.iter().position(|known| known == app).unwrap_or(0);
    let runs = input.timelines.iter().map(|(scheduler, recorded)| Run {
        scheduler,
        app: recorded.apps.iter().map(place).collect(),
        recorded,
    });
    Some(script_json(&Data {
        apps: &apps,
        left: Left::ALL.iter().map(|(_, name)| *name).collect(),
        runs: runs.collect(),
    }))
}

/// The section; the script draws into it.
pub fn section(input: &ReportInput) -> String {
    if input.timelines.is_empty() {
        return String::new();
    }
    let mut table = Table::new(1, &header());
    let mut body = "<div class=\"timelines\"></div><noscript><p class=\"note\">The timeline is drawn by a script, \
                    which this browser does not run.</p></noscript>\n"
        .to_owned();
    for (scheduler, recorded) in input.timelines {
        body += &format!(
            "<p class=\"note\">{}: {}</p>\n",
            escape(scheduler),
            escape(&window(recorded))
        );
        table.row(&row(scheduler, recorded));
    }
    Figure {
        id: "timeline",
        title: "Timeline",
        sentence: &format!(
            "Who had which CPU, when and why it changed hands: a window of one run, {}. Point at a slice for its task, \
             its length, who woke it and why it left.",
            input.shown
        ),
        body,
        table: table.finish(),
        command: input.command,
    }
    .finish()
}

/// What was recorded, and how to see more.
fn window(recorded: &Recorded) -> String {
    // To the microsecond.
    let at = |ns: u64| format!("{} s", (ns / 1000) as f64 / 1e6);
    let (from, to) = (at(recorded.from_ns), at(recorded.to_ns));
    match (recorded.slices.is_empty(), recorded.full) {
        (true, _) => format!(
            "no task had a CPU between {from} and {to}; --timeline FROM..TO chooses another window."
        ),
        (false, true) => format!(
            "{from} to {to}, then the limit of slices; --timeline FROM..TO chooses another window."
        ),
        (false, false) => format!(
            "{from} to {to}, {} slices.",
            count(recorded.slices.len() as u64)
        ),
    }
}

fn header() -> Vec<&'static str> {
    let mut header = vec!["scheduler", "slices", "median length", "median wait"];
    header.extend(Left::ALL.iter().map(|(_, name)| *name));
    header
}

fn row(scheduler: &str, recorded: &Recorded) -> Vec<String> {
    let slices = &recorded.slices;
    let median = |values: &[u64]| {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        sorted
            .get(sorted.len() / 2)
            .map_or(String::new(), |ns| time(*ns))
    };
    let mut row = vec![
        scheduler.to_owned(),
        count(slices.len() as u64),
        median(&slices.length_ns),
        median(&slices.wait_ns),
    ];
    row.extend(Left::ALL.iter().map(|(left, _)| {
        let of = slices.left.iter().filter(|l| **l == *left as u8);
        count(of.count() as u64)
    }));
    row
}
