// SPDX-License-Identifier: GPL-2.0-or-later
//! The real kernel as an arena: loads a scheduler's BPF object into Linux, runs a command
//! under it and takes it out again, in a virtual machine that is booted for the job or on this machine.
//!
//! | module | what it is |
//! | --- | --- |
//! | `protocol`, `vm_job`, `report` | what host and guest tell each other, what a job is, what comes back: plain data below the rest |
//! | `job`, `rounds`, `layout`, `loader`, `limits`, `kernel_log` | a job in the running kernel: schedulers in turn, the command under each |
//! | `vm`, `qemu`, `hardware`, `packages`, `release`, `initramfs`, `share` | the host's side of a guest |
//! | `guest`, `root`, `modules`, `network` | the guest's side: Tiltyard as its init; a `job::Site` |
//! | `here` | the other `job::Site`: the local machine |
//! | `verify`, `verifier` | the verifier of a real kernel: a guest that is kept warm and its client; the verifier's words with source lines |
//! | `config`, `scores` | the kernel configuration in results, and scores printed by a command |
//! | `trace` | `bpf/tracer.bpf.c` -> records -> events; `record.rs` is the format and changes with the BPF program |
//!
//! The only crate that needs Linux, libbpf or root, and it knows nothing of the simulator.

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
