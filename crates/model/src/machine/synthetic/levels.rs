// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads hwloc's synthetic strings into levels: characters and words, before anything means a machine.

use std::ops::Range;

use crate::machine::{Machine, MachineError};

const GRAMMAR: &str =
    "write levels as TYPE:COUNT from the outside in, for instance \"pack:2 l3:1 core:16 pu:1\"";
pub(super) const TYPES: &str =
    "the types are package, die, group, numa, l1 to l5 (with d, i or u), core, pu";
const ATTRIBUTES: &str = "caches take size=, memory nodes memory=, all take indexes=";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Package,
    Die,
    Group,
    Numa,
    /// Level 1 to 5; an instruction cache is one that no data ever enters.
    Cache {
        level: u8,
        instructions: bool,
    },
    Core,
    Pu,
}

/// One level, or one attached memory node per object of the level before it.
#[derive(Debug)]
pub(super) struct Level {
    /// None until `choose_types` has looked at the bare numbers.
    pub kind: Option<Type>,
    /// Objects of this level in the whole machine.
    pub count: u64,
    pub size_bytes: Option<u64>,
    pub indexes: Option<Indexes>,
    pub attached: bool,
    pub span: Range<usize>,
}

/// `indexes=`: the operating system's numbers of a level's objects.
#[derive(Debug)]
pub(super) struct Indexes {
    pub rule: String,
    pub span: Range<usize>,
}

/// The levels of `text` from the outside in; bare numbers have no type yet.
pub(super) fn read(text: &str) -> Result<Vec<Level>, MachineError> {
    Reader { text, at: 0 }.levels()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, wanted: &str) -> bool {
        let found = self.rest().starts_with(wanted);
        self.at += if found { wanted.len() } else { 0 };
        found
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let taken = self.rest();
        let length = taken.find(|c| !accept(c)).unwrap_or(taken.len());
        self.at += length;
        &taken[..length]
    }

    /// An error at the current character.
    fn error<T>(&self, what: impl Into<String>, help: &str) -> Result<T, MachineError> {
        let length = self.rest().chars().next().map_or(0, char::len_utf8);
        Err(MachineError::in_string(
            self.text,
            self.at..self.at + length,
            what,
            help,
        ))
    }

    fn levels(mut self) -> Result<Vec<Level>, MachineError> {
        let mut levels = Vec::new();
        let mut count = 1;
        self.skip_spaces();
        if self.take("(") {
            self.attributes(&mut Level::bare(0..0))?; // of the machine itself: sizes that nothing here uses
        }
        loop {
            self.skip_spaces();
            if self.rest().is_empty() {
                break;
            }
            if self.rest().starts_with('[') {
                levels.push(self.attached(count)?);
                continue;
            }
            let level = self.level(count)?;
            count = level.count;
            levels.push(level);
        }
        if levels.iter().all(|l| l.attached) {
            return self.error("a machine without CPUs", GRAMMAR);
        }
        Ok(levels)
    }

    /// `TYPE:COUNT(ATTRIBUTES)` or `COUNT(ATTRIBUTES)`.
    fn level(&mut self, outside: u64) -> Result<Level, MachineError> {
        let start = self.at;
        let mut level = Level::bare(start..start);
        if !self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            level.kind = Some(self.kind()?);
            if !self.take(":") {
                return self.error("no count after the type", GRAMMAR);
            }
        }
        self.skip_spaces();
        let digits = self.at;
        let arity = self.number()?;
        level.count = outside.saturating_mul(arity);
        level.span = start..self.at;
        if level.count == 0 || level.count > Machine::MAX_CPUS as u64 {
            let help = format!("counts multiply to 1 to {} CPUs", Machine::MAX_CPUS);
            let what = format!("{} objects at this level", level.count);
            return Err(MachineError::in_string(
                self.text,
                digits..self.at,
                what,
                &help,
            ));
        }
        if self.take("(") {
            self.attributes(&mut level)?;
        }
        Ok(level)
    }

    /// `[numa(ATTRIBUTES)]`: one node in each of the `outside` objects of the level before.
    fn attached(&mut self, outside: u64) -> Result<Level, MachineError> {
        let start = self.at;
        self.take("[");
        let at = self.at;
        let mut level = Level::bare(start..start);
        level.kind = Some(self.kind()?);
        if level.kind != Some(Type::Numa) {
            let what = format!("{} cannot be attached", &self.text[at..self.at]);
            return Err(MachineError::in_string(
                self.text,
                at..self.at,
                what,
                "only numa may be in square brackets",
            ));
        }
        level.attached = true;
        level.count = outside;
        if self.take("(") {
            self.attributes(&mut level)?;
        }
        if !self.take("]") {
            return self.error(
                "no closing ]",
                "write an attached node as [numa] or [numa(memory=8GiB)]",
            );
        }
        level.span = start..self.at;
        Ok(level)
    }

    fn kind(&mut self) -> Result<Type, MachineError> {
        let start = self.at;
        let word = self.take_while(|c| c.is_ascii_alphanumeric());
        Type::named(word).ok_or_else(|| {
            let next = self.rest().chars().next().map_or(0, char::len_utf8);
            let end = if word.is_empty() {
                start + next
            } else {
                self.at
            };
            MachineError::in_string(
                self.text,
                start..end,
                format!("unknown type \"{word}\""),
                TYPES,
            )
        })
    }

    fn number(&mut self) -> Result<u64, MachineError> {
        let start = self.at;
        let digits = self.take_while(|c| c.is_ascii_digit());
        match digits.parse() {
            Ok(number) => Ok(number),
            Err(_) if digits.is_empty() => self.error("no number here", GRAMMAR),
            Err(_) => {
                let what = format!("{digits} is too large");
                Err(MachineError::in_string(
                    self.text,
                    start..self.at,
                    what,
                    GRAMMAR,
                ))
            }
        }
    }

    /// `NAME=VALUE NAME=VALUE)`, after the opening parenthesis.
    fn attributes(&mut self, level: &mut Level) -> Result<(), MachineError> {
        loop {
            self.skip_spaces();
            if self.take(")") {
                return Ok(());
            }
            let start = self.at;
            let name = self.take_while(|c| c.is_ascii_alphabetic());
            if name.is_empty() || !self.take("=") {
                return self.error("no NAME=VALUE and no closing )", ATTRIBUTES);
            }
            match (name, level.kind) {
                ("size" | "memory", _) if !takes_size(name, level.kind) => {
                    let what = format!("{name}= does not belong to this type");
                    return Err(MachineError::in_string(
                        self.text,
                        start..self.at,
                        what,
                        ATTRIBUTES,
                    ));
                }
                ("size" | "memory" | "memorysidecachesize", _) => {
                    let bytes = self.size()?;
                    level.size_bytes = (name == "size").then_some(bytes).or(level.size_bytes);
                }
                ("indexes", _) => {
                    let at = self.at;
                    let rule = self
                        .take_while(|c| c != ')' && !c.is_whitespace())
                        .to_owned();
                    level.indexes = Some(Indexes {
                        rule,
                        span: at..self.at,
                    });
                }
                _ => {
                    let what = format!("unknown attribute \"{name}\"");
                    return Err(MachineError::in_string(
                        self.text,
                        start..self.at,
                        what,
                        ATTRIBUTES,
                    ));
                }
            }
            if !self.rest().starts_with([' ', ')']) {
                return self.error("neither a space nor ) after the value", ATTRIBUTES);
            }
        }
    }

    /// A number of bytes. As in hwloc, KB is 1000 bytes and KiB is 1024.
    fn size(&mut self) -> Result<u64, MachineError> {
        let start = self.at;
        let number = self.number()?;
        let unit = self.take_while(|c| c.is_ascii_alphabetic());
        let factor: u64 = match unit.to_ascii_lowercase().as_str() {
            "" => 1,
            "kib" => 1 << 10,
            "mib" => 1 << 20,
            "gib" => 1 << 30,
            "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => 0,
        };
        let bytes = number.checked_mul(factor).filter(|_| factor > 0);
        bytes.ok_or_else(|| {
            let what = format!("\"{}\" is no size", &self.text[start..self.at]);
            MachineError::in_string(self.text, start..self.at, what, "write 64KiB, 8MiB, 4GiB")
        })
    }
}

impl Level {
    fn bare(span: Range<usize>) -> Level {
        Level {
            kind: None,
            count: 1,
            size_bytes: None,
            indexes: None,
            attached: false,
            span,
        }
    }

    /// The level's object that holds logical CPU `cpu` of `nr_cpus`.
    pub fn object_of(&self, cpu: u64, nr_cpus: u64) -> u32 {
        (cpu / (nr_cpus / self.count)) as u32
    }
}

fn takes_size(name: &str, kind: Option<Type>) -> bool {
    match kind {
        Some(Type::Cache { .. }) => name == "size",
        _ => name == "memory",
    }
}

impl Type {
    /// Case does not count, and two letters are enough where they decide.
    pub fn named(word: &str) -> Option<Type> {
        let word = word.to_ascii_lowercase();
        let short_for = |full: &str| word.len() >= 2 && full.starts_with(&word);
        if let Some(cache) = word.strip_prefix('l') {
            return Type::cache(cache);
        }
        let group = word.trim_end_matches(|c: char| c.is_ascii_digit());
        match () {
            () if short_for("package") || short_for("socket") => Some(Type::Package),
            () if short_for("die") => Some(Type::Die),
            () if short_for("numanode") || short_for("node") => Some(Type::Numa),
            () if short_for("core") => Some(Type::Core),
            () if word == "pu" => Some(Type::Pu),
            () if group.len() >= 2 && "group".starts_with(group) => Some(Type::Group),
            () => None,
        }
    }

    /// What follows the l of l2, l1d, L3Cache, l1iCache.
    fn cache(word: &str) -> Option<Type> {
        let level = word
            .chars()
            .next()?
            .to_digit(10)
            .filter(|l| (1..=5).contains(l))? as u8;
        let kind = word[1..].strip_suffix("cache").unwrap_or(&word[1..]);
        let instructions = kind == "i";
        matches!(kind, "" | "d" | "i" | "u").then_some(Type::Cache {
            level,
            instructions,
        })
    }
}
