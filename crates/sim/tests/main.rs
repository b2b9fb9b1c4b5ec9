// SPDX-License-Identifier: GPL-2.0-or-later
//! The engine and its scheduling core, from outside: workloads under schedulers on simulated machines.

mod accesses;
mod common;
mod contention;
mod costs;
mod failures;
mod jitter;
mod kernel_threads;
mod kick_wait;
mod memory;
mod noise;
mod programs;
mod properties;
mod races;
mod rules;
#[path = "../../tiltyard/tests/sample/mod.rs"]
mod sample;
mod selftests;
mod stuck;
mod upstream;
mod waste;
mod weighing;
