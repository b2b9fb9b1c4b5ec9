// SPDX-License-Identifier: GPL-2.0-or-later
//! What a run with real threads comes to.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecOutcome {
    /// When the workload started, on this machine's monotonic clock.
    pub origin_ns: u64,
    /// From the workload's start to its end.
    pub duration_ns: u64,
    /// Whether every task that the run waits for has ended; else its time was up.
    pub done: bool,
    /// What 1000 steps of `run` take on this machine.
    pub calibration_ns: u64,
    /// One for each task of the file, in its order.
    pub tasks: Vec<TaskTotal>,
    pub requests: Vec<Request>,
    pub marks: Vec<Mark>,
}

/// All instances of a task together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskTotal {
    pub name: String,
    pub started: u32,
    pub ended: u32,
    pub cpu_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub name: String,
    /// App of the first task of the file that makes some.
    pub app: String,
    pub count: u64,
    /// First beginning and last end, from the workload's start.
    pub first_ns: u64,
    pub last_ns: u64,
    /// Over the time from the first beginning to the last end.
    pub per_s: f64,
    /// `None` where requests are only counted.
    pub latency: Option<Latency>,
}

/// The mean is exact, the rest to 1/64.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
}

/// Times count from the workload's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    pub name: String,
    pub count: u64,
    pub first_ns: u64,
    pub last_ns: u64,
}
