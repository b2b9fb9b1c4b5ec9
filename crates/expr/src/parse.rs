// SPDX-License-Identifier: GPL-2.0-or-later
//! Text -> tree.

use std::collections::BTreeSet;
use std::fmt;

use crate::{Compare, ExprError, Function, Node, Operation, error};

/// Deeper nesting is rejected: the parser is recursive.
const MAX_DEPTH: usize = 64;
/// So is what evaluates the tree, and that of `1 + 1 + 1` is as deep as the text is long.
const MAX_TOKENS: usize = 2048;

/// The tree of `text`, and the names in it.
pub fn parse(
    text: &str,
    known: &dyn Fn(&str) -> Result<(), String>,
) -> Result<(Node, BTreeSet<String>), ExprError> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        end: text.len(),
        names: BTreeSet::new(),
        known,
    };
    let root = parser.either(0)?;
    match parser.tokens.get(parser.at) {
        Some(token) => error(token.at, format!("{} is not expected here", token.kind)),
        None => Ok((root, parser.names)),
    }
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
        if tokens.len() == MAX_TOKENS {
            return error(at, "the expression has more than 2048 tokens");
        }
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
struct Parser<'a> {
    tokens: Vec<Token>,
    at: usize,
    end: usize,
    names: BTreeSet<String>,
    known: &'a dyn Fn(&str) -> Result<(), String>,
}

impl Parser<'_> {
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
            let kind = Operation::Either(Self::truth(left)?, Self::truth(right)?);
            left = Node { at, kind };
        }
        Ok(left)
    }

    fn both(&mut self, depth: usize) -> Result<Node, ExprError> {
        let at = self.place();
        let mut left = self.negation(depth)?;
        while self.eat_word("and") {
            let right = self.negation(depth)?;
            let kind = Operation::Both(Self::truth(left)?, Self::truth(right)?);
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
        let kind = Operation::Not(Self::truth(self.negation(depth + 1)?)?);
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
        let kind = Operation::Chain(operands?, compares);
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
        let kind = Operation::Binary(operator, Self::value(left)?, Self::value(right)?);
        Ok(Node { at, kind })
    }

    fn factor(&mut self, depth: usize) -> Result<Node, ExprError> {
        let at = self.place();
        if depth > MAX_DEPTH {
            return error(at, "brackets are nested too deeply");
        }
        if self.eat_sign(&["-"]).is_some() {
            let kind = Operation::Negate(Self::value(self.factor(depth + 1)?)?);
            return Ok(Node { at, kind });
        }
        if self.eat_sign(&["("]).is_some() {
            let inner = self.either(depth + 1)?;
            self.expect(")")?;
            return Ok(inner);
        }
        let kind = match self.tokens.get(self.at).map(|t| t.kind.clone()) {
            Some(TokenKind::Number(number)) => Operation::Number(number),
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

    /// A function with its arguments, or a name.
    fn word(&mut self, at: usize, word: String, depth: usize) -> Result<Node, ExprError> {
        let function = match word.as_str() {
            "abs" => Function::Abs,
            "min" => Function::Min,
            "max" => Function::Max,
            _ if self.eat_sign(&["("]).is_some() => {
                let what = format!("there is no function {word}; there are: abs, min, max");
                return error(at, what);
            }
            _ => {
                if let Err(what) = (self.known)(&word) {
                    return error(at, what);
                }
                self.names.insert(word.clone());
                let kind = Operation::Name(word);
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
        let kind = Operation::Call(function, arguments);
        Ok(Node { at, kind })
    }
}
