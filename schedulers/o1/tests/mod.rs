// SPDX-License-Identifier: GPL-2.0-or-later
//! O(1)'s arithmetic and decisions: the C code itself, built for the simulated machine and called a function at a time
//! through decisions.bpf.c. Times are ns unless named otherwise.

mod behaviour;
mod bookkeeping;
mod callers;
mod decisions;
mod estimator;
mod multicore;
mod mutations;
mod recorded;
mod traces;
mod turns;
mod world;
