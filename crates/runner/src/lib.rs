// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs: a scheduler, a workload and a machine, in either arena, and what comes out of them.
pub mod applications;
pub mod calibration;
pub mod data;
pub mod duration;
mod error;
pub mod event_dir;
pub mod event_files;
pub mod fidelity;
pub mod grid;
pub mod grouping;
pub mod guest;
pub mod kernel_fault;
pub mod kernel_runs;
pub mod machines;
pub mod nearest;
pub mod objects;
pub mod origin;
pub mod output;
pub mod program;
mod progress;
pub mod reproduce;
pub mod results;
pub mod schedulers;
pub mod sim_error;
pub mod simulation;
pub mod tables;
pub mod temporary;
pub mod threads;
pub mod user_space;
pub mod verification;
pub mod window;
pub mod workloads;

pub use error::{Error, InputFault, Role, SourceSpan};
pub use progress::{Progress, Total};

/// The version that results and tables record.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
