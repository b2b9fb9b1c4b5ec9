// SPDX-License-Identifier: GPL-2.0-or-later
//! What a scheduler's user-space half would do, and nothing does in the simulated machine: programs that it would
//! call, and variables that describe the machine.

use tiltyard_model::Machine;
use tiltyard_native::object::GlobalKind;

use crate::objects::Built;

/// A variable's usual name, and what a loader would put there.
type Described = (&'static str, fn(&Machine) -> i128);

/// Names that schedulers use for facts of the machine. `nr_cpu_ids` and the like are set by the engine unless the
/// user sets them, so they are not here. If a name means something else elsewhere, the only harm is a warning.
const DESCRIBED: [Described; 11] = [
    ("nr_online_cpus", |m| m.nr_cpus() as i128),
    ("nr_possible_cpus", |m| m.nr_cpus() as i128),
    ("nr_cpus_onln", |m| m.nr_cpus() as i128),
    ("num_cpus", |m| m.nr_cpus() as i128),
    ("nr_cores", |m| distinct(m, |c| c.core)),
    ("nr_llcs", |m| distinct(m, |c| c.llc)),
    ("nr_node_ids", |m| distinct(m, |c| c.node)),
    ("nr_domains", |m| distinct(m, |c| c.llc)),
    ("smt_enabled", |m| i128::from(has_smt(m))),
    ("is_smt_active", |m| i128::from(has_smt(m))),
    ("numa_enabled", |m| i128::from(distinct(m, |c| c.node) > 1)),
];

fn distinct(machine: &Machine, of: fn(&tiltyard_model::machine::CpuPlace) -> u32) -> i128 {
    let mut ids: Vec<u32> = machine.cpus.iter().map(of).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.len() as i128
}

fn has_smt(machine: &Machine) -> bool {
    distinct(machine, |c| c.core) < machine.nr_cpus() as i128
}

/// What is missing on this machine, a line each, without the scheduler's name.
pub fn missing(built: &Built, machine: &Machine) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(never_called(built));
    lines.extend(contradictions(built, machine));
    lines
}

/// Programs besides ops run only if they are attached or called.
fn never_called(built: &Built) -> Option<String> {
    let object = &built.object;
    let called: Vec<&str> = built.choice.environment.programs().collect();
    let ops: Vec<&String> = object.ops.functions.values().collect();
    let others = object
        .programs
        .iter()
        .filter(|p| !p.section.starts_with("struct_ops") && !ops.contains(&&p.symbol))
        .filter(|p| !called.contains(&p.symbol.as_str()));
    let named: Vec<String> = others
        .map(|p| format!("{} (SEC(\"{}\"))", p.symbol, p.section))
        .collect();
    (!named.is_empty()).then(|| {
        format!(
            "programs never called: {}; what they set up is missing unless [environment] in presets.toml calls them",
            named.join(", ")
        )
    })
}

/// Variables that describe a different machine.
fn contradictions(built: &Built, machine: &Machine) -> Vec<String> {
    let object = &built.object;
    let set: Vec<&str> = built.choice.environment.variables().collect();
    let given = |name: &str| built.globals.iter().any(|(n, _)| n == name) || set.contains(&name);
    let wrong = DESCRIBED.iter().filter_map(|(name, of)| {
        let global = object.tunables.get(*name)?;
        if given(name) || global.elements != 1 || global.kind == GlobalKind::Bytes {
            return None;
        }
        let (is, should) = (global.default?, of(machine));
        (is != should).then(|| {
            format!(
                "{name} = {is}, but {} has {should}: set it with -s {}:{name}={should}",
                machine.name, built.choice.argument
            )
        })
    });
    wrong.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_the_machine() {
        let machine = Machine::parse_hwloc_synthetic("pack:2 l3:1 core:4 pu:2").unwrap();
        let of = |name: &str| {
            let found = DESCRIBED.iter().find(|(n, _)| *n == name);
            found.map(|(_, of)| of(&machine))
        };
        assert_eq!(of("nr_online_cpus"), Some(16));
        assert_eq!(of("nr_cores"), Some(8));
        assert_eq!(of("nr_llcs"), Some(2));
        assert_eq!(of("smt_enabled"), Some(1));
    }
}
