// SPDX-License-Identifier: GPL-2.0-or-later
//! Reports: one HTML file that needs no network, with its curves, tables and the command that made it.

mod barlist;
mod bars;
mod causes;
pub(crate) mod charts;
mod curves;
mod lesson;
pub(crate) mod maps;
pub(crate) mod markup;
mod page;
mod panels;
mod plots;
mod sections;
mod standings;
mod statements;
mod timelines;
mod waterfall;

use crate::explanation::Explanation;
use crate::findings::Findings;
use crate::standings::Standings;
use crate::svg;
use crate::timeline::Recorded;
use charts::Chart;
pub use lesson::render as render_lesson;
use markup::escape;
use page::Page;
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
    /// The timeline of the first run of each scheduler that has one.
    pub timelines: &'a [(String, Recorded)],
    /// The memory node of each CPU; empty if it is not known.
    pub nodes: &'a [u32],
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

/// The whole page.
pub fn render(input: &ReportInput) -> String {
    let mut charts: Vec<Chart> = Vec::new();
    let (mut maps, mut timelines) = (Vec::new(), Vec::new());
    let body_html: String = [
        sections::overview(input),
        curves::runtime(input, &mut charts),
        curves::probes(input, &mut charts),
        curves::distributions(input, &mut charts),
        curves::depth(input, &mut charts, &mut maps),
        timelines::section(input, &mut timelines),
        causes::switches(input),
        causes::preemptions(input),
        causes::overhead(input),
        sections::tasks(input),
        sections::everything(input),
        sections::words(input),
    ]
    .concat();
    let versus = input.comparison.schedulers.join(" against ");
    Page {
        title: &format!("{}: {versus}", input.title),
        heading_html: format!(
            "{}: <span class=\"versus\">{}</span>",
            escape(input.title),
            escape(&versus)
        ),
        about: &[input.about, input.machine],
        command: input.command,
        parts: &[
            ("overview", "Overview"),
            ("runtime", "CPU time"),
            ("probes", "Inside the scheduler"),
            ("latency", "Latency"),
            ("depth", "Threads per CPU"),
            ("timeline", "Timeline"),
            ("switches", "Switches"),
            ("preemptions", "Preemptions"),
            ("overhead", "Overhead"),
            ("tasks", "Tasks"),
            ("everything", "All metrics"),
            ("words", "Glossary"),
        ],
        body_html,
        charts: &charts,
        maps: &maps,
        timelines: &timelines,
        filter: false,
    }
    .render()
}

/// The diagrams of the page as SVG files: their names without extension, and what is in them.
pub fn figures(input: &ReportInput) -> Vec<(String, String)> {
    let mut charts: Vec<Chart> = Vec::new();
    for section in [curves::runtime, curves::probes, curves::distributions] {
        section(input, &mut charts);
    }
    charts.extend(curves::depths(input).into_iter().map(|(_, chart)| chart));
    let bars = sections::overview_bars(input).into_iter();
    let bars =
        bars.map(|(group, svg)| (format!("overview-{}", file_name(&group)), bars::file(&svg)));
    let maps = maps::Maps::new(input);
    let maps = maps.iter().flat_map(svg::maps);
    let maps = maps.map(|(title, svg)| (file_name(&title), svg));
    bars.chain(files(&charts)).chain(maps).collect()
}

/// The same of the page about statements.
pub fn findings_figures(findings: &Findings) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for chapter in &findings.chapters {
        let numbered = plots::files(chapter).into_iter().enumerate();
        // Figures of one name may occur twice, so they are numbered, too.
        let name = |i, figure| file_name(&format!("{} {} {figure}", chapter.title, i + 1));
        all.extend(numbered.map(|(i, (figure, svg))| (name(i, figure), svg)));
    }
    all
}

fn files(charts: &[Chart]) -> impl Iterator<Item = (String, String)> {
    charts
        .iter()
        .map(|chart| (chart.id.clone(), svg::chart(chart)))
}

/// Letters, digits and hyphens.
fn file_name(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = text.to_lowercase().chars().map(plain).collect();
    let words = name.split('-').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

/// The page about statements that were checked.
pub fn render_findings(findings: &Findings) -> String {
    let mut charts: Vec<Chart> = Vec::new();
    let mut timelines = Vec::new();
    let chapters: String = findings
        .chapters
        .iter()
        .map(|c| plots::chapter(c, &mut charts, &mut timelines))
        .collect();
    let body_html = [
        statements::counts(findings),
        statements::all(findings),
        chapters,
    ]
    .concat();
    let mut parts = vec![("counts", "Counts"), ("statements", "Claims")];
    let chapters = findings.chapters.iter();
    parts.extend(chapters.map(|c| (c.id.as_str(), c.title.as_str())));
    Page {
        title: &findings.title,
        heading_html: escape(&findings.title),
        about: &[&findings.about],
        command: &findings.command,
        parts: &parts,
        body_html,
        charts: &charts,
        maps: &[],
        timelines: &timelines,
        filter: true,
    }
    .render()
}

/// The page about a difference and its causes.
pub fn render_explanation(of: &Explanation) -> String {
    let versus = of.schedulers.join(" against ");
    Page {
        title: &format!("{}: {versus}", of.title),
        heading_html: format!(
            "{}: <span class=\"versus\">{}</span>",
            escape(&of.title),
            escape(&versus)
        ),
        about: &of.about.each_ref().map(String::as_str),
        command: &of.command,
        parts: &[("causes", "Causes"), ("mechanisms", "Mechanisms")],
        body_html: [waterfall::section(of), waterfall::words(of)].concat(),
        charts: &[],
        maps: &[],
        timelines: &[],
        filter: false,
    }
    .render()
}

/// Its diagram as an SVG file: the name without extension, and the text.
pub fn explanation_figures(of: &Explanation) -> Vec<(String, String)> {
    vec![("causes".to_owned(), bars::file(&waterfall::svg(of)))]
}

/// The page about who wins what.
pub fn render_standings(of: &Standings) -> String {
    let sections = [
        standings::glance(of),
        standings::league(of),
        standings::contests(of),
        standings::pairs(of),
        standings::worst_cases(of),
        standings::failures(of),
        standings::rules(of),
    ];
    Page {
        title: &of.title,
        heading_html: escape(&of.title),
        about: &[&of.about],
        command: &of.command,
        parts: &[
            ("glance", "Who wins what"),
            ("league", "Standings"),
            ("contests", "Contests"),
            ("pairs", "Head to head"),
            ("worst", "Worst cases"),
            ("failures", "Failures"),
            ("rules", "Rules"),
        ],
        body_html: sections.concat(),
        charts: &[],
        maps: &[],
        timelines: &[],
        filter: false,
    }
    .render()
}

/// Its charts as SVG files: their names without extension, and what is in them.
pub fn standings_figures(of: &Standings) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for at in 0..of.contests.len() {
        let own = file_name(&of.place(at));
        let is_new = |name: &String| all.iter().all(|(known, _)| known != name);
        let numbered = (2..).map(|n| format!("{own}-{n}"));
        let name = std::iter::once(own.clone()).chain(numbered).find(is_new);
        all.push((
            name.unwrap_or_default(),
            panels::file(&panels::panel(of, at)),
        ));
    }
    all
}
