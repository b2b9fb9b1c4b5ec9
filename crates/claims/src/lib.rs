// SPDX-License-Identifier: GPL-2.0-or-later
//! Experiments and the claims that they check: files -> runs to do; tables of runs -> measures; measures -> verdicts.
//! Pure functions; the caller runs things.

pub mod absent;
mod check;
mod experiment;
mod fits;
pub mod history;
mod judge;
pub mod mutation;
pub mod page;
pub mod parameter;
mod picture;
pub mod scoreboard;
pub mod sensitivity;
mod sql;
mod trial;

pub use check::{Check, ExprError};
pub use experiment::*;
pub use judge::{ClaimOutcome, Values, Verdict, judge};
pub use picture::Picture;
pub use sql::{Database, Measured, Point, Reads, SqlError};
pub use trial::{Attempts, Class, Trial, Trials};
