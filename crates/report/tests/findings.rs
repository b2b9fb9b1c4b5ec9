// SPDX-License-Identifier: GPL-2.0-or-later
//! The page about statements that were checked: its structure, its size, what it escapes.

#[path = "common/browser.rs"]
mod browser;

use std::path::PathBuf;

use tiltyard_report::findings::{
    Chapter, Findings, Plot, PlotKind, PlotPoint, Section, Source, Statement, StatementOutcome,
};
use tiltyard_report::html::{findings_figures, render_findings};

fn statement(id: &str, outcome: StatementOutcome) -> Statement {
    Statement {
        id: id.to_owned(),
        text: "a <b> runs faster than b & c".to_owned(),
        place: "Section 1, <Figure 1>".to_owned(),
        weight: "core".to_owned(),
        outcome,
        expected: "x <= 2".to_owned(),
        tolerance: "because <i>".to_owned(),
        check: "a.x <= 2".to_owned(),
        measured: match outcome {
            StatementOutcome::NotRun => Vec::new(),
            _ => vec!["a.x 1.5 [1, <2]".to_owned()],
        },
        agreement: "holds with 9 of 10 seeds".to_owned(),
        reason: match outcome {
            StatementOutcome::NotRun => "no <machine>".to_owned(),
            _ => String::new(),
        },
        explanation: match outcome {
            StatementOutcome::NotReproduced => "the model has no <disk>".to_owned(),
            _ => String::new(),
        },
        shown_by: String::new(),
        note: String::new(),
        command: format!("tiltyard reproduce {id}"),
        chapter: Some("chapter-1".to_owned()),
    }
}

fn plot(kind: PlotKind, points: Vec<PlotPoint>) -> Plot {
    Plot {
        name: "Figure 1".to_owned(),
        title: "a <b> against c".to_owned(),
        says: "a & b".to_owned(),
        kind,
        x: "time, <s>".to_owned(),
        y: "CPU time, <s>".to_owned(),
        shows: "run <1>".to_owned(),
        points,
    }
}

fn point(series: &str, x: f64, y: f64) -> PlotPoint {
    PlotPoint {
        series: series.to_owned(),
        label: format!("app-<{x}>"),
        x,
        y,
        span: None,
    }
}

fn findings() -> Findings {
    let section = |id: &str, outcomes: &[StatementOutcome]| Section {
        id: id.to_owned(),
        place: "Section <1>".to_owned(),
        statements: outcomes
            .iter()
            .enumerate()
            .map(|(i, o)| statement(&format!("{id}.{i}"), *o))
            .collect(),
    };
    let curves = vec![
        point("</script><script>alert(1)", 0.0, 1.0),
        point("</script><script>alert(1)", 2.0, 3.0),
        point("b", 1.0, 2.0),
    ];
    let mut bars = vec![point("d", 1.0, -20.0), point("d", 2.0, 60.0)];
    bars[0].span = Some([-25.0, -10.0]);
    Findings {
        title: "What <papers> claim".to_owned(),
        about: "Checked & counted.".to_owned(),
        command: "tiltyard reproduce 'a<b'".to_owned(),
        sources: vec![Source {
            name: "source <1>".to_owned(),
            sections: vec![
                section("s.one", &StatementOutcome::ALL),
                section("s.two", &[StatementOutcome::NotRun]),
            ],
        }],
        chapters: vec![Chapter {
            id: "chapter-1".to_owned(),
            title: "An <experiment>".to_owned(),
            command: "tiltyard reproduce 'e<1'".to_owned(),
            plots: vec![
                plot(PlotKind::Line, curves),
                plot(PlotKind::Bars, bars),
                plot(PlotKind::Points, Vec::new()),
            ],
            timelines: Vec::new(),
        }],
    }
}

/// The page without styles and scripts, but for the data.
fn skeleton(page: &str) -> String {
    let mut rest = page;
    let mut out = String::new();
    while let Some(begin) = ["<style>", "<script>"]
        .iter()
        .filter_map(|t| rest.find(t))
        .min()
    {
        out += &rest[..begin];
        let end = ["</style>", "</script>"]
            .iter()
            .filter_map(|t| rest[begin..].find(t))
            .min();
        rest = &rest[begin + end.expect("what begins ends")..];
    }
    out + rest
}

/// After a change that is meant: TILTYARD_BLESS=1 cargo test -p tiltyard-report --test findings
#[test]
fn the_structure_is_as_before() {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/findings.html");
    let version = concat!("Tiltyard ", env!("CARGO_PKG_VERSION"));
    let page = render_findings(&findings());
    assert_eq!(page.matches(version).count(), 2, "head and foot name it");
    let got = skeleton(&page.replace(version, "Tiltyard VERSION"));
    if std::env::var_os("TILTYARD_BLESS").is_some() {
        std::fs::write(&golden, &got).unwrap();
    }
    assert_eq!(got, std::fs::read_to_string(&golden).unwrap());
}

/// Whoever asked for a single claim need not look for it.
#[test]
fn a_few_claims_are_open() {
    let page = |outcome, count: usize| {
        let mut few = findings();
        few.sources[0].sections.truncate(1);
        let statements = std::iter::repeat_with(|| statement("s.one.0", outcome));
        few.sources[0].sections[0].statements = statements.take(count).collect();
        render_findings(&few)
    };
    let is_open = |page: &str| page.contains("data-section=\"s.one\" open");
    assert!(is_open(&page(StatementOutcome::Reproduced, 3)));
    assert!(!is_open(&page(StatementOutcome::Reproduced, 4)));
    let not_run = page(StatementOutcome::NotRun, 1);
    assert!(is_open(&not_run) && not_run.contains("class=\"rest\" open"));
}

#[test]
fn nothing_of_the_input_becomes_markup() {
    let page = render_findings(&findings());
    for markup in [
        "<b> runs",
        "<papers>",
        "<Figure 1>",
        "<machine>",
        "<disk>",
        "<experiment>",
        "<s>",
        "<1>",
    ] {
        assert!(!page.contains(markup), "{markup} is not escaped");
    }
    assert!(!page.contains("<script>alert"), "a name ends the data");
    assert!(page.contains("a &lt;b&gt; runs faster than b &amp; c"));
}

#[test]
fn it_needs_no_network_and_is_the_same_again() {
    let page = render_findings(&findings());
    browser::assert_offline(&page);
    assert_eq!(page, render_findings(&findings()));
}

#[test]
fn a_figure_without_points_says_so() {
    let page = render_findings(&findings());
    assert_eq!(
        page.matches("No points: the query of this figure returned none")
            .count(),
        1
    );
    let data = page
        .split("id=\"data\">")
        .nth(1)
        .and_then(|rest| rest.split("</script>").next());
    let charts: Vec<serde_json::Value> = serde_json::from_str(data.expect("data")).expect("JSON");
    assert_eq!(charts.len(), 1, "only the curve has a diagram");
    assert_eq!(charts[0]["x"], serde_json::json!([0.0, 1.0, 2.0]));
    assert_eq!(
        charts[0]["series"][1]["y"],
        serde_json::json!([null, 2.0, null])
    );
}

/// Of two figures of one name neither is lost.
#[test]
fn files_are_named_by_chapter_and_figure() {
    let names: Vec<String> = findings_figures(&findings())
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        names,
        ["an-experiment-1-figure-1", "an-experiment-2-figure-1"]
    );
}

#[test]
fn bars_stand_in_the_order_of_their_size_and_marks_are_not_colour_alone() {
    let page = render_findings(&findings());
    let (large, small) = (
        page.find("app-&lt;2&gt;").unwrap(),
        page.find("app-&lt;1&gt;").unwrap(),
    );
    assert!(large < small, "60 before -20");
    assert!(
        page.contains("\u{2212}25.0 to \u{2212}10.0"),
        "the interval in words"
    );
    for mark in [
        "\u{2713} reproduced",
        "\u{2717} not reproduced",
        "\u{25cb} not run",
    ] {
        assert!(page.contains(mark), "{mark}");
    }
}

/// As many claims and points as nobody has yet.
#[test]
fn a_large_page_stays_below_three_megabytes() {
    let mut large = findings();
    large.sources[0].sections = (0..50)
        .map(|s| Section {
            id: format!("s.{s}"),
            place: "Section 1".to_owned(),
            statements: (0..10)
                .map(|i| statement(&format!("s.{s}.{i}"), StatementOutcome::NotReproduced))
                .collect(),
        })
        .collect();
    let curve = |series: &str| {
        (0..100_000)
            .map(|i| point(series, f64::from(i) / 7.0, f64::from(i) * 1.1))
            .collect::<Vec<_>>()
    };
    let plots = (0..10).map(|_| {
        plot(
            PlotKind::Line,
            [curve("a"), curve("b")].into_iter().flatten().collect(),
        )
    });
    large.chapters[0].plots = plots.collect();
    let page = render_findings(&large);
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    assert!(
        page.contains("Only every 50th point is drawn."),
        "and says what it leaves out"
    );
}

#[test]
fn a_browser_draws_it_without_a_console_message() {
    let Some(chromium) = browser::chromium() else {
        eprintln!("SKIPPED: no chromium on PATH");
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (said, _) = browser::open(&chromium, dir.path(), &render_findings(&findings()));
    assert!(!said.contains("CONSOLE"), "{said}");
}

#[test]
fn filters_leave_what_was_asked_for() {
    let Some(chromium) = browser::chromium() else {
        eprintln!("SKIPPED: no chromium on PATH");
        return;
    };
    let page = render_findings(&findings());
    let ids = "const shown = () => [...document.querySelectorAll('.statements tbody tr')]
          .filter((row) => row.checkVisibility()).map((row) => row.querySelector('.claim').id).join(' ');
        const form = document.querySelector('.filter'), [yes, no, open] = form.querySelectorAll('input');
        const change = () => form.dispatchEvent(new Event('input'));";
    let told = |script: &str| {
        browser::after(
            &chromium,
            &page,
            &format!("{ids} {script}; const seen = shown()"),
        )
    };
    assert_eq!(
        told(""),
        "s.one.0 s.one.1 s.one.2",
        "sections with a miss are open"
    );
    assert_eq!(
        told("yes.checked = no.checked = false; change()"),
        "s.one.2 s.two.0"
    );
    assert_eq!(
        told("form.querySelector('select').value = 's.two'; change()"),
        "s.two.0"
    );
    assert_eq!(
        told("form.querySelector('input[type=search]').value = 'MODEL has'; change()"),
        "s.one.1"
    );
    assert_eq!(told("form.querySelector('[value=close]').click()"), "");
}
