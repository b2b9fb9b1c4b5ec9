// SPDX-License-Identifier: GPL-2.0-or-later
//! One row of a comparison: a figure under each scheduler, and what to make of the difference.

use crate::effect::{Effect, effect};
use crate::figures::Figure;
use crate::stats::{Interval, median_interval};
use crate::units;
use serde::{Deserialize, Serialize, Serializer};

/// What a figure counts; how it is written follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    TimeNs,
    PerSecond,
    /// A fraction of one.
    Share,
    Count,
    /// A number without a unit.
    Plain,
}

impl Unit {
    pub fn write(self, value: f64) -> String {
        match self {
            Unit::TimeNs => units::time(value),
            Unit::PerSecond => units::per_second(value),
            Unit::Share => units::share(value),
            Unit::Count => units::count(value),
            Unit::Plain => units::plain(value),
        }
    }
}

/// Which direction is the good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    Higher,
    Lower,
    /// Neither: a fact that explains.
    Neither,
}

/// The second scheduler against the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    MuchBetter,
    Better,
    /// The intervals overlap, or the medians differ by less than 1 %.
    Same,
    Worse,
    MuchWorse,
}

/// From this factor on a difference is "much".
const MUCH: f64 = 1.5;

/// Below this relative difference medians count as the same, however narrow the intervals.
pub(crate) const SAME: f64 = 0.01;

impl Verdict {
    pub fn symbol(self) -> &'static str {
        match self {
            Verdict::MuchBetter => "++",
            Verdict::Better => "+",
            Verdict::Same => "~",
            Verdict::Worse => "-",
            Verdict::MuchWorse => "--",
        }
    }

    /// How `of` fares against `against`; `None` when neither direction is good.
    pub fn of(of: &Interval, against: &Interval, better: Better) -> Option<Verdict> {
        let higher_is_better = match better {
            Better::Higher => true,
            Better::Lower => false,
            Better::Neither => return None,
        };
        let overlap = of.low <= against.high && against.low <= of.high;
        let (a, b) = (of.median, against.median);
        if overlap || (a - b).abs() < SAME * a.abs().max(b.abs()) {
            return Some(Verdict::Same);
        }
        let much = a.max(b) >= MUCH * a.min(b);
        Some(match ((a > b) == higher_is_better, much) {
            (true, true) => Verdict::MuchBetter,
            (true, false) => Verdict::Better,
            (false, false) => Verdict::Worse,
            (false, true) => Verdict::MuchWorse,
        })
    }
}

/// A figure under one scheduler: its median over the runs and the interval around it.
pub type Cell = Interval;

/// A figure under each scheduler. As JSON, values are in the unit of its name ([`Row::named_unit`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The app, "machine", or "command".
    pub group: String,
    /// The figure's stable name, `GROUP.METRIC_UNIT_STATISTIC`: `server.latency_us_p99`.
    pub name: String,
    pub metric: String,
    pub unit: Unit,
    pub better: Better,
    /// Belongs into the short table.
    pub headline: bool,
    /// `None` where no run of that scheduler gave the figure.
    pub cells: Vec<Option<Cell>>,
    /// Each scheduler against the first one; `None` for the first itself and where a figure is missing.
    pub effects: Vec<Option<Effect>>,
    /// Second median over first, with exactly two schedulers and a first that is not 0: as in `effects`, the first is
    /// the baseline.
    pub ratio: Option<f64>,
    /// The second against the first, with exactly two schedulers.
    pub verdict: Option<Verdict>,
    /// The scheduler whose interval lies on the good side of all others.
    pub best: Option<usize>,
}

impl Row {
    /// `values`: what the runs of each scheduler gave of the figure `key`, whose own value does not matter.
    pub fn new(key: &Figure, values: &[Vec<f64>]) -> Self {
        let cells: Vec<Option<Cell>> = values.iter().map(|runs| median_interval(runs)).collect();
        let against_first = |(i, runs): (usize, &Vec<f64>)| match i {
            0 => None,
            _ => effect(&values[0], runs),
        };
        let (ratio, verdict) = match cells.as_slice() {
            [Some(first), Some(second)] => (
                (first.median != 0.0).then(|| second.median / first.median),
                Verdict::of(second, first, key.better),
            ),
            _ => (None, None),
        };
        Row {
            effects: values.iter().enumerate().map(against_first).collect(),
            best: best(&cells, key.better),
            group: key.group.clone(),
            name: format!("{}.{}", key.group, key.name),
            metric: key.metric.clone(),
            unit: key.unit,
            better: key.better,
            headline: key.headline,
            cells,
            ratio,
            verdict,
        }
    }
}

impl Row {
    /// What to write where no run has the figure.
    pub fn absent(&self) -> &'static str {
        match self.name.ends_with(".completion_us") {
            true => "not done",
            false => "none",
        }
    }

    /// The unit that the figure's name has, and how much of it one of the figure's unit is.
    pub fn named_unit(&self) -> (&'static str, f64) {
        let times = [("ns", 1.0), ("us", 1e-3), ("ms", 1e-6), ("s", 1e-9)];
        match self.unit {
            Unit::TimeNs => {
                let mut words = self.name.rsplit(['_', '.']);
                let named = |word: &str| times.into_iter().find(|(unit, _)| *unit == word);
                words.find_map(named).unwrap_or(("ns", 1.0))
            }
            Unit::PerSecond => ("per_s", 1.0),
            Unit::Share => ("percent", 100.0),
            Unit::Count => ("count", 1.0),
            Unit::Plain => ("", 1.0),
        }
    }
}

/// A row as JSON has it.
#[derive(Serialize)]
struct Written<'a> {
    group: &'a str,
    name: &'a str,
    metric: &'a str,
    /// The name's: us, percent, per_s, count, or empty.
    unit: &'static str,
    better: Better,
    headline: bool,
    cells: Vec<Option<Cell>>,
    effects: &'a [Option<Effect>],
    ratio: Option<f64>,
    verdict: Option<Verdict>,
    best: Option<usize>,
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (unit, factor) = self.named_unit();
        // Divided where that is exact: a thousandth is not.
        let scaled = |value: f64| match factor < 1.0 {
            true => value / (1.0 / factor).round(),
            false => value * factor,
        };
        let cell = |cell: &Cell| Cell {
            median: scaled(cell.median),
            low: scaled(cell.low),
            high: scaled(cell.high),
            ..*cell
        };
        let cells = self.cells.iter().map(|c| c.as_ref().map(cell));
        let written = Written {
            group: &self.group,
            name: &self.name,
            metric: &self.metric,
            unit,
            better: self.better,
            headline: self.headline,
            cells: cells.collect(),
            effects: &self.effects,
            ratio: self.ratio,
            verdict: self.verdict,
            best: self.best,
        };
        written.serialize(serializer)
    }
}

/// The cell that beats every other one, and there is another one.
fn best(cells: &[Option<Cell>], better: Better) -> Option<usize> {
    let beats = |a: &Cell, b: &Cell| {
        matches!(
            Verdict::of(a, b, better),
            Some(Verdict::Better | Verdict::MuchBetter)
        )
    };
    if cells.len() < 2 {
        return None;
    }
    (0..cells.len()).find(|&i| {
        let others = cells.iter().enumerate().filter(|&(j, _)| j != i);
        let mut beaten = others.map(|(_, other)| match (&cells[i], other) {
            (Some(mine), Some(other)) => beats(mine, other),
            _ => false,
        });
        beaten.all(|b| b)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(low: f64, median: f64, high: f64) -> Cell {
        Interval {
            median,
            low,
            high,
            coverage_ppm: 978_516,
            n: 10,
        }
    }

    #[test]
    fn verdicts_follow_direction_size_and_overlap() {
        use Better::{Higher, Lower, Neither};
        let of = |a, b, better| Verdict::of(&a, &b, better).map(Verdict::symbol);
        assert_eq!(
            of(cell(530., 531., 532.), cell(265., 266., 267.), Higher),
            Some("++")
        );
        assert_eq!(
            of(cell(530., 531., 532.), cell(265., 266., 267.), Lower),
            Some("--")
        );
        assert_eq!(
            of(cell(99., 100., 101.), cell(110., 111., 112.), Lower),
            Some("+")
        );
        assert_eq!(
            of(cell(99., 100., 112.), cell(110., 111., 112.), Lower),
            Some("~"),
            "overlap"
        );
        assert_eq!(
            of(cell(100., 100., 100.), cell(100.5, 100.5, 100.5), Lower),
            Some("~"),
            "below 1 %"
        );
        assert_eq!(of(cell(0., 0., 0.), cell(3., 3., 3.), Lower), Some("++"));
        assert_eq!(of(cell(0., 0., 0.), cell(0., 0., 0.), Lower), Some("~"));
        assert_eq!(of(cell(1., 1., 1.), cell(2., 2., 2.), Neither), None);
    }

    #[test]
    fn the_best_of_three_must_beat_both() {
        let row = |cells: Vec<_>| best(&cells, Better::Lower);
        let (low, mid, high) = (cell(1., 2., 3.), cell(4., 5., 6.), cell(7., 8., 9.));
        assert_eq!(row(vec![Some(mid), Some(low), Some(high)]), Some(1));
        assert_eq!(row(vec![Some(low), Some(low), Some(high)]), None);
        assert_eq!(row(vec![Some(low), None]), None);
        assert_eq!(row(vec![Some(low)]), None);
    }
}
