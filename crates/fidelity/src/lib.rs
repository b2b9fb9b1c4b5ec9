// SPDX-License-Identifier: GPL-2.0-or-later
//! How far the simulated machine is from a real one. Pure functions; the caller runs things.
//!
//! | module | what it is |
//! | --- | --- |
//! | `costs` | timings of a machine -> its costs |
//! | `machine_file` | costs -> a machine file |
//! | `threads` | what the kernel's own threads did -> the noise of a machine file |
//! | `set` | `fidelity/set.toml`: kernels, schedulers, tolerances; and the results |
//! | `judge` | metrics of a workload in both arenas -> errors |
//! | `page` | errors -> `docs/fidelity.md` |

pub mod costs;
pub mod judge;
mod machine_file;
pub mod page;
pub mod set;
mod threads;
