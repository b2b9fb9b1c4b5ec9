// SPDX-License-Identifier: GPL-2.0-or-later
//! Tells the sink on which CPUs each task may run.

use std::collections::HashMap;
use std::ops::Range;

use tiltyard_model::EventKind;

use crate::engine::Engine;
use crate::task::TaskId;

/// The numbers under which the sink knows sets of CPUs.
#[derive(Debug, Default)]
pub struct CpuSets {
    numbers: HashMap<Vec<Range<u32>>, u32>,
}

impl Engine<'_> {
    /// Declares set 0, every CPU, which tasks have unless told otherwise.
    pub(crate) fn declare_cpus(&mut self) {
        let all = self.topology.online.ranges();
        self.cpu_set(all);
    }

    /// A task's affinity is no longer what the sink knows.
    pub(crate) fn tell_affinity(&mut self, id: TaskId) {
        let cpus = self.tasks[id.index()].cpus.ranges();
        let set = self.cpu_set(cpus);
        let task = id.tid();
        self.emit(self.exec_cpu, EventKind::Affinity { task, set });
    }

    fn cpu_set(&mut self, cpus: Vec<Range<u32>>) -> u32 {
        let numbers = &mut self.cpu_sets.numbers;
        let next = numbers.len() as u32;
        let sink = &mut self.sink;
        *numbers.entry(cpus).or_insert_with_key(|cpus| {
            sink.cpu_set(next, cpus);
            next
        })
    }
}
