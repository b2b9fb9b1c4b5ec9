// SPDX-License-Identifier: GPL-2.0-or-later
//! Events of a real kernel in the vocabulary of all arenas.
//!
//! [`record`] is the format in which they travel, [`tracer`] takes them from the kernel (in the guest),
//! [`replay`] turns the records of a run into events for a sink (on the host).

pub mod record;
pub mod replay;
pub mod tracer;

/// The tracer's program, for whoever compiles it.
pub const SOURCE: &str = include_str!("../../bpf/tracer.bpf.c");
