// SPDX-License-Identifier: GPL-2.0-or-later
//! The words that every other crate shares: ids, machines, events.
//!
//! No I/O and no floating point in anything that decides: an arena that produces
//! [`event::Event`]s and a measure that reads them agree here and nowhere else.

pub mod event;
pub mod ids;
pub mod machine;

pub use event::{
    Event, EventKind, EventSink, Overhead, OverheadCause, PrevState, SHELL_PREFIX, SwitchCause,
    TaskInfo, is_shells_name,
};
pub use ids::{Cpu, Tid};
pub use machine::Machine;
