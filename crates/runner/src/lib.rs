// SPDX-License-Identifier: GPL-2.0-or-later
//! A run: a scheduler, a workload and a machine, in either arena, and its results.
//!
//! This is what the command line does, without its flags, exit codes and printing: other programs call it in the same way.
//! Everything that a user can name (`-s`, `-w`, `-m`) is an argument with the same meaning, errors are [`Error`], and
//! progress goes to a [`Progress`]. Nothing here prints or ends the process.
//!
//! ```no_run
//! use tiltyard_runner::simulation::{self, Experiment, Written};
//! use tiltyard_runner::{machines, objects, schedulers, workloads};
//!
//! fn main() -> Result<(), tiltyard_runner::Error> {
//!     let scheduler = objects::native(&schedulers::choose("fifo:slice_ms=5")?, false)?;
//!     let workload = workloads::load("pingpong")?;
//!     let machine = machines::load(machines::DEFAULT)?;
//!     let experiment = Experiment {
//!         duration_ns: Some(2_000_000_000),
//!         ..Experiment::new(&machine, &workload)
//!     };
//!     let run = simulation::run(&experiment, &scheduler, 1, Written::default(), &mut (), &())?;
//!     for app in &run.summary.apps {
//!         println!("{}: p99 of wakeups {} ns", app.app, app.wakeup.p99_ns);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! * Inputs, found in the folder of [`data`]: [`schedulers`], [`workloads`], [`machines`], [`applications`].
//! * The simulated machine: [`objects`] builds schedulers, [`simulation`] executes one run, [`grid`] many in parallel.
//! * Real kernels: [`guest`] describes a job's machine, [`objects::job`] its schedulers; [`kernel_job`] executes the job;
//!   [`kernel_runs`], [`threads`] and [`kernel_fault`] interpret its runs. [`verification`] asks a kernel's verifier.
//! * Output of runs: [`tables`], [`event_dir`] and [`event_files`], described by [`origin`]; [`sim_results`] and
//!   [`kernel_results`] write JSON and reports, which [`results`] reads.
//! * Evaluations of many runs: contests between schedulers ([`campaign`]), claims ([`reproduce`]), causes of a difference between schedulers ([`explain`]), and the
//!   difference between the arenas ([`calibration`], [`fidelity`]). [`lesson`] makes pages for teaching. [`comparison`] puts two results beside each other.
//! * What users type: [`duration`] reads times, [`window`] the part of a run that a timeline shows, [`grouping`] the rows of a
//!   comparison; [`nearest`] finds the known name that is closest to a wrong one; [`source`] names places in files; [`shell`] writes commands with shell quoting.
//! * What users must know of simulated runs: [`sim_error`] says how one failed, [`user_space`] what a scheduler's user-space
//!   half would have done.
//! * Files: [`output`] writes them completely or not at all, [`temporary`] removes those of work that fails, `in_use` keeps
//!   outputs from overwriting inputs. [`program`] is where the `tiltyard` program is.
//! * `error` and `progress` define [`Error`] and [`Progress`].

#![warn(missing_docs)]

pub mod applications;
pub mod calibration;
pub mod campaign;
pub mod comparison;
pub mod data;
pub mod duration;
mod error;
pub mod event_dir;
pub mod event_files;
pub mod explain;
pub mod fidelity;
pub mod grid;
pub mod grouping;
pub mod guest;
mod in_use;
pub mod kernel_fault;
pub mod kernel_job;
pub mod kernel_results;
pub mod kernel_runs;
pub mod lesson;
pub mod machines;
pub mod metric;
pub mod nearest;
pub mod objects;
pub mod origin;
pub mod output;
mod printk;
pub mod program;
mod progress;
pub mod reproduce;
pub mod results;
pub mod schedulers;
pub mod shell;
pub mod sim_error;
pub mod sim_results;
pub mod simulation;
pub mod source;
pub mod stuck;
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
