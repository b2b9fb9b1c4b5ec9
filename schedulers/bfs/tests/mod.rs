// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of BFS: its recorded decisions and schedules, its rules broken one by one, what it is known for.

mod behaviour;
mod callers;
mod decisions;
mod fake;
mod mutations;
mod places;
mod scripts;
