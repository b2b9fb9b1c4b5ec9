// SPDX-License-Identifier: GPL-2.0-or-later
//! The machine on which jobs in a kernel run: this one, or a virtual one.

use tiltyard_kernel::{Accel, VmJob};

use crate::{Error, machines, program};

/// Which machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    /// A virtual machine that Tiltyard boots. Otherwise: this machine and its kernel, as root.
    pub vm: bool,
    /// What its CPUs share, as for [`machines::load`].
    pub machine: String,
    /// Emulate with a clock that counts instructions: every run is the same.
    pub icount: bool,
    /// Kernel of the virtual machine: a version, whose newest package is fetched (6.1 is the last long-term one with CFS), or a
    /// bzImage with its configuration beside it.
    pub kernel: String,
}

/// Counting instructions takes longer, especially on a busy machine, s.
const COUNTED_BOOT_LIMIT_S: u64 = 300;
/// For each of many CPUs: 32 take 80 s of a core, and more than 300 s have been seen.
const BOOT_LIMIT_PER_CPU_S: u64 = 100;

impl Guest {
    /// A virtual machine with these CPUs.
    pub fn of(kernel: &str, machine: &str, exact: bool) -> Guest {
        Guest {
            vm: true,
            machine: machine.to_owned(),
            icount: exact,
            kernel: kernel.to_owned(),
        }
    }

    /// A job on this machine, without schedulers so far.
    pub fn job(&self, command: Vec<String>) -> Result<VmJob, Error> {
        let mut job = VmJob::new(command);
        job.init = program::path()?;
        job.machine = machines::load(&self.machine)?;
        if self.icount {
            job.accel = Some(Accel::Counted);
            let of_cpus_s = BOOT_LIMIT_PER_CPU_S * job.machine.nr_cpus() as u64;
            job.boot_limit_s = COUNTED_BOOT_LIMIT_S.max(of_cpus_s);
        }
        job.kernel_version.clone_from(&self.kernel);
        Ok(job)
    }
}
