// SPDX-License-Identifier: GPL-2.0-or-later
//! Expressions over named numbers, in experiment files (over measures) and presets (over a machine).
//!
//! The grammar is the subset of Python's that these need: numbers, names (with points), `+ - * /`,
//! comparisons (which may be chained: `1.5 <= ule.tps / cfs.tps <= 2.2`), `and`, `or`, `not`, brackets, and `abs`, `min`,
//! `max`. Numbers and truth values do not mix: `1 + (2 < 3)` is an error, as is any value that is not finite. `and`
//! and `or` evaluate both sides: neither half hides an error in the other.
//!
//! | module | what it is |
//! | --- | --- |
//! | `parse` | text -> tree; this file evaluates the tree |

mod parse;

use std::collections::BTreeSet;
use std::fmt;

/// A parsed expression: a number or a truth value.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    root: Node,
    names: BTreeSet<String>,
}

/// An error in an expression, and its byte offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExprError {
    pub at: usize,
    pub what: String,
}

impl fmt::Display for ExprError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} (at character {})", self.what, self.at + 1)
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Node {
    at: usize,
    kind: Operation,
}

#[derive(Clone, Debug, PartialEq)]
enum Operation {
    Number(f64),
    Name(String),
    Negate(Box<Node>),
    Binary(char, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
    /// `a < b <= c`: each neighbouring pair is compared.
    Chain(Vec<Node>, Vec<Compare>),
    Not(Box<Node>),
    Both(Box<Node>, Box<Node>),
    Either(Box<Node>, Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Abs,
    Min,
    Max,
}

impl Function {
    fn name(self) -> &'static str {
        match self {
            Function::Abs => "abs",
            Function::Min => "min",
            Function::Max => "max",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    Unequal,
}

impl Compare {
    fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Compare::Less => a < b,
            Compare::LessEqual => a <= b,
            Compare::Greater => a > b,
            Compare::GreaterEqual => a >= b,
            Compare::Equal => a == b,
            Compare::Unequal => a != b,
        }
    }
}

impl Expr {
    /// Parses `text`. `known` checks that a name exists; if it does not, the error gives the reason.
    pub fn read(text: &str, known: &dyn Fn(&str) -> Result<(), String>) -> Result<Expr, ExprError> {
        let (root, names) = parse::parse(text, known)?;
        Ok(Expr { root, names })
    }

    /// The names that it uses.
    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// Whether it is a truth value; otherwise it is a number.
    pub fn is_truth(&self) -> bool {
        self.root.is_truth()
    }

    /// Byte offset of its beginning, for errors.
    pub fn at(&self) -> usize {
        self.root.at
    }

    /// Whether it is true. A name without a value, a division by zero and a value that is not finite are errors, and
    /// so is a number.
    pub fn truth(&self, value: &dyn Fn(&str) -> Option<f64>) -> Result<bool, ExprError> {
        self.root.truth(value)
    }

    /// Its number. The same errors, and one if it is a truth value.
    pub fn number(&self, value: &dyn Fn(&str) -> Option<f64>) -> Result<f64, ExprError> {
        self.root.number(value)
    }

    /// The operands that are computed from names and compared, with their values. Operands that are a single name, or
    /// that have no value, are left out.
    pub fn computed(&self, value: &dyn Fn(&str) -> Option<f64>) -> Vec<(String, f64)> {
        let mut operands = Vec::new();
        self.root.compared(&mut operands);
        operands
            .retain(|operand| !matches!(operand.kind, Operation::Name(_)) && operand.has_names());
        let valued = operands
            .into_iter()
            .filter_map(|operand| Some((operand.to_string(), operand.number(value).ok()?)));
        valued.collect()
    }
}

/// As it could have been written: brackets only where they are needed.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.kind {
            Operation::Number(number) => write!(f, "{number}"),
            Operation::Name(name) => write!(f, "{name}"),
            Operation::Negate(inner) => write!(f, "-{}", inner.within('*', true)),
            Operation::Binary(operator, a, b) => {
                let (a, b) = (a.within(*operator, false), b.within(*operator, true));
                write!(f, "{a} {operator} {b}")
            }
            Operation::Call(function, arguments) => {
                let arguments: Vec<String> = arguments.iter().map(Node::to_string).collect();
                write!(f, "{}({})", function.name(), arguments.join(", "))
            }
            Operation::Chain(..)
            | Operation::Not(_)
            | Operation::Both(..)
            | Operation::Either(..) => Ok(()),
        }
    }
}

impl Node {
    /// As an operand, in brackets if its own operator binds less tightly.
    fn within(&self, operator: char, is_right: bool) -> String {
        let is_product = |operator: char| matches!(operator, '*' | '/');
        match self.kind {
            Operation::Binary(own, ..)
                if is_product(operator) && !is_product(own)
                    || is_right && is_product(operator) == is_product(own) =>
            {
                format!("({self})")
            }
            _ => self.to_string(),
        }
    }

    /// The operands of all comparisons.
    fn compared<'a>(&'a self, into: &mut Vec<&'a Node>) {
        match &self.kind {
            Operation::Not(inner) => inner.compared(into),
            Operation::Both(a, b) | Operation::Either(a, b) => {
                a.compared(into);
                b.compared(into);
            }
            Operation::Chain(operands, _) => into.extend(operands),
            _ => {}
        }
    }

    fn has_names(&self) -> bool {
        match &self.kind {
            Operation::Name(_) => true,
            Operation::Negate(inner) => inner.has_names(),
            Operation::Binary(_, a, b) => a.has_names() || b.has_names(),
            Operation::Call(_, arguments) => arguments.iter().any(Node::has_names),
            _ => false,
        }
    }

    fn is_truth(&self) -> bool {
        matches!(
            self.kind,
            Operation::Chain(..) | Operation::Not(_) | Operation::Both(..) | Operation::Either(..)
        )
    }

    fn truth(&self, value: &dyn Fn(&str) -> Option<f64>) -> Result<bool, ExprError> {
        match &self.kind {
            Operation::Not(inner) => Ok(!inner.truth(value)?),
            Operation::Both(a, b) => {
                let (a, b) = (a.truth(value)?, b.truth(value)?);
                Ok(a && b)
            }
            Operation::Either(a, b) => {
                let (a, b) = (a.truth(value)?, b.truth(value)?);
                Ok(a || b)
            }
            Operation::Chain(operands, compares) => {
                let numbers: Result<Vec<f64>, ExprError> =
                    operands.iter().map(|o| o.number(value)).collect();
                let numbers = numbers?;
                let pairs = numbers.windows(2).zip(compares);
                Ok(pairs.into_iter().all(|(pair, c)| c.holds(pair[0], pair[1])))
            }
            _ => error(self.at, "a number, where true or false is needed"),
        }
    }

    fn number(&self, value: &dyn Fn(&str) -> Option<f64>) -> Result<f64, ExprError> {
        let number = match &self.kind {
            Operation::Number(number) => *number,
            Operation::Name(name) => match value(name) {
                Some(number) => number,
                None => return error(self.at, format!("{name} has no value")),
            },
            Operation::Negate(inner) => -inner.number(value)?,
            Operation::Binary(operator, a, b) => {
                let (a, b) = (a.number(value)?, b.number(value)?);
                match operator {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    _ if b == 0.0 => return error(self.at, "division by zero"),
                    _ => a / b,
                }
            }
            Operation::Call(function, arguments) => {
                let numbers: Result<Vec<f64>, ExprError> =
                    arguments.iter().map(|a| a.number(value)).collect();
                let numbers = numbers?.into_iter();
                match function {
                    Function::Abs => numbers.sum::<f64>().abs(),
                    Function::Min => numbers.fold(f64::INFINITY, f64::min),
                    Function::Max => numbers.fold(f64::NEG_INFINITY, f64::max),
                }
            }
            _ => return error(self.at, "true or false, where a number is needed"),
        };
        match number.is_finite() {
            true => Ok(number),
            false => error(self.at, "a value that is not finite"),
        }
    }
}

fn error<T>(at: usize, what: impl Into<String>) -> Result<T, ExprError> {
    Err(ExprError {
        at,
        what: what.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str) -> Option<f64> {
        match name {
            "a.one" => Some(1.0),
            "a.two" => Some(2.0),
            "a.zero" => Some(0.0),
            _ => None,
        }
    }

    fn read(text: &str) -> Result<Expr, String> {
        let known = |name: &str| match name.contains('.') {
            true => Ok(()),
            false => Err(format!("{name} is not known")),
        };
        Expr::read(text, &known).map_err(|e| e.to_string())
    }

    fn holds(text: &str) -> Result<bool, String> {
        read(text)?.truth(&value).map_err(|e| e.to_string())
    }

    #[test]
    fn arithmetic_comparisons_and_logic() {
        for (text, expected) in [
            ("a.one < a.two", true),
            ("a.one + 2 * a.two == 5", true),
            ("(a.one + 2) * a.two == 6", true),
            ("a.one - 2 - 3 == -4", true),
            ("8 / a.two / 2 == a.two", true),
            ("0.5 <= a.one / a.two < 0.6", true),
            ("3 > a.two > 2", false),
            ("abs(a.one - a.two) == 1 and not a.one == a.two", true),
            ("min(a.one, a.two, 0.5) == 0.5 or a.one > 7", true),
            ("max(a.one, -a.two) == 1e0 and a.two != 2.0", false),
            ("a.one == 1 or a.one == 2 and a.one == 3", true),
            ("(a.one == 1 or a.one == 2) and a.one == 3", false),
        ] {
            assert_eq!(holds(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn numbers() {
        for (text, expected) in [
            ("7", Ok(7.0)),
            ("a.two - 3 * a.one", Ok(-1.0)),
            (
                "a.one < 2",
                Err("true or false, where a number is needed (at character 1)"),
            ),
        ] {
            let number = read(text).unwrap().number(&value);
            let number = number.map_err(|e| e.to_string());
            assert_eq!(number, expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn what_is_computed_is_shown_with_its_value() {
        for (text, expected) in [
            ("a.one < a.two", ""),
            ("0.5 <= a.one / a.two < 0.6", "a.one / a.two = 0.5"),
            (
                "abs(a.one - a.two - 1) <= 2 * a.two and not (a.one - (a.two - 1)) / 2 > a.one",
                "abs(a.one - a.two - 1) = 2; 2 * a.two = 4; (a.one - (a.two - 1)) / 2 = 0",
            ),
            (
                "a.none / a.one > 0 or max(a.one, -a.two) > 0",
                "max(a.one, -a.two) = 1",
            ),
            ("-(a.one + a.two) < 0", "-(a.one + a.two) = -3"),
        ] {
            let check = read(text).unwrap();
            let shown = check.computed(&value).into_iter();
            let shown: Vec<String> = shown
                .map(|(text, value)| format!("{text} = {value}"))
                .collect();
            assert_eq!(shown.join("; "), expected, "{text}");
        }
    }

    #[test]
    fn whatever_has_no_value_is_an_error() {
        for (text, expected) in [
            ("a.one / a.zero > 0", "division by zero (at character 1)"),
            ("a.none > 0", "a.none has no value (at character 1)"),
            // The left half does not hide an error in the right one.
            (
                "a.one == 1 or a.none > 0",
                "a.none has no value (at character 15)",
            ),
            (
                "a.one * 1e308 * 1e308 > 0",
                "a value that is not finite (at character 1)",
            ),
        ] {
            assert_eq!(holds(text), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for (text, expected) in [
            ("", "the expression ends too early (at character 1)"),
            (
                "a.one + 1",
                "a number, where true or false is needed (at character 1)",
            ),
            (
                "a.one and a.two > 1",
                "a number, where true or false is needed (at character 1)",
            ),
            (
                "1 + (a.one < 2) > 0",
                "true or false, where a number is needed (at character 6)",
            ),
            (
                "(a.one < 2) < 3",
                "true or false, where a number is needed (at character 2)",
            ),
            ("1 < one", "one is not known (at character 5)"),
            (
                "1 < pow(2, 3)",
                "there is no function pow; there are: abs, min, max (at character 5)",
            ),
            (
                "abs(a.one, 2) < 2",
                "abs does not take 2 values (at character 1)",
            ),
            (
                "max(a.one) < 2",
                "max does not take 1 values (at character 1)",
            ),
            ("a.one < 2)", ") is not expected here (at character 10)"),
            ("(a.one < 2", ") is missing (at character 11)"),
            (
                "a.one < 2 a.two > 1",
                "a.two is not expected here (at character 11)",
            ),
            ("a.one = 2", "'=' is not expected here (at character 7)"),
            ("a.one < 1.2.3", "1.2.3 is not a number (at character 9)"),
        ] {
            assert_eq!(holds(text), Err(expected.to_owned()), "{text}");
        }
        let deep = format!("{}a.one{} < 2", "(".repeat(100), ")".repeat(100));
        assert!(holds(&deep).unwrap_err().contains("nested too deeply"));
        let deep = format!("{}a.one < 2", "-".repeat(1000));
        assert!(holds(&deep).unwrap_err().contains("nested too deeply"));
        let sum = |terms: usize| format!("a.one < 0{}", " + 1".repeat(terms));
        assert!(
            holds(&sum(100_000))
                .unwrap_err()
                .contains("more than 2048 tokens")
        );
        assert_eq!(holds(&sum(1000)), Ok(true));
    }

    #[test]
    fn names_are_listed_once() {
        let check = read("b.y < a.x and abs(a.x) > 1").unwrap();
        let names: Vec<&str> = check.names().iter().map(String::as_str).collect();
        assert_eq!(names, ["a.x", "b.y"]);
    }
}
