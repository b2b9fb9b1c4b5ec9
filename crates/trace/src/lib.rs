// SPDX-License-Identifier: GPL-2.0-or-later
//! The events of a run as a file: written by both arenas, and read where neither exists.
//!
//! * [`Recording`] is a sink that keeps the events of one run; [`Ended::write`] makes a file of them.
//! * [`Reader`] checks a file and replays its events to any sink.
//! * [`About`] is the head of a file: what ran, where, under which scheduler, and from when to when.
//!
//! docs/reference/event-files.md defines the format. Memory does not grow with the number of events on either side, the
//! same run gives the same bytes, and a file that lacks a byte or has a wrong one is an error.
//!
//! | module | what it is |
//! | --- | --- |
//! | `about` | the head of a file: what is known about a run besides its events |
//! | `record` | one event as bytes |
//! | `bytes` | numbers and names as bytes |
//! | `block` | blocks of records, compressed, with checks between them |
//! | `check` | what holds for the events of every file; writer and reader check it |
//! | `recording` | the sink that keeps the events of a run, and the file made of them |
//! | `reader` | reads a file: its head at once, its events to a sink |

mod about;
mod block;
mod bytes;
mod check;
mod reader;
mod record;
mod recording;

pub use about::{About, Arena, Machine, Topology};
pub use check::{MAX_CPUS, MAX_TID};
pub use reader::{ReadError, Reader};
pub use record::MAX_NAME_BYTES;
pub use recording::{Ended, Recording, WriteError};

/// The version of the format that this crate writes.
pub const VERSION: u32 = 3;

/// The first version that it reads. Version 1 has neither sets of CPUs nor affinities, version 2 no searches for CPUs.
pub const FIRST_VERSION: u32 = 1;

/// What every file begins with.
pub const MAGIC: [u8; 8] = *b"tiltevts";

/// The usual ending of a file's name.
pub const EXTENSION: &str = "events";
