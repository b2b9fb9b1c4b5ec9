// SPDX-License-Identifier: GPL-2.0-or-later
//! Workload files of both dialects: read, written, refused.

mod bad_input;
mod catalogue;
mod events;
mod reference;
mod round_trip;
mod rtapp_examples;
