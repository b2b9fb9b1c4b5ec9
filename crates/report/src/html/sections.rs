// SPDX-License-Identifier: GPL-2.0-or-later
//! The sections of the page, in its order. A section without anything to show is empty.

use super::ReportInput;
use super::bars;
use super::charts::{self, Chart};
use super::markup::{Figure, Table, escape};
use crate::table::{cell_text, interval_note, unbroken};
use tiltyard_measure::{Better, Latency, Row, Summary, TaskSummary, Verdict, units};

/// Tasks listed per scheduler, and starvation episodes.
const MAX_TASKS: usize = 12;
const MAX_EPISODES: usize = 6;

fn time(ns: u64) -> String {
    units::time(ns as f64)
}

fn count(n: u64) -> String {
    units::count(n as f64)
}

fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => String::new(),
        _ => units::share(part as f64 / whole as f64),
    }
}

/// A diagram for each scheduler, side by side.
fn side_by_side(named: &[(String, &str)]) -> String {
    let boxes = named.iter().map(|(id, name)| {
        let name = escape(name);
        format!("<div><h3>{name}</h3><div class=\"chart\" id=\"{id}\"></div></div>\n")
    });
    format!(
        "<div class=\"grid\">\n{}</div>\n",
        boxes.collect::<String>()
    )
}

fn shown(input: &ReportInput, text: &str) -> String {
    match input.comparison.runs.iter().max() {
        Some(&runs) if runs > 1 => format!("{text} One run is drawn: {}.", input.shown),
        _ => text.to_owned(),
    }
}

fn has_figures(row: &&Row) -> bool {
    row.headline && row.cells.iter().flatten().any(|c| c.high != 0.0)
}

/// The headline table, why, and the same as bars.
pub fn overview(input: &ReportInput) -> String {
    let comparison = input.comparison;
    let rows: Vec<&Row> = comparison.rows.iter().filter(has_figures).collect();
    let table = comparison_table(input, &rows);
    let why: String = comparison
        .why
        .iter()
        .map(|s| format!("<p>{}</p>", escape(&unbroken(s))))
        .collect();
    let mut drawings = bars_legend(input);
    let mut groups: Vec<&str> = rows.iter().map(|r| r.group.as_str()).collect();
    groups.dedup();
    for group in groups {
        let of_group: Vec<&Row> = rows.iter().copied().filter(|r| r.group == group).collect();
        drawings += &format!(
            "<h3>{}</h3>{}",
            escape(group),
            bars::group(comparison, &of_group)
        );
    }
    format!(
        "<section id=\"overview\"><h2>Overview</h2><p class=\"lead\">The figures that matter most, scheduler by \
         scheduler, on the same machine with the same workload.</p>\n{table}<p class=\"note\">{}</p>\n\
         <div class=\"why\">{why}</div>\n<details open><summary>As bars</summary>{drawings}</details></section>\n",
        escape(&interval_note(comparison))
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
    let ratio = schedulers.join(" : ");
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
        for (i, cell) in row.cells.iter().enumerate() {
            let text = cell
                .as_ref()
                .map_or("none".to_owned(), |c| escape(&cell_text(row, c)));
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

/// Cumulative runtime per app.
pub fn runtime(input: &ReportInput, out: &mut Vec<Chart>) -> String {
    let apps = input.colored_apps();
    let runs = input.first_runs();
    let mut drawn: Vec<Chart> = runs
        .map(|(i, _, run)| charts::runtime(format!("runtime-{i}"), run, &apps))
        .collect();
    charts::level(&mut drawn);
    let named: Vec<_> = input
        .first_runs()
        .map(|(i, name, _)| (format!("runtime-{i}"), name))
        .collect();
    out.extend(drawn);
    let mut table = Table::new(
        2,
        &[
            "scheduler",
            "app",
            "tasks",
            "runtime",
            "of the CPUs",
            "wait",
            "sleep",
            "ended at",
        ],
    );
    for (_, name, run) in input.first_runs() {
        let capacity_ns = run.duration_ns * run.cpus.len() as u64;
        for app in &run.apps {
            table.row(&[
                name.to_owned(),
                app.app.clone(),
                count(app.tasks),
                time(app.runtime_ns),
                share(app.runtime_ns, capacity_ns),
                time(app.wait_ns),
                time(app.sleep_ns),
                app.ended_ns.map_or("still alive".to_owned(), time),
            ]);
        }
    }
    Figure {
        id: "runtime",
        title: "CPU time over time",
        sentence: &shown(
            input,
            "How much CPU time each app has had so far: a steep line runs, a flat line waits or sleeps.",
        ),
        body: side_by_side(&named),
        table: table.finish(),
        command: input.command,
    }
    .finish()
}

/// The schedulers' own figures.
pub fn probes(input: &ReportInput, out: &mut Vec<Chart>) -> String {
    let apps = input.colored_apps();
    let mut drawn = Vec::new();
    let mut named = Vec::new();
    let columns = [
        "scheduler",
        "probe",
        "of",
        "values",
        "first",
        "min",
        "max",
        "last",
    ];
    let mut table = Table::new(3, &columns);
    for (i, name, run) in input.first_runs() {
        for (k, probe) in run.probes.iter().enumerate() {
            let id = format!("probe-{i}-{k}");
            if let Some(chart) = charts::probe(id.clone(), run, probe, &apps) {
                drawn.push(chart);
                named.push((id, format!("{}: {name}", probe.probe)));
            }
            for series in probe.apps.iter().chain(&probe.keys) {
                let of = match (probe.per_cpu, series.app == series.name) {
                    (true, _) => format!("CPU {}", series.name),
                    (false, true) => series.name.clone(),
                    (false, false) => format!("{} task {}", series.app, series.name),
                };
                let mut cells = vec![
                    name.to_owned(),
                    probe.probe.clone(),
                    of,
                    count(series.count),
                ];
                let figures = [series.first, series.min, series.max, series.last];
                cells.extend(figures.map(|v| units::count(v as f64)));
                table.row(&cells);
            }
        }
    }
    if drawn.is_empty() {
        return String::new();
    }
    out.extend(drawn);
    let named: Vec<_> = named
        .iter()
        .map(|(id, name)| (id.clone(), name.as_str()))
        .collect();
    Figure {
        id: "probes",
        title: "Inside the scheduler",
        sentence: &shown(
            input,
            "Figures that the scheduler itself keeps: the line is the mean over an app's tasks, the band their \
             smallest and largest value; a value holds until the scheduler tells a new one.",
        ),
        body: side_by_side(&named),
        table: table.finish(),
        command: input.command,
    }
    .finish()
}

/// A request class or an app's wakeups, by scheduler.
type Distribution<'a> = (String, Vec<(usize, String, &'a Latency)>);

/// Distributions of request latencies, then of wakeup latencies, the most frequent apps first.
fn all_distributions<'a>(input: &ReportInput<'a>) -> Vec<Distribution<'a>> {
    let mut requests: Vec<Distribution> = Vec::new();
    let mut wakeups: Vec<Distribution> = Vec::new();
    fn add<'a>(to: &mut Vec<Distribution<'a>>, title: String, of: (usize, String, &'a Latency)) {
        match to.iter_mut().find(|(known, _)| *known == title) {
            Some((_, list)) => list.push(of),
            None => to.push((title, vec![of])),
        }
    }
    for (i, name, run) in input.first_runs() {
        for request in run.requests.iter().filter(|r| r.latency.max_ns > 0) {
            let title = format!("latency of {} ({})", request.class, request.app);
            add(&mut requests, title, (i, name.to_owned(), &request.latency));
        }
        for app in run.apps.iter().filter(|a| a.wakeup.count > 0) {
            let title = format!("wakeup latency of {}", app.app);
            add(&mut wakeups, title, (i, name.to_owned(), &app.wakeup));
        }
    }
    let most = |d: &Distribution| d.1.iter().map(|(_, _, latency)| latency.count).max();
    wakeups.sort_by_key(|d| std::cmp::Reverse(most(d)));
    wakeups.truncate(6);
    requests.into_iter().chain(wakeups).collect()
}

/// Latency percentiles.
pub fn distributions(input: &ReportInput, out: &mut Vec<Chart>) -> String {
    let all = all_distributions(input);
    if all.is_empty() {
        return String::new();
    }
    let mut named = Vec::new();
    let columns = [
        "",
        "scheduler",
        "count",
        "mean",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
    ];
    let mut table = Table::new(2, &columns);
    for (k, (title, by_scheduler)) in all.iter().enumerate() {
        let id = format!("latency-{k}");
        out.push(charts::percentiles(id.clone(), by_scheduler));
        named.push((id, title.as_str()));
        for (_, name, l) in by_scheduler {
            let mut cells = vec![title.clone(), name.clone(), count(l.count)];
            cells.extend([l.mean_ns, l.p50_ns, l.p90_ns, l.p99_ns, l.p999_ns, l.max_ns].map(time));
            table.row(&cells);
        }
    }
    Figure {
        id: "latency",
        title: "Latency percentiles",
        sentence: &shown(
            input,
            "Read: at 99 %, all but one in a hundred were at least this fast. Each further nine has the same room, \
             so the rare slow ones show; lower is better.",
        ),
        body: side_by_side(&named),
        table: table.finish(),
        command: input.command,
    }
    .finish()
}

/// Runqueue depth.
pub fn depth(input: &ReportInput, out: &mut Vec<Chart>) -> String {
    let mut drawn: Vec<Chart> = input
        .first_runs()
        .map(|(i, _, run)| charts::depth(format!("depth-{i}"), run))
        .collect();
    charts::level(&mut drawn);
    out.extend(drawn);
    let named: Vec<_> = input
        .first_runs()
        .map(|(i, name, _)| (format!("depth-{i}"), name))
        .collect();
    let columns = [
        "scheduler",
        "CPU",
        "mean depth",
        "max",
        "busy",
        "idle",
        "overhead",
        "switches",
        "migrations in",
    ];
    let mut table = Table::new(2, &columns);
    for (_, name, run) in input.first_runs() {
        for (cpu, (time, depth)) in run.cpus.iter().zip(&run.depth.cpus).enumerate() {
            table.row(&[
                name.to_owned(),
                cpu.to_string(),
                units::plain(mean_depth(run, &depth.mean_milli)),
                count(depth.max.iter().copied().max().unwrap_or(0).into()),
                share(time.busy_ns, run.duration_ns),
                share(time.idle_ns, run.duration_ns),
                share(time.overhead_ns, run.duration_ns),
                count(time.switches),
                count(time.migrations_in),
            ]);
        }
    }
    Figure {
        id: "depth",
        title: "Queue depth",
        sentence: &shown(
            input,
            "How many tasks want each CPU, the running one included: more than one means that someone waits. The \
             line is the mean over a short time, the band reaches to its maximum.",
        ),
        body: side_by_side(&named),
        table: table.finish(),
        command: input.command,
    }
    .finish()
}

/// Over the whole run, weighted by the length of the buckets.
fn mean_depth(run: &Summary, mean_milli: &[u64]) -> f64 {
    let ends = run.depth.begin_ns.iter().skip(1).chain([&run.duration_ns]);
    let spans = run
        .depth
        .begin_ns
        .iter()
        .zip(ends)
        .map(|(begin, end)| end - begin);
    let area: f64 = spans
        .zip(mean_milli)
        .map(|(ns, &milli)| ns as f64 * milli as f64)
        .sum();
    match run.duration_ns {
        0 => 0.0,
        ns => area / ns as f64 / 1000.0,
    }
}

/// What a section of [`parts`] is about: amounts with names, which add up to a total.
struct Parts {
    id: &'static str,
    title: &'static str,
    sentence: &'static str,
    of: fn(&Summary) -> Vec<(&'static str, u64)>,
    write: fn(u64) -> String,
}

/// A bar of parts for each scheduler, all to one scale, and a table.
fn parts(input: &ReportInput, about: &Parts) -> String {
    let runs = input.first_runs();
    let all: Vec<_> = runs.map(|(_, name, run)| (name, (about.of)(run))).collect();
    let total = |parts: &[(&str, u64)]| parts.iter().map(|(_, n)| n).sum::<u64>();
    let largest = all.iter().map(|(_, parts)| total(parts)).max().unwrap_or(0);
    let Some((_, first)) = all.first().filter(|_| largest > 0) else {
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
        title: "Why CPUs changed hands",
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
        title: "What the system took",
        sentence: "CPU time that went to the system and not to tasks, by cause.",
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
        title: "Who preempted whom",
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
            "Single tasks by runtime, and who waited longest."
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
            "and still when the run ended"
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
        "<section id=\"everything\"><h2>All figures</h2><p class=\"lead\">Every figure that was compared.</p>\
         <details><summary>Table and command</summary>{}<p class=\"note\">{}</p><pre>{}</pre></details></section>\n",
        comparison_table(input, &rows),
        escape(&interval_note(input.comparison)),
        escape(input.command)
    )
}

/// What the words mean.
pub fn words(input: &ReportInput) -> String {
    let bound_ns = input
        .first_runs()
        .map(|(_, _, run)| run.starvation_ns)
        .next()
        .unwrap_or(0);
    let starvation = format!("Runnable and not run for longer than {}.", time(bound_ns));
    let words = [
        (
            "runtime, wait, sleep",
            "On a CPU; runnable and not on a CPU; neither. They add up to the task's lifetime.",
        ),
        (
            "wakeup latency",
            "From the wakeup of a sleeping task to its running.",
        ),
        (
            "preemption",
            "A task lost the CPU although it would have run on.",
        ),
        ("starvation", starvation.as_str()),
        (
            "busy, idle, overhead",
            "A CPU worked for tasks; had none; worked for the system. They add up to the run.",
        ),
        (
            "Jain index",
            "How evenly an app's tasks got CPU time: 1 when all got the same share of their lifetime.",
        ),
        (
            "++ + ~ - --",
            "The first scheduler is better by half or more, better, the same (within the intervals or 1 %), worse, worse by half or more.",
        ),
    ];
    let list: String = words
        .iter()
        .map(|(word, meaning)| format!("<dt>{}</dt><dd>{}</dd>", escape(word), escape(meaning)))
        .collect();
    format!("<section id=\"words\"><h2>Words</h2><dl>{list}</dl></section>\n")
}
