// SPDX-License-Identifier: GPL-2.0-or-later
//! A claim's check: a boolean expression over measures, read and evaluated.
//!
//! The grammar is the subset of Python's that claims need: numbers, names `scheduler.measure`, `+ - * /`,
//! comparisons (which may be chained: `1.5 <= ule.tps / cfs.tps <= 2.2`), `and`, `or`, `not`, brackets, and `abs`, `min`,
//! `max`. Numbers and truth values do not mix: `1 + (2 < 3)` is an error, as is any value that is not finite. `and`
//! and `or` evaluate both sides: neither half hides an error in the other.

use std::collections::BTreeSet;
use std::fmt;

/// Deeper nesting is rejected: the parser is recursive.
const MAX_DEPTH: usize = 64;

/// A parsed check; [`Check::holds`] evaluates it.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
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
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
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

impl Check {
    /// Parses an expression that is true or false and uses a measure.
    pub fn read(text: &str) -> Result<Check, ExprError> {
        let mut parser = Parser {
            tokens: tokens(text)?,
            at: 0,
            end: text.len(),
            names: BTreeSet::new(),
        };
        let root = parser.either(0)?;
        if let Some(token) = parser.tokens.get(parser.at) {
            return error(token.at, format!("{} is not expected here", token.kind));
        }
        if !root.is_truth() {
            return error(root.at, "a number, where a check must be true or false");
        }
        if parser.names.is_empty() {
            return error(0, "no measure of any scheduler is mentioned");
        }
        Ok(Check {
            root,
            names: parser.names,
        })
    }

    /// The measures that it uses, as written (`scheduler.measure`).
    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// Whether the claim holds. A measure without a value, a division by zero and a value that is not finite are errors.
    pub fn holds(&self, value: &dyn Fn(&str) -> Option<f64>) -> Result<bool, ExprError> {
        self.root.truth(value)
    }

    /// The operands that the check computes from measures and compares, with their values. Operands that are a single
    /// measure, or that have no value, are left out.
    pub fn computed(&self, value: &dyn Fn(&str) -> Option<f64>) -> Vec<(String, f64)> {
        let mut operands = Vec::new();
        self.root.compared(&mut operands);
        operands.retain(|operand| !matches!(operand.kind, Kind::Name(_)) && operand.has_names());
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
            Kind::Number(number) => write!(f, "{number}"),
            Kind::Name(name) => write!(f, "{name}"),
            Kind::Negate(inner) => write!(f, "-{}", inner.within('*', true)),
            Kind::Binary(operator, a, b) => {
                let (a, b) = (a.within(*operator, false), b.within(*operator, true));
                write!(f, "{a} {operator} {b}")
            }
            Kind::Call(function, arguments) => {
                let arguments: Vec<String> = arguments.iter().map(Node::to_string).collect();
                write!(f, "{}({})", function.name(), arguments.join(", "))
            }
            Kind::Chain(..) | Kind::Not(_) | Kind::Both(..) | Kind::Either(..) => Ok(()),
        }
    }
}

impl Node {
    /// As an operand, in brackets if its own operator binds less tightly.
    fn within(&self, operator: char, is_right: bool) -> String {
        let is_product = |operator: char| matches!(operator, '*' | '/');
        match self.kind {
            Kind::Binary(own, ..)
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
            Kind::Not(inner) => inner.compared(into),
            Kind::Both(a, b) | Kind::Either(a, b) => {
                a.compared(into);
                b.compared(into);
            }
            Kind::Chain(operands, _) => into.extend(operands),
            _ => {}
        }
    }

    fn has_names(&self) -> bool {
        match &self.kind {
            Kind::Name(_) => true,
            Kind::Negate(inner) => inner.has_names(),
            Kind::Binary(_, a, b) => a.has_names() || b.has_names(),
            Kind::Call(_, arguments) => arguments.iter().any(Node::has_names),
            _ => false,
        }
    }

    fn is_truth(&self) -> bool {
        matches!(
            self.kind,
            Kind::Chain(..) | Kind::Not(_) | Kind::Both(..) | Kind::Either(..)
        )
    }

    fn truth(&self, value: &dyn Fn(&str) -> Option<f64>) -> Result<bool, ExprError> {
        match &self.kind {
            Kind::Not(inner) => Ok(!inner.truth(value)?),
            Kind::Both(a, b) => {
                let (a, b) = (a.truth(value)?, b.truth(value)?);
                Ok(a && b)
            }
            Kind::Either(a, b) => {
                let (a, b) = (a.truth(value)?, b.truth(value)?);
                Ok(a || b)
            }
            Kind::Chain(operands, compares) => {
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
            Kind::Number(number) => *number,
            Kind::Name(name) => match value(name) {
                Some(number) => number,
                None => return error(self.at, format!("{name} has no value")),
            },
            Kind::Negate(inner) => -inner.number(value)?,
            Kind::Binary(operator, a, b) => {
                let (a, b) = (a.number(value)?, b.number(value)?);
                match operator {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    _ if b == 0.0 => return error(self.at, "division by zero"),
                    _ => a / b,
                }
            }
            Kind::Call(function, arguments) => {
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

struct Token {
    at: usize,
    kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq)]
enum TokenKind {
    Number(f64),
    Word(String),
    Sign(&'static str),
}

impl fmt::Display for TokenKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            TokenKind::Number(number) => write!(f, "{number}"),
            TokenKind::Word(word) => write!(f, "{word}"),
            TokenKind::Sign(sign) => write!(f, "{sign}"),
        }
    }
}

/// The longer ones first.
const SIGNS: [&str; 13] = [
    "<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "(", ")", ",",
];

fn tokens(text: &str) -> Result<Vec<Token>, ExprError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (kind, len) = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if first.is_ascii_digit() {
            let len = number_len(rest);
            match rest[..len].parse() {
                Ok(number) => (TokenKind::Number(number), len),
                Err(_) => return error(at, format!("{} is not a number", &rest[..len])),
            }
        } else if first.is_ascii_alphabetic() || first == '_' {
            let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
            let len = rest.find(|c| !inside(c)).unwrap_or(rest.len());
            (TokenKind::Word(rest[..len].to_owned()), len)
        } else if let Some(sign) = SIGNS.into_iter().find(|s| rest.starts_with(s)) {
            (TokenKind::Sign(sign), sign.len())
        } else {
            return error(at, format!("{first:?} is not expected here"));
        };
        tokens.push(Token { at, kind });
        at += len;
    }
    Ok(tokens)
}

/// Digits, a point, an exponent.
fn number_len(text: &str) -> usize {
    let mut before = ' ';
    let part = |c: char| {
        let inside = c.is_ascii_alphanumeric()
            || c == '.'
            || (matches!(before, 'e' | 'E') && matches!(c, '+' | '-'));
        before = c;
        !inside
    };
    text.find(part).unwrap_or(text.len())
}

/// Each level of precedence is a function, loosest first: either, both, not, comparison, sum, product, factor.
struct Parser {
    tokens: Vec<Token>,
    at: usize,
    end: usize,
    names: BTreeSet<String>,
}

impl Parser {
    fn place(&self) -> usize {
        self.tokens.get(self.at).map_or(self.end, |t| t.at)
    }

    fn eat_sign(&mut self, wanted: &[&'static str]) -> Option<&'static str> {
        match self.tokens.get(self.at)?.kind {
            TokenKind::Sign(sign) if wanted.contains(&sign) => {
                self.at += 1;
                Some(sign)
            }
            _ => None,
        }
    }

    fn eat_word(&mut self, wanted: &str) -> bool {
        let found = matches!(self.tokens.get(self.at), Some(Token { kind: TokenKind::Word(w), .. }) if w == wanted);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), ExprError> {
        match self.eat_sign(&[sign]) {
            Some(_) => Ok(()),
            None => error(self.place(), format!("{sign} is missing")),
        }
    }

    fn truth(node: Node) -> Result<Box<Node>, ExprError> {
        match node.is_truth() {
            true => Ok(Box::new(node)),
            false => error(node.at, "a number, where true or false is needed"),
        }
    }

    fn value(node: Node) -> Result<Box<Node>, ExprError> {
        match node.is_truth() {
            true => error(node.at, "true or false, where a number is needed"),
            false => Ok(Box::new(node)),
        }
    }

    fn either(&mut self, depth: usize) -> Result<Node, ExprError> {
        let at = self.place();
        if depth > MAX_DEPTH {
            return error(at, "brackets are nested too deeply");
        }
        let mut left = self.both(depth)?;
        while self.eat_word("or") {
            let right = self.both(depth)?;
            let kind = Kind::Either(Self::truth(left)?, Self::truth(right)?);
            left = Node { at, kind };
        }
        Ok(left)
    }

    fn both(&mut self, depth: usize) -> Result<Node, ExprError> {
        let at = self.place();
        let mut left = self.negation(depth)?;
        while self.eat_word("and") {
            let right = self.negation(depth)?;
            let kind = Kind::Both(Self::truth(left)?, Self::truth(right)?);
            left = Node { at, kind };
        }
        Ok(left)
    }

    fn negation(&mut self, depth: usize) -> Result<Node, ExprError> {
        let at = self.place();
        if !self.eat_word("not") {
            return self.comparison(depth);
        }
        if depth > MAX_DEPTH {
            return error(at, "brackets are nested too deeply");
        }
        let kind = Kind::Not(Self::truth(self.negation(depth + 1)?)?);
        Ok(Node { at, kind })
    }

    fn comparison(&mut self, depth: usize) -> Result<Node, ExprError> {
        let at = self.place();
        let first = self.sum(depth)?;
        let (mut operands, mut compares) = (vec![first], Vec::new());
        while let Some(sign) = self.eat_sign(&SIGNS[..6]) {
            compares.push(match sign {
                "<" => Compare::Less,
                "<=" => Compare::LessEqual,
                ">" => Compare::Greater,
                ">=" => Compare::GreaterEqual,
                "==" => Compare::Equal,
                _ => Compare::Unequal,
            });
            operands.push(self.sum(depth)?);
        }
        if compares.is_empty() {
            return Ok(operands.remove(0));
        }
        let operands: Result<Vec<Node>, ExprError> = operands
            .into_iter()
            .map(|o| Self::value(o).map(|o| *o))
            .collect();
        let kind = Kind::Chain(operands?, compares);
        Ok(Node { at, kind })
    }

    fn sum(&mut self, depth: usize) -> Result<Node, ExprError> {
        let at = self.place();
        let mut left = self.product(depth)?;
        while let Some(sign) = self.eat_sign(&["+", "-"]) {
            let right = self.product(depth)?;
            left = Self::binary(at, sign, left, right)?;
        }
        Ok(left)
    }

    fn product(&mut self, depth: usize) -> Result<Node, ExprError> {
        let at = self.place();
        let mut left = self.factor(depth)?;
        while let Some(sign) = self.eat_sign(&["*", "/"]) {
            let right = self.factor(depth)?;
            left = Self::binary(at, sign, left, right)?;
        }
        Ok(left)
    }

    fn binary(at: usize, sign: &str, left: Node, right: Node) -> Result<Node, ExprError> {
        let operator = sign.chars().next().unwrap_or_default();
        let kind = Kind::Binary(operator, Self::value(left)?, Self::value(right)?);
        Ok(Node { at, kind })
    }

    fn factor(&mut self, depth: usize) -> Result<Node, ExprError> {
        let at = self.place();
        if depth > MAX_DEPTH {
            return error(at, "brackets are nested too deeply");
        }
        if self.eat_sign(&["-"]).is_some() {
            let kind = Kind::Negate(Self::value(self.factor(depth + 1)?)?);
            return Ok(Node { at, kind });
        }
        if self.eat_sign(&["("]).is_some() {
            let inner = self.either(depth + 1)?;
            self.expect(")")?;
            return Ok(inner);
        }
        let kind = match self.tokens.get(self.at).map(|t| t.kind.clone()) {
            Some(TokenKind::Number(number)) => Kind::Number(number),
            Some(TokenKind::Word(word)) => {
                self.at += 1;
                return self.word(at, word, depth);
            }
            Some(other) => return error(at, format!("{other} is not expected here")),
            None => return error(at, "the expression ends too early"),
        };
        self.at += 1;
        Ok(Node { at, kind })
    }

    /// A function with its arguments, or a measure.
    fn word(&mut self, at: usize, word: String, depth: usize) -> Result<Node, ExprError> {
        let function = match word.as_str() {
            "abs" => Function::Abs,
            "min" => Function::Min,
            "max" => Function::Max,
            _ => {
                let mut parts = word.split('.');
                let (scheduler, measure) = (parts.next(), parts.next());
                let whole = |part: Option<&str>| part.is_some_and(|p| !p.is_empty());
                if !whole(scheduler) || !whole(measure) || parts.next().is_some() {
                    let what = format!("{word} is not a measure; write scheduler.measure");
                    return error(at, what);
                }
                self.names.insert(word.clone());
                let kind = Kind::Name(word);
                return Ok(Node { at, kind });
            }
        };
        self.expect("(")?;
        let mut arguments = vec![*Self::value(self.sum(depth + 1)?)?];
        while self.eat_sign(&[","]).is_some() {
            arguments.push(*Self::value(self.sum(depth + 1)?)?);
        }
        self.expect(")")?;
        let fits = match function {
            Function::Abs => arguments.len() == 1,
            Function::Min | Function::Max => arguments.len() >= 2,
        };
        if !fits {
            let what = format!("{word} does not take {} values", arguments.len());
            return error(at, what);
        }
        let kind = Kind::Call(function, arguments);
        Ok(Node { at, kind })
    }
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

    fn holds(text: &str) -> Result<bool, String> {
        let check = Check::read(text).map_err(|e| e.to_string())?;
        check.holds(&value).map_err(|e| e.to_string())
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
            let check = Check::read(text).unwrap();
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
    fn what_is_no_check_is_refused() {
        for (text, expected) in [
            ("", "the expression ends too early (at character 1)"),
            (
                "1 < 2",
                "no measure of any scheduler is mentioned (at character 1)",
            ),
            (
                "a.one",
                "a number, where a check must be true or false (at character 1)",
            ),
            (
                "a.one + 1",
                "a number, where a check must be true or false (at character 1)",
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
            (
                "one < 2",
                "one is not a measure; write scheduler.measure (at character 1)",
            ),
            (
                "a.b.c < 2",
                "a.b.c is not a measure; write scheduler.measure (at character 1)",
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
        let deep = format!("{}a.one < 2", "-".repeat(100_000));
        assert!(holds(&deep).unwrap_err().contains("nested too deeply"));
    }

    #[test]
    fn names_are_listed_once() {
        let check = Check::read("b.y < a.x and abs(a.x) > 1").unwrap();
        let names: Vec<&str> = check.names().iter().map(String::as_str).collect();
        assert_eq!(names, ["a.x", "b.y"]);
    }
}
