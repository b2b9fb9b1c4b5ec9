// SPDX-License-Identifier: GPL-2.0-or-later
//! Vector clocks: how much of each CPU's past is known somewhere.

/// For each CPU the number of its latest known step; 0 for none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VectorClock(Vec<u32>);

impl VectorClock {
    pub fn new(nr_cpus: usize) -> VectorClock {
        VectorClock(vec![0; nr_cpus])
    }

    pub fn of(&self, cpu: usize) -> u32 {
        self.0.get(cpu).copied().unwrap_or(0)
    }

    /// The CPU takes a step, which separates what it did before from what it does next.
    pub fn step(&mut self, cpu: usize) {
        self.0[cpu] += 1;
    }

    /// Learns what the other one knows.
    pub fn join(&mut self, other: &VectorClock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }

    pub fn copy_from(&mut self, other: &VectorClock) {
        self.0.clone_from(&other.0);
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|step| *step == 0)
    }
}
