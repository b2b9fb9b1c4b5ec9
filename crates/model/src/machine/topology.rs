// SPDX-License-Identifier: GPL-2.0-or-later
//! What every description of a topology comes down to.

use super::{Caches, CpuPlace};

/// ACPI SLIT distances where a description has none.
pub(super) const LOCAL: u32 = 10;
/// One hop and two hops of an Opteron's interconnect; no source gives the paper's machine, so these
/// are the usual firmware values of that generation.
const ONE_HOP: u32 = 16;
const TWO_HOPS: u32 = 22;

#[derive(Debug)]
pub(super) struct Topology {
    /// Indexed by CPU number.
    pub cpus: Vec<CpuPlace>,
    pub caches: Caches,
    /// Distances between nodes, where the description has them.
    pub distances: Option<Vec<Vec<u32>>>,
}

impl Topology {
    /// Distances between nodes: as described, else by packages. Nodes of one package are one hop
    /// apart. Nodes of different packages are one hop apart where each package is one node, two otherwise.
    pub fn distances(&self) -> Vec<Vec<u32>> {
        if let Some(distances) = &self.distances {
            return distances.clone();
        }
        let package_of = self.package_of_node();
        let mut packages = package_of.clone();
        packages.sort_unstable();
        packages.dedup();
        let across = if packages.len() == package_of.len() {
            ONE_HOP
        } else {
            TWO_HOPS
        };
        let between = |a: usize, b: usize| match () {
            () if a == b => LOCAL,
            () if package_of[a] == package_of[b] => ONE_HOP,
            () => across,
        };
        let nodes = 0..package_of.len();
        nodes
            .clone()
            .map(|a| nodes.clone().map(|b| between(a, b)).collect())
            .collect()
    }

    pub fn nr_nodes(&self) -> usize {
        self.cpus
            .iter()
            .map(|c| c.node as usize + 1)
            .max()
            .unwrap_or(1)
    }

    /// Indexed by node: the package of its first CPU.
    fn package_of_node(&self) -> Vec<u32> {
        let mut packages = vec![0; self.nr_nodes()];
        for cpu in self.cpus.iter().rev() {
            packages[cpu.node as usize] = cpu.package;
        }
        packages
    }
}

/// Replaces names that may have gaps (operating system indexes) by 0, 1, 2... in the same order.
pub(super) fn without_gaps(names: &[u32]) -> Vec<u32> {
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    names
        .iter()
        .map(|n| sorted.partition_point(|s| s < n) as u32)
        .collect()
}
