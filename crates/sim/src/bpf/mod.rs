// SPDX-License-Identifier: GPL-2.0-or-later
//! BPF maps and helpers of the simulated kernel.

pub mod cpumask;
pub mod errno;
pub mod format;
pub mod maps;
pub mod prandom;
pub mod rng;
pub mod timers;
pub mod unsupported;
