// SPDX-License-Identifier: GPL-2.0-or-later
//! A contest as a small chart: how far each scheduler is from the best, as inline SVG without a script. All charts of a page
//! have the same rows and, where the values allow it, the same axis.

use tiltyard_measure::Interval;
use tiltyard_measure::ranking::Tie;

use super::markup::escape;
use crate::standings::{Contest, Place, Standings, difference};
use crate::table::interval_text;

const WIDTH: f64 = 388.0;
/// Where names end, and the plot begins and ends.
const NAME: f64 = 94.0;
const LEFT: f64 = 101.0;
const RIGHT: f64 = 227.0;
const VALUE: f64 = 238.0;
const ROW: f64 = 17.0;
const TOP: f64 = 5.0;
/// Below the rows: the axis' numbers.
const FOOT: f64 = 15.0;
/// Where an axis of quotients may end, and its numbers. What is beyond the last is drawn at its end.
const ENDS: [&[f64]; 6] = [
    &[1.0, 1.05, 1.1],
    &[1.0, 1.1, 1.25],
    &[1.0, 1.2, 1.5],
    &[1.0, 1.4, 2.0],
    &[1.0, 2.0, 4.0],
    &[1.0, 2.0, 4.0, 8.0],
];
/// Longest name, in letters.
const LETTERS: usize = 13;

/// How far from the best something is -> where that is drawn.
enum Axis {
    /// A quotient, on a logarithmic scale with these numbers; the last is the end.
    Times(&'static [f64]),
    /// A difference, up to this.
    Difference(f64),
}

impl Axis {
    /// All contests of a discipline have the same one, where their values allow it.
    fn of(of: &Standings, contest: &Contest) -> Axis {
        let by_quotient = of.has_quotients(contest);
        let like =
            |c: &&Contest| c.discipline == contest.discipline && of.has_quotients(c) == by_quotient;
        let placed = of
            .contests
            .iter()
            .filter(like)
            .flat_map(|c| &c.ranking.placed);
        let behind = placed.filter_map(|placed| placed.behind.as_ref());
        if by_quotient {
            let largest = behind
                .filter_map(|b| b.times)
                .map(|times| times.high)
                .fold(1.0, f64::max);
            let reaches = |numbers: &&&[f64]| numbers.last().is_some_and(|end| largest <= *end);
            return Axis::Times(ENDS.iter().find(reaches).unwrap_or(&ENDS[ENDS.len() - 1]));
        }
        let largest = behind.map(|b| b.by.high).fold(0.0, f64::max);
        Axis::Difference(if largest > 0.0 { largest } else { 1.0 })
    }

    /// Not clamped: 0 is the best, 1 the end of the axis.
    fn part(&self, value: f64) -> f64 {
        match self {
            Axis::Times(_) => value.max(f64::MIN_POSITIVE).ln() / self.end().ln(),
            Axis::Difference(largest) => value / largest,
        }
    }

    fn end(&self) -> f64 {
        match self {
            Axis::Times(numbers) => numbers[numbers.len() - 1],
            Axis::Difference(largest) => *largest,
        }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + self.part(value).clamp(0.0, 1.0) * (RIGHT - LEFT)
    }

    /// The largest value that is a tie with the best, whose own value this is.
    fn tie(&self, tie: Tie, best: f64, higher_is_better: bool) -> f64 {
        match (self, tie) {
            (Axis::Times(_), Tie::Part(part)) => 1.0 / (1.0 - part.min(0.9)),
            (Axis::Times(_), Tie::Amount(amount)) if higher_is_better => {
                best / (best - amount).max(best / self.end())
            }
            (Axis::Times(_), Tie::Amount(amount)) => (best + amount) / best,
            (Axis::Difference(_), Tie::Part(part)) => part * best.abs(),
            (Axis::Difference(_), Tie::Amount(amount)) => amount,
        }
    }
}

/// The chart of a contest.
pub fn panel(of: &Standings, at: usize) -> String {
    let contest = &of.contests[at];
    let discipline = &of.disciplines[contest.discipline];
    let axis = Axis::of(of, contest);
    let rows = of.schedulers.len() as f64;
    let (bottom, height) = (TOP + ROW * rows, TOP + ROW * rows + FOOT);
    let mut svg = format!(
        "<svg class=\"panel\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}: {}\">\n",
        escape(&of.place(at)),
        escape(&of.verdict(at))
    );
    let best = contest.ranking.placed.iter().find(|placed| {
        let own = placed.behind.as_ref();
        own.is_some_and(|b| b.by.low == 0.0 && b.by.high == 0.0)
    });
    if let Some(best) = best.and_then(|placed| placed.value) {
        let higher = discipline.better == tiltyard_measure::Better::Higher;
        let end = axis.x(axis.tie(discipline.tie, best.median, higher));
        svg += &format!(
            "<rect class=\"tied\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>\n",
            (end - LEFT).max(1.0),
            bottom - TOP
        );
    }
    svg += &ticks(of, contest, &axis, bottom);
    for scheduler in 0..of.schedulers.len() {
        svg += &row(of, contest, &axis, scheduler);
    }
    svg + "</svg>\n"
}

fn ticks(of: &Standings, contest: &Contest, axis: &Axis, bottom: f64) -> String {
    let unit = of.disciplines[contest.discipline].unit;
    let ticks: Vec<(f64, String)> = match axis {
        Axis::Times(numbers) => {
            let number = |times: &f64| (*times, format!("{times}\u{d7}"));
            numbers.iter().map(number).collect()
        }
        Axis::Difference(largest) => [0.0, *largest]
            .map(|by| (by, difference(unit, by)))
            .to_vec(),
    };
    let tick = |(value, text): &(f64, String)| {
        let x = axis.x(*value);
        format!(
            "<path class=\"tick\" d=\"M{x:.1} {TOP}V{bottom:.1}\"/><text class=\"dim\" x=\"{x:.1}\" y=\"{:.1}\" \
             text-anchor=\"middle\">{}</text>\n",
            bottom + 11.0,
            escape(text)
        )
    };
    ticks.iter().map(tick).collect()
}

fn row(of: &Standings, contest: &Contest, axis: &Axis, scheduler: usize) -> String {
    let subject = &of.schedulers[scheduler];
    let middle = TOP + (scheduler as f64 + 0.5) * ROW;
    let place = contest.place(scheduler);
    let class = match place {
        Place::Won => " won",
        Place::Shared => " shared",
        _ => "",
    };
    let mut svg = format!(
        "<text class=\"name{class}\" x=\"{NAME}\" y=\"{:.1}\" text-anchor=\"end\">{}<title>{}</title></text>",
        middle + 4.0,
        escape(&shortened(&subject.name)),
        escape(&subject.name)
    );
    let entry = &contest.entries[scheduler];
    if let Some(trouble) = &entry.trouble {
        svg += &format!(
            "<text class=\"failed\" x=\"{LEFT}\" y=\"{:.1}\">\u{2717} {}<title>{}</title></text>\n",
            middle + 4.0,
            escape(&trouble.short),
            escape(&trouble.what)
        );
        return svg;
    }
    let placed = &contest.ranking.placed[scheduler];
    if let Some(behind) = &placed.behind {
        let interval = match axis {
            Axis::Times(_) => behind.times.as_ref().unwrap_or(&behind.by),
            Axis::Difference(_) => &behind.by,
        };
        svg += &mark(axis, interval, middle, scheduler, place);
    }
    if let Some(value) = &placed.value {
        let unit = of.disciplines[contest.discipline].unit;
        svg += &format!(
            "<text class=\"value{class}\" x=\"{VALUE}\" y=\"{:.1}\">{}</text>",
            middle + 4.0,
            escape(&interval_text(unit, value))
        );
    }
    svg + "\n"
}

/// A dot with its interval; an arrow at the end of the axis for what lies beyond.
fn mark(axis: &Axis, of: &Interval, middle: f64, scheduler: usize, place: Place) -> String {
    let colour = scheduler % 8;
    let (low, high) = (axis.x(of.low), axis.x(of.high));
    let mut svg = String::new();
    if of.coverage_ppm > 0 && high - low > 1.0 {
        svg += &format!("<path class=\"reach\" d=\"M{low:.1} {middle:.1}H{high:.1}\"/>");
        if axis.part(of.low) < 0.0 {
            svg += &arrow("beyond", low, low - 5.0, 3.0, middle);
        }
        if axis.part(of.high) > 1.0 {
            svg += &arrow("beyond", high, high + 5.0, 3.0, middle);
        }
    }
    let x = axis.x(of.median);
    if axis.part(of.median) > 1.0 {
        return svg + &arrow(&format!("c{colour}"), x - 7.0, x + 4.0, 5.0, middle);
    }
    let radius = if place == Place::Won { 5.5 } else { 4.0 };
    svg + &format!("<circle class=\"c{colour}\" cx=\"{x:.1}\" cy=\"{middle:.1}\" r=\"{radius}\"/>")
}

/// A triangle with its tip to the right of its base, or to the left.
fn arrow(class: &str, base: f64, tip: f64, half: f64, middle: f64) -> String {
    let (up, down) = (middle - half, middle + half);
    format!("<path class=\"{class}\" d=\"M{tip:.1} {middle:.1}L{base:.1} {up:.1}V{down:.1}Z\"/>")
}

fn shortened(name: &str) -> String {
    match name.chars().count() {
        // Variants of a scheduler differ at the end.
        letters if letters > LETTERS => {
            let head = name.chars().take(LETTERS / 2 - 1);
            let tail = name.chars().skip(letters - LETTERS / 2);
            head.chain(['\u{2026}']).chain(tail).collect()
        }
        _ => name.to_owned(),
    }
}

/// A chart as a file of its own, which has the page's style in it.
pub fn file(svg: &str) -> String {
    const STYLE: &str = "text { font: 11.5px system-ui, Helvetica, Arial, sans-serif; fill: #1c2024; } .dim { fill: #656d76; font-size: 9.5px; } \
        .value { font-size: 10.5px; } .won { font-weight: 700; } .failed { fill: #b42318; } .reach { stroke: #1c2024; stroke-width: 1.4; opacity: .6; } .beyond { fill: #1c2024; opacity: .6; } \
        .tick { stroke: #e2e4e8; } .tied { fill: #f1f2f4; } .c0 { fill: #0072b2; } .c1 { fill: #d55e00; } .c2 { fill: #009e73; } .c3 { fill: #cc79a7; } \
        .c4 { fill: #e69f00; } .c5 { fill: #56b4e9; } .c6 { fill: #d6c400; } .c7 { fill: #4d4d4d; }";
    let with_space = svg.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1);
    with_space.replacen('>', &format!("><style>{STYLE}</style>"), 1)
}
