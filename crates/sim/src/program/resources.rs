// SPDX-License-Identifier: GPL-2.0-or-later
//! What tasks share: locks, queues, devices. State only; `sync` defines how tasks use it.

use super::Waiters;
use crate::task::TaskId;
use std::collections::BTreeSet;
use tiltyard_workload::Workload;

#[derive(Debug, Default)]
pub struct MutexState {
    pub owner: Option<TaskId>,
    /// There may be waiters: only then does an unlock wake the first waiter (FUTEX_WAITERS).
    pub contended: bool,
    pub waiters: Waiters,
}

#[derive(Debug, Default)]
pub struct BarrierState {
    pub parties: u32,
    pub spin_ns: u64,
    /// How often it has opened.
    pub generation: u64,
    pub arrived: u32,
    pub sleepers: Waiters,
    pub spinners: Vec<TaskId>,
}

#[derive(Debug, Default)]
pub struct SemState {
    pub count: u64,
    pub waiters: Waiters,
}

#[derive(Debug, Default)]
pub struct PipeState {
    pub capacity_bytes: u64,
    pub fill_bytes: u64,
    pub readers: Waiters,
    pub writers: Waiters,
}

#[derive(Debug, Default)]
pub struct DeviceState {
    pub channels: u32,
    /// Requests being served: end time, order, task.
    pub serving: BTreeSet<(u64, u64, TaskId)>,
    /// Requests that wait for a channel, with their service time.
    pub queue: std::collections::VecDeque<(TaskId, u64)>,
    pub seq: u64,
}

#[derive(Debug)]
pub struct Resources {
    pub mutexes: Vec<MutexState>,
    pub conds: Vec<Waiters>,
    pub barriers: Vec<BarrierState>,
    pub sems: Vec<SemState>,
    pub pipes: Vec<PipeState>,
    pub devices: Vec<DeviceState>,
    pub places: Vec<Waiters>,
    pub counters: Vec<u64>,
    /// Next base of each shared rt-app timer; `None` until its first use.
    pub timers: Vec<Option<u64>>,
}

impl Resources {
    pub fn new(workload: &Workload) -> Resources {
        Resources {
            mutexes: workload
                .mutexes
                .iter()
                .map(|_| MutexState::default())
                .collect(),
            conds: workload.conds.iter().map(|_| Waiters::new()).collect(),
            barriers: workload
                .barriers
                .iter()
                .map(|b| BarrierState {
                    parties: b.parties,
                    spin_ns: b.spin_ns,
                    ..Default::default()
                })
                .collect(),
            sems: workload
                .sems
                .iter()
                .map(|s| SemState {
                    count: s.initial,
                    ..Default::default()
                })
                .collect(),
            pipes: workload
                .pipes
                .iter()
                .map(|p| PipeState {
                    capacity_bytes: p.capacity_bytes,
                    ..Default::default()
                })
                .collect(),
            devices: workload
                .devices
                .iter()
                .map(|d| DeviceState {
                    channels: d.channels,
                    ..Default::default()
                })
                .collect(),
            places: workload.places.iter().map(|_| Waiters::new()).collect(),
            counters: workload.counters.iter().map(|c| c.start).collect(),
            timers: vec![None; workload.timers.len()],
        }
    }
}
