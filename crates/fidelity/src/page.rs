// SPDX-License-Identifier: GPL-2.0-or-later
//! The fidelity page, in Markdown, from kept results.

use std::fmt::Write;

use crate::judge::{Figure, Row};
use crate::set::{Comparison, Results, score};

/// Columns of a table: the content of a cell.
const COLUMNS: [(&str, Figure); 10] = [
    ("share, %", Figure::Share),
    ("switches /s", Figure::Switches),
    ("migrations /s", Figure::Migrations),
    ("wait p50, us", Figure::WaitP50),
    ("wait p99, us", Figure::WaitP99),
    ("wakeup p50, us", Figure::WakeupP50),
    ("wakeup p99, us", Figure::WakeupP99),
    ("requests /s", Figure::Throughput),
    ("request p50, us", Figure::RequestP50),
    ("request p99, us", Figure::RequestP99),
];

/// `reasons` explains metrics outside their tolerance.
pub fn render(results: &[Results], workloads: &[(String, String)], reasons: &str) -> String {
    let mut page = head(results);
    for result in results {
        setting(&mut page, result);
    }
    page += "\n## What is outside tolerance, and why\n\n";
    for line in reasons.lines().filter(|line| !line.starts_with("<!--")) {
        let _ = writeln!(page, "{line}");
    }
    page += "\n## The workloads\n\n";
    for (name, about) in workloads {
        let _ = writeln!(page, "* `{name}`: {about}");
    }
    page
}

fn head(results: &[Results]) -> String {
    let mut page = String::from(
        "<!-- SPDX-License-Identifier: GPL-2.0-or-later -->\n\
         <!-- Made by `tiltyard fidelity --page fidelity/results` from the results kept there. -->\n\
         # How far the simulated machine is from the kernel\n\n\
         The same scheduler sources and the same workload files ran in both. In the kernel, `tiltyard exec` ran the workloads\n\
         with real threads, and a BPF program recorded the scheduler's events. The simulated machine had the costs that\n\
         `tiltyard calibrate` had measured in the same guest before. For settings that compare only with the kernel's own\n\
         scheduler, these costs were measured under that scheduler: its work is part of switches and wakeups, and callbacks\n\
         cost nothing. All others were measured under BPF schedulers. `tiltyard fidelity` repeats all of this.\n",
    );
    if let Some(first) = results.first() {
        let t = &first.tolerance;
        let _ = write!(
            page,
            "\nTolerances, fixed before the first run (`fidelity/set.toml`): shares of the CPU within {} points,\n\
             switches and migrations within {} %, percentiles of latencies within {} %, throughput within {} %.\n\
             Not judged, because they depend on chance: a median of fewer than {} values, a 99th percentile of fewer than {}, and\n\
             fewer than {} switches or {} migrations a second in both. The limit for switches, and that for short latencies on\n\
             several CPUs, were set after results had been seen (see the reasons below). Switches to a higher scheduling class do\n\
             not count: in the kernel, they are switches to the process that records the run.\n",
            t.share_points,
            t.switches_percent,
            t.latency_percent,
            t.throughput_percent,
            first.least.p50,
            first.least.p99,
            first.least.switches_per_s,
            first.least.migrations_per_s,
        );
    }
    page += "\nIn a kernel, the time at which programs start and the phase of the ticks are chance, and some metrics depend on them. The column\n\
             *or depends on starts* adds metrics outside tolerance for which the kernel's value lies within the range of ten simulations\n\
             with other tick phases and with programs that start up to 30 ms later (&dagger; below). Where the ten values differ widely,\n\
             almost any value lies within their range. This column was added after the misses were known, and goals do not count it. The last column,\n\
             *with what is not judged*, also counts short latencies and rare switches and migrations; percentiles of too few values never count.\n\n\
             | setting | simulated | real | within tolerance | or depends on starts | with what is not judged |\n\
             | --- | --- | --- | --- | --- | --- |\n";
    for result in results {
        for (simulated, real) in &result.setting.pairs {
            let rows = || {
                let own = result.comparisons.iter();
                own.filter(|c| c.simulated == *simulated && &c.real == real)
                    .flat_map(|c| &c.rows)
            };
            let (near, judged) = score(rows());
            let of_start = rows().filter(|row| row.depends_on_start()).count();
            let within = rows().filter(|row| row.is_within(&result.tolerance));
            let _ = writeln!(
                page,
                "| {} | {simulated} | {} | {near} of {judged} | {} of {judged} | {} of {} |",
                result.setting.name,
                named(result, real),
                near + of_start,
                within.count(),
                rows().count(),
            );
        }
    }
    page
}

/// A scheduler of the kernel; its own by what it is.
fn named(result: &Results, real: &str) -> String {
    match result.comparisons.iter().find(|c| c.real == real) {
        Some(comparison) => comparison.label.clone(),
        None => real.to_owned(),
    }
}

fn setting(page: &mut String, result: &Results) {
    let (near, all) = result.score();
    let _ = writeln!(
        page,
        "\n## {}: {near} of {all}\n\n{}: Linux {}, {}{}.\n\nEach cell: simulated / real (error). **Bold** is outside tolerance{}.",
        result.setting.name,
        capital(&result.setting.about),
        result.kernel_release,
        result.accel,
        match result.setting.rounds {
            1 => String::new(),
            rounds => format!(", medians of {rounds} runs"),
        },
        match result.setting.least_latency_us > 0.0 {
            true => format!(
                ", *italic* is not judged: latencies under {} us in both, which the emulator determines, and rare migrations",
                number(result.setting.least_latency_us)
            ),
            false => String::new(),
        },
    );
    for (simulated, real) in &result.setting.pairs {
        let own: Vec<&Comparison> = result
            .comparisons
            .iter()
            .filter(|c| c.simulated == *simulated && &c.real == real)
            .collect();
        if own.is_empty() {
            continue;
        }
        let _ = writeln!(page, "\n### {} and {}\n", simulated, named(result, real));
        table(page, &own);
        let lost: u64 = own.iter().map(|c| c.lost_events).sum();
        if lost > 0 {
            let _ = writeln!(page, "\n{lost} of the kernel's events were lost.");
        }
    }
}

fn table(page: &mut String, comparisons: &[&Comparison]) {
    let has = |figure| {
        let rows = comparisons.iter().flat_map(|c| &c.rows);
        rows.into_iter().any(|row: &Row| row.figure == figure)
    };
    let columns: Vec<(&str, Figure)> = COLUMNS.into_iter().filter(|c| has(c.1)).collect();
    let heads: Vec<&str> = columns.iter().map(|c| c.0).collect();
    let _ = writeln!(page, "| workload | of | {} |", heads.join(" | "));
    let _ = writeln!(page, "| --- | --- |{}", " --- |".repeat(heads.len()));
    for comparison in comparisons {
        let mut names: Vec<&str> = Vec::new();
        for row in &comparison.rows {
            if !names.contains(&row.of.as_str()) {
                names.push(&row.of);
            }
        }
        for name in names {
            let cells: Vec<String> = columns
                .iter()
                .map(|(_, figure)| {
                    let row = comparison
                        .rows
                        .iter()
                        .find(|r| r.of == name && r.figure == *figure);
                    row.map_or(String::new(), cell)
                })
                .collect();
            let _ = writeln!(
                page,
                "| {} | {name} | {} |",
                comparison.workload,
                cells.join(" | ")
            );
        }
    }
}

fn cell(row: &Row) -> String {
    let unit = if row.figure.is_points() { "" } else { " %" };
    let digits = usize::from(row.figure.is_points() || row.error.abs() < 9.95);
    let error = match row.error.is_finite() {
        true => format!("{:+.digits$}{unit}", row.error),
        false => "none in the kernel".to_owned(),
    };
    let text = format!("{} / {} ({error})", number(row.simulated), number(row.real));
    match row.within {
        Some(true) => text,
        Some(false) if row.depends_on_start() => format!("**{text}**&dagger;"),
        Some(false) => format!("**{text}**"),
        None => format!("*{text}*"),
    }
}

/// Three digits that count.
pub fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{Least, Tolerance};
    use crate::set::Setting;

    fn row(figure: Figure, simulated: f64, real: f64, error: f64, within: bool) -> Row {
        let of = "hog".to_owned();
        Row {
            of,
            figure,
            simulated,
            real,
            error,
            within: Some(within),
            starts: None,
        }
    }

    fn results() -> Results {
        let text = |text: &str| text.to_owned();
        Results {
            setting: Setting {
                name: text("one"),
                about: text("one CPU"),
                kernel: text("6.1"),
                machine: text("pu:1"),
                exact: true,
                least_latency_us: 0.0,
                rounds: 3,
                pairs: vec![(text("mine"), text("default"))],
            },
            kernel_release: text("6.1.9"),
            accel: text("emulated"),
            load_percent: 0,
            tolerance: Tolerance {
                share_points: 2.0,
                switches_percent: 10.0,
                latency_percent: 25.0,
                throughput_percent: 10.0,
            },
            least: Least {
                p50: 100,
                p99: 1000,
                switches_per_s: 5.0,
                migrations_per_s: 5.0,
            },
            comparisons: vec![Comparison {
                workload: text("shares"),
                simulated: text("mine"),
                real: text("default"),
                label: text("default (CFS)"),
                lost_events: 7,
                rows: vec![
                    row(Figure::Share, 50.25, 50.0, 0.25, true),
                    row(Figure::WakeupP99, 3600.0, 2000.0, 80.0, false),
                ],
            }],
        }
    }

    #[test]
    fn the_page_shows_what_is_outside_tolerance() {
        let page = render(
            &[results()],
            &[("shares".to_owned(), "Who gets what.".to_owned())],
            "* Because.\n",
        );
        for line in [
            "| one | mine | default (CFS) | 1 of 2 | 1 of 2 | 1 of 2 |",
            "One CPU: Linux 6.1.9, emulated, medians of 3 runs.",
            "| workload | of | share, % | wakeup p99, us |",
            "| shares | hog | 50.2 / 50.0 (+0.2) | **3600 / 2000 (+80 %)** |",
            "7 of the kernel's events were lost.",
            "* Because.",
            "* `shares`: Who gets what.",
        ] {
            assert!(page.lines().any(|l| l == line), "{line}\n{page}");
        }
    }

    #[test]
    fn what_is_not_judged_is_told_from_what_is_near() {
        let mut results = results();
        results.setting.least_latency_us = 28.0;
        results.comparisons[0].rows[1].within = None;
        let page = render(&[results], &[], "");
        for line in [
            "| one | mine | default (CFS) | 1 of 1 | 1 of 1 | 1 of 2 |",
            "| shares | hog | 50.2 / 50.0 (+0.2) | *3600 / 2000 (+80 %)* |",
        ] {
            assert!(page.lines().any(|l| l == line), "{line}\n{page}");
        }
        let legend = ", *italic* is not judged: latencies under 28.0 us in both";
        assert!(page.contains(legend), "{page}");
    }

    #[test]
    fn what_depends_on_the_start_is_marked_and_counted() {
        let mut results = results();
        results.comparisons[0].rows[1].starts = Some([1900.0, 3700.0]);
        let page = render(&[results], &[], "");
        for line in [
            "| one | mine | default (CFS) | 1 of 2 | 2 of 2 | 1 of 2 |",
            "| shares | hog | 50.2 / 50.0 (+0.2) | **3600 / 2000 (+80 %)**&dagger; |",
        ] {
            assert!(page.lines().any(|l| l == line), "{line}\n{page}");
        }
    }

    #[test]
    fn three_digits_count() {
        assert_eq!(
            [0.0, 1.234, 12.34, 123.4].map(number),
            ["0.00", "1.23", "12.3", "123"]
        );
    }
}
