// SPDX-License-Identifier: GPL-2.0-or-later
//! Scheduler objects for the simulated machine: their description and a private,
//! callable copy of each. Knows no engine: whoever calls binds the functions that
//! the scheduler needs.

mod fault;
mod helpers;
mod image;
pub mod instance;
pub mod layout;
mod memory;
pub mod object;

pub use instance::{
    Crash, EntryPoint, Instance, LINE_BYTES, LineRange, LineTable, LoadError, Value,
};
pub use memory::Memory;
pub use object::Object;
