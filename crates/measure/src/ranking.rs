// SPDX-License-Identifier: GPL-2.0-or-later
//! Which of several schedulers is best by one metric, if one is. Runs with the same seed are paired.
//!
//! One scheduler beats another if the 95 % interval of their paired differences ([`median_interval`]) lies beyond a tie. A
//! winner beats every other scheduler. So of contests in which two schedulers are equally good, at most one in twenty names
//! one of them as the winner. A scheduler that lacks a value in any run competes with nobody.

use serde::Serialize;

use crate::cell::{Better, SAME};
use crate::stats::{Interval, WANTED, median_interval};

/// What the runs of one scheduler gave, by seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entrant {
    /// `None`: that run failed, or lacks the metric.
    pub values: Vec<Option<f64>>,
    /// It broke a rule in some run, so its values do not count.
    pub disqualified: bool,
    /// The runs draw nothing at random: with every other seed they are the same.
    pub exact: bool,
}

/// By what they are ranked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    pub higher_is_better: bool,
    pub tie: Tie,
}

impl Rule {
    /// Differences up to 1 %, as in comparisons, are ties.
    pub fn of(better: Better) -> Rule {
        Rule {
            higher_is_better: better == Better::Higher,
            tie: Tie::Part(SAME),
        }
    }
}

/// The largest difference that is still a tie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tie {
    /// A part of the larger of the two medians.
    Part(f64),
    /// In the metric's unit.
    Amount(f64),
}

/// How one entrant fares against another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    Better,
    Worse,
    /// The whole interval of the difference lies within a tie.
    Tie,
    /// The interval holds both a tie and more than a tie.
    Open,
}

/// By how much an entrant is worse than another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Behind {
    /// Median of the paired differences, in the metric's unit; positive: worse.
    pub by: Interval,
    /// Median of the paired quotients: 2 is twice as long, or half as many. `None` where a value is 0.
    pub times: Option<Interval>,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Decision {
    /// It beats all others.
    Winner {
        who: usize,
        /// The best of the others.
        next: usize,
        /// That one's distance.
        margin: Behind,
    },
    /// The best by its median, then all that it does not beat.
    Shared {
        who: Vec<usize>,
        /// They are as good as each other; else the runs cannot tell them apart.
        tie: bool,
        /// Each of them beats all others, and there are others.
        clear: bool,
    },
    /// No other has a value in every run.
    Alone { who: usize },
    /// Too few runs for a 95 % interval.
    TooFewRuns,
    /// None has a value in every run.
    Nobody,
}

/// One entrant's place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Placed {
    /// Over the runs that gave a value.
    pub value: Option<Interval>,
    /// It has a value in every run, and they count.
    pub competes: bool,
    /// Its distance from the best by median; `None` for those that do not compete.
    pub behind: Option<Behind>,
    /// How it fares against each entrant; `None` against itself and where one of the two does not compete.
    pub against: Vec<Option<Order>>,
}

/// All entrants' places, in their order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranking {
    pub decision: Decision,
    pub placed: Vec<Placed>,
}

/// Ranks entrants that have the same seeds.
pub fn rank(entrants: &[Entrant], rule: Rule) -> Ranking {
    let complete: Vec<Option<Vec<f64>>> = entrants.iter().map(complete).collect();
    let best = best_by_median(&complete, rule);
    let order = |a: usize, b: usize| {
        let (of_a, of_b) = (complete[a].as_ref()?, complete[b].as_ref()?);
        let exact = entrants[a].exact && entrants[b].exact;
        (a != b).then(|| compare(of_a, of_b, exact, rule)).flatten()
    };
    let placed: Vec<Placed> = (0..entrants.len())
        .map(|at| Placed {
            value: median_interval(&present(&entrants[at].values)),
            competes: complete[at].is_some(),
            behind: best.and_then(|best| {
                let (best, own) = (complete[best].as_ref()?, complete[at].as_ref()?);
                behind(best, own, rule)
            }),
            against: (0..entrants.len()).map(|other| order(at, other)).collect(),
        })
        .collect();
    let decision = match best {
        None => Decision::Nobody,
        Some(best) => decide(best, entrants, &placed),
    };
    Ranking { decision, placed }
}

fn present(values: &[Option<f64>]) -> Vec<f64> {
    values.iter().flatten().copied().collect()
}

/// The values of one that competes.
fn complete(entrant: &Entrant) -> Option<Vec<f64>> {
    let values: Option<Vec<f64>> = entrant.values.iter().copied().collect();
    values.filter(|values| !values.is_empty() && !entrant.disqualified)
}

fn median(values: &[f64]) -> f64 {
    median_interval(values).map_or(f64::NAN, |interval| interval.median)
}

/// The first of several that are equal.
fn best_by_median(complete: &[Option<Vec<f64>>], rule: Rule) -> Option<usize> {
    let cost = |values: &Vec<f64>| match rule.higher_is_better {
        true => -median(values),
        false => median(values),
    };
    let costs = complete.iter().enumerate();
    let costs = costs.filter_map(|(at, values)| Some((at, cost(values.as_ref()?))));
    let best = costs.min_by(|(_, a), (_, b)| a.total_cmp(b));
    best.map(|(at, _)| at)
}

/// By how much `other` is worse than `best`, in each seed.
fn behind(best: &[f64], other: &[f64], rule: Rule) -> Option<Behind> {
    let pairs = || best.iter().copied().zip(other.iter().copied());
    let by: Vec<f64> = pairs()
        .map(|(b, o)| if rule.higher_is_better { b - o } else { o - b })
        .collect();
    let times: Vec<f64> = pairs()
        .map(|(b, o)| if rule.higher_is_better { b / o } else { o / b })
        .collect();
    let is_whole = pairs().all(|(b, o)| b > 0.0 && o > 0.0);
    Some(Behind {
        by: median_interval(&by)?,
        times: median_interval(&times).filter(|_| is_whole),
    })
}

/// How `a` fares against `b`; `None`: too few runs to tell.
fn compare(a: &[f64], b: &[f64], exact: bool, rule: Rule) -> Option<Order> {
    let ahead = behind(a, b, rule)?.by;
    let tie = match rule.tie {
        Tie::Part(part) => part * median(a).abs().max(median(b).abs()),
        Tie::Amount(amount) => amount,
    };
    let (low, high) = match exact {
        true => (ahead.median, ahead.median),
        false if f64::from(ahead.coverage_ppm) < WANTED * 1e6 => return None,
        false => (ahead.low, ahead.high),
    };
    Some(match (low, high) {
        (low, _) if low > tie => Order::Better,
        (_, high) if high < -tie => Order::Worse,
        (low, high) if low >= -tie && high <= tie => Order::Tie,
        _ => Order::Open,
    })
}

fn decide(best: usize, entrants: &[Entrant], placed: &[Placed]) -> Decision {
    let others: Vec<usize> = (0..entrants.len())
        .filter(|at| *at != best && placed[*at].competes)
        .collect();
    let against = |a: usize, b: usize| placed[a].against[b];
    if others.is_empty() {
        return Decision::Alone { who: best };
    }
    if others.iter().any(|other| against(best, *other).is_none()) {
        return Decision::TooFewRuns;
    }
    let beaten = |other: &&usize| against(best, **other) == Some(Order::Better);
    let level: Vec<usize> = others.iter().filter(|o| !beaten(o)).copied().collect();
    if level.is_empty() {
        let distance = |at: &usize| {
            placed[*at]
                .behind
                .map_or(f64::NAN, |behind| behind.by.median)
        };
        let next = others
            .iter()
            .copied()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)));
        return match next.and_then(|next| Some((next, placed[next].behind?))) {
            Some((next, margin)) => Decision::Winner {
                who: best,
                next,
                margin,
            },
            None => Decision::Alone { who: best },
        };
    }
    let who: Vec<usize> = [vec![best], level].concat();
    let tied = |a: &usize| {
        let mut pairs = who.iter().filter(|b| a != *b);
        pairs.all(|b| against(*a, *b) == Some(Order::Tie))
    };
    let tie = who.iter().all(tied);
    let outside: Vec<&usize> = others.iter().filter(|other| !who.contains(other)).collect();
    let beats_all = |a: &usize| {
        let mut rest = outside.iter();
        rest.all(|b| against(*a, **b) == Some(Order::Better))
    };
    let clear = !outside.is_empty() && who.iter().all(beats_all);
    Decision::Shared { who, tie, clear }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six runs, the fewest for a 95 % interval.
    const NOISE: [f64; 6] = [0.0, 2.0, -1.0, 1.0, -2.0, 0.5];

    fn runs(level: f64) -> Entrant {
        Entrant {
            values: NOISE.iter().map(|n| Some(level + n)).collect(),
            ..Entrant::default()
        }
    }

    fn shuffled(level: f64, by: usize) -> Entrant {
        let mut runs = runs(level);
        runs.values.rotate_left(by);
        runs
    }

    fn lower() -> Rule {
        Rule::of(Better::Lower)
    }

    #[test]
    fn a_winner_beats_all_others_by_more_than_a_tie() {
        let entrants = [runs(120.0), runs(100.0), runs(110.0)];
        let ranking = rank(&entrants, lower());
        let Decision::Winner { who, next, margin } = ranking.decision else {
            panic!("{:?}", ranking.decision)
        };
        // Noise that all share cancels out in every pair.
        assert_eq!((who, next), (1, 2));
        assert_eq!((margin.by.low, margin.by.high), (10.0, 10.0));
        assert_eq!(ranking.placed[0].behind.unwrap().by.median, 20.0);
        assert_eq!(ranking.placed[1].behind.unwrap().by.median, 0.0);
        let higher = rank(&entrants, Rule::of(Better::Higher));
        assert!(matches!(
            higher.decision,
            Decision::Winner {
                who: 0,
                next: 2,
                ..
            }
        ));
        let times = higher.placed[1].behind.unwrap().times.unwrap();
        assert!((times.median - 1.2).abs() < 0.01, "{times:?}");
    }

    /// The same six values in another order: equal medians, and differences on both sides.
    #[test]
    fn pairs_count_and_not_medians() {
        let ranking = rank(&[runs(10.0), shuffled(10.4, 1)], lower());
        let shared = Decision::Shared {
            who: vec![0, 1],
            tie: false,
            clear: false,
        };
        assert_eq!(ranking.decision, shared);
        assert_eq!(ranking.placed[0].against, [None, Some(Order::Open)]);
        // The ranges of the values overlap, and yet each pair differs by 3.
        let paired = rank(&[runs(10.0), runs(13.0)], lower());
        assert!(matches!(paired.decision, Decision::Winner { who: 0, .. }));
    }

    #[test]
    fn differences_below_a_tie_are_ties() {
        let shared = |tie| Decision::Shared {
            who: vec![0, 1],
            tie,
            clear: false,
        };
        let entrants = [runs(1000.0), runs(1009.0)];
        assert_eq!(rank(&entrants, lower()).decision, shared(true), "below 1 %");
        let mut rule = lower();
        rule.tie = Tie::Amount(5.0);
        assert!(matches!(
            rank(&entrants, rule).decision,
            Decision::Winner { .. }
        ));
        rule.tie = Tie::Amount(9.0);
        assert_eq!(rank(&entrants, rule).decision, shared(true));
        // Both 0: equal, whatever a part of them is.
        let zeros = || Entrant {
            values: vec![Some(0.0); 6],
            ..Entrant::default()
        };
        let ranking = rank(&[zeros(), zeros()], lower());
        assert_eq!(ranking.decision, shared(true));
        assert_eq!(ranking.placed[1].behind.unwrap().times, None);
    }

    /// Of the larger of the two medians; both ends of the interval count; a quotient needs positive values.
    #[test]
    fn ties_at_their_borders() {
        let exact = |value: f64| Entrant {
            values: vec![Some(value)],
            exact: true,
            ..Entrant::default()
        };
        let decided = |a: f64, b: f64| {
            let decision = rank(&[exact(a), exact(b)], lower()).decision;
            matches!(decision, Decision::Winner { .. })
        };
        let ranking = rank(&[exact(0.0), exact(5.0)], lower());
        assert_eq!(ranking.placed[1].behind.unwrap().times, None);
        assert!(!decided(99.0, 99.995), "below 1 % of 99.995");
        assert!(decided(99.0, 100.005));
        let mixed = |values: [f64; 6]| Entrant {
            values: values.map(Some).to_vec(),
            ..Entrant::default()
        };
        let order =
            |values| rank(&[mixed(values), mixed([100.0; 6])], lower()).placed[0].against[1];
        assert_eq!(
            order([100.5, 99.5, 100.2, 99.9, 100.0, 100.1]),
            Some(Order::Tie)
        );
        assert_eq!(
            order([90.0, 99.5, 100.2, 99.9, 100.0, 100.1]),
            Some(Order::Open)
        );
        assert_eq!(
            order([110.0, 99.5, 100.2, 99.9, 100.0, 100.1]),
            Some(Order::Open)
        );
        let negative = rank(&[exact(-2.0), exact(-1.0)], lower());
        assert_eq!(negative.placed[1].behind.unwrap().times, None);
        // One that is exact does not make the other so.
        let short = Entrant {
            values: vec![Some(9.0)],
            ..Entrant::default()
        };
        assert_eq!(
            rank(&[exact(1.0), short], lower()).decision,
            Decision::TooFewRuns
        );
    }

    /// All that share the lead must be level with the best, not only the first.
    #[test]
    fn one_open_difference_is_no_tie() {
        let level = [runs(1000.0), runs(1004.0), shuffled(1002.0, 1)];
        let Decision::Shared { who, tie, .. } = rank(&level, lower()).decision else {
            panic!("nobody wins")
        };
        assert_eq!((who.len(), tie), (3, true));
        let mut far = shuffled(1002.0, 1);
        far.values[0] = Some(1500.0);
        let Decision::Shared { who, tie, .. } =
            rank(&[runs(1000.0), runs(1004.0), far], lower()).decision
        else {
            panic!("nobody wins")
        };
        assert_eq!((who.len(), tie), (3, false));
    }

    #[test]
    fn five_runs_or_one_decide_nothing() {
        for count in [1, 5] {
            let short = |level| {
                let mut runs = runs(level);
                runs.values.truncate(count);
                runs
            };
            let ranking = rank(&[short(10.0), short(99.0)], lower());
            assert_eq!(ranking.decision, Decision::TooFewRuns, "{count}");
            let exact = |level| Entrant {
                exact: true,
                ..short(level)
            };
            let ranking = rank(&[exact(10.0), exact(99.0)], lower());
            assert!(matches!(ranking.decision, Decision::Winner { who: 0, .. }));
        }
    }

    /// The best value of all does not help one that lacks another.
    #[test]
    fn what_is_missing_never_wins() {
        let mut gap = runs(1.0);
        gap.values[3] = None;
        let cheat = Entrant {
            disqualified: true,
            ..runs(2.0)
        };
        let ranking = rank(
            &[gap.clone(), cheat.clone(), runs(50.0), runs(60.0)],
            lower(),
        );
        assert!(matches!(
            ranking.decision,
            Decision::Winner {
                who: 2,
                next: 3,
                ..
            }
        ));
        let first = &ranking.placed[0];
        assert_eq!((first.competes, first.value.unwrap().n), (false, 5));
        assert!(first.against.iter().all(Option::is_none) && first.behind.is_none());
        let alone = rank(&[gap.clone(), runs(50.0)], lower());
        assert_eq!(alone.decision, Decision::Alone { who: 1 });
        assert_eq!(rank(&[gap, cheat], lower()).decision, Decision::Nobody);
        assert_eq!(rank(&[], lower()).decision, Decision::Nobody);
    }

    #[test]
    fn the_beaten_do_not_share_the_lead() {
        let ranking = rank(&[runs(10.0), shuffled(10.2, 2), runs(90.0)], lower());
        let Decision::Shared { who, clear, .. } = ranking.decision else {
            panic!("{:?}", ranking.decision)
        };
        assert_eq!((who, clear), (vec![0, 1], true));
        assert_eq!(ranking.placed[2].against[0], Some(Order::Worse));
        // The second is not clearly better than the third.
        let near = rank(&[runs(10.0), shuffled(11.0, 2), runs(12.5)], lower());
        let Decision::Shared { who, clear, .. } = near.decision else {
            panic!("{:?}", near.decision)
        };
        assert_eq!((who, clear), (vec![0, 1], false));
    }
}
