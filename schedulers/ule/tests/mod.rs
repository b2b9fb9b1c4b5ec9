// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of ULE: its arithmetic, what it is known for, and its data races.

mod behaviour;
mod hogs;
mod races;
mod vectors;
