// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of ULE: its arithmetic, its decisions on several CPUs, what it is known for, and its data races.

mod behaviour;
mod callers;
mod changes;
mod fake;
mod hogs;
mod multicore;
mod one_pair;
mod races;
mod vectors;
