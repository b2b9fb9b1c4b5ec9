// SPDX-License-Identifier: GPL-2.0-or-later
//! What is compared, from `fidelity/set.toml`: kernels, schedulers, tolerances.

use serde::{Deserialize, Serialize};

use crate::judge::{Least, Measured, Row, Tolerance, Value};

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    pub tolerance: Tolerance,
    pub least: Least,
    #[serde(rename = "arena")]
    pub arenas: Vec<Arena>,
}

/// A virtual machine and the schedulers that run there.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Arena {
    pub name: String,
    /// What it is, in one line.
    pub about: String,
    /// Version of its kernel.
    pub kernel: String,
    /// Its CPUs, as hwloc's synthetic description.
    pub machine: String,
    /// Its clock counts instructions: every run comes out the same.
    pub exact: bool,
    /// Measured runs of each scheduler; medians count.
    pub rounds: u32,
    /// A scheduler of the simulated machine, and whom it is held against in the kernel.
    pub pairs: Vec<(String, String)>,
}

impl Arena {
    /// An exact guest with this many CPUs, which share everything, and these pairs.
    pub fn of_cpus(nr_cpus: u32, kernel: &str, pairs: Vec<(String, String)>) -> Arena {
        Arena {
            name: format!("{nr_cpus}-cpus-{kernel}"),
            about: format!("{nr_cpus} emulated CPUs on a clock that counts instructions"),
            kernel: kernel.to_owned(),
            machine: format!("package:1 core:{nr_cpus} pu:1"),
            exact: true,
            rounds: 1,
            pairs,
        }
    }
}

impl Set {
    pub fn parse(text: &str) -> Result<Set, toml::de::Error> {
        toml::from_str(text)
    }
}

/// The results of one arena.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub arena: Arena,
    pub kernel_release: String,
    /// How the guest was run: under KVM, emulated.
    pub accel: String,
    /// The host's load when the first workload began, in hundredths.
    pub load_percent: u32,
    pub tolerance: Tolerance,
    pub least: Least,
    pub comparisons: Vec<Comparison>,
}

/// One workload under one scheduler in both arenas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub workload: String,
    pub simulated: String,
    pub real: String,
    /// What reports call the latter: the kernel's own by what it is.
    pub label: String,
    /// Events that the kernel had no room to record, over all rounds.
    pub lost_events: u64,
    pub rows: Vec<Row>,
}

impl Comparison {
    /// The kernel's side.
    pub fn in_kernel(&self) -> Measured {
        let values = self.rows.iter().map(|row| Value {
            of: row.of.clone(),
            figure: row.figure,
            value: row.real,
        });
        Measured {
            values: values.collect(),
        }
    }
}

impl Results {
    /// Figures within the tolerance, and all.
    pub fn score(&self) -> (usize, usize) {
        let rows = || {
            self.comparisons
                .iter()
                .flat_map(|comparison| &comparison.rows)
        };
        (rows().filter(|row| row.within).count(), rows().count())
    }
}
