// SPDX-License-Identifier: GPL-2.0-or-later
//! Workloads: the rt-app JSON dialect, its one extension key, and what both mean.
//!
//! [`read`] turns the text of a file into a [`Workload`] or into errors that point into it; [`write`]
//! does the reverse, in full or as plain rt-app; [`rng`] draws what a workload leaves to chance, the same in
//! every arena. No function here does I/O. Each key is described
//! in `docs/reference/workload-files.md`, what each part of a workload means in [`program`].
//!
//! | module | what it is |
//! | --- | --- |
//! | `program` | what a workload is once it has been read: tasks, what they do, what they share |
//! | `read` | text of a file -> workload |
//! | `write` | workload -> text, in full or as plain rt-app |
//! | `json` | JSON as rt-app's files use it, with the place of every key |
//! | `keys` | which keys exist where, and which one was probably meant |
//! | `units` | numbers as written -> integers |
//! | `index` | the text form of an index: `(i/20)*20+j` |
//! | `visit` | questions about all operations of a workload |
//! | `endless` | finds workloads that cannot end by themselves |
//! | `patch` | files with some of their numbers changed |
//! | `schema` | a JSON schema of workload files, for editors |
//! | `rng` | named random streams |
//! | `error` | what is wrong with a file, and where |
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
