// SPDX-License-Identifier: GPL-2.0-or-later
//! The simulated machine: a deterministic discrete-event engine with the kernel's scheduling
//! core, its realtime class and its sched_ext core, running real scheduler objects.
//!
//! Knows no clock, file, thread or environment: the same [`Setup`] gives the same events, bit
//! for bit, on any host. Time is integer nanoseconds.
//!
//! | module | the kernel's counterpart |
//! | --- | --- |
//! | `engine`, `clock`, `cpu`, `work`, `jitter` | the hardware: time, CPUs, caches |
//! | `topology` | the hardware: its CPUs as sets |
//! | `memory` | the hardware: tasks that wait for shared caches and memory slow each other down |
//! | `task`, `blocks` | `struct task_struct`, and where they lie |
//! | `sched` | kernel/sched/core.c, rt.c |
//! | `ext` | kernel/sched/ext.c, ext_idle.c (reference: Linux 6.18) |
//! | `cgroup` | the cpu controller's groups and autogroups, as schedulers see them |
//! | `bpf`, `kfuncs` | the BPF runtime: maps, helpers, kernel functions |
//! | `program` | user space: executes workloads |
//! | `contention`, `lines` | what CPUs that share locks and data cost each other |
//! | `races` | none: a check of schedulers for data races |

mod blocks;
mod bpf;
mod cgroup;
mod clock;
mod contention;
mod cpu;
mod engine;
mod ext;
mod jitter;
mod kfuncs;
mod lines;
mod memory;
mod program;
mod races;
mod sched;
mod task;
mod topology;
mod work;

pub use engine::{CpuTimes, Outcome, RunError, Setup, run, run_and_check, run_then};
pub use ext::exit::{Exit, ExitKind};
pub use ext::progress::Stranded;
pub use kfuncs::{Checked, Race, Side, bound_helpers, bound_kfuncs, callback_names};
pub use program::Stuck;
