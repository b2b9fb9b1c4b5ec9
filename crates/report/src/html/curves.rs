// SPDX-License-Identifier: GPL-2.0-or-later
//! Sections with curves: CPU time, probes, latency percentiles, queue depth.

use super::ReportInput;
use super::charts::{self, Chart};
use super::maps;
use super::markup::{Figure, Table, escape};
use super::sections::{count, share, shown, time};
use tiltyard_measure::{Latency, Summary, units};

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

/// Cumulative runtime per app.
pub fn runtime(input: &ReportInput, out: &mut Vec<Chart>) -> String {
    let apps = input.colored_apps();
    let runs = input.first_runs();
    let mut drawn: Vec<Chart> = runs
        .map(|(i, name, run)| Chart {
            title: format!("CPU time over time: {name}"),
            ..charts::runtime(format!("runtime-{i}"), run, &apps)
        })
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
            "active until",
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
                app.active_ns
                    .map_or("never ran".to_owned(), |(_, ns)| time(ns)),
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
                let title = format!("{}: {name}", probe.probe);
                named.push((id, title.clone()));
                drawn.push(Chart { title, ..chart });
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
                let figures = [
                    series.first,
                    series.min,
                    series.mean,
                    series.max,
                    series.last,
                ];
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
             smallest and largest value; a value is valid until the next one.",
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
        out.push(Chart {
            title: title.clone(),
            ..charts::percentiles(id.clone(), by_scheduler)
        });
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

/// Runqueue depth as curves.
pub fn depths<'a>(input: &ReportInput<'a>) -> Vec<(&'a str, Chart)> {
    let drawn = input.first_runs().filter_map(|(i, name, run)| {
        let title = format!("Queue depth: {name}");
        let chart = charts::depth(format!("depth-{i}"), run)?;
        Some((name, Chart { title, ..chart }))
    });
    let (names, mut charts): (Vec<&str>, Vec<Chart>) = drawn.unzip();
    charts::level(&mut charts);
    names.into_iter().zip(charts).collect()
}

/// Runqueue depth as curves, and maps of CPUs over time.
pub fn depth(
    input: &ReportInput,
    out: &mut Vec<Chart>,
    drawn_maps: &mut Vec<serde_json::Value>,
) -> String {
    let drawn = depths(input);
    let named: Vec<_> = drawn
        .iter()
        .map(|(name, chart)| (chart.id.clone(), *name))
        .collect();
    let curves = match named.is_empty() {
        true => String::new(),
        false => side_by_side(&named),
    };
    out.extend(drawn.into_iter().map(|(_, chart)| chart));
    let columns = [
        "scheduler",
        "CPU",
        "mean depth",
        "max",
        "busy",
        "idle",
        "overhead",
        "wasted",
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
                time.wasted_ns
                    .map_or("unknown".to_owned(), |ns| share(ns, run.duration_ns)),
                count(time.switches),
                count(time.migrations_in),
            ]);
        }
    }
    Figure {
        id: "depth",
        title: "Threads per CPU",
        sentence: &shown(
            input,
            "How many threads each CPU has, the running one included: more than one means that someone waits. Curves and \
             colours are the mean over a short time, bands reach to its maximum.",
        ),
        body: curves + &maps::place(input, drawn_maps),
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
