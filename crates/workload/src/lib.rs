// SPDX-License-Identifier: GPL-2.0-or-later
//! Workloads: the rt-app JSON dialect, its one extension key, and what both mean.
//!
//! [`read`] turns the text of a file into a [`Workload`] or into errors that point into it; [`write`]
//! does the reverse, in full or as plain rt-app; [`rng`] draws what a workload leaves to chance, the same in
//! every arena. No function here does I/O. Each key is described
//! in `docs/reference/workload-files.md`, what each part of a workload means in [`program`].
//!
//! ```
//! use tiltyard_workload::{Dialect, read, write};
//!
//! let text = r#"{ "tasks": { "worker": { "loop": -1, "run": 2000, "sleep": 8000 } } }"#;
//! let workload = read(text, "mine.json").expect("a workload");
//! assert_eq!(workload.tasks[0].name, "worker");
//! assert!(write(&workload, Dialect::RtApp).is_ok());
//!
//! let errors = read(r#"{ "tasks": { "worker": { "rnu": 5 } } }"#, "mine.json").unwrap_err();
//! assert_eq!(errors[0].to_string(), "mine.json:1:26: rnu: unknown key; did you mean run?");
//! ```

mod endless;
mod error;
mod index;
mod json;
mod keys;
mod patch;
pub mod program;
mod read;
pub mod rng;
mod schema;
mod units;
mod visit;
mod write;

pub use error::{PatchError, ReadError, WriteError};
pub use patch::{patch, scale};
pub use program::*;
pub use read::read;
pub use schema::schema;
pub use write::{Dialect, write};
