// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of SD and of RSDL, its other mode: recorded decisions of the original, whole schedules, rules broken one by one, and
//! what the two are known for.

mod callers;
mod decisions;
mod machine;
mod mutations;
mod recorded;
mod rotations;
mod schedules;
