// SPDX-License-Identifier: GPL-2.0-or-later
//! The comparison on a terminal.

mod common;

use tiltyard_measure::{Comparison, Interval, Unit, compare};
use tiltyard_report::table::{cell_text, interval_text, render, render_all};

fn pair() -> Comparison {
    compare(&common::runs(1))
}

/// The line of a metric of a group, its blanks collapsed.
fn line(text: &str, group: &str, metric: &str) -> String {
    let mut current = "";
    for line in text.lines() {
        if !line.starts_with(' ') {
            current = line.split("  ").next().unwrap_or("");
        }
        if current == group && line.contains(metric) {
            return line.split_whitespace().collect::<Vec<_>>().join(" ");
        }
    }
    panic!("no line {group} {metric} in\n{text}");
}

#[test]
fn two_schedulers_have_a_ratio_and_a_verdict() {
    let text = render(&pair(), 100);
    assert_eq!(
        line(&text, "sysbench", "throughput"),
        "sysbench throughput 287 /s ± 0.1 % 143 /s ± 0.4 % 0.50 --"
    );
    assert!(line(&text, "fibo", "longest wait").ends_with("++"));
    assert!(
        text.contains("half : first"),
        "as in the differences, the first is the baseline: {text}"
    );
    assert!(text.contains("Median of 3 runs; ± is the larger side of the 75.0 % interval"));
    assert!(text.contains("Why: Under first, fibo was starved"));
    assert!(
        !text.contains("Jain"),
        "details stay out of the short table"
    );
    assert!(render_all(&pair(), 100).contains("Jain"));
}

#[test]
fn identical_runs_have_no_interval() {
    let mut runs = common::runs(1);
    let copy = runs[0].1[0].clone();
    runs[0].1 = vec![copy.clone(), copy.clone(), copy.clone()];
    let comparison = compare(&runs);
    assert_eq!(comparison.identical, [true, false]);
    let cells = |at: usize| comparison.rows.iter().filter_map(move |row| row.cells[at]);
    assert!(cells(0).all(|cell| cell.coverage_ppm == 0));
    assert!(cells(1).all(|cell| cell.coverage_ppm > 0));
    let text = render(&comparison, 160);
    assert!(text.contains(
        "75.0 % interval (order statistics), [ ] are its ends. All 3 runs of first identical: no interval."
    ));
    runs.truncate(1);
    runs.push(("copy".to_owned(), vec![copy; 4]));
    let comparison = compare(&runs);
    assert_eq!(
        (comparison.coverage_ppm, &comparison.identical[..]),
        (0, &[true, true][..])
    );
    let text = render(&comparison, 160);
    let note = "All 3 to 4 runs identical: the seed changes nothing here, so there is no interval.";
    assert!(text.contains(note), "{text}");
    assert!(!text.contains('±') && !text.contains("% ["), "{text}");
}

#[test]
fn intervals_are_a_part_of_the_median_or_a_range() {
    let text = |unit, median: f64, low: f64, high: f64| {
        let interval = Interval {
            median,
            low,
            high,
            coverage_ppm: 968_750,
            n: 6,
        };
        interval_text(unit, &interval)
    };
    assert_eq!(text(Unit::TimeNs, 1e6, 0.9e6, 1.2e6), "1.00 ms ± 20 %");
    assert_eq!(
        text(Unit::TimeNs, 1e6, 0.5e6, 5e6),
        "1.00 ms [500 us, 5.00 ms]"
    );
    assert_eq!(text(Unit::Count, 0.0, 0.0, 2.0), "0 [0, 2]");
    assert_eq!(text(Unit::Share, 0.027, 0.021, 0.038), "2.7 % [2.1, 3.8]");
    assert_eq!(
        text(Unit::Share, 0.0066, 0.0065, 0.0068),
        "0.66 % [0.65, 0.68]",
        "the median lies inside"
    );
    assert_eq!(text(Unit::Share, 0.01, 0.01, 0.01), "1.0 %");
}

#[test]
fn of_three_the_best_is_marked() {
    let mut runs = common::runs(1);
    runs.push(("again".to_owned(), runs[1].1.clone()));
    let text = render(&compare(&runs), 120);
    let throughput = line(&text, "sysbench", "throughput");
    assert!(throughput.contains("287 /s ± 0.1 % *"), "{throughput}");
    assert!(!text.contains("++ and --"));
    let legend = "* marks a value better than all others by more than the intervals and 1 %.\n";
    assert!(text.contains(legend), "{text}");
}

#[test]
fn eight_schedulers_fit_and_no_figure_is_broken() {
    let mut runs = common::runs(1);
    for i in 2..8 {
        runs.push((format!("scheduler_{i}"), runs[i % 2].1.clone()));
    }
    let comparison = compare(&runs);
    let figures = comparison.rows.iter().filter(|row| row.headline);
    for width in [80, 90, 100] {
        let text = render(&comparison, width);
        let too_wide = text.lines().find(|line| line.chars().count() > width);
        assert_eq!(too_wide, None, "{width} columns");
        for row in figures.clone() {
            for cell in row.cells.iter().flatten().filter(|cell| cell.median > 0.0) {
                assert!(
                    text.contains(&cell_text(row, cell)),
                    "{} in\n{text}",
                    row.name
                );
            }
        }
    }
}

#[test]
fn a_figure_of_some_runs_only_names_how_many() {
    let mut runs = common::runs(1);
    runs[0].1[1].requests.clear();
    runs[1].1.iter_mut().for_each(|run| run.requests.clear());
    let text = render(&compare(&runs), 120);
    let throughput = line(&text, "sysbench", "throughput");
    assert!(throughput.contains("(2 of 3 runs) none"), "{throughput}");
}

#[test]
fn differences_to_the_first_have_interval_and_rank() {
    let text = render(&pair(), 100);
    let (_, changes) = text.split_once("\nchange ").expect("a table of changes");
    let throughput = line(changes, "sysbench", "throughput");
    assert!(
        throughput.starts_with("sysbench throughput -50."),
        "{throughput}"
    );
    assert!(throughput.ends_with("], -1.00"), "{throughput}");
    assert!(
        !changes.contains("switches"),
        "which is neither good nor bad: {changes}"
    );
    let note = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        note.contains("Against first: by how much a metric is larger (median over all pairs of runs), its 90.0 % interval"),
        "{note}"
    );
}

#[test]
fn one_run_has_no_interval_and_says_so() {
    let mut runs = common::runs(1);
    runs.iter_mut().for_each(|(_, runs)| runs.truncate(1));
    let text = render(&compare(&runs), 100);
    assert!(!text.contains('±'), "{text}");
    assert!(text.contains("Single run, no confidence interval"));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let legend = "~ within 1 %, - worse, -- worse by that factor. Another seed (in a kernel: round) may give a different result.";
    assert!(text.contains(legend), "no intervals to be within: {text}");
    assert!(!text.contains("Cliff"), "one run has no difference: {text}");
}

#[test]
fn a_machine_that_is_nearly_idle_is_named_as_such() {
    let said = |busy: [f64; 2]| {
        let mut comparison = pair();
        let mut rows = comparison.rows.iter_mut();
        let row = rows.find(|row| row.group == "machine" && row.metric == "busy");
        for (cell, busy) in row.unwrap().cells.iter_mut().zip(busy) {
            *cell = Some(Interval {
                median: busy,
                ..cell.unwrap()
            });
        }
        let text = render(&comparison, 200);
        let line = text.lines().find(|line| line.contains("few decisions"));
        line.map(str::to_owned)
    };
    let line = said([0.002, 0.05]).unwrap();
    assert!(line.starts_with("Tasks used at most 5.0 % of the CPU time, so"));
    assert_eq!(said([0.002, 0.11]), None);
}

#[test]
fn lines_fit_where_they_can_and_numbers_stay_whole() {
    for width in [80, 100, 140] {
        let text = render(&pair(), width);
        for line in text.lines() {
            assert!(
                line.chars().count() <= width,
                "{} columns: {line}",
                line.chars().count()
            );
        }
        let sentences = text.split("Why:").nth(1).expect("why");
        assert!(
            sentences.lines().all(|l| !l.trim().starts_with('%')),
            "{sentences}"
        );
    }
    assert!(render(&compare(&[]), 80).lines().count() > 0);
}
