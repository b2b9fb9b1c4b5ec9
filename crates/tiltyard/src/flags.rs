// SPDX-License-Identifier: GPL-2.0-or-later
//! Flags that several commands have.

use tiltyard_runner::grouping::By;
use tiltyard_runner::guest::Guest;

/// Which machine. Flags of the virtual one are rejected without --vm.
#[derive(Clone, Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("virtual").multiple(true)))]
pub struct GuestFlags {
    /// Use a virtual machine that Tiltyard boots. Default: this machine and its kernel, which requires root.
    #[arg(long, group = "virtual")]
    pub vm: bool,
    /// CPUs of the virtual machine.
    #[arg(long, value_name = "N", default_value_t = 2, requires = "vm", value_parser = clap::value_parser!(u32).range(1..=256))]
    cpus: u32,
    /// What its CPUs share, as for tiltyard run: a name, a file, "package:2 [numa] core:4 pu:2".
    #[arg(
        short,
        long,
        value_name = "MACHINE",
        conflicts_with = "cpus",
        requires = "vm"
    )]
    machine: Option<String>,
    /// Emulate with a clock that counts instructions: every run is the same. Several CPUs share one stream of
    /// instructions, so each of N gets 1/N of the time.
    #[arg(long, requires = "vm")]
    pub icount: bool,
    /// Kernel of the virtual machine: a version, whose newest package is fetched (6.1 is the last with CFS), or a
    /// bzImage with its configuration beside it.
    #[arg(
        long,
        value_name = "PATH|VERSION",
        default_value = "6.18",
        requires = "virtual"
    )]
    pub kernel: String,
}

impl GuestFlags {
    /// The machine that they describe.
    pub fn guest(&self) -> Guest {
        let cpus = || format!("package:1 core:{} pu:1", self.cpus);
        Guest {
            vm: self.vm,
            machine: self.machine.clone().unwrap_or_else(cpus),
            icount: self.icount,
            kernel: self.kernel.clone(),
        }
    }
}

/// `--by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ByFlag {
    /// Each task separately.
    Task,
    /// The tasks of an application together.
    App,
    /// The tasks of a cgroup together.
    Group,
}

impl ByFlag {
    pub fn by(self) -> By {
        match self {
            ByFlag::Task => By::Task,
            ByFlag::App => By::App,
            ByFlag::Group => By::Group,
        }
    }
}
