// SPDX-License-Identifier: GPL-2.0-or-later
//! The text form of [`Index`]: `(i/20)*20+j`.
//!
//! `i` is the number of the task's instance; `j`, `k`, `l`, `m` count the passes of the enclosing
//! `repeat`s, the outermost first.

use crate::program::Index;

/// Letters of the counters of enclosing repeats, outermost first.
pub(crate) const LOOP_LETTERS: &[u8] = b"jklm";
/// Deeper expressions are refused: parser and evaluator are recursive.
const MAX_DEPTH: usize = 32;

/// Reads an expression inside `loops` repeats. The error says what is wrong.
pub(crate) fn parse(text: &str, loops: usize) -> Result<Index, String> {
    let mut parser = Parser {
        rest: text,
        loops,
        depth: 0,
    };
    let index = parser.sum()?;
    parser.skip_blank();
    if parser.rest.is_empty() {
        Ok(index)
    } else {
        Err(format!("`{}` does not belong there", parser.rest))
    }
}

struct Parser<'a> {
    rest: &'a str,
    loops: usize,
    depth: usize,
}

impl Parser<'_> {
    fn skip_blank(&mut self) {
        self.rest = self.rest.trim_start_matches(' ');
    }

    fn eat(&mut self, tokens: &str) -> Option<char> {
        self.skip_blank();
        let c = self.rest.chars().next().filter(|c| tokens.contains(*c))?;
        self.rest = &self.rest[1..];
        Some(c)
    }

    /// One operator more on the path from the root.
    fn deeper(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            Err(format!("more than {MAX_DEPTH} operators"))
        } else {
            Ok(())
        }
    }

    fn sum(&mut self) -> Result<Index, String> {
        let mut left = self.product()?;
        while let Some(operator) = self.eat("+-") {
            self.deeper()?;
            let right = self.product()?;
            let (a, b) = (Box::new(left), Box::new(right));
            left = if operator == '+' {
                Index::Add(a, b)
            } else {
                Index::Sub(a, b)
            };
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Index, String> {
        let mut left = self.operand()?;
        while let Some(operator) = self.eat("*/%") {
            self.deeper()?;
            let right = self.operand()?;
            let (a, b) = (Box::new(left), Box::new(right));
            left = match operator {
                '*' => Index::Mul(a, b),
                '/' => Index::Div(a, b),
                _ => Index::Rem(a, b),
            };
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Index, String> {
        if self.eat("(").is_some() {
            self.deeper()?;
            let inner = self.sum()?;
            return if self.eat(")").is_some() {
                Ok(inner)
            } else {
                Err("a ( is not closed".into())
            };
        }
        if self.eat("-").is_some() {
            return self.literal("-");
        }
        self.skip_blank();
        match self.rest.bytes().next() {
            Some(b) if b.is_ascii_digit() => self.literal(""),
            Some(b'i') => {
                self.rest = &self.rest[1..];
                Ok(Index::Instance)
            }
            Some(b) if LOOP_LETTERS.contains(&b) => self.counter(b),
            Some(_) => Err(format!(
                "`{}` is neither a number nor i, j, k, l, m",
                self.rest
            )),
            None => Err("an operand is missing".into()),
        }
    }

    fn literal(&mut self, sign: &str) -> Result<Index, String> {
        let len = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(len);
        self.rest = rest;
        format!("{sign}{digits}")
            .parse()
            .map(Index::Const)
            .map_err(|_| format!("`{sign}{digits}` is no number of 64 bits"))
    }

    fn counter(&mut self, letter: u8) -> Result<Index, String> {
        self.rest = &self.rest[1..];
        let outermost = LOOP_LETTERS
            .iter()
            .position(|l| *l == letter)
            .unwrap_or(LOOP_LETTERS.len());
        if outermost >= self.loops {
            let (letter, loops) = (letter as char, self.loops);
            return Err(format!(
                "`{letter}` needs {} enclosing repeat(s), here are {loops}",
                outermost + 1
            ));
        }
        Ok(Index::Loop((self.loops - 1 - outermost) as u8))
    }
}

/// Writes an expression inside `loops` repeats. `None`: it names a counter that has no letter.
pub(crate) fn write(index: &Index, loops: usize) -> Option<String> {
    let (text, _) = with_binding(index, loops)?;
    Some(text)
}

/// Text and how tightly its outermost operator binds: 0 sum, 1 product, 2 operand.
fn with_binding(index: &Index, loops: usize) -> Option<(String, u8)> {
    let binary = |a: &Index, operator: char, b: &Index, binding: u8| {
        // The parser takes operators of one rank from the left.
        let left = bound(a, loops, binding)?;
        let right = bound(b, loops, binding + 1)?;
        Some((format!("{left}{operator}{right}"), binding))
    };
    match index {
        Index::Const(n) => Some((n.to_string(), 2)),
        Index::Instance => Some(("i".into(), 2)),
        Index::Loop(inner) => {
            let outermost = loops.checked_sub(1 + usize::from(*inner))?;
            Some(((*LOOP_LETTERS.get(outermost)? as char).to_string(), 2))
        }
        Index::Add(a, b) => binary(a, '+', b, 0),
        Index::Sub(a, b) => binary(a, '-', b, 0),
        Index::Mul(a, b) => binary(a, '*', b, 1),
        Index::Div(a, b) => binary(a, '/', b, 1),
        Index::Rem(a, b) => binary(a, '%', b, 1),
    }
}

fn bound(index: &Index, loops: usize, at_least: u8) -> Option<String> {
    let (text, binding) = with_binding(index, loops)?;
    Some(if binding < at_least {
        format!("({text})")
    } else {
        text
    })
}

impl Index {
    /// Value for one instance; `counters` are those of the enclosing repeats, innermost last.
    /// `None`: division by zero, overflow, or a counter that is not there.
    pub fn eval(&self, instance: i64, counters: &[i64]) -> Option<i64> {
        let both =
            |a: &Index, b: &Index| Some((a.eval(instance, counters)?, b.eval(instance, counters)?));
        match self {
            Index::Const(n) => Some(*n),
            Index::Instance => Some(instance),
            Index::Loop(inner) => {
                let at = counters.len().checked_sub(1 + usize::from(*inner))?;
                counters.get(at).copied()
            }
            Index::Add(a, b) => both(a, b).and_then(|(a, b)| a.checked_add(b)),
            Index::Sub(a, b) => both(a, b).and_then(|(a, b)| a.checked_sub(b)),
            Index::Mul(a, b) => both(a, b).and_then(|(a, b)| a.checked_mul(b)),
            Index::Div(a, b) => both(a, b).and_then(|(a, b)| a.checked_div_euclid(b)),
            Index::Rem(a, b) => both(a, b).and_then(|(a, b)| a.checked_rem_euclid(b)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hackbench_reaches_the_receivers_of_its_group() {
        let index = parse("(i/20)*20+j", 1).unwrap();
        assert_eq!(index.eval(47, &[3]), Some(43));
        assert_eq!(write(&index, 1).unwrap(), "i/20*20+j");
    }

    #[test]
    fn operators_bind_as_usual() {
        for (text, value) in [
            ("2+3*4", 14),
            ("(2+3)*4", 20),
            ("10-3-2", 5),
            ("10-(3-2)", 9),
            ("-7/2", -4),
            ("-7%2", 1),
        ] {
            assert_eq!(parse(text, 0).unwrap().eval(0, &[]), Some(value), "{text}");
        }
    }

    #[test]
    fn counters_go_from_outside_inwards() {
        let index = parse("j*10+k", 2).unwrap();
        assert_eq!(index.eval(0, &[3, 4]), Some(34));
        assert!(parse("k", 1).unwrap_err().contains("2 enclosing"));
    }

    #[test]
    fn what_has_no_value_says_so() {
        assert_eq!(parse("i/0", 0).unwrap().eval(1, &[]), None);
        assert_eq!(
            parse("i*9223372036854775807", 0).unwrap().eval(2, &[]),
            None
        );
    }

    #[test]
    fn nonsense_is_refused() {
        let deep = "(".repeat(100_000);
        for text in [
            "",
            "i+",
            "(i",
            "i)",
            "x",
            "1 2",
            "99999999999999999999",
            "ü",
            deep.as_str(),
        ] {
            assert!(parse(text, 1).is_err(), "{text}");
        }
        assert!(parse(&"1+".repeat(1000), 0).is_err());
    }

    fn any_index() -> impl Strategy<Value = Index> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Index::Const),
            Just(Index::Instance),
            (0u8..3).prop_map(Index::Loop)
        ];
        leaf.prop_recursive(4, 16, 2, |inner| {
            (inner.clone(), inner, 0..5).prop_map(|(a, b, operator)| {
                let (a, b) = (Box::new(a), Box::new(b));
                match operator {
                    0 => Index::Add(a, b),
                    1 => Index::Sub(a, b),
                    2 => Index::Mul(a, b),
                    3 => Index::Div(a, b),
                    _ => Index::Rem(a, b),
                }
            })
        })
    }

    proptest! {
        #[test]
        fn writing_then_reading_gives_the_same(index in any_index()) {
            prop_assert_eq!(parse(&write(&index, 3).unwrap(), 3), Ok(index));
        }
    }
}
