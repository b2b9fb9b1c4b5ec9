// SPDX-License-Identifier: GPL-2.0-or-later
//! The machine that a command uses: this one, or a virtual one as its flags describe it.

use tiltyard_kernel::{Accel, VmJob};

use crate::failure::Failure;
use crate::machines;

/// Which machine. Flags of the virtual one are rejected without --vm.
#[derive(Clone, Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("virtual").multiple(true)))]
pub struct Guest {
    /// A virtual machine that Tiltyard boots. Without: this machine and its kernel, as root.
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

impl Guest {
    /// A virtual machine with these CPUs.
    pub fn of(kernel: &str, machine: &str, exact: bool) -> Guest {
        Guest {
            vm: true,
            cpus: 0,
            machine: Some(machine.to_owned()),
            icount: exact,
            kernel: kernel.to_owned(),
        }
    }

    /// A job on this machine, without schedulers so far.
    pub fn job(&self, command: Vec<String>) -> Result<VmJob, Failure> {
        let mut job = VmJob::new(command);
        job.machine = match &self.machine {
            Some(machine) => machines::load(machine)?,
            None => machines::load(&format!("package:1 core:{} pu:1", self.cpus))?,
        };
        job.accel = self.icount.then_some(Accel::Counted);
        job.kernel_version.clone_from(&self.kernel);
        Ok(job)
    }
}
