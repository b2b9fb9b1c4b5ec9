// SPDX-License-Identifier: GPL-2.0-or-later
//! What can go wrong on the way to a result from a real kernel. Each message is one line
//! (longer evidence, such as console output, follows below it) and names the way out.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A program that Tiltyard calls is not on PATH.
    #[error("{tool} is not installed: install the package {package}")]
    ToolMissing {
        tool: &'static str,
        package: &'static str,
    },

    /// A guest larger than what this machine has left.
    #[error(
        "a guest of {memory_mib} MiB does not fit: this machine has {free_mib} MiB free; give it less with --memory"
    )]
    Memory { memory_mib: u32, free_mib: u64 },

    /// A kernel into which no scheduler can be loaded.
    #[error(
        "Linux {release} {lacks}: only its own scheduler (-s default) runs there; name one from 6.12 on with --kernel"
    )]
    NoSchedExt {
        release: String,
        lacks: &'static str,
    },

    /// Only x86-64 hosts boot x86-64 guests for now.
    #[error("no guest for {arch} machines yet: only x86_64 is supported")]
    Architecture { arch: &'static str },

    /// A file could not be read, written or made.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        path: PathBuf,
        action: &'static str,
        source: std::io::Error,
    },

    /// No Debian archive among the machine's package sources.
    #[error(
        "no Debian archive in /etc/apt/sources.list or /etc/apt/sources.list.d, where kernel \
         packages come from: add one, or unpack a kernel's package into \
         ~/.cache/tiltyard/kernels/RELEASE"
    )]
    NoArchive,

    /// apt-get, apt-cache or dpkg-deb ended with an error.
    #[error("{what} failed ({status}): {output}")]
    Package {
        what: String,
        status: String,
        output: String,
    },

    /// The suites have no kernel of that version.
    #[error("Debian offers no cloud kernel {version}: it offers {}", list(offered))]
    NoKernel {
        version: String,
        offered: Vec<String>,
    },

    /// The kernel has a driver neither built in nor as a module that it can load.
    #[error(
        "the package of Linux {release} lacks CONFIG_{option} ({module}), without which a guest cannot \
         reach the host: name another version with --kernel"
    )]
    NoDriver {
        release: String,
        option: &'static str,
        module: &'static str,
    },

    /// The command is not on this host, whose programs are the guest's.
    #[error(
        "{command}: command not found on this machine, whose programs are also a guest's: mind PATH, or install it"
    )]
    CommandNotFound { command: String },

    /// What should become init is not an ELF program.
    #[error("{}: not an ELF program, so it cannot be the guest's init", path.display())]
    NotElf { path: PathBuf },

    /// The program's own loader could not name its libraries.
    #[error("{}: cannot resolve its shared libraries: {detail}", path.display())]
    Libraries { path: PathBuf, detail: String },

    /// A limit that the running kernel cannot keep.
    #[error(
        "{option}: {} offers no controller \"{controller}\" of cgroup v2: mount cgroup2 there, boot \
         without cgroup v1, or leave {option} out",
        tree.display()
    )]
    NoController {
        /// What sets the limit.
        option: &'static str,
        tree: PathBuf,
        controller: &'static str,
    },

    /// A job that cannot be run as specified.
    #[error("{0}")]
    Job(String),

    /// The guest did not reach its init in time.
    #[error(
        "the guest did not come up within {limit_s} s: is {image} a kernel for it? If this machine is busy, raise \
         --boot-limit. Last console lines:\n{console}"
    )]
    BootTimeout {
        limit_s: u64,
        image: String,
        console: String,
    },

    /// The guest came up and then said nothing for too long.
    #[error("the guest fell silent for {limit_s} s {during}. Last console lines:\n{console}")]
    Silent {
        limit_s: u64,
        during: String,
        console: String,
    },

    /// QEMU ended before the guest was done.
    #[error("QEMU ended ({status}) {during}. Last console lines:\n{console}")]
    GuestDied {
        status: String,
        during: String,
        console: String,
    },

    /// Whoever waited for it wants it no more; [`crate::Progress::stop`] said why.
    #[error("{0}")]
    Stopped(String),

    /// The guest reports that it cannot do its job.
    #[error("inside the guest: {0}")]
    Guest(String),

    /// The guest said something that is not a message: host and guest differ in version.
    #[error("the guest sent a line that is no message: {line}: {source}")]
    Protocol {
        line: String,
        source: serde_json::Error,
    },
}

impl KernelError {
    /// For `map_err` on file operations: `action` completes "cannot ...".
    pub(crate) fn io(
        path: impl Into<PathBuf>,
        action: &'static str,
    ) -> impl FnOnce(std::io::Error) -> KernelError {
        let path = path.into();
        move |source| KernelError::Io {
            path,
            action,
            source,
        }
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}
