// SPDX-License-Identifier: GPL-2.0-or-later
//! JSON as rt-app's files use it: order and duplicates of keys kept, every key and value with
//! its place, comments and trailing commas allowed.
//!
//! One more licence, for files written for rt-app's `workgen`: a key may lack a value
//! (`"suspend",`). Whether that means anything is up to whoever reads the tree.

use std::ops::Range;

/// Deeper nesting is refused: the reader is recursive, and no workload needs it.
const MAX_DEPTH: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub span: Range<usize>,
    pub kind: NodeKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NodeKind {
    /// The key stood alone.
    Absent,
    Null,
    Bool(bool),
    /// As written: decimals are converted exactly, by whoever knows the unit.
    Number(String),
    String(String),
    Array(Vec<Value>),
    Object(Vec<Member>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub key: String,
    pub key_span: Range<usize>,
    pub value: Value,
}

impl NodeKind {
    /// The JSON type, with an article, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            NodeKind::Absent => "nothing",
            NodeKind::Null => "null",
            NodeKind::Bool(_) => "a boolean",
            NodeKind::Number(_) => "a number",
            NodeKind::String(_) => "a string",
            NodeKind::Array(_) => "a list",
            NodeKind::Object(_) => "an object",
        }
    }
}

/// A place where the text is not JSON.
#[derive(Debug, PartialEq)]
pub(crate) struct SyntaxError {
    pub span: Range<usize>,
    pub what: String,
    pub way_out: &'static str,
}

type Parsed<T> = Result<T, SyntaxError>;

/// Reads one value and nothing after it.
pub(crate) fn parse(text: &str) -> Parsed<Value> {
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(0)?;
    parser.skip_blank()?;
    if parser.at < text.len() {
        return Err(parser.here("text after the end of the value", "remove it"));
    }
    Ok(value)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn bump(&mut self) {
        self.at += self.peek().map_or(0, char::len_utf8);
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.text[self.at..].starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn here(&self, what: impl Into<String>, way_out: &'static str) -> SyntaxError {
        let len = self.peek().map_or(0, char::len_utf8);
        SyntaxError {
            span: self.at..self.at + len,
            what: what.into(),
            way_out,
        }
    }

    /// The kind of value here, for messages.
    fn found(&self) -> String {
        self.peek()
            .map_or("the end of the file".into(), |c| format!("{c:?}"))
    }

    /// Steps over white space and comments.
    fn skip_blank(&mut self) -> Parsed<()> {
        loop {
            while self
                .peek()
                .is_some_and(|c| c.is_ascii_whitespace() || c == '\u{feff}')
            {
                self.bump();
            }
            let start = self.at;
            if self.eat("//") {
                while self.peek().is_some_and(|c| c != '\n') {
                    self.bump();
                }
            } else if self.eat("/*") {
                let Some(len) = self.text[self.at..].find("*/") else {
                    let span = start..start + 2;
                    return Err(SyntaxError {
                        span,
                        what: "comment without an end".into(),
                        way_out: "close it with */",
                    });
                };
                self.at += len + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Parsed<Value> {
        self.skip_blank()?;
        if depth > MAX_DEPTH {
            return Err(self.here(
                format!("nested deeper than {MAX_DEPTH} levels"),
                "flatten it",
            ));
        }
        let start = self.at;
        let kind = match self.peek() {
            Some('{') => self.object(depth)?,
            Some('[') => self.array(depth)?,
            Some('"') => NodeKind::String(self.string()?),
            Some(c) if c == '-' || c.is_ascii_digit() => self.number()?,
            Some(c) if c.is_ascii_alphabetic() => self.word()?,
            _ => {
                let what = format!("found {} where a value belongs", self.found());
                return Err(self.here(
                    what,
                    "write a number, a string, true, false, a list or an object",
                ));
            }
        };
        Ok(Value {
            span: start..self.at,
            kind,
        })
    }

    fn object(&mut self, depth: usize) -> Parsed<NodeKind> {
        let open = self.at;
        self.bump();
        let mut members = Vec::new();
        loop {
            self.skip_blank()?;
            if self.eat("}") {
                return Ok(NodeKind::Object(members));
            }
            if self.peek() != Some('"') {
                return Err(self.missing(
                    open,
                    "a key or }",
                    "close the object with } or write a \"key\"",
                ));
            }
            members.push(self.member(depth)?);
            self.skip_blank()?;
            if !self.eat(",") && self.peek() != Some('}') {
                return Err(self.missing(
                    open,
                    ", or }",
                    "separate keys by commas and close the object with }",
                ));
            }
        }
    }

    fn member(&mut self, depth: usize) -> Parsed<Member> {
        let start = self.at;
        let key = self.string()?;
        let key_span = start..self.at;
        self.skip_blank()?;
        let value = if self.eat(":") {
            self.value(depth + 1)?
        } else {
            Value {
                span: key_span.clone(),
                kind: NodeKind::Absent,
            }
        };
        Ok(Member {
            key,
            key_span,
            value,
        })
    }

    fn array(&mut self, depth: usize) -> Parsed<NodeKind> {
        let open = self.at;
        self.bump();
        let mut items = Vec::new();
        loop {
            self.skip_blank()?;
            if self.eat("]") {
                return Ok(NodeKind::Array(items));
            }
            if self.peek().is_none() {
                return Err(self.missing(open, "a value or ]", "close the list with ]"));
            }
            items.push(self.value(depth + 1)?);
            self.skip_blank()?;
            if !self.eat(",") && self.peek() != Some(']') {
                return Err(self.missing(
                    open,
                    ", or ]",
                    "separate values by commas and close the list with ]",
                ));
            }
        }
    }

    /// An object or list that began at `open` does not go on as it should.
    fn missing(&self, open: usize, wanted: &str, way_out: &'static str) -> SyntaxError {
        let (line, _) = crate::error::line_and_column(self.text, open);
        self.here(
            format!(
                "found {} where {wanted} belongs (opened in line {line})",
                self.found()
            ),
            way_out,
        )
    }

    fn string(&mut self) -> Parsed<String> {
        let start = self.at;
        self.bump();
        let mut string = String::new();
        loop {
            match self.peek() {
                Some('"') => {
                    self.bump();
                    return Ok(string);
                }
                Some('\\') => string.push(self.escape()?),
                Some(c) if c != '\n' => {
                    string.push(c);
                    self.bump();
                }
                _ => {
                    let span = start..self.at;
                    return Err(SyntaxError {
                        span,
                        what: "string without an end".into(),
                        way_out: "close it with \"",
                    });
                }
            }
        }
    }

    fn escape(&mut self) -> Parsed<char> {
        self.bump();
        let c = match self.peek() {
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => return self.unicode_escape(),
            _ => {
                let what = format!("unknown escape \\{}", self.found());
                return Err(self.here(what, "use \\\" \\\\ \\/ \\b \\f \\n \\r \\t or \\uXXXX"));
            }
        };
        self.bump();
        Ok(c)
    }

    /// `uXXXX`, or two of them that are a surrogate pair.
    fn unicode_escape(&mut self) -> Parsed<char> {
        let start = self.at - 1;
        let bad = |at: usize| SyntaxError {
            span: start..at,
            what: "\\u without a character".into(),
            way_out: "write four hexadecimal digits that name a character",
        };
        let high = self.hex4().ok_or_else(|| bad(self.at))?;
        if !(0xd800..0xdc00).contains(&high) {
            return char::from_u32(high).ok_or_else(|| bad(self.at));
        }
        let low = if self.eat("\\") { self.hex4() } else { None };
        let low = low
            .filter(|low| (0xdc00..0xe000).contains(low))
            .ok_or_else(|| bad(self.at))?;
        char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
            .ok_or_else(|| bad(self.at))
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 5)?.strip_prefix('u')?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 5;
        u32::from_str_radix(digits, 16).ok()
    }

    fn number(&mut self) -> Parsed<NodeKind> {
        let start = self.at;
        while self
            .peek()
            .is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.'))
        {
            self.bump();
        }
        let number = &self.text[start..self.at];
        if is_number(number) {
            return Ok(NodeKind::Number(number.to_string()));
        }
        let what = format!("{number} is not a number");
        Err(SyntaxError {
            span: start..self.at,
            what,
            way_out: "write digits, with . before decimals",
        })
    }

    fn word(&mut self) -> Parsed<NodeKind> {
        let start = self.at;
        while self
            .peek()
            .is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            self.bump();
        }
        match &self.text[start..self.at] {
            "true" => Ok(NodeKind::Bool(true)),
            "false" => Ok(NodeKind::Bool(false)),
            "null" => Ok(NodeKind::Null),
            word => Err(SyntaxError {
                span: start..self.at,
                what: format!("{word} is no value"),
                way_out: "write true, false or null, or put text in double quotes",
            }),
        }
    }
}

/// JSON's grammar of numbers: `-`? digits without leading zeros, then `.digits`, then an exponent.
fn is_number(text: &str) -> bool {
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|e| digits(e.strip_prefix(['+', '-']).unwrap_or(e)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> NodeKind {
        parse(text).expect(text).kind
    }

    #[test]
    fn order_and_duplicates_of_keys_are_kept() {
        let NodeKind::Object(members) = kind(r#"{"run": 1, "sleep": 2, "run": 3}"#) else {
            panic!()
        };
        let keys: Vec<_> = members.iter().map(|m| m.key.as_str()).collect();
        assert_eq!(keys, ["run", "sleep", "run"]);
    }

    #[test]
    fn every_key_and_value_knows_its_place() {
        let text = "{\n  \"cpus\" : [0, 12]\n}";
        let NodeKind::Object(members) = kind(text) else {
            panic!()
        };
        assert_eq!(&text[members[0].key_span.clone()], "\"cpus\"");
        let NodeKind::Array(items) = &members[0].value.kind else {
            panic!()
        };
        assert_eq!(&text[items[1].span.clone()], "12");
    }

    #[test]
    fn comments_and_trailing_commas_are_allowed() {
        let text = "/* a */ { // b\n \"a\": [1, 2,], /* \" */ }  // end";
        let NodeKind::Object(members) = kind(text) else {
            panic!()
        };
        assert!(matches!(&members[0].value.kind, NodeKind::Array(items) if items.len() == 2));
    }

    #[test]
    fn a_key_may_stand_alone() {
        let NodeKind::Object(members) = kind(r#"{"suspend", "run": 1, "yield"}"#) else {
            panic!()
        };
        assert_eq!(members[0].value.kind, NodeKind::Absent);
        assert_eq!(members[2].value.kind, NodeKind::Absent);
    }

    #[test]
    fn strings_are_decoded() {
        let text = r#""a\"\\\/\n\u00e9\ud83d\ude00""#;
        assert_eq!(kind(text), NodeKind::String("a\"\\/\né😀".into()));
    }

    #[test]
    fn numbers_follow_the_grammar() {
        for good in ["0", "-1", "12.50", "1e9", "1.5E-3"] {
            assert_eq!(kind(good), NodeKind::Number(good.into()));
        }
        for bad in ["01", "1.", "-", "1e", "0x10", "1_000", "5us"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn broken_text_is_an_error_with_its_place() {
        let cases = [
            ("{\"a\" 1}", 5),
            ("{\"a\": }", 6),
            ("{\"a\": 1", 7),
            ("[1 2]", 3),
            ("\"abc", 0),
            ("/* abc", 0),
            ("{} x", 3),
            ("nul", 0),
            ("\"\\x\"", 2),
            ("\"\\ud800\"", 1),
            ("", 0),
        ];
        for (text, at) in cases {
            assert_eq!(parse(text).expect_err(text).span.start, at, "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_and_does_not_overflow() {
        let error = parse(&"[".repeat(100_000)).unwrap_err();
        assert!(error.what.contains("nested deeper"), "{}", error.what);
    }
}
