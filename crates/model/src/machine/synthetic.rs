// SPDX-License-Identifier: GPL-2.0-or-later
//! hwloc's synthetic topology strings: `pack:2 [numa(memory=8GiB)] l3:1(size=8MiB) core:4 pu:2`.
//!
//! A string is a list of levels from the outside in. Each gives a type and the number of such
//! objects inside one object of the level before; `[numa]` attaches a memory node to each object of
//! the level before. Bare numbers get their types as hwloc chooses them. Every object of a level
//! holds the same number of CPUs, so a CPU's place is a division and no tree is built.

use std::ops::Range;

use super::topology::{Topology, without_gaps};
use super::{Caches, CpuPlace, Machine, MachineError};

const GRAMMAR: &str =
    "write levels as TYPE:COUNT from the outside in, for instance \"pack:2 l3:1 core:16 pu:1\"";
const TYPES: &str = "the types are package, die, group, numa, l1 to l5 (with d, i or u), core, pu";
const ATTRIBUTES: &str = "caches take size=, memory nodes memory=, all take indexes=";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
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
struct Level {
    /// None until [`choose_types`] has looked at the bare numbers.
    kind: Option<Type>,
    /// Objects of this level in the whole machine.
    count: u64,
    size_bytes: Option<u64>,
    indexes: Option<Indexes>,
    attached: bool,
    span: Range<usize>,
}

/// `indexes=`: the operating system's numbers of a level's objects.
#[derive(Debug)]
struct Indexes {
    rule: String,
    span: Range<usize>,
}

/// Reads `text` and checks that each CPU ends up with one core, LLC, node and package.
pub(super) fn parse(text: &str) -> Result<Topology, MachineError> {
    let mut levels = Reader { text, at: 0 }.levels()?;
    choose_types(text, &mut levels)?;
    check(text, &levels)?;
    topology(text, &levels)
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
                "only numa stands in square brackets",
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
            let end = self
                .at
                .max(start + self.rest().chars().next().map_or(0, char::len_utf8));
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
    fn object_of(&self, cpu: u64, nr_cpus: u64) -> u32 {
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
    fn named(word: &str) -> Option<Type> {
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

/// Gives bare numbers the types that hwloc gives them, by how many there are.
fn choose_types(text: &str, levels: &mut [Level]) -> Result<(), MachineError> {
    let last = levels.iter().rposition(|l| !l.attached).unwrap_or(0);
    if levels[last].kind.is_none()
        && levels[..last]
            .iter()
            .any(|l| !l.attached && l.kind.is_some())
    {
        levels[last].kind = Some(Type::Pu); // hwloc accepts `pack:2 4`
    }
    let bare = levels.iter().filter(|l| l.kind.is_none()).count();
    let Some(first) = levels
        .iter()
        .find(|l| l.kind.is_none())
        .map(|l| l.span.clone())
    else {
        return Ok(());
    };
    let attached = levels.iter().any(|l| l.attached);
    if levels.iter().any(|l| !l.attached && l.kind.is_some()) {
        return Err(MachineError::in_string(
            text,
            first,
            "a count without a type beside typed levels",
            TYPES,
        ));
    }
    let Some(types) = usual_types(bare + usize::from(attached && bare > 1)) else {
        return Err(MachineError::in_string(
            text,
            first,
            format!("{bare} levels without types"),
            TYPES,
        ));
    };
    let chosen = types
        .into_iter()
        .filter(|t| !(attached && *t == Type::Numa));
    for (level, kind) in levels.iter_mut().filter(|l| !l.attached).zip(chosen) {
        level.kind = Some(kind);
    }
    Ok(())
}

/// What hwloc 2 makes of so many bare numbers (seen with lstopo 2.9). More than eight become groups
/// whose place says nothing, so they are refused.
fn usual_types(levels: usize) -> Option<Vec<Type>> {
    let data = |level| Type::Cache {
        level,
        instructions: false,
    };
    let l1i = Type::Cache {
        level: 1,
        instructions: true,
    };
    let (package, numa, core, pu) = (Type::Package, Type::Numa, Type::Core, Type::Pu);
    Some(match levels {
        1 => vec![pu],
        2 => vec![numa, pu],
        3 => vec![package, numa, pu],
        4 => vec![package, numa, core, pu],
        5 => vec![package, numa, data(2), core, pu],
        6 => vec![package, numa, data(2), data(1), core, pu],
        7 => vec![package, numa, data(3), data(2), data(1), core, pu],
        8 => vec![package, numa, data(3), data(2), data(1), l1i, core, pu],
        _ => return None,
    })
}

fn check(text: &str, levels: &[Level]) -> Result<(), MachineError> {
    let error = |level: &Level, what: &str, help: &str| {
        Err(MachineError::in_string(
            text,
            level.span.clone(),
            what,
            help,
        ))
    };
    for (i, level) in levels.iter().enumerate() {
        let twice = levels[..i].iter().any(|other| other.kind == level.kind);
        if twice && level.kind == Some(Type::Numa) {
            return error(
                level,
                "CPUs with two memory nodes are not modelled",
                "give each CPU one numa",
            );
        }
        if twice && level.kind != Some(Type::Group) {
            return error(level, "this type twice", "each type but group stands once");
        }
    }
    let cpus = levels
        .iter()
        .rfind(|l| !l.attached)
        .filter(|l| l.kind != Some(Type::Pu));
    match cpus {
        Some(level) => error(
            level,
            "the last level is not pu",
            "end the string with pu:1, or pu:2 for SMT",
        ),
        None => Ok(()),
    }
}

fn topology(text: &str, levels: &[Level]) -> Result<Topology, MachineError> {
    let find = |kind| levels.iter().find(|l| l.kind == Some(kind));
    let nr_cpus = find(Type::Pu).map_or(1, |l| l.count);
    let place = |level: Option<&Level>, cpu| level.map_or(0, |l| l.object_of(cpu, nr_cpus));
    let node_names = match find(Type::Numa) {
        Some(level) => without_gaps(&indexes(text, level, levels)?),
        None => vec![0],
    };
    let core = find(Type::Core).or(find(Type::Pu));
    let llc = llc_level(levels);
    let mut cpus = Vec::new();
    for cpu in 0..nr_cpus {
        cpus.push(CpuPlace {
            core: place(core, cpu),
            llc: place(llc, cpu),
            node: node_names[place(find(Type::Numa), cpu) as usize],
            package: place(find(Type::Package), cpu),
            capacity: 1024,
        });
    }
    let names = find(Type::Pu).map_or(Ok(vec![0]), |l| indexes(text, l, levels))?;
    Ok(Topology {
        cpus: in_order(cpus, &without_gaps(&names)),
        caches: caches(levels),
        distances: None,
    })
}

/// The level whose objects share the last-level cache: the outermost cache, and where no cache is
/// described the die, else the finer of package and node.
fn llc_level(levels: &[Level]) -> Option<&Level> {
    let caches = levels.iter().filter(|l| {
        matches!(
            l.kind,
            Some(Type::Cache {
                instructions: false,
                ..
            })
        )
    });
    let wide = levels
        .iter()
        .filter(|l| matches!(l.kind, Some(Type::Package | Type::Die | Type::Numa)));
    caches
        .min_by_key(|l| l.count)
        .or(wide.max_by_key(|l| l.count))
}

/// The places by CPU number, where `names[i]` is the number of logical CPU i.
fn in_order(places: Vec<CpuPlace>, names: &[u32]) -> Vec<CpuPlace> {
    let mut named: Vec<(u32, CpuPlace)> = names.iter().copied().zip(places).collect();
    named.sort_by_key(|(name, _)| *name);
    named.into_iter().map(|(_, place)| place).collect()
}

fn caches(levels: &[Level]) -> Caches {
    let size = |wanted: u8| {
        let level = levels.iter().find(|l| {
            l.kind
                == Some(Type::Cache {
                    level: wanted,
                    instructions: false,
                })
        })?;
        Some(level.size_bytes.unwrap_or(default_cache_bytes(wanted)))
    };
    // A fourth or fifth level acts as the last-level cache where it is the outermost one.
    let last = size(5).or(size(4)).or(size(3)).unwrap_or(0);
    Caches {
        l1_bytes: size(1).unwrap_or(0),
        l2_bytes: size(2).unwrap_or(0),
        l3_bytes: last,
    }
}

/// hwloc's sizes for caches that name none: 32 KiB, then 4 MiB and four times more at each level.
fn default_cache_bytes(level: u8) -> u64 {
    if level == 1 {
        32 << 10
    } else {
        (256 << 10) << (2 * u32::from(level))
    }
}

/// The operating system's number of each object of `level`, in logical order.
fn indexes(text: &str, level: &Level, levels: &[Level]) -> Result<Vec<u32>, MachineError> {
    let Some(Indexes { rule, span }) = &level.indexes else {
        return Ok((0..level.count as u32).collect());
    };
    let error = |what: String| {
        let help = "write indexes=0,2,1,3 or a rule such as indexes=2*4:1*2 or indexes=core:pack";
        MachineError::in_string(text, span.clone(), what, help)
    };
    let listed: Option<Vec<u32>> = rule.split(',').map(|n| n.parse().ok()).collect();
    let numbers = match listed {
        Some(numbers) => numbers,
        None => interleaved(rule, level, levels)
            .ok_or_else(|| error(format!("\"{rule}\" is no list and no rule")))?,
    };
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    sorted.dedup();
    match sorted.len() as u64 {
        n if n == level.count && numbers.len() == sorted.len() => Ok(numbers),
        n => Err(error(format!(
            "{n} different numbers for {} objects",
            level.count
        ))),
    }
}

/// `STEP*COUNT:STEP*COUNT` or `TYPE:TYPE`: nested loops over the objects, the first innermost.
fn interleaved(rule: &str, level: &Level, levels: &[Level]) -> Option<Vec<u32>> {
    let mut loops: Vec<(u64, u64)> = Vec::new();
    let kinds: Vec<Option<Type>> = rule.split(':').map(Type::named).collect();
    for (part, kind) in rule.split(':').zip(&kinds) {
        loops.push(match kind {
            Some(kind) => loop_over(*kind, &kinds, level, levels)?,
            None => {
                let (step, count) = part.split_once('*')?;
                (step.parse().ok()?, count.parse().ok()?)
            }
        });
    }
    let covered = loops
        .iter()
        .try_fold(1u64, |all, (_, count)| all.checked_mul(*count))?;
    if covered == 0 || loops.iter().any(|(step, _)| *step == 0) {
        return None;
    }
    loops.push((1, (level.count / covered).max(1)));
    let number = |object: u64| {
        let digits = loops.iter().scan(1, |weight, (step, count)| {
            let digit = (object / step) % count * *weight;
            *weight *= count;
            Some(digit)
        });
        digits.sum::<u64>() as u32
    };
    Some((0..level.count).map(number).collect())
}

/// The loop over objects of `kind` inside the next wider of the `kinds` that the rule names.
fn loop_over(
    kind: Type,
    kinds: &[Option<Type>],
    level: &Level,
    levels: &[Level],
) -> Option<(u64, u64)> {
    let count_of = |kind: Type| {
        levels
            .iter()
            .find(|l| l.kind == Some(kind))
            .map(|l| l.count)
    };
    let count = count_of(kind).filter(|c| *c <= level.count && kind != Type::Pu)?;
    let wider = kinds
        .iter()
        .flatten()
        .filter_map(|k| count_of(*k))
        .filter(|c| *c < count)
        .max()
        .unwrap_or(1);
    Some((level.count / count, count / wider))
}

#[cfg(test)]
#[path = "synthetic_tests.rs"]
mod tests;
