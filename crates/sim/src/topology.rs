// SPDX-License-Identifier: GPL-2.0-or-later
//! The machine's CPUs as sets, computed once.

use crate::bpf::cpumask::{CpuSet, IndexedSet};
use smallvec::SmallVec;
use std::rc::Rc;
use tiltyard_model::Machine;

#[derive(Debug)]
pub struct Topology {
    /// CPUs of the same core, for each CPU.
    pub siblings: Vec<SmallVec<[u32; 2]>>,
    pub has_smt: bool,
    /// CPUs that share the last-level cache, for each cache.
    pub llc_cpus: Vec<IndexedSet>,
    pub node_cpus: Vec<IndexedSet>,
    pub nr_nodes: usize,
    pub online: IndexedSet,
    /// The same, for the tasks that may run anywhere: one set for all of them.
    pub anywhere: Rc<CpuSet>,
}

/// A part of the machine.
#[derive(Clone, Copy, Debug)]
pub enum Domain {
    /// The CPUs that share a last-level cache.
    Llc(u32),
    Node(u32),
    Machine,
}

impl Topology {
    pub fn new(machine: &Machine) -> Topology {
        let nr = machine.nr_cpus() as u32;
        let group = |key: fn(&tiltyard_model::machine::CpuPlace) -> u32| {
            let groups = machine
                .cpus
                .iter()
                .map(|c| key(c) as usize + 1)
                .max()
                .unwrap_or(1);
            let mut sets = vec![IndexedSet::new(nr); groups];
            for (cpu, place) in machine.cpus.iter().enumerate() {
                sets[key(place) as usize].set(cpu as u32);
            }
            sets
        };
        let cores = group(|c| c.core);
        let siblings: Vec<SmallVec<[u32; 2]>> = machine
            .cpus
            .iter()
            .map(|place| cores[place.core as usize].iter().collect())
            .collect();
        Topology {
            has_smt: siblings.iter().any(|s| s.len() > 1),
            siblings,
            llc_cpus: group(|c| c.llc),
            node_cpus: group(|c| c.node),
            nr_nodes: machine.nr_nodes(),
            online: IndexedSet::all(nr),
            anywhere: Rc::new(CpuSet::all(nr)),
        }
    }

    pub fn cpus_of(&self, domain: Domain) -> &IndexedSet {
        match domain {
            Domain::Llc(llc) => &self.llc_cpus[llc as usize],
            Domain::Node(node) => &self.node_cpus[node as usize],
            Domain::Machine => &self.online,
        }
    }
}
