// SPDX-License-Identifier: GPL-2.0-or-later
//! A claim's check: an expression over measures that is true or false.

use std::collections::BTreeSet;

use tiltyard_expr::Expr;
pub use tiltyard_expr::ExprError;

/// A parsed check; [`Check::holds`] evaluates it.
#[derive(Clone, Debug, PartialEq)]
pub struct Check(Expr);

/// Which of its values with several seeds a name in a check stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverSeeds {
    /// `scheduler.measure`
    Median,
    /// `scheduler.measure.smallest`
    Smallest,
    /// `scheduler.measure.largest`: what never happens is 0 in the worst run.
    Largest,
}

impl OverSeeds {
    /// A name's measure, `scheduler.measure`, and which of its values it stands for.
    pub fn of_name(name: &str) -> (&str, OverSeeds) {
        match name.rsplit_once('.') {
            Some((measure, "smallest")) => (measure, OverSeeds::Smallest),
            Some((measure, "largest")) => (measure, OverSeeds::Largest),
            _ => (name, OverSeeds::Median),
        }
    }
}

impl Check {
    /// Parses an expression that is true or false and uses a measure.
    pub fn read(text: &str) -> Result<Check, ExprError> {
        let expr = Expr::read(text, &is_measure)?;
        let error = |at, what: &str| {
            let what = what.to_owned();
            Err(ExprError { at, what })
        };
        if !expr.is_truth() {
            let what = "a number, where a check must be true or false";
            return error(expr.at(), what);
        }
        match expr.names().is_empty() {
            true => error(0, "no measure of any scheduler is mentioned"),
            false => Ok(Check(expr)),
        }
    }

    /// The names that it uses, as written: `scheduler.measure`, with or without `.smallest` or `.largest`.
    pub fn names(&self) -> &BTreeSet<String> {
        self.0.names()
    }

    /// The measures that it uses, `scheduler.measure`.
    pub fn measures(&self) -> BTreeSet<&str> {
        let names = self.names().iter();
        names.map(|name| OverSeeds::of_name(name).0).collect()
    }

    /// Whether the claim holds. A measure without a value, a division by zero and a value that is not finite are errors.
    pub fn holds(&self, value: &dyn Fn(&str) -> Option<f64>) -> Result<bool, ExprError> {
        self.0.truth(value)
    }

    /// The operands that the check computes from measures and compares, with their values, as [`Expr::computed`].
    pub fn computed(&self, value: &dyn Fn(&str) -> Option<f64>) -> Vec<(String, f64)> {
        self.0.computed(value)
    }
}

/// The conditions that are not met, as written, if the check joins several with "and".
pub fn unmet<'t>(text: &'t str, value: &dyn Fn(&str) -> Option<f64>) -> Vec<&'t str> {
    let conditions = conditions(text);
    let fails =
        |condition: &&str| Check::read(condition).is_ok_and(|c| c.holds(value) == Ok(false));
    match conditions.len() {
        1 => Vec::new(),
        _ => conditions.into_iter().filter(fails).collect(),
    }
}

/// Splits at each "and" outside parentheses; returns the whole text if an "or" is outside parentheses.
fn conditions(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ' ' if depth == 0 && text[at..].starts_with(" or ") => return vec![text],
            ' ' if depth == 0 && text[at..].starts_with(" and ") => {
                parts.push(&text[from..at]);
                from = at + " and ".len();
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

fn is_measure(name: &str) -> Result<(), String> {
    let mut parts = OverSeeds::of_name(name).0.split('.');
    let (scheduler, measure) = (parts.next(), parts.next());
    let whole = |part: Option<&str>| part.is_some_and(|p| !p.is_empty());
    match whole(scheduler) && whole(measure) && parts.next().is_none() {
        true => Ok(()),
        false => Err(format!("{name} is not a measure; write scheduler.measure")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_conditions_those_that_fail_are_named() {
        let unmet = |text| {
            let values = |name: &str| match name {
                "a.one" => Some(1.0),
                "a.two" => Some(2.0),
                _ => None,
            };
            unmet(text, &values)
        };
        assert_eq!(
            unmet("a.one > 1 and a.two > 1 and a.two < 2"),
            ["a.one > 1", "a.two < 2"]
        );
        assert_eq!(unmet("a.one == 1 and a.two == 2"), [""; 0]);
        let joined = "(a.one > 1 and a.two > 1) and a.two > 1";
        assert_eq!(unmet(joined), ["(a.one > 1 and a.two > 1)"]);
        assert_eq!(unmet("a.one > 1"), [""; 0], "one condition needs no name");
        assert_eq!(unmet("a.one > 1 or a.two > 2 and a.one > 2"), [""; 0]);
        assert_eq!(unmet("a.three > 1 and a.one > 1"), ["a.one > 1"]);
    }

    #[test]
    fn what_is_no_check_is_refused() {
        for (text, expected) in [
            (
                "1 < 2",
                "no measure of any scheduler is mentioned (at character 1)",
            ),
            (
                "a.one + 1",
                "a number, where a check must be true or false (at character 1)",
            ),
            (
                "2 > one",
                "one is not a measure; write scheduler.measure (at character 5)",
            ),
            (
                "a.b.c < 2",
                "a.b.c is not a measure; write scheduler.measure (at character 1)",
            ),
            (
                "a.largest < 2",
                "a.largest is not a measure; write scheduler.measure (at character 1)",
            ),
            (
                "a. < 2",
                "a. is not a measure; write scheduler.measure (at character 1)",
            ),
        ] {
            let error = Check::read(text).unwrap_err();
            assert_eq!(error.to_string(), expected, "{text}");
        }
    }
}
