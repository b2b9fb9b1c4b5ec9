// SPDX-License-Identifier: GPL-2.0-or-later
//! Gates: limits to what may change from one result to another, `METRIC > +10%` or `METRIC < -5/s`.

use crate::amount::Amount;
use crate::cell::Unit;
use crate::pair::{Change, Pair, Trial};
use crate::significance::{ALPHA, adjusted, smallest};

/// A limit that somebody typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// As it was typed.
    pub text: String,
    /// A figure's whole name, or its end: `wakeup_latency_us_p99` is that of every app.
    pub metric: String,
    direction: Direction,
    /// Relative: a part of A's figure.
    amount: Amount,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Direction {
    Above,
    Below,
}

/// Why a gate cannot be judged.
#[derive(Clone, Debug, PartialEq)]
pub enum GateError {
    /// What was typed makes no sense; what is wrong, and what to write.
    Wrong(String),
    /// Neither result has such a figure.
    Unknown,
    /// Only one result has it: A lacks it (0), or B (1).
    OneSided { name: String, lacking: usize },
    /// No change of this metric, however large, could be significant.
    TooFew { name: String, runs: [usize; 2] },
}

/// What a gate says of one figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Ruling {
    /// Indices into the gates and into the pair's changes.
    pub gate: usize,
    pub change: usize,
    /// Corrected for all figures that gates name; `None` where nothing was tested: single exact runs, or all runs alike.
    pub p_adjusted: Option<f64>,
    /// The change is larger than the limit.
    pub beyond: bool,
    /// It is so, and significant.
    pub fired: bool,
}

impl Gate {
    /// Reads `METRIC > CHANGE` or `METRIC < CHANGE`. The last `<` or `>` counts: names may have any character.
    pub fn parse(text: &str) -> Result<Gate, GateError> {
        let wrong = |what: &str| GateError::Wrong(what.to_owned());
        let form = "write METRIC > +10%, or METRIC < -5%";
        let at = text
            .rfind(['<', '>'])
            .ok_or_else(|| wrong(&format!("neither > nor < in it; {form}")))?;
        let (metric, change) = (text[..at].trim(), text[at + 1..].trim());
        if metric.is_empty() {
            return Err(wrong(&format!("no metric before its sign; {form}")));
        }
        let amount = Amount::parse(change)
            .ok_or_else(|| wrong(&format!("\"{change}\" is no change; {form}, or +50us")))?;
        let direction = match &text[at..=at] {
            ">" => Direction::Above,
            _ => Direction::Below,
        };
        match direction {
            Direction::Above if amount.number < 0.0 => Err(wrong(
                "> takes a rise, 0 or more: a gate fires on a change that went too far, not on one that did not come",
            )),
            Direction::Below if amount.number > 0.0 => Err(wrong(
                "< takes a fall, 0 or less: a gate fires on a change that went too far, not on one that did not come",
            )),
            _ => Ok(Gate {
                text: text.trim().to_owned(),
                metric: metric.to_owned(),
                direction,
                amount,
            }),
        }
    }

    /// Whether the limit is a part of A's figure, else an amount.
    pub fn is_relative(&self) -> bool {
        self.amount.is_relative()
    }

    /// Whether this figure is meant.
    pub fn names(&self, change: &Change) -> bool {
        let name = &change.row.name;
        let rest = name.strip_suffix(self.metric.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }

    /// Whether the change went further than the limit. Where A's figures have zeros, of which nothing is a part, the
    /// difference counts against that part of A's median: of a median of 0, anything is too much.
    fn is_beyond(&self, change: &Change) -> Result<bool, GateError> {
        let (Some(a), Some(shift)) = (change.a(), change.shift) else {
            return Ok(false);
        };
        let number = self.amount.number;
        let (value, limit) = match (self.is_relative(), change.relative()) {
            (true, Some(part)) => (part.median, number / 100.0),
            (true, None) => (shift.median, number / 100.0 * a.median.abs()),
            (false, _) => (shift.median, self.limit(change.row.unit)?),
        };
        Ok(match self.direction {
            Direction::Above => value > limit,
            Direction::Below => value < limit,
        })
    }

    /// The limit in the figure's unit.
    fn limit(&self, unit: Unit) -> Result<f64, GateError> {
        self.amount.of(unit).map_err(|what| {
            let unit = match self.amount.unit.as_str() {
                "" => "no unit".to_owned(),
                unit => format!("the unit \"{unit}\""),
            };
            GateError::Wrong(format!(
                "{unit}, but {} is {what}; or a part of it: %",
                self.metric
            ))
        })
    }
}

/// Judges all gates. An error comes with the index of its gate.
pub fn rule(gates: &[Gate], pair: &Pair) -> Result<Vec<Ruling>, (usize, GateError)> {
    let mut rulings = Vec::new();
    for (gate, typed) in gates.iter().enumerate() {
        let before = rulings.len();
        for (change, of) in pair
            .changes
            .iter()
            .enumerate()
            .filter(|(_, c)| typed.names(c))
        {
            can_be_judged(of, pair).map_err(|e| (gate, e))?;
            rulings.push(Ruling {
                gate,
                change,
                p_adjusted: None,
                beyond: typed.is_beyond(of).map_err(|e| (gate, e))?,
                fired: false,
            });
        }
        if rulings.len() == before {
            return Err((gate, GateError::Unknown));
        }
    }
    let tested = tested(&rulings, pair);
    let p: Vec<f64> = tested
        .iter()
        .filter_map(|change| pair.changes[*change].p)
        .collect();
    let corrected = adjusted(&p);
    for ruling in &mut rulings {
        let at = tested.iter().position(|change| *change == ruling.change);
        ruling.p_adjusted = at.map(|at| corrected[at]);
        let is_real = match pair.trial {
            Trial::Exact => true,
            _ => ruling.p_adjusted.is_some_and(|p| p <= ALPHA),
        };
        ruling.fired = ruling.beyond && is_real;
    }
    Ok(rulings)
}

/// The changes that gates name and that were tested, each once: what their probabilities are corrected for.
pub fn tested(rulings: &[Ruling], pair: &Pair) -> Vec<usize> {
    let mut tested: Vec<usize> = rulings.iter().map(|ruling| ruling.change).collect();
    tested.retain(|change| pair.changes[*change].p.is_some());
    tested.sort_unstable();
    tested.dedup();
    tested
}

fn can_be_judged(change: &Change, pair: &Pair) -> Result<(), GateError> {
    let name = change.row.name.clone();
    let (Some(a), Some(b)) = (change.a(), change.b()) else {
        let lacking = usize::from(change.a().is_some());
        return Err(GateError::OneSided { name, lacking });
    };
    let runs = [a.n, b.n];
    match pair.trial {
        Trial::Exact => Ok(()),
        Trial::Tested if smallest(a.n, b.n) <= ALPHA => Ok(()),
        _ => Err(GateError::TooFew { name, runs }),
    }
}

/// The fewest runs of each side with which a figure that changes alone among so many is significant.
pub fn runs_for(tests: usize) -> usize {
    let enough = |runs: &usize| smallest(*runs, *runs) * tests as f64 <= ALPHA;
    (1..).find(enough).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Better;
    use crate::figures::Figure;

    const LOW: [f64; 5] = [10.0, 11.0, 12.0, 13.0, 14.0];
    const HIGH: [f64; 5] = [20.0, 21.0, 22.0, 23.0, 24.0];

    fn runs<const N: usize>(figures: &[(&str, &str, Unit, [f64; N])]) -> Vec<Vec<Figure>> {
        let figure =
            |(group, name, unit, values): &(&str, &str, Unit, [f64; N]), run: usize| Figure {
                group: (*group).to_owned(),
                name: (*name).to_owned(),
                metric: (*name).to_owned(),
                unit: *unit,
                better: Better::Lower,
                headline: true,
                value: values[run],
            };
        let run = |run: usize| figures.iter().map(|f| figure(f, run)).collect();
        (0..N).map(run).collect()
    }

    fn two_apps(a: [f64; 5], b: [f64; 5]) -> Vec<Vec<Figure>> {
        runs(&[
            ("web", "delay_us", Unit::TimeNs, a),
            ("db", "delay_us", Unit::TimeNs, b),
            ("machine", "busy_percent", Unit::Share, a.map(|v| v / 100.0)),
        ])
    }

    fn pair() -> Pair {
        Pair::new(&[two_apps(LOW, LOW), two_apps(HIGH, LOW)], false, |_| {})
    }

    /// The names of the figures that fire.
    fn fired(gates: &[&str], pair: &Pair) -> Result<Vec<String>, (usize, GateError)> {
        let gates: Result<Vec<Gate>, GateError> = gates.iter().map(|g| Gate::parse(g)).collect();
        let rulings = rule(&gates.map_err(|e| (usize::MAX, e))?, pair)?;
        let fired = rulings.iter().filter(|ruling| ruling.fired);
        Ok(fired
            .map(|r| pair.changes[r.change].row.name.clone())
            .collect())
    }

    #[test]
    fn a_bare_name_is_that_of_every_app() {
        assert_eq!(
            fired(&["delay_us > +10%"], &pair()).unwrap(),
            ["web.delay_us"]
        );
        assert_eq!(
            fired(&["web.delay_us>10%"], &pair()).unwrap(),
            ["web.delay_us"]
        );
        assert_eq!(fired(&["db.delay_us > 10 %"], &pair()).unwrap(), [""; 0]);
        // "us" ends the name, but is no name.
        assert_eq!(fired(&["us > +10%"], &pair()), Err((0, GateError::Unknown)));
    }

    #[test]
    fn limits_are_parts_or_amounts() {
        // From 12 to 22 at the median: +83 %, 10 ns, 10 points.
        for (gate, fires) in [
            ("web.delay_us > +80%", true),
            ("web.delay_us > +90%", false),
            ("web.delay_us > +9ns", true),
            ("web.delay_us > +10 ns", false),
            ("web.delay_us > +0.009us", true),
            ("web.delay_us < -0%", false),
            ("busy_percent > 9.9points", true),
            ("busy_percent > 10.1points", false),
        ] {
            assert_eq!(
                !fired(&[gate], &pair()).unwrap().is_empty(),
                fires,
                "{gate}"
            );
        }
        let back = Pair::new(&[two_apps(HIGH, LOW), two_apps(LOW, LOW)], false, |_| {});
        assert_eq!(
            fired(&["delay_us < -40%"], &back).unwrap(),
            ["web.delay_us"]
        );
        assert_eq!(fired(&["delay_us < -50%"], &back).unwrap(), [""; 0]);
    }

    #[test]
    fn beyond_the_limit_is_not_enough() {
        let noisy = [9.0, 40.0, 11.5, 60.0, 12.5];
        let got = Pair::new(&[two_apps(LOW, LOW), two_apps(noisy, LOW)], false, |_| {});
        let gate = Gate::parse("web.delay_us > +1%").unwrap();
        let ruling = &rule(std::slice::from_ref(&gate), &got).unwrap()[0];
        assert!(ruling.beyond && !ruling.fired, "{ruling:?}");
    }

    /// Gates are corrected for what they name, not for all that there is; a figure named twice counts once.
    #[test]
    fn gates_are_corrected_for_what_they_name() {
        let gates = ["web.delay_us > +10%", "web.delay_us < -10%"];
        let gates: Vec<Gate> = gates.iter().map(|g| Gate::parse(g).unwrap()).collect();
        let rulings = rule(&gates, &pair()).unwrap();
        assert_eq!(rulings[0].p_adjusted, Some(2.0 / 252.0));
        assert_eq!(tested(&rulings, &pair()), [0]);
        // 20 figures, of which one changes: not with five runs each.
        assert_eq!([1, 6, 7, 20].map(runs_for), [4, 5, 6, 6]);
    }

    #[test]
    fn of_nothing_any_rise_is_beyond_every_part() {
        let zero = [0.0; 5];
        let from_zero = Pair::new(&[two_apps(zero, LOW), two_apps(HIGH, LOW)], false, |_| {});
        assert_eq!(
            fired(&["web.delay_us > +500%"], &from_zero).unwrap(),
            ["web.delay_us"]
        );
        let still = Pair::new(&[two_apps(zero, LOW), two_apps(zero, LOW)], false, |_| {});
        assert_eq!(fired(&["web.delay_us > 0%"], &still).unwrap(), [""; 0]);
    }

    #[test]
    fn single_exact_runs_are_taken_as_they_are() {
        let one = |value: f64| runs(&[("web", "delay_us", Unit::TimeNs, [value])]);
        let exact = Pair::new(&[one(100.0), one(111.0)], true, |_| {});
        assert_eq!(
            fired(&["delay_us > 10%"], &exact).unwrap(),
            ["web.delay_us"]
        );
        assert_eq!(fired(&["delay_us > 12%"], &exact).unwrap(), [""; 0]);
        let (name, runs) = ("web.delay_us".to_owned(), [1, 1]);
        let inexact = Pair::new(&[one(100.0), one(111.0)], false, |_| {});
        let too_few = Err((0, GateError::TooFew { name, runs }));
        assert_eq!(fired(&["delay_us > 10%"], &inexact), too_few);
    }

    #[test]
    fn a_figure_that_one_side_lacks_is_an_error() {
        let mut without = two_apps(LOW, LOW);
        without
            .iter_mut()
            .for_each(|run| run.retain(|f| f.group != "db"));
        let got = Pair::new(&[two_apps(LOW, LOW), without], false, |_| {});
        let (name, lacking) = ("db.delay_us".to_owned(), 1);
        assert_eq!(
            fired(&["delay_us > 1%"], &got),
            Err((0, GateError::OneSided { name, lacking }))
        );
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let wrong = |text: &str| match fired(&[text], &pair()) {
            Err((_, GateError::Wrong(what))) => what,
            other => panic!("{text}: {other:?}"),
        };
        assert!(wrong("delay_us").contains("neither > nor <"));
        assert!(wrong("> 3%").contains("no metric"));
        assert!(wrong("delay_us > much").contains("\"much\" is no change"));
        assert!(wrong("delay_us > ").contains("is no change"));
        assert!(wrong("delay_us > -3%").contains("0 or more"));
        assert!(wrong("delay_us < 3%").contains("0 or less"));
        assert!(wrong("delay_us > 3").contains("no unit, but delay_us is a time: ns, us, ms or s"));
        assert!(
            wrong("busy_percent > 3ms").contains("the unit \"ms\", but busy_percent is a share")
        );
    }

    #[test]
    fn two_figures_are_corrected_for_two() {
        let gate = Gate::parse("delay_us > +10%").unwrap();
        let rulings = rule(&[gate], &pair()).unwrap();
        assert_eq!(rulings.len(), 2);
        let web = rulings
            .iter()
            .find(|r| pair().changes[r.change].row.name == "web.delay_us")
            .unwrap();
        assert_eq!(web.p_adjusted, Some(4.0 / 252.0));
    }

    #[test]
    fn a_zero_among_others_is_no_licence() {
        let got = Pair::new(
            &[
                two_apps([0.0, 10.0, 11.0, 12.0, 13.0], LOW),
                two_apps(HIGH, LOW),
            ],
            false,
            |_| {},
        );
        assert_eq!(fired(&["web.delay_us > +200%"], &got).unwrap(), [""; 0]);
        assert_eq!(
            fired(&["web.delay_us > +90%"], &got).unwrap(),
            ["web.delay_us"]
        );
    }
}
