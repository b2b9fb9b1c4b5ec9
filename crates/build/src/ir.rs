// SPDX-License-Identifier: GPL-2.0-or-later
//! LLVM IR as text, as far as a rewriter must understand it: globals, functions, blocks, instructions, and the tokens
//! in them. Reads what clang-19 prints; spelling is LLVM's internal matter, so whatever is not recognised is an error.

use crate::metadata::Metadata;

/// A construct that the rewriter does not know, by name, and the function it stands in ("" for none).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    pub what: String,
    pub function: String,
    /// Node of its source location, where it is one instruction.
    pub location: Option<u32>,
}

impl Unknown {
    pub fn new(what: impl Into<String>) -> Unknown {
        Unknown {
            what: what.into(),
            function: String::new(),
            location: None,
        }
    }

    /// The instruction that it is about.
    pub fn at(mut self, insn: &Insn) -> Unknown {
        self.location = self.location.or(insn.location);
        self
    }

    pub fn in_function(mut self, name: &str) -> Unknown {
        if self.function.is_empty() {
            self.function = name.to_owned();
        }
        self
    }
}

pub type Result<T> = std::result::Result<T, Unknown>;

#[derive(Debug, Default)]
pub struct Module<'a> {
    /// `%struct.x = type ...` lines.
    pub types: Vec<String>,
    pub globals: Vec<Global>,
    pub functions: Vec<Function>,
    pub declares: Vec<Declare>,
    pub metadata: Metadata<'a>,
    /// The main source file, as passed to the compiler.
    pub source: &'a str,
}

/// `@name = ... global|constant TYPE INIT, section "...", align N, !dbg !N`
#[derive(Clone, Debug, PartialEq)]
pub struct Global {
    pub name: String,
    pub constant: bool,
    pub weak: bool,
    /// private or internal: names only this module sees.
    pub local: bool,
    pub ty: String,
    /// `None` for an external declaration.
    pub init: Option<String>,
    pub section: String,
    pub align: String,
    /// Node of `!dbg`, or of `!llvm.preserve.access.index` for CO-RE globals.
    pub node: Option<u32>,
}

#[derive(Clone, Debug, Default)]
pub struct Function {
    pub name: String,
    pub ret: String,
    /// Type and name of each.
    pub params: Vec<(String, String)>,
    pub section: String,
    pub node: Option<u32>,
    pub blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
pub struct Block {
    /// Without the `%`.
    pub label: String,
    pub insns: Vec<Insn>,
}

/// One instruction, on one line, without attributes, metadata and the flags that promise absence of overflow.
#[derive(Clone, Debug, PartialEq)]
pub struct Insn {
    /// Name with the `%`, empty if it has none.
    pub result: String,
    pub text: String,
    /// Node of its source location.
    pub location: Option<u32>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Declare {
    pub name: String,
    pub ret: String,
    pub params: Vec<String>,
    pub weak: bool,
    pub section: String,
}

impl Insn {
    pub fn new(result: &str, text: impl Into<String>) -> Insn {
        Insn {
            result: result.to_owned(),
            text: text.into(),
            location: None,
        }
    }

    pub fn opcode(&self) -> &str {
        self.text.split(' ').next().unwrap_or("")
    }
}

impl Function {
    /// Of an op, the pointer to its arguments.
    pub fn context(&self) -> Option<&str> {
        let of_op = self.section.starts_with("struct_ops");
        let first = self.params.first().filter(|_| of_op);
        first.map(|(_, name)| name.as_str())
    }

    /// Labels that the last instruction of a block may jump to.
    pub fn successors(block: &Block) -> Vec<&str> {
        block
            .insns
            .last()
            .map(|i| labels(&i.text))
            .unwrap_or_default()
    }
}

/// Every `label %x` in an instruction.
pub fn labels(text: &str) -> Vec<&str> {
    text.match_indices("label %")
        .map(|(at, skip)| {
            let rest = &text[at + skip.len()..];
            &rest[..rest.find(|c: char| !is_name(c)).unwrap_or(rest.len())]
        })
        .collect()
}

pub fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '$' | '-')
}

/// Splits at `separator` where no bracket or quote is open; trims the parts, drops an empty last one.
pub fn split_top(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut quoted, mut start) = (0i32, false, 0);
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            _ if c == separator && depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

/// The type at the start of `text` and the rest.
pub fn take_type(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '[' | '{' | '<' | '(' => depth += 1,
            ']' | '}' | '>' | ')' => depth -= 1,
            ' ' | ',' if depth == 0 => return (&text[..at], text[at..].trim_start()),
            _ => {}
        }
    }
    (text, "")
}

/// Names that start with `sigil` (`%` or `@`) in `text`, quoted names included, in order.
pub fn names(text: &str, sigil: char) -> Vec<&str> {
    let mut found = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'"' {
            at = end_of_quote(text, at);
        } else if bytes[at] == sigil as u8 {
            let end = end_of_name(text, at);
            found.push(&text[at..end]);
            at = end.max(at + 1);
        } else {
            at += 1;
        }
    }
    found
}

/// Replaces each name that starts with `sigil` by what `map` says; `None` leaves it.
pub fn replace_names(text: &str, sigil: char, map: impl Fn(&str) -> Option<String>) -> String {
    let mut new = String::with_capacity(text.len());
    let bytes = text.as_bytes();
    let (mut at, mut copied) = (0, 0);
    while at < bytes.len() {
        if bytes[at] == b'"' {
            at = end_of_quote(text, at);
        } else if bytes[at] == sigil as u8 {
            let end = end_of_name(text, at);
            if let Some(replacement) = map(&text[at..end]) {
                new.push_str(&text[copied..at]);
                new.push_str(&replacement);
                copied = end;
            }
            at = end.max(at + 1);
        } else {
            at += 1;
        }
    }
    new.push_str(&text[copied..]);
    new
}

fn end_of_quote(text: &str, start: usize) -> usize {
    text[start + 1..]
        .find('"')
        .map_or(text.len(), |i| start + 1 + i + 1)
}

fn end_of_name(text: &str, start: usize) -> usize {
    let rest = &text[start + 1..];
    if rest.starts_with('"') {
        return end_of_quote(text, start + 1);
    }
    start + 1 + rest.find(|c: char| !is_name(c)).unwrap_or(rest.len())
}
