// SPDX-License-Identifier: GPL-2.0-or-later
//! The real kernel as an arena: loads a scheduler's BPF object into Linux, runs a command
//! under it and takes it out again. For now in a virtual machine that is booted for the job.
//!
//! Host side: [`packages`] finds a sched_ext kernel, [`initramfs`] packs a guest around the
//! program, [`share`] gives it the host's files, [`vm::run`] boots it under QEMU and collects what
//! it says. Guest side: the same program, started as init, is [`guest::main`]; [`loader`] is the
//! part that talks to libbpf, [`root`] makes the tree in which the command runs. The two sides
//! speak [`protocol`].
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
pub use vm_job::{SchedulerJob, VmJob};

/// A scheduler to weigh others' work with; its head says how.
pub const COSTS_SOURCE: &str = include_str!("../bpf/costs.bpf.c");
