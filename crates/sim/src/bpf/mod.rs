// SPDX-License-Identifier: GPL-2.0-or-later
//! BPF maps and helpers of the simulated kernel.

pub mod cpumask;
pub mod errno;
pub mod maps;
