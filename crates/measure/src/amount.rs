// SPDX-License-Identifier: GPL-2.0-or-later
//! Amounts of a metric that users type: `1%`, `0.5ms`, `2points`, `3/s`.

use crate::cell::Unit;

/// A number and its unit. `%`: a part of the metric's value.
#[derive(Clone, Debug, PartialEq)]
pub struct Amount {
    pub number: f64,
    pub unit: String,
}

impl Amount {
    /// `None` if the text does not begin with a number.
    pub fn parse(text: &str) -> Option<Amount> {
        let text = text.trim();
        let end = text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c)));
        let (number, unit) = text.split_at(end.unwrap_or(text.len()));
        Some(Amount {
            number: number.parse().ok()?,
            unit: unit.trim().to_owned(),
        })
    }

    /// Whether it is a part of the metric's value.
    pub fn is_relative(&self) -> bool {
        self.unit == "%"
    }

    /// The number in the unit that values of this kind have; for an amount that is not relative. `Err`: what to write.
    pub fn of(&self, unit: Unit) -> Result<f64, &'static str> {
        let (what, known): (_, &[(&str, f64)]) = match unit {
            Unit::TimeNs => (
                "a time: ns, us, ms or s",
                &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)],
            ),
            Unit::PerSecond => ("a rate: /s", &[("/s", 1.0)]),
            Unit::Share => ("a share: points", &[("points", 0.01)]),
            Unit::Count | Unit::Plain => ("a number without a unit", &[("", 1.0)]),
        };
        let found = known.iter().find(|(name, _)| *name == self.unit);
        found.map(|(_, scale)| self.number * scale).ok_or(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_the_unit_of_the_metric() {
        let of = |text: &str, unit| Amount::parse(text).unwrap().of(unit);
        assert_eq!(of("0.5 ms", Unit::TimeNs), Ok(5e5));
        assert_eq!(of("+2points", Unit::Share), Ok(0.02));
        assert_eq!(of("3", Unit::Count), Ok(3.0));
        assert_eq!(of("3", Unit::TimeNs), Err("a time: ns, us, ms or s"));
        assert!(Amount::parse("1 %").unwrap().is_relative());
        assert_eq!(Amount::parse("much"), None);
        assert_eq!(Amount::parse(""), None);
    }
}
