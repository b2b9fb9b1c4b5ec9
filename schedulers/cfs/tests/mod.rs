// SPDX-License-Identifier: GPL-2.0-or-later
//! CFS's arithmetic and decisions, number by number: the C code itself, built for the simulated machine and called a
//! function at a time through vectors.bpf.c and multicore.bpf.c. Times are ns unless named otherwise.

mod balancing;
mod callers;
mod exits;
mod load;
mod machine;
mod multicore;
mod preemption;
mod pushed;
mod queue;
mod realtime;
mod recorded;
