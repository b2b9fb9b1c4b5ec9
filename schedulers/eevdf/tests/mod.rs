// SPDX-License-Identifier: GPL-2.0-or-later
//! EEVDF's arithmetic and decisions, number by number: the C code itself, built for the simulated machine and called a
//! function at a time through vectors.bpf.c.
//!
//! kernel.jsonl.zst: 2925 results of Linux 6.18.2 (`kernel/sched/fair.c`), compiled in user space and run on made-up
//! queues and scripts. Facts: inputs and outputs, no code. One JSON object a line; `zstdcat` shows them. Where it has
//! `exact`, that is compared: the kernel's tree forgets a shorter slice when it is rotated, ours does not.

mod balancing;
mod cpus;
mod decisions;
mod groups;
mod machine;
mod mutations;
mod passes;
mod reweighted;
mod schedules;
