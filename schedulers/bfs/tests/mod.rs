// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of BFS: its numbers, its recorded decisions and schedules.

mod decisions;
mod fake;
mod scripts;
