// SPDX-License-Identifier: GPL-2.0-or-later
//! What tests of schedulers share, and nothing that Tiltyard itself needs. No scheduler is known by name: a scheduler's own
//! tests lie beside it, in `schedulers/NAME/tests`, and `tests/schedulers.rs` runs them.
//!
//! | module | what it is |
//! | --- | --- |
//! | `sources` | where schedulers are, and what is built from them |
//! | `vectors` | functions of C code, called one at a time outside of any machine |
//! | `kernel` | a small kernel for functions that need tasks, queues and a clock |
//! | `runs` | runs in the simulated machine, and the books that must balance |
//! | `mutations` | schedulers with rules that are broken on purpose |
//! | `races` | data races under loads in which everything happens |

pub mod kernel;
pub mod mutations;
pub mod races;
pub mod runs;
pub mod sources;
pub mod vectors;

pub use runs::{Lab, Ran, check_books, costed, ideal, parse};
pub use sources::{Globals, globals, object, presets, repository, shipped, source, telling};
