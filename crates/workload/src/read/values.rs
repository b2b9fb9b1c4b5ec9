// SPDX-License-Identifier: GPL-2.0-or-later
//! Values of the types that keys want, with the error when they are of another.

use super::Reader;
use crate::json::{Member, NodeKind, Value};
use crate::keys;
use crate::program::Dist;
use crate::units::{self, NumberError};

impl Reader<'_> {
    /// The value as people wrote it, cut to a length that fits a message.
    pub(super) fn source(&self, value: &Value) -> String {
        let source = self.text.get(value.span.clone()).unwrap_or("");
        match source.char_indices().nth(40) {
            Some((cut, _)) => format!("{}...", &source[..cut]),
            None => source.to_string(),
        }
    }

    pub(super) fn wrong_value(&mut self, member: &Member, is: &str, way_out: &str) {
        self.wrong(&member.key, &member.value, is, way_out);
    }

    pub(super) fn wrong(&mut self, key: &str, value: &Value, is: &str, way_out: &str) {
        let what = format!("{} {is}", self.source(value));
        self.error(value.span.clone(), key, what, way_out);
    }

    fn wrong_type(&mut self, key: &str, value: &Value, wanted: &str) {
        let what = format!("found {} where {wanted} belongs", value.kind.name());
        self.error(value.span.clone(), key, what, format!("write {wanted}"));
    }

    pub(super) fn object<'v>(&mut self, member: &'v Member) -> Option<&'v [Member]> {
        match &member.value.kind {
            NodeKind::Object(members) => Some(members),
            _ => {
                self.wrong_type(&member.key, &member.value, "an object { ... }");
                None
            }
        }
    }

    /// The members of the object under `key`, if it is there.
    pub(super) fn object_of<'v>(
        &mut self,
        members: &'v [Member],
        key: &str,
    ) -> Option<&'v [Member]> {
        let member = members.iter().find(|member| member.key == key)?;
        self.object(member)
    }

    pub(super) fn string<'v>(&mut self, member: &'v Member) -> Option<&'v str> {
        self.string_value(&member.key, &member.value)
    }

    pub(super) fn string_value<'v>(&mut self, key: &str, value: &'v Value) -> Option<&'v str> {
        match &value.kind {
            NodeKind::String(string) => Some(string),
            _ => {
                self.wrong_type(key, value, "a string");
                None
            }
        }
    }

    pub(super) fn boolean(&mut self, member: &Member) -> Option<bool> {
        match &member.value.kind {
            NodeKind::Bool(value) => Some(*value),
            _ => {
                self.wrong_type(&member.key, &member.value, "true or false");
                None
            }
        }
    }

    pub(super) fn list<'v>(&mut self, member: &'v Member) -> Option<&'v [Value]> {
        match &member.value.kind {
            NodeKind::Array(items) => Some(items),
            _ => {
                self.wrong_type(&member.key, &member.value, "a list [ ... ]");
                None
            }
        }
    }

    /// A whole number of 0 or more; `unit` for the message.
    pub(super) fn count(&mut self, member: &Member, unit: &str) -> Option<u64> {
        self.scaled(&member.key, &member.value, 0, unit)
    }

    pub(super) fn at_least_one(&mut self, member: &Member, unit: &str) -> Option<u64> {
        let is_negative = matches!(&member.value.kind, NodeKind::Number(n) if n.starts_with('-'));
        let what = match is_negative {
            true => "is negative",
            false => match self.count(member, unit)? {
                0 => "means nothing here",
                count => return Some(count),
            },
        };
        self.wrong_value(member, what, &format!("write 1 or more {unit}"));
        None
    }

    /// A whole number in `low..=high`, possibly negative.
    pub(super) fn between(&mut self, member: &Member, low: i64, high: i64) -> Option<i64> {
        let NodeKind::Number(number) = &member.value.kind else {
            self.wrong_type(&member.key, &member.value, "a whole number");
            return None;
        };
        let value = units::integer(number).filter(|value| (low..=high).contains(value));
        if value.is_none() {
            self.wrong_value(
                member,
                "is out of range",
                &format!("write a whole number from {low} to {high}"),
            );
        }
        value
    }

    /// A number of `unit`s times `10^decimals`, as a whole number of 0 or more.
    pub(super) fn scaled(
        &mut self,
        key: &str,
        value: &Value,
        decimals: u32,
        unit: &str,
    ) -> Option<u64> {
        let NodeKind::Number(number) = &value.kind else {
            self.wrong_type(
                key,
                value,
                format!("a number of {unit}").trim_end_matches(" of "),
            );
            return None;
        };
        match units::scaled(number, decimals) {
            Ok(value) => return Some(value),
            Err(NumberError::Negative) => self.wrong(key, value, "is negative", "write 0 or more"),
            Err(NumberError::TooFine) if decimals == 0 => {
                self.wrong(key, value, "is no whole number", "write a whole number");
            }
            Err(NumberError::TooFine) => {
                self.wrong(
                    key,
                    value,
                    "is too fine",
                    &format!("write at most {decimals} decimals"),
                );
            }
            Err(NumberError::TooLarge) => self.wrong(key, value, "is too large", "write less"),
        }
        None
    }

    /// Microseconds with decimals, in ns.
    pub(super) fn micros(&mut self, key: &str, value: &Value) -> Option<u64> {
        self.scaled(key, value, 3, "microseconds")
    }

    /// Whole microseconds, as rt-app takes them, in ns.
    pub(super) fn whole_micros(&mut self, key: &str, value: &Value) -> Option<u64> {
        if matches!(value.kind, NodeKind::Object(_)) {
            let way_out = format!("move the event into \"{}\": {{ ... }}", keys::EXTENSION);
            self.error(
                value.span.clone(),
                key,
                "rt-app knows no distributions",
                way_out,
            );
            return None;
        }
        let micros = self.scaled(key, value, 0, "microseconds")?;
        let ns = micros.checked_mul(1000);
        if ns.is_none() {
            self.wrong(key, value, "is too large", "write less");
        }
        ns
    }

    /// A duration that may be drawn: microseconds, or one of the distributions.
    pub(super) fn dist(&mut self, key: &str, value: &Value) -> Option<Dist> {
        let NodeKind::Object(members) = &value.kind else {
            return self.micros(key, value).map(Dist::Const);
        };
        let [member] = members.as_slice() else {
            self.wrong(
                key,
                value,
                "is no distribution",
                "write one of exp, lognormal, uniform",
            );
            return None;
        };
        match member.key.as_str() {
            "exp" => Some(Dist::Exp {
                mean: self.positive_micros(member)?,
            }),
            "lognormal" => self.lognormal(member),
            "uniform" => self.uniform(member),
            _ => {
                self.unknown_key(member, &[&["exp", "lognormal", "uniform"]]);
                None
            }
        }
    }

    fn positive_micros(&mut self, member: &Member) -> Option<u64> {
        match self.micros(&member.key, &member.value)? {
            0 => {
                self.wrong_value(member, "leaves nothing to draw", "write more than 0");
                None
            }
            ns => Some(ns),
        }
    }

    fn lognormal(&mut self, member: &Member) -> Option<Dist> {
        let fields = self.object(member)?;
        self.known_keys(fields, &[&["median", "sigma"]]);
        let median = fields.iter().find(|field| field.key == "median");
        let sigma = fields.iter().find(|field| field.key == "sigma");
        let (Some(median), Some(sigma)) = (median, sigma) else {
            self.wrong_value(
                member,
                "is incomplete",
                "write {\"median\": microseconds, \"sigma\": number}",
            );
            return None;
        };
        let median = self.positive_micros(median)?;
        let sigma_milli = self.scaled(&sigma.key, &sigma.value, 3, "")?;
        if sigma_milli > 10_000 {
            self.wrong_value(sigma, "is too wide", "write at most 10");
            return None;
        }
        Some(Dist::LogNormal {
            median,
            sigma_milli,
        })
    }

    fn uniform(&mut self, member: &Member) -> Option<Dist> {
        let [low, high] = self.list(member)? else {
            self.wrong_value(member, "is no range", "write [low, high]");
            return None;
        };
        let low = self.micros(&member.key, low)?;
        let high = self.micros(&member.key, high)?;
        if low > high {
            self.wrong_value(member, "ends before it begins", "write [low, high]");
            return None;
        }
        Some(Dist::Uniform { low, high })
    }
}
