// SPDX-License-Identifier: GPL-2.0-or-later
//! What BPF programs find in a kernel besides the scheduler core: maps, cpumasks, timers, printf and
//! random numbers, with the kernel's return values (reference: 6.18).
//!
//! Everything here is plain data with methods. It knows no engine, no clock and no files; the engine
//! passes what is needed (the CPU that executes, the time, an owner's index) and binds the calls.
//! | module | what it is | used by |
//! | --- | --- | --- |
//! | [`maps`] | all maps of a scheduler, bpf_map_*, bpf_ringbuf_*, task and cgroup storage | helpers |
//! | [`cpumask`] | sets of CPUs in the layout that schedulers see, bpf_cpumask_* | engine, kfuncs |
//! | [`timers`] | which bpf_timer is initialised, armed, running | helpers, event queue |
//! | [`format`](mod@format) | the printf of BPF programs | bpf_trace_printk, scx_bpf_error_bstr |
//! | [`rng`] | the workload's named random streams, also the source of schedulers' draws | workload, noise |
//! | [`prandom`] | bpf_get_prandom_u32 | helpers |
//!
//! Rules that hold for all of it:
//!
//! * **Same input, same result.** No order depends on an address or on a hash function. Hashes
//!   iterate by age of the key; pointers print as numbers by first appearance; random draws use
//!   integers only.
//! * **Addresses are promises.** A map value, a mask or a storage never moves while it lives. What is
//!   deleted stays readable until `reclaim()`, which the engine calls between callbacks and which
//!   models the end of an RCU grace period:
//!
//!   ```text
//!   callback -> maps.take_misuse() -> maps.reclaim(|span| timers.forget(span)) -> masks.reclaim()
//!   ```
//! * **There is no verifier.** A kernel's rejects wild keys, wrong kinds of maps and unbalanced
//!   references before the first call. Here these are reported as errors that name the map or the
//!   function ([`maps::Misuse`], [`cpumask::BadReference`]) and end the run.
//!   Pointers themselves are trusted; the guard around each call into a scheduler catches wild ones.

pub mod cpumask;
pub mod errno;
pub mod format;
pub mod maps;
pub mod prandom;
pub mod timers;

pub use tiltyard_workload::rng;

#[cfg(test)]
mod bench;
