// SPDX-License-Identifier: GPL-2.0-or-later
//! Compares two results metric by metric: what changed, and which changes are significant.

use serde::Serialize;

use crate::cell::{Better, Cell, Row, SAME};
use crate::compare::rows;
use crate::effect::shift;
use crate::figures::Figure;
use crate::significance::{ALPHA, adjusted, mann_whitney, smallest};
use crate::stats::Interval;

/// What to make of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    Better,
    Worse,
    /// It changed, and neither direction is the good one.
    Changed,
    /// Not significant, or by less than 1 %.
    Same,
    /// Missing on one side, or too few runs to tell.
    Untold,
}

/// How the runs of two results may be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trial {
    /// By what chance alone would give.
    Tested,
    /// Runs that would come out the same again, one of each side or all alike: whatever differs, differs.
    Exact,
    /// So few runs that no difference, however large, could be significant.
    TooFew,
}

impl Trial {
    /// `exact`: every run of either side would be like these, so that there is nothing to test.
    pub fn of(runs: [usize; 2], exact: bool) -> Trial {
        match runs {
            _ if exact => Trial::Exact,
            [a, b] if smallest(a, b) <= ALPHA => Trial::Tested,
            _ => Trial::TooFew,
        }
    }
}

/// A figure in A and in B.
#[derive(Clone, Debug)]
pub struct Change {
    /// Cells and effects of A (0) and B (1).
    pub row: Row,
    /// By how much B's is larger, in the figure's unit.
    pub shift: Option<Interval>,
    /// Mann and Whitney's probability, before correction. `None` where nothing was tested: too few runs, a side without
    /// the figure, or all runs alike.
    pub p: Option<f64>,
    /// The same after Benjamini and Hochberg's correction for all figures that were tested.
    pub p_adjusted: Option<f64>,
    pub mark: Mark,
}

impl Change {
    fn new(row: Row, runs: [&[f64]; 2], trial: Trial) -> Change {
        let alike = || runs.iter().copied().flatten().all(|v| *v == runs[0][0]);
        let can_tell = smallest(runs[0].len(), runs[1].len()) <= ALPHA;
        let is_tested = trial == Trial::Tested && can_tell && !alike();
        Change {
            p: mann_whitney(runs[0], runs[1]).filter(|_| is_tested),
            p_adjusted: None,
            shift: shift(runs[0], runs[1]),
            row,
            mark: Mark::Untold,
        }
    }

    pub fn a(&self) -> Option<&Cell> {
        self.row.cells[0].as_ref()
    }

    pub fn b(&self) -> Option<&Cell> {
        self.row.cells[1].as_ref()
    }

    /// By which part of A's figure B's is larger; `None` where A's has zeros.
    pub fn relative(&self) -> Option<Interval> {
        self.row.effects[1]?.change
    }

    /// Cliff's delta.
    pub fn delta(&self) -> Option<f64> {
        Some(self.row.effects[1]?.delta)
    }

    fn judge(&mut self, trial: Trial) {
        let (Some(a), Some(b), Some(shift)) = (self.a(), self.b(), self.shift) else {
            return;
        };
        let is_small = shift.median.abs() < SAME * a.median.abs().max(b.median.abs());
        let is_real = match trial {
            Trial::TooFew => return,
            Trial::Exact => true,
            Trial::Tested => match self.p_adjusted {
                Some(p) => p <= ALPHA,
                None if shift.low == shift.high => false, // all runs are alike
                None => return,
            },
        };
        self.mark = match self.row.better {
            _ if !is_real || is_small || shift.median == 0.0 => Mark::Same,
            Better::Neither => Mark::Changed,
            better if (shift.median > 0.0) == (better == Better::Higher) => Mark::Better,
            _ => Mark::Worse,
        };
    }
}

/// All figures of two results.
#[derive(Clone, Debug)]
pub struct Pair {
    pub trial: Trial,
    /// Runs of A and B.
    pub runs: [usize; 2],
    pub changes: Vec<Change>,
}

impl Pair {
    /// `runs`: the figures of each run of A and of B. `order` may put the rows into another order.
    pub fn new(runs: &[Vec<Vec<Figure>>; 2], exact: bool, order: impl FnOnce(&mut [Row])) -> Pair {
        let counts = [runs[0].len(), runs[1].len()];
        let trial = Trial::of(counts, exact);
        let mut rows = rows(runs);
        order(&mut rows);
        let change = |row: Row| {
            let (a, b) = (values(&row, &runs[0]), values(&row, &runs[1]));
            Change::new(row, [&a, &b], trial)
        };
        let mut changes: Vec<Change> = rows.into_iter().map(change).collect();
        let tested: Vec<f64> = changes.iter().filter_map(|change| change.p).collect();
        let mut corrected = adjusted(&tested).into_iter();
        for change in &mut changes {
            change.p_adjusted = change.p.and_then(|_| corrected.next());
            change.judge(trial);
        }
        Pair {
            trial,
            runs: counts,
            changes,
        }
    }

    /// For how many tests the probabilities are corrected.
    pub fn tests(&self) -> usize {
        self.changes
            .iter()
            .filter(|change| change.p.is_some())
            .count()
    }
}

/// What the runs gave of a row's figure.
fn values(row: &Row, runs: &[Vec<Figure>]) -> Vec<f64> {
    let same = |f: &&Figure| f.group == row.group && f.metric == row.metric;
    let value = |run: &Vec<Figure>| run.iter().find(same).map(|f| f.value);
    runs.iter().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Unit;

    /// Runs that give some figures of these values; the good direction stands behind the name.
    fn runs(figures: &[(&str, &[f64])]) -> Vec<Vec<Figure>> {
        let figure = |name: &str, value: f64| Figure {
            group: "app".to_owned(),
            name: name.to_owned(),
            metric: name.to_owned(),
            unit: Unit::Plain,
            better: match name {
                "speed" => Better::Higher,
                "size" => Better::Neither,
                _ => Better::Lower,
            },
            headline: true,
            value,
        };
        let count = figures.iter().map(|(_, values)| values.len()).max();
        let run = |i: usize| {
            let values = figures.iter().filter_map(|(n, v)| Some((n, v.get(i)?)));
            values.map(|(name, value)| figure(name, *value)).collect()
        };
        (0..count.unwrap_or(0)).map(run).collect()
    }

    fn pair(a: &[(&str, &[f64])], b: &[(&str, &[f64])], exact: bool) -> Pair {
        Pair::new(&[runs(a), runs(b)], exact, |_| {})
    }

    fn marks(pair: &Pair) -> Vec<(&str, Mark)> {
        let each = pair.changes.iter();
        each.map(|c| (c.row.metric.as_str(), c.mark)).collect()
    }

    const LOW: &[f64] = &[10.0, 11.0, 12.0, 13.0, 14.0];
    const HIGH: &[f64] = &[20.0, 21.0, 22.0, 23.0, 24.0];

    #[test]
    fn marks_follow_the_good_direction() {
        let low = [
            ("speed", LOW),
            ("size", LOW),
            ("delay", LOW),
            ("cost", HIGH),
        ];
        let high = [
            ("speed", HIGH),
            ("size", HIGH),
            ("delay", HIGH),
            ("cost", LOW),
        ];
        let got = pair(&low, &high, false);
        let expect = [
            ("speed", Mark::Better),
            ("size", Mark::Changed),
            ("delay", Mark::Worse),
            ("cost", Mark::Better),
        ];
        assert_eq!(marks(&got), expect);
        assert_eq!((got.tests(), got.trial), (4, Trial::Tested));
        assert_eq!(got.changes[0].shift.unwrap().median, 10.0);
        assert_eq!(got.changes[0].row.name, "app.speed");
    }

    #[test]
    fn a_change_among_many_that_are_none_may_be_chance() {
        let mixed: [(&str, &[f64]); 2] = [
            ("a", &[1.0, 4.0, 2.0, 7.0, 5.0]),
            ("b", &[3.0, 1.0, 9.0, 2.0, 8.0]),
        ];
        let names: Vec<String> = (0..8).map(|i| format!("x{i}")).collect();
        let with = |delay: &'static [f64], mixed: &'static [f64]| {
            let mut all: Vec<(&str, &[f64])> = vec![("delay", delay)];
            all.extend(names.iter().map(|name| (name.as_str(), mixed)));
            runs(&all)
        };
        let a = with(LOW, &[1.0, 4.0, 2.0, 7.0, 5.0]);
        let b = with(HIGH, &[3.0, 1.0, 9.0, 2.0, 8.0]);
        let got = Pair::new(&[a, b], false, |_| {});
        let delay = &got.changes[0];
        assert_eq!((delay.p, delay.mark), (Some(2.0 / 252.0), Mark::Same));
        let p = delay.p_adjusted.unwrap();
        assert!((p - 9.0 * 2.0 / 252.0).abs() < 1e-12, "{p}: 9 tests");
        assert_eq!(pair(&[mixed[0]], &[mixed[1]], false).tests(), 0);
    }

    #[test]
    fn what_all_runs_have_alike_is_no_test() {
        let got = pair(
            &[("a", &[0.0; 5]), ("delay", LOW)],
            &[("a", &[0.0; 5]), ("delay", HIGH)],
            false,
        );
        assert_eq!(got.tests(), 1);
        assert_eq!(marks(&got), [("a", Mark::Same), ("delay", Mark::Worse)]);
    }

    #[test]
    fn one_exact_run_each_shows_the_plain_change() {
        let (a, b): ([(&str, &[f64]); 2], _) = (
            [("delay", &[10.0]), ("size", &[5.0])],
            [("delay", &[10.05][..]), ("size", &[6.0])],
        );
        let got = pair(&a, &b, true);
        assert_eq!(
            marks(&got),
            [("delay", Mark::Same), ("size", Mark::Changed)]
        );
        assert_eq!(got.changes[1].p, None);
        assert_eq!(got.changes[1].relative().unwrap().coverage_ppm, 0);
        let inexact = pair(&a, &b, false);
        assert_eq!(inexact.trial, Trial::TooFew);
        assert!(inexact.changes.iter().all(|c| c.mark == Mark::Untold));
    }

    #[test]
    fn from_four_runs_each_a_difference_can_be_told() {
        assert_eq!(Trial::of([3, 3], false), Trial::TooFew);
        assert_eq!(Trial::of([4, 4], false), Trial::Tested);
        assert_eq!(Trial::of([1, 30], false), Trial::TooFew);
        assert_eq!(Trial::of([5, 5], true), Trial::Exact);
    }

    /// Of a figure that only some runs give there may be too few, however many runs there are.
    #[test]
    fn a_figure_of_few_runs_stays_untold() {
        let got = pair(
            &[("delay", LOW), ("rare", &[1.0, 2.0])],
            &[("delay", HIGH), ("rare", HIGH)],
            false,
        );
        assert_eq!(
            marks(&got),
            [("delay", Mark::Worse), ("rare", Mark::Untold)]
        );
        assert_eq!((got.tests(), got.changes[1].p), (1, None));
    }

    #[test]
    fn a_figure_of_one_side_stays_untold() {
        let got = pair(&[("delay", LOW)], &[("speed", LOW)], false);
        assert_eq!(
            marks(&got),
            [("speed", Mark::Untold), ("delay", Mark::Untold)]
        );
        assert!(got.changes[0].a().is_none() && got.changes[0].b().is_some());
    }
}
