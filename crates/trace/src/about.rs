// SPDX-License-Identifier: GPL-2.0-or-later
//! The head of a file: all that is known about a run besides its events.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tiltyard_model::machine;

use crate::check::{MAX_CPUS, MAX_END_NS};

/// What ran, where, under which scheduler, and from when to when. In a file it is a JSON object with these members; readers
/// ignore members that they do not know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The version of Tiltyard that wrote the file.
    pub tiltyard: String,
    pub arena: Arena,
    /// Release of the kernel; `None` in the simulated machine.
    pub kernel: Option<String>,
    /// The workload's name, or the command.
    pub workload: String,
    /// Of the workload file, 64 hexadecimal digits; `None` for a command.
    pub workload_sha256: Option<String>,
    pub machine: Machine,
    /// The scheduler's label in results.
    pub scheduler: String,
    /// Of everything that the scheduler's object was built from; `None` for the kernel's own scheduler.
    pub object_sha256: Option<String>,
    /// Those that were set, with their values; all others had their defaults.
    pub tunables: Map<String, Value>,
    /// Of a simulated run.
    pub seed: Option<u64>,
    /// Of a run in a real kernel; 0 is the warm-up.
    pub round: Option<u32>,
    /// The command that repeats this run.
    pub command: String,
    /// Number of the run among those of its command, from 0.
    pub run: u32,
    /// Start of the workload on the clock of the events: metrics begin here.
    pub origin_ns: u64,
    /// End of the run on the same clock. No event is later.
    pub end_ns: u64,
    /// Events that are missing because the kernel had no room for them.
    pub lost_events: u64,
    /// By app, the classes of its workload's requests; absent if there are none, or the workload is not known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub request_classes: BTreeMap<String, Vec<String>>,
    /// What results contain besides metrics of events. Each arena has its own members.
    pub result: Value,
}

/// Where a run took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arena {
    /// The simulated machine.
    Sim,
    /// A real kernel.
    Kernel,
}

impl Arena {
    /// As in the file.
    pub fn name(self) -> &'static str {
        match self {
            Arena::Sim => "sim",
            Arena::Kernel => "kernel",
        }
    }
}

/// The machine of a run, simulated or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub name: String,
    pub description: String,
    /// Of the machine file; `None` for a real machine.
    pub sha256: Option<String>,
    /// All CPU numbers in events are below it.
    pub nr_cpus: u32,
    /// CONFIG_HZ; `None` if it is not known.
    pub tick_hz: Option<u32>,
    /// `None` if it is not known.
    pub topology: Option<Topology>,
}

/// Which CPUs share what: for each CPU in order, the number of its core, last-level cache, memory node and package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    pub core: Vec<u32>,
    pub llc: Vec<u32>,
    pub node: Vec<u32>,
    pub package: Vec<u32>,
    /// Speed against the fastest CPU, 1024 = full.
    pub capacity: Vec<u32>,
}

impl About {
    /// What is impossible in it.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let nr_cpus = self.machine.nr_cpus;
        let topology = self.machine.topology.as_ref();
        if nr_cpus > MAX_CPUS {
            Some("too many CPUs")
        } else if self.end_ns > MAX_END_NS {
            Some("end_ns is too late")
        } else if self.origin_ns > self.end_ns {
            Some("origin_ns is later than end_ns")
        } else if topology.is_some_and(|topology| !topology.is_of(nr_cpus as usize)) {
            Some("the topology is not that of nr_cpus CPUs")
        } else {
            None
        }
    }
}

impl Topology {
    fn is_of(&self, nr_cpus: usize) -> bool {
        let columns = [
            &self.core,
            &self.llc,
            &self.node,
            &self.package,
            &self.capacity,
        ];
        columns.iter().all(|column| column.len() == nr_cpus)
    }

    pub fn of(machine: &machine::Machine) -> Topology {
        let column = |of: fn(&machine::CpuPlace) -> u32| machine.cpus.iter().map(of).collect();
        Topology {
            core: column(|cpu| cpu.core),
            llc: column(|cpu| cpu.llc),
            node: column(|cpu| cpu.node),
            package: column(|cpu| cpu.package),
            capacity: column(|cpu| cpu.capacity),
        }
    }
}
