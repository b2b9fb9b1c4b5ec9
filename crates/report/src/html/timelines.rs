// SPDX-License-Identifier: GPL-2.0-or-later
//! Timelines of runs, side by side: their data for the page's script, and what they come to as a table.

use serde::Serialize;

use super::ReportInput;
use super::markup::{Figure, Table, escape};
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

/// All apps of some recordings, `first` first: those have a colour of their own already.
fn apps<'a>(first: Vec<&'a str>, timelines: &'a [(String, Recorded)]) -> Vec<&'a str> {
    let mut apps = first;
    for app in timelines.iter().flat_map(|(_, recorded)| &recorded.apps) {
        if !apps.contains(&app.as_str()) {
            apps.push(app);
        }
    }
    apps
}

/// A place for the script to draw into, and what it says beside the drawing; `data` gets what is drawn. `more`: how to see
/// another part of a run.
pub fn place(
    first: Vec<&str>,
    timelines: &[(String, Recorded)],
    more: &str,
    data: &mut Vec<serde_json::Value>,
) -> String {
    let apps = apps(first, timelines);
    let number = |app: &String| apps.iter().position(|known| known == app).unwrap_or(0);
    let runs = timelines.iter().map(|(scheduler, recorded)| Run {
        scheduler,
        app: recorded.apps.iter().map(number).collect(),
        recorded,
    });
    let drawn = Data {
        apps: &apps,
        left: Left::ALL.iter().map(|(_, name)| *name).collect(),
        runs: runs.collect(),
    };
    data.push(serde_json::to_value(drawn).expect("plain structs have a JSON form"));
    let notes = timelines.iter().map(|(scheduler, recorded)| {
        let (scheduler, window) = (escape(scheduler), escape(&window(recorded, more)));
        format!("<p class=\"note\">{scheduler}: {window}</p>\n")
    });
    "<div class=\"timelines\"></div><noscript><p class=\"note\">The timeline is drawn by a script, \
     which this browser does not run.</p></noscript>\n"
        .to_owned()
        + &notes.collect::<String>()
}

/// The section of a comparison.
pub fn section(input: &ReportInput, data: &mut Vec<serde_json::Value>) -> String {
    if input.timelines.is_empty() {
        return String::new();
    }
    let mut table = Table::new(1, &header());
    for (scheduler, recorded) in input.timelines {
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
        body: place(
            input.colored_apps(),
            input.timelines,
            "--timeline FROM..TO selects another window",
            data,
        ),
        table: table.finish(),
        command: input.command,
    }
    .finish()
}

/// What was recorded, and how to see more.
fn window(recorded: &Recorded, more: &str) -> String {
    // To the microsecond.
    let at = |ns: u64| format!("{} s", (ns / 1000) as f64 / 1e6);
    let (from, to) = (at(recorded.from_ns), at(recorded.to_ns));
    match (recorded.slices.is_empty(), recorded.full) {
        (true, _) => format!("no task had a CPU between {from} and {to}; {more}."),
        (false, true) => format!("{from} to {to}, then the limit of slices; {more}."),
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
