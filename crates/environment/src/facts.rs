// SPDX-License-Identifier: GPL-2.0-or-later
//! What expressions may ask about a machine, and over which of its parts they may range.

use serde::{Deserialize, Serialize};
use tiltyard_model::Machine;
use tiltyard_model::machine::CpuPlace;

/// What an expression is evaluated for: once, or for each part of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Each {
    #[default]
    Once,
    Cpu,
    /// CPUs, the fastest first; equal ones in the order of their numbers.
    CpuByCapacity,
    /// Pairs of different CPUs of a core, in both directions.
    Sibling,
    Core,
    Llc,
    Node,
    /// Ordered pairs of nodes, those of node 0 first; a node and itself are one.
    NodePair,
    Package,
}

/// A name, and its value for a machine.
type Fact = (&'static str, fn(&Machine) -> u64);

/// Names that have a value everywhere.
const OF_MACHINE: [Fact; 8] = [
    ("nr_cpus", |m| m.nr_cpus() as u64),
    ("nr_cores", |m| distinct(m, |c| c.core)),
    ("nr_llcs", |m| distinct(m, |c| c.llc)),
    ("nr_nodes", |m| distinct(m, |c| c.node)),
    ("nr_packages", |m| distinct(m, |c| c.package)),
    ("tick_hz", |m| m.tick_hz.into()),
    ("min_capacity", |m| {
        m.cpus.iter().map(|c| c.capacity.into()).min().unwrap_or(0)
    }),
    ("max_capacity", |m| {
        m.cpus.iter().map(|c| c.capacity.into()).max().unwrap_or(0)
    }),
];

/// Names that have a value where there is a CPU: of a group, its first.
const OF_CPU: [&str; 6] = ["cpu", "core", "llc", "node", "package", "capacity"];
/// The other CPU of a pair.
const SIBLING: &str = "sibling";
/// CPUs of a group.
const SIZE: &str = "size";
/// The other node of a pair, and how far it is: 10 is local (ACPI SLIT).
const OF_NODE_PAIR: [&str; 3] = ["node", "to_node", "distance"];

fn distinct(machine: &Machine, of: fn(&CpuPlace) -> u32) -> u64 {
    let mut ids: Vec<u32> = machine.cpus.iter().map(of).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.len() as u64
}

impl Each {
    /// The names that an expression may use there.
    pub fn names(self) -> Vec<&'static str> {
        let of_machine = OF_MACHINE.iter().map(|(name, _)| *name);
        let own: &[&str] = match self {
            Each::Once => &[],
            Each::Cpu | Each::CpuByCapacity => &OF_CPU,
            Each::Sibling => &["cpu", "core", "llc", "node", "package", "capacity", SIBLING],
            Each::Core | Each::Llc | Each::Node | Each::Package => {
                &["cpu", "core", "llc", "node", "package", "capacity", SIZE]
            }
            Each::NodePair => &OF_NODE_PAIR,
        };
        of_machine.chain(own.iter().copied()).collect()
    }

    /// The parts of `machine`, in the order in which they get values.
    pub fn parts(self, machine: &Machine) -> Vec<Part<'_>> {
        let whole = Part {
            machine,
            cpu: None,
            sibling: None,
            size: None,
            nodes: None,
        };
        let part = |cpu: usize| Part {
            cpu: Some(cpu as u32),
            ..whole
        };
        let cpus = 0..machine.nr_cpus();
        match self {
            Each::Once => vec![whole],
            Each::Cpu => cpus.map(part).collect(),
            Each::CpuByCapacity => {
                let mut cpus: Vec<usize> = cpus.collect();
                cpus.sort_by_key(|cpu| std::cmp::Reverse(machine.cpus[*cpu].capacity));
                cpus.into_iter().map(part).collect()
            }
            Each::Sibling => siblings(machine)
                .into_iter()
                .map(|(cpu, sibling)| Part {
                    sibling: Some(sibling),
                    ..part(cpu)
                })
                .collect(),
            Each::Core => groups(machine, |c| c.core),
            Each::Llc => groups(machine, |c| c.llc),
            Each::Node => groups(machine, |c| c.node),
            Each::NodePair => {
                let nodes = 0..machine.node_distance.len();
                let pairs = nodes
                    .clone()
                    .flat_map(|a| nodes.clone().map(move |b| (a, b)));
                let part = |nodes| Part {
                    nodes: Some(nodes),
                    ..whole
                };
                pairs.map(part).collect()
            }
            Each::Package => groups(machine, |c| c.package),
        }
    }
}

fn siblings(machine: &Machine) -> Vec<(usize, u32)> {
    let mut of_core: Vec<Vec<u32>> = Vec::new();
    for (cpu, place) in machine.cpus.iter().enumerate() {
        let core = place.core as usize;
        of_core.resize_with(of_core.len().max(core + 1), Vec::new);
        of_core[core].push(cpu as u32);
    }
    let pairs = machine.cpus.iter().enumerate().flat_map(|(cpu, place)| {
        let others = of_core[place.core as usize].iter();
        others
            .filter(move |other| **other != cpu as u32)
            .map(move |other| (cpu, *other))
    });
    pairs.collect()
}

/// Groups in the order of their numbers, each with its first CPU.
fn groups(machine: &Machine, key: fn(&CpuPlace) -> u32) -> Vec<Part<'_>> {
    let mut by_number: std::collections::BTreeMap<u32, (u32, u64)> = Default::default();
    for (cpu, place) in machine.cpus.iter().enumerate() {
        by_number.entry(key(place)).or_insert((cpu as u32, 0)).1 += 1;
    }
    let parts = by_number.into_values().map(|(cpu, size)| Part {
        machine,
        cpu: Some(cpu),
        sibling: None,
        size: Some(size),
        nodes: None,
    });
    parts.collect()
}

/// A part of a machine for which expressions have values.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    machine: &'a Machine,
    pub cpu: Option<u32>,
    sibling: Option<u32>,
    size: Option<u64>,
    nodes: Option<(usize, usize)>,
}

impl Part<'_> {
    pub fn value(&self, name: &str) -> Option<f64> {
        if let Some((_, of)) = OF_MACHINE.iter().find(|(known, _)| *known == name) {
            return Some(of(self.machine) as f64);
        }
        if let Some((a, b)) = self.nodes {
            return match name {
                "node" => Some(a as f64),
                "to_node" => Some(b as f64),
                "distance" => Some(self.machine.node_distance[a][b].into()),
                _ => None,
            };
        }
        let cpu = self.cpu?;
        let place = self.machine.cpus.get(cpu as usize)?;
        Some(match name {
            "cpu" => cpu.into(),
            "core" => place.core.into(),
            "llc" => place.llc.into(),
            "node" => place.node.into(),
            "package" => place.package.into(),
            "capacity" => place.capacity.into(),
            SIBLING => self.sibling?.into(),
            SIZE => self.size? as f64,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(each: Each, topology: &str, name: &str) -> Vec<u32> {
        let machine = Machine::parse_hwloc_synthetic(topology).unwrap();
        let parts = each.parts(&machine);
        let value = |part: &Part<'_>| part.value(name).expect("a value") as u32;
        parts.iter().map(value).collect()
    }

    const TWO: &str = "package:2 [numa] l3:1 core:2 pu:2";

    #[test]
    fn of_the_machine() {
        // No number occurs twice.
        let topology = "package:2 group:2 [numa] l3:2 core:3 pu:2";
        for (name, expected) in [
            ("nr_cpus", 48),
            ("nr_cores", 24),
            ("nr_llcs", 8),
            ("nr_nodes", 4),
            ("nr_packages", 2),
            ("tick_hz", 250),
        ] {
            assert_eq!(values(Each::Once, topology, name), [expected], "{name}");
        }
        let mut machine = Machine::parse_hwloc_synthetic(TWO).unwrap();
        (machine.cpus[3].capacity, machine.cpus[5].capacity) = (400, 700);
        let parts = Each::Once.parts(&machine);
        for (name, expected) in [("min_capacity", 400.0), ("max_capacity", 1024.0)] {
            assert_eq!(parts[0].value(name), Some(expected), "{name}");
        }
    }

    #[test]
    fn of_parts() {
        assert_eq!(values(Each::Cpu, TWO, "core"), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(values(Each::Cpu, TWO, "node"), [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(values(Each::Node, TWO, "cpu"), [0, 4]);
        assert_eq!(values(Each::Llc, TWO, "size"), [4, 4]);
        assert_eq!(values(Each::Core, TWO, "size"), [2, 2, 2, 2]);
        let pairs = values(Each::Sibling, TWO, "cpu").into_iter();
        let pairs: Vec<(u32, u32)> = pairs.zip(values(Each::Sibling, TWO, "sibling")).collect();
        assert_eq!(pairs[..4], [(0, 1), (1, 0), (2, 3), (3, 2)]);
        assert_eq!(values(Each::Sibling, "core:2 pu:4", "cpu").len(), 24);
    }

    #[test]
    fn distances_of_nodes() {
        let mut machine = Machine::parse_hwloc_synthetic(TWO).unwrap();
        machine.node_distance = vec![vec![10, 21], vec![22, 10]];
        let parts = Each::NodePair.parts(&machine);
        let of = |name| -> Vec<u32> {
            let value = |part: &Part<'_>| part.value(name).unwrap() as u32;
            parts.iter().map(value).collect()
        };
        assert_eq!(of("node"), [0, 0, 1, 1]);
        assert_eq!(of("to_node"), [0, 1, 0, 1]);
        assert_eq!(of("distance"), [10, 21, 22, 10]);
    }

    #[test]
    fn the_fastest_come_first() {
        let mut machine = Machine::parse_hwloc_synthetic("core:4 pu:1").unwrap();
        for (cpu, capacity) in [512, 1024, 512, 1024].into_iter().enumerate() {
            machine.cpus[cpu].capacity = capacity;
        }
        let order = Each::CpuByCapacity.parts(&machine);
        let order: Vec<u32> = order.iter().filter_map(|part| part.cpu).collect();
        assert_eq!(order, [1, 3, 0, 2]);
    }

    #[test]
    fn names_are_those_with_values() {
        let machine = Machine::parse_hwloc_synthetic(TWO).unwrap();
        for each in [
            Each::Once,
            Each::Cpu,
            Each::CpuByCapacity,
            Each::Sibling,
            Each::Core,
            Each::Llc,
            Each::Node,
            Each::NodePair,
            Each::Package,
        ] {
            let part = each.parts(&machine)[0];
            let names = Each::Sibling.names().into_iter().chain([SIZE]);
            for name in names.chain(OF_NODE_PAIR) {
                let has = part.value(name).is_some();
                assert_eq!(has, each.names().contains(&name), "{each:?} {name}");
            }
        }
    }
}
