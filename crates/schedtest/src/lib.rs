// SPDX-License-Identifier: GPL-2.0-or-later
//! What tests of schedulers share, and nothing that Tiltyard itself needs: where schedulers are ([`sources`]), their
//! functions called one at a time ([`vectors`], and with tasks and queues [`kernel`]), their runs in the simulated machine ([`runs`]), their data races
//! ([`races`]). No scheduler is known by name: a scheduler's own tests lie beside it, in `schedulers/NAME/tests`, and
//! `tests/schedulers.rs` runs them.

pub mod kernel;
pub mod races;
pub mod runs;
pub mod sources;
pub mod vectors;

pub use runs::{Lab, Ran, check_books, costed, ideal, parse};
pub use sources::{Globals, globals, object, presets, repository, shipped, source, telling};
