// SPDX-License-Identifier: GPL-2.0-or-later
//! What a scheduler's user-space half does before and while the scheduler runs: it sets variables, fills maps, sets flags
//! and calls programs. [`Environment`] describes this in terms of a machine, [`Environment::plan`] computes the values for
//! one machine, and a loader, for the simulated machine or a real kernel, carries out the plan.
//!
//! docs/reference/presets.md describes the table `[environment]` for users.
//!
//! | module | what it is |
//! | --- | --- |
//! | `table` | reads the table `[environment]` of a scheduler's `presets.toml` |
//! | `facts` | what expressions may ask about a machine, and the parts over which they may range |
//! | `plan` | the values of an environment for one machine |
//! | `bytes` | numbers of a plan as they lie in the scheduler's memory |
//!
//! `usual.toml` has the constants that get a value in every scheduler that declares them.

mod bytes;
mod facts;
mod plan;
mod table;

pub use bytes::{Field, Number, NumberKind};
pub use plan::{Call, Entry, Flag, Moment, Plan, Room, Scheduler, Variable};
pub use table::{EMPTY, Environment, EnvironmentError};
