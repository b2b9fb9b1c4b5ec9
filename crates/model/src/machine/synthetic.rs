// SPDX-License-Identifier: GPL-2.0-or-later
//! hwloc's synthetic topology strings: `pack:2 [numa(memory=8GiB)] l3:1(size=8MiB) core:4 pu:2`.
//!
//! A string is a list of levels from the outside in. Each gives a type and the number of such
//! objects inside one object of the level before; `[numa]` attaches a memory node to each object of
//! the level before. Bare numbers get their types as hwloc chooses them. Every object of a level
//! holds the same number of CPUs, so a CPU's place is a division and no tree is built.

mod levels;

use super::topology::{Topology, without_gaps};
use super::{Caches, CpuPlace, Machine, MachineError};
use levels::{Indexes, Level, TYPES, Type};

/// Reads `text` and checks that each CPU ends up with one core, LLC, node and package.
pub(super) fn parse(text: &str) -> Result<Topology, MachineError> {
    let mut levels = levels::read(text)?;
    choose_types(text, &mut levels)?;
    check(text, &levels)?;
    topology(text, &levels)
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
        if level.kind == Some(Type::Numa) && level.count > Machine::MAX_NODES as u64 {
            let what = format!("{} memory nodes", level.count);
            let help = format!("a machine has at most {}", Machine::MAX_NODES);
            return error(level, &what, &help);
        }
        if twice && level.kind != Some(Type::Group) {
            return error(
                level,
                "this type twice",
                "each type except group may occur once",
            );
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
