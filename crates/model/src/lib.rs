// SPDX-License-Identifier: GPL-2.0-or-later
//! The words that every other crate shares: ids, machines, events.
//!
//! No I/O and no floating point in anything that decides: an arena that produces
//! [`event::Event`]s and a measure that reads them agree here and nowhere else.
//!
//! | module | what it is |
//! | --- | --- |
//! | `event` | the events that both arenas produce |
//! | `ids` | ids of CPUs and tasks as types |
//! | `machine` | machines: which CPUs share what, costs, kernel threads, jitter; files and other descriptions of them |

pub mod event;
pub mod ids;
pub mod machine;

pub use event::{
    Event, EventKind, EventSink, Overhead, OverheadCause, PrevState, SHELL_PREFIX, SwitchCause,
    TaskInfo, is_shells_name,
};
pub use ids::{Cpu, Tid};
pub use machine::Machine;
