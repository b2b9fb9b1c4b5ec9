// SPDX-License-Identifier: GPL-2.0-or-later
//! What this host offers to the kernel arena, and what it lacks.

use std::path::Path;

use crate::error::KernelError;
use crate::{elf, packages};

/// The program that runs guests, and its Debian package.
pub const QEMU: &str = "qemu-system-x86_64";
pub const QEMU_PACKAGE: &str = "qemu-system-x86";

/// The state of this host. Nothing is changed by asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostReport {
    /// `uname -r`; empty if /proc is not mounted.
    pub kernel_release: String,
    /// What keeps schedulers from being loaded into this very kernel, one line each with the
    /// way out; empty if nothing does.
    pub here: Vec<String>,
    /// What keeps a guest from being booted.
    pub vm: Vec<String>,
}

/// Looks at this host. `kernel_version` is the kernel wanted for guests, such as "6.18".
pub fn check(kernel_version: &str) -> HostReport {
    HostReport {
        kernel_release: kernel_release(),
        here: missing_here(),
        vm: missing_for_vm(kernel_version),
    }
}

/// Tasks that wanted a CPU in the last minute, on average, in hundredths; 0 if unknown.
pub(crate) fn load_percent() -> u32 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text
        .split_whitespace()
        .next()
        .and_then(|word| word.parse::<f64>().ok());
    first.map_or(0, |load| (load * 100.0).round() as u32)
}

/// An error if a guest with this much memory cannot even be started.
pub fn require_guest(memory_mib: u32) -> Result<(), KernelError> {
    require_vm_tools()?;
    match available_mib() {
        Some(free_mib) if free_mib < u64::from(memory_mib) => Err(KernelError::Memory {
            memory_mib,
            free_mib,
        }),
        _ => Ok(()),
    }
}

/// Memory that programs may still take; `None` if unknown.
pub(crate) fn available_mib() -> Option<u64> {
    free_mib(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

/// What /proc/meminfo says programs may still take; a guest takes what it was promised sooner or later.
fn free_mib(meminfo: &str) -> Option<u64> {
    let kib = |key: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim_start_matches(':')
            .split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()
    };
    Some((kib("MemAvailable")? + kib("SwapFree").unwrap_or(0)) / 1024)
}

/// What the CPUs of this machine call themselves; empty if unknown.
pub(crate) fn cpu_model() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let model = line.and_then(|line| line.split_once(':'));
    model.map_or("", |(_, model)| model.trim()).to_owned()
}

/// One more than the highest number of a CPU.
pub fn nr_cpus() -> u32 {
    let present = std::fs::read_to_string("/sys/devices/system/cpu/present").unwrap_or_default();
    let last = present.trim().rsplit([',', '-']).next();
    last.and_then(|last| last.parse::<u32>().ok())
        .map_or(1, |last| last + 1)
}

/// `uname -r`; empty if /proc is not mounted.
pub(crate) fn kernel_release() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

pub(crate) fn missing_here() -> Vec<String> {
    let mut missing = Vec::new();
    if !Path::new("/sys/kernel/sched_ext").exists() {
        missing.push(
            "this kernel has no sched_ext: it needs Linux 6.12 or newer with \
             CONFIG_SCHED_CLASS_EXT=y; --vm boots one that has it"
                .to_owned(),
        );
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        missing.push(
            "this kernel carries no type information: it needs CONFIG_DEBUG_INFO_BTF=y; --vm \
             boots one that has it"
                .to_owned(),
        );
    }
    // SAFETY: a system call without arguments.
    if unsafe { libc::geteuid() } != 0 {
        missing
            .push("loading a scheduler needs root: use sudo, or --vm, which does not".to_owned());
    }
    missing
}

fn missing_for_vm(kernel_version: &str) -> Vec<String> {
    let mut missing: Vec<String> = require_vm_tools()
        .err()
        .map(|error| error.to_string())
        .into_iter()
        .collect();
    if packages::find_cached(kernel_version).is_none() {
        for (tool, package) in [("apt-get", "apt"), ("dpkg-deb", "dpkg")] {
            if elf::find_command(tool).is_err() {
                missing.push(KernelError::ToolMissing { tool, package }.to_string());
            }
        }
    }
    missing
}

/// An error if a guest cannot even be started.
fn require_vm_tools() -> Result<(), KernelError> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(KernelError::Architecture {
            arch: std::env::consts::ARCH,
        });
    }
    match elf::find_command(QEMU) {
        Ok(_) => Ok(()),
        Err(_) => Err(KernelError::ToolMissing {
            tool: QEMU,
            package: QEMU_PACKAGE,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_free_is_what_is_available_and_swap() {
        let text = "MemTotal: 9000000 kB\nMemFree: 5 kB\nMemAvailable:    2048000 kB\nSwapFree:  1024000 kB\n";
        assert_eq!(free_mib(text), Some(3000));
        assert_eq!(free_mib("MemFree: 5 kB\n"), None);
    }
}
