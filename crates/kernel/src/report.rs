// SPDX-License-Identifier: GPL-2.0-or-later
//! What comes back from a job.

use serde::{Deserialize, Serialize};

use crate::config::KernelConfig;
use crate::hardware::Accel;
use crate::protocol::RunReport;

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub kernel_release: String,
    /// None where it cannot be found.
    pub kernel_config: Option<KernelConfig>,
    pub cpus: u32,
    /// The CPU's name, in a guest the host's.
    pub host_cpu: String,
    /// What ran the guest's instructions; none without a guest.
    pub accel: Option<Accel>,
    /// Words of the guest kernel's command line that raise its stall limits with the emulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised_limits: Option<String>,
    /// What else the user gave to it (`--kernel-args`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel_args: String,
    /// The host's load when the job began: tasks that wanted a CPU, averaged over a minute, in hundredths.
    pub load_percent: u32,
    /// Wall-clock time on the host, ms: from QEMU's start to init, and to the end of all runs.
    pub boot_ms: u64,
    pub total_ms: u64,
    /// In the order in which they were done: round by round, in each the schedulers in the job's order.
    pub runs: Vec<RunReport>,
    /// Why there are not more of them, if something ended the job before it was done.
    pub cut_short: Option<String>,
}

impl Report {
    /// Whether every run went as it should.
    pub fn is_success(&self) -> bool {
        self.cut_short.is_none() && self.runs.iter().all(RunReport::is_success)
    }
}
