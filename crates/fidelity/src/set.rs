// SPDX-License-Identifier: GPL-2.0-or-later
//! What is compared, from `fidelity/set.toml`: kernels, schedulers, tolerances.

use serde::{Deserialize, Serialize};

use crate::judge::{Least, Limits, Measured, Row, Tolerance, Value};

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    pub tolerance: Tolerance,
    pub least: Least,
    #[serde(rename = "setting")]
    pub settings: Vec<Setting>,
}

/// What each other CPU of an emulator adds to a path of the kernel when its turn comes in between: the same wakeup on an idle
/// CPU takes 4.6 or 11.7 us. Four times that is what a tolerance of a quarter can bear.
const EMULATED_TURN_US: f64 = 7.1;

/// A virtual machine, its kernel, and the schedulers that run there.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    pub name: String,
    /// What it is, in one line.
    pub about: String,
    /// Version of its kernel.
    pub kernel: String,
    /// Its CPUs, as hwloc's synthetic description.
    pub machine: String,
    /// Its clock counts instructions: every run comes out the same.
    pub exact: bool,
    /// Latencies below it in both are not judged: they are the emulator's, whose CPUs take turns.
    #[serde(default)]
    pub least_latency_us: f64,
    /// Measured runs of each scheduler; medians count.
    pub rounds: u32,
    /// A scheduler of the simulated machine, and whom it is held against in the kernel.
    pub pairs: Vec<(String, String)>,
}

impl Setting {
    /// An exact guest with this many CPUs, which share everything, and these pairs.
    pub fn of_cpus(nr_cpus: u32, kernel: &str, pairs: Vec<(String, String)>) -> Setting {
        Setting {
            name: format!("{nr_cpus}-cpus-{kernel}"),
            about: match nr_cpus {
                1 => "an emulated CPU on a clock that counts instructions".to_owned(),
                _ => format!("{nr_cpus} emulated CPUs on a clock that counts instructions"),
            },
            kernel: kernel.to_owned(),
            machine: format!("package:1 core:{nr_cpus} pu:1"),
            exact: true,
            least_latency_us: EMULATED_TURN_US * 4.0 * f64::from(nr_cpus - 1),
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

/// The results of one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub setting: Setting,
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
    pub fn limits(&self) -> Limits {
        Limits {
            tolerance: self.tolerance,
            least: self.least,
            least_latency_us: self.setting.least_latency_us,
        }
    }

    /// Figures within the tolerance, and all that are judged.
    pub fn score(&self) -> (usize, usize) {
        score(self.comparisons.iter().flat_map(|c| &c.rows))
    }
}

/// Of these rows: within the tolerance, and judged at all.
pub fn score<'a>(rows: impl Iterator<Item = &'a Row>) -> (usize, usize) {
    let judged: Vec<bool> = rows.filter_map(|row| row.within).collect();
    (
        judged.iter().filter(|within| **within).count(),
        judged.len(),
    )
}

#[cfg(test)]
mod tests {
    use super::{Set, Setting};

    #[test]
    fn kept_settings_judge_latencies_as_any_of_as_many_cpus_does() {
        let set = include_str!("../../../fidelity/set.toml");
        let set = Set::parse(set).expect("the set");
        for setting in set.settings.iter().filter(|setting| setting.exact) {
            let counts = setting
                .machine
                .split([' ', ':'])
                .filter_map(|word| word.parse::<u32>().ok());
            let like_it = Setting::of_cpus(counts.product(), "6.18", Vec::new());
            let difference = setting.least_latency_us - like_it.least_latency_us;
            assert!(difference.abs() < 1e-9, "{}: {difference}", setting.name);
        }
    }
}
