// SPDX-License-Identifier: GPL-2.0-or-later
//! The table `[environment]` of a scheduler's presets.toml.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use tiltyard_expr::Expr;
use tiltyard_misspelt::toml_line;

use crate::facts::Each;

/// What a scheduler needs from its machine. Empty for most schedulers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Environment {
    /// Variables, by name.
    pub(crate) set: BTreeMap<String, Term>,
    /// Arrays: for which part of the machine each element is, then by name.
    pub(crate) arrays: BTreeMap<Each, BTreeMap<String, Term>>,
    /// RESIZABLE_ARRAYs: how many elements each gets.
    pub(crate) resize: BTreeMap<String, Term>,
    /// Bits of ops.flags, by the kernel's names: set where true, else cleared.
    pub(crate) flags: BTreeMap<String, Term>,
    /// The same, but it is no error if the kernel does not know them.
    pub(crate) optional_flags: BTreeMap<String, Term>,
    pub(crate) maps: Vec<MapTable>,
    /// The CPU on which ops.init must run.
    pub(crate) attach_on: Option<Term>,
    pub(crate) calls: Vec<CallTable>,
}

/// The environment of a scheduler that needs only the usual variables.
pub static EMPTY: Environment = Environment {
    set: BTreeMap::new(),
    arrays: BTreeMap::new(),
    resize: BTreeMap::new(),
    flags: BTreeMap::new(),
    optional_flags: BTreeMap::new(),
    maps: Vec::new(),
    attach_on: None,
    calls: Vec::new(),
};

/// Elements of a map: one for each part of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapTable {
    pub name: String,
    #[serde(default)]
    pub each: Each,
    pub key: Term,
    pub value: Term,
    #[serde(default)]
    pub when: Option<Term>,
}

/// Calls of a SEC("syscall") program: one for each part of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallTable {
    pub program: String,
    #[serde(default)]
    pub each: Each,
    /// Members of the struct that it takes. Members that are not named are 0.
    #[serde(default)]
    pub arguments: BTreeMap<String, Term>,
    #[serde(default)]
    pub when: Option<Term>,
    /// The CPU on which it must run.
    #[serde(default)]
    pub on: Option<Term>,
    /// Called once the scheduler is in charge, not before.
    #[serde(default)]
    pub after_attach: bool,
    /// Period of the calls, which are repeated while the scheduler is in charge, ms.
    #[serde(default)]
    pub every_ms: Option<u64>,
}

/// A value: a number, true or false, or an expression over the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Term {
    Bool(bool),
    Int(i64),
    Expr(String),
}

/// What a term may be.
const TERM: &str = "a whole number, true, false or an expression";

/// Serde's own error for untagged enums names neither the value nor what it may be.
impl<'de> Deserialize<'de> for Term {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Term, D::Error> {
        struct Terms;
        impl Visitor<'_> for Terms {
            type Value = Term;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(TERM)
            }

            fn visit_bool<E: Error>(self, truth: bool) -> Result<Term, E> {
                Ok(Term::Bool(truth))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Term, E> {
                Ok(Term::Int(number))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Term, E> {
                i64::try_from(number).map(Term::Int).map_err(E::custom)
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Term, E> {
                Err(E::custom(format!("{number} is not {TERM}")))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Term, E> {
                Ok(Term::Expr(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Terms)
    }
}

/// An error in a table, or in its use on a machine.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EnvironmentError {
    #[error("[environment] {0}")]
    Syntax(String),
    #[error("[environment] {key} = \"{text}\": {what}")]
    Expression {
        key: String,
        text: String,
        what: String,
    },
    #[error("[environment] {key} = {value}: {what}")]
    Value {
        key: String,
        value: String,
        what: String,
    },
    #[error("[environment] {key}: the scheduler has no such {what}")]
    Missing { key: String, what: &'static str },
    #[error("{scheduler} supports {holds} CPUs, the length of its {name}; this machine has {cpus}")]
    TooManyCpus {
        scheduler: String,
        name: String,
        holds: u64,
        cpus: u64,
    },
    #[error("{scheduler} has room for {holds} values of {name}; this machine has {values}")]
    TooManyValues {
        scheduler: String,
        name: String,
        holds: u64,
        values: u64,
    },
}

impl EnvironmentError {
    /// The scheduler has no `what` of this name.
    pub fn missing(kind: &str, name: &str, what: &'static str) -> EnvironmentError {
        let key = format!("{kind}.{name}");
        EnvironmentError::Missing { key, what }
    }
}

/// Shortest period of calls, ms: more frequent ones would be a scheduler of their own.
const MIN_EVERY_MS: u64 = 1;

impl Environment {
    /// Reads a TOML table.
    pub fn from_toml(table: toml::Table) -> Result<Environment, EnvironmentError> {
        let environment: Environment = table.try_into().map_err(|e: toml::de::Error| {
            let what = toml_line(&e);
            // Only the whole text of the error has the key, in its last line.
            let shown = e.to_string();
            let key = shown
                .lines()
                .last()
                .and_then(|line| line.strip_prefix("in `"));
            EnvironmentError::Syntax(match key {
                Some(key) => format!("{}: {what}", key.trim_end_matches('`')),
                None => what,
            })
        })?;
        environment.check()?;
        Ok(environment)
    }

    /// What schedulers get without asking, by the names of their variables.
    pub fn usual() -> Environment {
        toml::from_str(include_str!("usual.toml")).expect("a test reads it")
    }

    /// Whether it gives this variable or array a value.
    pub fn gives(&self, name: &str) -> bool {
        let arrays = self.arrays.values();
        self.set.contains_key(name) || arrays.into_iter().any(|named| named.contains_key(name))
    }

    pub fn is_empty(&self) -> bool {
        *self == Environment::default()
    }

    /// Programs that it calls.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().map(|call| call.program.as_str())
    }

    /// Variables that it sets.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let arrays = self.arrays.values().flat_map(BTreeMap::keys);
        self.set.keys().chain(arrays).map(String::as_str)
    }

    /// Finds mistakes at once that would otherwise show only when the scheduler is loaded.
    fn check(&self) -> Result<(), EnvironmentError> {
        for (kind, terms) in [
            ("set", &self.set),
            ("resize", &self.resize),
            ("flags", &self.flags),
            ("optional_flags", &self.optional_flags),
        ] {
            for (name, term) in terms {
                term.check(&format!("{kind}.{name}"), Each::Once)?;
            }
        }
        if let Some(name) = self
            .flags
            .keys()
            .find(|name| self.optional_flags.contains_key(*name))
        {
            let what = format!("optional_flags.{name}: it is in flags, too; keep one");
            return Err(EnvironmentError::Syntax(what));
        }
        for (each, arrays) in &self.arrays {
            for (name, term) in arrays {
                term.check(&array_key(*each, name), *each)?;
            }
        }
        if let Some(term) = &self.attach_on {
            term.check("attach_on", Each::Once)?;
        }
        for map in &self.maps {
            let key = format!("maps, {}", map.name);
            for term in [&map.key, &map.value] {
                term.check(&key, map.each)?;
            }
            if let Some(term) = &map.when {
                term.check(&when_key(&key), map.each)?;
            }
        }
        self.calls.iter().try_for_each(CallTable::check)
    }
}

impl CallTable {
    fn check(&self) -> Result<(), EnvironmentError> {
        let key = format!("calls, {}", self.program);
        for term in self.arguments.values().chain(&self.on) {
            term.check(&key, self.each)?;
        }
        if let Some(term) = &self.when {
            term.check(&when_key(&key), self.each)?;
        }
        let what = match self.every_ms {
            Some(every_ms) if every_ms < MIN_EVERY_MS => format!("at least {MIN_EVERY_MS}"),
            Some(_) if self.after_attach => {
                "periodic calls always begin once the scheduler is in charge; remove after_attach"
                    .to_owned()
            }
            _ => return Ok(()),
        };
        Err(EnvironmentError::Value {
            key: format!("{key}, every_ms"),
            value: self.every_ms.unwrap_or_default().to_string(),
            what,
        })
    }
}

/// How errors name the condition of a map or a call.
pub(crate) fn when_key(key: &str) -> String {
    format!("{key}, when")
}

/// How errors name an array of the table.
pub(crate) fn array_key(each: Each, name: &str) -> String {
    let each = toml::Value::try_from(each).ok();
    let each = each.and_then(|each| each.as_str().map(str::to_owned));
    format!("arrays.{}.{name}", each.unwrap_or_default())
}

impl Term {
    /// The expression of a text; names that have no value for `each` are errors.
    pub(crate) fn parse(text: &str, key: &str, each: Each) -> Result<Expr, EnvironmentError> {
        let known = |name: &str| match each.names() {
            names if names.contains(&name) => Ok(()),
            names => Err(format!(
                "{name} has no value here; there are: {}",
                names.join(", ")
            )),
        };
        Expr::read(text, &known).map_err(|error| EnvironmentError::Expression {
            key: key.to_owned(),
            text: text.to_owned(),
            what: error.to_string(),
        })
    }

    fn check(&self, key: &str, each: Each) -> Result<(), EnvironmentError> {
        match self {
            Term::Expr(text) => Term::parse(text, key, each).map(drop),
            Term::Bool(_) | Term::Int(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Environment, String> {
        let table = toml::from_str(text).expect("TOML");
        Environment::from_toml(table).map_err(|error| error.to_string())
    }

    #[test]
    fn the_usual_one_is_right() {
        assert!(Environment::usual().check().is_ok());
        assert!(
            Environment::usual()
                .variables()
                .any(|name| name == "cpu_llc_id")
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            (
                "set = { x = \"nr_cups\" }",
                "[environment] set.x = \"nr_cups\": nr_cups has no value here; there are: nr_cpus, nr_cores, nr_llcs, \
                 nr_nodes, nr_packages, tick_hz, min_capacity, max_capacity (at character 1)",
            ),
            (
                "[arrays.cpu]\nx = \"sibling\"",
                "[environment] arrays.cpu.x = \"sibling\": sibling has no value here; there are: nr_cpus, nr_cores, nr_llcs, \
                 nr_nodes, nr_packages, tick_hz, min_capacity, max_capacity, cpu, core, llc, node, package, capacity (at \
                 character 1)",
            ),
            (
                "flags = { SCX_OPS_ENQ_LAST = \"nr_cpus >\" }",
                "[environment] flags.SCX_OPS_ENQ_LAST = \"nr_cpus >\": the expression ends too early (at character 10)",
            ),
            (
                "[[calls]]\nprogram = \"p\"\nevery_ms = 0",
                "[environment] calls, p, every_ms = 0: at least 1",
            ),
            (
                "[[calls]]\nprogram = \"p\"\nevery_ms = 5\nafter_attach = true",
                "[environment] calls, p, every_ms = 5: periodic calls always begin once the scheduler is in charge; \
                 remove after_attach",
            ),
            (
                "flags = { A = true }\noptional_flags = { A = false }",
                "[environment] optional_flags.A: it is in flags, too; keep one",
            ),
            (
                "set = { slice_ns = 1.5 }",
                "[environment] set.slice_ns: 1.5 is not a whole number, true, false or an expression",
            ),
            (
                "[[calls]]\nprogram = \"p\"\non = 0.5",
                "[environment] calls.on: 0.5 is not a whole number, true, false or an expression",
            ),
            (
                "set = { x = [1] }",
                "[environment] set.x: invalid type: sequence, expected a whole number, true, false or an expression",
            ),
            (
                "set = { x = \"pow(2,3)\" }",
                "[environment] set.x = \"pow(2,3)\": there is no function pow; there are: abs, min, max (at character 1)",
            ),
        ] {
            assert_eq!(read(text), Err(expected.to_owned()), "{text}");
        }
        for (text, part) in [
            ("sets = {}", "unknown field `sets`"),
            ("[arrays.cpus]\nx = 1", "unknown variant `cpus`"),
            ("[[calls]]\neach = \"cpu\"", "missing field `program`"),
        ] {
            let error = read(text).unwrap_err();
            assert!(
                error.starts_with("[environment] ") && error.contains(part),
                "{error}"
            );
        }
    }
}
