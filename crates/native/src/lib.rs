// SPDX-License-Identifier: GPL-2.0-or-later
//! Scheduler objects for the simulated machine: their description and a private,
//! callable copy of each. Knows no engine: whoever calls binds the functions that
//! the scheduler needs.
//!
//! | module | what it is |
//! | --- | --- |
//! | `object` | a scheduler as built: its image and everything an engine must know to call it |
//! | `image` | the ELF image: symbols, initial values, a private copy in memory |
//! | `instance` | a private, callable copy of an object |
//! | `lines` | cache lines of a scheduler's data: who has them, and what it costs to get them |
//! | `memory` | memory that a scheduler may write besides its own variables |
//! | `fault` | faults inside schedulers end the call, not the process |
//! | `layout` | the kernel's structs as schedulers see them |
//! | `helpers` | names of BPF helpers, for messages |

mod fault;
mod helpers;
mod image;
pub mod instance;
pub mod layout;
pub mod lines;
mod memory;
pub mod object;

pub use instance::{Crash, EntryPoint, Instance, LoadError, Value};
pub use lines::LINE_BYTES;
pub use memory::Memory;
pub use object::Object;
