// SPDX-License-Identifier: GPL-2.0-or-later
//! A difference and its causes as text, page and picture.

#[path = "common/browser.rs"]
mod browser;

use tiltyard_measure::{Better, Unit};
use tiltyard_report::explanation::{Amount, Cause, Explanation, text};
use tiltyard_report::html::{explanation_figures, render_explanation};

fn exactly(value: f64) -> Amount {
    Amount {
        value,
        interval: None,
    }
}

fn cause(name: &str, owners: &[&str], share: f64, alone: f64) -> Cause {
    let of = owners.iter();
    Cause {
        name: name.to_owned(),
        of: of
            .map(|o| (o.to_string(), format!("what {name} <does>")))
            .collect(),
        share: exactly(share),
        alone,
    }
}

/// 1000 and 600 per second: preemption takes 300, switches 150, and something gives 50.
fn sample() -> Explanation {
    Explanation {
        title: "web & db on smp2 (2 CPUs)".to_owned(),
        about: ["a <workload>".to_owned(), "a machine".to_owned()],
        command: "tiltyard explain -w web -s a,b".to_owned(),
        metric: "web.throughput_per_s".to_owned(),
        unit: Unit::PerSecond,
        better: Better::Higher,
        is_default: false,
        schedulers: ["a".to_owned(), "b".to_owned()],
        values: [1000.0, 600.0],
        difference: exactly(-400.0),
        causes: vec![
            cause("preemption", &["a", "b"], -300.0, -360.0),
            cause("switch", &["machine"], -150.0, 0.0),
            cause("noise", &["machine"], 50.0, 10.0),
        ],
        remainder: exactly(0.0),
        orders: None,
        seeds: 1,
        coverage_ppm: 0,
        notes: vec!["Left out: something.".to_owned()],
    }
}

#[test]
fn text_has_the_shares_and_a_conclusion() {
    let expected = "\
web.throughput_per_s
1 000 /s under a, 600 /s under b: -400 /s, -40.0 %; higher is better

mechanism      of          share     part   alone
preemption     a, b      -300 /s   75.0 %  90.0 %
switch         machine   -150 /s   37.5 %     0 %
noise          machine  +50.0 /s  -12.5 %  -2.5 %
none of these               0 /s      0 %
all together             -400 /s    100 %

The main cause is preemption: 75.0 % of the difference; switching off only this mechanism removes
90.0 % of it. Each ran only once: --seeds 10 shows what may be chance.

preemption (a, b): what preemption <does>
switch (machine): what switch <does>
noise (machine): what noise <does>

part: share of the difference; alone: by how much it shrinks if only this mechanism is switched off.
The schedulers' probes were disabled, as with tiltyard run --no-probes. Probes cost time, so a run
without that option gives different values.
Left out: something.
";
    assert_eq!(text(&sample(), 100), expected);
    let narrow = text(&sample(), 60);
    assert!(
        narrow.lines().skip(2).all(|l| l.chars().count() <= 60),
        "{narrow}"
    );
}

#[test]
fn conclusions_are_only_as_strong_as_the_difference() {
    let conclusion = |change: fn(&mut Explanation)| {
        let mut of = sample();
        of.seeds = 10;
        change(&mut of);
        let conclusion = of.conclusion();
        // Programs read the one, people the other.
        let names_one = conclusion.contains("main cause");
        assert_eq!(of.main_cause().is_some(), names_one, "{conclusion}");
        conclusion
    };
    let none = conclusion(|of| of.difference = exactly(0.0));
    assert_eq!(
        none,
        "The medians of a and b do not differ in web.throughput_per_s: the shares of the causes cancel out."
    );
    let small = conclusion(|of| of.difference = exactly(-9.9));
    assert!(small.contains("differ by less than 1.0 %"), "{small}");
    let chance = conclusion(|of| of.difference.interval = Some([-500.0, 1.0]));
    assert!(
        chance.starts_with("The main cause") && chance.ends_with("may be chance."),
        "{chance}"
    );
    let certain = conclusion(|of| of.difference.interval = Some([-500.0, -300.0]));
    assert!(!certain.contains("chance"), "{certain}");
    let single = conclusion(|of| of.seeds = 1);
    assert!(single.contains("only once"), "{single}");
    let more = conclusion(|of| {
        of.causes[0].share = exactly(-500.0);
        of.remainder = exactly(200.0);
    });
    assert!(
        more.contains("125 % of the difference")
            && more.ends_with("because what remains with everything switched off works against the difference (-50.0 %)."),
        "{more}"
    );
    let reversed = conclusion(|of| of.remainder = exactly(260.0));
    assert!(
        reversed
            .contains("the difference is reversed (to -65.0 % of it): causes that are not listed"),
        "{reversed}"
    );
    let rest = conclusion(|of| of.remainder = exactly(-320.0));
    assert!(
        rest.contains("other causes") && rest.contains("80.0 %"),
        "{rest}"
    );
    let grows = conclusion(|of| of.remainder = exactly(-800.0));
    assert!(
        grows.contains("reduce the difference, noise most of all")
            && grows.contains("2.00 times as large"),
        "{grows}"
    );
    let rest = conclusion(|of| {
        of.causes.clear();
        of.remainder = of.difference;
    });
    assert!(rest.contains("other causes: 100 % of it remains"), "{rest}");
    let alone = conclusion(|of| of.causes[0].alone = 20.0);
    assert!(
        alone.contains("only this mechanism increases the difference by 5.0 %"),
        "{alone}"
    );
    let nothing = conclusion(|of| of.causes[0].alone = 0.0);
    assert!(
        nothing.contains("only this mechanism changes nothing"),
        "{nothing}"
    );
    let most = conclusion(|of| of.causes[0].share = exactly(-150.0));
    assert!(!most.contains("Most of"), "{most}");
}

#[test]
fn intervals_are_shown_where_there_are_any() {
    let mut of = sample();
    of.causes[0].share.interval = Some([-320.0, -280.0]);
    (of.orders, of.seeds, of.coverage_ppm) = (Some(32), 6, 968_750);
    let text = text(&of, 100);
    assert!(text.contains("[-320 /s, -280 /s]"), "{text}");
    assert!(
        text.contains("32 of the possible") && text.contains("96.9 %"),
        "{text}"
    );
}

/// Where the bars of the diagram begin and end.
fn bars(svg: &str) -> Vec<(f64, f64)> {
    let number = |line: &str, key: &str| -> f64 {
        let (_, rest) = line.split_once(&format!(" {key}=\"")).unwrap();
        rest.split_once('"').unwrap().0.parse().unwrap()
    };
    svg.split("<rect ")
        .skip(1)
        .filter(|rect| !rect.starts_with("class=\"meaning"))
        .map(|bar| (number(bar, "x"), number(bar, "x") + number(bar, "width")))
        .collect()
}

/// A diagram that is as wide as its largest bar would make a tenth of a per cent look like much.
#[test]
fn hardly_a_difference_looks_like_one() {
    let tiny = Explanation {
        unit: Unit::Share,
        values: [0.9, 0.8999999],
        difference: exactly(-1e-7),
        causes: vec![cause("switch", &["machine"], -1e-7, 1e-7)],
        ..sample()
    };
    let [(_, svg)] = &explanation_figures(&tiny)[..] else {
        panic!("one figure")
    };
    let widths = bars(svg).into_iter().map(|(left, right)| right - left);
    assert!(widths.clone().all(|width| width <= 3.1), "{:?}", bars(svg));
    let told = text(&tiny, 100);
    assert!(told.contains("-1e-5 points"), "{told}");
    assert!(told.contains("part and alone are empty"), "{told}");
    let row = told.lines().find(|line| line.starts_with("switch"));
    assert!(row.is_some_and(|row| !row.contains('%')), "{told}");
}

/// Bars lead from the first value to the second, each from where the one before ended.
#[test]
fn the_waterfall_falls_from_one_value_to_the_other() {
    let figures = explanation_figures(&sample());
    let [(name, svg)] = figures.as_slice() else {
        panic!("one figure")
    };
    assert_eq!(name, "causes");
    let bars = bars(svg);
    // 400 units wide, from 550 (after the first two) to 1000.
    let x = |value: f64| 190.0 + (value - 550.0) / 450.0 * 400.0;
    let expected = [
        (1000.0, 1000.0),
        (700.0, 1000.0),
        (550.0, 700.0),
        (550.0, 600.0),
        (600.0, 600.0),
        (600.0, 600.0),
    ];
    assert_eq!(bars.len(), expected.len());
    for ((left, right), (from, to)) in bars.into_iter().zip(expected) {
        let close = (left - x(from)).abs() <= 1.6 && (right - x(to)).abs() <= 1.6;
        assert!(close, "{left} to {right}, not {} to {}", x(from), x(to));
    }
    assert!(svg.contains("<style>") && !svg.contains("NaN"));
}

/// Preemption takes 300 from the value, and noise adds 50.
#[test]
fn the_waterfalls_colours_say_what_is_worse() {
    for (better, preemption, worse, good) in [
        (
            Better::Higher,
            "s3",
            "lowers the value: worse",
            "raises the value: better",
        ),
        (
            Better::Lower,
            "s4",
            "raises the value: worse",
            "lowers the value: better",
        ),
        (
            Better::Neither,
            "s3",
            "lowers the value",
            "raises the value",
        ),
    ] {
        let of = Explanation { better, ..sample() };
        let [(_, svg)] = explanation_figures(&of).try_into().unwrap();
        let after = |mark: &str| {
            let line = svg.lines().find_map(|line| line.split_once(mark));
            line.map(|(_, rest)| rest.to_owned()).expect(mark)
        };
        let bar = after(">preemption</text>");
        assert!(
            bar.starts_with(&format!("<rect class=\"{preemption}\"")),
            "{bar}"
        );
        for (class, meaning) in [("s3", worse), ("s4", good)] {
            let key = after(&format!("<rect class=\"meaning {class}\""));
            assert!(key.contains(&format!(">{meaning}<")), "{key}");
        }
    }
}

#[test]
fn the_page_is_whole_and_needs_no_network() {
    let page = render_explanation(&sample());
    assert_eq!(page, render_explanation(&sample()));
    browser::assert_offline(&page);
    assert!(page.contains("what preemption &lt;does&gt;") && page.contains("web &amp; db"));
    assert!(!page.contains("<does>") && !page.contains("<workload>"));
    let Some(chromium) = browser::chromium() else {
        eprintln!("skipped in part: no Chromium");
        return;
    };
    let seen = browser::after(
        &chromium,
        &page,
        "const seen = document.querySelectorAll('#causes svg rect:not(.meaning)').length",
    );
    assert_eq!(seen, "6");
}

#[test]
fn causes_that_shrink_the_difference_together_have_no_main_cause() {
    let mut of = sample();
    of.causes = vec![
        cause("preemption", &["a"], -1000.0, 0.0),
        cause("switch", &["machine"], 900.0, 0.0),
        cause("noise", &["machine"], 500.0, 0.0),
    ];
    of.remainder = exactly(-800.0);
    assert!(of.main_cause().is_none());
    let said = of.conclusion();
    assert!(
        said.contains("reduce the difference, switch most of all"),
        "{said}"
    );
}
