// SPDX-License-Identifier: GPL-2.0-or-later
//! From the one scheduler's value to the other's, cause by cause: a waterfall, as inline SVG without a script.

use super::markup::{Figure, Table, escape};
use crate::explanation::{Amount, Explanation};
use tiltyard_measure::Better;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 190.0;
const BARS: f64 = 400.0;
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;
const TOP: f64 = 6.0;

/// A row of the diagram: from where to where, on the scale of the metric.
struct Step {
    label: String,
    class: &'static str,
    from: f64,
    to: f64,
    text: String,
}

/// Classes of the changes; where neither direction is better, of those that lower and raise the value.
const WORSE: &str = "s3";
const BETTER: &str = "s4";

fn is_worse(better: Better, change: f64) -> bool {
    match better {
        Better::Lower => change > 0.0,
        Better::Higher | Better::Neither => change < 0.0,
    }
}

/// The values of the schedulers at both ends, the shares between them, the remainder last.
fn steps(of: &Explanation) -> Vec<Step> {
    let [a, b] = of.values;
    let end = |at: usize| Step {
        label: of.schedulers[at].clone(),
        class: ["s0", "s1"][at],
        from: of.values[at],
        to: of.values[at],
        text: of.figure(of.values[at]),
    };
    let mut steps = vec![end(0)];
    let mut at = a;
    for cause in &of.causes {
        let value = cause.share.value;
        steps.push(Step {
            label: cause.name.clone(),
            class: if is_worse(of.better, value) {
                WORSE
            } else {
                BETTER
            },
            from: at,
            to: at + value,
            text: share_text(of, &cause.share),
        });
        at += value;
    }
    steps.push(Step {
        label: "none of these".to_owned(),
        class: "s5",
        from: at,
        to: b,
        text: share_text(of, &of.remainder),
    });
    steps.push(end(1));
    steps
}

fn share_text(of: &Explanation, amount: &Amount) -> String {
    let percent = of.percent(amount.value);
    match percent.is_empty() {
        true => of.amount(amount.value),
        false => format!("{} ({percent})", of.amount(amount.value)),
    }
}

/// The diagram. Its scale need not begin at 0: bars are differences. It is at least as wide as what counts as a difference, so
/// that hardly any looks like hardly any.
pub fn svg(of: &Explanation) -> String {
    let steps = steps(of);
    let edges = steps.iter().flat_map(|s| [s.from, s.to]);
    let (low, high) = edges.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
        (low.min(v), high.max(v))
    });
    let room = match (high - low).max(of.least_difference()) {
        0.0 => 1.0,
        room => room,
    };
    let x = |value: f64| LEFT + (value - low) / room * BARS;
    let height = 2.0 * TOP + ROW * (steps.len() + 1) as f64;
    let mut svg = format!(
        "<svg class=\"bars\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"from {} to {}\">\n",
        escape(&of.schedulers[0]),
        escape(&of.schedulers[1])
    );
    for (i, step) in steps.iter().enumerate() {
        let middle = TOP + (i as f64 + 0.5) * ROW;
        let (from, to) = (x(step.from.min(step.to)), x(step.from.max(step.to)));
        // What does not move is a mark, wide enough to be seen.
        let (left, width) = match to - from {
            wide if wide >= 3.0 => (from, wide),
            wide => ((from + to) / 2.0 - 1.5, 3.0_f64.max(wide)),
        };
        svg += &format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{BAR}\"/>\
             <text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            LEFT - 10.0,
            middle + 4.0,
            escape(&step.label),
            step.class,
            middle - BAR / 2.0,
            LEFT + BARS + 12.0,
            middle + 4.0,
            escape(&step.text),
        );
        if i + 1 < steps.len() {
            let (at, down) = (x(step.to), middle + BAR / 2.0);
            svg += &format!(
                "<path class=\"whisker\" d=\"M{at:.1} {down:.1}V{:.1}\"/>\n",
                down + ROW - BAR
            );
        }
    }
    svg += &legend(&steps, of.better);
    svg + "</svg>\n"
}

/// The legend below the diagram: what the colours of mechanisms mean.
fn legend(steps: &[Step], better: Better) -> String {
    let [worse, good] = match better {
        Better::Higher => ["lowers the value: worse", "raises the value: better"],
        Better::Lower => ["raises the value: worse", "lowers the value: better"],
        Better::Neither => ["lowers the value", "raises the value"],
    };
    let middle = TOP + (steps.len() as f64 + 0.5) * ROW;
    let mut left = LEFT;
    let mut legend = String::new();
    for (class, meaning) in [(WORSE, worse), (BETTER, good)] {
        if !steps.iter().any(|step| step.class == class) {
            continue;
        }
        legend += &format!(
            "<rect class=\"meaning {class}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\"/>\
             <text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{meaning}</text>\n",
            middle - 5.0,
            left + 16.0,
            middle + 4.0,
        );
        left += BARS / 2.0;
    }
    legend
}

/// The section with the diagram and its table.
pub fn section(of: &Explanation) -> String {
    let header = ["mechanism", "of", "share", "interval", "part", "alone"];
    let mut table = Table::new(2, &header);
    let mut row = |name: &str, of_whom: String, amount: &Amount, alone: String| {
        table.row(&[
            name.to_owned(),
            of_whom,
            of.amount(amount.value),
            of.interval(amount),
            of.percent(amount.value),
            alone,
        ]);
    };
    for cause in &of.causes {
        let alone = of.percent(cause.alone);
        row(&cause.name, cause.owners(), &cause.share, alone);
    }
    row("none of these", String::new(), &of.remainder, String::new());
    row("all together", String::new(), &of.difference, String::new());
    let sentence = format!("{}. {}", of.headline(), of.conclusion());
    Figure {
        id: "causes",
        title: &format!("Why {} differs", of.metric),
        sentence: &sentence,
        body: format!("<div class=\"scroll\">{}</div>", svg(of)),
        table: table.finish(),
        command: &of.command,
    }
    .finish()
}

/// What each mechanism is, and how to read the shares.
pub fn words(of: &Explanation) -> String {
    let mut table = Table::new(3, &["mechanism", "of", "what it does"]);
    for cause in &of.causes {
        for (owners, what) in cause.descriptions() {
            table.row(&[&cause.name, &owners, what]);
        }
    }
    let meaning = "A mechanism's share is what switching it off takes from the difference, on average over all orders in \
                   which mechanisms can be switched off. \"alone\": switched off while all others are on. \"none of these\" \
                   is the difference with all of them switched off.";
    let remarks: Vec<String> = of.remarks();
    let remarks = std::iter::once(meaning).chain(remarks.iter().map(String::as_str));
    let remarks = remarks.map(|text| format!("<p class=\"note\">{}</p>\n", escape(text)));
    format!(
        "<section id=\"mechanisms\"><h2>Mechanisms</h2>\n{}{}</section>\n",
        table.finish(),
        remarks.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_nothing_is_not_worse() {
        for (better, worse) in [
            (Better::Lower, [false, false, true]),
            (Better::Higher, [true, false, false]),
            (Better::Neither, [true, false, false]),
        ] {
            let seen = [-1.0, 0.0, 1.0].map(|change| is_worse(better, change));
            assert_eq!(seen, worse, "{better:?}");
        }
    }
}
