// SPDX-License-Identifier: GPL-2.0-or-later
//! The topology of a running Linux machine, as its kernel shows it under /sys/devices/system.
//!
//! Files and their meaning: Documentation/ABI/stable/sysfs-devices-system-cpu, sysfs-devices-node.

use super::topology::{Topology, without_gaps};
use super::{Caches, CpuPlace, MachineError};

/// Reads a file below /sys/devices/system, by its path from there; `None` if there is none.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The CPUs are those up to the last online one. An offline CPU before it runs nothing: it counts as a core of its own
/// beside CPU 0.
pub(super) fn parse(read: ReadFile) -> Result<Topology, MachineError> {
    let online = read("cpu/online").and_then(|list| cpu_list(&list));
    let Some(last) = online.as_ref().and_then(|cpus| cpus.last()) else {
        return Err(MachineError {
            place: "/sys/devices/system/cpu/online".to_owned(),
            span: 0..0,
            what: "names no CPU".to_owned(),
            help: "is /sys mounted?".to_owned(),
        });
    };
    let nodes = nodes(read);
    let mut keys: Vec<Keys> = Vec::new();
    for cpu in 0..=*last {
        keys.push(Keys::read(read, cpu, &nodes));
    }
    let names = |key: fn(&Keys) -> u32| without_gaps(&keys.iter().map(key).collect::<Vec<_>>());
    let (cores, llcs) = (names(|k| k.core), names(|k| k.llc));
    let (node_names, packages) = (names(|k| k.node), names(|k| k.package));
    let fastest = keys.iter().map(|k| k.capacity).max().unwrap_or(0).max(1);
    let cpus = (0..keys.len()).map(|cpu| CpuPlace {
        core: cores[cpu],
        llc: llcs[cpu],
        node: node_names[cpu],
        package: packages[cpu],
        capacity: (keys[cpu].capacity * 1024 / fastest).max(1),
    });
    Ok(Topology {
        cpus: cpus.collect(),
        caches: caches(read),
        distances: distances(read, &keys),
    })
}

/// What a CPU shares, each by the number of the first CPU that shares it; nodes and packages by the kernel's numbers.
struct Keys {
    core: u32,
    llc: u32,
    node: u32,
    package: u32,
    capacity: u32,
}

impl Keys {
    fn read(read: ReadFile, cpu: u32, nodes: &[(u32, Vec<u32>)]) -> Keys {
        let file = |name: &str| read(&format!("cpu/cpu{cpu}/{name}"));
        let number = |name: &str| file(name)?.trim().parse::<u32>().ok();
        let first = |name: &str| cpu_list(&file(name)?)?.first().copied();
        let package = number("topology/physical_package_id");
        // Of an offline CPU there is nothing to read.
        let core =
            first("topology/core_cpus_list").or_else(|| first("topology/thread_siblings_list"));
        let in_package =
            || first("topology/package_cpus_list").or_else(|| first("topology/core_siblings_list"));
        let llc = last_level_cache(read, cpu)
            .and_then(|index| first(&format!("cache/index{index}/shared_cpu_list")))
            .or_else(in_package);
        let node = nodes.iter().find(|(_, cpus)| cpus.contains(&cpu));
        Keys {
            core: core.unwrap_or(cpu),
            llc: llc.unwrap_or(0),
            node: node.map_or(0, |(node, _)| *node),
            package: package.unwrap_or(0),
            capacity: number("cpu_capacity").unwrap_or(1024),
        }
    }
}

/// Number of the highest cache that holds data.
fn last_level_cache(read: ReadFile, cpu: u32) -> Option<u32> {
    let caches = (0..MAX_CACHES).map_while(|index| {
        let file = |name: &str| read(&format!("cpu/cpu{cpu}/cache/index{index}/{name}"));
        let level: u32 = file("level")?.trim().parse().ok()?;
        Some((level, index, file("type")?.trim() != "Instruction"))
    });
    let data = caches.filter(|(_, _, holds_data)| *holds_data);
    data.max_by_key(|(level, ..)| *level)
        .map(|(_, index, _)| index)
}

/// More caches than any CPU has.
const MAX_CACHES: u32 = 16;

/// Sizes of CPU 0's caches.
fn caches(read: ReadFile) -> Caches {
    let mut caches = Caches::default();
    for index in 0..MAX_CACHES {
        let file = |name: &str| read(&format!("cpu/cpu0/cache/index{index}/{name}"));
        let (Some(level), Some(size)) = (file("level"), file("size").and_then(|s| bytes(&s)))
        else {
            continue;
        };
        if file("type").is_some_and(|kind| kind.trim() == "Instruction") {
            continue;
        }
        match level.trim() {
            "1" => caches.l1_bytes = size,
            "2" => caches.l2_bytes = size,
            "3" => caches.l3_bytes = size,
            _ => {}
        }
    }
    caches
}

/// `512K`
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit = match text.chars().last()? {
        'K' => 1 << 10,
        'M' => 1 << 20,
        'G' => 1 << 30,
        _ => 1,
    };
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Nodes and their CPUs. A kernel without NUMA has none.
fn nodes(read: ReadFile) -> Vec<(u32, Vec<u32>)> {
    let numbers = read("node/online").and_then(|list| cpu_list(&list));
    let nodes = numbers.unwrap_or_default().into_iter().filter_map(|node| {
        let cpus = read(&format!("node/node{node}/cpulist"))?;
        Some((node, cpu_list(&cpus)?))
    });
    nodes.collect()
}

/// Distances between nodes that have CPUs; `None` if the kernel does not give all of them.
fn distances(read: ReadFile, keys: &[Keys]) -> Option<Vec<Vec<u32>>> {
    let online = cpu_list(&read("node/online")?)?;
    let mut with_cpus: Vec<u32> = keys.iter().map(|k| k.node).collect();
    with_cpus.sort_unstable();
    with_cpus.dedup();
    let row = |node: &u32| {
        let line = read(&format!("node/node{node}/distance"))?;
        let all: Vec<u32> = line
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let to = |other: &u32| {
            let at = online.iter().position(|node| node == other)?;
            all.get(at).copied()
        };
        with_cpus.iter().map(to).collect::<Option<Vec<u32>>>()
    };
    with_cpus.iter().map(row).collect()
}

/// `0-3,8,10-11` as numbers in their order; `None` if it is not such a list. An empty list is valid.
fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last as usize >= super::Machine::MAX_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::super::Machine;
    use super::*;

    /// Two packages of two cores of two threads, numbered as firmware does: first threads first. Package 3 and node 2
    /// are the second ones.
    fn file(path: &str) -> Option<String> {
        let own = |cpu: u32| (cpu % 4) / 2;
        if let Some(rest) = path.strip_prefix("cpu/cpu") {
            let (cpu, name) = rest.split_once('/')?;
            let cpu: u32 = cpu.parse().ok()?;
            let (core, package) = (cpu % 4, own(cpu));
            let text = match name {
                "topology/core_cpus_list" => format!("{core},{}\n", core + 4),
                "topology/physical_package_id" => (package * 3).to_string(),
                "cache/index0/level" | "cache/index1/level" => "1".to_owned(),
                "cache/index0/type" => "Data".to_owned(),
                "cache/index1/type" => "Instruction".to_owned(),
                "cache/index2/level" => "3".to_owned(),
                "cache/index2/type" => "Unified".to_owned(),
                "cache/index0/size" => "32K".to_owned(),
                "cache/index1/size" => "64K".to_owned(),
                "cache/index2/size" => "8M".to_owned(),
                "cache/index0/shared_cpu_list" => format!("{core},{}", core + 4),
                "cache/index2/shared_cpu_list" => format!(
                    "{0}-{1},{2}-{3}",
                    package * 2,
                    package * 2 + 1,
                    package * 2 + 4,
                    package * 2 + 5
                ),
                _ => return None,
            };
            return Some(text);
        }
        let text = match path {
            "cpu/online" => "0-7\n",
            "node/online" => "0,2\n",
            "node/node0/cpulist" => "0-1,4-5\n",
            "node/node2/cpulist" => "2-3,6-7\n",
            "node/node0/distance" => "10 21\n",
            "node/node2/distance" => "21 10\n",
            _ => return None,
        };
        Some(text.to_owned())
    }

    fn of(machine: &Machine, key: fn(&CpuPlace) -> u32) -> Vec<u32> {
        machine.cpus.iter().map(key).collect()
    }

    #[test]
    fn threads_cores_caches_nodes_and_packages() {
        let machine = Machine::parse_sysfs(&file, 1000).unwrap();
        assert_eq!(of(&machine, |c| c.core), [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(of(&machine, |c| c.llc), [0, 0, 1, 1, 0, 0, 1, 1]);
        assert_eq!(of(&machine, |c| c.node), [0, 0, 1, 1, 0, 0, 1, 1]);
        assert_eq!(of(&machine, |c| c.package), [0, 0, 1, 1, 0, 0, 1, 1]);
        assert_eq!(of(&machine, |c| c.capacity), [1024; 8]);
        assert_eq!(machine.node_distance, [[10, 21], [21, 10]]);
        assert_eq!(machine.caches.l1_bytes, 32 << 10);
        assert_eq!(machine.caches.l3_bytes, 8 << 20);
        assert_eq!(machine.tick_hz, 1000);
    }

    #[test]
    fn what_a_kernel_does_not_show() {
        let bare = |path: &str| (path == "cpu/online").then(|| "0-1,3\n".to_owned());
        let machine = Machine::parse_sysfs(&bare, 250).unwrap();
        assert_eq!(of(&machine, |c| c.core), [0, 1, 2, 3]);
        assert_eq!(of(&machine, |c| c.llc), [0; 4]);
        assert_eq!(machine.node_distance, [[10]]);
        for online in ["", "x", "3-1", "0-99999999"] {
            let file = |path: &str| (path == "cpu/online").then(|| online.to_owned());
            assert!(Machine::parse_sysfs(&file, 250).is_err(), "{online:?}");
        }
    }

    #[test]
    fn slow_cpus_are_measured_by_the_fastest() {
        let unequal = |path: &str| match path {
            "cpu/cpu0/cpu_capacity" => Some("512".to_owned()),
            "cpu/cpu1/cpu_capacity" => Some("256".to_owned()),
            "cpu/online" => Some("0-1".to_owned()),
            _ => None,
        };
        let machine = Machine::parse_sysfs(&unequal, 250).unwrap();
        assert_eq!(of(&machine, |c| c.capacity), [1024, 512]);
    }
}
