// SPDX-License-Identifier: GPL-2.0-or-later
//! The numbers under which the sink knows sets of CPUs.

use std::collections::HashMap;
use std::ops::Range;

use tiltyard_model::EventSink;

#[derive(Debug, Default)]
pub struct CpuSets {
    numbers: HashMap<Vec<Range<u32>>, u32>,
}

impl CpuSets {
    /// The number of a set; a new one is declared.
    pub fn number(&mut self, cpus: Vec<Range<u32>>, sink: &mut dyn EventSink) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(cpus).or_insert_with_key(|cpus| {
            sink.cpu_set(next, cpus);
            next
        })
    }
}
