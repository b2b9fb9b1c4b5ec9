// SPDX-License-Identifier: GPL-2.0-or-later
//! Two results on a terminal.

mod common;

use tiltyard_measure::{Pair, Summary, figures};
use tiltyard_report::changes::{heading, render};

/// The two made-up schedulers.
fn of(first: &[Summary], second: &[Summary], exact: bool) -> Pair {
    let runs = [first, second].map(|runs| runs.iter().map(figures).collect());
    Pair::new(&runs, exact, |_| {})
}

/// So many runs of each.
fn pair(runs: u64, exact: bool) -> Pair {
    let runs =
        |half: bool| -> Vec<Summary> { (0..runs).map(|seed| common::run(1, half, seed)).collect() };
    of(&runs(false), &runs(true), exact)
}

#[test]
fn lines_fit_and_numbers_stay_whole() {
    let pair = pair(5, false);
    for width in [60, 72, 80, 100, 120, 140, 200] {
        for all in [false, true] {
            let text = render(&pair, width, all);
            for line in text.lines() {
                let columns = line.chars().count();
                assert!(columns <= width || width < 72, "{columns} columns: {line}");
            }
            let figures = text.lines().filter(|line| line.contains('['));
            assert!(figures.clone().all(|line| line.contains(']')), "{text}");
        }
    }
}

/// What a narrow terminal has no room for goes in this order: spread, delta, p.
#[test]
fn the_richest_layout_that_fits_is_taken() {
    let pair = pair(5, false);
    let head = |width: usize| {
        let text = render(&pair, width, false);
        let line = text.lines().next().unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.join(" "), text)
    };
    let (wide, text) = head(142);
    assert_eq!(wide, "A B change interval delta p");
    assert!(text.contains('±') && text.contains("Cliff's"), "{text}");
    let (narrow, text) = head(80);
    assert!(narrow.starts_with("A B change interval"), "{narrow}");
    assert!(!text.contains('±'), "{text}");
    assert!(
        text.lines().any(|line| line == "sysbench"),
        "groups have lines: {text}"
    );
    let (least, text) = head(48);
    assert_eq!(least, "A B change p");
    let text: Vec<&str> = text.split_whitespace().collect();
    assert!(text.join(" ").ends_with("Wider terminals show intervals."));
}

#[test]
fn what_was_not_tested_has_no_interval_and_says_why() {
    let words = |pair: &Pair| {
        let text = render(pair, 100, false);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let exact = words(&pair(1, true));
    assert!(exact.contains("no interval and no test"), "{exact}");
    assert!(exact.contains("worse") && !exact.contains('['), "{exact}");
    let three = common::runs(1);
    let few = words(&of(&three[0].1, &three[1].1, false));
    assert!(few.contains("3 and 3 runs are too few"), "{few}");
    assert!(few.contains("10 times in 100"), "{few}");
    assert!(!few.contains("worse") && !few.contains("better"));
    assert!(!few.contains("[+") && !few.contains("[-"), "{few}");
}

#[test]
fn runs_that_are_all_alike_say_so() {
    let runs = vec![common::run(1, false, 1); 5];
    let text = render(&of(&runs, &runs, false), 100, true);
    assert!(
        text.ends_with("\n5 and 5 runs; no metric differs between any two of them.\n"),
        "{text}"
    );
}

#[test]
fn figures_left_out_are_counted() {
    let pair = pair(5, false);
    let short = render(&pair, 100, false);
    assert!(!short.contains("latency max"), "{short}");
    assert!(
        short.contains(" more metrics that changed: --all shows them."),
        "{short}"
    );
    let all = render(&pair, 100, true);
    assert!(
        all.contains("latency max") && !all.contains("--all"),
        "{all}"
    );
}

#[test]
fn what_both_sides_are_is_said_once() {
    let same = heading(
        [("a.json#x", "web on smp2"), ("b.json#x", "web on smp2")],
        80,
    );
    assert_eq!(same, "A  a.json#x\nB  b.json#x\n   both: web on smp2\n");
    let other = heading(
        [("a.json#x", "web on smp2"), ("b.json#x", "web on smp4")],
        80,
    );
    assert_eq!(
        other,
        "A  a.json#x\n   web on smp2\nB  b.json#x\n   web on smp4\n"
    );
}
