// SPDX-License-Identifier: GPL-2.0-or-later
//! Experiments and the claims that they check: files -> runs to do; tables of runs -> measures; measures -> verdicts.
//! Pure functions; the caller runs things.
//!
//! | module | what it is |
//! | --- | --- |
//! | `experiment` | experiment files: what is run, what is measured, what a source claims |
//! | `job` | what an arena is to do: a run with one scheduler, and the patches onto its workload |
//! | `check` | a claim's check: an expression over measures |
//! | `history` | what was changed about a claim after its first result, and why |
//! | `sql` | measures as SQL: the tables of a run in SQLite |
//! | `connection` | an SQLite database in memory, with functions of our own |
//! | `reads` | which tables and columns queries read |
//! | `common` | what several measures of a run use, evaluated only once |
//! | `absent` | tests that a measure has no value where nothing was recorded |
//! | `judge` | measures of several seeds -> verdicts |
//! | `trial` | claims judged with a scheduler replaced by another or by a variant |
//! | `mutation` | schedulers with one rule broken, and the claims that must detect it |
//! | `parameter` | numbers of the model that were chosen or fitted, and the values to try |
//! | `sensitivity` | verdicts that change when a chosen number changes |
//! | `fits` | the table of fitted numbers and of the verdicts that depend on them |
//! | `picture` | pictures of an experiment that are kept in the tree |
//! | `scoreboard` | verdicts as tables on a terminal |
//! | `page` | `docs/claims.md` and the scoreboard of the README |

pub mod absent;
mod check;
mod common;
mod connection;
mod experiment;
mod fits;
pub mod history;
mod job;
mod judge;
pub mod mutation;
pub mod page;
pub mod parameter;
mod picture;
mod reads;
pub mod scoreboard;
pub mod sensitivity;
mod sql;
mod trial;

pub use check::{Check, ExprError};
pub use experiment::*;
pub use job::{Change, Job, KernelRun};
pub use judge::{ClaimOutcome, Values, Verdict, judge};
pub use picture::Picture;
pub use reads::Reads;
pub use sql::{Database, Measured, Point, SqlError};
pub use trial::{Attempts, Class, Trial, Trials};
