// SPDX-License-Identifier: GPL-2.0-or-later
//! Who wins what, of made-up contests that have one of each kind: as text, page and charts.

use std::path::PathBuf;

use tiltyard_measure::ranking::{Entrant, Rule, Tie, rank};
use tiltyard_measure::{Better, Unit, median_interval};
use tiltyard_report::html::{render_standings, standings_figures};
use tiltyard_report::standings::{
    Contest, Discipline, Entry, LongestWait, Place, Standings, Subject, Trouble, text,
};

const MS: f64 = 1e6;
const NOISE: [f64; 6] = [0.0, 0.02, -0.01, 0.01, -0.02, 0.005];

fn subject(name: &str) -> Subject {
    Subject {
        name: name.to_owned(),
        about: format!("<{name}>, a scheduler"),
    }
}

/// `None`: it has no result, because it failed, or (`Err`) because the workload did.
type Values = Result<Option<[f64; 6]>, ()>;

fn around(level: f64) -> Values {
    Ok(Some(NOISE.map(|noise| level * (1.0 + noise))))
}

/// The same values with other seeds: neither is better.
fn shuffled(level: f64) -> Values {
    let mut values = NOISE.map(|noise| level * (1.0 + noise));
    values.rotate_left(2);
    Ok(Some(values))
}

fn entry(values: &Values, at: usize) -> Entry {
    let trouble = |short: &str, is_schedulers, seeds: &[u64], seed| Trouble {
        short: short.to_owned(),
        is_schedulers,
        seeds: seeds.to_vec(),
        seed,
        what: format!("{short}, for a reason"),
    };
    Entry {
        trouble: match values {
            Ok(Some(_)) => None,
            Ok(None) => Some(trouble("starved 2.50 s", true, &[3], 3)),
            Err(()) => Some(trouble("workload failed", false, &[2, 5], 5)),
        },
        longest_wait: Some(LongestWait {
            ns: (at + 1) as f64 * MS,
            app: "serve".to_owned(),
            cut: at == 1,
        }),
        overhead: median_interval(&[0.01 * (at + 1) as f64]),
    }
}

fn contest(of: &[Discipline], discipline: usize, machine: usize, values: &[Values]) -> Contest {
    let entrants: Vec<Entrant> = values
        .iter()
        .map(|values| Entrant {
            values: match values {
                Ok(Some(values)) => values.iter().copied().map(Some).collect(),
                _ => vec![None; 6],
            },
            ..Entrant::default()
        })
        .collect();
    let rule = Rule {
        higher_is_better: of[discipline].better == Better::Higher,
        tie: of[discipline].tie,
    };
    let entries = values.iter().enumerate();
    Contest {
        discipline,
        machine,
        ranking: rank(&entrants, rule),
        entries: entries.map(|(at, values)| entry(values, at)).collect(),
        repeat: Some(format!(
            "tiltyard campaign c.toml -w {discipline} -m {machine}"
        )),
        command: "tiltyard run -s 'a b'".to_owned(),
    }
}

fn standings() -> Standings {
    let discipline = |name: &str, unit, better, tie| Discipline {
        name: name.to_owned(),
        about: format!("What {name} does."),
        metric: Some(format!("{name} metric")),
        unit,
        better,
        tie,
        reason: "Users notice.".to_owned(),
        starvation: "a task waits longer than 1.00 s".to_owned(),
    };
    let disciplines = vec![
        discipline("serve", Unit::TimeNs, Better::Lower, Tie::Part(0.01)),
        discipline("frames", Unit::Share, Better::Lower, Tie::Amount(0.002)),
        discipline("build", Unit::PerSecond, Better::Higher, Tie::Part(0.01)),
    ];
    let one =
        |discipline, machine, values: &[Values]| contest(&disciplines, discipline, machine, values);
    let contests = vec![
        // beta wins by 1.5, gamma is beyond the axis.
        one(
            0,
            0,
            &[around(3.0 * MS), around(2.0 * MS), around(20.0 * MS)],
        ),
        // alpha and beta share the lead.
        one(
            0,
            1,
            &[around(2.0 * MS), shuffled(2.0 * MS), around(2.5 * MS)],
        ),
        // gamma failed.
        one(1, 0, &[around(0.01), around(0.05), Ok(None)]),
        // The workload failed under alpha.
        one(1, 1, &[Err(()), around(0.5), around(0.2)]),
        // gamma wins by 1.2: higher is better.
        one(2, 0, &[around(100.0), around(90.0), around(120.0)]),
        one(2, 1, &[Ok(None), around(1.0), Ok(None)]),
    ];
    Standings {
        title: "A <campaign>".to_owned(),
        about: "Why.".to_owned(),
        command: "tiltyard campaign c.toml".to_owned(),
        seeds: 6,
        schedulers: ["alpha", "beta", "gamma"].map(subject).into(),
        machines: ["old", "new"].map(subject).into(),
        disciplines,
        contests,
        judged: "The file says how.".to_owned(),
        notes: vec!["A <warning>.".to_owned()],
    }
}

/// After a change that is meant: TILTYARD_BLESS=1 cargo test -p tiltyard-report --test standings
#[track_caller]
fn is_golden(name: &str, got: &str) {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let golden = golden.join(name);
    if std::env::var_os("TILTYARD_BLESS").is_some() {
        std::fs::write(&golden, got).unwrap();
    }
    assert_eq!(got, std::fs::read_to_string(&golden).unwrap(), "{name}");
}

#[test]
fn text_and_page_are_as_before() {
    is_golden("standings.txt", &text(&standings(), 100));
    let page = render_standings(&standings());
    let main = &page[page.find("<section").unwrap()..page.find("<footer>").unwrap()];
    is_golden("standings.html", main);
}

/// What the golden files must say, so that a blessing does not hide an error.
#[test]
fn each_kind_of_contest_has_its_words() {
    let of = standings();
    let verdicts: Vec<String> = (0..6).map(|at| of.verdict(at)).collect();
    assert_eq!(
        verdicts[0],
        "beta wins; next alpha: worse by a factor of 1.50"
    );
    assert_eq!(verdicts[1], "no winner: alpha, beta; both beat gamma");
    assert!(verdicts[2].starts_with("alpha wins; next beta: worse by 4.0 points ["));
    assert!(verdicts[3].starts_with("gamma wins; next beta: worse by 30.1 points ["));
    assert_eq!(
        verdicts[4],
        "gamma wins; next alpha: worse by a factor of 1.20"
    );
    assert_eq!(verdicts[5], "no contest: only beta has a result");
    use Place::*;
    let places = |at: usize| [0, 1, 2].map(|who| of.contests[at].place(who));
    assert_eq!(places(0), [Beaten, Won, Beaten]);
    assert_eq!(places(1), [Shared, Shared, Beaten]);
    assert_eq!(places(2), [Won, Beaten, Failed]);
    assert_eq!(places(3), [Undecided, Beaten, Won]);
    assert_eq!(places(5), [Failed, Undecided, Failed]);
    let counts = |who: usize| {
        let tally = &of.tallies()[who];
        [
            tally.won,
            tally.shared,
            tally.beaten,
            tally.failed,
            tally.undecided,
        ]
    };
    assert_eq!(
        [0, 1, 2].map(counts),
        [[1, 1, 2, 1, 1], [1, 1, 3, 0, 1], [2, 0, 2, 2, 0]]
    );
    // gamma lost 0 and 1; it is furthest behind in 0. beta lost by points in 2 and 3.
    assert_eq!(of.tallies()[2].worst, Some(0));
    assert_eq!(of.tallies()[1].worst_by_difference, Some(3));
    assert_eq!(of.tallies()[1].worst, Some(4));
    // As many won or shared: alpha and beta have as many wins, and beta never failed; gamma has more wins.
    assert_eq!(of.by_rank(&of.tallies()), [2, 1, 0]);
    // Rows beat columns.
    assert_eq!(of.beats(), [[0, 2, 2], [1, 0, 2], [1, 2, 0]]);
    assert_eq!(
        of.overall(),
        "4 of 6 contests have a winner; gamma wins the most: 2. Only beta never fails. Counts depend on which workloads and \
         machines were chosen."
    );
}

/// The numbers below a chart's axis, and what is drawn in it.
fn chart(at: usize) -> (Vec<String>, String) {
    let (_, svg) = standings_figures(&standings()).swap_remove(at);
    let numbers = svg.split("text-anchor=\"middle\">").skip(1);
    let numbers = numbers.map(|rest| rest[..rest.find('<').unwrap()].to_owned());
    (numbers.collect(), svg)
}

#[test]
fn charts_of_a_workload_have_the_shortest_axis_that_holds_their_intervals() {
    // Ten times as long is beyond any axis.
    for at in [0, 1] {
        assert_eq!(
            chart(at).0,
            ["1\u{d7}", "2\u{d7}", "4\u{d7}", "8\u{d7}"],
            "{at}"
        );
    }
    assert_eq!(chart(2).0[0], "0");
    assert!(chart(2).0[1].starts_with("+30.") && chart(2).0[1].ends_with(" points"));
    assert_eq!(chart(2).0, chart(3).0, "the same workload");
    assert_eq!(chart(4).0, ["1\u{d7}", "1.2\u{d7}", "1.5\u{d7}"]);
    // gamma's arrow replaces its dot.
    assert_eq!(chart(0).1.matches("<circle").count(), 2);
    assert!(chart(0).1.contains("<path class=\"c2\""));
    assert_eq!(chart(1).1.matches("<circle").count(), 3);
    assert!(chart(2).1.contains("\u{2717} starved 2.50 s"));
}
