// SPDX-License-Identifier: GPL-2.0-or-later
//! The real kernel as an arena: loads a scheduler's BPF object into Linux, runs a command
//! under it and takes it out again, in a virtual machine that is booted for the job or on this machine.
//!
//! | module | what it is |
//! | --- | --- |
//! | `protocol`, `vm_job`, `report` | what host and guest tell each other, what a job is, what comes back: plain data below the rest |
//! | `job`, `rounds`, `limits`, `kernel_log` | a job in the running kernel: schedulers in turn, the command under each |
//! | `loader`, `layout`, `types`, `tunables` | a scheduler's object: loaded and removed, described by its type information (BTF), its tunables set |
//! | `userspace` | the scheduler's user-space half: carries out the plan of its environment |
//! | `vm`, `qemu`, `hardware`, `share` | the host's side of a guest: booted, its QEMU process and arguments, the host's files for it |
//! | `packages`, `sources`, `release` | kernels from Debian's packages, the archive that has them, what a kernel's release says |
//! | `initramfs`, `cpio`, `elf` | what a guest needs before it sees the host's files: packed, its archive format, the libraries of programs |
//! | `guest`, `root`, `modules`, `network` | the guest's side: Tiltyard as its init; a `job::Site` |
//! | `here` | the other `job::Site`: the local machine |
//! | `verify`, `verifier` | the verifier of a real kernel: a guest that is kept warm and its client; the verifier's words with source lines |
//! | `verifier_bug` | kernels whose verifier can crash, and the objects that are kept from them |
//! | `host` | what this host offers to the kernel arena, and what it lacks |
//! | `config`, `scores` | the kernel configuration in results, and scores printed by a command |
//! | `trace` | `bpf/tracer.bpf.c` -> records -> events; `record.rs` is the format and changes with the BPF program |
//! | `error`, `progress`, `syscall` | what can go wrong, how callers follow progress, results of system calls |
//!
//! The only crate that links libbpf, and it knows nothing of the simulator. Loading schedulers into the running kernel takes
//! root; guests do not. It is not the only one that needs Linux: `exec` uses Linux's system calls and cgroups, too.

pub mod config;
pub mod cpio;
pub mod elf;
pub mod error;
pub mod guest;
pub mod hardware;
pub mod here;
pub mod host;
pub mod initramfs;
mod job;
mod kernel_log;
mod layout;
pub mod limits;
pub mod loader;
mod modules;
mod network;
pub mod packages;
mod progress;
pub mod protocol;
mod qemu;
mod release;
mod report;
mod root;
pub mod rounds;
pub mod scores;
mod share;
pub mod sources;
mod syscall;
pub mod trace;
mod tunables;
mod types;
mod userspace;
mod verifier;
pub mod verifier_bug;
pub mod verify;
pub mod vm;
mod vm_job;

pub use config::KernelConfig;
pub use error::KernelError;
pub use hardware::Accel;
pub use limits::Limits;
pub use packages::KernelImage;
pub use progress::Progress;
pub use protocol::{CommandStatus, Counter, Deviation, ExitInfo, RunOutcome, RunReport, Tunable};
pub use report::Report;
pub use trace::replay::Trace;
pub use userspace::{ThisMachineError, machine as this_machine};
pub use vm_job::{SchedulerJob, VmJob};

/// A scheduler to weigh others' work with; its head says how.
pub const COSTS_SOURCE: &str = include_str!("../bpf/costs.bpf.c");
