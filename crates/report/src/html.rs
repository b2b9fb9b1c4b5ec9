// SPDX-License-Identifier: GPL-2.0-or-later
//! The report: one HTML file that needs no network, with its curves, tables and the command that made it.

mod bars;
mod causes;
mod charts;
mod curves;
mod markup;
mod sections;

use charts::Chart;
use markup::{escape, script_json};
use tiltyard_measure::{Comparison, Summary};

/// What a report shows. Nothing here says when or where it was made: the same input gives the same bytes.
pub struct ReportInput<'a> {
    /// The workload, in a few words.
    pub title: &'a str,
    /// What the workload does, in a sentence or two.
    pub about: &'a str,
    /// The machine, in a sentence.
    pub machine: &'a str,
    /// The command line that makes this report again.
    pub command: &'a str,
    /// Which run of each scheduler the curves show: the first; for instance "seed 1".
    pub shown: &'a str,
    pub comparison: &'a Comparison,
    /// The schedulers with their runs, as they were given to [`tiltyard_measure::compare`].
    pub runs: &'a [(String, Vec<Summary>)],
}

impl<'a> ReportInput<'a> {
    /// The run of each scheduler that curves show.
    fn first_runs(&self) -> impl Iterator<Item = (usize, &'a str, &'a Summary)> {
        let runs = self.runs.iter().enumerate();
        runs.filter_map(|(i, (name, runs))| Some((i, name.as_str(), runs.first()?)))
    }

    /// The apps that get a colour: those with the most runtime in any first run, in order of appearance.
    fn colored_apps(&self) -> Vec<&'a str> {
        let mut apps: Vec<(&str, u64)> = Vec::new();
        for app in self.first_runs().flat_map(|(_, _, run)| &run.apps) {
            match apps.iter_mut().find(|(name, _)| *name == app.app) {
                Some(known) => known.1 = known.1.max(app.runtime_ns),
                None => apps.push((&app.app, app.runtime_ns)),
            }
        }
        let mut runtimes: Vec<u64> = apps.iter().map(|(_, ns)| *ns).collect();
        runtimes.sort_unstable_by(|a, b| b.cmp(a));
        let least = runtimes.get(charts::MAX_CURVES - 1).copied().unwrap_or(0);
        apps.retain(|(_, ns)| *ns >= least);
        apps.into_iter()
            .map(|(name, _)| name)
            .take(charts::MAX_CURVES)
            .collect()
    }
}

const STYLE: &str = include_str!("../assets/report.css");
const SCRIPT: &str = include_str!("../assets/report.js");
const UPLOT_STYLE: &str = include_str!("../assets/uPlot.min.css");
const UPLOT_SCRIPT: &str = include_str!("../assets/uPlot.iife.min.js");
const UPLOT_LICENSE: &str = include_str!("../assets/uPlot.LICENSE");

/// The whole page.
pub fn render(input: &ReportInput) -> String {
    let mut charts: Vec<Chart> = Vec::new();
    let body: String = [
        sections::overview(input),
        curves::runtime(input, &mut charts),
        curves::probes(input, &mut charts),
        curves::distributions(input, &mut charts),
        curves::depth(input, &mut charts),
        causes::switches(input),
        causes::preemptions(input),
        causes::overhead(input),
        sections::tasks(input),
        sections::everything(input),
        sections::words(input),
    ]
    .concat();
    let versus = input.comparison.schedulers.join(" against ");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}: {versus}</title>\n<style>{UPLOT_STYLE}\n{STYLE}</style></head>\n<body><main>\n\
         <header><h1>{title}: <span class=\"versus\">{versus}</span></h1>\n<p>{about}</p>\n<p>{machine}</p>\n\
         <pre>{command}</pre>{nav}</header>\n{body}\
         <footer>Made by Tiltyard. Curves are drawn by uPlot, whose licence stands in this file.</footer>\n\
         </main>\n<script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>/*\n{UPLOT_LICENSE}\n*/\n{UPLOT_SCRIPT}</script>\n<script>{SCRIPT}</script>\n</body></html>\n",
        title = escape(input.title),
        versus = escape(&versus),
        about = escape(input.about),
        machine = escape(input.machine),
        command = escape(input.command),
        nav = nav(&body),
        data = script_json(&charts),
    )
}

/// Links to the sections that the page has.
fn nav(body: &str) -> String {
    let names = [
        ("overview", "Overview"),
        ("runtime", "CPU time"),
        ("probes", "Inside the scheduler"),
        ("latency", "Latency"),
        ("depth", "Queues"),
        ("switches", "Switches"),
        ("preemptions", "Preemptions"),
        ("overhead", "Overhead"),
        ("tasks", "Tasks"),
        ("everything", "All figures"),
        ("words", "Words"),
    ];
    let there = names
        .iter()
        .filter(|(id, _)| body.contains(&format!("<section id=\"{id}\"")));
    let links: String = there
        .map(|(id, name)| format!("<a href=\"#{id}\">{name}</a>"))
        .collect();
    format!("<nav>{links}</nav>")
}
