// SPDX-License-Identifier: GPL-2.0-or-later
//! Workloads: the rt-app JSON dialect, its one extension key, and what both mean.

mod error;
mod index;
mod json;
mod keys;
pub mod program;
mod read;
mod units;
mod write;

pub use error::{ReadError, WriteError};
pub use program::*;
pub use read::read;
pub use write::{Dialect, write};
