// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of 4BSD: its arithmetic, the recorded decisions of the original, its rules broken one by one, and what it is known for.

mod arithmetic;
mod behaviour;
mod callers;
mod decisions;
mod machine;
mod mutations;
mod queues;
mod records;
mod scripts;
