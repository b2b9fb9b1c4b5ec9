// SPDX-License-Identifier: GPL-2.0-or-later
//! What a scheduler's user-space half would do with the machine before and while its scheduler runs: set variables,
//! fill maps, set flags, call programs. [`Environment`] describes this in terms of the machine; [`Environment::plan`]
//! gives the values for one machine; a loader, for the simulated machine or a real kernel, carries the plan out.
//!
//! docs/reference/presets.md describes the table `[environment]` for users.

mod facts;
mod plan;
mod table;

pub use plan::{Call, Entry, Field, Flag, Moment, Plan, Room, Scheduler, Variable};
pub use table::{EMPTY, Environment, EnvironmentError};
