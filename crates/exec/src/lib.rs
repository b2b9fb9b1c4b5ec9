// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs a workload with real threads, under whatever scheduler is in charge of this machine.
//!
//! The same workload means the same here as in the simulated machine: the same tasks in the same processes under
//! the same names, the same draws from the same streams, the same operations in the same order. What differs is that
//! time is real: `run` is work whose speed was measured beforehand.
//!
//! | module | what it is |
//! | --- | --- |
//! | `supervise` | starts a run, waits for its end, cleans up |
//! | `birth` | shells, processes, threads |
//! | `task`, `meet` | a task's program: alone, and with others |
//! | `world` | what all processes share |
//! | `sync`, `mapping`, `sys` | locks and gates, memory that processes share, system calls |
//! | `burn`, `memory`, `files` | work, memory, pipes and files |
//! | `attrs`, `groups` | scheduling attributes, cgroups |
//! | `costs` | readings of what things take on this machine |
//! | `measure`, `outcome` | requests, marks and CPU time |

mod attrs;
mod birth;
mod burn;
pub mod costs;
mod files;
mod groups;
mod mapping;
mod measure;
mod meet;
mod memory;
mod outcome;
mod supervise;
mod sync;
mod sys;
mod task;
mod world;

use std::sync::Arc;

use thiserror::Error;
use tiltyard_workload::Workload;
use tiltyard_workload::rng::Streams;

use burn::Speed;
use groups::Groups;
use supervise::Warden;
use world::{Parts, World};

pub use outcome::{ExecOutcome, Latency, Mark, Request, TaskTotal};

/// After so long without anybody running a run is given up, unless its [`Setup`] says otherwise.
pub const DEFAULT_STALL_NS: u64 = 10_000_000_000;

/// How to run a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Latest end, from the workload's start; `None`: what the workload says.
    pub duration_ns: Option<u64>,
    pub seed: u64,
    /// Shells sleep no longer than this before the workload starts.
    pub history_limit_ns: u64,
    /// What 1000 steps of `run` take; `None`: measure it.
    pub calibration_ns: Option<u64>,
    /// For a machine whose clock is exact, as a simulated one's: `run` lasts until the task's own CPU clock says so, and
    /// tasks are threads of their shell, which needs no time to speak of to start them.
    pub exact: bool,
    /// A run in which every task waits for another for so long is a deadlock.
    pub stall_ns: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            duration_ns: None,
            seed: 1,
            history_limit_ns: u64::MAX,
            calibration_ns: None,
            exact: false,
            stall_ns: DEFAULT_STALL_NS,
        }
    }
}

/// Why a run has no outcome, in one line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExecError {
    /// The workload is at fault: a deadlock, an unlock of a lock held by another.
    #[error("{0}")]
    Workload(String),
    /// This machine, or our rights on it, will not do.
    #[error("{0}")]
    Environment(String),
    /// Real threads cannot do it yet.
    #[error("{0}")]
    NotModelled(String),
}

/// Runs the workload to its end. `note` gets one line about each thing that is not quite as the file says, before
/// anything runs. Nothing of the run is left when this returns, nor when the calling process ends.
pub fn run(
    workload: &Workload,
    setup: &Setup,
    note: &mut dyn FnMut(&str),
) -> Result<ExecOutcome, ExecError> {
    for task in workload
        .tasks
        .iter()
        .filter(|t| t.memory_bound_permille > 0)
    {
        let name = &task.name;
        note(&format!(
            "stall_share of task '{name}' is left out: here it computes and goes through its working set"
        ));
    }
    let (pipes, notes) = files::pipes(workload)?;
    notes.iter().for_each(|text| note(text));
    let io_device = files::io_device(workload)?;
    let speed = match setup.calibration_ns {
        Some(kilostep_ns) => Speed { kilostep_ns },
        None if setup.exact => Speed::UNKNOWN,
        None => Speed::measure(),
    };
    let groups = make_groups(workload, note);
    let parts = Parts {
        speed,
        exact: setup.exact,
        streams: Streams::new(setup.seed),
        groups,
        pipes,
        io_device,
    };
    let memory = |e| ExecError::Environment(format!("no shared memory: {e}"));
    let world = World::new(workload.clone(), parts).map_err(memory)?;
    let world = Arc::new(world);
    let warden = Warden::start(&world, setup.history_limit_ns)
        .map_err(|e| ExecError::Environment(format!("cannot fork: {e}")))?;
    let outcome = supervise::wait(&world, setup);
    drop(warden);
    outcome
}

fn make_groups(workload: &Workload, note: &mut dyn FnMut(&str)) -> Option<Groups> {
    if workload.groups.is_empty() {
        return None;
    }
    match Groups::new(workload) {
        Ok(groups) => Some(groups),
        Err(why) => {
            note(&format!("cgroups of the workload are ignored: {why}"));
            None
        }
    }
}
