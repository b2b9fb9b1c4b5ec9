// SPDX-License-Identifier: GPL-2.0-or-later
//! What holds for the events of every file, so that a sink need not expect otherwise. The writer checks it as well as
//! the reader: no file is written that cannot be read.

use std::ops::Range;

use tiltyard_model::{Cpu, Event, EventKind, TaskInfo, Tid, machine};

use crate::bytes::Wrong;
use crate::record::MAX_NAME_BYTES;

/// Tids are below it; Linux gives out none above 2^22.
pub const MAX_TID: u32 = 1 << 24;

/// Most CPUs of a machine.
pub const MAX_CPUS: u32 = machine::Machine::MAX_CPUS as u32;

/// No run ends later: 146 years. Widths of curves and sums of times stay within 64 bits.
pub const MAX_END_NS: u64 = 1 << 62;

/// What the events may name, and what they have named so far.
#[derive(Debug)]
pub struct Check {
    nr_cpus: u32,
    end_ns: u64,
    /// Time of the last event; 0 before the first.
    pub last_ns: u64,
    /// The highest number of a CPU.
    pub max_cpu: u32,
    /// Sets of CPUs that were declared: their numbers count up from 0.
    nr_sets: u32,
    /// Affinities are reported of all tasks or of none.
    has_tasks: bool,
}

impl Check {
    /// CPUs are below `nr_cpus`, and no event is later than `end_ns`.
    pub fn new(nr_cpus: u32, end_ns: u64) -> Check {
        Check {
            nr_cpus,
            end_ns,
            last_ns: 0,
            max_cpu: 0,
            nr_sets: 0,
            has_tasks: false,
        }
    }

    pub fn task(&mut self, info: &TaskInfo) -> Result<(), Wrong> {
        self.has_tasks = true;
        self.name(&info.name)?;
        self.name(&info.app)?;
        task(info.tid)?;
        tids(&[info.tgid, info.parent])
    }

    pub fn name(&self, name: &str) -> Result<(), Wrong> {
        require(name.len() <= MAX_NAME_BYTES)
    }

    pub fn cpu_set(&mut self, set: u32, cpus: &[Range<u32>]) -> Result<(), Wrong> {
        require(set == self.nr_sets && !cpus.is_empty())?;
        require(set > 0 || !self.has_tasks)?;
        self.nr_sets += 1;
        let apart = cpus.windows(2).all(|pair| pair[0].end < pair[1].start);
        require(apart && cpus.iter().all(|range| range.start < range.end))?;
        let last = cpus.last().map_or(0, |range| range.end - 1);
        self.cpu(Cpu(last))
    }

    pub fn event(&mut self, event: &Event) -> Result<(), Wrong> {
        require((self.last_ns..=self.end_ns).contains(&event.time_ns))?;
        self.last_ns = event.time_ns;
        self.cpu(event.cpu)?;
        match event.kind {
            EventKind::Switch { prev, next, .. } => tids(&[prev, next]),
            EventKind::Wakeup {
                task: woken,
                waker,
                target,
            } => {
                self.cpu(target)?;
                task(woken)?;
                tids(&[waker])
            }
            EventKind::WakeupNew { task: new, target } => {
                self.cpu(target)?;
                task(new)
            }
            EventKind::Migrate {
                task: moved,
                from,
                to,
            } => {
                self.cpu(from)?;
                self.cpu(to)?;
                task(moved)
            }
            EventKind::Fork { parent, child } => {
                task(child)?;
                tids(&[parent])
            }
            EventKind::Exit { task: own }
            | EventKind::Nice { task: own, .. }
            | EventKind::Request { task: own, .. }
            | EventKind::Mark { task: own, .. } => task(own),
            EventKind::Affinity { task: own, set } => {
                require(set < self.nr_sets)?;
                task(own)
            }
            EventKind::RunqueueLock { of, .. } => self.cpu(of),
            EventKind::Probe { .. } | EventKind::Access { .. } | EventKind::Overhead(_) => Ok(()),
        }
    }

    fn cpu(&mut self, cpu: Cpu) -> Result<(), Wrong> {
        self.max_cpu = self.max_cpu.max(cpu.0);
        require(cpu.0 < self.nr_cpus)
    }
}

/// A task that is not the idle one.
fn task(tid: Tid) -> Result<(), Wrong> {
    require(tid != Tid::IDLE)?;
    tids(&[tid])
}

fn tids(all: &[Tid]) -> Result<(), Wrong> {
    require(all.iter().all(|tid| tid.0 < MAX_TID))
}

fn require(holds: bool) -> Result<(), Wrong> {
    match holds {
        true => Ok(()),
        false => Err(Wrong),
    }
}
