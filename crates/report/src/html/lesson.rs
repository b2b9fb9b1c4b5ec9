// SPDX-License-Identifier: GPL-2.0-or-later
//! The page of a lesson. It does without the curves of reports, so that it stays small.

use serde::Serialize;
use tiltyard_model::SHELL_PREFIX;

use super::charts::rounded;
use super::markup::{Table, escape, script_json};
use crate::lesson::{Lesson, Of, Panel, Point, Question, Shown};
use crate::timeline::{Left, Recorded};

const STYLE: &str = include_str!("../../assets/lesson.css");
const SCRIPT: &str = include_str!("../../assets/lesson.js");

/// What the script draws. Times are in µs since the window's beginning.
#[derive(Serialize)]
struct Data {
    /// When the window begins, in ms.
    from_ms: f64,
    length: f64,
    cpus: usize,
    left: Vec<&'static str>,
    tasks: Vec<Track>,
    panels: Vec<Curves>,
}

#[derive(Serialize)]
struct Track {
    name: String,
    spans: Vec<Span>,
}

/// From, to, the CPU (-1: waits for one), and why the task left it as an index of `left`.
type Span = (f64, f64, i64, u8);

#[derive(Serialize)]
struct Curves {
    title: String,
    note: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<(f64, String)>,
    series: Vec<Curve>,
}

#[derive(Serialize)]
struct Curve {
    name: String,
    color: usize,
    points: Vec<(f64, f64)>,
}

/// Tenths of µs.
fn us(ns: u64) -> f64 {
    (ns as f64 / 100.0).round() / 10.0
}

fn data(shown: &Shown) -> Data {
    let of = &shown.timeline;
    let mut order: Vec<usize> = (0..of.tasks.len()).collect();
    order.sort_by_key(|at| of.tasks[*at].tid);
    let spans = spans(of);
    let is_shell = |at: usize| of.tasks[at].name.starts_with(SHELL_PREFIX);
    order.retain(|at| !spans[*at].is_empty() && !is_shell(*at));
    let track = |at: &usize| Track {
        name: of.tasks[*at].name.clone(),
        spans: spans[*at].clone(),
    };
    let tids: Vec<u32> = order.iter().map(|at| of.tasks[*at].tid).collect();
    let tasks: Vec<Track> = order.iter().map(track).collect();
    let panels = shown.panels.iter();
    let panels = panels.map(|panel| curves(panel, of, &tids, &tasks));
    Data {
        from_ms: us(of.from_ns) / 1e3,
        length: us(of.to_ns - of.from_ns),
        cpus: of.nr_cpus,
        left: Left::ALL.iter().map(|(_, name)| *name).collect(),
        panels: panels.collect(),
        tasks,
    }
}

/// When each task ran and waited in the window, in order of time.
fn spans(of: &Recorded) -> Vec<Vec<Span>> {
    let mut spans = vec![Vec::new(); of.tasks.len()];
    let (slices, still) = (&of.slices, Left::StillRuns as u8);
    let mut add = |task: usize, begin_ns: u64, end_ns: u64, cpu: i64, left: u8| {
        let begin_ns = begin_ns.max(of.from_ns);
        if begin_ns < end_ns {
            let (begin, end) = (us(begin_ns - of.from_ns), us(end_ns - of.from_ns));
            spans[task].push((begin, end, cpu, left));
        }
    };
    let mut end_ns = of.from_ns;
    for i in 0..slices.len() {
        end_ns += slices.end_ns[i];
        let begin_ns = end_ns.saturating_sub(slices.length_ns[i]);
        let waits_ns = begin_ns.saturating_sub(slices.wait_ns[i]);
        add(slices.task[i], waits_ns, begin_ns, -1, still);
        let cpu = i64::from(slices.cpu[i]);
        add(slices.task[i], begin_ns, end_ns, cpu, slices.left[i]);
    }
    for wait in &of.waiting {
        add(wait.task, wait.since_ns, of.to_ns, -1, still);
    }
    spans
}

fn curves(panel: &Panel, of: &Recorded, tids: &[u32], tasks: &[Track]) -> Curves {
    let probe = &panel.probe;
    let drawn: Vec<(String, usize, &Vec<Point>)> = match probe.of {
        Of::Cpu => {
            let cpus = probe.series.iter();
            let cpus = cpus.map(|(cpu, points)| (format!("CPU {cpu}"), *cpu as usize, points));
            cpus.collect()
        }
        // The last colour: no task's.
        Of::Machine => probe
            .series
            .values()
            .map(|points| (String::new(), 7, points))
            .collect(),
        Of::Task => {
            let known = tids.iter().enumerate();
            let known = known.filter_map(|(at, tid)| Some((at, probe.series.get(tid)?)));
            known
                .map(|(at, points)| (tasks[at].name.clone(), at, points))
                .collect()
        }
    };
    let all = drawn.iter().flat_map(|(_, _, points)| points.iter());
    let least = all.map(|(_, value)| *value).min();
    let least = least.filter(|_| panel.relative).unwrap_or(0);
    let value = |value: i64| rounded((value - least) as f64 / panel.per_unit);
    let point = |&(at_ns, v): &(u64, i64)| (us(at_ns - of.from_ns), value(v));
    let series = drawn.iter().map(|(name, color, points)| Curve {
        name: name.clone(),
        color: *color,
        points: points.iter().map(point).collect(),
    });
    Curves {
        title: panel.title.clone(),
        note: panel.note.clone(),
        mark: panel.mark.clone(),
        series: series.collect(),
    }
}

fn paragraphs(texts: &[String]) -> String {
    let texts = texts.iter();
    texts
        .map(|text| format!("<p>{}</p>\n", marked(text)))
        .collect()
}

/// Text with `code` and *emphasis*.
fn marked(text: &str) -> String {
    let text = between(&escape(text), '`', "code");
    between(&text, '*', "em")
}

fn between(text: &str, mark: char, tag: &str) -> String {
    let parts = text.split(mark).enumerate();
    let parts = parts.map(|(at, part)| match at % 2 {
        0 => part.to_owned(),
        _ => format!("<{tag}>{part}</{tag}>"),
    });
    parts.collect()
}

/// A command with the part that changes marked.
fn command(line: &str, part: &str) -> String {
    let marked = format!("<mark>{}</mark>", escape(part));
    let line = escape(line).replacen(&escape(part), &marked, 1);
    format!("<pre>{line}</pre>\n")
}

fn figure(shown: &Shown) -> String {
    format!(
        "<div class=\"figure\"><script type=\"application/json\">{}</script>\
         <noscript>The timeline is drawn by a script, which this browser does not run.</noscript></div>\n",
        script_json(&data(shown))
    )
}

fn question(number: usize, of: &Question) -> String {
    let mut table = Table::new(2, &["task", "row", "before", "after"]);
    let cells = of.row.cells.iter();
    let cells = cells.map(|cell| match cell {
        Some(cell) => of.row.unit.write(cell.median),
        None => of.row.absent().to_owned(),
    });
    let mut row = vec![of.row.group.clone(), of.row.metric.clone()];
    row.extend(cells);
    table.row(&row);
    format!(
        "<section class=\"question\"><h2>Question {number}</h2>\n<p>{}</p>\n\
         <p class=\"try\">Change <code>{}</code> to <code>{}</code> and see:</p>\n{}\
         <details><summary>Answer</summary>\n{}{}{}</details></section>\n",
        marked(&of.ask),
        escape(&of.change[0]),
        escape(&of.change[1]),
        command(&of.shown.command, &of.change[1]),
        paragraphs(&of.answer),
        table.finish(),
        figure(&of.shown),
    )
}

/// The whole page.
pub fn render(of: &Lesson) -> String {
    let questions = of.questions.iter().enumerate();
    let questions: String = questions.map(|(at, q)| question(at + 1, q)).collect();
    let more = of.more.iter();
    let more = more.map(|(name, file)| match file.is_empty() {
        true => format!("<b>{}</b>", escape(name)),
        false => format!("<a href=\"{}\">{}</a>", escape(file), escape(name)),
    });
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"Tiltyard {version}\">\n\
         <title>{title}</title>\n<style>{STYLE}</style></head>\n<body><main>\n\
         <header><nav>{more}</nav><h1>{title}</h1>\n{rule}</header>\n\
         <section><h2>An example</h2>\n{example}<pre>{command}</pre>\n{figure}</section>\n{questions}\
         <footer>Made by Tiltyard {version} (<code>tiltyard teach</code>) from runs in the simulated machine. The same commands give the \
         same numbers on every machine.</footer>\n\
         </main>\n<script>{SCRIPT}</script></body></html>\n",
        version = env!("CARGO_PKG_VERSION"),
        title = escape(&of.title),
        more = more.collect::<String>(),
        rule = paragraphs(&of.rule),
        example = paragraphs(&of.example),
        command = escape(&of.shown.command),
        figure = figure(&of.shown),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_code_and_emphasis() {
        assert_eq!(marked("a *b* `c<`"), "a <em>b</em> <code>c&lt;</code>");
        assert_eq!(
            command("x a=1 y", "a=1"),
            "<pre>x <mark>a=1</mark> y</pre>\n"
        );
    }
}
