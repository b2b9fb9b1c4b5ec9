// SPDX-License-Identifier: GPL-2.0-or-later
//! Sections with tables: overview, tasks, all figures, words. A section without anything to show is
//! empty.

use super::ReportInput;
use super::bars;
use super::markup::{Table, escape};
use crate::table::{
    cell_of, effect_note, effect_text, headlines, idle_note, interval_note, ratio_title, unbroken,
    with_effects,
};
use tiltyard_measure::{Better, Row, Summary, TaskSummary, Verdict, units};

/// Tasks listed per scheduler, and starvation episodes.
const MAX_TASKS: usize = 12;
const MAX_EPISODES: usize = 6;

pub(super) fn time(ns: u64) -> String {
    units::time(ns as f64)
}

pub(super) fn count(n: u64) -> String {
    units::count(n as f64)
}

pub(super) fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => String::new(),
        _ => units::share(part as f64 / whole as f64),
    }
}

pub(super) fn shown(input: &ReportInput, text: &str) -> String {
    match input.comparison.runs.iter().max() {
        Some(&runs) if runs > 1 => format!("{text} Curves show one run: {}.", input.shown),
        _ => text.to_owned(),
    }
}

/// The headline table, why, and the same as bars.
pub fn overview(input: &ReportInput) -> String {
    let comparison = input.comparison;
    let all: Vec<&Row> = comparison.rows.iter().collect();
    let (shown, left_out) = headlines(&all);
    let rows: Vec<&Row> = shown.into_iter().map(|at| all[at]).collect();
    let more = match left_out {
        0 => String::new(),
        more => format!(" {more} more with less CPU time are in the table of all metrics."),
    };
    let table = comparison_table(input, &rows);
    let why: String = comparison
        .why
        .iter()
        .map(|s| format!("<p>{}</p>", escape(&unbroken(s))))
        .collect();
    let mut drawings = bars_legend(input);
    for (group, svg) in overview_bars(input) {
        drawings += &format!("<h3>{}</h3>{svg}", escape(&group));
    }
    let notes = [Some(interval_note(comparison)), idle_note(comparison)];
    let notes: Vec<String> = notes.into_iter().flatten().collect();
    format!(
        "<section id=\"overview\"><h2>Overview</h2><p class=\"lead\">The metrics that matter most, scheduler by \
         scheduler, on the same machine with the same workload.</p>\n{table}<p class=\"note\">{}{more}</p>\n\
         <div class=\"why\">{why}</div>\n{}<details open><summary>As bars</summary>{drawings}</details></section>\n",
        escape(&notes.join(" ")),
        differences(input, &rows)
    )
}

/// The headlines as bars: a drawing for each group of rows.
pub fn overview_bars(input: &ReportInput) -> Vec<(String, String)> {
    let all: Vec<&Row> = input.comparison.rows.iter().collect();
    let rows: Vec<&Row> = headlines(&all).0.into_iter().map(|at| all[at]).collect();
    let mut groups: Vec<&str> = rows.iter().map(|r| r.group.as_str()).collect();
    groups.dedup();
    let drawing = |group: &&str| {
        let of_group: Vec<&Row> = rows.iter().copied().filter(|r| r.group == *group).collect();
        (
            (*group).to_owned(),
            bars::group(input.comparison, &of_group),
        )
    };
    groups.iter().map(drawing).collect()
}

/// How large the differences to the first scheduler are.
fn differences(input: &ReportInput, rows: &[&Row]) -> String {
    let rows = with_effects(input.comparison, rows);
    if rows.is_empty() {
        return String::new();
    }
    let mut header = vec!["", ""];
    header.extend(
        input
            .comparison
            .schedulers
            .iter()
            .skip(1)
            .map(String::as_str),
    );
    let mut table = Table::new(2, &header);
    let mut group = "";
    for row in rows {
        let name = if row.group == group { "" } else { &row.group };
        group = &row.group;
        let effects = row.effects.iter().skip(1);
        let mut cells = vec![name.to_owned(), row.metric.clone()];
        cells.extend(effects.map(|e| e.as_ref().map_or("none".to_owned(), effect_text)));
        table.row(&cells);
    }
    format!(
        "<details><summary>How large the differences are</summary>{}<p class=\"note\">{}</p></details>\n",
        table.finish(),
        escape(&effect_note(input.comparison))
    )
}

fn bars_legend(input: &ReportInput) -> String {
    let names = input.comparison.schedulers.iter().enumerate();
    let items = names.map(|(i, name)| {
        format!(
            "<span><i class=\"key s{}\"></i>{}</span>",
            i % 6,
            escape(name)
        )
    });
    format!("<p class=\"legend\">{}</p>", items.collect::<String>())
}

fn comparison_table(input: &ReportInput, rows: &[&Row]) -> String {
    let schedulers = &input.comparison.schedulers;
    let pair = schedulers.len() == 2;
    let ratio = ratio_title(input.comparison);
    let mut header = vec!["", ""];
    header.extend(schedulers.iter().map(String::as_str));
    if pair {
        header.extend([ratio.as_str(), ""]);
    }
    let mut table = Table::new(2, &header);
    let mut group = "";
    for row in rows {
        let name = if row.group == group { "" } else { &row.group };
        group = &row.group;
        let mut cells = vec![
            format!("<span class=\"group\">{}</span>", escape(name)),
            escape(&row.metric),
        ];
        for i in 0..row.cells.len() {
            let text = escape(&cell_of(input.comparison, row, i));
            let best = row.best == Some(i) && row.better != Better::Neither;
            cells.push(if best {
                format!("<span class=\"good\">{text}</span>")
            } else {
                text
            });
        }
        if pair {
            cells.push(
                row.ratio
                    .map(units::plain)
                    .map(|r| escape(&r))
                    .unwrap_or_default(),
            );
            cells.push(verdict(row.verdict));
        }
        table.row_html(&cells);
    }
    table.finish()
}

fn verdict(verdict: Option<Verdict>) -> String {
    let Some(verdict) = verdict else {
        return String::new();
    };
    let class = match verdict {
        Verdict::MuchBetter | Verdict::Better => "good",
        Verdict::Same => "dim",
        Verdict::Worse | Verdict::MuchWorse => "bad",
    };
    format!("<span class=\"{class}\">{}</span>", verdict.symbol())
}

/// The busiest tasks and the longest waits.
pub fn tasks(input: &ReportInput) -> String {
    let columns = [
        "task",
        "app",
        "runtime",
        "wait",
        "sleep",
        "wakeup p99",
        "longest wait",
        "switches",
        "preempted",
        "migrations",
    ];
    let mut body = String::new();
    for (_, name, run) in input.first_runs() {
        let mut busiest: Vec<&TaskSummary> = run.tasks.iter().collect();
        busiest.sort_by_key(|t| (std::cmp::Reverse(t.runtime_ns), t.tid));
        let mut table = Table::new(2, &columns);
        for task in busiest.iter().take(MAX_TASKS) {
            table.row(&[
                format!("{} ({})", task.name, task.tid),
                task.app.clone(),
                time(task.runtime_ns),
                time(task.wait_ns),
                time(task.sleep_ns),
                if task.wakeup.count > 0 {
                    time(task.wakeup.p99_ns)
                } else {
                    String::new()
                },
                time(task.longest_wait_ns),
                count(task.switches.total()),
                count(task.switches.preempt + task.switches.higher_class),
                count(task.migrations),
            ]);
        }
        body += &format!(
            "<h3>{}</h3>{}{}",
            escape(name),
            table.finish(),
            starvation(run)
        );
    }
    format!(
        "<section id=\"tasks\"><h2>The busiest tasks</h2><p class=\"lead\">{}</p>\n{body}<details><summary>Command\
         </summary><pre>{}</pre></details></section>\n",
        escape(&shown(
            input,
            "Single tasks by runtime, and the longest waits."
        )),
        escape(input.command)
    )
}

fn starvation(run: &Summary) -> String {
    if run.starvation.is_empty() {
        return String::new();
    }
    let episodes = run.starvation.iter().take(MAX_EPISODES).map(|e| {
        let end = if e.open {
            "and until the end of the run"
        } else {
            ""
        };
        format!(
            "{} ({}) from {} for {} {end}",
            e.app,
            e.tid,
            time(e.begin_ns),
            time(e.wait_ns)
        )
    });
    let list: Vec<String> = episodes.map(|text| text.trim_end().to_owned()).collect();
    let text = format!(
        "Waited longer than {}: {}.",
        time(run.starvation_ns),
        list.join("; ")
    );
    format!("<p class=\"note\">{}</p>", escape(&text))
}

/// Every figure of the comparison.
pub fn everything(input: &ReportInput) -> String {
    let rows: Vec<&Row> = input.comparison.rows.iter().collect();
    format!(
        "<section id=\"everything\"><h2>All metrics</h2><p class=\"lead\">Every metric that was compared.</p>\
         <details><summary>Table and command</summary>{}<p class=\"note\">{}</p><pre>{}</pre></details>{}</section>\n",
        comparison_table(input, &rows),
        escape(&interval_note(input.comparison)),
        escape(input.command),
        differences(input, &rows)
    )
}

/// What the words mean.
pub fn words(input: &ReportInput) -> String {
    let bound_ns = input
        .first_runs()
        .map(|(_, _, run)| run.starvation_ns)
        .next()
        .unwrap_or(0);
    let starvation = format!(
        "Runnable for longer than {} without running.",
        time(bound_ns)
    );
    let words = [
        (
            "runtime, wait, sleep",
            "On a CPU; runnable but not on a CPU; neither. Their sum is the task's lifetime.",
        ),
        (
            "wakeup latency",
            "Time from the wakeup of a sleeping task until it runs.",
        ),
        (
            "preemption",
            "A task lost the CPU although it was still runnable.",
        ),
        ("starvation", starvation.as_str()),
        (
            "busy, idle, overhead",
            "Time used by tasks; without a task; used by the machine and the scheduler. Their sum is the run time.",
        ),
        (
            "wasted",
            "Time in which a CPU was idle although a task that may run there waited, and no other idle CPU was left for it.",
        ),
        (
            "Jain index",
            "How evenly an app's tasks got CPU time: 1 if all got the same share of their lifetime.",
        ),
        (
            "++ + ~ - --",
            "The second scheduler against the first: better by a factor of 1.5 or more, better, the same (within the intervals or 1 %), worse, worse by that factor.",
        ),
    ];
    let list: String = words
        .iter()
        .map(|(word, meaning)| format!("<dt>{}</dt><dd>{}</dd>", escape(word), escape(meaning)))
        .collect();
    format!("<section id=\"words\"><h2>Glossary</h2><dl>{list}</dl></section>\n")
}
