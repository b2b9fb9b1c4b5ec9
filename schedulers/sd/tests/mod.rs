// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of SD and of RSDL, its other mode: recorded decisions of the original, whole schedules, and what the two are
//! known for.

mod callers;
mod decisions;
mod machine;
mod recorded;
mod rotations;
mod schedules;
